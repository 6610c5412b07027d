package storetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var orderCases = []testCase{
	{name: "an ordered endpoint's work is taken one by one, in the order of acceptance (C0)", run: testOrder},
	{name: "positions follow the order of commits, whatever the ids say (C0)", run: testOrderOfCommits},
	{name: "an accept that is run again gives no second position", run: testOrderRerun},
	{name: "an ordered endpoint waits for its head", run: testOrderWaits},
	{name: "a retry that may not pass holds its ordered endpoint", run: testOrderRetries},
	{name: "replays and resends go to the end of the order", run: testOrderReplay},
	{name: "what is revoked stays in its place in the order", run: testOrderRevoke},
	{name: "what is reclaimed stays in its place in the order", run: testOrderReclaim},
	{name: "what is repaired stays in its place in the order", run: testOrderRepair},
	{name: "an endpoint that becomes ordered finishes its old work first, late retries excepted", run: testOrderLater},
	{name: "the next one follows a head that is skipped or expires", run: testOrderEnded},
	{name: "a hint at the head of the order is dropped", run: testOrderStray},
	{name: "the time of an ordered endpoint's due work is that of its head", run: testOrderDueEndpoints},
	{name: "an ordered endpoint's claim with an aged beat is fenced", run: testOrderAged},
	{name: "eight claimers and two that accept keep the order, one at a time", run: testOrderClaimers},
}

// ordered makes an ordered endpoint.
func (f *fixture) ordered(t tester) store.EndpointRow {
	t.Helper()
	return f.makeOrdered(t, f.endpoint(t))
}

// makeOrdered changes an endpoint into an ordered one.
func (f *fixture) makeOrdered(t tester, ep store.EndpointRow) store.EndpointRow {
	t.Helper()
	ep.Definition.Ordered = posthaste.OrderedByEndpoint
	row, err := f.Store.UpdateEndpoint(t.Context(), store.UpdateEndpointParams{
		Tenant: ep.Tenant, Endpoint: ep.Endpoint, FromVersion: ep.Version,
	})
	if err != nil {
		t.Fatalf("change an endpoint: %v", err)
	}
	return row
}

// inOrder is a delivery of an ordered endpoint.
func (f *fixture) inOrder(ep store.EndpointRow) store.NewDelivery {
	return store.NewDelivery{Endpoint: ep.No, Ordered: true, ExpiresAt: f.at(96 * time.Hour)}
}

// acceptInOrder stores n events for an ordered endpoint, one after the other.
func (f *fixture) acceptInOrder(t tester, r *replica, ep store.EndpointRow, n int) (ids []posthaste.ID) {
	t.Helper()
	for range n {
		e := f.event(f.inOrder(ep))
		f.accept(t, r, e)
		ids = append(ids, e.ID.Delivery(1))
	}
	return ids
}

func (f *fixture) throughHead(r *replica, ep store.EndpointRow) store.ClaimThroughParams {
	return f.throughRun(r, ep, 1)
}

// throughRun are the parameters of a claim of a run that long.
func (f *fixture) throughRun(r *replica, ep store.EndpointRow, length int) store.ClaimThroughParams {
	p := f.through(r, ep, length, length)
	p.Ordered = true
	return p
}

// head claims the head of an ordered endpoint, which must be nobody's and ready.
func (f *fixture) head(t tester, r *replica, ep store.EndpointRow) store.Lease {
	t.Helper()
	got := f.claimThrough(t, r, f.throughHead(r, ep))
	if len(got.Leases) != 1 {
		t.Fatalf("claim of a head: %+v, want one lease", got)
	}
	return got.Leases[0]
}

// noHead claims the head of an ordered endpoint, and must get nothing before that time.
func (f *fixture) noHead(t tester, r *replica, ep store.EndpointRow, until time.Time) {
	t.Helper()
	got := f.claimThrough(t, r, f.throughHead(r, ep))
	if len(got.Leases) != 0 || !got.HeadAt.Equal(until) {
		t.Errorf("claim of a head: leases %+v, ready at %v; want none, %v", got.Leases, got.HeadAt, until)
	}
}

