package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var claimCases = []testCase{
	{name: "a claim leases due work and says all of it", run: testClaim},
	{name: "claims take rows in the order of their keys, up to the cap of each endpoint", run: testClaimOrder},
	{name: "claims begin at their floor and end at now", run: testClaimRange},
	{name: "a backlog of one endpoint does not crowd out another", run: testClaimFair},
	{name: "a claimed row is not claimed again", run: testClaimOnce},
	{name: "two claimers on separate connections never share a row", run: func(t *testing.T, f *fixture) { f.claimers(t, 2) }},
	{name: "eight claimers on separate connections never share a row", run: func(t *testing.T, f *fixture) { f.claimers(t, 8) }},
	{name: "a due row whose delivery is gone is dropped (A4)", run: testClaimStrayGone},
	{name: "a due row whose delivery is not pending is dropped (A4)", run: testClaimStrayEnded},
	{name: "a due row that is not the delivery's own is dropped (A4)", run: testClaimStrayTime},
	{name: "stale hints do not hide the work behind them (A5)", run: testClaimStrayMany},
	{name: "rows whose run has expired are claimed too", run: testClaimExpired},
	{name: "claims bring back the tenants that moved on", run: testClaimNewer},
	{name: "claim with an aged beat is fenced and leases nothing (B1)", run: testClaimAged},
	{name: "load returns events in the order asked for, within its bytes", run: testLoad},
}

func testClaim(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	e := f.event(f.due(ep, f.at(-time.Second)))
	f.accept(t, r, e)
	want := store.Lease{
		Delivery: e.ID.Delivery(1), Tenant: f.tenant, Endpoint: ep.No, Epoch: r.epoch,
		Number: 1, DueAt: f.at(-time.Second), ExpiresAt: e.Deliveries[0].ExpiresAt,
	}
	same(t, "lease", f.claimOne(t, r, f.now, ep), want)
	d := f.wantStatus(t, want.Delivery, "delivering", 0)
	if !d.NextAttemptAt.IsZero() {
		t.Errorf("a leased delivery waits until %v", d.NextAttemptAt)
	}
	f.wantDue(t, want.Delivery, 1) // its row stays, owned, until it is settled

	f.settleMoved(t, r, f.transient(want, f.at(5*time.Second)))
	want.Number, want.Failures, want.DueAt = 2, 1, f.at(5*time.Second)
	same(t, "second lease", f.claimOne(t, r, f.at(5*time.Second), ep), want)
}

