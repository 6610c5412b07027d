package storetest

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var upkeepCases = []testCase{
	{name: "due endpoints are listed with their earliest time", run: testDueEndpoints},
	{name: "owned due rows are nobody's waiting work", run: testDueEndpointsOwned},
	{name: "the waiting work of a deleted endpoint ends (A6)", run: testEndDeleted},
	{name: "what an accept stores for an endpoint that is being deleted ends too (A6)", run: testEndDeletedRace},
	{name: "work of an endpoint that is absent ends (A6)", run: testEndDeletedAbsent},
	{name: "ending is judged in the table, not by the caller (A6)", run: testEndDeletedLiving},
	{name: "runs that have expired end in steps", run: testEndExpired},
	{name: "ending expired runs leaves leased work alone", run: testEndExpiredOwned},
	{name: "a replayed run is not ended by its first deadline (B7)", run: testEndExpiredReplayed},
	{name: "partitions may be made again", run: testMakePartitions},
	{name: "a setting is kept once", run: testSettings},
	{name: "of concurrent settings one is kept", run: testSettingsRace},
}

func testDueEndpoints(t *testing.T, f *fixture) {
	r := f.replica(t)
	one, two, idle := f.endpoint(t), f.endpoint(t), f.endpoint(t)
	f.acceptLeased(t, r, idle)
	for _, at := range []time.Duration{time.Hour, -time.Hour, time.Minute} {
		f.accept(t, r, f.event(f.due(one, f.at(at)), f.due(two, f.at(at+time.Second))))
	}
	f.wantDueEndpoints(t,
		store.EndpointDue{Endpoint: one.No, NextAt: f.at(-time.Hour)},
		store.EndpointDue{Endpoint: two.No, NextAt: f.at(-time.Hour + time.Second)})
}

func (f *fixture) wantDueEndpoints(t tester, want ...store.EndpointDue) {
	t.Helper()
	got, err := f.Store.DueEndpoints(t.Context())
	if err != nil {
		t.Fatalf("due endpoints: %v", err)
	}
	same(t, "due endpoints", got, want)
}

func testDueEndpointsOwned(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	f.accept(t, r, f.event(f.due(ep, f.now)))
	f.accept(t, r, f.event(f.due(ep, f.at(time.Hour))))
	l := f.claimOne(t, r, f.now, ep)
	f.wantDueEndpoints(t, store.EndpointDue{Endpoint: ep.No, NextAt: f.at(time.Hour)})
	l2 := f.claimOne(t, r, f.at(time.Hour), ep)
	f.wantDueEndpoints(t)
	f.settleMoved(t, r, f.transient(l, f.at(time.Minute)), f.delivered(l2))
	f.wantDueEndpoints(t, store.EndpointDue{Endpoint: ep.No, NextAt: f.at(time.Minute)})
}

func (f *fixture) deleteEndpoint(t tester, ep store.EndpointRow) {
	t.Helper()
	if err := f.Store.DeleteEndpoint(t.Context(), store.DeleteEndpointParams{Tenant: ep.Tenant, ID: ep.ID, Now: f.now}); err != nil {
		t.Fatalf("delete endpoint: %v", err)
	}
}

func (f *fixture) endDeleted(t tester, limit int, endpoints ...store.EndpointNo) int {
	t.Helper()
	n, err := f.Store.EndDeleted(t.Context(), store.EndDeletedParams{Endpoints: endpoints, Now: f.now, Limit: limit})
	if err != nil {
		t.Fatalf("end deleted: %v", err)
	}
	return n
}

func testEndDeleted(t *testing.T, f *fixture) {
	r, gone, unnamed := f.replica(t), f.endpoint(t), f.endpoint(t)
	var ids []posthaste.ID
	for i := range 5 { // some are due, some are not yet
		e := f.event(f.due(gone, f.at(time.Duration(i-2)*time.Hour)), f.due(unnamed, f.now))
		f.accept(t, r, e)
		ids = append(ids, e.ID.Delivery(1))
	}
	held := f.claim(t, r, f.at(-2*time.Hour), gone)
	born := f.acceptLeased(t, r, gone)
	f.deleteEndpoint(t, gone)
	f.deleteEndpoint(t, unnamed)
	for _, want := range []int{2, 2, 0} { // 5 rows, of which 1 is leased, 2 a step
		if n := f.endDeleted(t, 2, gone.No); n != want {
			t.Errorf("ended %d, want %d", n, want)
		}
	}
	for _, id := range ids[1:] {
		d := f.wantStatus(t, id, "dead", 0)
		if d.Reason != posthaste.ReasonEndpointDeleted || d.FinishedAt.IsZero() || !d.NextAttemptAt.IsZero() {
			t.Errorf("ended: %+v", d)
		}
		f.wantDue(t, id, 0)
	}
	f.wantListed(t, store.ListDeliveriesParams{Status: "dead"}, ids[4], ids[3], ids[2], ids[1])
	// What is leased is ended by its holder, which finds the endpoint deleted too.
	f.settleMoved(t, r, f.delivered(born), f.permanent(held[0]))
	f.wantDueEndpoints(t, store.EndpointDue{Endpoint: unnamed.No, NextAt: f.now})
}

