package storetest

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// revokeCases are the ways in which a living lease is taken away.
var revokeCases = []testCase{
	{name: "revoking records the number as lost and makes it due (B5)", run: testRevoke},
	{name: "revoking replaces the due row, also one due at this very time (A4)", run: testRevokeClaimed},
	{name: "revoked several times in a row backs off (B8)", run: testRevokeBackoff},
	{name: "revoking takes only what the epoch still holds", run: testRevokeHeld},
	{name: "revoking leaves a lease alone that was taken since", run: testRevokeLate},
	{name: "lost attempts do not count as failures (B8)", run: testRevokeFailures},
	{name: "a replay after revoking uses fresh numbers (B5)", run: testRevokeReplay},
	{name: "reclaim moves every lease of an epoch", run: testReclaim},
	{name: "reclaim finds claimed work older than the low-water mark (A2)", run: testReclaimBelowLowWater},
	{name: "reclaim refuses when the beat moved (B2)", run: testReclaimBeaten},
	{name: "reclaim of an epoch that is gone is a conflict", run: testReclaimGone},
	{name: "reclaim leaves other epochs alone", run: testReclaimOthers, twoEpochs: true},
	{name: "two replicas reclaim at once, one does it", run: testReclaimRace},
	{name: "reclaim against the settles of the silent one", run: testReclaimAgainstSettle},
	{name: "a crash loop backs off and spends no failure (B8)", run: testReclaimLoop},
}

func (f *fixture) revoke(t tester, r *replica, now time.Time, leases ...store.Lease) {
	t.Helper()
	p := store.RevokeParams{Epoch: r.epoch, Now: now}
	for _, l := range leases {
		p.Leases = append(p.Leases, l.Held())
	}
	got, err := r.Revoke(t.Context(), p)
	if err != nil || got != len(leases) {
		t.Fatalf("revoke: %d revoked, want %d; %v", got, len(leases), err)
	}
}

func testRevoke(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	f.revoke(t, r, f.at(time.Second), l)
	d := f.wantStatus(t, l.Delivery, "pending", 1)
	if d.Failures != 0 || !d.NextAttemptAt.Equal(f.at(time.Second)) || !d.ExpiresAt.Equal(l.ExpiresAt) {
		t.Errorf("revoked: %+v", d)
	}
	got := f.attempts(t, l.Delivery)
	if len(got) != 1 || got[0].Outcome != posthaste.OutcomeLost || got[0].Cause != posthaste.CauseLost || got[0].Late || got[0].StatusCode != 0 {
		t.Errorf("attempts: %+v", got)
	}
	f.wantDue(t, l.Delivery, 1)
	if early := f.claim(t, r, f.at(time.Second-time.Microsecond), ep); len(early) != 0 {
		t.Errorf("claimed before it is due: %v", early)
	}
	f.claimOne(t, r, f.at(time.Second), ep)
}

func testRevokeClaimed(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	for _, age := range []time.Duration{0, time.Second} { // of the row that it was claimed from
		e := f.event(f.due(ep, f.at(-age)))
		f.accept(t, r, e)
		l := f.claimOne(t, r, f.now, ep)
		f.revoke(t, r, f.now, l)
		f.wantDue(t, l.Delivery, 1)
		f.wantAttempts(t, l.Delivery, "1 lost")
		l = f.claimOne(t, r, f.now, ep)
		if l.Number != 2 || !l.DueAt.Equal(f.now) {
			t.Errorf("claimed as number %d, due %v; want 2, due %v", l.Number, l.DueAt, f.now)
		}
		f.settleMoved(t, r, f.delivered(l))
		f.wantDue(t, l.Delivery, 0)
	}
}

