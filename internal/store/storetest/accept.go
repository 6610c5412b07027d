package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var acceptCases = []testCase{
	{name: "an event and its deliveries are stored", run: testAccept},
	{name: "an event without deliveries is stored", run: testAcceptNoFanOut},
	{name: "a batch answers each event in its place", run: testAcceptParallel},
	{name: "a key is taken once for each namespace and tenant", run: testAcceptKeyScope},
	{name: "a repeated key is answered with what is stored", run: testAcceptKey},
	{name: "duplicates within a batch of 500", run: testAcceptDuplicatesWithin},
	{name: "a stale routing version writes nothing and says the current one", run: testAcceptStale},
	{name: "accept with an aged beat is fenced and writes nothing (B1)", run: testAcceptAged},
	{name: "accept without a row is fenced and writes nothing", run: testAcceptRowGone},
	{name: "accept re-run after an unknown commit, keyless (A1)", run: testAcceptRerunKeyless},
	{name: "accept re-run after an unknown commit, keyed (A1)", run: testAcceptRerunKeyed},
	{name: "accept re-run by a new epoch (A1)", run: testAcceptRerunNewEpoch},
	{name: "accept re-run of a batch of which one part is new (A1)", run: testAcceptRerunMixed},
	{name: "accept re-run with another fan-out keeps the first one (A1)", run: testAcceptRerunFanOut},
	{name: "a missing partition is made on the way", run: testAcceptOldDay},
}

func testAccept(t *testing.T, f *fixture) {
	r, one, two := f.replica(t), f.endpoint(t), f.endpoint(t)
	e := f.event(f.leased(one), f.due(two, f.at(time.Hour)), f.leased(two))
	e.ContentEncoding, e.OrderKey, e.Traceparent = "gzip", "customer-7", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	e.Headers = []posthaste.Header{{Name: "X-Trace", Value: "abc"}, {Name: "X-Trace", Value: "ü"}}
	e.Parent, e.CorrelationID = f.minter.Mint(f.now), f.minter.Mint(f.now)
	e = keyed(e, "inv_42_paid")

	same(t, "answer", f.accept(t, r, e), []store.AcceptedEvent{{Stored: true, ID: e.ID, FanOut: 3, Sum: e.Sum}})
	got, err := f.Store.Event(t.Context(), f.tenant, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "event", got, e.Event)

	for n, status := range []string{"delivering", "pending", "delivering"} {
		d := f.wantStatus(t, e.ID.Delivery(uint32(n+1)), status, 0)
		want := store.DeliveryRow{Tenant: f.tenant, Endpoint: e.Deliveries[n].Endpoint, Delivery: posthaste.Delivery{
			ID: e.ID.Delivery(uint32(n + 1)), EndpointID: []posthaste.ID{one.ID, two.ID, two.ID}[n], Type: e.Type,
			Leased: status == "delivering", RunAt: f.now, ExpiresAt: e.Deliveries[n].ExpiresAt, NextAttemptAt: e.Deliveries[n].DueAt,
		}}
		same(t, fmt.Sprint("delivery ", n+1), d, want)
		f.wantDue(t, d.ID, []int{0, 1, 0}[n])
		f.wantAttempts(t, d.ID)
	}
	if left := f.claim(t, r, f.at(time.Minute), one, two); len(left) != 0 {
		t.Errorf("claimed %v: fresh work must never be claimed, nor work that is not due", left)
	}
}

func testAcceptNoFanOut(t *testing.T, f *fixture) {
	e := f.event()
	same(t, "answer", f.accept(t, f.replica(t), e), []store.AcceptedEvent{{Stored: true, ID: e.ID, Sum: e.Sum}})
	if _, err := f.Store.Event(t.Context(), f.tenant, e.ID); err != nil {
		t.Error(err)
	}
}

func testAcceptParallel(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	old := keyed(f.event(f.leased(ep)), "k1")
	f.accept(t, r, old)
	batch := []store.NewEvent{f.event(f.leased(ep)), keyed(f.event(), "k1"), keyed(f.event(), "k2"), f.event()}
	batch[2].Sum = store.Hash{9}
	same(t, "answers", f.accept(t, r, batch...), []store.AcceptedEvent{
		{Stored: true, ID: batch[0].ID, FanOut: 1, Sum: batch[0].Sum},
		{ID: old.ID, FanOut: 1, Sum: old.Sum},
		{Stored: true, ID: batch[2].ID, Sum: store.Hash{9}},
		{Stored: true, ID: batch[3].ID, Sum: batch[3].Sum},
	})
}