func testClaimOrder(t *testing.T, f *fixture) {
	r, one, two := f.replica(t), f.endpoint(t), f.endpoint(t)
	var batch []store.NewEvent
	for i := range 10 { // due times fall as ids rise; the last two are equal
		at := f.at(-time.Duration(min(i, 8)) * time.Second)
		batch = append(batch, f.event(f.due(one, at), f.due(two, at)))
	}
	f.accept(t, r, batch...)
	for _, want := range [][]int{{8, 9, 7}, {6, 5, 4}, {3, 2, 1}, {0}, {}} {
		got, err := r.Claim(t.Context(), store.ClaimParams{Epoch: r.epoch, Now: f.now, Want: []store.ClaimWant{
			{Endpoint: one.No, Cap: 3}, {Endpoint: two.No, Cap: 3},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for n, ep := range []store.EndpointRow{one, two} {
			var ids, wantIDs []posthaste.ID
			for _, l := range got.Leases {
				if l.Endpoint == ep.No {
					ids = append(ids, l.Delivery)
				}
			}
			for _, i := range want {
				wantIDs = append(wantIDs, batch[i].ID.Delivery(uint32(n+1)))
			}
			same(t, "claimed", ids, wantIDs)
		}
	}
}

func testClaimRange(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	for _, at := range []time.Duration{-2 * time.Second, -time.Second, 0, time.Second} {
		f.accept(t, r, f.event(f.due(ep, f.at(at))))
	}
	claim := func(from, now time.Duration) int {
		t.Helper()
		got, err := r.Claim(t.Context(), store.ClaimParams{Epoch: r.epoch, Now: f.at(now), Want: []store.ClaimWant{
			{Endpoint: ep.No, Cap: 10, From: f.at(from)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return len(got.Leases)
	}
	if n := claim(-time.Second, -time.Microsecond); n != 1 {
		t.Errorf("claimed %d between floor and now, want 1 (both ends count)", n)
	}
	if n := claim(-time.Minute, 0); n != 2 {
		t.Errorf("claimed %d from an earlier floor, want the 2 that are due", n)
	}
	if n := claim(time.Second, time.Second); n != 1 {
		t.Errorf("claimed %d at their very time, want 1", n)
	}
}

func testClaimFair(t *testing.T, f *fixture) {
	r, busy, quiet := f.replica(t), f.endpoint(t), f.endpoint(t)
	var batch []store.NewEvent
	for range 500 {
		batch = append(batch, f.event(f.due(busy, f.at(-time.Hour))))
	}
	f.accept(t, r, append(batch, f.event(f.due(quiet, f.now)))...)
	got, err := r.Claim(t.Context(), store.ClaimParams{Epoch: r.epoch, Now: f.now, Want: []store.ClaimWant{
		{Endpoint: busy.No, Cap: 7}, {Endpoint: quiet.No, Cap: 7},
	}})
	if err != nil {
		t.Fatal(err)
	}
	n := map[store.EndpointNo]int{}
	for _, l := range got.Leases {
		n[l.Endpoint]++
	}
	if n[busy.No] != 7 || n[quiet.No] != 1 {
		t.Errorf("claimed %d and %d, want 7 and 1", n[busy.No], n[quiet.No])
	}
}

func testClaimOnce(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	f.acceptDue(t, r, ep)
	f.claimOne(t, r, f.now, ep)
	if again := f.claim(t, r, f.at(time.Hour), ep); len(again) != 0 {
		t.Errorf("claimed again: %v", again)
	}
}

// claimers counts every delivery exactly once, through a transient failure each,
// so that rows also come back while the others claim.
func (f *fixture) claimers(t *testing.T, n int) {
	const deliveries = 600
	rs, eps := f.workers(t, n), []store.EndpointRow{f.endpoint(t), f.endpoint(t), f.endpoint(t)}
	var batch []store.NewEvent
	for i := range deliveries {
		batch = append(batch, f.event(f.due(eps[i%3], f.at(-time.Duration(i%7)*time.Second))))
	}
	f.accept(t, rs[0], batch...)

	var mu sync.Mutex
	taken := map[store.Lease]int{} // by delivery and number
	concurrently(n, func(i int) {
		for idle := 0; idle < 20; {
			leases := f.claimSome(quiet{t}, rs[i], eps)
			mu.Lock()
			for _, l := range leases {
				taken[store.Lease{Delivery: l.Delivery, Number: l.Number}]++
			}
			done := len(taken) == 2*deliveries
			mu.Unlock()
			if len(leases) == 0 {
				if idle++; done || t.Failed() {
					return
				}
				continue
			}
			idle = 0
			var out []store.Settlement
			for _, l := range leases {
				if l.Number == 1 {
					out = append(out, f.transient(l, f.at(time.Duration(i+1)*time.Millisecond)))
				} else {
					out = append(out, f.delivered(l))
				}
			}
			f.settleMoved(quiet{t}, rs[i], out...)
		}
	})
	for l, times := range taken {
		if times != 1 {
			t.Fatalf("attempt %d of %x was leased %d times", l.Number, l.Delivery, times)
		}
	}
	if len(taken) != 2*deliveries || len(f.DueRows(t)) != 0 {
		t.Errorf("%d leases, want %d; %d due rows are left", len(taken), 2*deliveries, len(f.DueRows(t)))
	}
}

func (f *fixture) claimSome(t tester, r *replica, eps []store.EndpointRow) []store.Lease {
	r.fresh(t)
	p := store.ClaimParams{Epoch: r.epoch, Now: f.at(time.Second)}
	for _, ep := range eps {
		p.Want = append(p.Want, store.ClaimWant{Endpoint: ep.No, Cap: 5})
	}
	got, err := r.Claim(t.Context(), p)
	if err != nil {
		t.Errorf("claim: %v", err)
	}
	return got.Leases
}

func testClaimStrayGone(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	gone := f.event().ID.Delivery(1)
	f.StrayDue(t, store.DueKey{Endpoint: ep.No, DueAt: f.at(-time.Second), Delivery: gone})
	if got := f.claim(t, r, f.now, ep); len(got) != 0 {
		t.Errorf("claimed a delivery that does not exist: %v", got)
	}
	f.wantDue(t, gone, 0)
}

func testClaimStrayEnded(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	done := f.acceptLeased(t, r, ep)
	f.settleMoved(t, r, f.delivered(done))
	for _, id := range []posthaste.ID{done.Delivery, f.die(t, r, ep)} {
		f.StrayDue(t, store.DueKey{Endpoint: ep.No, DueAt: f.at(-time.Second), Delivery: id})
		if got := f.claim(t, r, f.now, ep); len(got) != 0 {
			t.Errorf("claimed a terminal delivery: %v", got)
		}
		f.wantDue(t, id, 0)
	}
}

func testClaimStrayTime(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	waits := f.event(f.due(ep, f.at(time.Minute)))
	f.accept(t, r, waits)
	id := waits.ID.Delivery(1)
	f.StrayDue(t, store.DueKey{Endpoint: ep.No, DueAt: f.at(-time.Second), Delivery: id})
	if got := f.claim(t, r, f.now, ep); len(got) != 0 {
		t.Errorf("claimed before its time, by another's row: %v", got)
	}
	f.wantDue(t, id, 1)

	// Both rows in one claim: one lease, by the delivery's own row.
	f.StrayDue(t, store.DueKey{Endpoint: ep.No, DueAt: f.at(30 * time.Second), Delivery: id})
	l := f.claimOne(t, r, f.at(time.Minute), ep)
	if !l.DueAt.Equal(f.at(time.Minute)) {
		t.Errorf("claimed by the row of %v", l.DueAt)
	}
	f.wantDue(t, id, 1)
	f.settleMoved(t, r, f.delivered(l))

	// A hint beside work that was born leased.
	born := f.acceptLeased(t, r, ep)
	f.StrayDue(t, store.DueKey{Endpoint: ep.No, DueAt: f.at(-time.Second), Delivery: born.Delivery})
	if got := f.claim(t, r, f.now, ep); len(got) != 0 {
		t.Errorf("claimed what is born leased: %v", got)
	}
	f.wantDue(t, born.Delivery, 0)
	f.settleMoved(t, r, f.delivered(born))
}

func testClaimStrayMany(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	for range 20 {
		f.StrayDue(t, store.DueKey{Endpoint: ep.No, DueAt: f.at(-time.Minute), Delivery: f.event().ID.Delivery(1)})
	}
	id := f.acceptDue(t, r, ep)
	for range 10 { // hints may use up the cap of a claim, but each of them only once
		got, err := r.Claim(t.Context(), store.ClaimParams{
			Epoch: r.epoch, Now: f.now, Want: []store.ClaimWant{{Endpoint: ep.No, Cap: 4}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Leases) == 1 && got.Leases[0].Delivery == id {
			same(t, "due rows", f.DueRows(t), map[posthaste.ID]int{id: 1})
			return
		}
	}
	t.Error("ten claims of 4 do not come past 20 hints")
}

func testClaimExpired(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	d := f.due(ep, f.at(-time.Hour))
	d.ExpiresAt = f.at(-time.Minute)
	f.accept(t, r, f.event(d))
	l := f.claimOne(t, r, f.now, ep)
	if !l.ExpiresAt.Equal(d.ExpiresAt) {
		t.Errorf("the run ends at %v, want %v", l.ExpiresAt, d.ExpiresAt)
	}
	f.settleMoved(t, r, store.Settlement{Lease: l, State: posthaste.StateDead, Reason: posthaste.ReasonExpired})
	got := f.wantStatus(t, l.Delivery, "dead", 0)
	if got.Reason != posthaste.ReasonExpired || got.LastOutcome != 0 || got.FinishedAt.IsZero() {
		t.Errorf("ended unstarted: %+v", got)
	}
	f.wantDue(t, l.Delivery, 0)
}

func testClaimNewer(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	old := f.version(t, f.tenant)
	f.acceptDue(t, r, ep)
	f.endpoint(t)
	for _, tenants := range [][]store.TenantVersion{{old}, {f.version(t, f.tenant)}} {
		got, err := r.Claim(t.Context(), store.ClaimParams{
			Epoch: r.epoch, Now: f.now, Tenants: tenants, Want: []store.ClaimWant{{Endpoint: ep.No, Cap: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if tenants[0] == old {
			same(t, "newer", got.Newer, []store.TenantVersion{f.version(t, f.tenant)})
		} else if len(got.Newer) != 0 {
			t.Errorf("newer %v, though nothing changed", got.Newer)
		}
	}
}

func testClaimAged(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	id := f.acceptDue(t, r, ep)
	f.AgeBeat(t, r.epoch, store.FreshBeat+time.Second)
	_, err := r.Claim(t.Context(), store.ClaimParams{
		Epoch: r.epoch, Now: f.now, Want: []store.ClaimWant{{Endpoint: ep.No, Cap: 1}},
	})
	wantErr(t, "claim", err, store.ErrFenced)
	f.wantStatus(t, id, "pending", 0)
	r.beat(t)
	f.claimOne(t, r, f.now, ep)
}

func testLoad(t *testing.T, f *fixture) {
	r := f.replica(t)
	acme := f.createTenant(t, "acme")
	a, b, c := f.event(), f.event(), f.event()
	b.Tenant = acme
	a.Payload, b.Payload, c.Payload = make([]byte, 1000), []byte("b"), make([]byte, 1000)
	f.accept(t, r, a, b, c)
	key := func(e store.NewEvent) store.EventKey { return store.EventKey{Tenant: e.Tenant, ID: e.ID} }
	load := func(maxBytes int, keys ...store.EventKey) []posthaste.Event {
		t.Helper()
		got, err := r.Load(t.Context(), store.LoadParams{Events: keys, MaxBytes: maxBytes})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	foreign := store.EventKey{Tenant: f.tenant, ID: b.ID} // there, but another tenant's
	absent := key(f.event())
	same(t, "loaded", load(1<<20, key(c), absent, key(a), foreign, key(b)), []posthaste.Event{c.Event, a.Event, b.Event})
	same(t, "loaded of nothing", load(1<<20), []posthaste.Event{})

	for _, maxBytes := range []int{1, 1000, 1500} {
		got := load(maxBytes, key(a), key(c), key(b))
		if len(got) < 1 || len(got) > 2 || got[0].ID != a.ID {
			t.Errorf("at most %d bytes: %d events", maxBytes, len(got))
		}
	}
}
