package sqlite

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

func TestMigrateIsIdempotent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "posthaste.db")
	db, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := db.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := db.CreateTenant(t.Context(), posthaste.Tenant{Name: "acme", CreatedAt: db.now()}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openTest(t, Config{Path: path})
	for _, name := range []string{posthaste.TenantDefault, posthaste.TenantOperator, "acme"} {
		if _, err := db.Tenant(t.Context(), name); err != nil {
			t.Errorf("after the second migration: %v", err)
		}
	}
}

func TestMigrateRefusesAForeignSchema(t *testing.T) {
	for name, query := range map[string]string{
		"another version": `UPDATE migrations SET sha256 = 'ab' || substr(sha256, 3)`,
		"a later version": `INSERT INTO migrations (name, sha256, applied_at) VALUES ('0002_more', 'abc', 1)`,
		"another program": `DROP TABLE migrations`,
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, Config{})
			change(t, db, query)
			err := db.Migrate(t.Context())
			if !errors.Is(err, store.ErrForeignSchema) || errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("migrate: %v", err)
			}
			if e, ok := errors.AsType[*posthaste.Error](err); !ok || e.Hint == "" {
				t.Errorf("the error has no hint: %v", err)
			}
		})
	}
}

func TestMigrateReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "posthaste.db")
	empty, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	beside, err := Open(t.Context(), Config{Path: path, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	if err := beside.Migrate(t.Context()); !errors.Is(err, errReadOnly) {
		t.Errorf("migrate an empty database, read-only: %v", err)
	}
	if err := empty.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := beside.Migrate(t.Context()); err != nil {
		t.Errorf("check a migrated database, read-only: %v", err)
	}
}
