package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// firsts accepts n events that are born leased and returns what settles their first
// attempts as delivered.
func (w *way) firsts(t *testing.T, n int) []store.Settlement {
	t.Helper()
	now := time.Now()
	events := w.events(n)
	if _, err := w.db.Accept(t.Context(), store.AcceptParams{Epoch: w.epoch, Now: now, Routing: w.routing, Events: events}); err != nil {
		t.Fatal(err)
	}
	out := make([]store.Settlement, n)
	for i := range out {
		out[i] = store.Settlement{
			Lease:   store.Lease{Delivery: events[i].ID.Delivery(1), Tenant: 1, Endpoint: w.endpoint.No, Epoch: w.epoch, Number: 1},
			State:   posthaste.StateDelivered,
			Attempt: &posthaste.Attempt{Number: 1, StartedAt: now, Outcome: posthaste.OutcomeDelivered, StatusCode: 200, Replica: "r"},
		}
	}
	return out
}

// failAt makes of a settlement one of an attempt that failed and is tried again.
func failAt(s *store.Settlement, due time.Time) {
	s.State, s.DueAt, s.Failures = posthaste.StatePending, due, 1
	s.Attempt.Outcome, s.Attempt.Cause, s.Attempt.StatusCode = posthaste.OutcomeTransient, posthaste.CauseStatus, 503
}

// states counts the deliveries and the attempts of what was settled.
func (w *way) states(t *testing.T) (delivered, waiting, attempts int) {
	t.Helper()
	err := w.db.side.QueryRow(t.Context(), `select
		(select count(*) from deliveries where state = 1 and owner = 0 and attempts = 1 and last_outcome = 1 and finished_at > 0),
		(select count(*) from deliveries d join due u on u.delivery = d.id and u.due_at = d.due_at where d.state = 0 and d.owner = 0),
		(select count(*) from attempts)`).Scan(&delivered, &waiting, &attempts)
	if err != nil {
		t.Fatal(err)
	}
	return delivered, waiting, attempts
}

func (w *way) mustSettle(t *testing.T, s []store.Settlement) (moved int, late int) {
	t.Helper()
	settled, err := w.db.Settle(t.Context(), store.SettleParams{Now: time.Now(), Settlements: s})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range settled.Moved {
		if m {
			moved++
		}
	}
	return moved, settled.Late
}

func TestSettleMixed(t *testing.T) {
	for _, tt := range []struct {
		name               string
		delivered, failing int
	}{
		{"all delivered", 3, 0},
		{"one delivered", 1, 2},
		{"enough delivered", enoughDelivered, 3},
		{"none delivered", 0, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db, _ := open(t)
			w := newWay(t, db, 1)
			s := w.firsts(t, tt.delivered+tt.failing)
			for i := range tt.failing {
				failAt(&s[i*len(s)/tt.failing], time.Now().Add(time.Minute))
			}
			if moved, late := w.mustSettle(t, s); moved != len(s) || late != 0 {
				t.Errorf("%d of %d moved, %d late", moved, len(s), late)
			}
			if d, u, a := w.states(t); d != tt.delivered || u != tt.failing || a != len(s) {
				t.Errorf("%d delivered, %d wait, %d attempts", d, u, a)
			}
			if moved, late := w.mustSettle(t, s); moved != 0 || late != 0 {
				t.Errorf("settled again: %d moved, %d late", moved, late)
			}
			if d, u, a := w.states(t); d != tt.delivered || u != tt.failing || a != len(s) {
				t.Errorf("settled again: %d delivered, %d wait, %d attempts", d, u, a)
			}
		})
	}
}

// One whose loss is recorded already must not keep the others from being settled, and
// its own success still counts.
func TestSettleDeliveredBesideLost(t *testing.T) {
	db, _ := open(t)
	w := newWay(t, db, 1)
	s := w.firsts(t, enoughDelivered+2)
	lost := s[7].Lease.Delivery
	exec(t, db, `insert into attempts (delivery, number, started_at, outcome, cause) values ('`+uuidText(lost)+`', 1, 1, `+lostOutcome+`, `+lostCause+`)`)
	exec(t, db, `update deliveries set owner = 0, attempts = 1, due_at = 5 where id = '`+uuidText(lost)+`'`)
	exec(t, db, `insert into due (endpoint, due_at, delivery) select endpoint, due_at, id from deliveries where due_at = 5`)
	if moved, late := w.mustSettle(t, s); moved != len(s)-1 || late != 1 {
		t.Errorf("%d of %d moved, %d late", moved, len(s), late)
	}
	if d, u, a := w.states(t); d != len(s) || u != 0 || a != len(s) {
		t.Errorf("%d delivered, %d wait, %d attempts", d, u, a)
	}
	var late int
	if err := db.side.QueryRow(t.Context(), `select count(*) from attempts where late and outcome = 1`).Scan(&late); err != nil || late != 1 {
		t.Errorf("%d attempts are late, %v", late, err)
	}
}

