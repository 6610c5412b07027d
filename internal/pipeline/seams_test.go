package pipeline

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Where gates, order, restarts and groups meet.

func ordered(d *posthaste.Definition) { d.Ordered = posthaste.OrderedByEndpoint }

// A limit lets nothing pass for longer than the engine looks ahead: the ordered
// endpoint has to be looked at again when its next slot comes, and not by chance.
func TestAnOrderedEndpointReachesItsLimit(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	one := 1
	e.endpoint(r.URL, func(d *posthaste.Definition) {
		ordered(d)
		d.RateLimit = &posthaste.RateLimit{RPS: 2, Burst: &one}
	})
	var want []string
	for i := range 7 {
		want = append(want, fmt.Sprint(i))
		e.send("a", want[i])
	}
	e.eventually(4500*time.Millisecond, "all have arrived", func() bool { return len(r.seen()) == 7 }) // 3 s by the limit
	if got := r.seen(); !slices.Equal(got, want) {
		t.Errorf("arrived as %v", got)
	}
	e.verified()
}

func TestAnOrderedEndpointReachesItsLimitForRetries(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 500, 500, 500, 500)
	rps := 2.0
	e.endpoint(r.URL, func(d *posthaste.Definition) {
		ordered(d)
		d.Retry.RPS = &rps
		d.Retry.Schedule = slices.Repeat([]posthaste.Duration{posthaste.Duration(10 * time.Millisecond)}, 8)
	})
	e.send("a", "first")
	e.send("a", "second")
	e.eventually(4*time.Second, "both have arrived", func() bool { return len(r.seen()) == 6 }) // 2 s by the limit
	e.verified()
}

// The head ends without an attempt; what is behind it must not wait for a look.
func TestWhatFollowsAnExpiredHead(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 500)
	e.endpoint(r.URL, func(d *posthaste.Definition) {
		ordered(d)
		d.Retry.Deadline = posthaste.Duration(2 * time.Second)
		d.Retry.Schedule = []posthaste.Duration{posthaste.Duration(time.Hour)}
	})
	began := time.Now()
	first := e.send("a", "first")
	e.eventually(5*time.Second, "most of its time is over", func() bool { return time.Since(began) > 1500*time.Millisecond })
	second := e.send("a", "second")
	if d, _ := e.ended(second.ID, 1); d.State != posthaste.StateDelivered {
		t.Errorf("the second one: %+v", d)
	}
	if d, _ := e.ended(first.ID, 1); d.Reason != posthaste.ReasonExpired {
		t.Errorf("the first one: %+v", d)
	}
	e.verified()
}

// Refusals, and failures that no breaker counts, change nothing in the gate once it
// says since when the endpoint fails.
func TestAnEndpointThatAlwaysFailedIsDisabledWithoutABreaker(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusBadRequest} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			e := startEngine(t, func(c *Config) { c.DisableAfter = time.Hour })
			r := newReceiver(t, slices.Repeat([]int{status}, 100)...)
			row := e.endpoint(r.URL, func(d *posthaste.Definition) { d.Breaker = nil })
			_, err := e.store.ChangeGate(t.Context(), row.No, func(s gate.State) gate.State {
				s.FailingSince = time.Now().Add(-2 * time.Hour)
				return s
			})
			if err != nil {
				t.Fatal(err)
			}
			e.eventually(5*time.Second, "the gate is known", func() bool { return !e.gates.state(row.No).FailingSince.IsZero() })
			e.send("a", "x")
			e.eventually(5*time.Second, "it is disabled", func() bool { return e.routing.current(row.No).row.Disabled })
		})
	}
}

// Two failures a week apart, with nothing sent between them, are not a week of failing.
func TestAnEndpointThatIsSeldomSentToIsNotDisabledByItsNextFailure(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 500, 500)
	row := e.endpoint(r.URL, nil)
	_, err := e.store.ChangeGate(t.Context(), row.No, func(s gate.State) gate.State {
		s.FailingSince, s.FailedAt = time.Now().Add(-7*24*time.Hour), time.Now().Add(-7*24*time.Hour)
		return s
	})
	if err != nil {
		t.Fatal(err)
	}
	e.eventually(5*time.Second, "the gate is known", func() bool { return !e.gates.state(row.No).FailingSince.IsZero() })
	if d, _ := e.ended(e.send("a", "x").ID, 1); d.State != posthaste.StateDelivered {
		t.Errorf("%+v", d)
	}
	e.verified()
}

