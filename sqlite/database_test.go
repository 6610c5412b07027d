package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/posthaste-dev/posthaste"
)

// openTest opens a migrated database in a folder of its own.
func openTest(t testing.TB, cfg Config) *DB {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "posthaste.db")
	}
	db, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// change runs one statement behind the driver's back.
func change(t testing.TB, db *DB, query string, args ...any) {
	t.Helper()
	err := db.write(context.Background(), "change", func(c *conn) error {
		_, err := c.exec(query, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func countDue(t testing.TB, db *DB) map[posthaste.ID]int {
	t.Helper()
	out := map[posthaste.ID]int{}
	err := db.read(context.Background(), "count due rows", func(c *conn) error {
		for r, err := range c.rows(`SELECT delivery FROM due`) {
			if err != nil {
				return err
			}
			out[r.id(0)]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
