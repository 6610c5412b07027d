package pipeline

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// TestRunsInLanes compares lanes that share one slot with a model: of each run one item at most
// is in its lane, in order, whatever is cut, recalled or delivered.
func TestRunsInLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		started, fails := make(chan *item, 1), make(chan bool)
		cut := make(chan []*item, 1)
		var ls *lanes
		ls = newLanes(1, func(it *item) {
			started <- it
			if <-fails {
				rest := ls.cut(it.run)
				ls.settled(rest)
				cut <- rest
			}
			ls.settled([]*item{it})
		})
		ls.most = 16
		var minter posthaste.Minter
		model := map[store.EndpointNo][]*item{} // what is leased, in order
		var running *item
		leased := func() (n int) {
			for _, items := range model {
				n += len(items)
			}
			return n
		}
		next := func() {
			if running == nil && leased() > 0 {
				running = <-started
			}
		}
		finish := func(fail bool) {
			next()
			no := running.lease.Endpoint
			if running != model[no][0] {
				t.Fatalf("endpoint %d: %v is sent, and %v comes first", no, running.lease.Delivery, model[no][0].lease.Delivery)
			}
			want := model[no][1:]
			fails <- fail
			model[no] = want
			if fail {
				if rest := <-cut; !slices.Equal(rest, want) {
					t.Fatalf("endpoint %d: %d items are given back, want %d", no, len(rest), len(want))
				}
				delete(model, no)
			}
			if len(model[no]) == 0 {
				delete(model, no)
			}
			running = nil
			for settled := false; !settled; runtime.Gosched() { // until the worker has gone on
				r, waiting := ls.counts()
				settled = r+waiting == leased() && (r == 1) == (leased() > 0)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(t *rapid.T) {
				next()
				no := store.EndpointNo(rapid.IntRange(1, 3).Draw(t, "endpoint"))
				want := rapid.IntRange(1, 5).Draw(t, "length")
				n := ls.reserveRun(no, want)
				switch most := max(0, ls.most-leased()); {
				case len(model[no]) > 0 && n != 0:
					t.Fatalf("endpoint %d: room for %d behind a run", no, n)
				case len(model[no]) == 0 && n != min(want, most):
					t.Fatalf("endpoint %d: room for %d, want %d", no, n, min(want, most))
				case n == 0:
					return
				}
				var items []*item
				for range n {
					items = append(items, &item{event: new(posthaste.Event), lease: store.Lease{Endpoint: no, Number: 1, Delivery: minter.Mint(testNow).Delivery(1)}})
				}
				model[no] = slices.Clone(items)
				ls.pushRun(items)
				next()
			},
			"deliver": func(*rapid.T) {
				if leased() > 0 {
					finish(false)
					next()
				}
			},
			"fail": func(*rapid.T) {
				if leased() > 0 {
					finish(true)
					next()
				}
			},
			"recall": func(t *rapid.T) {
				if leased() == 0 {
					return
				}
				next()
				var all []*item
				for no := range store.EndpointNo(4) {
					all = append(all, model[no]...)
				}
				it := rapid.SampledFrom(all).Draw(t, "item")
				back := ls.recall(func(x *item) bool { return x == it })
				if (len(back) == 1) == (it == running) {
					t.Fatalf("%d items are recalled, it runs: %v", len(back), it == running)
				}
				ls.settled(back)
				if len(back) == 1 {
					no := it.lease.Endpoint
					model[no] = slices.DeleteFunc(model[no], func(x *item) bool { return x == it })
					if len(model[no]) == 0 {
						delete(model, no)
					}
				}
			},
			"": func(t *rapid.T) {
				if running, waiting := ls.counts(); running+waiting != leased() {
					t.Fatalf("%d run and %d wait, want %d in all", running, waiting, leased())
				}
			},
		})
		for leased() > 0 {
			finish(false)
		}
		ls.stop()
		ls.workers.Wait()
		if ls.room != 0 || ls.waiting != 0 || len(ls.byNo) != 0 || len(ls.held) != 0 || len(ls.runs) != 0 {
			t.Fatalf("left behind: room %d, waiting %d, lanes %d, held %d, runs %d", ls.room, ls.waiting, len(ls.byNo), len(ls.held), len(ls.runs))
		}
	})
}

