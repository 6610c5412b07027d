package storetest

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// lateCases are settlements of a lease that was taken away meanwhile.
var lateCases = []testCase{
	{name: "a late failure only completes its own record (B4)", run: testLateFailure},
	{name: "a late success ends a delivery that is still pending", run: testLateSuccessWaiting},
	{name: "a late success ends what another epoch holds, that number is lost (B4)", run: testLateSuccessHeld},
	{name: "a late success and a living result in one batch", run: testLateAndLiving},
	{name: "a late success of a terminal delivery completes its record only", run: testLateTerminal},
	{name: "a late result is recorded once", run: testLateTwice},
	{name: "a late give-back does nothing", run: testLateGivenBack},
	{name: "a late success frees what a replay started anew", run: testLateAfterReplay},
	{name: "a late success, then a replay: no number is used twice (B5)", run: testLateNumbers},
	{name: "a late success of an old lease, far behind", run: testLateFarBehind},
	{name: "a late success against the settle of the holder", run: testLateRace},
}

// reclaimed is a delivery whose first lease a dead replica still believes to
// hold; next is the epoch that took over.
func (f *fixture) reclaimed(t *testing.T, ep store.EndpointRow) (dead, next *replica, l store.Lease) {
	t.Helper()
	dead = f.replica(t)
	l = f.acceptLeased(t, dead, ep)
	next, _ = f.succeed(t, dead)
	f.wantAttempts(t, l.Delivery, "1 lost")
	f.wantStatus(t, l.Delivery, "pending", 1)
	return dead, next, l
}

func testLateFailure(t *testing.T, f *fixture) {
	for _, result := range []func(store.Lease) store.Settlement{
		f.permanent, func(l store.Lease) store.Settlement { return f.transient(l, f.at(time.Hour)) },
	} {
		ep := f.endpoint(t)
		dead, next, l := f.reclaimed(t, ep)
		s := result(l)
		if got := f.settle(t, dead, s); got.Moved[0] || got.Late != 0 {
			t.Errorf("a late failure: %+v", got)
		}
		want := *s.Attempt
		want.Late = true
		same(t, "its record", f.attempts(t, l.Delivery), []posthaste.Attempt{want})
		d := f.wantStatus(t, l.Delivery, "pending", 1)
		if d.Failures != 0 {
			t.Errorf("a late failure was counted: %d failures", d.Failures)
		}
		f.wantDue(t, l.Delivery, 1)
		second := f.claimOne(t, next, f.at(time.Minute), ep)
		if second.Number != 2 {
			t.Errorf("claimed as number %d, want 2", second.Number)
		}
		f.settleMoved(t, next, f.delivered(second))
	}
}

func testLateSuccessWaiting(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	dead, next, l := f.reclaimed(t, ep)
	if got := f.settle(t, dead, f.delivered(l)); got.Moved[0] || got.Late != 1 {
		t.Errorf("a late success: %+v, want it to end one delivery", got)
	}
	d := f.wantStatus(t, l.Delivery, "delivered", 1)
	if d.FinishedAt.IsZero() || d.LastOutcome != posthaste.OutcomeDelivered {
		t.Errorf("ended late: %+v", d)
	}
	f.wantAttempts(t, l.Delivery, "1 delivered late")
	f.wantDue(t, l.Delivery, 0)
	if got := f.claim(t, next, f.at(time.Hour), ep); len(got) != 0 {
		t.Errorf("claimed a delivered one: %v", got)
	}
}