func testAcceptKeyScope(t *testing.T, f *fixture) {
	r := f.replica(t)
	batch := []store.NewEvent{keyed(f.event(), "same"), keyed(f.event(), "same"), keyed(f.event(), "same")}
	batch[1].Namespace = 7
	batch[2].Tenant = f.createTenant(t, "acme")
	for i, a := range f.accept(t, r, batch...) {
		if !a.Stored || a.ID != batch[i].ID {
			t.Errorf("event %d: %+v, want it stored", i, a)
		}
	}
	// An outbox's row has a key of ours, and none of its caller's.
	a, b := f.event(), f.event()
	a.Namespace, b.Namespace = store.NamespaceOutbox, store.NamespaceOutbox
	a.Key, b.Key = store.Hash{5}, store.Hash{5}
	same(t, "answers to one row", f.accept(t, r, a, b), []store.AcceptedEvent{
		{Stored: true, ID: a.ID, Sum: a.Sum}, {ID: a.ID, Sum: a.Sum},
	})
}

func testAcceptKey(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	first := keyed(f.event(f.leased(ep), f.leased(ep)), "k")
	first.Sum = store.Hash{1, 2, 3}
	f.accept(t, r, first)
	again := keyed(f.event(f.due(ep, f.now)), "k")
	again.Sum = store.Hash{4}

	// The earlier sum lets the caller tell a repetition from a mismatch (B6).
	same(t, "answer", f.accept(t, r, again), []store.AcceptedEvent{{ID: first.ID, FanOut: 2, Sum: first.Sum}})
	_, err := f.Store.Event(t.Context(), f.tenant, again.ID)
	wantErr(t, "the repeated event", err, store.ErrNotFound)
	_, err = f.Store.Delivery(t.Context(), f.tenant, again.ID.Delivery(1))
	wantErr(t, "its delivery", err, store.ErrNotFound)
	if due := f.DueRows(t); len(due) != 0 {
		t.Errorf("due rows of an event that was left out: %v", due)
	}
}

func testAcceptDuplicatesWithin(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	var batch []store.NewEvent
	for i := range 500 {
		e := keyed(f.event(f.leased(ep)), fmt.Sprint("key ", i%120))
		e.Sum = store.Hash{byte(i), byte(i >> 8)}
		batch = append(batch, e)
	}
	answers := f.accept(t, r, batch...)
	winner := map[string]int{}
	for i, a := range answers {
		if a.Stored {
			if w, ok := winner[batch[i].IdempotencyKey]; ok {
				t.Fatalf("events %d and %d are both stored under one key", w, i)
			}
			winner[batch[i].IdempotencyKey] = i
		}
	}
	if len(winner) != 120 {
		t.Fatalf("%d events stored, want 120", len(winner))
	}
	for i, a := range answers {
		w := winner[batch[i].IdempotencyKey]
		if a.ID != batch[w].ID || a.Sum != batch[w].Sum || a.FanOut != 1 || len(a.Mine) != 0 {
			t.Fatalf("event %d is answered %+v, want what event %d is stored as", i, a, w)
		}
	}
}

func testAcceptStale(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	acme := f.createTenant(t, "acme")
	mine, theirs := keyed(f.event(f.due(ep, f.now)), "k"), f.event()
	theirs.Tenant = acme
	p := f.params(t, r, mine, theirs)
	f.endpoint(t)

	got, err := r.Accept(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "stale", got.Stale, []store.TenantVersion{f.version(t, f.tenant)})
	f.wantUnwritten(t, mine, theirs)

	p.Routing = []store.TenantVersion{f.version(t, f.tenant), f.version(t, acme)}
	if got, err = r.Accept(t.Context(), p); err != nil || len(got.Stale) != 0 || !got.Events[0].Stored || !got.Events[1].Stored {
		t.Errorf("accept with the current versions: %+v, %v", got, err)
	}
}

// wantUnwritten checks that no trace of events is left, the key of the first one included.
func (f *fixture) wantUnwritten(t *testing.T, events ...store.NewEvent) {
	t.Helper()
	for _, e := range events {
		_, err := f.Store.Event(t.Context(), e.Tenant, e.ID)
		wantErr(t, "event of a refused batch", err, store.ErrNotFound)
		for n := range e.Deliveries {
			_, err := f.Store.Delivery(t.Context(), e.Tenant, e.ID.Delivery(uint32(n+1)))
			wantErr(t, "delivery of a refused batch", err, store.ErrNotFound)
		}
	}
	if due := f.DueRows(t); len(due) != 0 {
		t.Errorf("due rows of a refused batch: %v", due)
	}
	if v := f.verify(t, 100); v.Events+v.Deliveries != 0 {
		t.Errorf("%d events and %d deliveries are stored", v.Events, v.Deliveries)
	}
	page, err := f.Store.ListEvents(t.Context(), store.ListEventsParams{Tenant: f.tenant, IdempotencyKey: events[0].IdempotencyKey, Limit: 10})
	if err != nil || len(page.Events) != 0 {
		t.Errorf("events with the key of a refused batch: %v, %v", page.Events, err)
	}
}

