package storetest

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var settleCases = []testCase{
	{name: "a success ends a delivery", run: testSettleDelivered},
	{name: "a transient failure makes it due again", run: testSettleTransient},
	{name: "a permanent failure makes it dead", run: testSettlePermanent},
	{name: "a batch may hold every kind of outcome", run: testSettleBatch},
	{name: "settling twice is settling once (B4)", run: testSettleTwice},
	{name: "work given back frees its number", run: testSettleGivenBack},
	{name: "a give-back that is run again does not take the lease claimed after it (B4)", run: testSettleGivenBackTwice},
	{name: "work may end unstarted", run: testSettleUnstarted},
	{name: "a lease of another epoch does not move a delivery", run: testSettleForeign},
	{name: "a number that is not the next does not move a delivery (B4)", run: testSettleWrongNumber},
	{name: "a delivery never has two due rows (A4)", run: testSettleOneDueRow},
	{name: "failures count the run, attempts count on", run: testSettleFailures},
	{name: "a settle does not need the due row that it removes", run: testSettleWiped},
	{name: "settles of one batch in two orders do not deadlock", run: testSettleRivals},
	{name: "settling nothing is nothing", run: testSettleNothing},
}

func testSettleDelivered(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	s := f.delivered(l)
	s.Attempt.Timings = posthaste.Timings{DNS: 1e6, Connect: 2e6, TLS: 3e6, FirstByte: 4e6, Total: 10e6}
	s.Attempt.EndpointVersion, s.Attempt.Replica = 3, "replica-7"
	s.Attempt.ResponseHeaders = []posthaste.Header{{Name: "Server", Value: "x"}, {Name: "Set-Cookie", Value: ""}}
	s.Attempt.ResponseBody = []byte("ok")
	if got := f.settle(t, r, s); !got.Moved[0] || got.Late != 0 {
		t.Fatalf("settle: %+v", got)
	}
	d := f.wantStatus(t, l.Delivery, "delivered", 1)
	if d.Leased || d.LastOutcome != posthaste.OutcomeDelivered || d.FinishedAt.IsZero() || !d.NextAttemptAt.IsZero() || d.Reason != 0 || d.LastError != "" {
		t.Errorf("delivered: %+v", d)
	}
	same(t, "attempts", f.attempts(t, l.Delivery), []posthaste.Attempt{*s.Attempt})
	f.wantDue(t, l.Delivery, 0)
}

func testSettleTransient(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	s := f.transient(l, f.at(5*time.Second))
	f.settleMoved(t, r, s)
	d := f.wantStatus(t, l.Delivery, "pending", 1)
	if d.Failures != 1 || !d.NextAttemptAt.Equal(f.at(5*time.Second)) || d.LastOutcome != posthaste.OutcomeTransient ||
		d.LastError != "answered 503" || !d.FinishedAt.IsZero() || !d.ExpiresAt.Equal(l.ExpiresAt) {
		t.Errorf("to be tried again: %+v", d)
	}
	same(t, "attempts", f.attempts(t, l.Delivery), []posthaste.Attempt{*s.Attempt})
	f.wantDue(t, l.Delivery, 1)
	if early := f.claim(t, r, f.at(5*time.Second-time.Microsecond), ep); len(early) != 0 {
		t.Errorf("claimed before it is due: %v", early)
	}
	f.claimOne(t, r, f.at(5*time.Second), ep)
}

func testSettlePermanent(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	id := f.die(t, r, ep)
	d := f.wantStatus(t, id, "dead", 1)
	if d.Reason != posthaste.ReasonPermanent || d.LastOutcome != posthaste.OutcomePermanent || d.FinishedAt.IsZero() || !d.NextAttemptAt.IsZero() {
		t.Errorf("dead: %+v", d)
	}
	f.wantDue(t, id, 0)
	f.wantListed(t, store.ListDeliveriesParams{Status: "dead"}, id)
}

