package storetest

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var strandedCases = []testCase{
	{name: "a healthy database has nothing stranded", run: testStrandedHealthy},
	{name: "due wiped: every pending delivery comes back", run: testStrandedDue},
	{name: "dead wiped: every dead letter comes back", run: testStrandedDead},
	{name: "replicas wiped: what the dead epochs held comes back", run: testStrandedReplicas},
	{name: "the whole disposable part wiped at once", run: testStrandedAll},
	{name: "work that a living epoch owns is told apart", run: testStrandedLiving},
	{name: "a repair looks again at what it repairs", run: testStrandedMoved},
	{name: "stranded work is found in bounded steps and within its range", run: testStrandedRange},
	{name: "two repairs at once do it once", run: testStrandedRace},
}

// stranded walks all of the database. Living leases are listed beside.
func (f *fixture) stranded(t tester, limit int) (found, living []store.StrandedDelivery, dead int) {
	t.Helper()
	p := store.FindStrandedParams{To: posthaste.FloorID(f.at(time.Hour)), Limit: limit}
	for {
		got, err := f.Store.FindStranded(t.Context(), p)
		if err != nil {
			t.Fatalf("find stranded: %v", err)
		}
		for _, s := range got.Deliveries {
			if s.Living {
				living = append(living, s)
			} else {
				found = append(found, s)
			}
		}
		dead += got.Dead
		if got.Next.IsZero() {
			return found, living, dead
		}
		if got.Next.Compare(p.From) <= 0 {
			t.Fatalf("find stranded from %x goes on at %x", p.From, got.Next)
		}
		p.From = got.Next
	}
}

func (f *fixture) repairStranded(t tester, now time.Time, found ...store.StrandedDelivery) int {
	t.Helper()
	n, err := f.Store.RepairStranded(t.Context(), store.RepairStrandedParams{Deliveries: found, Now: now})
	if err != nil {
		t.Fatalf("repair stranded: %v", err)
	}
	return n
}

// wantNoneStranded checks that a further pass finds nothing to do.
func (f *fixture) wantNoneStranded(t *testing.T) {
	t.Helper()
	if found, _, dead := f.stranded(t, 7); len(found) != 0 || dead != 0 {
		t.Errorf("stranded: %+v and %d rows of dead, want none", found, dead)
	}
}

// estate is one delivery of each standing.
type estate struct {
	waits, retries, born, claimed, delivered, dead posthaste.ID
	leases                                         []store.Lease // of born and claimed
}

func (f *fixture) estate(t *testing.T, r *replica, ep store.EndpointRow) estate {
	t.Helper()
	later := f.event(f.due(ep, f.at(time.Hour)))
	f.accept(t, r, later)
	retries := f.acceptLeased(t, r, ep)
	f.settleMoved(t, r, f.transient(retries, f.at(2*time.Hour)))
	claimed := f.acceptDue(t, r, ep)
	l := f.claimOne(t, r, f.now, ep)
	delivered := f.acceptLeased(t, r, ep)
	f.settleMoved(t, r, f.delivered(delivered))
	dead := f.die(t, r, ep)
	born := f.acceptLeased(t, r, ep)
	return estate{
		waits: later.ID.Delivery(1), retries: retries.Delivery, born: born.Delivery, claimed: claimed,
		delivered: delivered.Delivery, dead: dead, leases: []store.Lease{born, l},
	}
}

func testStrandedHealthy(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	e := f.estate(t, r, ep)
	f.wantNoneStranded(t)
	f.settleMoved(t, r, f.delivered(e.leases[0]), f.delivered(e.leases[1]))
	f.wantNoneStranded(t)
	same(t, "due rows", f.DueRows(t), map[posthaste.ID]int{e.waits: 1, e.retries: 1})
}

