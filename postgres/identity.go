package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// registration is what a handle knows of its last Register.
type registration struct {
	epoch    store.Epoch
	name     string
	identity *string // of the database then; nil: the server does not tell
}

// identityOf is an expression that names the database behind a session: the
// cluster, its timeline, and the database in it. A promoted standby and a
// cluster recovered to a point in time have a new timeline, a restored dump is in
// another cluster or has another oid.
const identityOf = `
	(select system_identifier from pg_control_system()) || '/' ||
	left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || '/' ||
	(select oid from pg_database where datname = current_database())`

const identitySQL = `select ` + identityOf

// identity returns what identityOf says, or nil where the server refuses to tell:
// some hosted services keep these functions to themselves. A replica then notices
// that the database went back only by the row of its epoch.
func identity(ctx context.Context, conn *pgx.Conn) (*string, error) {
	var name *string
	err := conn.QueryRow(ctx, identitySQL).Scan(&name)
	if answer, refused := errors.AsType[*pgconn.PgError](err); refused && !isUnavailable(answer) {
		return nil, nil
	}
	return name, err
}

// Why a beat found no row to renew: $1 is the epoch, $2 the identity at the registration.
const (
	epochExistsSQL = `select exists (select from replicas where epoch = $1)`
	rewoundSQL     = epochExistsSQL + ` or (` + identityOf + `) <> $2`
)

// whyNotBeaten returns store.ErrFenced where the row of the epoch is gone, and
// store.ErrRewound where it is not, or where the database is another one.
func (db *DB) whyNotBeaten(ctx context.Context, epoch store.Epoch, identity *string) error {
	sql, args := epochExistsSQL, []any{int32(epoch)}
	if identity != nil {
		sql, args = rewoundSQL, append(args, *identity)
	}
	var rewound bool
	if err := db.vital.QueryRow(ctx, sql, args...).Scan(&rewound); err != nil {
		return err
	}
	if rewound {
		return store.ErrRewound
	}
	return store.ErrFenced
}

// registered returns what is known of an epoch that this handle registered, and
// nothing of another one.
func (db *DB) registered(epoch store.Epoch) (name, identity *string) {
	if r := db.me.Load(); r != nil && r.epoch == epoch {
		return &r.name, r.identity
	}
	return nil, nil
}
