package sqlite

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const day = 24 * time.Hour

// retainAll runs retention until it says that nothing is left to do, and
// checks after each step that the promise holds.
func retainAll(t *testing.T, db *DB, p store.RetainParams) (sum store.Retained, steps int) {
	t.Helper()
	for {
		got, err := db.Retain(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, db)
		sum.Events, sum.Keys, sum.PurgedDead = sum.Events+got.Events, sum.Keys+got.Keys, sum.PurgedDead+got.PurgedDead
		if steps++; !got.More {
			return sum, steps
		}
		if steps > 1000 {
			t.Fatal("retention never ends")
		}
	}
}

func TestRetainInSmallSteps(t *testing.T) {
	db := openTest(t, Config{})
	w := newWork(t, db)
	for range 5 {
		w.round(t, 40) // 10 of each kind
	}
	p := store.RetainParams{Now: w.now.Add(31 * day), Retention: 30 * day, DeadRetention: 90 * day, IdempotencyWindow: 30 * day, Limit: 7}
	got, steps := retainAll(t, db, p)
	if got.Events != 50 || got.Keys != 200 || got.PurgedDead != 0 || steps < 200/7 {
		t.Errorf("after 31 days: %+v in %d steps; want the 50 delivered events and the 200 keys", got, steps)
	}
	p.Now = w.now.Add(91 * day)
	if got, _ = retainAll(t, db, p); got.Events != 50 || got.PurgedDead != 50 {
		t.Errorf("after 91 days: %+v, want the 50 dead ones", got)
	}
	if left := verify(t, db); left.Events != 100 || left.Deliveries != 100 {
		t.Errorf("left are %d events with %d deliveries, want the 100 that are pending", left.Events, left.Deliveries)
	}
	for _, table := range []string{"attempts", "dead", "idempotency"} {
		want := map[string]string{"attempts": "50"}[table]
		if got := view(t, db, `SELECT count(*) AS n FROM `+table)[0]["n"]; got != want && (got != "0" || want != "") {
			t.Errorf("%s has %s rows left", table, got)
		}
	}
}

// TestRetainWideEvent deletes an event with more deliveries than a step may.
func TestRetainWideEvent(t *testing.T) {
	db := openTest(t, Config{})
	w := newWork(t, db)
	events := w.events(1)
	e := &events[0]
	for range 99 {
		e.Deliveries = append(e.Deliveries, e.Deliveries[0])
	}
	if _, err := db.Accept(t.Context(), store.AcceptParams{Epoch: w.epoch, Now: w.now, Routing: w.routing, Events: events}); err != nil {
		t.Fatal(err)
	}
	one := w.settlements(events)[0]
	var all []store.Settlement
	for n := range e.Deliveries {
		s := one
		s.Lease.Delivery = e.ID.Delivery(uint32(n + 1))
		all = append(all, s)
	}
	if _, err := db.Settle(t.Context(), store.SettleParams{Now: w.now, Settlements: all}); err != nil {
		t.Fatal(err)
	}
	got, steps := retainAll(t, db, store.RetainParams{
		Now: w.now.Add(31 * day), Retention: 30 * day, DeadRetention: 90 * day, IdempotencyWindow: 30 * day, Limit: 10,
	})
	if got.Events != 1 || steps < 10 {
		t.Errorf("%+v in %d steps, want the one event in 10 or more", got, steps)
	}
	if left := verify(t, db); left.Events != 0 || left.Deliveries != 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestKeyOutlivesItsEvent repeats a key whose event retention has deleted.
func TestKeyOutlivesItsEvent(t *testing.T) {
	db := openTest(t, Config{})
	w := newWork(t, db)
	first := w.round(t, 1)[0] // delivered
	retainAll(t, db, store.RetainParams{
		Now: w.now.Add(31 * day), Retention: 30 * day, DeadRetention: 90 * day, IdempotencyWindow: 60 * day, Limit: 100,
	})
	again := w.events(1)
	again[0].Key, again[0].IdempotencyKey = first.Key, first.IdempotencyKey
	p := store.AcceptParams{Epoch: w.epoch, Now: w.now, Routing: w.routing, Events: again}
	for i, wantStored := range []bool{true, false} {
		got, err := db.Accept(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if a := got.Events[0]; a.Stored != wantStored || a.ID != again[0].ID {
			t.Errorf("accept %d: %+v, want the new event, stored: %v", i+1, a, wantStored)
		}
	}
	verify(t, db)
}

// TestListsEndEarly looks for what is not there among more rows than a page may
// look at.
func TestListsEndEarly(t *testing.T) {
	db := openTest(t, Config{})
	w := newWork(t, db)
	const total = store.MaxExamined + 500
	for n := 0; n < total; n += 500 {
		w.accept(t, 500)
	}
	pages := map[string]func(before posthaste.ID) (found int, next posthaste.ID, err error){
		"events of a type": func(before posthaste.ID) (int, posthaste.ID, error) {
			p, err := db.ListEvents(t.Context(), store.ListEventsParams{Tenant: 1, Type: "none", Limit: 50, Before: before})
			return len(p.Events), p.Next, err
		},
		"events of a key": func(before posthaste.ID) (int, posthaste.ID, error) {
			p, err := db.ListEvents(t.Context(), store.ListEventsParams{Tenant: 1, IdempotencyKey: "none", Limit: 50, Before: before})
			return len(p.Events), p.Next, err
		},
		"deliveries of a type": func(before posthaste.ID) (int, posthaste.ID, error) {
			p, err := db.ListDeliveries(t.Context(), store.ListDeliveriesParams{Tenant: 1, Type: "none", Limit: 50, Before: before})
			return len(p.Deliveries), p.Next, err
		},
		"delivered of an endpoint": func(before posthaste.ID) (int, posthaste.ID, error) {
			p, err := db.ListDeliveries(t.Context(), store.ListDeliveriesParams{Tenant: 1, Endpoint: w.endpoint.No, Status: "delivered", Limit: 50, Before: before})
			return len(p.Deliveries), p.Next, err
		},
	}
	for name, page := range pages {
		var before posthaste.ID
		n := 0
		for {
			found, next, err := page(before)
			if err != nil || found > 0 {
				t.Fatalf("%s: found %d, error %v", name, found, err)
			}
			if n++; next.IsZero() {
				break
			}
			if !before.IsZero() && next.Compare(before) >= 0 || n > total {
				t.Fatalf("%s: page %d goes on at %x after %x", name, n, next, before)
			}
			before = next
		}
		// A delivery looked at may count beside its event.
		if n != 2 && n != 3 {
			t.Errorf("%s: %d pages, want 2 or 3", name, n)
		}
	}
}
