package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var retainCases = []testCase{
	{name: "what is past its retention goes, with all that belongs to it", run: testRetain},
	{name: "nothing pending is lost, however old (A5)", run: testRetainPending},
	{name: "a dead letter is kept for its own retention", run: testRetainDead},
	{name: "keys go after their window and are free again", run: testRetainKeys},
	{name: "the gate of an endpoint goes with it", run: testRetainGates},
	{name: "a deleted endpoint goes when nothing names it", run: testRetainEndpoints},
	{name: "endpoints that went together are purged in steps", run: testRetainEndpointsInSteps},
	{name: "retention is bounded and can be run twice", run: testRetainBounded},
	{name: "days can be used again after they went", run: testRetainThenAccept},
}

// retention are the default settings at a time.
func retention(now time.Time, limit int) store.RetainParams {
	const day = 24 * time.Hour
	return store.RetainParams{Now: now, Retention: 30 * day, DeadRetention: 90 * day, IdempotencyWindow: 30 * day, Limit: limit}
}

// retain runs retention to its end and adds up what it says.
func (f *fixture) retain(t tester, p store.RetainParams) (sum store.Retained) {
	t.Helper()
	f.purged = true
	for range 1000 {
		got, err := f.Store.Retain(t.Context(), p)
		if err != nil {
			t.Fatalf("retain: %v", err)
		}
		sum.Partitions = append(sum.Partitions, got.Partitions...)
		sum.Events, sum.Keys, sum.PurgedDead = sum.Events+got.Events, sum.Keys+got.Keys, sum.PurgedDead+got.PurgedDead
		sum.Changes, sum.Gates, sum.Endpoints = sum.Changes+got.Changes, sum.Gates+got.Gates, sum.Endpoints+got.Endpoints
		if !got.More {
			return sum
		}
	}
	t.Fatalf("retention does not come to an end: %+v so far", sum)
	return sum
}

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// wantGone checks that an event and its first delivery are gone.
func (f *fixture) wantGone(t tester, what string, e store.NewEvent) {
	t.Helper()
	if event, delivery := f.look(t, e); !isNotFound(event) || !isNotFound(delivery) {
		t.Errorf("%s: event %v, delivery %v; want both gone", what, event, delivery)
	}
}

// wantKept checks that an event and its first delivery are there.
func (f *fixture) wantKept(t tester, what string, e store.NewEvent) {
	t.Helper()
	if event, delivery := f.look(t, e); event != nil || delivery != nil {
		t.Errorf("%s: event %v, delivery %v; want both kept", what, event, delivery)
	}
}

// look returns what reading an event and its first delivery fails with.
func (f *fixture) look(t tester, e store.NewEvent) (event, delivery error) {
	t.Helper()
	_, event = f.Store.Event(t.Context(), f.tenant, e.ID)
	_, delivery = f.Store.Delivery(t.Context(), f.tenant, e.ID.Delivery(1))
	return event, delivery
}

// settled stores an event of an earlier day and ends its delivery on that day.
func (f *fixture) settled(t tester, r *replica, ep store.EndpointRow, day int, result func(store.Lease) store.Settlement) store.NewEvent {
	t.Helper()
	at := f.now.AddDate(0, 0, day)
	e := f.eventAt(at, f.leased(ep))
	f.accept(t, r, e)
	f.settleAt(t, r, at, result(bornLease(r, e, 1)))
	return e
}

func testRetain(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	old, young := f.settled(t, r, ep, -40, f.delivered), f.settled(t, r, ep, -20, f.delivered)
	today := f.settled(t, r, ep, 0, f.delivered)
	got := f.retain(t, retention(f.now, 100))
	if len(got.Partitions) == 0 && got.Events == 0 {
		t.Errorf("nothing went: %+v", got)
	}
	f.wantGone(t, "an event of 40 days ago", old)
	f.wantKept(t, "an event of 20 days ago", young)
	f.wantKept(t, "an event of today", today)
	f.wantAttempts(t, old.ID.Delivery(1))
	f.wantAttempts(t, young.ID.Delivery(1), "1 delivered")
	f.wantListed(t, store.ListDeliveriesParams{}, today.ID.Delivery(1), young.ID.Delivery(1))
}