func TestRunLengths(t *testing.T) {
	r := newRunLengths()
	want := func(within time.Duration, n int) {
		t.Helper()
		if got := r.next(1, within); got != n {
			t.Errorf("the next run has %d, want %d", got, n)
		}
	}
	for n := 1; n <= maxRun; n *= 2 {
		want(time.Second, n)
		r.ended(1, 5*time.Millisecond)
	}
	want(time.Second, maxRun)
	want(50*time.Millisecond, 10)
	want(time.Millisecond, 1)
	r.cut(1)
	want(time.Second, 1)
	r.ended(1, time.Minute)
	want(time.Second, 1)
}

// inOrder starts an engine with an ordered endpoint that has n deliveries waiting.
func inOrder(t *testing.T, r *clockwork, n int, edit func(*posthaste.Definition)) (*engine, store.EndpointRow, []posthaste.ID) {
	t.Helper()
	e := startEngine(t, nil)
	row := e.endpoint(r.URL, func(d *posthaste.Definition) {
		ordered(d)
		if edit != nil {
			edit(d)
		}
	})
	e.change(row, func(row *store.EndpointRow) { row.Paused = true })
	var ids []posthaste.ID
	for i := range n {
		ids = append(ids, e.send("a", strconv.Itoa(i)).ID)
	}
	e.change(row, func(row *store.EndpointRow) { row.Paused = false })
	return e, row, ids
}

// change changes an endpoint.
func (e *engine) change(row store.EndpointRow, edit func(*store.EndpointRow)) {
	e.t.Helper()
	_, err := e.ChangeEndpoint(e.t.Context(), e.tenant, row.ID, func(row *store.EndpointRow) error { edit(row); return nil })
	if err != nil {
		e.t.Fatal(err)
	}
}

// wantSent compares what a receiver got, each body once, and that it got one at a time.
func (c *clockwork) wantSent(t *testing.T, n int, without ...int) {
	t.Helper()
	var want []string
	for i := range n {
		if !slices.Contains(without, i) {
			want = append(want, strconv.Itoa(i))
		}
	}
	_, got := c.seen()
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	if c.most != 1 {
		t.Errorf("%d at once", c.most)
	}
}

// A claim and a commit of outcomes serve many deliveries.
func TestAnOrderedEndpointIsSentRuns(t *testing.T) {
	const n = 400
	r := newClockwork(t)
	e, _, ids := inOrder(t, r, n, nil)
	e.ended(ids[n-1], 1)
	r.wantSent(t, n)
	if claims := e.flaky.throughs.Load(); claims > n/8 {
		t.Errorf("%d claims for %d deliveries", claims, n)
	}
	if d, attempts := e.ended(ids[n/2], 1); d.State != posthaste.StateDelivered || len(attempts) != 1 || attempts[0].Number != 1 {
		t.Errorf("%+v %+v", d, attempts)
	}
	e.verified()
}

// At a failure the rest of a run goes back unsent, and its numbers stay unused.
func TestAFailureInTheMiddleOfARun(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusBadRequest} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			const n = 100
			r := newClockwork(t)
			r.answer = func(body, attempt string) int {
				if i, _ := strconv.Atoi(body); i%10 == 9 && attempt == "1" {
					return status
				}
				return http.StatusOK
			}
			e, _, ids := inOrder(t, r, n, func(d *posthaste.Definition) { d.Breaker = nil })
			for i, id := range ids {
				d, attempts := e.ended(id, 1)
				want, state := 1, posthaste.StateDelivered
				switch {
				case i%10 == 9 && status == http.StatusBadRequest:
					state = posthaste.StateDead
				case i%10 == 9:
					want = 2
				}
				if d.State != state || len(attempts) != want {
					t.Errorf("%d: %v after %d attempts, want %v after %d", i, d.State, len(attempts), state, want)
				}
			}
			r.wantSent(t, n)
			if back := testutil.ToFloat64(e.metrics.GivenBack.WithLabelValues("run cut")); back == 0 || back > 10*16 {
				t.Errorf("%v given back behind 10 failures", back)
			}
			e.verified()
		})
	}
}