// stay is the settlement of a transient failure at an ordered endpoint.
func (f *fixture) stay(l store.Lease, tryAt time.Time) store.Settlement {
	s := f.transient(l, l.DueAt.Add(time.Microsecond))
	s.TryAt = tryAt
	return s
}

// wantOrder delivers all that an ordered endpoint has, and compares the order.
func (f *fixture) wantOrder(t tester, r *replica, ep store.EndpointRow, want ...posthaste.ID) {
	t.Helper()
	var got []posthaste.ID
	p := f.throughHead(r, ep)
	p.Now = f.at(time.Minute)
	for range len(want) + 1 {
		c := f.claimThrough(t, r, p)
		if len(c.Leases) == 0 {
			break
		}
		got = append(got, c.Leases[0].Delivery)
		f.settleMoved(t, r, f.delivered(c.Leases[0]))
	}
	same(t, "order", got, want)
}

func testOrder(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 3)
	p := f.throughHead(r, ep)
	p.Take = func(s gate.State, leases []store.Lease) gate.State {
		s.Failures += len(leases)
		return s
	}
	got := f.claimThrough(t, r, p)
	same(t, "head", deliveriesOf(got.Leases), ids[:1])
	if !got.More || got.Examined.IsZero() || got.Gate.Failures != 1 || got.Leases[0].Number != 1 {
		t.Errorf("claim of the head: %+v", got)
	}
	f.noHead(t, r, ep, time.Time{}) // it is under way
	f.settleMoved(t, r, f.delivered(got.Leases[0]))
	f.wantOrder(t, r, ep, ids[1:]...)
	got = f.claimThrough(t, r, p)
	if len(got.Leases) != 0 || got.More || !got.Examined.IsZero() || !got.HeadAt.IsZero() {
		t.Errorf("claim of nothing: %+v", got)
	}

	// In a batch, the ids say the order; the batch itself is sorted otherwise.
	other := f.ordered(t)
	var batch []store.NewEvent
	for range 20 {
		batch = append(batch, f.event(f.inOrder(ep), f.inOrder(other), f.inOrder(ep)))
	}
	var first, second []posthaste.ID
	for _, e := range batch {
		first, second = append(first, e.ID.Delivery(1), e.ID.Delivery(3)), append(second, e.ID.Delivery(2))
	}
	slices.Reverse(batch)
	f.accept(t, r, batch...)
	f.wantOrder(t, r, other, second...)
	f.wantOrder(t, r, ep, first...)
}

// testOrderOfCommits: what was answered before another accept began goes before it.
// The ids are minted beforehand and dealt out at random.
func testOrderOfCommits(t *testing.T, f *fixture) {
	const each = 25
	rs, ep, other := f.workers(t, 4), f.ordered(t), f.ordered(t)
	type answer struct {
		id         posthaste.ID
		began, end int64
		position   time.Time
	}
	var events []store.NewEvent
	for range len(rs) * each * 2 {
		events = append(events, f.event(f.inOrder(ep), f.leased(f.endpoint(t)), f.inOrder(other)))
	}
	rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	version := f.version(t, f.tenant)
	var clock atomic.Int64
	answers := make([][]answer, len(rs))
	concurrently(len(rs), func(i int) {
		for n := range each {
			batch := events[(i*each+n)*2:][:2]
			rs[i].fresh(quiet{t})
			began := clock.Add(1)
			got, err := rs[i].Accept(t.Context(), store.AcceptParams{Epoch: rs[i].epoch, Now: f.now, Events: batch, Routing: []store.TenantVersion{version}})
			if err != nil || len(got.Events) != len(batch) {
				t.Errorf("accept: %+v, %v", got, err)
				return
			}
			end := clock.Add(1)
			for _, e := range batch {
				answers[i] = append(answers[i], answer{id: e.ID, began: began, end: end})
			}
		}
	})
	for _, number := range []uint32{1, 3} {
		var all []answer
		for _, a := range slices.Concat(answers...) {
			a.position = f.delivery(t, a.id.Delivery(number)).NextAttemptAt
			all = append(all, a)
		}
		slices.SortFunc(all, func(a, b answer) int { return a.position.Compare(b.position) })
		latest := int64(0) // the latest beginning so far
		for i, a := range all {
			if i > 0 && a.position.Sub(all[i-1].position) < time.Millisecond {
				t.Errorf("positions %v and %v", all[i-1].position, a.position)
			}
			if a.end < latest {
				t.Errorf("one that was answered at %d goes after one that began at %d", a.end, latest)
			}
			latest = max(latest, a.began)
		}
	}
}