// Whoever holds an open breaker's row locked makes it a gate that is not there. What is
// claimed past it must not be stopped by what is remembered of it, and go round in circles.
func TestALockedGateThatIsOpen(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 500)
	row := e.endpoint(r.URL, shortBreaker(1, 300*time.Millisecond))
	got := e.send("a", "x")
	e.eventually(5*time.Second, "the breaker is open", func() bool { return e.gate(row.No).Breaker == gate.Open })
	e.flaky.lockGates.Store(true)
	if d, attempts := e.ended(got.ID, 1); d.State != posthaste.StateDelivered || len(attempts) != 2 {
		t.Errorf("%+v %+v", d, attempts)
	}
	if n := testutil.ToFloat64(e.metrics.GivenBack.WithLabelValues("gate closed")); n > 5 {
		t.Errorf("given back %v times", n)
	}
	e.verified()
}

// The version that goes along with an accept is that of the endpoints that were
// matched, not of those that were learned of since.
func TestAnAcceptSaysWhichRoutingItWasMatchedBy(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	s := newSubmission(Submission{Tenant: e.tenant, Event: posthaste.Event{Type: "a", Source: "api"}})
	if err := e.ensureRouting(t.Context(), []*submission{s}); err != nil {
		t.Fatal(err)
	}
	matchedBy := e.routing.of(e.tenant.No).version()
	e.matchAgain(s, unstored)
	batch := e.prepare([]*submission{s})
	e.endpoint(r.URL, nil)
	for _, v := range e.acceptParams(batch).Routing {
		if v.Tenant == e.tenant.No && v.Version != matchedBy {
			t.Errorf("matched by version %d, and says %d", matchedBy, v.Version)
		}
	}
	e.giveUp(batch, unstored, errStopping)
}

// A claim through a gate that is under way when the engine stops belongs to what is
// given back, unused.
func TestAClaimThroughAGateDuringShutdown(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, ordered)
	claimed := make(chan struct{})
	var once sync.Once
	hold := func() {
		once.Do(func() {
			close(claimed)
			stopped := func() bool { e.lanes.mu.Lock(); defer e.lanes.mu.Unlock(); return e.lanes.stopped }
			for end := time.Now().Add(time.Second); time.Now().Before(end) && !stopped(); {
				e.pause(context.Background(), 5*time.Millisecond)
			}
			e.pause(context.Background(), 50*time.Millisecond)
		})
	}
	e.flaky.claimedThrough.Store(&hold)
	got := e.send("a", "x")
	<-claimed
	e.stop()
	if d := e.delivery(got.ID, 1); d.State != posthaste.StatePending || d.Attempts != 0 {
		t.Errorf("given back as %+v", d)
	}
}

// Two deliveries under one id, with different bytes, come at once: the loser's children
// must not name a parent that was never stored.
func TestChildrenOfAParentThatLost(t *testing.T) {
	onBoth(t, func(t *testing.T, e *engine) {
		var rival posthaste.ID
		var once sync.Once
		overtake := func(p store.AcceptParams) error {
			var err error
			once.Do(func() {
				at := slices.IndexFunc(p.Events, func(ev store.NewEvent) bool { return ev.Type == "meta.webhook" })
				other := p.Events[at]
				other.ID, other.Payload, other.Sum = e.ledger.mint(e.Now()).id, []byte("others"), store.Hash{1}
				other.CorrelationID, rival = other.ID, other.ID
				p.Events = []store.NewEvent{other}
				_, err = e.flaky.Store.Accept(t.Context(), p)
			})
			return err
		}
		e.flaky.refuse.Store(&overtake)
		parent, children := e.family("d_1", 3)
		got := e.together(parent, children)
		if !got[0].Duplicate || !got[0].Differs || got[0].ID != rival {
			t.Errorf("the parent: %+v, want it to be %x", got[0], rival)
		}
		if stored := e.children(rival); len(stored) != 3 || stored[0].CorrelationID != rival {
			t.Errorf("children of the parent that was stored: %+v", stored)
		}
		if n := e.events(); n != 4 {
			t.Errorf("%d events", n)
		}
		e.verified()
	})
}

