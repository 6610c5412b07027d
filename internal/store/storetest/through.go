package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var throughCases = []testCase{
	{name: "a claim through a gate takes what the gate lets through, and changes it", run: testThrough},
	{name: "a claim through a gate that is shut takes nothing", run: testThroughShut},
	{name: "a claim through a gate passes over retries beyond their number", run: testThroughRetries},
	{name: "a claim through a gate looks at a bounded number of rows", run: testThroughBounded},
	{name: "a claim through a gate begins at its floor and ends at now", run: testThroughRange},
	{name: "a claim through a gate drops hints that lead nowhere", run: testThroughStray},
	{name: "a claim through a gate with an aged beat is fenced, and changes nothing", run: testThroughAged},
	{name: "a claim through a gate brings back the tenants that moved on", run: testThroughNewer},
	{name: "two claimers through a gate never share a row or a slot", run: func(t *testing.T, f *fixture) { f.throughClaimers(t, 2) }},
	{name: "eight claimers through a gate never share a row or a slot", run: func(t *testing.T, f *fixture) { f.throughClaimers(t, 8) }},
}

// through are the parameters of a claim through a gate that lets so much pass.
func (f *fixture) through(r *replica, ep store.EndpointRow, attempts, retries int) store.ClaimThroughParams {
	return store.ClaimThroughParams{
		Epoch: r.epoch, Now: f.now, Endpoint: ep.No,
		Enter: func(gate.State) gate.Pass { return gate.Pass{Attempts: attempts, Retries: retries} },
		Take:  func(s gate.State, _ []store.Lease) gate.State { return s },
	}
}

func (f *fixture) claimThrough(t tester, r *replica, p store.ClaimThroughParams) store.ClaimedThrough {
	t.Helper()
	r.fresh(t)
	got, err := r.ClaimThrough(t.Context(), p)
	if err != nil {
		t.Fatalf("claim through a gate: %v", err)
	}
	return got
}

func deliveriesOf(leases []store.Lease) (ids []posthaste.ID) {
	for _, l := range leases {
		ids = append(ids, l.Delivery)
	}
	return ids
}

func testThrough(t *testing.T, f *fixture) {
	r, ep, other := f.replica(t), f.endpoint(t), f.endpoint(t)
	var ids []posthaste.ID
	for i := range 5 { // due times fall as ids rise
		e := f.event(f.due(ep, f.at(-time.Duration(i)*time.Second)), f.due(other, f.now))
		f.accept(t, r, e)
		ids = append(ids, e.ID.Delivery(1))
	}
	before := f.changeGate(t, r, ep, func(s *gate.State) { s.Failures, s.Slot = 2, f.now })
	p := f.through(r, ep, 3, 3)
	p.Enter = func(s gate.State) gate.Pass {
		same(quiet{t}, "entered", s, before.State)
		return gate.Pass{Attempts: 3, Retries: 3, Again: f.at(time.Second)}
	}
	p.Take = func(s gate.State, leases []store.Lease) gate.State {
		s.Slot = s.Slot.Add(time.Duration(len(leases)) * time.Minute)
		return s
	}
	got := f.claimThrough(t, r, p)
	same(t, "claimed", deliveriesOf(got.Leases), []posthaste.ID{ids[4], ids[3], ids[2]})
	same(t, "lease", got.Leases[0], store.Lease{
		Delivery: ids[4], Tenant: f.tenant, Endpoint: ep.No, Epoch: r.epoch,
		Number: 1, DueAt: f.at(-4 * time.Second), ExpiresAt: f.at(96 * time.Hour),
	})
	same(t, "pass", got.Pass, gate.Pass{Attempts: 3, Retries: 3, Again: f.at(time.Second)})
	if !got.More || !got.Examined.Equal(f.at(-2*time.Second)) || !got.HeadAt.IsZero() {
		t.Errorf("more %v, examined up to %v, head at %v", got.More, got.Examined, got.HeadAt)
	}
	want := before
	want.Slot = f.at(3 * time.Minute)
	same(t, "gate", got.Gate, want)
	same(t, "gate as stored", f.gates(t, ep), []store.Gate{want})
	f.wantStatus(t, ids[4], "delivering", 0)
	f.wantDue(t, ids[4], 1)

	p.Enter = func(gate.State) gate.Pass { return gate.Pass{Attempts: 10, Retries: 10} }
	got = f.claimThrough(t, r, p)
	same(t, "claimed then", deliveriesOf(got.Leases), []posthaste.ID{ids[1], ids[0]})
	if got.More || !got.Examined.Equal(f.now) || !got.Gate.Slot.Equal(f.at(5*time.Minute)) {
		t.Errorf("then more %v, examined up to %v, slot %v", got.More, got.Examined, got.Gate.Slot)
	}
	got = f.claimThrough(t, r, p)
	if len(got.Leases) != 0 || got.More || !got.Examined.IsZero() || !got.Gate.Slot.Equal(f.at(5*time.Minute)) {
		t.Errorf("of nothing: %+v", got)
	}
	f.claimThrough(t, r, f.through(r, other, 1, 1)) // one that has no row yet
}