func testLateSuccessHeld(t *testing.T, f *fixture) {
	for _, result := range []string{"delivered", "transient", "none"} {
		ep := f.endpoint(t)
		dead, next, l := f.reclaimed(t, ep)
		second := f.claimOne(t, next, f.at(time.Minute), ep)
		if got := f.settle(t, dead, f.delivered(l)); got.Late != 1 {
			t.Errorf("a late success: %+v, want it to end one delivery", got)
		}
		f.wantStatus(t, l.Delivery, "delivered", 2)
		f.wantAttempts(t, l.Delivery, "1 delivered late", "2 lost")
		f.wantDue(t, l.Delivery, 0)

		// The holder's own result finds its number recorded as lost.
		var got store.Settled
		switch result {
		case "delivered":
			got = f.settle(t, next, f.delivered(second))
			f.wantAttempts(t, l.Delivery, "1 delivered late", "2 delivered late")
		case "transient":
			got = f.settle(t, next, f.transient(second, f.at(time.Hour)))
			f.wantAttempts(t, l.Delivery, "1 delivered late", "2 transient late")
		case "none":
			got = f.settle(t, next, unstarted(second, f.at(time.Hour)))
			f.wantAttempts(t, l.Delivery, "1 delivered late", "2 lost")
		}
		same(t, "the holder's settle", got, store.Settled{Moved: []bool{false}})
		f.wantStatus(t, l.Delivery, "delivered", 2)
		f.wantDue(t, l.Delivery, 0)
	}
}

// testLateAndLiving: a process can hold the result of a number that was revoked
// from it beside the one that it claimed after.
func testLateAndLiving(t *testing.T, f *fixture) {
	for i, order := range [][]int{{0, 1}, {1, 0}} {
		r, ep := f.replica(t), f.endpoint(t)
		l := f.acceptLeased(t, r, ep)
		f.revoke(t, r, f.now, l)
		second := f.claimOne(t, r, f.now, ep)
		both := []store.Settlement{f.delivered(l), f.transient(second, f.at(time.Hour))}
		f.settle(t, r, both[order[0]], both[order[1]])
		d := f.delivery(t, l.Delivery)
		if d.Status() != "delivered" || d.Attempts != 2 {
			t.Errorf("order %d: %s after %d attempts, want delivered after 2", i, d.Status(), d.Attempts)
		}
		f.wantDue(t, l.Delivery, 0)
		got := f.attempts(t, l.Delivery)
		if len(got) != 2 || got[0].Outcome != posthaste.OutcomeDelivered || !got[0].Late || got[1].Outcome != posthaste.OutcomeTransient {
			t.Errorf("order %d: attempts %+v", i, got)
		}
	}
}

func testLateTerminal(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	dead, next, l := f.reclaimed(t, ep)
	f.settleMoved(t, next, f.permanent(f.claimOne(t, next, f.at(time.Minute), ep)))
	if got := f.settle(t, dead, f.delivered(l)); got.Moved[0] || got.Late != 0 {
		t.Errorf("a late success of a dead delivery: %+v", got)
	}
	d := f.wantStatus(t, l.Delivery, "dead", 2)
	if d.Reason != posthaste.ReasonPermanent {
		t.Errorf("reason %q", d.Reason)
	}
	f.wantAttempts(t, l.Delivery, "1 delivered late", "2 permanent")
}

func testLateTwice(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	dead, next, l := f.reclaimed(t, ep)
	f.settle(t, dead, f.transient(l, f.at(time.Hour)))
	for range 2 {
		if got := f.settle(t, dead, f.transient(l, f.at(time.Hour))); got.Moved[0] || got.Late != 0 {
			t.Errorf("re-run: %+v", got)
		}
	}
	f.wantAttempts(t, l.Delivery, "1 transient late")
	f.wantDue(t, l.Delivery, 1)
	f.settleMoved(t, next, f.delivered(f.claimOne(t, next, f.at(time.Minute), ep)))

	dead, _, l = f.reclaimed(t, ep)
	f.settle(t, dead, f.delivered(l))
	same(t, "re-run of a late success", f.settle(t, dead, f.delivered(l)), store.Settled{Moved: []bool{false}})
	f.wantAttempts(t, l.Delivery, "1 delivered late")
}

func testLateGivenBack(t *testing.T, f *fixture) {
	dead, _, l := f.reclaimed(t, f.endpoint(t))
	before := f.delivery(t, l.Delivery)
	same(t, "settled", f.settle(t, dead, unstarted(l, f.at(time.Hour))), store.Settled{Moved: []bool{false}})
	same(t, "delivery", f.delivery(t, l.Delivery), before)
	f.wantAttempts(t, l.Delivery, "1 lost")
	f.wantDue(t, l.Delivery, 1)
}