func testSettleBatch(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	var batch []store.NewEvent
	for range 200 {
		batch = append(batch, f.event(f.leased(ep), f.due(ep, f.now)))
	}
	f.accept(t, r, batch...)
	leases := append(f.claim(t, r, f.now, ep), f.claim(t, r, f.now, ep)...)
	for _, e := range batch {
		leases = append(leases, bornLease(r, e, 1))
	}
	if len(leases) != 400 {
		t.Fatalf("%d leases, want 400", len(leases))
	}
	want := map[posthaste.ID]string{}
	var out []store.Settlement
	for i, l := range leases {
		switch i % 4 {
		case 0:
			out, want[l.Delivery] = append(out, f.delivered(l)), "delivered"
		case 1:
			out, want[l.Delivery] = append(out, f.transient(l, f.at(time.Second))), "pending"
		case 2:
			out, want[l.Delivery] = append(out, f.permanent(l)), "dead"
		default:
			out, want[l.Delivery] = append(out, unstarted(l, f.at(time.Second))), "pending"
		}
	}
	f.settleMoved(t, r, out...)
	due := f.DueRows(t)
	for i, l := range leases {
		attempts := 1
		if i%4 == 3 {
			attempts = 0
		}
		f.wantStatus(t, l.Delivery, want[l.Delivery], attempts)
		if waits := want[l.Delivery] == "pending"; waits != (due[l.Delivery] == 1) {
			t.Errorf("a %s delivery has %d due rows", want[l.Delivery], due[l.Delivery])
		}
	}
}

func testSettleTwice(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	a, b, c, d := f.acceptLeased(t, r, ep), f.acceptLeased(t, r, ep), f.acceptLeased(t, r, ep), f.acceptLeased(t, r, ep)
	batch := []store.Settlement{f.delivered(a), f.transient(b, f.at(time.Second)), f.permanent(c), unstarted(d, f.at(time.Second))}
	f.settleMoved(t, r, batch...)
	for range 2 {
		got := f.settle(t, r, batch...)
		same(t, "re-run", got, store.Settled{Moved: make([]bool, 4)})
	}
	check := func() {
		t.Helper()
		f.wantAttempts(t, a.Delivery, "1 delivered")
		f.wantAttempts(t, b.Delivery, "1 transient")
		f.wantAttempts(t, c.Delivery, "1 permanent")
		f.wantAttempts(t, d.Delivery)
	}
	check()
	same(t, "due rows", f.DueRows(t), map[posthaste.ID]int{b.Delivery: 1, d.Delivery: 1})

	// A re-run that comes when the next attempt is under way disturbs nothing.
	leases := f.claim(t, r, f.at(time.Second), ep)
	f.settle(t, r, batch[:3]...)
	check()
	for _, l := range leases {
		f.settleMoved(t, r, f.delivered(l))
	}
	f.wantAttempts(t, b.Delivery, "1 transient", "2 delivered")
	f.wantAttempts(t, d.Delivery, "1 delivered")
}

func testSettleGivenBack(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	for i := 1; i <= 3; i++ {
		f.settleMoved(t, r, unstarted(l, f.at(time.Duration(i)*time.Second)))
		f.wantStatus(t, l.Delivery, "pending", 0)
		f.wantAttempts(t, l.Delivery)
		f.wantDue(t, l.Delivery, 1)
		l = f.claimOne(t, r, f.at(time.Duration(i)*time.Second), ep)
		if l.Number != 1 || l.Failures != 0 {
			t.Fatalf("claimed again as number %d with %d failures, want 1 and 0", l.Number, l.Failures)
		}
	}
	f.settleMoved(t, r, f.delivered(l))
	f.wantAttempts(t, l.Delivery, "1 delivered")
}

// testSettleGivenBackTwice: after an unknown commit the batch is run again, and by
// then the same process may have claimed the work anew, under the same number.
// Its due row tells the two leases apart.
func testSettleGivenBackTwice(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	first := f.acceptLeased(t, r, ep)
	back := unstarted(first, f.at(time.Second))
	f.settleMoved(t, r, back)
	second := f.claimOne(t, r, f.at(time.Second), ep)
	if got := f.settle(t, r, back); got.Moved[0] {
		t.Error("a give-back took a lease that was claimed after it")
	}
	f.wantStatus(t, first.Delivery, "delivering", 0)
	f.settleMoved(t, r, f.delivered(second))
	f.wantAttempts(t, first.Delivery, "1 delivered")
	f.wantDue(t, first.Delivery, 0)
}

func testSettleUnstarted(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	f.settleMoved(t, r, f.transient(l, f.at(time.Second)))
	l = f.claimOne(t, r, f.at(time.Second), ep)
	f.settleMoved(t, r, store.Settlement{
		Lease: l, State: posthaste.StateDead, Failures: l.Failures, Reason: posthaste.ReasonEndpointDeleted,
	})
	d := f.wantStatus(t, l.Delivery, "dead", 1)
	if d.Reason != posthaste.ReasonEndpointDeleted || d.LastOutcome != posthaste.OutcomeTransient || d.LastError != "answered 503" {
		t.Errorf("ended unstarted: %+v", d)
	}
	f.wantAttempts(t, l.Delivery, "1 transient")
	f.wantDue(t, l.Delivery, 0)
}