func testRetainPending(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	waits, held := f.eventAt(f.now.AddDate(0, 0, -200), f.due(ep, f.at(time.Hour))), f.eventAt(f.now.AddDate(0, 0, -150), f.leased(ep))
	f.accept(t, r, waits)
	f.accept(t, r, held)
	f.retain(t, retention(f.now, 100))
	f.wantKept(t, "a pending one of 200 days ago", waits)
	f.wantKept(t, "a leased one of 150 days ago", held)
	f.settleMoved(t, r, f.delivered(bornLease(r, held, 1)), f.delivered(f.claimOne(t, r, f.at(time.Hour), ep)))
	f.retain(t, retention(f.now, 100))
	f.wantGone(t, "the first one, delivered now", waits)
	f.wantGone(t, "the second one, delivered now", held)
}

func testRetainDead(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	ancient, recent := f.settled(t, r, ep, -100, f.permanent), f.settled(t, r, ep, -60, f.permanent)
	got := f.retain(t, retention(f.now, 100))
	if got.PurgedDead != 1 {
		t.Errorf("%d dead letters went, want 1", got.PurgedDead)
	}
	f.wantGone(t, "a dead letter of 100 days ago", ancient)
	f.wantKept(t, "a dead letter of 60 days ago", recent)
	f.wantListed(t, store.ListDeliveriesParams{Status: "dead"}, recent.ID.Delivery(1))
	got = f.retain(t, retention(f.now.AddDate(0, 0, 40), 100))
	if got.PurgedDead != 1 {
		t.Errorf("%d dead letters went 40 days later, want 1", got.PurgedDead)
	}
	f.wantGone(t, "the second one 40 days later", recent)
	f.wantListed(t, store.ListDeliveriesParams{Status: "dead"})
}

func testRetainKeys(t *testing.T, f *fixture) {
	r := f.replica(t)
	old, young := keyed(f.eventAt(f.now.AddDate(0, 0, -40)), "old"), keyed(f.eventAt(f.now.AddDate(0, 0, -20)), "young")
	f.accept(t, r, old)
	f.accept(t, r, young)
	if got := f.retain(t, retention(f.now, 100)); got.Keys != 1 {
		t.Errorf("%d keys went, want 1", got.Keys)
	}
	answers := f.accept(t, r, keyed(f.event(), "old"), keyed(f.event(), "young"))
	if !answers[0].Stored || answers[1].Stored || answers[1].ID != young.ID {
		t.Errorf("answers %+v, want the first key free and the second one taken", answers)
	}
}

func testRetainGates(t *testing.T, f *fixture) {
	var eps []store.EndpointRow
	for range 4 {
		ep := f.endpoint(t)
		f.changeGate(t, f.Store, ep, func(s *gate.State) { s.Failures = 3 })
		eps = append(eps, ep)
	}
	if got := f.retain(t, retention(f.now, 100)); got.Gates != 0 {
		t.Errorf("%d gates of living endpoints went", got.Gates)
	}
	for _, ep := range eps[1:] {
		f.deleteEndpoint(t, ep)
	}
	first, err := f.Store.Retain(t.Context(), retention(f.now, 2))
	if err != nil || first.Gates != 2 || !first.More {
		t.Errorf("with a limit of two: %+v, %v", first, err)
	}
	if got := f.retain(t, retention(f.now, 2)); got.Gates != 1 {
		t.Errorf("%d gates went after that, want 1", got.Gates)
	}
	if got := f.gates(t, eps...); len(got) != 1 || got[0].Endpoint != eps[0].No || got[0].Failures != 3 {
		t.Errorf("left: %+v", got)
	}
}

