package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var repairCases = []testCase{
	{name: "a replay starts a run anew (B7)", run: testReplay},
	{name: "of 50 concurrent replays one wins", run: testReplayRace},
	{name: "only what is dead is replayed (B6)", run: testReplayNotDead},
	{name: "a replay of what is not there", run: testReplayNotFound},
	{name: "no replay at a deleted endpoint", run: testReplayDeleted},
	{name: "each run of a delivery ends for itself", run: testReplayRuns},
	{name: "a resend makes a further delivery", run: testResend},
	{name: "concurrent resends take numbers of their own", run: testResendRace},
	{name: "a resend of or to what is not there", run: testResendNotFound},
	{name: "no replay and no resend below the horizon (A5)", run: testRepairHorizon},
	{name: "replay against retention loses nothing (A5)", run: testReplayAgainstRetain},
}

// replay starts a new run a minute into the case.
func (f *fixture) replay(t tester, id posthaste.ID) {
	t.Helper()
	if err := f.Store.Replay(t.Context(), f.replayParams(id)); err != nil {
		t.Fatalf("replay: %v", err)
	}
}

func (f *fixture) replayParams(id posthaste.ID) store.ReplayParams {
	return store.ReplayParams{Tenant: f.tenant, Delivery: id, Now: f.at(time.Minute), ExpiresAt: f.at(100 * time.Hour)}
}

func (f *fixture) resendParams(event posthaste.ID, ep store.EndpointRow) store.ResendParams {
	return store.ResendParams{Tenant: f.tenant, Event: event, Endpoint: ep.No, Now: f.at(time.Minute), ExpiresAt: f.at(100 * time.Hour)}
}

func testReplay(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	d := f.leased(ep)
	d.ExpiresAt = f.at(-time.Hour) // the first run is long over
	e := f.event(d)
	f.accept(t, r, e)
	l := bornLease(r, e, 1)
	l.Failures = 3
	s := f.permanent(l)
	f.settleMoved(t, r, s)
	f.replay(t, l.Delivery)

	got := f.wantStatus(t, l.Delivery, "pending", 1)
	want := store.DeliveryRow{Tenant: f.tenant, Endpoint: ep.No, LastError: "answered 400", Delivery: posthaste.Delivery{
		ID: l.Delivery, EndpointID: ep.ID, Type: e.Type, Attempts: 1, RunAt: f.at(time.Minute),
		ExpiresAt: f.at(100 * time.Hour), NextAttemptAt: f.at(time.Minute), LastOutcome: posthaste.OutcomePermanent,
	}}
	same(t, "replayed", got, want)
	f.wantDue(t, l.Delivery, 1)
	f.wantListed(t, store.ListDeliveriesParams{Status: "dead"})
	again := f.claimOne(t, r, f.at(time.Minute), ep)
	if again.Number != 2 || again.Failures != 0 || !again.ExpiresAt.Equal(f.at(100*time.Hour)) {
		t.Errorf("the new run: %+v", again)
	}
}

func testReplayRace(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	id := f.die(t, r, ep)
	stores := []store.Store{f.Store, f.Another(t)}
	var won, refused atomic.Int32
	concurrently(50, func(i int) {
		switch err := stores[i%2].Replay(t.Context(), f.replayParams(id)); {
		case err == nil:
			won.Add(1)
		case posthaste.CodeOf(err) == posthaste.CodeNotDead:
			refused.Add(1)
		default:
			t.Errorf("replay: %v", err)
		}
	})
	if won.Load() != 1 || refused.Load() != 49 {
		t.Errorf("%d replays won and %d found it not dead, want 1 and 49", won.Load(), refused.Load())
	}
	f.wantDue(t, id, 1)
	if l := f.claimOne(t, r, f.at(time.Minute), ep); l.Number != 2 {
		t.Errorf("one more run begins with number %d, want 2", l.Number)
	}
}