func testEndDeletedRace(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	old := f.version(t, f.tenant)
	other := f.Another(t)
	var mu sync.Mutex
	var stored []posthaste.ID
	r.fresh(t)
	concurrently(4, func(i int) {
		if i == 0 {
			if err := other.DeleteEndpoint(t.Context(), store.DeleteEndpointParams{Tenant: f.tenant, ID: ep.ID, Now: f.now}); err != nil {
				t.Errorf("delete endpoint: %v", err)
			}
			return
		}
		for range 20 {
			e := f.event(f.due(ep, f.now))
			got, err := r.Accept(t.Context(), store.AcceptParams{
				Epoch: r.epoch, Now: f.now, Routing: []store.TenantVersion{old}, Events: []store.NewEvent{e},
			})
			if err != nil {
				t.Errorf("accept: %v", err)
			}
			if len(got.Stale) > 0 || err != nil {
				return
			}
			mu.Lock()
			stored = append(stored, e.ID.Delivery(1))
			mu.Unlock()
		}
	})
	if n := f.endDeleted(t, 1000, ep.No); n != len(stored) {
		t.Errorf("ended %d, want all %d that were stored", n, len(stored))
	}
	for _, id := range stored {
		f.wantStatus(t, id, "dead", 0)
	}
}

func testEndDeletedAbsent(t *testing.T, f *fixture) {
	const absent = store.EndpointNo(1 << 30)
	e := f.event(store.NewDelivery{Endpoint: absent, DueAt: f.now, ExpiresAt: f.at(time.Hour)})
	f.accept(t, f.replica(t), e)
	if n := f.endDeleted(t, 10, absent); n != 1 {
		t.Errorf("ended %d, want 1", n)
	}
	f.wantDue(t, e.ID.Delivery(1), 0)
	if n := f.endDeleted(t, 10, absent); n != 0 {
		t.Errorf("ended %d once more", n)
	}
}

func testEndDeletedLiving(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	id := f.acceptDue(t, r, ep)
	if n := f.endDeleted(t, 10, ep.No); n != 0 {
		t.Errorf("ended %d deliveries of an endpoint that is there", n)
	}
	f.wantStatus(t, id, "pending", 0)
	f.wantDue(t, id, 1)
}

