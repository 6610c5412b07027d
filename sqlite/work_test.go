package sqlite

import (
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// work makes rows of every kind, as a life under load does.
type work struct {
	generator
	db       *DB
	endpoint store.EndpointRow
	routing  []store.TenantVersion
}

func newWork(t testing.TB, db *DB) *work {
	t.Helper()
	reg, err := db.Register(t.Context(), store.RegisterParams{Name: "work"})
	if err != nil {
		t.Fatal(err)
	}
	w := &work{db: db, generator: generator{epoch: reg.Epoch, endpoints: 1, payload: []byte(`{"n":1}`)}}
	definition := posthaste.DefaultDefinition()
	definition.URL = "https://receiver.example/hook"
	w.endpoint, err = db.CreateEndpoint(t.Context(), store.CreateEndpointParams{
		Tenant: 1, Endpoint: posthaste.Endpoint{ID: w.minter.Mint(reg.Now), Definition: definition, CreatedAt: reg.Now},
	})
	if err != nil {
		t.Fatal(err)
	}
	routing, err := db.Routing(t.Context(), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.routing = []store.TenantVersion{{Tenant: 1, Version: routing.Version}}
	return w
}

// accept stores n events with one leased delivery each.
func (w *work) accept(t testing.TB, n int) []store.NewEvent {
	t.Helper()
	if _, err := w.db.Beat(t.Context(), store.BeatParams{Epoch: w.epoch}); err != nil {
		t.Fatal(err)
	}
	events := w.events(n)
	got, err := w.db.Accept(t.Context(), store.AcceptParams{Epoch: w.epoch, Now: w.now, Routing: w.routing, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Events) != n || !got.Events[0].Stored {
		t.Fatal("accept stored nothing: ", got)
	}
	return events
}

// round accepts n events and ends them in turn as delivered, due again, dead
// and not at all.
func (w *work) round(t testing.TB, n int) []store.NewEvent {
	t.Helper()
	events := w.accept(t, n)
	var out []store.Settlement
	for i, s := range w.settlements(events) {
		switch i % 4 {
		case 1:
			s.State, s.DueAt, s.Failures = posthaste.StatePending, w.now, 1
			s.Attempt.Outcome, s.Attempt.StatusCode = posthaste.OutcomeTransient, 503
		case 2:
			s.State, s.Reason = posthaste.StateDead, posthaste.ReasonPermanent
			s.Attempt.Outcome, s.Attempt.StatusCode, s.Attempt.Error = posthaste.OutcomePermanent, 400, "answered 400"
		case 3:
			continue
		}
		out = append(out, s)
	}
	if _, err := w.db.Settle(t.Context(), store.SettleParams{Now: w.now, Settlements: out}); err != nil {
		t.Fatal(err)
	}
	return events
}

// verify fails the test for each violation in the database.
func verify(t testing.TB, db *DB) (sum store.Verified) {
	t.Helper()
	for p := (store.VerifyParams{Limit: 1000}); ; p.From = sum.Next {
		v, err := db.Verify(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range v.Findings {
			t.Errorf("%s: %s", f.Delivery.Print(posthaste.KindDelivery), f.What)
		}
		sum.Events, sum.Deliveries, sum.Attempts, sum.Next = sum.Events+v.Events, sum.Deliveries+v.Deliveries, sum.Attempts+v.Attempts, v.Next
		if v.Next.IsZero() {
			return sum
		}
	}
}