func testRetainEndpoints(t *testing.T, f *fixture) {
	r := f.replica(t)
	unused, used, living := f.endpoint(t), f.endpoint(t), f.endpoint(t)
	unused, err := f.Store.UpdateEndpoint(t.Context(), updateOf(unused, "https://receiver.example/2", f.now))
	if err != nil {
		t.Fatal(err)
	}
	f.die(t, r, used)
	f.deleteEndpoint(t, unused)
	f.deleteEndpoint(t, used)
	last := f.endpoint(t)
	mark := f.routing(t, f.tenant, store.RoutingMark{}).Mark
	const day = 24 * time.Hour
	if got := f.retain(t, retention(f.at(29*day), 2)); got.Endpoints != 0 {
		t.Errorf("%d endpoints went before their time", got.Endpoints)
	}
	if got := f.retain(t, retention(f.at(31*day), 2)); got.Endpoints != 1 {
		t.Errorf("%d endpoints went, want 1", got.Endpoints)
	}
	if _, err := f.Store.EndpointByNo(t.Context(), unused.No); !isNotFound(err) {
		t.Errorf("the endpoint that nothing names: %v", err)
	}
	for version := range 2 {
		if _, err := f.Store.Definition(t.Context(), unused.No, version+1); !isNotFound(err) {
			t.Errorf("its version %d: %v", version+1, err)
		}
	}
	for _, row := range []store.EndpointRow{used, living, last} {
		if got, err := f.Store.EndpointByNo(t.Context(), row.No); err != nil || len(got.Secrets) != 1 {
			t.Errorf("endpoint %d: %+v, %v", row.No, got, err)
		}
	}
	// The newest change of a tenant stays: replicas name it.
	f.deleteEndpoint(t, last)
	at := f.routing(t, f.tenant, mark).Mark
	if got := f.retain(t, retention(f.at(31*day), 2)); got.Endpoints != 0 {
		t.Errorf("the newest change went")
	}
	f.endpoint(t)
	if got := f.routing(t, f.tenant, at); got.Unknown || len(got.Endpoints) != 1 {
		t.Errorf("since the deletion: %+v", got)
	}
	if got := f.retain(t, retention(f.at(31*day), 2)); got.Endpoints != 1 {
		t.Errorf("%d endpoints went after the next change, want 1", got.Endpoints)
	}
}

func testRetainEndpointsInSteps(t *testing.T, f *fixture) {
	acme := f.createTenant(t, "acme")
	for range 7 {
		f.endpointOf(t, acme)
	}
	if err := f.Store.DeleteTenant(t.Context(), store.DeleteTenantParams{No: acme, Now: f.now}); err != nil {
		t.Fatal(err)
	}
	p := retention(f.at(31*24*time.Hour), 3)
	for _, want := range []int{3, 3, 1} {
		got, err := f.Store.Retain(t.Context(), p)
		if err != nil || got.Endpoints != want || got.More != (want == 3) {
			t.Errorf("a step: %+v, %v; want %d", got, err, want)
		}
	}
	f.purged = true
}

func testRetainBounded(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	for i := range 25 {
		e := keyed(f.eventAt(f.now.AddDate(0, 0, -40).Add(time.Duration(i)*time.Second), f.leased(ep)), fmt.Sprint(i))
		f.accept(t, r, e)
		f.settleMoved(t, r, f.delivered(bornLease(r, e, 1)))
	}
	for range 100 {
		got, err := f.Store.Retain(t.Context(), retention(f.now, 4))
		if err != nil {
			t.Fatal(err)
		}
		if got.Events > 4 {
			t.Errorf("one step deleted %d events, want at most 4", got.Events)
		}
		f.wantClean(t) // also between the steps
		if !got.More {
			break
		}
	}
	if v := f.verify(t, 100); v.Events+v.Deliveries+v.Attempts != 0 {
		t.Errorf("left: %d events, %d deliveries, %d attempts", v.Events, v.Deliveries, v.Attempts)
	}
	stores := []store.Store{f.Store, f.Another(t)}
	concurrently(2, func(i int) {
		if _, err := stores[i].Retain(t.Context(), retention(f.now, 4)); err != nil {
			t.Errorf("retain beside another: %v", err)
		}
	})
}

// testRetainThenAccept: an engine whose clock was wrong for a moment, or a re-run
// after an unknown commit, may come with an id of a day that went.
func testRetainThenAccept(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	old := f.settled(t, r, ep, -40, f.delivered)
	f.retain(t, retention(f.now, 100))
	again := f.eventAt(f.now.AddDate(0, 0, -40), f.leased(ep))
	if got := f.accept(t, r, again); !got[0].Stored {
		t.Errorf("accept into a day that went: %+v", got)
	}
	f.settleMoved(t, r, f.delivered(bornLease(r, again, 1)))
	f.wantGone(t, "the old event", old)
	wantErr(t, "replay of what is gone", notFoundOrExpired(f.Store.Replay(t.Context(), f.replayParams(old.ID.Delivery(1)))), store.ErrNotFound)
}

// notFoundOrExpired lets a refusal below the horizon count as not found: both
// say that the delivery cannot be had again.
func notFoundOrExpired(err error) error {
	if posthaste.CodeOf(err) == posthaste.CodeExpiredEvent {
		return store.ErrNotFound
	}
	return err
}