func testOrderRerun(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	a, b := f.event(f.inOrder(ep)), keyed(f.event(f.inOrder(ep)), "key")
	f.accept(t, r, a, b)
	before := []time.Time{f.delivery(t, a.ID.Delivery(1)).NextAttemptAt, f.delivery(t, b.ID.Delivery(1)).NextAttemptAt}
	c := f.acceptInOrder(t, r, ep, 1)[0]
	d := f.event(f.inOrder(ep))
	for i, answer := range f.accept(t, r, a, b, d) {
		if answer.Stored != (i == 2) {
			t.Errorf("run again: %+v", answer)
		}
	}
	after := []time.Time{f.delivery(t, a.ID.Delivery(1)).NextAttemptAt, f.delivery(t, b.ID.Delivery(1)).NextAttemptAt}
	same(t, "positions after a second run", after, before)
	for _, id := range []posthaste.ID{a.ID.Delivery(1), b.ID.Delivery(1), c} {
		f.wantDue(t, id, 1)
	}
	f.wantOrder(t, r, ep, a.ID.Delivery(1), b.ID.Delivery(1), c, d.ID.Delivery(1))
}

func testOrderWaits(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 2)
	f.settleMoved(t, r, f.stay(f.head(t, r, ep), f.at(time.Minute)))
	f.noHead(t, r, ep, f.at(time.Minute))
	if d := f.delivery(t, ids[0]); !d.NextAttemptAt.Equal(f.at(time.Minute)) {
		t.Errorf("its next attempt is at %v, want %v", d.NextAttemptAt, f.at(time.Minute))
	}
	p := f.throughHead(r, ep)
	p.Now = f.at(time.Minute - time.Microsecond)
	if got := f.claimThrough(t, r, p); len(got.Leases) != 0 {
		t.Errorf("claimed before it may be tried: %+v", got)
	}
	p.Now = f.at(time.Minute)
	got := f.claimThrough(t, r, p)
	if len(got.Leases) != 1 || got.Leases[0].Delivery != ids[0] || got.Leases[0].Number != 2 || got.Leases[0].Failures != 1 {
		t.Fatalf("the retry: %+v", got)
	}
	f.settleMoved(t, r, f.stay(got.Leases[0], f.now)) // moves to where it was not before
	f.wantOrder(t, r, ep, ids...)
}

func testOrderRetries(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 2)
	p := f.throughHead(r, ep)
	p.Enter = func(gate.State) gate.Pass { return gate.Pass{Attempts: 1} } // no retry
	got := f.claimThrough(t, r, p)
	same(t, "a first attempt", deliveriesOf(got.Leases), ids[:1])
	f.settleMoved(t, r, f.stay(got.Leases[0], f.now))
	if got = f.claimThrough(t, r, p); len(got.Leases) != 0 || !got.HeadAt.IsZero() {
		t.Errorf("a retry is at the head: %+v", got)
	}
	f.wantOrder(t, r, ep, ids...)
}

