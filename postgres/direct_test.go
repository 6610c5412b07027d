package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var named = store.RegisterParams{Name: "host:8700"}

// register registers a replica under the name and gives it a lease.
func registerBusy(t *testing.T, db *DB) *way {
	t.Helper()
	w := newWay(t, db, 1)
	reg, err := db.Register(t.Context(), named)
	if err != nil {
		t.Fatal(err)
	}
	w.epoch, w.beatAt = reg.Epoch, time.Now()
	if _, err := db.Accept(t.Context(), store.AcceptParams{Epoch: w.epoch, Now: time.Now(), Routing: w.routing, Events: w.events(1)}); err != nil {
		t.Fatal(err)
	}
	return w
}

// cut ends the session of a handle's direct connection, as a network that breaks does.
func cut(t *testing.T, db *DB, witness *DB) {
	t.Helper()
	exec(t, witness, "select pg_terminate_backend($1)", directPID(t, db))
}

func directPID(t *testing.T, db *DB) (pid int32) {
	t.Helper()
	if err := db.direct.use(func() error { pid = db.direct.self.pid; return nil }); err != nil || pid == 0 {
		t.Fatalf("direct connection: pid %d, %v", pid, err)
	}
	return pid
}

// listening starts Listen and returns when it has begun, with what it hears and
// what it returns.
func listening(t *testing.T, db *DB) (heard <-chan []store.EndpointNo, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	words, done := make(chan []store.EndpointNo, 100), make(chan error, 1)
	go func() { done <- db.Listen(ctx, func(e []store.EndpointNo) { words <- e }) }()
	select {
	case first := <-words:
		if len(first) != 0 {
			t.Fatalf("the first call names %v", first)
		}
	case err := <-done:
		t.Fatalf("listen: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("listen does not begin")
	}
	return words, done
}

func wantConflict(t *testing.T, err error) {
	t.Helper()
	if e, ok := errors.AsType[*posthaste.Error](err); !errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnavailable) || !ok || e.Hint == "" {
		t.Errorf("error %v, want a conflict with a hint", err)
	}
}

func TestNameIsTakenOverWhenItsSessionIsCut(t *testing.T) {
	first, url := open(t)
	w := registerBusy(t, first)
	second := connect(t, url)
	_, err := second.Register(t.Context(), named)
	wantConflict(t, err)

	cut(t, first, second)
	began := time.Now()
	got, err := second.Register(t.Context(), named)
	if err != nil || got.Reclaimed != 1 || len(got.Endpoints) != 1 || got.Endpoints[0] != w.endpoint.No {
		t.Fatalf("after the cut: %+v, %v; want one reclaimed of endpoint %d", got, err, w.endpoint.No)
	}
	t.Logf("taken over %v after the cut", time.Since(began).Round(time.Millisecond))
	var outcome int
	if err := second.side.QueryRow(t.Context(), "select outcome from attempts where number = 1").Scan(&outcome); err != nil || outcome != int(posthaste.OutcomeLost) {
		t.Errorf("attempt 1 is recorded with outcome %d, %v; want lost", outcome, err)
	}

	// The first one lives after all: it is fenced, and doesn't get its name back.
	if _, err := first.Beat(t.Context(), store.BeatParams{Epoch: w.epoch}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("beat of the one that was cut: %v, want it fenced", err)
	}
	for range 2 { // the first call may only find out that its connection is gone
		if _, err = first.Register(t.Context(), named); !errors.Is(err, store.ErrUnavailable) {
			break
		}
	}
	wantConflict(t, err)
	if _, err := second.Beat(t.Context(), store.BeatParams{Epoch: got.Epoch}); err != nil {
		t.Errorf("beat of its successor: %v", err)
	}
}

func TestNameIsHeldAgainAfterACut(t *testing.T) {
	first, url := open(t)
	w := registerBusy(t, first)
	second := connect(t, url)
	_, ended := listening(t, first)
	cut(t, first, second)
	if err := <-ended; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("listen after the cut: %v, want it unavailable", err)
	}
	heard, _ := listening(t, first)
	_, err := second.Register(t.Context(), named)
	wantConflict(t, err)
	if _, err := first.Beat(t.Context(), store.BeatParams{Epoch: w.epoch}); err != nil {
		t.Errorf("beat after the cut: %v", err)
	}
	if err := second.Wake(t.Context(), []store.EndpointNo{7}); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; len(got) != 1 || got[0] != 7 {
		t.Errorf("heard %v, want endpoint 7", got)
	}
}

// Listen returns with a conflict when another replica has the name by then: the
// engine looks around at once, and finds itself fenced.
func TestListenAfterTheNameIsLost(t *testing.T) {
	first, url := open(t)
	registerBusy(t, first)
	second := connect(t, url)
	cut(t, first, second)
	if _, err := second.Register(t.Context(), named); err != nil {
		t.Fatal(err)
	}
	err := first.Listen(t.Context(), func([]store.EndpointNo) { t.Error("it listens without its name") })
	if errors.Is(err, store.ErrUnavailable) { // it has only found out that its connection is gone
		err = first.Listen(t.Context(), func([]store.EndpointNo) { t.Error("it listens without its name") })
	}
	wantConflict(t, err)
}

// A connection that broke without the server's knowledge leaves a session behind
// which still holds the lock. It is ours, and must not keep us out.
func TestOwnForgottenSessionIsEnded(t *testing.T) {
	db, _ := open(t)
	registerBusy(t, db)
	old := directPID(t, db)
	db.direct.turn.Lock()
	forgotten := db.direct.conn
	db.direct.conn = nil
	db.direct.turn.Unlock()
	defer hangUp(t.Context(), forgotten)
	began := time.Now()
	got, err := db.Register(t.Context(), named)
	if err != nil || got.Reclaimed != 1 {
		t.Fatalf("register with a forgotten session: %+v, %v", got, err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
	var n int
	if err := db.side.QueryRow(t.Context(), "select count(*) from pg_stat_activity where pid = $1", old).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d sessions with the old pid, %v", n, err)
	}
}

// TestRegisterWhileListening: the two share a connection.
func TestRegisterWhileListening(t *testing.T) {
	db, url := open(t)
	other := connect(t, url)
	_, ended := listening(t, db) // before there is a name
	if _, err := db.Register(t.Context(), named); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, store.ErrUnavailable) { // the name made another session of it
		t.Errorf("listen ended with %v", err)
	}
	heard, ended := listening(t, db)
	for i := range store.EndpointNo(20) {
		if _, err := db.Register(t.Context(), named); err != nil {
			t.Fatal(err)
		}
		if err := other.Wake(t.Context(), []store.EndpointNo{i}); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-heard:
			if len(got) != 1 || got[0] != i {
				t.Fatalf("heard %v, want %d", got, i)
			}
		case err := <-ended:
			t.Fatalf("listen ended: %v", err)
		}
	}
	if err := db.Listen(t.Context(), nil); !errors.Is(err, errListening) {
		t.Errorf("a second listen: %v", err)
	}
}

// TestNamesOfSchemas: two installations in one database have names of their own.
func TestNamesOfSchemas(t *testing.T) {
	db, url := open(t)
	exec(t, db, "create schema elsewhere")
	other := connect(t, url+"&search_path=elsewhere")
	if err := other.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, db := range []*DB{db, other} {
		if _, err := db.Register(t.Context(), named); err != nil {
			t.Error(err)
		}
	}
}