func testThroughShut(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	id := f.acceptDue(t, r, ep)
	before := f.changeGate(t, r, ep, func(s *gate.State) { s.Breaker = gate.Open })
	p := f.through(r, ep, 0, 0)
	p.Enter = func(gate.State) gate.Pass { return gate.Pass{Again: f.at(time.Hour)} }
	p.Take = func(gate.State, []store.Lease) gate.State {
		t.Error("taken through a gate that is shut")
		return gate.State{}
	}
	got := f.claimThrough(t, r, p)
	same(t, "claimed", got, store.ClaimedThrough{Gate: before, Pass: gate.Pass{Again: f.at(time.Hour)}})
	f.wantStatus(t, id, "pending", 0)
	same(t, "gate as stored", f.gates(t, ep), []store.Gate{before})
}

// retry makes a delivery that waits for its second attempt.
func (f *fixture) retry(t tester, r *replica, ep store.EndpointRow, dueAt time.Time) posthaste.ID {
	t.Helper()
	l := f.acceptLeased(t, r, ep)
	f.settleMoved(t, r, f.transient(l, dueAt))
	return l.Delivery
}

func testThroughRetries(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	var again, fresh []posthaste.ID
	for i := range 6 {
		again = append(again, f.retry(t, r, ep, f.at(time.Duration(i-10)*time.Second)))
	}
	for i := range 4 {
		e := f.event(f.due(ep, f.at(time.Duration(i-4)*time.Second)))
		f.accept(t, r, e)
		fresh = append(fresh, e.ID.Delivery(1))
	}
	got := f.claimThrough(t, r, f.through(r, ep, 4, 1))
	same(t, "one retry and three", deliveriesOf(got.Leases), []posthaste.ID{again[0], fresh[0], fresh[1], fresh[2]})
	if !got.More || !got.Examined.Equal(f.at(-2*time.Second)) {
		t.Errorf("more %v, examined up to %v", got.More, got.Examined)
	}
	got = f.claimThrough(t, r, f.through(r, ep, 4, 0))
	same(t, "no retry", deliveriesOf(got.Leases), []posthaste.ID{fresh[3]})
	if got.More || !got.Examined.Equal(f.at(-time.Second)) {
		t.Errorf("more %v, examined up to %v", got.More, got.Examined)
	}
	got = f.claimThrough(t, r, f.through(r, ep, 4, 4))
	same(t, "retries alone", deliveriesOf(got.Leases), again[1:5])
	got = f.claimThrough(t, r, f.through(r, ep, 4, 2))
	same(t, "the last one", deliveriesOf(got.Leases), again[5:])
}

func testThroughBounded(t *testing.T, f *fixture) {
	const retries = 3000
	r, ep := f.replica(t), f.endpoint(t)
	var batch []store.NewEvent
	for range retries {
		batch = append(batch, f.event(f.leased(ep)))
	}
	f.accept(t, r, batch...)
	var out []store.Settlement
	for _, e := range batch {
		out = append(out, f.transient(bornLease(r, e, 1), f.at(-time.Minute)))
	}
	f.settleMoved(t, r, out...)
	first := f.acceptDue(t, r, ep)
	got := f.claimThrough(t, r, f.through(r, ep, 5, 2))
	if len(got.Leases) != 2 || !got.More || !got.Examined.Equal(f.at(-time.Minute)) {
		t.Errorf("%d leases, more %v, examined up to %v", len(got.Leases), got.More, got.Examined)
	}
	for range retries { // the way past them is to take them
		got = f.claimThrough(t, r, f.through(r, ep, 500, 499))
		if slices.Contains(deliveriesOf(got.Leases), first) {
			return
		}
	}
	t.Error("no claim comes to the one behind the retries")
}