// The breaker opens in the middle of a run, and its probe is a run of one.
func TestABreakerOpensInTheMiddleOfARun(t *testing.T) {
	const n = 60
	r := newClockwork(t)
	fails := 3
	r.answer = func(body, _ string) int {
		if body == "40" && fails > 0 {
			fails--
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}
	e, row, ids := inOrder(t, r, n, shortBreaker(1, 50*time.Millisecond))
	e.ended(ids[n-1], 1)
	r.wantSent(t, n)
	if g := e.gate(row.No); g.Breaker != gate.Closed {
		t.Errorf("gate: %+v", g)
	}
	e.verified()
}

// atThe calls do once, while the delivery with that body is under way.
func (c *clockwork) atThe(body string, do func()) {
	var once sync.Once
	c.answer = func(got, _ string) int {
		if got == body {
			c.mu.Unlock()
			once.Do(do)
			c.mu.Lock()
		}
		return http.StatusOK
	}
}

// What an owner does while a run is leased: the rest of it obeys.
func TestAnOwnersChangeInTheMiddleOfARun(t *testing.T) {
	const n, at = 200, 150 // in the middle of the run from 127 on
	t.Run("a skip", func(t *testing.T) {
		r := newClockwork(t)
		var e *engine
		var ids []posthaste.ID
		ready := make(chan struct{})
		r.atThe(strconv.Itoa(at), func() {
			<-ready
			if _, err := e.Skip(t.Context(), e.tenant, ids[at+5].Delivery(1)); err != nil {
				t.Error(err)
			}
		})
		e, _, ids = inOrder(t, r, n, nil)
		close(ready)
		e.ended(ids[n-1], 1)
		r.wantSent(t, n, at+5)
		if d, _ := e.ended(ids[at+5], 1); d.Reason != posthaste.ReasonSkipped {
			t.Errorf("skipped: %+v", d)
		}
		e.verified()
	})
	for name, edit := range map[string][2]func(*store.EndpointRow){
		"a pause": {
			func(row *store.EndpointRow) { row.Paused = true }, func(row *store.EndpointRow) { row.Paused = false },
		},
		"a disabling": {
			func(row *store.EndpointRow) { row.Disabled = true }, func(row *store.EndpointRow) { row.Disabled = false },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newClockwork(t)
			var e *engine
			var row store.EndpointRow
			ready := make(chan struct{})
			r.atThe(strconv.Itoa(at), func() {
				<-ready
				e.change(row, edit[0])
			})
			var ids []posthaste.ID
			e, row, ids = inOrder(t, r, n, nil)
			close(ready)
			e.eventually(10*time.Second, "the rest of the run is given back", func() bool {
				_, bodies := r.seen()
				return len(bodies) == at+1 && !e.lanes.any()
			})
			if _, attempts := e.ended(ids[at], 1); len(attempts) != 1 {
				t.Errorf("the one under way: %+v", attempts)
			}
			e.change(row, edit[1])
			if _, attempts := e.ended(ids[n-1], 1); len(attempts) != 1 || attempts[0].Number != 1 {
				t.Errorf("the last one: %+v", attempts)
			}
			r.wantSent(t, n)
			e.verified()
		})
	}
}