// A batch around midnight is of two days, and the older one may be gone.
func TestSettleDeliveredOfTwoDays(t *testing.T) {
	for _, gone := range []string{"", "yesterday is gone"} {
		t.Run(gone, func(t *testing.T) {
			db, _ := open(t)
			w := newWay(t, db, 1)
			old, today := w.firsts(t, 2), w.firsts(t, 2)
			yesterday := dayOf(time.Now().Add(-dayLength))
			if err := db.MakePartitions(t.Context(), time.Time(yesterday), time.Time(yesterday)); err != nil {
				t.Fatal(err)
			}
			want := 4
			for i := range old {
				id := posthaste.FloorID(time.Time(yesterday).Add(time.Duration(i+1) * time.Second)).Delivery(1)
				exec(t, db, `update deliveries set id = '`+uuidText(id)+`' where id = '`+uuidText(old[i].Lease.Delivery)+`'`)
				old[i].Lease.Delivery = id
			}
			if gone != "" {
				want = 2
				for _, table := range []string{"events_", "deliveries_", "attempts_"} {
					exec(t, db, "drop table "+table+yesterday.suffix())
				}
			}
			if moved, late := w.mustSettle(t, append(today, old...)); moved != want || late != 0 {
				t.Errorf("%d moved, want %d; %d late", moved, want, late)
			}
			if moved, late := w.mustSettle(t, old); moved != 0 || late != 0 {
				t.Errorf("again: %d moved, %d late", moved, late)
			}
			if d, _, a := w.states(t); d != want || a != want {
				t.Errorf("%d delivered, %d attempts, want %d", d, a, want)
			}
		})
	}
}

// Who made the day's tables may be another role than ours, which has rights on the
// partitioned ones alone.
func TestSettleDeliveredWithoutRightsOnTheDay(t *testing.T) {
	owner, url := open(t)
	w := newWay(t, owner, 1)
	role := "settler_" + w.endpoint.ID.Print(posthaste.KindEndpoint)
	exec(t, owner, `create role `+role)
	t.Cleanup(func() {
		if _, err := owner.side.Exec(context.Background(), `drop owned by `+role); err != nil {
			t.Error(err)
		}
		if _, err := owner.side.Exec(context.Background(), `drop role `+role); err != nil {
			t.Error(err)
		}
	})
	s := w.firsts(t, 3)
	exec(t, owner, `grant all on deliveries, attempts, events, due, dead, replicas, changes to `+role)
	w.db = connect(t, url+"&role="+role)
	if moved, late := w.mustSettle(t, s); moved != len(s) || late != 0 {
		t.Errorf("%d of %d moved, %d late", moved, len(s), late)
	}
	w.db = owner
	if d, _, a := w.states(t); d != len(s) || a != len(s) {
		t.Errorf("%d delivered, %d attempts, want %d", d, a, len(s))
	}
}

// A batch that is stored a second time, as after an answer that was lost, adds nothing, with keys
// and without.
func TestAcceptAgain(t *testing.T) {
	db, _ := open(t)
	w := newWay(t, db, 1)
	events := w.events(5)
	for i := range 3 {
		events[i].Event.IdempotencyKey, events[i].Key = "", store.Hash{}
	}
	for run := range 2 {
		accepted, err := db.Accept(t.Context(), store.AcceptParams{Epoch: w.epoch, Now: time.Now(), Routing: w.routing, Events: events})
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range accepted.Events {
			if a.Stored != (run == 0) || a.ID != events[i].ID || len(a.Mine) != run {
				t.Errorf("run %d, event %d: %+v", run, i, a)
			}
		}
	}
	var stored, made, told int
	err := db.side.QueryRow(t.Context(), `select (select count(*) from events), (select count(*) from deliveries), (select count(*) from changes where kind <> 0)`).Scan(&stored, &made, &told)
	if err != nil || stored != 5 || made != 5 || told != 1 {
		t.Errorf("%d events, %d deliveries, %d changes, %v", stored, made, told, err)
	}
}

// What the first of two commits has moved is said although the second one fails, and of a
// commit that fails nothing.
func TestSettleHalf(t *testing.T) {
	for _, tt := range []struct {
		name string
		lost bool // one of the first commit has its loss recorded, which undoes it
		want int
	}{
		{"the first is committed", false, enoughDelivered},
		{"the first is undone", true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db, _ := open(t)
			w := newWay(t, db, 1)
			s := w.firsts(t, enoughDelivered+1)
			failAt(&s[0], time.Now().Add(time.Minute))
			s[0].Attempt.Replica = "\x00" // which PostgreSQL refuses
			if tt.lost {
				exec(t, db, `insert into attempts (delivery, number, started_at, outcome, cause) values ('`+uuidText(s[7].Lease.Delivery)+`', 1, 1, `+lostOutcome+`, `+lostCause+`)`)
			}
			settled, err := db.Settle(t.Context(), store.SettleParams{Now: time.Now(), Settlements: s})
			moved := 0
			for _, m := range settled.Moved {
				if m {
					moved++
				}
			}
			if err == nil || moved != tt.want {
				t.Errorf("%d moved, want %d; %v", moved, tt.want, err)
			}
			if d, u, _ := w.states(t); d != tt.want || u != 0 {
				t.Errorf("%d delivered, want %d; %d wait", d, tt.want, u)
			}
		})
	}
}
