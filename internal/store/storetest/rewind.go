package storetest

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// rewindCases are about what a replica once knew to be true, and the database says no more.
var rewindCases = []testCase{
	{name: "accept below the low-water mark is fenced", run: testAcceptBelowLowWater},
	{name: "the low-water mark passes accepts whose outcome is unknown", run: testRaiseLowWater},
	{name: "raising the low-water mark of an epoch that is gone is fenced", run: testRaiseLowWaterFenced},
	{name: "what was born below the low-water mark of a living epoch is stranded", run: testStrandedBelowLowWater},
	{name: "a beat older than the one seen means that the database went back", run: testBeatRewound},
	{name: "what waits longer than its endpoint lets it is pulled back, in order", run: testPullBack},
	{name: "an epoch below the last one means that the database went back", run: testRegisterRewound},
}

// The accepting statement was held up on its way; the replica had asked for it meanwhile.
func testAcceptBelowLowWater(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	first, late := f.event(f.leased(ep)), f.event(f.leased(ep))
	f.accept(t, r, first)
	mark := f.minter.Mint(f.now)
	if _, err := r.Beat(t.Context(), store.BeatParams{Epoch: r.epoch, LowWater: mark}); err != nil {
		t.Fatal(err)
	}
	_, err := r.Accept(t.Context(), f.params(t, r, f.event(f.leased(ep)), late))
	wantErr(t, "accept of a batch that begins below the mark", err, store.ErrFenced)
	if _, err := r.Event(t.Context(), f.tenant, late.ID); err == nil {
		t.Error("the event below the mark is stored")
	}
	f.accept(t, r, f.event(f.leased(ep))) // above it
	f.settleMoved(t, r, f.delivered(bornLease(r, first, 1)))
}

func testRaiseLowWater(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	lost := f.event(f.leased(ep))
	stored := f.acceptLeased(t, r, ep)
	to := f.minter.Mint(f.now)
	p := store.RaiseLowWaterParams{Epoch: r.epoch, From: lost.ID, To: to}
	for _, known := range []bool{false, true} {
		var got []store.Lease
		err := r.RaiseLowWater(t.Context(), p, func(owned []store.Lease) bool {
			got = owned
			return known
		})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "owned", got, []store.Lease{stored})
		if raised := r.row(t).LowWater == to; raised != known {
			t.Errorf("raised: %v, though the leases are known: %v", raised, known)
		}
	}
	_, err := r.Accept(t.Context(), f.params(t, r, lost))
	wantErr(t, "accept of what was passed", err, store.ErrFenced)
	f.settleMoved(t, r, f.delivered(stored))
}

func testRaiseLowWaterFenced(t *testing.T, f *fixture) {
	err := f.Store.RaiseLowWater(t.Context(), store.RaiseLowWaterParams{Epoch: 1 << 30, To: f.minter.Mint(f.now)}, func([]store.Lease) bool {
		t.Error("asked about an epoch that never was")
		return true
	})
	wantErr(t, "raise the mark of an epoch that never was", err, store.ErrFenced)
}

