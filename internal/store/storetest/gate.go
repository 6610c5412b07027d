package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var gateCases = []testCase{
	{name: "a gate comes back as it was stored", run: testGate},
	{name: "a gate's time of change moves unless only its slots changed", run: testGateChangedAt},
	{name: "an emptied table leaves every gate open", run: testGateWiped},
	{name: "no concurrent change of a gate is lost", run: testGateConcurrent},
	{name: "gates that are shut, closed a moment ago or failing are listed", run: testShutGates},
	{name: "a beat brings the gates that changed", run: testBeatGates},
	{name: "a beat brings gates that were changed by another handle, late commits too", run: testBeatGatesConcurrent},
	{name: "replicas say whether they deliver", run: testDelivers},
	{name: "a claim passes by a gate that is shut, and says so", run: testClaimShut},
}

// changeGate changes a gate and returns it. On a slow machine others may hold it for
// too long: then nothing was changed, and it tries again.
func (f *fixture) changeGate(t tester, s store.Store, ep store.EndpointRow, change func(*gate.State)) store.Gate {
	t.Helper()
	var g store.Gate
	err := store.ErrLocked
	for try := 0; try < 100 && errors.Is(err, store.ErrLocked); try++ {
		g, err = s.ChangeGate(t.Context(), ep.No, func(st gate.State) gate.State {
			change(&st)
			return st
		})
	}
	if err != nil {
		t.Fatalf("change the gate of endpoint %d: %v", ep.No, err)
	}
	return g
}

// gates reads gates as they are.
func (f *fixture) gates(t tester, eps ...store.EndpointRow) []store.Gate {
	t.Helper()
	var nos []store.EndpointNo
	for _, ep := range eps {
		nos = append(nos, ep.No)
	}
	got, err := f.Store.Gates(t.Context(), nos)
	if err != nil {
		t.Fatalf("gates: %v", err)
	}
	return got
}

func testGate(t *testing.T, f *fixture) {
	one, two := f.endpoint(t), f.endpoint(t)
	if got := f.gates(t, one, two); len(got) != 0 {
		t.Errorf("gates that nobody changed: %+v", got)
	}
	want := gate.State{
		Breaker: gate.HalfOpen, Failures: 12, Openings: 3, OpenUntil: f.at(time.Minute),
		Probe:    gate.Attempt{Delivery: f.event().ID.Delivery(7), Number: 4},
		ClosedAt: f.at(-time.Hour), RetryAfterUntil: f.at(time.Hour), FailingSince: f.at(-time.Minute), FailedAt: f.at(-time.Second),
		Slot: f.at(3 * time.Microsecond), RetrySlot: f.at(time.Second),
	}
	changed := f.changeGate(t, f.Store, one, func(s *gate.State) {
		same(t, "the gate before", *s, gate.State{})
		*s = want
	})
	same(t, "changed", changed.State, want)
	if off := time.Until(changed.ChangedAt).Abs(); changed.Endpoint != one.No || off > time.Minute {
		t.Errorf("changed: endpoint %d at %v", changed.Endpoint, changed.ChangedAt)
	}
	same(t, "read", f.gates(t, two, one), []store.Gate{changed})

	same(t, "left as it is", f.changeGate(t, f.Store, one, func(*gate.State) {}), changed)
	same(t, "left as it is, without a row", f.changeGate(t, f.Store, two, func(*gate.State) {}), store.Gate{Endpoint: two.No})
	same(t, "read again", f.gates(t, one, two), []store.Gate{changed})

	back := f.changeGate(t, f.Store, one, func(s *gate.State) { *s = gate.State{} })
	same(t, "made an open way", back.State, gate.State{})
}

