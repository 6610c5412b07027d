package postgres

import (
	"context"
	"embed"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/migration"
	"github.com/posthaste-dev/posthaste/internal/pgconnect"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = migration.Read(migrationFiles)

// migrationLock is the key of the advisory lock under which the schema changes:
// migrations and the making of partitions. Any number does that no other
// program on the same database uses.
const migrationLock = 0x706f737468617374 // "posthast"

// migrateTimeout bounds a migration whose context has no deadline: it may have
// to rewrite a large table.
const migrateTimeout = 10 * time.Minute

// madeAhead is how far ahead a migration makes partitions.
const madeAhead = 48 * time.Hour

// SchemaSQL returns the SQL that [DB.Migrate] runs on an empty database.
func (db *DB) SchemaSQL() string {
	return migration.SQL(migrations, func(m migration.Migration) string {
		return fmt.Sprintf("%s;\ninsert into posthaste_schema (name, sha256, applied_at) values ('%s', '\\x%s', clock_timestamp());\n",
			schemaTableSQL, m.Name, m.Sum())
	})
}

const (
	// The session's limits are for statements of a running engine. Another replica
	// may be migrating for minutes, and a migration may take as long itself.
	migrationLockSQL = `select set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true), pg_advisory_xact_lock($1)`
	schemaExistsSQL  = `select exists (select from pg_tables where schemaname = current_schema() and tablename = $1)`
	schemaTableSQL   = `create table if not exists posthaste_schema (name text primary key, sha256 bytea not null, applied_at timestamptz not null)`
	schemaAppliedSQL = `select name, sha256 from posthaste_schema order by name`
	addAppliedSQL    = `insert into posthaste_schema (name, sha256, applied_at) values ($1, $2, clock_timestamp())`

	// A living replica holds the lock on its name: see direct.go.
	replicasAliveSQL = `select name from replicas
where not pg_try_advisory_xact_lock(hashtextextended(format('posthaste replica %s %s', current_schema(), name), 0)) order by 1`
)

// Migrate brings the database to this program's schema: it runs the migrations
// that the database lacks, each in a transaction. Replicas that start at the same
// time wait for each other. It fails with store.ErrForeignSchema, and a hint, where
// another program or a newer version made the tables, or where a migration must
// not run while older replicas are alive.
func (db *DB) Migrate(ctx context.Context) error {
	err := db.onOwnConnection(ctx, "migrate the database", func(ctx context.Context, conn *pgx.Conn) error {
		for more := true; more; {
			err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
				more, err = migrateOnce(ctx, tx)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	now := time.Now()
	return db.MakePartitions(ctx, now, now.Add(madeAhead))
}

// CheckSchema fails with store.ErrForeignSchema, and a hint, unless the database
// has this program's schema. It changes nothing.
func (db *DB) CheckSchema(ctx context.Context) error {
	return db.onOwnConnection(ctx, "check the schema", func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			pending, err := pendingMigrations(ctx, tx)
			if err == nil && len(pending) > 0 {
				err = migration.Needed(pending)
			}
			return err
		})
	})
}

func (db *DB) onOwnConnection(ctx context.Context, doing string, f func(context.Context, *pgx.Conn) error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, migrateTimeout)
		defer cancel()
	}
	connect, cancel := context.WithTimeout(ctx, callTimeout)
	conn, err := pgx.ConnectConfig(connect, db.direct.config)
	cancel()
	if err != nil {
		return fail("connect to "+doing, orPooler(pgconnect.Explain(err)))
	}
	defer hangUp(ctx, conn)
	if err := f(ctx, conn); err != nil {
		return fail(doing, err)
	}
	return nil
}

// migrateOnce runs the first migration that the database lacks, under the lock,
// and reports whether more are left.
func migrateOnce(ctx context.Context, tx pgx.Tx) (more bool, err error) {
	if _, err := tx.Exec(ctx, migrationLockSQL, int64(migrationLock)); err != nil {
		return false, err
	}
	pending, err := pendingMigrations(ctx, tx)
	if err != nil || len(pending) == 0 {
		return false, err
	}
	next := pending[0]
	if next.Exclusive && len(pending) < len(migrations) {
		if err := refuseWhileAlive(ctx, tx, next); err != nil {
			return false, err
		}
	}
	// Several statements in one string: the simple protocol.
	if _, err := tx.Conn().PgConn().Exec(ctx, next.SQL).ReadAll(); err != nil {
		if hasState(err, stateDuplicateTable) && len(pending) == len(migrations) {
			return false, migration.NotRecorded(err.Error())
		}
		return false, fmt.Errorf("%s: %w", next.Name, err)
	}
	if _, err := tx.Exec(ctx, schemaTableSQL); err != nil {
		return false, err
	}
	sum, err := hex.DecodeString(next.Sum())
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, addAppliedSQL, next.Name, sum)
	return len(pending) > 1, err
}

// pendingMigrations returns the migrations that the database lacks.
func pendingMigrations(ctx context.Context, tx pgx.Tx) ([]migration.Migration, error) {
	recorded, err := tableExists(ctx, tx, "posthaste_schema")
	if err != nil {
		return nil, err
	}
	if !recorded {
		foreign, err := tableExists(ctx, tx, "events")
		if err == nil && foreign {
			err = migration.NotRecorded("events")
		}
		return migrations, err
	}
	rows, err := tx.Query(ctx, schemaAppliedSQL)
	if err != nil {
		return nil, err
	}
	applied, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a migration.Applied, err error) {
		var sum []byte
		err = row.Scan(&a.Name, &sum)
		a.Sum = hex.EncodeToString(sum)
		return a, err
	})
	if err != nil {
		return nil, err
	}
	return migration.Pending(migrations, applied)
}

func tableExists(ctx context.Context, tx pgx.Tx, name string) (exists bool, err error) {
	err = tx.QueryRow(ctx, schemaExistsSQL, name).Scan(&exists)
	return exists, err
}

func refuseWhileAlive(ctx context.Context, tx pgx.Tx, m migration.Migration) error {
	rows, err := tx.Query(ctx, replicasAliveSQL)
	if err != nil {
		return err
	}
	alive, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(alive) > 0 {
		err = migration.ReplicasAlive(m, alive)
	}
	return err
}
