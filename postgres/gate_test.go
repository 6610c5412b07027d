package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// stranger locks the gate of an endpoint in a session of its own, and lets it go
// at the end of the test.
func stranger(t *testing.T, url string, endpoint store.EndpointNo) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangUp(t.Context(), conn) })
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err == nil {
		_, err = tx.Exec(t.Context(), "select from gates where endpoint = $1 for update", int32(endpoint))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func throughAll(epoch store.Epoch, endpoint store.EndpointNo) store.ClaimThroughParams {
	return store.ClaimThroughParams{
		Epoch: epoch, Now: time.Now(), Endpoint: endpoint,
		Enter: func(gate.State) gate.Pass { return gate.Pass{Attempts: 10, Retries: 10} },
		Take: func(s gate.State, leases []store.Lease) gate.State {
			s.Slot = time.Now().Add(time.Duration(len(leases)) * time.Second)
			return s
		},
	}
}

// TestStrangersLockOnAGate: a lock that somebody holds on one gate costs its own
// endpoint the limits of the waits, and nobody else anything.
func TestStrangersLockOnAGate(t *testing.T) {
	db, url := open(t)
	w := newWay(t, db, 4)
	other := newEndpoint(t, db).No
	fail := func(s gate.State) gate.State {
		s.Failures++
		return s
	}
	for _, no := range []store.EndpointNo{w.endpoint.No, other} {
		if _, err := db.ChangeGate(t.Context(), no, fail); err != nil {
			t.Fatal(err)
		}
	}
	w.acceptDue(t, w.endpoint.No, other)
	stranger(t, url, w.endpoint.No)

	within := func(what string, least, most time.Duration, do func() error, want error) {
		t.Helper()
		began := time.Now()
		err := do()
		took := time.Since(began)
		if !errors.Is(err, want) || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if took < least || took > most {
			t.Errorf("%s took %v, want %v to %v", what, took, least, most)
		}
	}
	const slack = 10 * time.Second // this machine is shared
	within("change the gate", changeLockWait, changeLockWait+slack, func() error {
		_, err := db.ChangeGate(t.Context(), w.endpoint.No, fail)
		return err
	}, store.ErrLocked)
	within("claim through the gate", claimLockWait, claimLockWait+slack, func() error {
		_, err := db.ClaimThrough(t.Context(), throughAll(w.epoch, w.endpoint.No))
		return err
	}, store.ErrLocked)
	within("change another gate", 0, slack, func() error {
		_, err := db.ChangeGate(t.Context(), other, fail)
		return err
	}, nil)
	within("claim through another gate", 0, slack, func() error {
		got, err := db.ClaimThrough(t.Context(), throughAll(w.epoch, other))
		if err == nil && len(got.Leases) != 1 {
			t.Errorf("through another gate: %+v", got)
		}
		return err
	}, nil)
	within("look at the gate", 0, slack, func() error {
		got, err := db.Gates(t.Context(), []store.EndpointNo{w.endpoint.No})
		if err == nil && (len(got) != 1 || got[0].Failures != 1) {
			t.Errorf("the gate: %+v", got)
		}
		return err
	}, nil)
	within("claim, settle and accept", 0, slack, func() error {
		got, err := db.Claim(t.Context(), store.ClaimParams{
			Epoch: w.epoch, Now: time.Now(), Want: []store.ClaimWant{{Endpoint: w.endpoint.No, Cap: 10}},
		})
		if err != nil || len(got.Leases) != 1 {
			t.Fatalf("claim: %+v, %v", got, err)
		}
		_, err = db.Settle(t.Context(), store.SettleParams{Now: time.Now(), Settlements: []store.Settlement{{
			Lease: got.Leases[0], State: posthaste.StateDelivered,
			Attempt: &posthaste.Attempt{Number: 1, StartedAt: time.Now(), Outcome: posthaste.OutcomeDelivered},
		}}})
		if err == nil {
			_, err = db.Accept(t.Context(), store.AcceptParams{Epoch: w.epoch, Now: time.Now(), Routing: w.routing, Events: w.events(3)})
		}
		return err
	}, nil)
}

// acceptDue accepts an event with a delivery to each of the endpoints, due now.
func (w *way) acceptDue(t *testing.T, endpoints ...store.EndpointNo) {
	t.Helper()
	id := new(posthaste.Minter).Mint(time.Now())
	e := store.NewEvent{Event: posthaste.Event{ID: id, Type: "a", CorrelationID: id}, Tenant: 1, Namespace: 1}
	for _, no := range endpoints {
		e.Deliveries = append(e.Deliveries, store.NewDelivery{Endpoint: no, DueAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)})
	}
	got, err := w.db.Accept(t.Context(), store.AcceptParams{Epoch: w.epoch, Now: time.Now(), Routing: w.routing, Events: []store.NewEvent{e}})
	if err == nil && len(got.Stale) > 0 { // an endpoint was made since the way was
		w.routing = got.Stale
		got, err = w.db.Accept(t.Context(), store.AcceptParams{Epoch: w.epoch, Now: time.Now(), Routing: w.routing, Events: []store.NewEvent{e}})
	}
	if err != nil || len(got.Stale) > 0 {
		t.Fatalf("accept: %+v, %v", got, err)
	}
}