func testReplayNotDead(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	delivered, leased, waits := f.acceptLeased(t, r, ep), f.acceptLeased(t, r, ep), f.acceptDue(t, r, ep)
	f.settleMoved(t, r, f.delivered(delivered))
	for _, id := range []posthaste.ID{delivered.Delivery, leased.Delivery, waits} {
		before := f.delivery(t, id)
		wantCode(t, "replay of a "+before.Status()+" delivery", f.Store.Replay(t.Context(), f.replayParams(id)), posthaste.CodeNotDead)
		same(t, "delivery", f.delivery(t, id), before)
	}
	same(t, "due rows", f.DueRows(t), map[posthaste.ID]int{waits: 1})
}

func testReplayNotFound(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	id := f.die(t, r, ep)
	wantErr(t, "replay of nothing", f.Store.Replay(t.Context(), f.replayParams(f.event().ID.Delivery(1))), store.ErrNotFound)
	p := f.replayParams(id)
	p.Tenant = f.createTenant(t, "acme")
	wantErr(t, "replay by another tenant", f.Store.Replay(t.Context(), p), store.ErrNotFound)
	f.wantStatus(t, id, "dead", 1)
}

func testReplayDeleted(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	id := f.die(t, r, ep)
	f.deleteEndpoint(t, ep)
	wantCode(t, "replay", f.Store.Replay(t.Context(), f.replayParams(id)), posthaste.CodeEndpointDeleted)
	_, err := f.Store.Resend(t.Context(), f.resendParams(id.Event(), ep))
	wantCode(t, "resend", err, posthaste.CodeEndpointDeleted)
	f.wantStatus(t, id, "dead", 1)
	f.wantDue(t, id, 0)
}

func testReplayRuns(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	id := f.die(t, r, ep)
	for n := 2; n <= 4; n++ {
		f.replay(t, id)
		f.settleMoved(t, r, f.permanent(f.claimOne(t, r, f.at(time.Minute), ep)))
		f.wantStatus(t, id, "dead", n)
		f.wantDue(t, id, 0)
		f.wantListed(t, store.ListDeliveriesParams{Status: "dead"}, id)
	}
	f.wantAttempts(t, id, "1 permanent", "2 permanent", "3 permanent", "4 permanent")
}

func testResend(t *testing.T, f *fixture) {
	r, one, two := f.replica(t), f.endpoint(t), f.endpoint(t)
	e := f.event(f.leased(one))
	f.accept(t, r, e)
	f.settleMoved(t, r, f.delivered(bornLease(r, e, 1)))
	for n := uint32(2); n <= 4; n++ {
		ep := []store.EndpointRow{one, two}[n%2]
		id, err := f.Store.Resend(t.Context(), f.resendParams(e.ID, ep))
		if err != nil || id != e.ID.Delivery(n) {
			t.Fatalf("resend: delivery %x, %v; want number %d", id, err, n)
		}
		same(t, "delivery", f.delivery(t, id), store.DeliveryRow{Tenant: f.tenant, Endpoint: ep.No, Delivery: posthaste.Delivery{
			ID: id, EndpointID: ep.ID, Type: e.Type, RunAt: f.at(time.Minute), ExpiresAt: f.at(100 * time.Hour), NextAttemptAt: f.at(time.Minute),
		}})
		f.wantDue(t, id, 1)
	}
	got, err := f.Store.Event(t.Context(), f.tenant, e.ID)
	if err != nil || got.FanOut != 1 {
		t.Errorf("a resend changed the event: %+v, %v", got, err)
	}
	if leases := f.claim(t, r, f.at(time.Minute), one, two); len(leases) != 3 || leases[0].Number != 1 {
		t.Errorf("claimed %v, want the 3 resends as number 1", leases)
	}
}

func testResendRace(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	e := f.event()
	f.accept(t, r, e)
	stores := []store.Store{f.Store, f.Another(t)}
	ids := make([]posthaste.ID, 10)
	concurrently(len(ids), func(i int) {
		var err error
		if ids[i], err = stores[i%2].Resend(t.Context(), f.resendParams(e.ID, ep)); err != nil {
			t.Errorf("resend: %v", err)
		}
	})
	seen := map[posthaste.ID]bool{}
	for _, id := range ids {
		if seen[id] || id.Event() != e.ID || id.Number() < 1 || id.Number() > uint32(len(ids)) {
			t.Errorf("resent as %x, number %d", id, id.Number())
		}
		seen[id] = true
		f.wantDue(t, id, 1)
	}
}

