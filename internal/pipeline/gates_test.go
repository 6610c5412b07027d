package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

func shortBreaker(threshold int, reset time.Duration) func(*posthaste.Definition) {
	return func(d *posthaste.Definition) {
		d.Breaker = &posthaste.Breaker{Threshold: threshold, Reset: posthaste.Duration(reset), ResetMax: posthaste.Duration(10 * reset)}
		d.Retry.Schedule = slices.Repeat([]posthaste.Duration{posthaste.Duration(10 * time.Millisecond)}, 20)
	}
}

// gate returns an endpoint's gate as the database has it.
func (e *engine) gate(no store.EndpointNo) gate.State {
	e.t.Helper()
	gates, err := e.GatesOf(e.t.Context(), []store.EndpointNo{no})
	if err != nil {
		e.t.Fatal(err)
	}
	return gates[no]
}

func (e *engine) moves(from, to gate.Breaker) float64 {
	return testutil.ToFloat64(e.metrics.BreakerMoves.WithLabelValues(from.String(), to.String()))
}

func TestBreakerOpensTriesOneAndCloses(t *testing.T) {
	e, r, operators := startEngine(t, nil), newReceiver(t, 500, 500, 500, 500), newReceiver(t)
	operator, err := e.Tenant(t.Context(), posthaste.TenantOperator)
	if err != nil {
		t.Fatal(err)
	}
	d := posthaste.DefaultDefinition()
	d.URL = operators.URL
	if _, err := e.CreateEndpoint(t.Context(), operator, posthaste.Endpoint{Definition: d}, testSecret); err != nil {
		t.Fatal(err)
	}
	row := e.endpoint(r.URL, func(d *posthaste.Definition) {
		shortBreaker(3, 500*time.Millisecond)(d)
		d.MaxInFlight = 1
	})
	first := e.send("a", "first")
	e.eventually(5*time.Second, "the breaker is open", func() bool { return e.gate(row.No).Breaker == gate.Open })
	open := e.gate(row.No)
	if open.Failures != 3 || open.Openings != 1 {
		t.Errorf("open: %+v", open)
	}
	var waiting []Receipt
	for i := range 20 {
		waiting = append(waiting, e.send("a", fmt.Sprint(i)))
	}
	if n := len(r.seen()); n != 3 {
		t.Errorf("%d attempts, 3 were to open the breaker", n)
	}
	// The first probe fails, the second one succeeds.
	e.eventually(10*time.Second, "all have arrived", func() bool { return len(r.seen()) == 4+21 })
	for _, got := range append(waiting, first) {
		if d, _ := e.ended(got.ID, 1); d.State != posthaste.StateDelivered {
			t.Errorf("%+v", d)
		}
	}
	e.eventually(5*time.Second, "the gate is as new", func() bool { return e.gate(row.No).Breaker == gate.Closed })
	for _, m := range []struct {
		from, to gate.Breaker
		n        float64
	}{{gate.Closed, gate.Open, 1}, {gate.Open, gate.HalfOpen, 2}, {gate.HalfOpen, gate.Open, 1}, {gate.HalfOpen, gate.Closed, 1}} {
		if got := e.moves(m.from, m.to); got != m.n {
			t.Errorf("%s to %s: %v times, want %v", m.from, m.to, got, m.n)
		}
	}
	e.eventually(5*time.Second, "the operator was told of five moves", func() bool { return len(operators.seen()) == 5 })
	var told struct {
		From     string `json:"from_state"`
		To       string `json:"to_state"`
		Endpoint string `json:"endpoint_id"`
		Tenant   string `json:"tenant"`
	}
	if err := json.Unmarshal([]byte(operators.seen()[0]), &told); err != nil || told.From != "closed" || told.To != "open" ||
		told.Endpoint != row.ID.Print(posthaste.KindEndpoint) || told.Tenant != posthaste.TenantDefault {
		t.Errorf("the operator was told %s, %v", operators.seen()[0], err)
	}
	e.verified()
}

func TestRetryAfterHoldsTheWholeEndpoint(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 429)
	r.header.Set("Retry-After", "1")
	row := e.endpoint(r.URL, nil)
	began := time.Now()
	first := e.send("a", "first")
	e.eventually(5*time.Second, "the gate holds", func() bool { return !e.gate(row.No).RetryAfterUntil.IsZero() })
	r.mu.Lock()
	r.header.Del("Retry-After")
	r.mu.Unlock()
	second := e.send("a", "second")
	for _, got := range []Receipt{first, second} {
		if d, _ := e.ended(got.ID, 1); d.State != posthaste.StateDelivered {
			t.Errorf("%+v", d)
		}
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("the second one arrived after %s, before Retry-After was over", took)
	}
	if s := e.gate(row.No); s.Failures != 0 {
		t.Errorf("429 counted: %+v", s)
	}
	e.verified()
}

