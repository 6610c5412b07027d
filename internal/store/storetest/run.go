package storetest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Runs: successive deliveries of an ordered endpoint that one claim leases.
var runCases = []testCase{
	{name: "a run is leased in order, and nothing behind it while one of it is owned", run: testRun},
	{name: "a run ends before a delivery that waits for its time", run: testRunWaits},
	{name: "a run ends before a retry that may not pass", run: testRunRetries},
	{name: "a run ends before a delivery that is owned", run: testRunOwned},
	{name: "the rest of a run is given back in its place, its numbers unused", run: testRunGivenBack},
	{name: "a run that is settled in part is reclaimed in order", run: testRunReclaim},
	{name: "a run that is revoked in the middle keeps its order", run: testRunRevoke},
	{name: "a delivery is skipped in the middle of a run", run: testRunSkip},
	{name: "a run passes over hints that lead nowhere", run: testRunStray},
	{name: "a run with an aged beat is fenced, and leases nothing", run: testRunAged},
	{name: "eight claimers of runs and two that accept keep the order, one at a time", run: testRunClaimers},
}

// run claims a run, and compares it.
func (f *fixture) run(t tester, r *replica, ep store.EndpointRow, length int, want ...posthaste.ID) []store.Lease {
	t.Helper()
	got := f.claimThrough(t, r, f.throughRun(r, ep, length))
	same(t, "run", deliveriesOf(got.Leases), want)
	return got.Leases
}

// back is the settlement of a lease that is given back unsent.
func (f *fixture) back(l store.Lease) store.Settlement {
	return store.Settlement{Lease: l, DueAt: l.DueAt.Add(time.Microsecond), TryAt: f.now, Failures: l.Failures}
}

func testRun(t *testing.T, f *fixture) {
	rs, ep := f.workers(t, 2), f.ordered(t)
	r, other := rs[0], rs[1]
	ids := f.acceptInOrder(t, r, ep, 5)
	p := f.throughRun(r, ep, 3)
	var taken []store.Lease
	p.Take = func(s gate.State, leases []store.Lease) gate.State {
		taken = leases
		return s
	}
	got := f.claimThrough(t, r, p)
	same(t, "run", deliveriesOf(got.Leases), ids[:3])
	same(t, "what the gate was told of", deliveriesOf(taken), ids[:3])
	if !got.More || got.Examined.IsZero() || !got.HeadAt.IsZero() {
		t.Errorf("claim of a run: %+v", got)
	}
	for i, l := range got.Leases {
		if l.Number != 1 || l.Epoch != r.epoch {
			t.Errorf("lease %d: %+v", i, l)
		}
		f.run(t, other, ep, 5)
		f.run(t, r, ep, 5)
		f.settleMoved(t, r, f.delivered(l))
	}
	last := f.claimThrough(t, other, f.throughRun(other, ep, 5))
	same(t, "the next run", deliveriesOf(last.Leases), ids[3:])
	if last.More {
		t.Errorf("there is nothing more: %+v", last)
	}
	// In one batch, whatever the order of its settlements.
	f.settleMoved(t, other, f.delivered(last.Leases[1]), f.delivered(last.Leases[0]))
	f.run(t, r, ep, 5)
}

func testRunWaits(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 4)
	leases := f.run(t, r, ep, 3, ids[:3]...)
	f.settleMoved(t, r, f.back(leases[0]), f.stay(leases[1], f.at(time.Minute)), f.back(leases[2]))
	got := f.claimThrough(t, r, f.throughRun(r, ep, 4))
	same(t, "up to the one that waits", deliveriesOf(got.Leases), ids[:1])
	if !got.HeadAt.IsZero() {
		t.Errorf("the head did not wait: %v", got.HeadAt)
	}
	f.settleMoved(t, r, f.delivered(got.Leases[0]))
	f.noHead(t, r, ep, f.at(time.Minute))
	f.wantOrder(t, r, ep, ids[1:]...)
}