func testLateAfterReplay(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	dead, next, l := f.reclaimed(t, ep)
	f.settleMoved(t, next, f.permanent(f.claimOne(t, next, f.at(time.Minute), ep)))
	f.replay(t, l.Delivery)
	if got := f.settle(t, dead, f.delivered(l)); got.Late != 1 {
		t.Errorf("a late success after a replay: %+v, want it to end the new run", got)
	}
	f.wantStatus(t, l.Delivery, "delivered", 2)
	f.wantDue(t, l.Delivery, 0)
	f.wantAttempts(t, l.Delivery, "1 delivered late", "2 permanent")
	f.wantListed(t, store.ListDeliveriesParams{Status: "dead"})
}

func testLateNumbers(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	first, next, l := f.reclaimed(t, ep)
	second := f.claimOne(t, next, f.at(time.Minute), ep)
	f.revoke(t, next, f.at(time.Minute), second)
	third := f.claimOne(t, next, f.at(time.Hour), ep)
	f.settleMoved(t, next, f.permanent(third))
	f.replay(t, l.Delivery)
	fourth := f.claimOne(t, next, f.at(2*time.Hour), ep)
	if second.Number != 2 || third.Number != 3 || fourth.Number != 4 {
		t.Errorf("numbers %d, %d, %d; want 2, 3, 4", second.Number, third.Number, fourth.Number)
	}
	f.settle(t, next, f.transient(second, f.at(time.Hour)))
	f.settle(t, first, f.transient(l, f.at(time.Hour)))
	f.settleMoved(t, next, f.delivered(fourth))
	f.wantAttempts(t, l.Delivery, "1 transient late", "2 transient late", "3 permanent", "4 delivered")
}

func testLateFarBehind(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	dead, next, l := f.reclaimed(t, ep)
	now := f.at(time.Minute)
	for range 3 {
		s := f.transient(f.claimOne(t, next, now, ep), now.Add(time.Minute))
		f.settleMoved(t, next, s)
		now = s.DueAt
	}
	if got := f.settle(t, dead, f.delivered(l)); got.Late != 1 {
		t.Errorf("a late success three attempts behind: %+v", got)
	}
	f.wantStatus(t, l.Delivery, "delivered", 4)
	f.wantDue(t, l.Delivery, 0)
	f.wantAttempts(t, l.Delivery, "1 delivered late", "2 transient", "3 transient", "4 transient")
}

// testLateRace settles the late success and the holder's result at the same
// moment: whichever commits first, one terminal state and both records remain.
func testLateRace(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	dead := f.replica(t)
	var late []store.Settlement
	for range 100 {
		late = append(late, f.delivered(f.acceptLeased(t, dead, ep)))
	}
	next, _ := f.succeed(t, dead)
	living := make([]store.Settlement, 0, len(late))
	for i, l := range f.claim(t, next, f.at(time.Minute), ep) {
		s := f.transient(l, f.at(time.Hour))
		if i%2 == 0 {
			s = f.permanent(l)
		}
		living = append(living, s)
	}
	concurrently(8, func(i int) {
		// Each batch goes once from either side, in slices that meet.
		for j := i / 2; j < len(late); j += 4 {
			if i%2 == 0 {
				f.settle(quiet{t}, dead, late[j])
			} else {
				f.settle(quiet{t}, next, living[j])
			}
		}
	})
	due := f.DueRows(t)
	for _, s := range late {
		id := s.Lease.Delivery
		d := f.delivery(t, id)
		got := f.attempts(t, id)
		if d.State == posthaste.StatePending || d.Attempts != 2 || due[id] != 0 || len(got) != 2 {
			t.Fatalf("%s after %d attempts with %d due rows and records %+v", d.Status(), d.Attempts, due[id], got)
		}
		if got[0].Outcome != posthaste.OutcomeDelivered || !got[0].Late || got[1].Outcome == posthaste.OutcomeLost {
			t.Fatalf("records %+v", got)
		}
	}
}