// clockwork is a receiver that remembers when what came.
type clockwork struct {
	*httptest.Server
	mu     sync.Mutex
	at     []time.Time
	bodies []string
	most   int // at once
	failed int // for answer
	now    int
	answer func(body string, attempt string) int
	delay  time.Duration
}

func newClockwork(t *testing.T) *clockwork {
	c := &clockwork{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body strings.Builder
		buf := make([]byte, 1024)
		for {
			n, err := req.Body.Read(buf)
			body.Write(buf[:n])
			if err != nil {
				break
			}
		}
		c.mu.Lock()
		c.at, c.bodies = append(c.at, time.Now()), append(c.bodies, body.String())
		c.now++
		c.most = max(c.most, c.now)
		status, delay := http.StatusOK, c.delay
		if c.answer != nil {
			status = c.answer(body.String(), req.Header.Get("posthaste-attempt"))
		}
		c.mu.Unlock()
		if delay > 0 {
			<-time.After(delay)
		}
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *clockwork) seen() ([]time.Time, []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at), slices.Clone(c.bodies)
}

// withinLimit fails if any window of time has more than rps × its length + burst.
func withinLimit(t *testing.T, at []time.Time, rps, burst float64) {
	t.Helper()
	slices.SortFunc(at, time.Time.Compare)
	for i := range at {
		for j := i; j < len(at); j++ {
			if n, most := float64(j-i+1), rps*at[j].Sub(at[i]).Seconds()+burst; n > most {
				t.Fatalf("%v attempts within %s, at most %.1f allowed", n, at[j].Sub(at[i]), most)
			}
		}
	}
}

func TestRateLimitIsKeptAndReached(t *testing.T) {
	e, r := startEngine(t, nil), newClockwork(t)
	const rps, burst, n = 50, 10, 160
	size := burst
	row := e.endpoint(r.URL, func(d *posthaste.Definition) { d.RateLimit = &posthaste.RateLimit{RPS: rps, Burst: &size} })
	began := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { e.send("a", fmt.Sprint(i)) })
	}
	wg.Wait()
	e.eventually(20*time.Second, "all have arrived", func() bool { at, _ := r.seen(); return len(at) == n })
	at, _ := r.seen()
	took := at[len(at)-1].Sub(began)
	if most := (n - burst/2) * time.Second * 100 / 95 / rps; took > most+500*time.Millisecond {
		t.Errorf("%d attempts at %d a second took %s, want %s at most", n, rps, took, most)
	}
	withinLimit(t, at, rps, burst)

	// A changed limit applies to what waits already.
	for i := range 100 {
		e.send("a", fmt.Sprint("again", i))
	}
	if _, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, func(row *store.EndpointRow) error { row.RateLimit = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	e.eventually(1500*time.Millisecond, "the rest has arrived without a limit", func() bool { at, _ := r.seen(); return len(at) == n+100 })
	e.verified()
}

