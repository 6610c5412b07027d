package pipeline

import (
	"slices"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Ending a large backlog takes long. The lock that is held meanwhile stands for it.
func TestALongLookHoldsUpNoClaim(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 500)
	held := e.endpoint(r.URL, func(d *posthaste.Definition) { d.EventTypes = []string{"held"} })
	e.endpoint(r.URL, func(d *posthaste.Definition) {
		d.EventTypes = []string{"retried"}
		d.Retry.Schedule = slices.Repeat([]posthaste.Duration{posthaste.Duration(10 * time.Millisecond)}, 5)
	})
	pause := func(ep *store.EndpointRow) error { ep.Paused = true; return nil }
	if _, err := e.ChangeEndpoint(t.Context(), e.tenant, held.ID, pause); err != nil {
		t.Fatal(err)
	}
	e.looking.Lock()
	defer e.looking.Unlock()
	e.send("held", "x") // the sweep comes upon it, and may not wait for the lock
	got := e.send("retried", "y")
	if d, attempts := e.ended(got.ID, 1); d.State != posthaste.StateDelivered || len(attempts) != 2 {
		t.Errorf("%+v after %d attempts", d, len(attempts))
	}
}

// What a walk passed by in an earlier look ends no later for it.
func TestAWalkOfManyLooksForgetsNoEnd(t *testing.T) {
	e := startEngine(t, nil)
	e.looking.Lock()
	defer e.looking.Unlock()
	const no = 4711 // of no endpoint: nothing is left of the walk
	soon := time.Now().Add(10 * time.Second).Truncate(time.Microsecond)
	e.expiryWalks[no] = expiryWalk{after: store.DueKey{Endpoint: no, DueAt: time.Now()}, earliest: soon}
	if err := e.endExpired(t.Context(), no); err != nil {
		t.Fatal(err)
	}
	if got := e.nextExpiry[no]; !got.Equal(soon) {
		t.Errorf("next walk %s, want %s", got, soon)
	}
	if _, goesOn := e.expiryWalks[no]; goesOn {
		t.Error("the walk has not ended")
	}
	if got := soonest(time.Time{}, soon); !got.Equal(soon) {
		t.Errorf("no time is sooner than %s: %s", soon, got)
	}
}

// What could not be ended must not be slept over: a look that leaves it fails, and has
// looked at the others all the same.
func TestALookThatCannotEndFails(t *testing.T) {
	e := startEngine(t, nil)
	pause := func(ep *store.EndpointRow) error { ep.Paused = true; return nil }
	var rows []store.EndpointRow
	for range 2 {
		row := e.endpoint("http://127.0.0.1:1", nil)
		if _, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, pause); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	got := e.send("a", "x")
	e.flaky.failEndings.Store(true)
	if err := e.look(t.Context()); err == nil {
		t.Error("a look that could not end what has expired says that it did")
	}
	for _, row := range rows {
		if err := e.DeleteEndpoint(t.Context(), e.tenant, row.ID, 2); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.look(t.Context()); err == nil {
		t.Error("a look that could not end the deliveries of deleted endpoints says that it did")
	}
	e.flaky.failEndings.Store(false)
	if err := e.look(t.Context()); err != nil {
		t.Error(err)
	}
	for n := range uint32(2) {
		if d := e.delivery(got.ID, n+1); d.State != posthaste.StateDead || d.Reason != posthaste.ReasonEndpointDeleted {
			t.Errorf("%+v", d)
		}
	}
	e.verified()
}