func testRunRetries(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 5)
	leases := f.run(t, r, ep, 4, ids[:4]...)
	f.settleMoved(t, r, f.back(leases[0]), f.stay(leases[1], f.now), f.back(leases[2]), f.stay(leases[3], f.now))
	p := f.throughRun(r, ep, 5)
	for _, allowed := range []struct{ retries, taken int }{{0, 1}, {1, 3}, {2, 5}} {
		p.Enter = func(gate.State) gate.Pass { return gate.Pass{Attempts: 5, Retries: allowed.retries} }
		got := f.claimThrough(t, r, p)
		same(t, "run", deliveriesOf(got.Leases), ids[:allowed.taken])
		for _, l := range got.Leases {
			f.settleMoved(t, r, f.back(l))
		}
	}
	f.wantOrder(t, r, ep, ids...)
}

// testRunOwned: a delivery in the middle is owned, by a claim from when the endpoint had no order.
func testRunOwned(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	var ids []posthaste.ID
	for i := range 4 {
		e := f.event(f.due(ep, f.at(time.Duration(i-4)*time.Second)))
		f.accept(t, r, e)
		ids = append(ids, e.ID.Delivery(1))
	}
	got, err := r.Claim(t.Context(), store.ClaimParams{
		Epoch: r.epoch, Now: f.at(-3 * time.Second), Want: []store.ClaimWant{{Endpoint: ep.No, Cap: 1, From: f.at(-3 * time.Second)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "owned", deliveriesOf(got.Leases), ids[1:2])
	ep = f.makeOrdered(t, ep)
	first := f.run(t, r, ep, 4, ids[0])
	f.settleMoved(t, r, f.delivered(first[0]))
	f.run(t, r, ep, 4)
	f.settleMoved(t, r, f.delivered(got.Leases[0]))
	f.wantOrder(t, r, ep, ids[2:]...)
}

func testRunGivenBack(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 5)
	leases := f.run(t, r, ep, 4, ids[:4]...)
	f.settleMoved(t, r,
		f.delivered(leases[0]), f.stay(leases[1], f.at(time.Minute)), f.back(leases[2]), f.back(leases[3]))
	f.noHead(t, r, ep, f.at(time.Minute))
	f.wantAttempts(t, ids[0], "1 delivered")
	f.wantAttempts(t, ids[1], "1 transient")
	for _, id := range ids[2:] {
		f.wantAttempts(t, id)
	}
	f.wantOrder(t, r, ep, ids[1:]...)
	for _, id := range ids[2:] {
		f.wantAttempts(t, id, "1 delivered")
	}
}

func testRunReclaim(t *testing.T, f *fixture) {
	dead, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, dead, ep, 5)
	leases := f.run(t, dead, ep, 4, ids[:4]...)
	f.settleMoved(t, dead, f.delivered(leases[0]))
	next, got := f.succeed(t, dead)
	if got.Deliveries != 3 {
		t.Errorf("reclaimed %d, want 3", got.Deliveries)
	}
	for _, s := range []store.Settlement{f.delivered(leases[1]), f.back(leases[2]), f.stay(leases[3], f.now)} {
		f.settle(t, next, s) // too late, but for the success
	}
	f.wantAttempts(t, ids[2], "1 lost")
	f.wantOrder(t, next, ep, ids[2:]...)
	f.wantAttempts(t, ids[2], "1 lost", "2 delivered")
	f.wantAttempts(t, ids[4], "1 delivered")
}

func testRunRevoke(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 3)
	leases := f.run(t, r, ep, 3, ids...)
	f.revoke(t, r, f.now, leases[1])
	f.run(t, r, ep, 3) // the first one is still owned
	f.settleMoved(t, r, f.delivered(leases[0]))
	got := f.run(t, r, ep, 3, ids[1]) // the third one is still owned
	f.settleMoved(t, r, f.delivered(got[0]), f.back(leases[2]))
	f.wantAttempts(t, ids[1], "1 lost", "2 delivered")
	f.wantOrder(t, r, ep, ids[2])
}

func testRunSkip(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 4)
	leases := f.run(t, r, ep, 3, ids[:3]...)
	if _, err := f.Store.Skip(t.Context(), f.skip(ids[1])); err != nil {
		t.Fatal(err)
	}
	f.run(t, r, ep, 3)
	f.settle(t, r, f.delivered(leases[0]), f.back(leases[1]), f.delivered(leases[2]))
	if d := f.delivery(t, ids[1]); d.State != posthaste.StateDead || d.Reason != posthaste.ReasonSkipped {
		t.Errorf("skipped: %+v", d)
	}
	f.wantOrder(t, r, ep, ids[3])
}