// TestSlotsAreHeapOnlyUpdates: a rate limit writes a row of gates for each claim, and
// nothing else, not even an index entry.
func TestSlotsAreHeapOnlyUpdates(t *testing.T) {
	const times = 200
	db, _ := open(t)
	endpoint := newEndpoint(t, db).No
	if _, err := db.ChangeGate(t.Context(), endpoint, func(s gate.State) gate.State {
		s.Failures++
		return s
	}); err != nil {
		t.Fatal(err)
	}
	for i := range times {
		_, err := db.ChangeGate(t.Context(), endpoint, func(s gate.State) gate.State {
			s.Slot = time.UnixMicro(int64(i + 1))
			return s
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var updates, hot int
	for deadline := time.Now().Add(20 * time.Second); updates < times && time.Now().Before(deadline); {
		// Sessions report what they did when they are idle, or asked.
		exec(t, db, "select pg_stat_force_next_flush()")
		if err := db.side.QueryRow(t.Context(), `select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'gates'`).Scan(&updates, &hot); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Gates(t.Context(), []store.EndpointNo{endpoint}); err != nil {
			t.Fatal(err)
		}
	}
	if updates < times || hot < updates-2 {
		t.Errorf("%d updates, %d of them heap-only; want all of %d", updates, hot, times)
	}
}

// TestBeatTellsOfLateCommits: a change gets its time before it is committed. One that
// a beat in between does not see yet, the next one must bring.
func TestBeatTellsOfLateCommits(t *testing.T) {
	db, _ := open(t)
	w := newWay(t, db, 1)
	tx, err := db.side.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // committed below
	if _, err := tx.Exec(t.Context(), "insert into gates (endpoint, breaker, changed_at) values ($1, 1, "+clockSQL+")", int32(w.endpoint.No)); err != nil {
		t.Fatal(err)
	}
	beat := func(since time.Time) store.Beat {
		t.Helper()
		b, err := db.Beat(t.Context(), store.BeatParams{Epoch: w.epoch, Gates: since})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := beat(time.Now().Add(-time.Minute))
	if len(first.Gates) != 0 {
		t.Errorf("gates that nobody committed: %+v", first.Gates)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := beat(first.Now)
	if len(second.Gates) != 1 || second.Gates[0].Breaker != gate.Open || !second.Gates[0].ChangedAt.Before(first.Now) {
		t.Errorf("gates after the commit: %+v", second.Gates)
	}
}

// TestSlowChangeEndsWithItsSession: a process that stops between locking a gate and storing
// it holds the lock for as long as the server lets it, and changes nothing.
func TestSlowChangeEndsWithItsSession(t *testing.T) {
	db, url := open(t)
	endpoint := newEndpoint(t, db).No
	other := connect(t, url)
	locked, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := db.ChangeGate(t.Context(), endpoint, func(s gate.State) gate.State {
			close(locked)
			<-t.Context().Done() // the test has gone on meanwhile
			s.Failures = 1000
			return s
		})
		done <- err
	}()
	<-locked
	deadline := time.Now().Add(30 * time.Second)
	for {
		got, err := other.ChangeGate(t.Context(), endpoint, func(s gate.State) gate.State {
			s.Failures++
			return s
		})
		if err == nil {
			if got.Failures != 1 {
				t.Errorf("the gate after the stopped change: %+v", got)
			}
			break
		}
		if !errors.Is(err, store.ErrLocked) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := <-done; err == nil {
			t.Error("the stopped change was stored")
		}
	})
}