func testSettleForeign(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	foreign := l
	foreign.Epoch += 1000
	for _, s := range []store.Settlement{unstarted(foreign, f.at(time.Second)), {
		Lease: foreign, State: posthaste.StateDead, Reason: posthaste.ReasonExpired,
	}} {
		if got := f.settle(t, r, s); got.Moved[0] || got.Late != 0 {
			t.Errorf("a settlement of epoch %d moved what epoch %d owns", foreign.Epoch, l.Epoch)
		}
	}
	f.wantStatus(t, l.Delivery, "delivering", 0)
	f.settleMoved(t, r, f.delivered(l))
}

func testSettleWrongNumber(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	f.settleMoved(t, r, f.transient(l, f.at(time.Second)))
	second := f.claimOne(t, r, f.at(time.Second), ep)
	for _, number := range []int{1, 3} {
		wrong := second
		wrong.Number = number
		if got := f.settle(t, r, unstarted(wrong, f.at(time.Hour))); got.Moved[0] {
			t.Errorf("number %d moved a delivery whose next number is 2", number)
		}
	}
	f.wantStatus(t, l.Delivery, "delivering", 1)
	f.settleMoved(t, r, f.delivered(second))
}

func testSettleOneDueRow(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	for i := 1; i <= 5; i++ {
		f.settleMoved(t, r, f.transient(l, f.at(time.Duration(i)*time.Second)))
		f.wantDue(t, l.Delivery, 1)
		l = f.claimOne(t, r, f.at(time.Duration(i)*time.Second), ep)
		f.wantDue(t, l.Delivery, 1)
	}
	f.settleMoved(t, r, f.permanent(l))
	f.wantDue(t, l.Delivery, 0)
	f.replay(t, l.Delivery)
	f.wantDue(t, l.Delivery, 1)
	l = f.claimOne(t, r, f.at(time.Minute), ep)
	f.settleMoved(t, r, f.delivered(l))
	f.wantDue(t, l.Delivery, 0)
}

func testSettleFailures(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	for i := 1; i <= 3; i++ {
		f.settleMoved(t, r, f.transient(l, f.at(time.Duration(i)*time.Second)))
		l = f.claimOne(t, r, f.at(time.Duration(i)*time.Second), ep)
		if l.Number != i+1 || l.Failures != i {
			t.Errorf("claimed as number %d with %d failures, want %d and %d", l.Number, l.Failures, i+1, i)
		}
	}
	s := f.transient(l, time.Time{})
	s.State, s.Reason = posthaste.StateDead, posthaste.ReasonExhausted
	f.settleMoved(t, r, s)
	if d := f.wantStatus(t, l.Delivery, "dead", 4); d.Failures != 4 || d.Reason != posthaste.ReasonExhausted {
		t.Errorf("exhausted: %+v", d)
	}
	f.wantAttempts(t, l.Delivery, "1 transient", "2 transient", "3 transient", "4 transient")
}

func testSettleWiped(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	first, second := f.acceptDue(t, r, ep), f.acceptDue(t, r, ep)
	leases := f.claim(t, r, f.now, ep)
	f.Wipe(t, "due")
	f.settleMoved(t, r, f.delivered(leases[0]), f.transient(leases[1], f.at(time.Second)))
	f.wantStatus(t, first, "delivered", 1)
	f.wantStatus(t, second, "pending", 1)
	f.wantDue(t, second, 1)
}

func testSettleRivals(t *testing.T, f *fixture) {
	ep, rs := f.endpoint(t), f.workers(t, 2)
	var forth, back []store.Settlement
	for range 200 {
		s := f.delivered(f.acceptLeased(t, rs[0], ep))
		forth, back = append(forth, s), append([]store.Settlement{s}, back...)
	}
	moved := make([]store.Settled, 2)
	concurrently(2, func(i int) {
		moved[i] = f.settle(quiet{t}, rs[i], [][]store.Settlement{forth, back}[i]...)
	})
	if t.Failed() {
		return
	}
	for i := range forth {
		if moved[0].Moved[i] == moved[1].Moved[len(back)-1-i] {
			t.Errorf("settlement %d was moved by both or by none", i)
		}
		f.wantAttempts(t, forth[i].Lease.Delivery, "1 delivered")
	}
}

func testSettleNothing(t *testing.T, f *fixture) {
	same(t, "settled", f.settle(t, f.Store), store.Settled{})
	if got, err := f.Store.Claim(t.Context(), store.ClaimParams{Epoch: f.replica(t).epoch, Now: f.now}); err != nil || len(got.Leases) != 0 {
		t.Errorf("claim of nothing: %v, %v", got, err)
	}
}