// An endpoint that a later version of the program has defined must not stop a tenant, or
// the heartbeat that learns of it; what is for it is kept.
func TestAnEndpointThatCannotBeReadStopsNobody(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	bad := e.endpoint(r.URL, nil)
	bad.Ordered = "by the moon"
	_, err := e.store.UpdateEndpoint(t.Context(), store.UpdateEndpointParams{Tenant: e.tenant.No, Endpoint: bad.Endpoint, FromVersion: bad.Version})
	if err != nil {
		t.Fatal(err)
	}
	e.eventually(5*time.Second, "it is known", func() bool { return e.routing.current(bad.No).unusable != nil })
	got := e.send("a", "x")
	if d, _ := e.ended(got.ID, 1); d.State != posthaste.StateDelivered {
		t.Errorf("the other endpoint: %+v", d)
	}
	if d := e.delivery(got.ID, 2); got.Deliveries != 2 || d.State != posthaste.StatePending || d.Attempts != 0 {
		t.Errorf("its own: %+v", d)
	}
	if err := e.Ready(); err != nil {
		t.Error(err)
	}
	e.verified()
}

// A retry that waits when its endpoint becomes ordered is not made before its time.
func TestAWaitingRetryOfAnEndpointThatBecomesOrdered(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 500)
	row := e.endpoint(r.URL, func(d *posthaste.Definition) {
		d.Retry.Schedule = []posthaste.Duration{posthaste.Duration(3 * time.Second)}
	})
	began := time.Now()
	first := e.send("a", "first")
	e.eventually(5*time.Second, "it failed", func() bool { return e.delivery(first.ID, 1).Attempts == 1 })
	_, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, func(row *store.EndpointRow) error { ordered(&row.Definition); return nil })
	if err != nil {
		t.Fatal(err)
	}
	second := e.send("a", "second")
	for _, got := range []Receipt{first, second} {
		if d, _ := e.ended(got.ID, 1); d.State != posthaste.StateDelivered {
			t.Errorf("%+v", d)
		}
	}
	if took := time.Since(began); took < 2900*time.Millisecond {
		t.Errorf("both had arrived after %s, the retry was due after 3 s", took)
	}
	if got := r.seen(); !slices.Equal(got, []string{"first", "first", "second"}) {
		t.Errorf("arrived as %v", got)
	}
	e.verified()
}

// A limit for retries alone holds back retries, not the new events before and behind them.
func TestNewEventsDoNotWaitForSlotsOfRetries(t *testing.T) {
	e, r := startEngine(t, nil), newClockwork(t)
	r.delay = 30 * time.Millisecond
	r.answer = func(_, attempt string) int { // the first few fail once
		if r.failed < 3 && attempt == "1" {
			r.failed++
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}
	rps := 0.5
	e.endpoint(r.URL, func(d *posthaste.Definition) {
		d.MaxInFlight, d.Retry.RPS = 2, &rps
		d.Retry.Schedule = []posthaste.Duration{posthaste.Duration(10 * time.Millisecond)}
	})
	const n = 60 // six times as many as there is room for
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { e.send("a", fmt.Sprint(i)) })
	}
	wg.Wait()
	e.eventually(3*time.Second, "all have arrived", func() bool { // 0.9 s by the slots
		_, bodies := r.seen()
		slices.Sort(bodies)
		return len(slices.Compact(bodies)) == n
	})
	e.eventually(10*time.Second, "the retries, too", func() bool { at, _ := r.seen(); return len(at) == n+3 }) // 4 s by their limit
	e.verified()
}

// With its lane full an endpoint behind a gate waits for room; it does not ask for some
// again and again.
func TestAFullLaneBehindAGateIsQuiet(t *testing.T) {
	var looks atomic.Int64
	e := startEngine(t, func(c *Config) {
		c.Now = func() time.Time { looks.Add(1); return time.Now() }
	})
	release := make(chan struct{})
	r := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(r.Close)
	t.Cleanup(sync.OnceFunc(func() { close(release) }))
	row := e.endpoint(r.URL, func(d *posthaste.Definition) {
		d.MaxInFlight, d.Retry.Timeout = 2, posthaste.Duration(20*time.Second)
		d.RateLimit = &posthaste.RateLimit{RPS: 10_000}
	})
	for i := range 40 {
		e.send("a", fmt.Sprint(i))
	}
	e.eventually(5*time.Second, "the lane is full and more is due", func() bool {
		running, waiting := e.lanes.counts()
		return running+waiting == 2*roomPerSlot && e.agenda.isReady(row.No)
	})
	before, began := looks.Load(), time.Now()
	e.eventually(5*time.Second, "a second is over", func() bool { return time.Since(began) > time.Second })
	if n := looks.Load() - before; n > 5000 {
		t.Errorf("the clock was read %d times within a second", n)
	}
}