func TestRetriesHaveALimitOfTheirOwn(t *testing.T) {
	e, r := startEngine(t, nil), newClockwork(t)
	r.answer = func(_, attempt string) int {
		if attempt == "1" {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	rps := 4.0
	e.endpoint(r.URL, func(d *posthaste.Definition) {
		d.Retry.RPS, d.Breaker = &rps, nil
		d.MaxInFlight = 4
	})
	began := time.Now()
	const n = 40
	for i := range n {
		e.send("a", fmt.Sprint(i))
	}
	e.eventually(20*time.Second, "all first attempts are made, whatever waits", func() bool {
		_, bodies := r.seen()
		slices.Sort(bodies)
		return len(slices.Compact(bodies)) == n
	})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("first attempts took %s, behind retries that wait for their slots", took)
	}
	e.eventually(30*time.Second, "all are delivered", func() bool { at, _ := r.seen(); return len(at) == 2*n })
	if took := time.Since(began); took < time.Duration(float64(n-3)/rps*float64(time.Second)) {
		t.Errorf("%d retries at %v a second took %s", n, rps, took)
	}
	e.verified()
}

func TestOrderedEndpointKeepsOrderThroughRetriesReplaysAndSkips(t *testing.T) {
	e, r := startEngine(t, nil), newClockwork(t)
	fails := map[string]int{"b": 2, "d": 100}
	r.answer = func(body, _ string) int {
		if fails[body] > 0 {
			fails[body]--
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}
	e.endpoint(r.URL, func(d *posthaste.Definition) {
		shortBreaker(1000, time.Second)(d)
		d.Ordered = posthaste.OrderedByEndpoint
		d.Retry.Schedule = slices.Repeat([]posthaste.Duration{posthaste.Duration(30 * time.Millisecond)}, 50)
	})
	ids := map[string]posthaste.ID{}
	for _, body := range []string{"a", "b", "c", "d", "e", "f"} {
		ids[body] = e.send("x", body).ID
	}
	e.eventually(5*time.Second, "d has failed some times", func() bool {
		_, bodies := r.seen()
		return len(bodies) >= 8
	})
	if _, err := e.Skip(t.Context(), e.tenant, ids["d"].Delivery(1)); err != nil {
		t.Fatal(err)
	}
	d, _ := e.ended(ids["f"], 1)
	if d.State != posthaste.StateDelivered {
		t.Errorf("%+v", d)
	}
	if d := e.delivery(ids["d"], 1); d.State != posthaste.StateDead || d.Reason != posthaste.ReasonSkipped {
		t.Errorf("the skipped one: %+v", d)
	}
	_, bodies := r.seen()
	if got := strings.Join(slices.Compact(bodies), ""); got != "abcdef" || r.most != 1 {
		t.Errorf("order %q, %d at once at most", got, r.most)
	}
	if _, err := e.Skip(t.Context(), e.tenant, ids["f"].Delivery(1)); posthaste.CodeOf(err) != posthaste.CodeNotPending {
		t.Errorf("skip of a delivered one: %v", err)
	}
	// A replay goes to the end.
	r.mu.Lock()
	r.bodies, r.at, fails["d"], fails["g"] = nil, nil, 0, 3
	r.mu.Unlock()
	e.send("x", "g")
	if err := e.Replay(t.Context(), e.tenant, ids["d"].Delivery(1)); err != nil {
		t.Fatal(err)
	}
	last := e.send("x", "h").ID
	if d, _ := e.ended(last, 1); d.State != posthaste.StateDelivered {
		t.Errorf("%+v", d)
	}
	_, bodies = r.seen()
	if got := strings.Join(slices.Compact(bodies), ""); got != "gdh" {
		t.Errorf("after the replay: order %q, want gdh", got)
	}
	e.verified()
}

func TestHeldDeliveriesEndAtTheirDeadline(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, slices.Repeat([]int{500}, 100)...)
	row := e.endpoint(r.URL, func(d *posthaste.Definition) {
		shortBreaker(1, time.Hour)(d)
		d.Breaker.ResetMax = d.Breaker.Reset
		d.Retry.Deadline = posthaste.Duration(2 * time.Second)
		d.Retry.Schedule = []posthaste.Duration{posthaste.Duration(time.Second)} // the gate is told after the outcome is recorded
	})
	first := e.send("a", "x")
	e.eventually(5*time.Second, "the breaker is known to be open", func() bool { return e.gates.state(row.No).Breaker == gate.Open })
	second := e.send("a", "y")
	for _, got := range []Receipt{first, second} {
		if d, _ := e.ended(got.ID, 1); d.State != posthaste.StateDead || d.Reason != posthaste.ReasonExpired {
			t.Errorf("%+v", d)
		}
	}
	if n := len(r.seen()); n != 1 {
		t.Errorf("%d attempts, the breaker opened after one", n)
	}
	e.verified()
}

func TestAnEndpointThatFailsForLongIsDisabledAndTheOperatorTold(t *testing.T) {
	e, r, operators := startEngine(t, func(c *Config) { c.DisableAfter = 300 * time.Millisecond }), newReceiver(t, slices.Repeat([]int{500}, 100)...), newReceiver(t)
	operator, err := e.Tenant(t.Context(), posthaste.TenantOperator)
	if err != nil {
		t.Fatal(err)
	}
	d := posthaste.DefaultDefinition()
	d.URL, d.EventTypes = operators.URL, []string{"endpoint.disabled"}
	if _, err := e.CreateEndpoint(t.Context(), operator, posthaste.Endpoint{Definition: d}, testSecret); err != nil {
		t.Fatal(err)
	}
	row := e.endpoint(r.URL, shortBreaker(1000, time.Second))
	e.send("a", "x")
	e.eventually(10*time.Second, "it is disabled", func() bool {
		got, err := e.store.Endpoint(t.Context(), e.tenant.No, row.ID)
		return err == nil && got.Disabled && strings.Contains(got.DisabledReason, "without one success")
	})
	e.eventually(5*time.Second, "the operator was told", func() bool { return len(operators.seen()) == 1 })
}

func TestAChangedURLResetsBreakerAndRetryAfter(t *testing.T) {
	e, bad, good := startEngine(t, nil), newReceiver(t, slices.Repeat([]int{503}, 100)...), newReceiver(t)
	bad.header.Set("Retry-After", "600")
	row := e.endpoint(bad.URL, shortBreaker(1, time.Hour))
	first := e.send("a", "x")
	e.eventually(5*time.Second, "the breaker is open", func() bool { s := e.gate(row.No); return s.Breaker == gate.Open && !s.RetryAfterUntil.IsZero() })
	if _, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, func(row *store.EndpointRow) error { row.Paused = true; return nil }); err != nil {
		t.Fatal(err)
	}
	if s := e.gate(row.No); s.Breaker != gate.Open {
		t.Errorf("another change reset the breaker: %+v", s)
	}
	if _, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, func(row *store.EndpointRow) error {
		row.URL, row.Paused = good.URL, false
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if s := e.gate(row.No); s != (gate.State{}) {
		t.Errorf("after the change: %+v", s)
	}
	second := e.send("a", "y") // its way is open at once; the first one's own Retry-After still counts
	if d, _ := e.ended(second.ID, 1); d.State != posthaste.StateDelivered {
		t.Errorf("%+v", d)
	}
	if d := e.delivery(first.ID, 1); d.State != posthaste.StatePending {
		t.Errorf("%+v", d)
	}
	e.verified()
}

func TestGatesAreKeptOverARestartAndTheirLossOpensThem(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 500)
	row := e.endpoint(r.URL, shortBreaker(1, time.Hour))
	got := e.send("a", "x")
	e.eventually(5*time.Second, "the breaker is open", func() bool { return e.gate(row.No).Breaker == gate.Open })
	again, err := New(e.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.loadGates(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := again.gates.state(row.No); s.Breaker != gate.Open {
		t.Errorf("a new engine takes the gate for %+v", s)
	}
	if _, err := e.store.ChangeGate(t.Context(), row.No, func(gate.State) gate.State { return gate.State{} }); err != nil { // as if somebody emptied the table
		t.Fatal(err)
	}
	if d, _ := e.ended(got.ID, 1); d.State != posthaste.StateDelivered {
		t.Errorf("%+v", d)
	}
	e.verified()
}

// An engine that could not read the gates as it began learns of them later.
func TestGatesThatCouldNotBeReadAtTheStartAreReadLater(t *testing.T) {
	e := startEngine(t, func(c *Config) { c.Store.(*flaky).hideGates.Store(true) })
	row := e.endpoint("http://127.0.0.1:1", nil)
	// As it was when the engine began: told of by no beat that looks for what has changed since.
	_, err := e.store.ChangeGate(t.Context(), row.No, func(s gate.State) gate.State {
		s.Breaker, s.OpenUntil = gate.Open, time.Now().Add(time.Hour)
		return s
	})
	if err != nil {
		t.Fatal(err)
	}
	e.flaky.hideGates.Store(false)
	e.eventually(10*time.Second, "the gate is known", func() bool {
		return e.awake(t.Context()) == nil && e.gates.state(row.No).Breaker == gate.Open
	})
}

// locked makes claims through gates fail as if the rows were locked, and counts them.
type locked struct {
	store.Store
	held   atomic.Bool // nobody's claim gets through
	moving atomic.Bool // whoever holds the row takes slots meanwhile
	tries  atomic.Int64
}

func (l *locked) ClaimThrough(ctx context.Context, p store.ClaimThroughParams) (store.ClaimedThrough, error) {
	if l.held.Load() {
		l.tries.Add(1)
		return store.ClaimedThrough{}, store.ErrLocked
	}
	return l.Store.ClaimThrough(ctx, p)
}

func (l *locked) Gates(ctx context.Context, endpoints []store.EndpointNo) ([]store.Gate, error) {
	if l.held.Load() {
		row := store.Gate{Endpoint: endpoints[0]}
		if l.moving.Load() {
			row.Slot = time.UnixMicro(l.tries.Load()).UTC()
		}
		return []store.Gate{row}, nil
	}
	return l.Store.Gates(ctx, endpoints)
}

func TestAGateThatReplicasQueueForIsNotGoneRound(t *testing.T) {
	var gates *locked
	e, r := startEngine(t, func(c *Config) { gates = &locked{Store: c.Store}; c.Store = gates }), newReceiver(t)
	burst := 10
	e.endpoint(r.URL, func(d *posthaste.Definition) { d.RateLimit = &posthaste.RateLimit{RPS: 100, Burst: &burst} })
	gates.held.Store(true)
	gates.moving.Store(true)
	e.send("a", "x")
	e.eventually(5*time.Second, "it was tried again and again", func() bool { return gates.tries.Load() > 20 })
	if n := len(r.seen()); n != 0 {
		t.Errorf("%d went round a gate that others go through", n)
	}
	gates.moving.Store(false)
	e.eventually(10*time.Second, "a gate that stands still is gone round", func() bool { return len(r.seen()) == 1 })
	if n := testutil.ToFloat64(e.metrics.GatesPassedBy); n < 1 {
		t.Errorf("%v were counted", n)
	}
	gates.held.Store(false)
	e.verified()
}