func testStrandedDue(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	e := f.estate(t, r, ep)
	f.Wipe(t, "due")
	found, _, _ := f.stranded(t, 2)
	same(t, "found", found, []store.StrandedDelivery{
		{Delivery: e.waits, Endpoint: ep.No, DueAt: f.at(time.Hour)},
		{Delivery: e.retries, Endpoint: ep.No, DueAt: f.at(2 * time.Hour)},
	})
	if n := f.repairStranded(t, f.now, found...); n != 2 {
		t.Errorf("repaired %d, want 2", n)
	}
	// Nobody had begun: the old times hold, and no number is spent.
	f.wantAttempts(t, e.waits)
	f.wantAttempts(t, e.retries, "1 transient")
	f.wantNoneStranded(t)
	f.settleMoved(t, r, f.delivered(e.leases[0]), f.delivered(e.leases[1]))
	if l := f.claimOne(t, r, f.at(time.Hour), ep); l.Delivery != e.waits || l.Number != 1 {
		t.Errorf("claimed %+v", l)
	}
	if l := f.claimOne(t, r, f.at(2*time.Hour), ep); l.Delivery != e.retries || l.Number != 2 || l.Failures != 1 {
		t.Errorf("claimed %+v", l)
	}
}

func testStrandedDead(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	one, two := f.die(t, r, ep), f.die(t, r, ep)
	f.Wipe(t, "dead")
	found, _, dead := f.stranded(t, 1)
	if len(found) != 0 || dead != 2 {
		t.Errorf("found %v and %d rows of dead, want 0 and 2", found, dead)
	}
	f.wantListed(t, store.ListDeliveriesParams{Status: "dead"}, two, one)
	f.wantNoneStranded(t)

	f.Wipe(t, "dead") // the delivery is the truth: a replay needs no row of dead
	f.replay(t, one)
	f.wantStatus(t, one, "pending", 1)
	if _, _, dead := f.stranded(t, 100); dead != 1 {
		t.Errorf("%d rows of dead, want 1", dead)
	}
}

func testStrandedReplicas(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	e := f.estate(t, r, ep)
	f.Wipe(t, "replicas")
	found, living, _ := f.stranded(t, 3)
	if len(found) != 2 || len(living) != 0 {
		t.Fatalf("found %+v and living %+v, want what the wiped epoch owned", found, living)
	}
	for _, s := range found {
		if s.Owner != r.epoch || s.Delivery != e.born && s.Delivery != e.claimed {
			t.Errorf("found %+v", s)
		}
	}
	if n := f.repairStranded(t, f.at(time.Second), found...); n != 2 {
		t.Errorf("repaired %d, want 2", n)
	}
	f.wantNoneStranded(t)
	for _, id := range []posthaste.ID{e.born, e.claimed} {
		f.wantAttempts(t, id, "1 lost")
		f.wantDue(t, id, 1)
		f.wantStatus(t, id, "pending", 1)
	}
	// The first holder lives on, unaware: its results only complete its records.
	f.settle(t, r, f.transient(e.leases[0], f.at(time.Hour)), f.delivered(e.leases[1]))
	f.wantAttempts(t, e.born, "1 transient late")
	f.wantAttempts(t, e.claimed, "1 delivered late")
	f.wantStatus(t, e.claimed, "delivered", 1)
	if l := f.claimOne(t, f.replica(t), f.at(time.Minute), ep); l.Delivery != e.born || l.Number != 2 {
		t.Errorf("claimed %+v", l)
	}
}

func testStrandedAll(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	var es []estate
	for range 5 {
		e := f.estate(t, r, ep)
		es = append(es, e)
	}
	for _, table := range []string{"due", "dead", "replicas"} {
		f.Wipe(t, table)
	}
	found, living, dead := f.stranded(t, 4)
	if len(found) != 20 || len(living) != 0 || dead != 5 {
		t.Fatalf("found %d, living %d, dead %d; want 20, 0, 5", len(found), len(living), dead)
	}
	if n := f.repairStranded(t, f.now, found...); n != 20 {
		t.Errorf("repaired %d, want 20", n)
	}
	f.wantNoneStranded(t)
	next := f.replica(t)
	leases := f.claim(t, next, f.at(3*time.Hour), ep)
	if len(leases) != 20 {
		t.Fatalf("claimed %d, want all 20", len(leases))
	}
	for _, l := range leases {
		f.settleMoved(t, next, f.delivered(l))
	}
	for _, e := range es {
		f.wantStatus(t, e.dead, "dead", 1)
		f.wantAttempts(t, e.born, "1 lost", "2 delivered")
		f.wantAttempts(t, e.retries, "1 transient", "2 delivered")
	}
}