// More retries than one look covers can be due at the very same moment, as after a
// reclaim. No look gets past them: then it is not repeated before one of them may go.
func TestAWallOfRetriesIsNotLookedAtAgainAndAgain(t *testing.T) {
	e := startEngine(t, nil)
	row := e.endpoint("http://127.0.0.1:1", nil)
	e.stop()
	at, now := e.Now().Add(-time.Second), e.Now()
	e.agenda.note(row.No, now, now)
	e.agenda.from(row.No)
	e.noteThrough(e.routing.current(row.No), claimCap, at, store.ClaimedThrough{
		Examined: at, More: true, Pass: gate.Pass{Attempts: claimCap, Again: now.Add(10 * time.Second)},
	})
	if e.agenda.isReady(row.No) {
		t.Error("it is to be looked at at once")
	}
}

// Whoever enables an endpoint again gives it the whole time anew: else its first failure
// would disable it for what was before. What else he changes does not matter.
func TestAnEndpointThatIsEnabledAgainMayFailAnew(t *testing.T) {
	for name, also := range map[string]func(*store.EndpointRow){
		"alone":               func(*store.EndpointRow) {},
		"without its breaker": func(row *store.EndpointRow) { row.Breaker = nil },
	} {
		t.Run(name, func(t *testing.T) {
			e := startEngine(t, func(c *Config) { c.DisableAfter = time.Hour })
			r := newReceiver(t, 500, 500)
			row := e.endpoint(r.URL, func(d *posthaste.Definition) {
				d.Retry.Schedule = []posthaste.Duration{posthaste.Duration(100 * time.Millisecond), posthaste.Duration(100 * time.Millisecond)}
			})
			set := func(disabled bool) {
				t.Helper()
				_, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, func(row *store.EndpointRow) error {
					if row.Disabled = disabled; !disabled {
						also(row)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			set(true)
			_, err := e.store.ChangeGate(t.Context(), row.No, func(s gate.State) gate.State {
				s.FailingSince = time.Now().Add(-2 * time.Hour)
				return s
			})
			if err != nil {
				t.Fatal(err)
			}
			set(false)
			if d, _ := e.ended(e.send("a", "x").ID, 1); d.State != posthaste.StateDelivered {
				t.Errorf("%+v", d)
			}
			e.verified()
		})
	}
}

// What is skipped while it waits in its lane is not sent any more.
func TestASkippedDeliveryLeavesItsLane(t *testing.T) {
	e := startEngine(t, nil)
	release := make(chan struct{})
	arrived := make(chan string, 3)
	r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		arrived <- req.Header.Get("posthaste-delivery-id")
		<-release
	}))
	t.Cleanup(r.Close)
	e.endpoint(r.URL, func(d *posthaste.Definition) { d.MaxInFlight = 1 })
	first := e.send("a", "first")
	if got := <-arrived; got != first.ID.Delivery(1).Print(posthaste.KindDelivery) {
		t.Fatalf("%s came first", got)
	}
	skipped := e.send("a", "skipped")
	if _, err := e.Skip(t.Context(), e.tenant, skipped.ID.Delivery(1)); err != nil {
		t.Fatal(err)
	}
	last := e.send("a", "last")
	close(release)
	if got := <-arrived; got != last.ID.Delivery(1).Print(posthaste.KindDelivery) {
		t.Errorf("%s came next", got)
	}
	for _, got := range []Receipt{first, last} {
		if d, _ := e.ended(got.ID, 1); d.State != posthaste.StateDelivered {
			t.Errorf("%+v", d)
		}
	}
	e.eventually(5*time.Second, "nothing is leased", func() bool { return len(e.lanes.remaining()) == 0 && !e.lanes.any() })
	e.verified()
}

// What is settled in several commits may fail in the middle. The first part is done then, and
// counts once, as delivered.
func TestABatchThatIsSettledInPart(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	const n = 5
	leave := make(chan struct{})
	before := func(store.SettleParams) error { // until more than one wait
		<-leave
		return nil
	}
	e.flaky.settle.Store(&before)
	var sent []Receipt
	for range n {
		sent = append(sent, e.send("a", "x"))
	}
	e.eventually(5*time.Second, "all wait", func() bool { return e.load.unrecorded.Load() == n })
	e.flaky.halves.Store(1)
	close(leave)
	for _, s := range sent {
		e.ended(s.ID, 1)
	}
	e.eventually(5*time.Second, "all is recorded", func() bool { return e.load.unrecorded.Load() == 0 })
	if got := testutil.ToFloat64(e.metrics.Finished.WithLabelValues(posthaste.StateDelivered.String(), posthaste.ReasonNone.String())); got != n {
		t.Errorf("%v have ended as delivered, want %d", got, n)
	}
	e.verified()
}
