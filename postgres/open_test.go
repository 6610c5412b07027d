package postgres

import (
	"testing"

	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// open returns a migrated database of the test's own, and its URL.
func open(tb testing.TB) (*DB, string) {
	tb.Helper()
	url := testdb.Postgres(tb)
	db, err := Open(tb.Context(), Config{URL: url})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := db.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return db, url
}