func testRevokeBackoff(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l, now := f.acceptLeased(t, r, ep), f.now
	next := func(wait time.Duration) {
		t.Helper()
		f.revoke(t, r, now, l)
		if d := f.delivery(t, l.Delivery); d.NextAttemptAt.Sub(now) != wait {
			t.Errorf("revoked as number %d: waits %v, want %v", l.Number, d.NextAttemptAt.Sub(now), wait)
		}
		now = now.Add(time.Minute)
		l = f.claimOne(t, r, now, ep)
	}
	for _, wait := range []time.Duration{0, time.Second, 5 * time.Second, 30 * time.Second, 30 * time.Second} {
		next(wait)
	}
	// A real result ends the row of revocations.
	f.settleMoved(t, r, f.transient(l, now.Add(time.Minute)))
	now = now.Add(time.Minute)
	l = f.claimOne(t, r, now, ep)
	next(0)
	next(time.Second)
}

func testRevokeHeld(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	held, settled, waiting := f.acceptLeased(t, r, ep), f.acceptLeased(t, r, ep), f.acceptDue(t, r, ep)
	f.settleMoved(t, r, f.delivered(settled))
	p := store.RevokeParams{
		Epoch: r.epoch + 1000, Now: f.now,
		Leases: []store.HeldLease{held.Held(), settled.Held(), {Delivery: waiting, DueAt: f.now}, {Delivery: f.event().ID.Delivery(1)}},
	}
	for _, want := range []int{0, 1, 0} { // another epoch, its own, once more
		got, err := r.Revoke(t.Context(), p)
		if err != nil || got != want {
			t.Errorf("epoch %d revoked %d, want %d; %v", p.Epoch, got, want, err)
		}
		p.Epoch = r.epoch
	}
	f.wantAttempts(t, held.Delivery, "1 lost")
	f.wantAttempts(t, settled.Delivery, "1 delivered")
	f.wantAttempts(t, waiting)
	same(t, "due rows", f.DueRows(t), map[posthaste.ID]int{held.Delivery: 1, waiting: 1})
}

// A revoke that was held up on its way comes when the epoch has leased the delivery again.
func testRevokeLate(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	born := f.acceptLeased(t, r, ep)
	f.settleMoved(t, r, f.transient(born, f.now))
	second := f.claimOne(t, r, f.now, ep)
	for _, late := range []store.HeldLease{born.Held(), {Delivery: born.Delivery, DueAt: f.at(time.Second)}} {
		got, err := r.Revoke(t.Context(), store.RevokeParams{Epoch: r.epoch, Leases: []store.HeldLease{late}, Now: f.now})
		if err != nil || got != 0 {
			t.Errorf("revoked %d of a lease that ended, %v", got, err)
		}
	}
	f.settleMoved(t, r, f.delivered(second))
	f.wantAttempts(t, born.Delivery, "1 transient", "2 delivered")
}

func testRevokeFailures(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	f.settleMoved(t, r, f.transient(l, f.at(time.Second)))
	f.revoke(t, r, f.at(time.Second), f.claimOne(t, r, f.at(time.Second), ep))
	l = f.claimOne(t, r, f.at(time.Minute), ep)
	if l.Number != 3 || l.Failures != 1 {
		t.Errorf("number %d with %d failures, want 3 with 1", l.Number, l.Failures)
	}
}

func testRevokeReplay(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	f.revoke(t, r, f.now, l)
	f.settleMoved(t, r, f.permanent(f.claimOne(t, r, f.now, ep)))
	f.replay(t, l.Delivery)
	third := f.claimOne(t, r, f.at(time.Minute), ep)
	if third.Number != 3 {
		t.Errorf("the replay makes attempt %d, want 3", third.Number)
	}
	f.settleMoved(t, r, f.delivered(third))
	f.wantAttempts(t, l.Delivery, "1 lost", "2 permanent", "3 delivered")
}

