package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// past accepts an event as if the given days ago and settles its delivery in the given state.
func (w *way) past(t *testing.T, days int, state posthaste.State, finishedAt time.Time) posthaste.ID {
	t.Helper()
	w.beat(t)
	e := w.events(1)[0]
	e.ID = new(posthaste.Minter).Mint(time.Now().AddDate(0, 0, -days))
	_, err := w.db.Accept(t.Context(), store.AcceptParams{Epoch: w.epoch, Now: e.ID.Time(), Routing: w.routing, Events: []store.NewEvent{e}})
	if err != nil {
		t.Fatal(err)
	}
	s := store.Settlement{
		Lease:   store.Lease{Delivery: e.ID.Delivery(1), Tenant: 1, Endpoint: w.endpoint.No, Epoch: w.epoch, Number: 1},
		State:   state,
		Attempt: &posthaste.Attempt{StartedAt: finishedAt, Outcome: posthaste.OutcomeDelivered},
	}
	if state == posthaste.StateDead {
		s.Reason, s.Attempt.Outcome = posthaste.ReasonPermanent, posthaste.OutcomePermanent
	}
	if settled, err := w.db.Settle(t.Context(), store.SettleParams{Now: finishedAt, Settlements: []store.Settlement{s}}); err != nil || !settled.Moved[0] {
		t.Fatalf("settle: %+v, %v", settled, err)
	}
	return e.ID.Delivery(1)
}

func retain(t *testing.T, db *DB) store.Retained {
	t.Helper()
	r, err := db.Retain(t.Context(), store.RetainParams{
		Now: time.Now(), Retention: 30 * dayLength, DeadRetention: 90 * dayLength, IdempotencyWindow: 30 * dayLength, Limit: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A day that must stay keeps the horizon below it, and with it what is younger:
// so whatever is kept can be replayed.
func TestHorizonStaysBelowWhatIsKept(t *testing.T) {
	db, _ := open(t)
	w := newWay(t, db, 1)
	w.past(t, 41, posthaste.StateDelivered, time.Now().AddDate(0, 0, -41))
	dead := w.past(t, 40, posthaste.StateDead, time.Now().AddDate(0, 0, -39))
	delivered := w.past(t, 39, posthaste.StateDelivered, time.Now().AddDate(0, 0, -39))
	r := retain(t, db)
	if len(r.Partitions) != 1 || r.Partitions[0] != dayOf(time.Now().AddDate(0, 0, -41)).String() || r.More {
		t.Fatalf("retained %+v, want the oldest day gone and no other", r)
	}
	var horizon [16]byte
	if err := db.side.QueryRow(t.Context(), "select id from horizon").Scan(&horizon); err != nil || posthaste.ID(horizon) != dayOf(dead.Time()).floor() {
		t.Errorf("horizon %x, %v; want the beginning of the oldest day kept", horizon, err)
	}
	if _, err := db.Delivery(t.Context(), 1, delivered); err != nil {
		t.Errorf("a delivery younger than the horizon: %v", err)
	}
	err := db.Replay(t.Context(), store.ReplayParams{Tenant: 1, Delivery: dead, Now: time.Now(), ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Errorf("replay of a dead letter that is kept: %v", err)
	}
}

// To drop a day needs a lock that shuts everybody out. Retain gives it up soon
// when a reader is in the way, and takes it the next time.
func TestRetainGivesWayToReaders(t *testing.T) {
	db, _ := open(t)
	w := newWay(t, db, 1)
	id := w.past(t, 41, posthaste.StateDelivered, time.Now().AddDate(0, 0, -41))
	reader := session(t, db)
	tx, err := reader.BeginTx(t.Context(), pgx.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "set local idle_in_transaction_session_timeout = 0; select count(*) from attempts"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if r := retain(t, db); len(r.Partitions) != 0 || !r.More {
		t.Errorf("retained %+v beside a reader, want nothing now and more to do", r)
	}
	if _, err := db.Delivery(t.Context(), 1, id); err != nil {
		t.Errorf("the day's delivery after %v: %v, want it untouched", time.Since(start), err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := retain(t, db); len(r.Partitions) != 1 || r.More {
		t.Errorf("retained %+v, want the day gone", r)
	}
}

// A result that comes after its day is gone is dropped, and the others of its
// batch are recorded.
func TestSettleOfADayThatIsGone(t *testing.T) {
	db, _ := open(t)
	w := newWay(t, db, 1)
	gone := w.past(t, 41, posthaste.StateDelivered, time.Now().AddDate(0, 0, -41))
	retain(t, db)
	events := w.events(1)
	if _, err := db.Accept(t.Context(), store.AcceptParams{Epoch: w.epoch, Now: time.Now(), Routing: w.routing, Events: events}); err != nil {
		t.Fatal(err)
	}
	s := func(id posthaste.ID, number int) store.Settlement {
		return store.Settlement{
			Lease:   store.Lease{Delivery: id, Tenant: 1, Endpoint: w.endpoint.No, Epoch: w.epoch, Number: number},
			State:   posthaste.StateDelivered,
			Attempt: &posthaste.Attempt{StartedAt: time.Now(), Outcome: posthaste.OutcomeDelivered},
		}
	}
	settled, err := db.Settle(t.Context(), store.SettleParams{
		Now: time.Now(), Settlements: []store.Settlement{s(events[0].ID.Delivery(1), 1), s(gone, 2)},
	})
	if err != nil || !settled.Moved[0] || settled.Moved[1] {
		t.Errorf("settled %+v, %v; want the first moved and the second dropped", settled, err)
	}
}
