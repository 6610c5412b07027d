package sqlite

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste/internal/migration"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = migration.Read(migrationFiles)

// migrateTimeout bounds a migration whose context has no deadline: it may have
// to rewrite a large table.
const migrateTimeout = 10 * time.Minute

const (
	sqlMigrations = `CREATE TABLE IF NOT EXISTS migrations (
  name       TEXT    NOT NULL PRIMARY KEY,
  sha256     TEXT    NOT NULL,
  applied_at INTEGER NOT NULL
) WITHOUT ROWID`
	sqlFindTable    = `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1`
	sqlApplied      = `SELECT name, sha256 FROM migrations ORDER BY name`
	sqlAddMigration = `INSERT INTO migrations (name, sha256, applied_at) VALUES (?1, ?2, ?3)`
)

// SchemaSQL returns the statements that Migrate runs on a new database.
func (db *DB) SchemaSQL() string {
	return migration.SQL(migrations, func(m migration.Migration) string {
		return fmt.Sprintf("%s;\nINSERT INTO migrations (name, sha256, applied_at) VALUES ('%s', '%s', 1000000 * unixepoch());\n", sqlMigrations, m.Name, m.Sum())
	})
}

// Migrate brings the database to this program's schema: it runs the migrations
// that the database lacks, each in a transaction. It fails with
// store.ErrForeignSchema, and a hint, where another program or a newer version
// made the tables.
func (db *DB) Migrate(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, migrateTimeout)
		defer cancel()
	}
	for {
		pending, err := db.pendingMigrations(ctx)
		if err != nil || len(pending) == 0 {
			return err
		}
		if err := db.write(ctx, "run migration "+pending[0].Name, runMigration); err != nil {
			return err
		}
	}
}

// CheckSchema fails with store.ErrForeignSchema, and a hint, unless the database
// has this program's schema. It changes nothing.
func (db *DB) CheckSchema(ctx context.Context) error {
	pending, err := db.pendingMigrations(ctx)
	if err == nil && len(pending) > 0 {
		err = failed("check the schema", migration.Needed(pending))
	}
	return err
}

func (db *DB) pendingMigrations(ctx context.Context) (pending []migration.Migration, err error) {
	err = db.read(ctx, "read the schema's version", func(c *conn) (err error) {
		pending, err = pendingOf(c)
		return err
	})
	return pending, err
}

func pendingOf(c *conn) ([]migration.Migration, error) {
	recorded, err := c.get(sqlFindTable, func(row) {}, "migrations")
	if err != nil {
		return nil, err
	}
	if !recorded {
		foreign, err := c.get(sqlFindTable, func(row) {}, "events")
		if err == nil && foreign {
			err = migration.NotRecorded("events")
		}
		return migrations, err
	}
	var applied []migration.Applied
	for r, err := range c.rows(sqlApplied) {
		if err != nil {
			return nil, err
		}
		applied = append(applied, migration.Applied{Name: r.ColumnText(0), Sum: r.ColumnText(1)})
	}
	return migration.Pending(migrations, applied)
}

// runMigration runs the first migration that the database lacks, if any is left:
// the lock file keeps other processes out, not other goroutines of this one.
func runMigration(c *conn) error {
	pending, err := pendingOf(c)
	if err != nil || len(pending) == 0 {
		return err
	}
	if _, err := c.exec(sqlMigrations); err != nil {
		return err
	}
	c.wrote = true
	if err := runScript(c, pending[0].SQL); err != nil {
		return err
	}
	_, err = c.exec(sqlAddMigration, pending[0].Name, pending[0].Sum(), time.Now())
	return err
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