func testGateChangedAt(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	slots := f.changeGate(t, f.Store, ep, func(s *gate.State) { s.Slot, s.RetrySlot = f.now, f.now })
	if !slots.ChangedAt.IsZero() {
		t.Errorf("new slots changed the gate at %v", slots.ChangedAt)
	}
	var last time.Time
	for i := range 20 {
		g := f.changeGate(t, f.Store, ep, func(s *gate.State) { s.Failures, s.Slot = i+1, f.at(time.Second) })
		if !g.ChangedAt.After(last) {
			t.Fatalf("changed at %v, and before that at %v", g.ChangedAt, last)
		}
		last = g.ChangedAt
	}
	g := f.changeGate(t, f.Store, ep, func(s *gate.State) { s.Slot = f.at(time.Hour) })
	if !g.ChangedAt.Equal(last) || !g.Slot.Equal(f.at(time.Hour)) {
		t.Errorf("a new slot %v changed the gate at %v, want %v", g.Slot, g.ChangedAt, last)
	}
}

func testGateWiped(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	f.changeGate(t, r, ep, func(s *gate.State) { s.Breaker, s.OpenUntil = gate.Open, f.at(time.Hour) })
	id := f.acceptDue(t, r, ep)
	f.Wipe(t, "gates")
	if l := f.claimOne(t, r, f.now, ep); l.Delivery != id {
		t.Errorf("claimed %x", l.Delivery)
	}
	if got := f.gates(t, ep); len(got) != 0 {
		t.Errorf("gates of an emptied table: %+v", got)
	}
	g := f.changeGate(t, r, ep, func(s *gate.State) { s.Failures++ })
	same(t, "a gate that begins anew", g.State, gate.State{Failures: 1})
}

func testGateConcurrent(t *testing.T, f *fixture) {
	const workers, times = 8, 25
	ep, other := f.endpoint(t), f.endpoint(t)
	rs := f.workers(t, workers)
	concurrently(workers, func(i int) {
		for n := range times {
			f.changeGate(quiet{t}, rs[i], ep, func(s *gate.State) { s.Failures++ })
			f.changeGate(quiet{t}, rs[i], other, func(s *gate.State) { s.Slot = f.at(time.Duration(n)) })
		}
	})
	if got := f.gates(t, ep); len(got) != 1 || got[0].Failures != workers*times {
		t.Errorf("after %d changes: %+v", workers*times, got)
	}
}

func testShutGates(t *testing.T, f *fixture) {
	states := []struct {
		state gate.State
		want  bool
	}{
		{gate.State{Failures: 3}, true},
		{gate.State{FailingSince: f.at(-time.Hour)}, true},
		{gate.State{Slot: f.at(time.Hour)}, false},
		{gate.State{Breaker: gate.Open, OpenUntil: f.at(-time.Hour)}, true},
		{gate.State{Breaker: gate.HalfOpen}, true},
		{gate.State{RetryAfterUntil: f.at(time.Microsecond)}, true},
		{gate.State{RetryAfterUntil: f.now}, false},
		{gate.State{ClosedAt: f.at(-59 * time.Second)}, true},
		{gate.State{ClosedAt: f.at(-time.Minute)}, false},
	}
	want := map[store.EndpointNo]gate.State{}
	for _, s := range states {
		ep := f.endpoint(t)
		f.changeGate(t, f.Store, ep, func(st *gate.State) { *st = s.state })
		if s.want {
			want[ep.No] = s.state
		}
	}
	got, err := f.Store.ShutGates(t.Context(), f.now)
	if err != nil {
		t.Fatal(err)
	}
	have := map[store.EndpointNo]gate.State{}
	for _, g := range got {
		have[g.Endpoint] = g.State
	}
	same(t, "shut", have, want)
}

