package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/internal/testdb/cluster"
)

// hostile are defaults of a database that must not matter to us: another time
// zone than UTC, commits that don't wait for the disk, another isolation, other
// formats. Every test of the package runs on them, the conformance suite too.
const hostile = `
do $$ declare s text; begin
	foreach s in array array['timezone to ''Asia/Kolkata''', 'datestyle to ''German, DMY''', 'bytea_output to ''escape''',
		'synchronous_commit to off', 'default_transaction_isolation to ''serializable''',
		'plan_cache_mode to ''force_custom_plan''', 'extra_float_digits to 0', 'intervalstyle to ''sql_standard''']
	loop execute format('alter database %I set ' || s, current_database()); end loop;
end $$`

// open returns a migrated database of the test's own, and its URL.
func open(tb testing.TB) (*DB, string) {
	tb.Helper()
	url := testdb.Postgres(tb)
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := conn.Exec(tb.Context(), hostile); err != nil {
		tb.Fatal(err)
	}
	if err := conn.Close(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	db := connect(tb, url)
	if err := db.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return db, url
}

// connect opens a database and closes it after the test.
func connect(tb testing.TB, url string) *DB {
	tb.Helper()
	return connectWith(tb, Config{URL: url})
}

func connectWith(tb testing.TB, c Config) *DB {
	tb.Helper()
	db, err := Open(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

func exec(tb testing.TB, db *DB, sql string, args ...any) {
	tb.Helper()
	if _, err := db.side.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// TestSessionSettings looks at the settings that promises hang on, in a database
// whose own defaults break them.
func TestSessionSettings(t *testing.T) {
	db, _ := open(t)
	for name, want := range map[string]string{
		"synchronous_commit": "on", "default_transaction_isolation": "read committed", "plan_cache_mode": "force_generic_plan",
		"idle_in_transaction_session_timeout": "5s", "application_name": "posthaste",
	} {
		for _, pool := range db.all() {
			var got string
			if err := pool.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&got); err != nil || got != want {
				t.Errorf("%s = %q, want %q; %v", name, got, want, err)
			}
		}
	}
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func TestOpenRefusesTooFewConnections(t *testing.T) {
	if _, err := Open(t.Context(), Config{URL: "postgres://localhost/x", MaxConns: 3}); err == nil || !strings.Contains(err.Error(), "MaxConns") {
		t.Errorf("error %v, want one about MaxConns", err)
	}
}

func TestOpenWithoutServer(t *testing.T) {
	_, err := Open(t.Context(), Config{URL: "postgres://127.0.0.1:1/x?connect_timeout=1"})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error %v, want one of an unavailable database", err)
	}
}

// TestOutage stops the server under an open DB: every call says that it is
// unavailable, and after the start everything works again, without a new Open.
func TestOutage(t *testing.T) {
	server := testdb.NewCluster(t)
	db := connect(t, server.Postgres())
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := newWay(t, db, 4)
	w.batch(t)
	server.Stop(cluster.Immediate)
	calls := map[string]func() error{
		"ping": func() error { return db.Ping(t.Context()) },
		"beat": func() error { _, err := db.Beat(t.Context(), store.BeatParams{Epoch: w.epoch}); return err },
		"accept": func() error {
			_, err := db.Accept(t.Context(), store.AcceptParams{Epoch: w.epoch, Now: time.Now(), Routing: w.routing, Events: w.events(2)})
			return err
		},
		"settle": func() error {
			_, err := db.Settle(t.Context(), store.SettleParams{Settlements: []store.Settlement{{Attempt: &posthaste.Attempt{}}}})
			return err
		},
		"listen": func() error { return db.Listen(t.Context(), nil) },
		"tenant": func() error { _, err := db.Tenant(t.Context(), "default"); return err },
		"revoke": func() error { _, err := db.Revoke(t.Context(), store.RevokeParams{Epoch: w.epoch}); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s on a stopped server: error %v, want ErrUnavailable", name, err)
		}
	}
	server.Start()
	if _, err := db.Beat(t.Context(), store.BeatParams{Epoch: w.epoch}); err != nil {
		t.Errorf("beat after the start: %v", err)
	}
	w.batch(t)
}