func testReclaim(t *testing.T, f *fixture) {
	dead, one, two := f.replica(t), f.endpoint(t), f.endpoint(t)
	born, waits := f.acceptLeased(t, dead, one), f.acceptDue(t, dead, one)
	done := f.acceptLeased(t, dead, one)
	f.settleMoved(t, dead, f.delivered(done))
	claimed := f.event(f.due(two, f.now))
	f.accept(t, dead, claimed)
	f.claimOne(t, dead, f.now, two)

	got, err := f.Store.Reclaim(t.Context(), store.ReclaimParams{Dead: dead.epoch, SeenBeatAt: dead.row(t).BeatAt, Now: f.at(time.Second)})
	if err != nil || got.Deliveries != 2 {
		t.Fatalf("reclaim: %+v, %v; want 2 deliveries", got, err)
	}
	if len(got.Endpoints) != 2 || got.Endpoints[0]+got.Endpoints[1] != one.No+two.No {
		t.Errorf("endpoints %v, want %d and %d", got.Endpoints, one.No, two.No)
	}
	for _, id := range []posthaste.ID{born.Delivery, claimed.ID.Delivery(1)} {
		f.wantAttempts(t, id, "1 lost")
		if d := f.wantStatus(t, id, "pending", 1); !d.NextAttemptAt.Equal(f.at(time.Second)) {
			t.Errorf("due again at %v", d.NextAttemptAt)
		}
		f.wantDue(t, id, 1)
	}
	f.wantAttempts(t, waits)
	f.wantStatus(t, done.Delivery, "delivered", 1)
	_, err = dead.Beat(t.Context(), store.BeatParams{Epoch: dead.epoch})
	wantErr(t, "beat of the reclaimed epoch", err, store.ErrFenced)
}

func testReclaimBelowLowWater(t *testing.T, f *fixture) {
	first, ep := f.replica(t), f.endpoint(t)
	id := f.acceptDue(t, first, ep)
	if err := first.Retire(t.Context(), first.epoch); err != nil {
		t.Fatal(err)
	}
	dead := f.register(t, f.Store, f.minter.Mint(f.now)) // above the old id
	f.claimOne(t, dead, f.now, ep)
	born := f.acceptLeased(t, dead, ep)
	_, got := f.succeed(t, dead)
	if got.Deliveries != 2 {
		t.Errorf("reclaimed %d deliveries, want the old one and the fresh one", got.Deliveries)
	}
	for _, id := range []posthaste.ID{id, born.Delivery} {
		f.wantAttempts(t, id, "1 lost")
		f.wantDue(t, id, 1)
	}
}

func testReclaimBeaten(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	seen := r.row(t).BeatAt
	for _, at := range []time.Time{seen.Add(-time.Second), seen.Add(time.Second)} {
		_, err := f.Store.Reclaim(t.Context(), store.ReclaimParams{Dead: r.epoch, SeenBeatAt: at, Now: f.now})
		wantErr(t, "reclaim of one that has beaten since", err, store.ErrConflict)
	}
	f.wantStatus(t, l.Delivery, "delivering", 0)
	f.settleMoved(t, r, f.delivered(l))
}

func testReclaimGone(t *testing.T, f *fixture) {
	r := f.replica(t)
	seen := r.row(t).BeatAt
	if err := r.Retire(t.Context(), r.epoch); err != nil {
		t.Fatal(err)
	}
	_, err := f.Store.Reclaim(t.Context(), store.ReclaimParams{Dead: r.epoch, SeenBeatAt: seen, Now: f.now})
	wantErr(t, "reclaim", err, store.ErrConflict)
}

func testReclaimOthers(t *testing.T, f *fixture) {
	dead, living, ep := f.replica(t), f.rival(t), f.endpoint(t)
	theirs, mine := f.acceptLeased(t, dead, ep), f.acceptLeased(t, living, ep)
	f.acceptDue(t, living, ep)
	claimed := f.claimOne(t, living, f.now, ep)
	seen := dead.row(t).BeatAt
	if _, err := living.Reclaim(t.Context(), store.ReclaimParams{Dead: dead.epoch, SeenBeatAt: seen, Now: f.now}); err != nil {
		t.Fatal(err)
	}
	f.wantAttempts(t, theirs.Delivery, "1 lost")
	f.settleMoved(t, living, f.delivered(mine), f.delivered(claimed))
	f.wantAttempts(t, mine.Delivery, "1 delivered")
	f.wantAttempts(t, claimed.Delivery, "1 delivered")
}

