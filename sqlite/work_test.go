package sqlite

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

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
	routing, err := db.Routing(t.Context(), store.RoutingParams{Tenant: 1, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	w.routing = []store.TenantVersion{{Tenant: 1, Version: routing.Mark.Version}}
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

// generator makes events as the pipeline does.
type generator struct {
	minter    posthaste.Minter
	epoch     store.Epoch
	endpoints int
	next      int
	payload   []byte
	now       time.Time
	beatAt    time.Time
}

func (g *generator) events(n int) []store.NewEvent {
	g.now = time.Now().UTC()
	events := make([]store.NewEvent, n)
	for i := range events {
		id := g.minter.Mint(g.now)
		g.next++
		e := &events[i]
		e.Event = posthaste.Event{
			ID: id, Type: "invoice.paid", Source: "api", ContentType: "application/json", Payload: g.payload,
			FanOut: 1, IdempotencyKey: fmt.Sprintf("invoice-%d", g.next), CorrelationID: id,
		}
		e.Tenant, e.Namespace = 1, store.NamespaceAPI
		rand.Read(e.Key[:]) // never fails since Go 1.24
		e.Sum = e.Key
		e.Deliveries = []store.NewDelivery{{
			Endpoint: store.EndpointNo(1 + g.next%g.endpoints), Leased: true, ExpiresAt: g.now.Add(96 * time.Hour),
		}}
	}
	return events
}

var receiverHeaders = []posthaste.Header{
	{Name: "Content-Type", Value: "text/plain; charset=utf-8"}, {Name: "Date", Value: "Sun, 29 Nov 2026 18:00:00 GMT"},
	{Name: "Content-Length", Value: "2"},
}

func (g *generator) settlements(events []store.NewEvent) []store.Settlement {
	out := make([]store.Settlement, len(events))
	now := time.Now().UTC()
	for i := range events {
		e := &events[i]
		out[i] = store.Settlement{
			Lease: store.Lease{
				Delivery: e.ID.Delivery(1), Tenant: e.Tenant, Endpoint: e.Deliveries[0].Endpoint,
				Epoch: g.epoch, Number: 1, ExpiresAt: e.Deliveries[0].ExpiresAt,
			},
			State: posthaste.StateDelivered,
			Attempt: &posthaste.Attempt{
				Number: 1, StartedAt: now, Timings: posthaste.Timings{FirstByte: 900 * time.Microsecond, Total: time.Millisecond},
				Outcome: posthaste.OutcomeDelivered, StatusCode: 200, EndpointVersion: 1, Replica: "host:8700",
				ResponseHeaders: receiverHeaders, ResponseBody: []byte("ok"),
			},
		}
	}
	return out
}
