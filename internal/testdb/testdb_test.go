//go:build unix

package testdb

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-dev/posthaste/internal/testdb/cluster"
)

func TestPostgresGivesEachTestAnEmptyDatabaseAndDropsIt(t *testing.T) {
	var first, second string
	t.Run("made", func(t *testing.T) {
		first, second = Postgres(t), Postgres(t)
		if first == second {
			t.Fatalf("twice the same database: %s", first)
		}
		execute(t, first, "CREATE TABLE mark (n int)")
		execute(t, second, "CREATE TABLE mark (n int)") // would fail in a shared one
		// A session that is left open must not keep the database from being dropped.
		if _, err := pgx.Connect(t.Context(), second); err != nil {
			t.Fatal(err)
		}
	})
	for _, address := range []string{first, second} {
		_, err := pgx.Connect(t.Context(), address)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "3D000" { // invalid_catalog_name
			t.Errorf("connect after the test: %v, want SQLSTATE 3D000", err)
		}
	}
}

func TestPostgresFailsWithoutAServer(t *testing.T) {
	t.Setenv(PostgresEnv, "")
	rec := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // Fatalf must end the goroutine, as testing's own does
		defer close(done)
		Postgres(rec)
		t.Error("Postgres returned without a server")
	}()
	<-done
	if !strings.Contains(rec.fatal, "make test") {
		t.Errorf("failed with %q, want a hint at make test", rec.fatal)
	}
	if rec.Skipped() {
		t.Error("skipped, want failed")
	}
}

func TestSQLiteGivesFreshPaths(t *testing.T) {
	a, b := SQLite(t), SQLite(t)
	if a == b {
		t.Errorf("twice the same path: %s", a)
	}
	for _, path := range []string{a, b} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: %v, want a file that does not exist", path, err)
		}
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			t.Errorf("folder of %s: %v", path, err)
		}
	}
}

func TestClusterSurvivesStopAndKill(t *testing.T) {
	c := NewCluster(t)
	address := c.Postgres()
	execute(t, address, "CREATE TABLE mark (n int)")
	c.Stop(cluster.Fast)
	if conn, err := pgx.Connect(t.Context(), address); err == nil {
		_ = conn.Close(t.Context())
		t.Error("connected to a stopped server")
	}
	c.Start()
	execute(t, address, "INSERT INTO mark VALUES (1)")
	c.Kill()
	c.Start()
	execute(t, address, "DELETE FROM mark")
}

// recorder keeps the message of a fatal failure instead of failing the test.
type recorder struct {
	testing.TB
	fatal string
}

func (r *recorder) Fatalf(format string, _ ...any) {
	r.fatal = format
	runtime.Goexit()
}

func execute(t *testing.T, address, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
