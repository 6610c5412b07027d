package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// A mark is not raised over the ids of an accept that is under way: the accept commits,
// and is seen.
func TestRaisingTheLowWaterMarkWaitsForAccepts(t *testing.T) {
	db, _ := open(t)
	w := registerBusy(t, db)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), claimFenceSQL, int32(w.epoch), int64(time.Hour/time.Microsecond)); err != nil {
		t.Fatal(err)
	}
	p := store.RaiseLowWaterParams{Epoch: w.epoch, To: posthaste.FloorID(time.Now().Add(time.Minute))}
	err = db.RaiseLowWater(t.Context(), p, func([]store.Lease) bool {
		t.Error("asked while an accept is under way")
		return false
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v, want it to have waited in vain", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked := false
	if err := db.RaiseLowWater(t.Context(), p, func([]store.Lease) bool { asked = true; return false }); err != nil || !asked {
		t.Errorf("after the accept: asked %v, %v", asked, err)
	}
}

func TestABeatNoticesAnotherDatabase(t *testing.T) {
	db, _ := open(t)
	w := registerBusy(t, db)
	beat := func() error {
		_, err := db.Beat(t.Context(), store.BeatParams{Epoch: w.epoch})
		return err
	}
	if err := beat(); err != nil {
		t.Fatal(err)
	}
	was := *db.me.Load()
	if was.identity == nil {
		t.Fatal("the server does not tell its identity")
	}
	other := was
	other.identity = new(string)
	*other.identity = "another/one/1"
	db.me.Store(&other)
	if err := beat(); !errors.Is(err, store.ErrRewound) {
		t.Errorf("another server: %v", err)
	}
	unknown := was
	unknown.identity = nil
	db.me.Store(&unknown)
	if err := beat(); err != nil {
		t.Errorf("a server that does not tell: %v", err)
	}
	db.me.Store(&was)
	exec(t, db, "update replicas set name = 'somebody else'") // who got our epoch from a restored backup
	if err := beat(); !errors.Is(err, store.ErrRewound) {
		t.Errorf("another one's row: %v", err)
	}
}

// Any role may ask for the identity.
func TestIdentityNeedsNoRights(t *testing.T) {
	db, _ := open(t)
	conn := session(t, db)
	if _, err := conn.Exec(t.Context(), "create role posthaste_plain_role"); err != nil && !hasState(err, "42710") {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "set role posthaste_plain_role"); err != nil {
		t.Fatal(err)
	}
	var name string
	if err := conn.QueryRow(t.Context(), identitySQL, pgx.QueryExecModeSimpleProtocol).Scan(&name); err != nil || name == "" {
		t.Errorf("%q, %v", name, err)
	}
}

func TestEpochsFollowTheClock(t *testing.T) {
	db, _ := open(t)
	w := registerBusy(t, db)
	exec(t, db, "select setval(pg_get_serial_sequence('replicas', 'epoch'), 1)") // of a backup
	got, err := db.Register(t.Context(), store.RegisterParams{Name: named.Name, Last: w.epoch})
	if err != nil || !got.Rewound || got.Epoch <= w.epoch {
		t.Errorf("%+v, %v after epoch %d: want a higher one, and to be told", got, err, w.epoch)
	}
}