func testEndExpired(t *testing.T, f *fixture) {
	r, ep, other := f.replica(t), f.endpoint(t), f.endpoint(t)
	var ids []posthaste.ID
	for i := range 10 { // every other one has expired; the rest ends 1 … 5 hours from now
		d, o := f.due(ep, f.at(time.Duration(i)*time.Minute)), f.due(other, f.now)
		d.ExpiresAt, o.ExpiresAt = f.at(time.Duration(5-i/2)*time.Hour), f.at(-time.Hour)
		if i%2 == 0 {
			d.ExpiresAt = f.at(-time.Duration(i+1) * time.Second)
		}
		e := f.event(d, o)
		f.accept(t, r, e)
		ids = append(ids, e.ID.Delivery(1))
	}
	p := store.EndExpiredParams{Endpoint: ep.No, Now: f.now, Limit: 3}
	ended, steps, nextExpiry := 0, 0, time.Time{}
	for {
		got, err := f.Store.EndExpired(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		ended += got.Ended
		if nextExpiry.IsZero() || !got.NextExpiry.IsZero() && got.NextExpiry.Before(nextExpiry) {
			nextExpiry = got.NextExpiry
		}
		if steps++; got.Ended > 3 || steps > 10 {
			t.Fatalf("step %d ended %d, want at most 3", steps, got.Ended)
		}
		if p.After = got.Next; got.Next == (store.DueKey{}) {
			break
		}
	}
	if ended != 5 || steps < 4 || !nextExpiry.Equal(f.at(time.Hour)) {
		t.Errorf("ended %d in %d steps, next at %v; want 5 in 4, next at %v", ended, steps, nextExpiry, f.at(time.Hour))
	}
	for i, id := range ids {
		if i%2 == 1 {
			f.wantStatus(t, id, "pending", 0)
			f.wantDue(t, id, 1)
			continue
		}
		if d := f.wantStatus(t, id, "dead", 0); d.Reason != posthaste.ReasonExpired || d.FinishedAt.IsZero() {
			t.Errorf("ended: %+v", d)
		}
		f.wantDue(t, id, 0)
	}
	f.wantListed(t, store.ListDeliveriesParams{Status: "dead", Endpoint: ep.No}, ids[8], ids[6], ids[4], ids[2], ids[0])
}

func testEndExpiredOwned(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	d := f.due(ep, f.now)
	d.ExpiresAt = f.at(-time.Second)
	f.accept(t, r, f.event(d))
	l := f.claimOne(t, r, f.now, ep)
	got, err := f.Store.EndExpired(t.Context(), store.EndExpiredParams{Endpoint: ep.No, Now: f.now, Limit: 10})
	same(t, "ended", got, store.EndedExpired{})
	if err != nil {
		t.Error(err)
	}
	f.settleMoved(t, r, f.delivered(l))
}

func testEndExpiredReplayed(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	d := f.leased(ep)
	d.ExpiresAt = f.at(-time.Hour)
	e := f.event(d)
	f.accept(t, r, e)
	f.settleMoved(t, r, f.permanent(bornLease(r, e, 1)))
	f.replay(t, e.ID.Delivery(1))
	got, err := f.Store.EndExpired(t.Context(), store.EndExpiredParams{Endpoint: ep.No, Now: f.at(time.Hour), Limit: 10})
	if err != nil || got.Ended != 0 || !got.NextExpiry.Equal(f.at(100*time.Hour)) {
		t.Errorf("ended: %+v, %v; want none before %v", got, err, f.at(100*time.Hour))
	}
	f.wantStatus(t, e.ID.Delivery(1), "pending", 1)
}

func testMakePartitions(t *testing.T, f *fixture) {
	stores := []store.Store{f.Store, f.Another(t), f.Store}
	concurrently(len(stores), func(i int) {
		if err := stores[i].MakePartitions(t.Context(), f.now.AddDate(0, 0, -2), f.now.AddDate(0, 0, 5)); err != nil {
			t.Errorf("make partitions: %v", err)
		}
	})
	e := f.eventAt(f.now.AddDate(0, 0, 5))
	if got := f.accept(t, f.replica(t), e); !got[0].Stored {
		t.Errorf("an event of the last day: %+v", got)
	}
}

func testSettings(t *testing.T, f *fixture) {
	_, err := f.Store.Setting(t.Context(), "admin-key-hash")
	wantErr(t, "a setting that is not there", err, store.ErrNotFound)
	first := []byte{0, 0xff, 'a', 0}
	for _, value := range [][]byte{first, []byte("second"), {}} {
		kept, err := f.Store.KeepSetting(t.Context(), "admin-key-hash", value)
		if err != nil || !bytes.Equal(kept, first) {
			t.Errorf("kept %q, %v; want %q", kept, err, first)
		}
	}
	got, err := f.Another(t).Setting(t.Context(), "admin-key-hash")
	if err != nil || !bytes.Equal(got, first) {
		t.Errorf("setting %q, %v; want %q", got, err, first)
	}
	if kept, err := f.Store.KeepSetting(t.Context(), "other", []byte("x")); err != nil || string(kept) != "x" {
		t.Errorf("another setting: %q, %v", kept, err)
	}
}

func testSettingsRace(t *testing.T, f *fixture) {
	stores := []store.Store{f.Store, f.Another(t)}
	kept := make([]string, 8)
	concurrently(len(kept), func(i int) {
		value, err := stores[i%2].KeepSetting(t.Context(), "key", []byte{byte(i)})
		if kept[i] = string(value); err != nil {
			t.Errorf("keep setting: %v", err)
		}
	})
	for _, v := range kept {
		if v != kept[0] || len(v) != 1 {
			t.Fatalf("kept %q, want one value for all", kept)
		}
	}
}
