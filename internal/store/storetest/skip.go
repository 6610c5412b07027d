package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var skipCases = []testCase{
	{name: "a delivery that waits is skipped", run: testSkip},
	{name: "a delivery that is leased is skipped, and its number lost", run: testSkipLeased},
	{name: "a late success does not bring back what was skipped", run: testSkipLate},
	{name: "only what is pending is skipped", run: testSkipEnded},
	{name: "of several who skip a delivery at once one does it", run: testSkipRace},
	{name: "skips against claims and settles leave nothing behind", run: testSkipAgainstWork},
}

func (f *fixture) skip(id posthaste.ID) store.SkipParams {
	return store.SkipParams{Tenant: f.tenant, Delivery: id, Now: f.at(time.Second)}
}

// wantSkipped checks what is left of a delivery that was skipped.
func (f *fixture) wantSkipped(t *testing.T, id posthaste.ID, attempts int) {
	t.Helper()
	d := f.wantStatus(t, id, "dead", attempts)
	if d.Reason != posthaste.ReasonSkipped || !d.FinishedAt.Equal(f.at(time.Second)) {
		t.Errorf("skipped: reason %q, finished at %v", d.Reason, d.FinishedAt)
	}
	f.wantDue(t, id, 0)
	dead, err := f.Store.ListDeliveries(t.Context(), store.ListDeliveriesParams{Tenant: f.tenant, Status: "dead", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range dead.Deliveries {
		if row.ID == id {
			return
		}
	}
	t.Error("what was skipped is not listed as dead")
}

func testSkip(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	waits, failed := f.acceptDue(t, r, ep), f.retry(t, r, ep, f.at(time.Hour))
	for attempts, id := range []posthaste.ID{waits, failed} {
		got, err := f.Store.Skip(t.Context(), f.skip(id))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "answer", got, f.delivery(t, id))
		f.wantSkipped(t, id, attempts)
	}
	f.wantAttempts(t, waits)
	f.wantAttempts(t, failed, "1 transient")
	if got := f.claim(t, r, f.at(time.Hour), ep); len(got) != 0 {
		t.Errorf("claimed what was skipped: %v", got)
	}
	f.replay(t, failed)
	if l := f.claimOne(t, r, f.at(time.Hour), ep); l.Number != 2 {
		t.Errorf("the replay makes attempt %d, want 2", l.Number)
	}
}

func testSkipLeased(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	born := f.acceptLeased(t, r, ep)
	f.acceptDue(t, r, ep)
	claimed := f.claimOne(t, r, f.now, ep)
	for _, l := range []store.Lease{born, claimed} {
		if _, err := f.Store.Skip(t.Context(), store.SkipParams{Delivery: l.Delivery, Now: f.at(time.Second)}); err != nil {
			t.Fatal(err)
		}
		f.wantSkipped(t, l.Delivery, 1)
		f.wantAttempts(t, l.Delivery, "1 lost")
		if got := f.settle(t, r, f.transient(l, f.at(time.Hour))); got.Moved[0] || got.Late != 0 {
			t.Errorf("a result after the skip: %+v", got)
		}
		f.wantSkipped(t, l.Delivery, 1)
		f.wantAttempts(t, l.Delivery, "1 transient late")
	}
	if err := r.Retire(t.Context(), r.epoch); err != nil {
		t.Errorf("something is held after all was skipped: %v", err)
	}
}

func testSkipLate(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	if _, err := f.Store.Skip(t.Context(), f.skip(l.Delivery)); err != nil {
		t.Fatal(err)
	}
	if got := f.settle(t, r, f.delivered(l)); got.Moved[0] || got.Late != 0 {
		t.Errorf("a success after the skip: %+v", got)
	}
	f.wantSkipped(t, l.Delivery, 1)
	f.wantAttempts(t, l.Delivery, "1 delivered late")
}

func testSkipEnded(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	done := f.acceptLeased(t, r, ep)
	f.settleMoved(t, r, f.delivered(done))
	dead := f.die(t, r, ep)
	for _, id := range []posthaste.ID{done.Delivery, dead} {
		before := f.delivery(t, id)
		_, err := f.Store.Skip(t.Context(), f.skip(id))
		wantCode(t, "skip of what has ended", err, posthaste.CodeNotPending)
		same(t, "left as it was", f.delivery(t, id), before)
	}
	waits := f.acceptDue(t, r, ep)
	for _, p := range []store.SkipParams{
		f.skip(f.event().ID.Delivery(1)),
		{Tenant: f.createTenant(t, "acme"), Delivery: waits, Now: f.now},
	} {
		_, err := f.Store.Skip(t.Context(), p)
		wantErr(t, "skip of what is not there", err, store.ErrNotFound)
	}
	f.wantStatus(t, waits, "pending", 0)
}

func testSkipRace(t *testing.T, f *fixture) {
	rs, ep := f.workers(t, 4), f.endpoint(t)
	for round := range 20 {
		id := f.acceptDue(t, rs[0], ep)
		if round%2 == 1 {
			f.claimOne(t, rs[0], f.now, ep)
		}
		var skipped atomic.Int32
		concurrently(len(rs), func(i int) {
			if _, err := rs[i].Skip(t.Context(), f.skip(id)); err == nil {
				skipped.Add(1)
			} else {
				wantCode(t, "the second skip", err, posthaste.CodeNotPending)
			}
		})
		if n := skipped.Load(); n != 1 {
			t.Fatalf("%d skipped it", n)
		}
		f.wantSkipped(t, id, round%2)
	}
}

func testSkipAgainstWork(t *testing.T, f *fixture) {
	rs, ep := f.workers(t, 3), f.endpoint(t)
	var ids []posthaste.ID
	for range 100 {
		ids = append(ids, f.acceptDue(t, rs[0], ep))
	}
	var skipped atomic.Int32
	concurrently(3, func(i int) {
		if i == 0 {
			for _, id := range ids {
				if _, err := rs[0].Skip(t.Context(), f.skip(id)); err == nil {
					skipped.Add(1)
				} else {
					wantCode(t, "skip", err, posthaste.CodeNotPending)
				}
			}
			return
		}
		for range 100 {
			for _, l := range f.claimSome(quiet{t}, rs[i], []store.EndpointRow{ep}) {
				f.settle(quiet{t}, rs[i], f.delivered(l))
			}
		}
	})
	for _, id := range ids {
		switch d := f.delivery(t, id); {
		case d.State == posthaste.StateDead && d.Reason == posthaste.ReasonSkipped:
			skipped.Add(-1)
		case d.State != posthaste.StateDelivered:
			t.Errorf("a delivery is %s", d.Status())
		}
	}
	if n := skipped.Load(); n != 0 {
		t.Errorf("%d more were skipped than are dead", n)
	}
	same(t, "due rows", f.DueRows(t), map[posthaste.ID]int{})
}