// An endpoint loses its order in the middle of a run, and gets it back.
func TestAnEndpointLosesItsOrderInTheMiddleOfARun(t *testing.T) {
	const n, at = 200, 150
	r := newClockwork(t)
	var e *engine
	var row store.EndpointRow
	ready := make(chan struct{})
	r.atThe(strconv.Itoa(at), func() {
		<-ready
		e.change(row, func(row *store.EndpointRow) { row.Ordered = posthaste.Unordered })
		for i := range 10 {
			e.send("a", strconv.Itoa(1000+i))
		}
		e.change(row, func(row *store.EndpointRow) { row.Ordered = posthaste.OrderedByEndpoint })
	})
	var ids []posthaste.ID
	e, row, ids = inOrder(t, r, n, nil)
	close(ready)
	for _, id := range ids {
		if d, _ := e.ended(id, 1); d.State != posthaste.StateDelivered {
			t.Errorf("%+v", d)
		}
	}
	_, bodies := r.seen()
	bodies = slices.DeleteFunc(bodies, func(body string) bool { return len(body) == 4 })
	for i, body := range bodies {
		if body != strconv.Itoa(i) {
			t.Fatalf("as number %d came %s", i, body)
		}
	}
	e.verified()
}

// What was leased beside others when its endpoint becomes ordered goes back, to the place that
// its acceptance gave it, before what is accepted afterwards.
func TestAnEndpointBecomesOrderedWhileItsLaneIsFull(t *testing.T) {
	const slots, n, more = 2, 10, 5
	r := newClockwork(t)
	release := make(chan struct{})
	r.answer = func(string, string) int {
		c := r.now
		r.mu.Unlock()
		<-release
		r.mu.Lock()
		if c > slots {
			t.Errorf("%d at once", c)
		}
		return http.StatusOK
	}
	e := startEngine(t, nil)
	row := e.endpoint(r.URL, func(d *posthaste.Definition) { d.MaxInFlight = slots })
	var ids []posthaste.ID
	for i := range n {
		ids = append(ids, e.send("a", strconv.Itoa(i)).ID)
	}
	e.eventually(5*time.Second, "two are under way", func() bool { _, bodies := r.seen(); return len(bodies) == slots })
	e.change(row, func(row *store.EndpointRow) { ordered(&row.Definition) })
	for i := range more {
		ids = append(ids, e.send("a", strconv.Itoa(n+i)).ID)
	}
	close(release)
	for _, id := range ids {
		if d, attempts := e.ended(id, 1); d.State != posthaste.StateDelivered || len(attempts) != 1 {
			t.Errorf("%+v %+v", d, attempts)
		}
	}
	_, bodies := r.seen()
	for i, body := range bodies[slots:] {
		if body != strconv.Itoa(slots+i) {
			t.Fatalf("sent in the order %v", bodies)
		}
	}
	e.verified()
}

// A run that is leased when the engine stops: what is not sent is given back.
func TestShutdownInTheMiddleOfARun(t *testing.T) {
	const n, at = 200, 150
	r := newClockwork(t)
	var e *engine
	reached, stopping := make(chan struct{}), make(chan struct{})
	r.atThe(strconv.Itoa(at), func() {
		close(reached)
		<-stopping
	})
	var ids []posthaste.ID
	e, _, ids = inOrder(t, r, n, nil)
	<-reached
	go func() {
		for stopped := false; !stopped; e.pause(context.Background(), time.Millisecond) {
			e.lanes.mu.Lock()
			stopped = e.lanes.stopped
			e.lanes.mu.Unlock()
		}
		close(stopping)
	}()
	e.verified()
	_, bodies := r.seen()
	if len(bodies) != at+1 {
		t.Errorf("%d were sent, want %d", len(bodies), at+1)
	}
	for i, id := range ids {
		attempts, err := e.store.Attempts(t.Context(), id.Delivery(1))
		if err != nil {
			t.Fatal(err)
		}
		if want := min(1, max(0, at+1-i)); len(attempts) != want {
			t.Errorf("%d has %d attempts, want %d", i, len(attempts), want)
		}
	}
}