func testStrandedLiving(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	born := f.acceptLeased(t, r, ep)
	found, living, _ := f.stranded(t, 10)
	if len(found) != 0 {
		t.Fatalf("stranded: %+v, though its owner lives", found)
	}
	same(t, "living", living, []store.StrandedDelivery{{Delivery: born.Delivery, Endpoint: ep.No, Owner: r.epoch, Living: true}})

	// An owner that finds it forgotten has it repaired, by revoking.
	if n := f.repairStranded(t, f.now, living...); n != 1 {
		t.Errorf("repaired %d, want 1", n)
	}
	f.wantAttempts(t, born.Delivery, "1 lost")
	f.wantDue(t, born.Delivery, 1)
	if n := f.repairStranded(t, f.now, living...); n != 0 {
		t.Errorf("repaired %d once more", n)
	}
	f.wantDue(t, born.Delivery, 1)
}

func testStrandedMoved(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	e := f.estate(t, r, ep)
	_, living, _ := f.stranded(t, 100)
	f.settleMoved(t, r, f.delivered(e.leases[0]), f.transient(e.leases[1], f.at(time.Hour)))
	f.repairStranded(t, f.now, living...)
	f.wantAttempts(t, e.born, "1 delivered")
	f.wantAttempts(t, e.claimed, "1 transient")
	f.wantDue(t, e.born, 0)
	f.wantDue(t, e.claimed, 1)

	f.Wipe(t, "due")
	found, _, _ := f.stranded(t, 100)
	if n := f.repairStranded(t, f.now, found...); n != 3 {
		t.Fatalf("repaired %d, want 3", n)
	}
	leases := f.claim(t, r, f.at(2*time.Hour), ep)
	if n := f.repairStranded(t, f.now, found...); n != 0 {
		t.Errorf("repaired %d that are leased meanwhile", n)
	}
	for _, l := range leases {
		f.wantDue(t, l.Delivery, 1)
		f.settleMoved(t, r, f.delivered(l))
	}
	if n := f.repairStranded(t, f.now, found...); n != 0 || len(f.DueRows(t)) != 0 {
		t.Errorf("repaired %d that are delivered meanwhile; due rows %v", n, f.DueRows(t))
	}
}

func testStrandedRange(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	var ids []posthaste.ID
	for range 9 {
		ids = append(ids, f.acceptDue(t, r, ep))
	}
	f.Wipe(t, "due")
	p := store.FindStrandedParams{From: ids[2], To: ids[7], Limit: 2}
	var got []posthaste.ID
	for steps := 0; ; steps++ {
		page, err := f.Store.FindStranded(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Deliveries) > p.Limit || steps > 10 {
			t.Fatalf("step %d finds %d, want at most %d", steps, len(page.Deliveries), p.Limit)
		}
		for _, s := range page.Deliveries {
			got = append(got, s.Delivery)
		}
		if p.From = page.Next; p.From.IsZero() {
			break
		}
	}
	same(t, "found", got, ids[2:7])
	found, _, _ := f.stranded(t, 100)
	f.repairStranded(t, f.now, found...)
}

func testStrandedRace(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	for range 20 {
		f.acceptDue(t, r, ep)
		f.acceptLeased(t, r, ep)
	}
	f.Wipe(t, "due")
	f.Wipe(t, "replicas")
	found, _, _ := f.stranded(t, 100)
	stores, repaired := []store.Store{f.Store, f.Another(t)}, make([]int, 2)
	concurrently(2, func(i int) {
		var err error
		repaired[i], err = stores[i].RepairStranded(t.Context(), store.RepairStrandedParams{Deliveries: found, Now: f.now})
		if err != nil {
			t.Errorf("repair stranded: %v", err)
		}
	})
	if repaired[0]+repaired[1] != 40 {
		t.Errorf("repaired %v, want 40 together", repaired)
	}
	due := f.DueRows(t)
	for _, s := range found {
		if due[s.Delivery] != 1 {
			t.Errorf("delivery %x has %d due rows", s.Delivery, due[s.Delivery])
		}
	}
	f.wantNoneStranded(t)
}