func testReclaimRace(t *testing.T, f *fixture) {
	dead, ep := f.replica(t), f.endpoint(t)
	for range 50 {
		f.acceptLeased(t, dead, ep)
	}
	seen := dead.row(t).BeatAt
	stores := []store.Store{f.Another(t), f.Another(t)}
	moved := make([]int, len(stores))
	concurrently(len(stores), func(i int) {
		got, err := stores[i].Reclaim(t.Context(), store.ReclaimParams{Dead: dead.epoch, SeenBeatAt: seen, Now: f.now})
		if moved[i] = got.Deliveries; err != nil {
			wantErr(t, "the second reclaim", err, store.ErrConflict)
		}
	})
	if moved[0]+moved[1] != 50 || moved[0]*moved[1] != 0 {
		t.Errorf("%v deliveries were moved, want 50 by one of them", moved)
	}
	for id, n := range f.DueRows(t) {
		if n != 1 {
			t.Errorf("delivery %x has %d due rows", id, n)
		}
		f.wantAttempts(t, id, "1 lost")
	}
}

// testReclaimAgainstSettle: a result that commits first stands, one that comes
// after completes its lost record; never both, never neither.
func testReclaimAgainstSettle(t *testing.T, f *fixture) {
	dead, ep := f.replica(t), f.endpoint(t)
	var batch []store.Settlement
	for i := range 120 {
		l := f.acceptLeased(t, dead, ep)
		if i%2 == 0 {
			batch = append(batch, f.delivered(l))
		} else {
			batch = append(batch, f.transient(l, f.at(time.Hour)))
		}
	}
	seen := dead.row(t).BeatAt
	other := f.Another(t)
	concurrently(3, func(i int) {
		if i == 2 {
			if _, err := other.Reclaim(t.Context(), store.ReclaimParams{Dead: dead.epoch, SeenBeatAt: seen, Now: f.now}); err != nil {
				t.Errorf("reclaim: %v", err)
			}
			return
		}
		for s := i; s < len(batch); s += 2 {
			f.settle(quiet{t}, dead, batch[s])
		}
	})
	due := f.DueRows(t)
	for _, s := range batch {
		id := s.Lease.Delivery
		d, got := f.delivery(t, id), f.attempts(t, id)
		if len(got) != 1 || got[0].Outcome != s.Attempt.Outcome || d.Attempts != 1 {
			t.Fatalf("%d attempts and records %+v, want the one that was made", d.Attempts, got)
		}
		if d.State != s.State || due[id] != map[posthaste.State]int{posthaste.StatePending: 1}[s.State] {
			t.Fatalf("%s with %d due rows after %s", d.Status(), due[id], s.Attempt.Outcome)
		}
	}
}

func testReclaimLoop(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	for i := 1; i <= 9; i++ {
		r, _ = f.succeed(t, r)
		f.wantDue(t, l.Delivery, 1)
		l = f.claimOne(t, r, f.at(time.Hour), ep)
		if l.Number != i+1 || l.Failures != 0 {
			t.Fatalf("after %d crashes: number %d with %d failures", i, l.Number, l.Failures)
		}
	}
	f.revoke(t, r, f.at(time.Hour), l)
	if d := f.delivery(t, l.Delivery); !d.NextAttemptAt.Equal(f.at(time.Hour + 30*time.Second)) {
		t.Errorf("waits until %v after ten losses, want 30 s", d.NextAttemptAt)
	}
}