// A run that a limit lets through starts at its slots, and is not given back for them.
func TestARunUnderALimit(t *testing.T) {
	const n, rps = 60, 100
	r := newClockwork(t)
	ten := 10
	e, _, ids := inOrder(t, r, n, func(d *posthaste.Definition) { d.RateLimit = &posthaste.RateLimit{RPS: rps, Burst: &ten} })
	e.ended(ids[n-1], 1)
	r.wantSent(t, n)
	at, _ := r.seen()
	withinLimit(t, at, rps, 10)
	e.verified()
}

// Deliveries that expire in a run do not hold up those behind them.
func TestExpiryInARun(t *testing.T) {
	const n = 20
	r := newClockwork(t)
	e, row, ids := inOrder(t, r, n, nil)
	e.ended(ids[n-1], 1)
	e.change(row, func(row *store.EndpointRow) {
		row.Paused, row.Retry.Deadline = true, posthaste.Duration(time.Second)
	})
	first := e.send("a", "expires").ID
	e.change(row, func(row *store.EndpointRow) { row.Retry.Deadline = posthaste.Duration(time.Hour) })
	last := e.send("a", "stays").ID
	e.eventually(10*time.Second, "the first one has expired", func() bool { return !e.delivery(first, 1).ExpiresAt.After(e.clock.Now()) })
	e.change(row, func(row *store.EndpointRow) { row.Paused = false })
	if d, _ := e.ended(last, 1); d.State != posthaste.StateDelivered {
		t.Errorf("behind it: %+v", d)
	}
	if d, attempts := e.ended(first, 1); d.Reason != posthaste.ReasonExpired || len(attempts) != 0 {
		t.Errorf("%+v %v", d, attempts)
	}
	_, bodies := r.seen()
	if slices.Contains(bodies, "expires") {
		t.Error(fmt.Sprint("sent ", bodies))
	}
	e.verified()
}

// Places in an order are a millisecond apart at least: those of a burst run ahead of the clock.
// They are no times, neither for a look at what waits nor for a delivery that comes back.
func TestAPlaceAheadOfTheClockIsNoTime(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	row := e.endpoint(r.URL, ordered)
	e.stop() // nothing looks at the agenda
	now := e.clock.Now()
	ahead := now.Add(time.Hour)
	if err := e.lookAt(t.Context(), store.EndpointDue{Endpoint: row.No, NextAt: ahead}, now); err != nil {
		t.Fatal(err)
	}
	if !e.agenda.isReady(row.No) {
		t.Error("a look believes that the head is due in an hour")
	}
	e.agenda.from(row.No)
	e.agenda.drop(row.No)
	e.load.unrecorded.Add(1)
	e.lanes.force(row.No, 1)
	it := &item{lease: store.Lease{Endpoint: row.No, DueAt: ahead, Number: 1}, lane: e.lanes.byNo[row.No]}
	e.recorded(t.Context(), []outcome{{item: it, settlement: store.Settlement{
		Lease: it.lease, State: posthaste.StatePending, DueAt: ahead.Add(time.Microsecond), TryAt: now.Add(-time.Second),
	}}}, store.Settled{Moved: []bool{true}})
	if !e.agenda.isReady(row.No) {
		t.Error("a delivery that came back is looked at in an hour")
	}
}

// What is noted of gates outlasts no clock that was set.
func TestGatesAndAClockThatIsSetBack(t *testing.T) {
	now := time.Now()
	g := newGatebook()
	g.since = now.Add(-time.Second)
	g.learn(store.Gate{Endpoint: 1, ChangedAt: now.Add(3 * time.Hour)}, now)
	if at := g.known(now); at.After(now) {
		t.Errorf("changes are known up to %s from now", at.Sub(now))
	}
	th := newThroughs()
	th.noteSlot(1, time.Second)
	if at := th.nextSlot(1, now.Add(-3*time.Hour)); at.After(now.Add(-3*time.Hour + time.Second)) {
		t.Errorf("the next slot is in %s", at.Sub(now.Add(-3*time.Hour)))
	}
}
