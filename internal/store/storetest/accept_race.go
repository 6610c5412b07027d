package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var acceptRaceCases = []testCase{
	{name: "a batch of 500 against a rival batch that commits meanwhile", run: testAcceptRivals},
	{name: "50 concurrent accepts of one key give one event", run: testAcceptOneKey},
	{name: "an endpoint answered before an event is sent is noticed (routing race)", run: testRoutingRace},
	{name: "accept against changing endpoints never misses one", run: testRoutingChurn},
	{name: "a paused replica that was reclaimed cannot commit", run: testPausedReplica},
	{name: "accept against reclaim leaves nothing behind", run: testAcceptAgainstReclaim, twoEpochs: true},
}

// concurrently runs the given functions at once and waits for all of them.
func concurrently(n int, run func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			run(i)
		})
	}
	close(start)
	wg.Wait()
}

// workers are n replicas on handles of their own where the database has them;
// where it has one owner, they share its one epoch.
func (f *fixture) workers(t *testing.T, n int) []*replica {
	t.Helper()
	out := []*replica{f.replica(t)}
	for len(out) < n {
		if f.SingleReplica {
			out = append(out, out[0])
		} else {
			out = append(out, f.rival(t))
		}
	}
	return out
}

func testAcceptRivals(t *testing.T, f *fixture) {
	const keys, size, rounds = 300, 500, 4
	ep, rs := f.endpoint(t), f.workers(t, 2)
	batches := make([][]store.NewEvent, 2*rounds)
	for b := range batches {
		for i := range size {
			e := keyed(f.event(f.due(ep, f.now)), fmt.Sprint("key ", (b/2)*100+i%keys))
			e.Sum = store.Hash{byte(b), byte(i), byte(i >> 8)}
			batches[b] = append(batches[b], e)
		}
		slices.SortFunc(batches[b], func(x, y store.NewEvent) int { return bytes.Compare(x.Key[:], y.Key[:]) }) // as the contract asks
	}
	answers := make([][]store.AcceptedEvent, len(batches))
	concurrently(2, func(i int) {
		for b := i; b < len(batches); b += 2 {
			answers[b] = f.accept(quiet{t}, rs[i], batches[b]...)
		}
	})
	if t.Failed() {
		return
	}
	stored := map[string]store.NewEvent{}
	for b, answer := range answers {
		for i, a := range answer {
			if e := batches[b][i]; a.Stored {
				if other, ok := stored[e.IdempotencyKey]; ok {
					t.Fatalf("%q is stored as %x and as %x", e.IdempotencyKey, other.ID, e.ID)
				}
				stored[e.IdempotencyKey] = e
			}
		}
	}
	for b, answer := range answers {
		for i, a := range answer {
			e := stored[batches[b][i].IdempotencyKey]
			if a.ID != e.ID || a.Sum != e.Sum || a.FanOut != 1 {
				t.Fatalf("%q is answered %+v, want event %x with sum %x", batches[b][i].IdempotencyKey, a, e.ID, e.Sum)
			}
		}
	}
	if due := f.DueRows(t); len(due) != len(stored) || len(stored) != 600 {
		t.Errorf("%d keys are stored with %d due rows, want 600 of each", len(stored), len(due))
	}
}

// quiet lets a goroutine of a case fail it: Fatalf must not end a test from
// there, so it ends the goroutine's step with an error only.
type quiet struct{ *testing.T }

func (q quiet) Fatalf(format string, args ...any) { q.Errorf(format, args...) }

func testAcceptOneKey(t *testing.T, f *fixture) {
	ep, rs := f.endpoint(t), f.workers(t, 4)
	var mu sync.Mutex
	answers := map[posthaste.ID]int{}
	storedCount := 0
	concurrently(50, func(i int) {
		e := keyed(f.event(f.due(ep, f.now)), "one")
		got := f.accept(quiet{t}, rs[i%len(rs)], e)
		mu.Lock()
		defer mu.Unlock()
		for _, a := range got {
			answers[a.ID]++
			if a.Stored {
				storedCount++
			}
		}
	})
	if len(answers) != 1 || storedCount != 1 {
		t.Errorf("answered with the ids %v, %d of them stored; want one", answers, storedCount)
	}
}

