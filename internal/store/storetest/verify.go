package storetest

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var verifyCases = []testCase{
	{name: "a healthy database has no finding and every row is looked at", run: testVerifyHealthy},
	{name: "a hole in the attempt numbers is found", damaged: true, run: planted(AttemptLost, func(e estate) posthaste.ID { return e.retries })},
	{name: "a delivered delivery without its attempt is found", damaged: true, run: planted(HistoryLost, func(e estate) posthaste.ID { return e.delivered })},
	{name: "a dead delivery without its reason is found", damaged: true, run: planted(ReasonLost, func(e estate) posthaste.ID { return e.dead })},
	{name: "a dead delivery without the attempt that its reason tells of is found", damaged: true, run: planted(HistoryLost, func(e estate) posthaste.ID { return e.dead })},
	{name: "an event without its delivery is found", damaged: true, run: planted(DeliveryLost, func(e estate) posthaste.ID { return e.waits })},
	{name: "a pending delivery that nothing would find is found", damaged: true, run: planted(DueLost, func(e estate) posthaste.ID { return e.waits })},
	{name: "work of an epoch that is gone is found, and the repair heals it", run: testVerifyReplicas},
	{name: "resends are not taken for holes", run: testVerifyResend},
}

func testVerifyHealthy(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	for range 5 {
		e := f.estate(t, r, ep)
		f.settleMoved(t, r, f.delivered(e.leases[1]))
	}
	f.accept(t, r, f.event())
	for _, limit := range []int{1, 7, 1000} {
		v := f.verify(t, limit)
		same(t, "verified", v, store.Verified{Events: 31, Deliveries: 30, Attempts: 20})
	}
}

// planted makes a case of one damage: Verify must find it, name the delivery or
// its event, and find nothing else.
func planted(damage Damage, victim func(estate) posthaste.ID) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) {
		r, ep := f.replica(t), f.endpoint(t)
		f.estate(t, r, ep)
		id := victim(f.estate(t, r, ep))
		f.estate(t, r, ep)
		f.wantClean(t)
		f.Break(t, damage, id)
		for _, limit := range []int{1, 1000} {
			findings := f.verify(t, limit).Findings
			if len(findings) == 0 {
				t.Errorf("in pages of %d: nothing found", limit)
			}
			for _, found := range findings {
				if found.Delivery.Event() != id.Event() || found.What == "" {
					t.Errorf("in pages of %d: found %x: %q; planted at %x", limit, found.Delivery, found.What, id)
				}
			}
		}
	}
}

func testVerifyReplicas(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	e := f.estate(t, r, ep)
	f.Wipe(t, "replicas")
	found := map[posthaste.ID]bool{}
	for _, finding := range f.verify(t, 100).Findings {
		found[finding.Delivery] = true
	}
	if !found[e.born] {
		t.Errorf("found %v, want what the epoch was born to", found)
	}
	stranded, _, _ := f.stranded(t, 100)
	f.repairStranded(t, f.now, stranded...)
}

func testVerifyResend(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	e := f.event()
	f.accept(t, r, e)
	for range 2 {
		if _, err := f.Store.Resend(t.Context(), f.resendParams(e.ID, ep)); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range f.claim(t, r, f.at(time.Minute), ep) {
		f.settleMoved(t, r, f.delivered(l))
	}
	same(t, "verified", f.verify(t, 1), store.Verified{Events: 1, Deliveries: 2, Attempts: 2})
}
