package storetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var replicaCases = []testCase{
	{name: "register makes a busy and fresh epoch", run: testRegister},
	{name: "an epoch is never used again, not even after replicas is wiped (B9)", run: testEpochUnique, damaged: true},
	{name: "register takes over what a dead process held, claimed work too (A7)", run: testRegisterTakesOver},
	{name: "register takes over what its own earlier epoch held, and says where (B9)", run: testRegisterAnew},
	{name: "a living replica's name is refused, a dead one's is taken over at once (B9)", run: testRegisterNamesake, twoEpochs: true},
	{name: "a name is free when its epoch has retired", run: testRegisterRetired, twoEpochs: true},
	{name: "beat raises the low-water mark and never lowers it", run: testBeatLowWater},
	{name: "beat brings back the tenants that moved on", run: testBeatNewer},
	{name: "beat of an epoch that is gone is fenced", run: testBeatFenced},
	{name: "beat lists every replica by epoch", run: testBeatReplicas, twoEpochs: true},
	{name: "owned lists the pending deliveries of a range (A2)", run: testOwned},
	{name: "owned due rows are paged in key order", run: testOwnedDue},
	{name: "retire deletes the row of an epoch that owns nothing", run: testRetire},
	{name: "retire refuses while something is left", run: testRetireRefuses},
	{name: "a wake-up reaches another replica", run: testWake, twoEpochs: true},
	{name: "listen returns when its context ends", run: testListenEnds},
	{name: "ping answers", run: testPing},
}

func testRegister(t *testing.T, f *fixture) {
	low := f.minter.Mint(f.now)
	reg, err := f.Store.Register(t.Context(), store.RegisterParams{Name: "one", LowWater: low})
	if err != nil {
		t.Fatal(err)
	}
	if off := time.Until(reg.Now).Abs(); off > time.Minute {
		t.Errorf("the database's clock %v is %v off", reg.Now, off)
	}
	if reg.Now.Location() != time.UTC || !reg.Now.Equal(reg.Now.Truncate(time.Microsecond)) {
		t.Errorf("the database's clock %v is not UTC in whole microseconds", reg.Now)
	}
	r := &replica{Store: f.Store, epoch: reg.Epoch, beatAt: time.Now()}
	row := r.row(t)
	if row.Name != "one" || !row.Busy || row.LowWater != low {
		t.Errorf("row of the new epoch: %+v", row)
	}
	f.acceptLeased(t, r, f.endpoint(t)) // fresh: it passes the fence without a beat
}

func testEpochUnique(t *testing.T, f *fixture) {
	first := f.replica(t)
	lease := f.acceptLeased(t, first, f.endpoint(t))
	f.Wipe(t, "replicas")
	second := f.replica(t)
	if second.epoch <= first.epoch {
		t.Fatalf("epoch %d follows %d", second.epoch, first.epoch)
	}
	_, err := first.Beat(t.Context(), store.BeatParams{Epoch: first.epoch})
	wantErr(t, "beat of the wiped epoch", err, store.ErrFenced)
	_, err = first.Accept(t.Context(), f.params(t, first, f.event()))
	wantErr(t, "accept of the wiped epoch", err, store.ErrFenced)
	if got := f.delivery(t, lease.Delivery); got.State != posthaste.StatePending {
		t.Errorf("wiping replicas changed a delivery: %+v", got)
	}
}

func testRegisterTakesOver(t *testing.T, f *fixture) {
	first, ep := f.replica(t), f.endpoint(t)
	born := f.acceptLeased(t, first, ep)
	claimed := f.acceptDue(t, first, ep)
	f.claimOne(t, first, f.now, ep)

	next, got := f.succeed(t, first)
	if got.Deliveries != 2 {
		t.Errorf("%d deliveries taken over, want 2", got.Deliveries)
	}
	for _, id := range []posthaste.ID{born.Delivery, claimed} {
		f.wantStatus(t, id, "pending", 1)
		f.wantAttempts(t, id, "1 lost")
		f.wantDue(t, id, 1)
	}
	for _, l := range f.claim(t, next, f.at(time.Minute), ep) {
		if l.Number != 2 || l.Failures != 0 {
			t.Errorf("taken over as number %d with %d failures, want 2 and 0", l.Number, l.Failures)
		}
	}
	_, err := first.Beat(t.Context(), store.BeatParams{Epoch: first.epoch})
	wantErr(t, "beat of the dead epoch", err, store.ErrFenced)
}