func testOrderReplay(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 3)
	f.settleMoved(t, r, f.permanent(f.head(t, r, ep)))
	err := f.Store.Replay(t.Context(), store.ReplayParams{
		Tenant: f.tenant, Delivery: ids[0], Now: f.now, ExpiresAt: f.at(time.Hour), Ordered: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := f.delivery(t, ids[0]); !d.RunAt.Equal(f.now) || !d.ExpiresAt.Equal(f.at(time.Hour)) {
		t.Errorf("replayed: %+v", d)
	}
	again, err := f.Store.Resend(t.Context(), store.ResendParams{
		Tenant: f.tenant, Event: ids[1].Event(), Endpoint: ep.No, Now: f.now, ExpiresAt: f.at(time.Hour), Ordered: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	last := f.acceptInOrder(t, r, ep, 1)
	f.wantOrder(t, r, ep, ids[1], ids[2], ids[0], again, last[0])
}

func testOrderRevoke(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 2)
	l := f.head(t, r, ep)
	at := l.DueAt
	f.revoke(t, r, f.now, l)
	f.wantDue(t, l.Delivery, 1)
	f.wantAttempts(t, l.Delivery, "1 lost")
	l = f.head(t, r, ep)
	if l.Delivery != ids[0] || l.Number != 2 || !l.DueAt.Equal(at.Add(time.Microsecond)) {
		t.Errorf("the head that was revoked: %+v", l)
	}
	f.revoke(t, r, f.now, l)
	f.noHead(t, r, ep, f.at(time.Second))
	p := f.throughHead(r, ep)
	p.Now = f.at(time.Second)
	got := f.claimThrough(t, r, p)
	same(t, "the head again", deliveriesOf(got.Leases), ids[:1])
	f.settleMoved(t, r, f.delivered(got.Leases[0]))
	f.wantOrder(t, r, ep, ids[1])
}

func testOrderReclaim(t *testing.T, f *fixture) {
	dead, ep, plain := f.replica(t), f.ordered(t), f.endpoint(t)
	ids := f.acceptInOrder(t, dead, ep, 3)
	other := f.acceptLeased(t, dead, plain)
	f.head(t, dead, ep)
	next, got := f.succeed(t, dead)
	if got.Deliveries != 2 {
		t.Errorf("reclaimed %d, want 2", got.Deliveries)
	}
	f.settleMoved(t, next, f.delivered(f.claimOne(t, next, f.at(time.Minute), plain)))
	f.wantAttempts(t, other.Delivery, "1 lost", "2 delivered")
	f.wantOrder(t, next, ep, ids...)
	f.wantAttempts(t, ids[0], "1 lost", "2 delivered")
}

func testOrderRepair(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 3)
	held := f.head(t, r, ep)
	f.Wipe(t, "due")
	got, err := f.Store.FindStranded(t.Context(), store.FindStrandedParams{To: f.minter.Mint(f.at(time.Minute)), Limit: 100})
	if err != nil || len(got.Deliveries) != 3 {
		t.Fatalf("stranded: %+v, %v", got, err)
	}
	if n := f.repairStranded(t, f.now, got.Deliveries...); n != 3 {
		t.Errorf("repaired %d, want 3", n)
	}
	f.wantAttempts(t, held.Delivery, "1 lost")
	f.wantOrder(t, r, ep, ids...)
}

func testOrderLater(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	now := f.acceptDue(t, r, ep)
	soon, late := f.retry(t, r, ep, f.at(30*time.Minute)), f.retry(t, r, ep, f.at(3*time.Hour))
	born := f.acceptLeased(t, r, ep)
	ep = f.makeOrdered(t, ep)
	ids := f.acceptInOrder(t, r, ep, 2)
	f.settleMoved(t, r, f.delivered(born))
	f.wantOrder(t, r, ep, now, soon, ids[0], ids[1], late)
}

func testOrderEnded(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	skipped := f.acceptInOrder(t, r, ep, 1)[0]
	short := f.inOrder(ep)
	short.ExpiresAt = f.at(time.Second)
	expires := f.event(short)
	f.accept(t, r, expires)
	last := f.acceptInOrder(t, r, ep, 1)[0]

	l := f.head(t, r, ep)
	if _, err := f.Store.Skip(t.Context(), f.skip(skipped)); err != nil {
		t.Fatal(err)
	}
	got, err := f.Store.EndExpired(t.Context(), store.EndExpiredParams{Endpoint: ep.No, Now: f.at(time.Second), Limit: 10})
	if err != nil || got.Ended != 1 {
		t.Errorf("ended: %+v, %v", got, err)
	}
	if d := f.delivery(t, expires.ID.Delivery(1)); d.Reason != posthaste.ReasonExpired {
		t.Errorf("expired: %+v", d)
	}
	f.settle(t, r, f.stay(l, f.now)) // too late: it was skipped
	f.wantOrder(t, r, ep, last)
}

func testOrderStray(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	done := f.acceptInOrder(t, r, ep, 1)[0]
	f.wantOrder(t, r, ep, done)
	id := f.acceptInOrder(t, r, ep, 1)[0]
	for i := range 5 {
		f.StrayDue(t, store.DueKey{Endpoint: ep.No, DueAt: f.at(-time.Duration(i+1) * time.Hour), Delivery: done})
	}
	f.wantOrder(t, r, ep, id)
	same(t, "due rows", f.DueRows(t), map[posthaste.ID]int{})
}

func testOrderDueEndpoints(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	ids := f.acceptInOrder(t, r, ep, 2)
	nextAt := func(tryAt time.Time) time.Time {
		t.Helper()
		got, err := f.Store.DueEndpoints(t.Context())
		if err != nil || len(got) != 1 || got[0].Endpoint != ep.No {
			t.Fatalf("due endpoints: %+v, %v", got, err)
		}
		if !got[0].TryAt.Equal(tryAt) {
			t.Errorf("may be tried at %v, want %v", got[0].TryAt, tryAt)
		}
		return got[0].NextAt
	}
	if at := nextAt(time.Time{}); !at.Equal(f.delivery(t, ids[0]).NextAttemptAt) {
		t.Errorf("due at %v", at)
	}
	f.settleMoved(t, r, f.stay(f.head(t, r, ep), f.at(time.Hour)))
	if at := nextAt(f.at(time.Hour)); !at.Equal(f.at(time.Hour)) {
		t.Errorf("due at %v, though the head waits until %v", at, f.at(time.Hour))
	}
}

func testOrderAged(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.ordered(t)
	id := f.acceptInOrder(t, r, ep, 1)[0]
	f.AgeBeat(t, r.epoch, store.FreshBeat+time.Second)
	_, err := r.ClaimThrough(t.Context(), f.throughHead(r, ep))
	wantErr(t, "claim of a head", err, store.ErrFenced)
	_, err = r.Accept(t.Context(), f.params(t, r, f.event(f.inOrder(ep))))
	wantErr(t, "accept", err, store.ErrFenced)
	r.beat(t)
	f.wantOrder(t, r, ep, id)
}

// testOrderClaimers fails half of the attempts, so that deliveries come back to
// their place while others are accepted behind them.
func testOrderClaimers(t *testing.T, f *fixture) {
	const claimers, accepters, each = 8, 2, 40
	rs, ep := f.workers(t, claimers+accepters), f.ordered(t)
	var inFlight, accepted atomic.Int32
	var mu sync.Mutex
	var took []posthaste.ID // in the order of the leases, one entry for a delivery that comes back at once
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
			got, err := rs[i].ClaimThrough(t.Context(), f.throughHead(rs[i], ep))
			rs[i].fresh(quiet{t})
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
			l := got.Leases[0]
			if n := inFlight.Add(1); n != 1 {
				t.Errorf("%d attempts at once", n)
			}
			mu.Lock()
			if n := len(took); n == 0 || took[n-1] != l.Delivery {
				took = append(took, l.Delivery)
				places[l.Delivery] = l.DueAt
			}
			mu.Unlock()
			f.delivery(quiet{t}, l.Delivery) // takes a moment, as an attempt does
			inFlight.Add(-1)
			if l.Number == 1 && l.DueAt.UnixMicro()%2 == 0 {
				f.settleMoved(quiet{t}, rs[i], f.stay(l, f.now))
			} else {
				f.settleMoved(quiet{t}, rs[i], f.delivered(l))
			}
		}
	})
	if len(took) != accepters*each {
		t.Fatalf("%d changes of the head for %d deliveries", len(took), accepters*each)
	}
	if !slices.IsSortedFunc(took, func(a, b posthaste.ID) int { return places[a].Compare(places[b]) }) {
		t.Error("the deliveries were not made in the order of their positions")
	}
}
