package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite" of database/sql
)

// schema runs on both databases, and so does every statement of this program:
// both know ON CONFLICT, RETURNING and $1.
//
//go:embed schema.sql
var schema string

// Store is the inbox's own database, beside the engine's.
type Store struct {
	read *sql.DB
	// write has one connection on SQLite, where there is one writer at a time: waiting
	// for the connection is fair, waiting for the lock of the file is not.
	write *sql.DB
}

// openStore opens a file of SQLite, or, where the address is one of PostgreSQL,
// the schema dm_inbox there, and makes the tables.
func openStore(ctx context.Context, address string) (*Store, error) {
	var s *Store
	var err error
	if isPostgres(address) {
		s, err = openPostgres(address)
	} else {
		s, err = openSQLite(address)
	}
	if err != nil {
		return nil, err
	}
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		if isPostgres(address) {
			// Replicas that start together would make the same table at once.
			if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(7465736)`); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS dm_inbox`); err != nil {
				return err
			}
		}
		for statement := range strings.SplitSeq(schema, ";\n") {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the tables: %w", err), s.Close())
	}
	return s, nil
}

func isPostgres(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

func openPostgres(address string) (*Store, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("read the database's address: %w", err)
	}
	config.RuntimeParams["search_path"] = "dm_inbox" // statements name tables as on SQLite
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(10)
	return &Store{read: db, write: db}, nil
}

func openSQLite(file string) (*Store, error) {
	// synchronous=FULL: the engine forgets an event once its handler has returned,
	// so what the handler wrote has to be on disk by then.
	address := "file:" + (&url.URL{Path: file}).EscapedPath() + "?_txlock=immediate&_pragma=journal_mode(WAL)" +
		"&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)"
	var s Store
	for db, connections := range map[**sql.DB]int{&s.write: 1, &s.read: 4} {
		opened, err := sql.Open("sqlite", address)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", file, err)
		}
		opened.SetMaxOpenConns(connections)
		opened.SetMaxIdleConns(connections)
		*db = opened
	}
	return &s, nil
}

// Close closes the database.
func (s *Store) Close() error {
	if s.read == s.write {
		return s.write.Close()
	}
	return errors.Join(s.write.Close(), s.read.Close())
}

// inTx commits what fn did, or nothing of it.
func (s *Store) inTx(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// changed runs a statement and reports whether it changed a row.
func changed(ctx context.Context, tx *sql.Tx, statement string, args ...any) (bool, error) {
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// newID returns a random id, such as lead_2xsq….
func newID(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()) }

// millis is a time as the tables have it: 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