func testRegisterAnew(t *testing.T, f *fixture) {
	first, one, two := f.replica(t), f.endpoint(t), f.endpoint(t)
	born := []store.Lease{f.acceptLeased(t, first, two), f.acceptLeased(t, first, one), f.acceptLeased(t, first, two)}
	got, err := f.Store.Register(t.Context(), store.RegisterParams{Name: f.nameOf(f.Store)})
	if err != nil || got.Reclaimed != len(born) {
		t.Fatalf("register anew: %+v, %v; want %d reclaimed", got, err, len(born))
	}
	same(t, "endpoints", got.Endpoints, []store.EndpointNo{one.No, two.No})
	for _, l := range born {
		f.wantAttempts(t, l.Delivery, "1 lost")
		if d := f.wantStatus(t, l.Delivery, "pending", 1); d.NextAttemptAt.After(got.Now) {
			t.Errorf("due at %v, registered at %v", d.NextAttemptAt, got.Now)
		}
		f.wantDue(t, l.Delivery, 1)
	}
}

func testRegisterNamesake(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	first, other := f.rival(t), f.rival(t)
	born, claimed := f.acceptLeased(t, first, ep), f.acceptDue(t, first, ep)
	f.claimOne(t, first, f.now, ep)
	theirs := f.acceptLeased(t, other, ep)

	namesake := store.RegisterParams{Name: f.nameOf(first.Store)}
	_, err := f.Store.Register(t.Context(), namesake)
	wantErr(t, "register under the name of a living replica", err, store.ErrConflict)
	if e, ok := errors.AsType[*posthaste.Error](err); !ok || e.Hint == "" {
		t.Errorf("%v: no hint", err)
	}
	f.settleMoved(t, first, f.delivered(f.acceptLeased(t, first, ep))) // and nothing happened to it

	if err := first.Close(); err != nil { // as the end of its process would
		t.Fatal(err)
	}
	began := time.Now()
	got, err := f.Store.Register(t.Context(), namesake)
	if err != nil || got.Reclaimed != 2 {
		t.Fatalf("register under the name of a dead replica: %+v, %v; want 2 reclaimed", got, err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("taken over after %v", took)
	}
	same(t, "endpoints", got.Endpoints, []store.EndpointNo{ep.No})
	for _, id := range []posthaste.ID{born.Delivery, claimed} {
		f.wantStatus(t, id, "pending", 1)
		f.wantAttempts(t, id, "1 lost")
		f.wantDue(t, id, 1)
	}
	_, err = f.Store.Beat(t.Context(), store.BeatParams{Epoch: first.epoch})
	wantErr(t, "beat of the dead epoch", err, store.ErrFenced)

	f.settleMoved(t, other, f.delivered(theirs)) // another name's: untouched
	f.wantAttempts(t, theirs.Delivery, "1 delivered")
}

func testRegisterRetired(t *testing.T, f *fixture) {
	first := f.rival(t)
	if err := first.Retire(t.Context(), first.epoch); err != nil {
		t.Fatal(err)
	}
	got, err := f.Store.Register(t.Context(), store.RegisterParams{Name: f.nameOf(first.Store)})
	if err != nil || got.Reclaimed != 0 || len(got.Endpoints) != 0 {
		t.Errorf("register under the name of one that retired: %+v, %v", got, err)
	}
}

func testBeatLowWater(t *testing.T, f *fixture) {
	r := f.replica(t)
	low, high := f.minter.Mint(f.now), f.minter.Mint(f.now)
	for _, mark := range []posthaste.ID{high, low, {}} {
		if _, err := r.Beat(t.Context(), store.BeatParams{Epoch: r.epoch, LowWater: mark}); err != nil {
			t.Fatal(err)
		}
		if row := r.row(t); row.LowWater != high {
			t.Errorf("low water after a beat with %x: %x, want %x", mark, row.LowWater, high)
		}
	}
	before := r.row(t).BeatAt
	f.AgeBeat(t, r.epoch, time.Hour)
	aged := r.beat(t)
	if after := r.row(t).BeatAt; after.Before(before) || aged.Now.Before(before) {
		t.Errorf("beat at %v leaves beat_at %v, before that %v", aged.Now, after, before)
	}
}

func testBeatNewer(t *testing.T, f *fixture) {
	r := f.replica(t)
	old := f.version(t, f.tenant)
	other := store.TenantVersion{Tenant: f.createTenant(t, "acme")}
	other = f.version(t, other.Tenant)
	if b := r.beat(t, old, other); len(b.Newer) != 0 {
		t.Errorf("newer %v, though nothing changed", b.Newer)
	}
	f.endpoint(t)
	same(t, "newer", r.beat(t, old, other).Newer, []store.TenantVersion{f.version(t, f.tenant)})
}

func testBeatFenced(t *testing.T, f *fixture) {
	_, err := f.Store.Beat(t.Context(), store.BeatParams{Epoch: 1 << 30})
	wantErr(t, "beat of an epoch that never was", err, store.ErrFenced)
}

func testBeatReplicas(t *testing.T, f *fixture) {
	a, b := f.replica(t), f.rival(t)
	for _, r := range []*replica{a, b} {
		var got []store.Epoch
		for _, row := range r.beat(t).Replicas {
			got = append(got, row.Epoch)
		}
		same(t, "epochs", got, []store.Epoch{a.epoch, b.epoch})
	}
}

func testOwned(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	var leases []store.Lease
	for range 4 {
		leases = append(leases, f.acceptLeased(t, r, ep))
	}
	f.acceptDue(t, r, ep) // not owned
	f.settleMoved(t, r, f.delivered(leases[1]))
	end := f.minter.Mint(f.now)

	got, err := r.Owned(t.Context(), store.OwnedParams{Epoch: r.epoch, From: leases[0].Delivery, To: end})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "owned", got, []store.Lease{leases[0], leases[2], leases[3]})

	got, err = r.Owned(t.Context(), store.OwnedParams{Epoch: r.epoch, From: leases[2].Delivery, To: leases[3].Delivery})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "owned in [third, fourth)", got, leases[2:3])

	got, err = r.Owned(t.Context(), store.OwnedParams{Epoch: r.epoch + 1, To: end})
	if err != nil || len(got) != 0 {
		t.Errorf("owned by another epoch: %v, %v", got, err)
	}
}