func testAcceptAged(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	e := keyed(f.event(f.leased(ep), f.due(ep, f.now)), "k")
	f.AgeBeat(t, r.epoch, store.FreshBeat+time.Second)
	_, err := r.Accept(t.Context(), f.params(t, r, e))
	wantErr(t, "accept", err, store.ErrFenced)
	f.wantUnwritten(t, e)

	r.beat(t)
	if got := f.accept(t, r, e); !got[0].Stored {
		t.Errorf("accept after a beat: %+v", got)
	}
}

func testAcceptRowGone(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	e := keyed(f.event(f.leased(ep), f.due(ep, f.now)), "k")
	if err := r.Retire(t.Context(), r.epoch); err != nil {
		t.Fatal(err)
	}
	_, err := r.Accept(t.Context(), f.params(t, r, e))
	wantErr(t, "accept", err, store.ErrFenced)
	f.wantUnwritten(t, e)
	if got := f.accept(t, f.replica(t), e); !got[0].Stored {
		t.Errorf("accept by a new epoch: %+v", got)
	}
}

func testAcceptRerunKeyless(t *testing.T, f *fixture) { f.rerun(t, f.event) }

func testAcceptRerunKeyed(t *testing.T, f *fixture) {
	f.rerun(t, func(d ...store.NewDelivery) store.NewEvent { return keyed(f.event(d...), "k") })
}

// rerun accepts a batch twice, as after a commit whose answer was lost: what is
// stored under its own id comes back with the leases that still live.
func (f *fixture) rerun(t *testing.T, event func(...store.NewDelivery) store.NewEvent) {
	t.Helper()
	r, ep := f.replica(t), f.endpoint(t)
	e := event(f.leased(ep), f.due(ep, f.at(time.Hour)), f.leased(ep))
	f.accept(t, r, e)
	first, third := bornLease(r, e, 1), bornLease(r, e, 3)
	for _, mine := range [][]store.Lease{{first, third}, {third}, nil} {
		got := f.accept(t, r, e)
		slices.SortFunc(got[0].Mine, func(a, b store.Lease) int { return a.Delivery.Compare(b.Delivery) })
		same(t, "answer to the re-run", got, []store.AcceptedEvent{{ID: e.ID, FanOut: 3, Sum: e.Sum, Mine: mine}})
		if len(mine) > 0 {
			f.settleMoved(t, r, f.delivered(mine[0]))
		}
	}
	f.wantDue(t, e.ID.Delivery(2), 1)
	f.wantAttempts(t, e.ID.Delivery(1), "1 delivered")
}

func testAcceptRerunNewEpoch(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	e, k := f.event(f.leased(ep)), keyed(f.event(f.leased(ep)), "k")
	f.accept(t, r, e, k)
	next, _ := f.succeed(t, r)
	same(t, "answers to the re-run", f.accept(t, next, e, k), []store.AcceptedEvent{
		{ID: e.ID, FanOut: 1, Sum: e.Sum}, {ID: k.ID, FanOut: 1, Sum: k.Sum},
	})
	leases := f.claim(t, next, f.at(time.Minute), ep)
	if len(leases) != 2 {
		t.Fatalf("%d leases, want the 2 deliveries of the batch: none may be lost", len(leases))
	}
	for _, l := range leases {
		f.settleMoved(t, next, f.delivered(l))
	}
}

func testAcceptRerunMixed(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	stored, fresh := f.event(f.leased(ep)), f.event(f.leased(ep))
	f.accept(t, r, stored)
	same(t, "answers", f.accept(t, r, stored, fresh), []store.AcceptedEvent{
		{ID: stored.ID, FanOut: 1, Sum: stored.Sum, Mine: []store.Lease{bornLease(r, stored, 1)}},
		{Stored: true, ID: fresh.ID, FanOut: 1, Sum: fresh.Sum},
	})
}

func testAcceptRerunFanOut(t *testing.T, f *fixture) {
	r, one, two := f.replica(t), f.endpoint(t), f.endpoint(t)
	e := f.event(f.leased(one))
	f.accept(t, r, e)
	moved := e // matched anew, since an endpoint was made in between
	moved.Deliveries, moved.FanOut = []store.NewDelivery{f.leased(two), f.leased(one)}, 2
	same(t, "answer", f.accept(t, r, moved), []store.AcceptedEvent{
		{ID: e.ID, FanOut: 1, Sum: e.Sum, Mine: []store.Lease{bornLease(r, e, 1)}},
	})
	_, err := f.Store.Delivery(t.Context(), f.tenant, e.ID.Delivery(2))
	wantErr(t, "a second delivery", err, store.ErrNotFound)
}

func testAcceptOldDay(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	for _, days := range []int{-20, 3} {
		e := f.eventAt(f.now.AddDate(0, 0, days), f.leased(ep))
		if got := f.accept(t, r, e); !got[0].Stored {
			t.Fatalf("event of day %+d: %+v", days, got)
		}
		f.settleMoved(t, r, f.delivered(bornLease(r, e, 1)))
	}
}
