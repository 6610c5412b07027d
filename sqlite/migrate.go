package sqlite

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

//go:embed migrations/0001_initial.sql
var schemaSQL string

const schemaName = "0001_initial"

// SchemaSQL returns the statements that Migrate runs on a new database.
func (db *DB) SchemaSQL() string { return schemaSQL }

const (
	sqlMigrations = `CREATE TABLE IF NOT EXISTS migrations (
  name       TEXT    NOT NULL PRIMARY KEY,
  sha256     TEXT    NOT NULL,
  applied_at INTEGER NOT NULL
) WITHOUT ROWID`
	sqlFindTable     = `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1`
	sqlFindMigration = `SELECT name, sha256 FROM migrations ORDER BY name DESC LIMIT 1`
	sqlAddMigration  = `INSERT INTO migrations (name, sha256, applied_at) VALUES (?1, ?2, ?3)`
)

// Migrate makes the tables of a new database, and does nothing where they
// exist. It fails with store.ErrForeignSchema, and a hint, where the tables
// were made by another version of this program or by another program. On a
// database opened read-only it only checks.
func (db *DB) Migrate(ctx context.Context) error {
	sum := sha256.Sum256([]byte(schemaSQL))
	want := hex.EncodeToString(sum[:])
	var fresh bool
	err := db.read(ctx, "migrate", func(c *conn) (err error) {
		fresh, err = checkSchema(c, want)
		return err
	})
	if err != nil || !fresh {
		return err
	}
	return db.write(ctx, "migrate", func(c *conn) error {
		// The lock file keeps other processes out, not other goroutines.
		if fresh, err := checkSchema(c, want); err != nil || !fresh {
			return err
		}
		if _, err := c.exec(sqlMigrations); err != nil {
			return err
		}
		c.wrote = true
		if err := runScript(c, schemaSQL); err != nil {
			return err
		}
		_, err := c.exec(sqlAddMigration, schemaName, want, db.now())
		return err
	})
}

// checkSchema reports whether the database has no tables of ours yet.
func checkSchema(c *conn, want string) (fresh bool, err error) {
	migrated, err := c.get(sqlFindTable, func(row) {}, "migrations")
	if err != nil {
		return false, err
	}
	if !migrated {
		// Tables of that name without a record of ours: somebody else's database.
		foreign, err := c.get(sqlFindTable, func(row) {}, "events")
		if err == nil && foreign {
			err = foreignSchema("it holds tables of another program", "give a path of its own")
		}
		return !foreign, err
	}
	var name, sum string
	if _, err := c.get(sqlFindMigration, func(r row) { name, sum = r.ColumnText(0), r.ColumnText(1) }); err != nil {
		return false, err
	}
	if name != schemaName || sum != want {
		return false, foreignSchema(
			fmt.Sprintf("it is at %q (%.12s), this program makes %q (%.12s)", name, sum, schemaName, want),
			"run the version of posthaste that made it, or start with a new file")
	}
	return false, nil
}

func foreignSchema(message, hint string) error {
	return &posthaste.Error{Code: posthaste.CodeConflict, Message: message, Hint: hint, Err: store.ErrForeignSchema}
}

// runScript runs statements one after another, in the transaction of the caller.
func runScript(c *conn, script string) error {
	for strings.TrimSpace(script) != "" {
		s, left, err := c.PrepareTransient(script)
		if err != nil {
			return err
		}
		script = script[len(script)-left:]
		if s.ColumnCount() == 0 && s.BindParamCount() == 0 {
			_, err = s.Step()
		}
		if ferr := s.Finalize(); err == nil {
			err = ferr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