func testOwnedDue(t *testing.T, f *fixture) {
	r, one, two := f.replica(t), f.endpoint(t), f.endpoint(t)
	var want []store.DueKey
	for i := range 3 {
		for _, ep := range []store.EndpointRow{one, two} {
			e := f.event(f.due(ep, f.at(-time.Duration(i)*time.Second)))
			f.accept(t, r, e)
			want = append(want, store.DueKey{Endpoint: ep.No, DueAt: e.Deliveries[0].DueAt, Delivery: e.ID.Delivery(1)})
		}
	}
	f.claim(t, r, f.now, one, two)
	f.acceptDue(t, r, one)       // due, but not owned
	f.acceptLeased(t, r, one)    // owned, but without a due row
	slices.SortFunc(want, byKey) // endpoint, time, delivery

	var got []store.DueKey
	for p := (store.OwnedDueParams{Epoch: r.epoch, Limit: 2}); ; p.After = got[len(got)-1] {
		page, err := r.OwnedDue(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, page...); len(page) < p.Limit {
			break
		}
	}
	same(t, "owned due rows", got, want)
}

func byKey(a, b store.DueKey) int {
	return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), a.DueAt.Compare(b.DueAt), a.Delivery.Compare(b.Delivery))
}

func testRetire(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	f.settleMoved(t, r, f.delivered(f.acceptLeased(t, r, ep)))
	f.acceptDue(t, r, ep) // waits, owned by nobody
	if err := r.Retire(t.Context(), r.epoch); err != nil {
		t.Fatalf("retire: %v", err)
	}
	_, err := r.Beat(t.Context(), store.BeatParams{Epoch: r.epoch})
	wantErr(t, "beat after retiring", err, store.ErrFenced)
}

func testRetireRefuses(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	born := f.acceptLeased(t, r, ep)
	wantErr(t, "retire with a born lease", r.Retire(t.Context(), r.epoch), store.ErrConflict)
	f.settleMoved(t, r, f.delivered(born))

	f.acceptDue(t, r, ep)
	claimed := f.claimOne(t, r, f.now, ep)
	wantErr(t, "retire with a claimed lease", r.Retire(t.Context(), r.epoch), store.ErrConflict)
	f.settleMoved(t, r, unstarted(claimed, f.at(time.Second)))
	if err := r.Retire(t.Context(), r.epoch); err != nil {
		t.Errorf("retire after all was given back: %v", err)
	}
}

func testWake(t *testing.T, f *fixture) {
	a, b := f.replica(t), f.rival(t)
	ep := f.endpoint(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	woken, done := make(chan []store.EndpointNo, 1), make(chan error, 1)
	go func() {
		done <- b.Listen(ctx, func(eps []store.EndpointNo) {
			select {
			case woken <- eps:
			default:
			}
		})
	}()
	// A hint sent before the other one listens is lost, as the contract says.
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for heard := false; !heard; {
		select {
		case eps := <-woken:
			if len(eps) == 0 { // it has begun to listen
				continue
			}
			same(t, "endpoints woken", eps, []store.EndpointNo{ep.No})
			heard = true
		case <-again.C:
			if err := a.Wake(ctx, []store.EndpointNo{ep.No}); err != nil {
				t.Errorf("wake: %v", err)
			}
		case <-ctx.Done():
			t.Error("no hint arrived")
			heard = true
		}
	}
	cancel()
	t.Logf("listen ended: %v", <-done) // whatever it says: its connection was cut by cancel
}

func testListenEnds(t *testing.T, f *fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Store.Listen(ctx, func([]store.EndpointNo) {}) }()
	if err := f.Store.Wake(t.Context(), []store.EndpointNo{1, 2}); err != nil {
		t.Errorf("wake: %v", err)
	}
	cancel()
	select {
	case err := <-done: // whatever it says: cancel may have cut its connection
		t.Logf("listen ended: %v", err)
	case <-time.After(20 * time.Second):
		t.Error("listen does not return")
	}
}

func testPing(t *testing.T, f *fixture) {
	if err := f.Store.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}
