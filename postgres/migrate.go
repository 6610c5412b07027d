package postgres

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

//go:embed migrations/0001_initial.sql
var initialMigration string

const initialName = "0001_initial"

// migrationLock is the key of the advisory lock under which the schema changes:
// the migration and the making of partitions. Any number does that no other
// program on the same database uses.
const migrationLock = 0x706f737468617374 // "posthast"

// madeAhead is how far ahead a migration makes partitions.
const madeAhead = 48 * time.Hour

// SchemaSQL returns the SQL that [DB.Migrate] runs on an empty database.
func (db *DB) SchemaSQL() string { return initialMigration }

// Migrate makes the schema, unless it is there. Replicas that start at the same
// time wait for each other. It returns an error that wraps
// store.ErrForeignSchema if the database holds another schema.
func (db *DB) Migrate(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, db.direct.config)
	if err != nil {
		return fail("connect to migrate the database", orPooler(err))
	}
	defer hangUp(ctx, conn)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return migrate(ctx, tx) })
	if err != nil {
		return fail("migrate the database", err)
	}
	now := time.Now()
	return db.MakePartitions(ctx, now, now.Add(madeAhead))
}

const (
	// Not our lock_timeout: another replica may be busy with the same for a while.
	migrationLockSQL = `select set_config('lock_timeout', '0', true), pg_advisory_xact_lock($1)`
	schemaExistsSQL  = `select exists (select from pg_tables where schemaname = current_schema() and tablename = 'posthaste_schema')`
	schemaSumSQL     = `select sha256 from posthaste_schema where name = $1`
	schemaTableSQL   = `create table posthaste_schema (name text primary key, sha256 bytea not null, applied_at timestamptz not null)`
	schemaAppliedSQL = `insert into posthaste_schema (name, sha256, applied_at) values ($1, $2, clock_timestamp())`
)

func migrate(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, migrationLockSQL, int64(migrationLock)); err != nil {
		return err
	}
	var exists bool
	if err := tx.QueryRow(ctx, schemaExistsSQL).Scan(&exists); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(initialMigration))
	if exists {
		return checkSchema(ctx, tx, sum)
	}
	// Several statements in one string: the simple protocol.
	if _, err := tx.Conn().PgConn().Exec(ctx, initialMigration).ReadAll(); err != nil {
		if hasState(err, stateDuplicateTable) {
			return foreignSchema(fmt.Sprintf("it has tables of another program (%v)", err))
		}
		return err
	}
	if _, err := tx.Exec(ctx, schemaTableSQL); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, schemaAppliedSQL, initialName, sum[:])
	return err
}

func checkSchema(ctx context.Context, tx pgx.Tx, want [sha256.Size]byte) error {
	var have []byte
	err := tx.QueryRow(ctx, schemaSumSQL, initialName).Scan(&have)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return foreignSchema("it was made without " + initialName)
	case err != nil:
		return err
	case string(have) != string(want[:]):
		return foreignSchema(fmt.Sprintf("it was made by a %s whose SHA-256 begins with %.4x, this program's begins with %.4x", initialName, have, want))
	}
	return nil
}

func foreignSchema(why string) error {
	return &posthaste.Error{
		Code:    posthaste.CodeInternal,
		Message: why,
		Hint:    "use the program that made this database, or give Posthaste an empty database of its own",
		Err:     store.ErrForeignSchema,
	}
}