func testStrandedBelowLowWater(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	forgotten, held := f.acceptLeased(t, r, ep), f.acceptLeased(t, r, ep)
	claimed := f.acceptDue(t, r, ep)
	f.claimOne(t, r, f.now, ep)
	// Between the two; what was claimed lies below, and has its due row.
	if _, err := r.Beat(t.Context(), store.BeatParams{Epoch: r.epoch, LowWater: held.Delivery.Event()}); err != nil {
		t.Fatal(err)
	}
	got, err := r.FindStranded(t.Context(), store.FindStrandedParams{To: f.minter.Mint(f.now), Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	living := map[bool]int{}
	for _, d := range got.Deliveries {
		living[d.Living]++
		if d.Living == (d.Delivery == forgotten.Delivery) {
			t.Errorf("living %v: %+v", d.Living, d)
		}
	}
	if living[false] != 1 || living[true] != 2 {
		t.Fatalf("found %+v", got.Deliveries)
	}
	for _, d := range got.Deliveries {
		if d.Living {
			continue
		}
		if n, err := r.RepairStranded(t.Context(), store.RepairStrandedParams{Deliveries: []store.StrandedDelivery{d}, Now: f.now}); n != 1 || err != nil {
			t.Fatalf("repaired %d, %v", n, err)
		}
	}
	f.wantAttempts(t, forgotten.Delivery, "1 lost")
	f.wantDue(t, forgotten.Delivery, 1)
	f.wantAttempts(t, held.Delivery)
	f.wantAttempts(t, claimed)
	f.settleMoved(t, r, f.delivered(held))
}

func testBeatRewound(t *testing.T, f *fixture) {
	r := f.replica(t)
	seen := r.beat(t).Now
	if _, err := r.Beat(t.Context(), store.BeatParams{Epoch: r.epoch, Seen: seen}); err != nil {
		t.Fatalf("a beat after the one seen: %v", err)
	}
	f.AgeBeat(t, r.epoch, time.Minute) // as a backup has it that was restored in place
	mark := f.minter.Mint(f.now)
	_, err := r.Beat(t.Context(), store.BeatParams{Epoch: r.epoch, Seen: seen, LowWater: mark})
	wantErr(t, "beat of a row that went back", err, store.ErrRewound)
	if row := r.row(t); row.LowWater == mark {
		t.Error("the mark was raised")
	}
}

func testRegisterRewound(t *testing.T, f *fixture) {
	p := store.RegisterParams{Name: f.nameOf(f.Store)}
	first, err := f.Store.Register(t.Context(), p)
	if err != nil || first.Rewound {
		t.Fatalf("the first one: %+v, %v", first, err)
	}
	p.Last = first.Epoch
	second, err := f.Store.Register(t.Context(), p)
	if err != nil || second.Rewound {
		t.Fatalf("the next one: %+v, %v", second, err)
	}
	p.Last = second.Epoch + 1000 // of a future that is gone
	third, err := f.Store.Register(t.Context(), p)
	if err != nil || !third.Rewound {
		t.Fatalf("after the database went back: %+v, %v", third, err)
	}
}

// A clock was ahead when the work was made due, and is set right.
func testPullBack(t *testing.T, f *fixture) {
	r, ep, other := f.replica(t), f.endpoint(t), f.endpoint(t)
	soon := f.event(f.due(ep, f.at(time.Minute)))
	var ahead []store.NewEvent
	for i := range 3 {
		e := f.event(f.due(ep, f.at(10*365*24*time.Hour-time.Duration(i)*time.Second)))
		e.Deliveries[0].ExpiresAt = f.at(10*365*24*time.Hour + 72*time.Hour)
		ahead = append(ahead, e)
	}
	elsewhere := f.event(f.due(other, f.at(5*time.Hour)))
	f.accept(t, r, append(ahead, soon, elsewhere)...)
	held := f.acceptLeased(t, r, ep)
	p := store.PullBackParams{
		Endpoints: []store.LongestWait{{Endpoint: ep.No, Latest: f.at(time.Hour), ExpiresAt: f.at(72 * time.Hour)}},
		Now:       f.now, Limit: 2,
	}
	for _, want := range []int{2, 1, 0} {
		if got, err := r.PullBack(t.Context(), p); err != nil || got != want {
			t.Fatalf("pulled back %d, want %d; %v", got, want, err)
		}
		p.Now = p.Now.Add(time.Millisecond)
	}
	leases := f.claim(t, r, f.at(time.Second), ep, other)
	if len(leases) != len(ahead) {
		t.Fatalf("claimed %d, want %d: %v", len(leases), len(ahead), leases)
	}
	for i, l := range leases { // the last one was due first
		if want := ahead[len(ahead)-1-i].ID.Delivery(1); l.Delivery != want || !l.ExpiresAt.Equal(f.at(72*time.Hour)) {
			t.Errorf("%d: %+v, want delivery %x with an end within 72 h", i, l, want)
		}
		f.settleMoved(t, r, f.delivered(l))
		f.wantDue(t, l.Delivery, 0)
	}
	f.wantDue(t, soon.ID.Delivery(1), 1)
	f.wantDue(t, elsewhere.ID.Delivery(1), 1)
	f.settleMoved(t, r, f.delivered(held))
}