func testBeatGates(t *testing.T, f *fixture) {
	r, one, two := f.replica(t), f.endpoint(t), f.endpoint(t)
	beat := func(since time.Time) []store.Gate {
		t.Helper()
		b, err := r.Beat(t.Context(), store.BeatParams{Epoch: r.epoch, Gates: since})
		if err != nil {
			t.Fatal(err)
		}
		return b.Gates
	}
	first := f.changeGate(t, r, one, func(s *gate.State) { s.Breaker = gate.Open })
	second := f.changeGate(t, r, two, func(s *gate.State) { s.Failures = 1 })
	same(t, "gates that nobody asked for", beat(time.Time{}), []store.Gate{})
	same(t, "gates", beat(first.ChangedAt.Add(-time.Second)), []store.Gate{first, second})
	same(t, "gates of the seconds before", beat(second.ChangedAt.Add(4*time.Second)), []store.Gate{first, second})
	same(t, "gates of the future", beat(second.ChangedAt.Add(time.Hour)), []store.Gate{})
	f.changeGate(t, r, one, func(s *gate.State) { s.Slot = f.now })
	same(t, "gates of which only a slot changed", beat(second.ChangedAt.Add(time.Hour)), []store.Gate{})
}

// testBeatGatesConcurrent: whoever asks with the time that the last beat brought must
// hear of each change in the end, also of one that got its time before that
// beat and was committed after it.
func testBeatGatesConcurrent(t *testing.T, f *fixture) {
	const changes = 60
	rs, ep := f.workers(t, 3), f.endpoint(t)
	r := rs[0]
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		concurrently(2, func(i int) {
			for range changes {
				f.changeGate(quiet{t}, rs[i+1], ep, func(s *gate.State) { s.Failures++ })
			}
		})
	})
	since, seen := f.at(-time.Minute), 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		b, err := r.Beat(t.Context(), store.BeatParams{Epoch: r.epoch, Gates: since})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range b.Gates {
			seen = max(seen, g.Failures)
		}
		since = b.Now
	}
	wg.Wait()
	if seen != 2*changes {
		t.Errorf("beats told of %d of %d changes", seen, 2*changes)
	}
}

func testDelivers(t *testing.T, f *fixture) {
	reg, err := f.Store.Register(t.Context(), store.RegisterParams{Name: f.nameOf(f.Store), Delivers: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, delivers := range []bool{true, false, true} {
		if i > 0 {
			if _, err := f.Store.Beat(t.Context(), store.BeatParams{Epoch: reg.Epoch, Delivers: delivers}); err != nil {
				t.Fatal(err)
			}
		}
		b, err := f.Store.Beat(t.Context(), store.BeatParams{Epoch: reg.Epoch, Delivers: delivers})
		if err != nil || len(b.Replicas) != 1 || b.Replicas[0].Delivers != delivers {
			t.Errorf("beat %d: %+v, %v; want that it delivers: %v", i, b.Replicas, err, delivers)
		}
	}
}

func testClaimShut(t *testing.T, f *fixture) {
	r := f.replica(t)
	states := []gate.State{
		{}, {Failures: 9, RetryAfterUntil: f.now}, {Breaker: gate.Open, OpenUntil: f.at(-time.Second)},
		{Breaker: gate.HalfOpen}, {RetryAfterUntil: f.at(time.Second)},
	}
	var want []store.ClaimWant
	var shut []store.Gate
	ids := map[store.EndpointNo]posthaste.ID{}
	for i, s := range states {
		ep := f.endpoint(t)
		g := f.changeGate(t, r, ep, func(st *gate.State) { *st = s })
		ids[ep.No] = f.acceptDue(t, r, ep)
		want = append(want, store.ClaimWant{Endpoint: ep.No, Cap: 10})
		if i >= 2 {
			shut = append(shut, g)
		}
	}
	claim := func() store.Claimed {
		t.Helper()
		r.fresh(t)
		got, err := r.Claim(t.Context(), store.ClaimParams{Epoch: r.epoch, Now: f.now, Want: want})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := claim()
	same(t, "shut", got.Shut, shut)
	if len(got.Leases) != 2 {
		t.Errorf("leases past the gates: %+v", got.Leases)
	}
	for i := range want {
		want[i].IgnoreGate = true
	}
	got = claim()
	if len(got.Leases) != 3 || len(got.Shut) != 0 {
		t.Errorf("gates ignored: leases %+v, shut %+v", got.Leases, got.Shut)
	}
	for _, l := range got.Leases {
		if ids[l.Endpoint] != l.Delivery {
			t.Errorf("lease %+v", l)
		}
	}
}