func testRoutingRace(t *testing.T, f *fixture) {
	r := f.replica(t)
	e := f.event()
	before := f.routing(t, f.tenant, store.RoutingMark{}).Mark
	matched := f.params(t, r, e) // no endpoint yet
	_, err := f.Another(t).CreateEndpoint(t.Context(), store.CreateEndpointParams{
		Tenant:   f.tenant,
		Endpoint: posthaste.Endpoint{ID: f.minter.Mint(f.now), Definition: posthaste.DefaultDefinition(), CreatedAt: f.now},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Accept(t.Context(), matched)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Stale) != 1 || got.Stale[0].Version <= matched.Routing[0].Version {
		t.Errorf("accept with the old snapshot: %+v, want it stale", got)
	}
	since := f.routing(t, f.tenant, before)
	if len(since.Endpoints) != 1 || since.Mark.Version != got.Stale[0].Version {
		t.Errorf("routing since %+v: %+v", before, since)
	}
}

// testRoutingChurn accepts while endpoints are made. An event whose accept began
// after an endpoint was answered must have been matched against it.
func testRoutingChurn(t *testing.T, f *fixture) {
	rs := f.workers(t, 2)
	var mu sync.Mutex
	answered := 0 // endpoints that exist for every later event
	concurrently(2, func(i int) {
		for range 40 {
			if i == 0 {
				f.endpoint(quiet{t})
				mu.Lock()
				answered++
				mu.Unlock()
				continue
			}
			mu.Lock()
			least := answered
			mu.Unlock()
			f.acceptMatched(quiet{t}, rs[1], least)
		}
	})
}

// acceptMatched runs match and accept as the engine does: again with each newer version.
func (f *fixture) acceptMatched(t tester, r *replica, least int) {
	for range 100 {
		routing, err := r.Routing(t.Context(), store.RoutingParams{Tenant: f.tenant, Limit: 1000})
		if err != nil {
			t.Errorf("routing: %v", err)
			return
		}
		e := f.event()
		for _, ep := range routing.Endpoints {
			e.Deliveries = append(e.Deliveries, f.due(ep, f.now))
		}
		e.FanOut = len(e.Deliveries)
		r.fresh(t)
		got, err := r.Accept(t.Context(), store.AcceptParams{
			Epoch: r.epoch, Now: f.now, Events: []store.NewEvent{e},
			Routing: []store.TenantVersion{{Tenant: f.tenant, Version: routing.Mark.Version}},
		})
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		if len(got.Stale) == 0 {
			if e.FanOut < least {
				t.Errorf("an event was stored for %d endpoints when %d had been answered", e.FanOut, least)
			}
			return
		}
	}
	t.Errorf("accept finds its routing stale a hundred times in a row")
}

func testPausedReplica(t *testing.T, f *fixture) {
	paused, ep := f.replica(t), f.endpoint(t)
	lease := f.acceptLeased(t, paused, ep)
	e := keyed(f.event(f.leased(ep)), "k")
	p := f.params(t, paused, e)
	next, _ := f.succeed(t, paused)

	_, err := paused.Accept(t.Context(), p)
	wantErr(t, "accept", err, store.ErrFenced)
	_, err = paused.Claim(t.Context(), store.ClaimParams{
		Epoch: paused.epoch, Now: f.at(time.Hour), Want: []store.ClaimWant{{Endpoint: ep.No, Cap: 10}},
	})
	wantErr(t, "claim", err, store.ErrFenced)
	if got := f.settle(t, paused, f.transient(lease, f.at(time.Hour))); got.Moved[0] {
		t.Error("the settle of a reclaimed replica moved the delivery")
	}
	f.wantDue(t, lease.Delivery, 1)
	f.wantAttempts(t, lease.Delivery, "1 transient late")
	_, err = f.Store.Event(t.Context(), f.tenant, e.ID)
	wantErr(t, "the event of the fenced accept", err, store.ErrNotFound)
	if l := f.claimOne(t, next, f.at(time.Minute), ep); l.Number != 2 {
		t.Errorf("claimed as number %d, want 2", l.Number)
	}
}

// testAcceptAgainstReclaim lets accepts run into the reclaim of their epoch: what
// was answered as stored must have been moved, what came too late was fenced.
func testAcceptAgainstReclaim(t *testing.T, f *fixture) {
	ep, judge := f.endpoint(t), f.rival(t)
	for range 10 {
		r := f.rival(t)
		seen := r.row(t).BeatAt
		params := f.params(t, r)
		params.Routing = []store.TenantVersion{f.version(t, f.tenant)}
		var mu sync.Mutex
		var stored []posthaste.ID
		concurrently(5, func(i int) {
			if i == 0 {
				_, err := judge.Reclaim(t.Context(), store.ReclaimParams{Dead: r.epoch, SeenBeatAt: seen, Now: f.now})
				if err != nil {
					t.Errorf("reclaim: %v", err)
				}
				return
			}
			for range 5 {
				e := f.event(f.leased(ep))
				p := params
				p.Events = []store.NewEvent{e}
				if _, err := r.Accept(t.Context(), p); err == nil {
					mu.Lock()
					stored = append(stored, e.ID.Delivery(1))
					mu.Unlock()
				} else {
					wantErr(t, "accept during the reclaim", err, store.ErrFenced)
				}
			}
		})
		due := f.DueRows(t)
		for _, id := range stored {
			if due[id] != 1 {
				t.Errorf("delivery %x was stored and has %d due rows after the reclaim", id, due[id])
			}
		}
	}
}