func testRunStray(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	done := f.acceptInOrder(t, r, ep, 1)[0]
	f.wantOrder(t, r, ep, done)
	ids := f.acceptInOrder(t, r, ep, 3)
	held := f.acceptInOrder(t, r, ep, 1)[0]
	places := map[posthaste.ID]time.Time{}
	for _, id := range ids {
		places[id] = f.delivery(t, id).NextAttemptAt
	}
	f.StrayDue(t, store.DueKey{Endpoint: ep.No, DueAt: f.at(-time.Hour), Delivery: done})
	f.StrayDue(t, store.DueKey{Endpoint: ep.No, DueAt: f.at(-time.Minute), Delivery: held}) // it is elsewhere
	f.StrayDue(t, store.DueKey{Endpoint: ep.No, DueAt: places[ids[1]].Add(10 * time.Microsecond), Delivery: done})
	var got []posthaste.ID
	for range 4 {
		c := f.claimThrough(t, r, f.throughRun(r, ep, 10))
		for _, l := range c.Leases {
			got = append(got, l.Delivery)
			f.settleMoved(t, r, f.delivered(l))
		}
	}
	same(t, "order", got, append(ids, held))
	same(t, "due rows", f.DueRows(t), map[posthaste.ID]int{})
}

func testRunAged(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 3)
	f.AgeBeat(t, r.epoch, store.FreshBeat+time.Second)
	_, err := r.ClaimThrough(t.Context(), f.throughRun(r, ep, 3))
	wantErr(t, "claim of a run", err, store.ErrFenced)
	r.beat(t)
	f.run(t, r, ep, 3, ids...)
}

// testRunClaimers cuts half of the runs short, so that deliveries come back to their
// place while others are accepted behind them.
func testRunClaimers(t *testing.T, f *fixture) {
	const claimers, accepters, each = 8, 2, 60
	rs, ep := f.workers(t, claimers+accepters), f.ordered(t)
	var inFlight, accepted atomic.Int32
	var mu sync.Mutex
	var sent []posthaste.ID // in the order of the attempts, one entry for a delivery that comes back at once
	places := map[posthaste.ID]time.Time{}
	concurrently(claimers+accepters, func(i int) {
		if i >= claimers {
			for range each {
				f.acceptInOrder(quiet{t}, rs[i], ep, 1)
				accepted.Add(1)
			}
			return
		}
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && !t.Failed(); {
			rs[i].fresh(quiet{t})
			got, err := rs[i].ClaimThrough(t.Context(), f.throughRun(rs[i], ep, 1+rand.IntN(12)))
			if err != nil && !errors.Is(err, store.ErrLocked) {
				t.Errorf("claim: %v", err)
			}
			if len(got.Leases) == 0 {
				mu.Lock()
				done := len(places) == accepters*each && accepted.Load() == accepters*each
				mu.Unlock()
				if done && len(f.DueRows(t)) == 0 {
					return
				}
				continue
			}
			if n := inFlight.Add(1); n != 1 {
				t.Errorf("%d runs at once", n)
			}
			var batch []store.Settlement
			cut := false
			for _, l := range got.Leases {
				if cut {
					batch = append(batch, f.back(l))
					continue
				}
				mu.Lock()
				if n := len(sent); n == 0 || sent[n-1] != l.Delivery {
					sent = append(sent, l.Delivery)
					places[l.Delivery] = l.DueAt
				}
				mu.Unlock()
				f.delivery(quiet{t}, l.Delivery) // takes a moment, as an attempt does
				if cut = l.Number == 1 && l.Delivery[10]&1 != 0; cut {
					batch = append(batch, f.stay(l, f.now))
				} else {
					batch = append(batch, f.delivered(l))
				}
			}
			inFlight.Add(-1)
			f.settleMoved(quiet{t}, rs[i], batch...)
		}
	})
	if len(sent) != accepters*each {
		t.Fatalf("%d changes of the head for %d deliveries", len(sent), accepters*each)
	}
	for i := 1; i < len(sent); i++ {
		if places[sent[i]].Before(places[sent[i-1]]) {
			t.Fatal("the deliveries were not made in the order of their positions")
		}
	}
}