func testThroughRange(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	for _, at := range []time.Duration{-2 * time.Second, -time.Second, 0, time.Microsecond} {
		f.accept(t, r, f.event(f.due(ep, f.at(at))))
	}
	for _, retries := range []int{0, 10} { // the two ways to look
		p := f.through(r, ep, 10, retries)
		p.From, p.Now = f.at(-time.Second), f.at(-time.Microsecond)
		if retries > 0 {
			p.From, p.Now = f.at(-time.Second+time.Microsecond), f.now
		}
		if got := f.claimThrough(t, r, p); len(got.Leases) != 1 {
			t.Errorf("between %v and %v: %+v", p.From.Sub(f.now), p.Now.Sub(f.now), got.Leases)
		}
	}
}

func testThroughStray(t *testing.T, f *fixture) {
	for _, retries := range []int{0, 4} {
		r, ep := f.replica(t), f.endpoint(t)
		for range 20 {
			f.StrayDue(t, store.DueKey{Endpoint: ep.No, DueAt: f.at(-time.Minute), Delivery: f.event().ID.Delivery(1)})
		}
		id := f.acceptDue(t, r, ep)
		var got store.ClaimedThrough
		for range 10 {
			if got = f.claimThrough(t, r, f.through(r, ep, 4, retries)); len(got.Leases) > 0 {
				break
			}
		}
		same(t, "claimed past hints", deliveriesOf(got.Leases), []posthaste.ID{id})
		same(t, "due rows", f.DueRows(t), map[posthaste.ID]int{id: 1})
		f.settleMoved(t, r, f.delivered(got.Leases[0]))
	}
}

func testThroughAged(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	id := f.acceptDue(t, r, ep)
	f.AgeBeat(t, r.epoch, store.FreshBeat+time.Second)
	p := f.through(r, ep, 5, 5)
	p.Take = func(s gate.State, _ []store.Lease) gate.State {
		s.Failures = 7
		return s
	}
	_, err := r.ClaimThrough(t.Context(), p)
	wantErr(t, "claim through a gate", err, store.ErrFenced)
	f.wantStatus(t, id, "pending", 0)
	same(t, "gates", f.gates(t, ep), []store.Gate{})
}

func testThroughNewer(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	old := f.version(t, f.tenant)
	f.endpoint(t)
	f.acceptDue(t, r, ep)
	p := f.through(r, ep, 1, 1)
	p.Tenants = []store.TenantVersion{old}
	same(t, "newer", f.claimThrough(t, r, p).Newer, []store.TenantVersion{f.version(t, f.tenant)})
}

// throughClaimers hands out a slot with each lease, and counts both: a delivery is made twice.
func (f *fixture) throughClaimers(t *testing.T, n int) {
	const deliveries = 200
	rs, ep := f.workers(t, n), f.endpoint(t)
	var batch []store.NewEvent
	for i := range deliveries {
		batch = append(batch, f.event(f.due(ep, f.at(-time.Duration(i%7)*time.Second))))
	}
	f.accept(t, rs[0], batch...)
	f.changeGate(t, rs[0], ep, func(s *gate.State) { s.Slot = f.now })

	var mu sync.Mutex
	taken, slots := map[store.Lease]int{}, map[time.Time]int{}
	concurrently(n, func(i int) {
		p := f.through(rs[i], ep, 5, 2)
		p.Now = f.at(time.Second)
		var first time.Time
		p.Take = func(s gate.State, leases []store.Lease) gate.State {
			first = s.Slot
			s.Slot = s.Slot.Add(time.Duration(len(leases)) * time.Second)
			return s
		}
		for idle := 0; idle < 20; {
			got := f.claimThrough(quiet{t}, rs[i], p)
			mu.Lock()
			again := 0
			for k, l := range got.Leases {
				taken[store.Lease{Delivery: l.Delivery, Number: l.Number}]++
				slots[first.Add(time.Duration(k)*time.Second)]++
				if l.Number > 1 {
					again++
				}
			}
			done := len(taken) == 2*deliveries
			mu.Unlock()
			if again > 2 {
				t.Errorf("%d retries, want 2 at most", again)
			}
			if len(got.Leases) == 0 {
				if idle++; done || t.Failed() {
					return
				}
				continue
			}
			idle = 0
			var out []store.Settlement
			for _, l := range got.Leases {
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
	for at, times := range slots {
		if times != 1 {
			t.Fatalf("the slot at %v was given to %d leases", at, times)
		}
	}
	if len(taken) != 2*deliveries || len(slots) != 2*deliveries || len(f.DueRows(t)) != 0 {
		t.Errorf("%d leases with %d slots, want %d; %d due rows are left", len(taken), len(slots), 2*deliveries, len(f.DueRows(t)))
	}
}