func testResendNotFound(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	e := f.event()
	f.accept(t, r, e)
	acme := f.createTenant(t, "acme")
	theirs := f.endpointOf(t, acme)
	foreign := f.resendParams(e.ID, theirs)
	foreign.Tenant = acme
	for what, p := range map[string]store.ResendParams{
		"an event that is not there":    f.resendParams(f.event().ID, ep),
		"another tenant's event":        foreign,
		"another tenant's endpoint":     f.resendParams(e.ID, theirs),
		"an endpoint that is not there": f.resendParams(e.ID, store.EndpointRow{No: 1 << 30}),
	} {
		_, err := f.Store.Resend(t.Context(), p)
		wantErr(t, "resend of or to "+what, err, store.ErrNotFound)
	}
	if due := f.DueRows(t); len(due) != 0 {
		t.Errorf("due rows of refused resends: %v", due)
	}
}

func testRepairHorizon(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	var old []posthaste.ID
	for i := range 5 { // two rows a step: below the horizon some rows are still there
		e := f.eventAt(f.now.AddDate(0, 0, -100).Add(time.Duration(i)*time.Second), f.leased(ep))
		f.accept(t, r, e)
		f.settleMoved(t, r, f.permanent(bornLease(r, e, 1)))
		old = append(old, e.ID)
	}
	// The deaths happened now; judged a hundred days later they are old too.
	p := retention(f.now.AddDate(0, 0, 100), 2)
	if _, err := f.Store.Retain(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, id := range old {
		refused := f.Store.Replay(t.Context(), f.replayParams(id.Delivery(1)))
		if posthaste.CodeOf(refused) != posthaste.CodeExpiredEvent && !isNotFound(refused) {
			t.Errorf("replay below the horizon: %v", refused)
		}
		_, refused = f.Store.Resend(t.Context(), f.resendParams(id, ep))
		if posthaste.CodeOf(refused) != posthaste.CodeExpiredEvent && !isNotFound(refused) {
			t.Errorf("resend below the horizon: %v", refused)
		}
	}
	if due := f.DueRows(t); len(due) != 0 {
		t.Errorf("due rows below the horizon: %v", due)
	}
}

// testReplayAgainstRetain: of each old dead letter either the replay was
// refused, or the retention has left it alone.
func testReplayAgainstRetain(t *testing.T, f *fixture) {
	f.purged = true
	r, ep := f.replica(t), f.endpoint(t)
	var ids []posthaste.ID
	for i := range 25 { // one a day, so that there are days to keep and days to drop
		e := f.eventAt(f.now.AddDate(0, 0, -100-i), f.leased(ep))
		f.accept(t, r, e)
		f.settleMoved(t, r, f.permanent(bornLease(r, e, 1)))
		ids = append(ids, e.ID.Delivery(1))
	}
	other := f.Another(t)
	refused := make([]error, len(ids))
	concurrently(2, func(i int) {
		if i == 0 {
			for n, id := range ids {
				refused[n] = f.Store.Replay(t.Context(), f.replayParams(id))
			}
			return
		}
		for range 100 {
			got, err := other.Retain(t.Context(), retention(f.now.AddDate(0, 0, 100), 5))
			if err != nil {
				t.Errorf("retain: %v", err)
				return
			}
			if !got.More {
				return
			}
		}
	})
	due := f.DueRows(t)
	for n, id := range ids {
		if err := refused[n]; err != nil {
			if posthaste.CodeOf(err) != posthaste.CodeExpiredEvent && !isNotFound(err) {
				t.Errorf("replay: %v", err)
			}
			continue
		}
		if d, err := f.Store.Delivery(t.Context(), f.tenant, id); err != nil || d.State != posthaste.StatePending || due[id] != 1 {
			t.Errorf("replayed, and now %s with %d due rows; %v", d.Status(), due[id], err)
		}
		if _, err := f.Store.Event(t.Context(), f.tenant, id.Event()); err != nil {
			t.Errorf("the event of a replayed delivery: %v", err)
		}
	}
}
