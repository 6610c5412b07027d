package relay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/outbox"
)

// sqliteBox is an outbox in the file of an application's SQLite database. Nobody there can
// be told to wake a relay, so it looks at the file's time and size, which leaves the
// database itself alone. Rows are read without a lock: should two relays read the same
// ones, the rows' ids keep their events from being accepted twice.
type sqliteBox struct {
	path  string
	store acceptFunc

	conn *sqlite.Conn // nil: not connected
	seen fileState    // before the last claim
}

const (
	busyTimeout  = 5 * time.Second       // as long as an application's own write may take
	statEvery    = 50 * time.Millisecond // between looks at the file
	coarsestTick = time.Second           // of a file system's clock
)

// fileState changes with every commit, at the latest with one that comes a tick of the
// file system's clock later.
type fileState struct {
	size, walSize int64
	at, walAt     time.Time
}

func (b *sqliteBox) state() (s fileState) {
	if info, err := os.Stat(b.path); err == nil {
		s.size, s.at = info.Size(), info.ModTime()
	}
	if info, err := os.Stat(b.path + "-wal"); err == nil {
		s.walSize, s.walAt = info.Size(), info.ModTime()
	}
	return s
}

func (b *sqliteBox) connect(ctx context.Context) error {
	b.close(ctx)
	conn, err := openSQLite(b.path)
	if err != nil {
		return err
	}
	var version int
	if err := sqlitex.Execute(conn, `SELECT max(version) FROM posthaste_outbox_schema`, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			version = s.ColumnInt(0)
			return nil
		},
	}); err != nil {
		_ = conn.Close()
		return noTables(err)
	}
	if version != outbox.SchemaVersion {
		_ = conn.Close()
		return wrongVersion(version)
	}
	b.conn = conn
	return nil
}

// noTables explains an error of a statement on a file without an outbox. Others stay.
func noTables(err error) error {
	switch {
	case err == nil:
		return nil
	case sqlite.ErrCode(err).ToPrimary() == sqlite.ResultNotADB:
		return &posthaste.Error{
			Code: posthaste.CodeUnavailable, Message: "the outbox's file is not an SQLite database", Hint: "give the path of the application's SQLite file",
		}
	case strings.Contains(err.Error(), "no such table: posthaste_outbox"):
		return &posthaste.Error{
			Code: posthaste.CodeUnavailable, Message: "the database has no outbox", Hint: `run "posthaste outbox install --database FILE"`,
		}
	}
	return err
}

// CreateSQLite makes an empty SQLite database, unless the file exists. It does nothing
// for a postgres:// URL.
func CreateSQLite(database string) error {
	if isPostgres(database) {
		return nil
	}
	f, err := os.OpenFile(database, os.O_RDWR|os.O_CREATE, 0o600) // an empty file is an empty database
	if err != nil {
		return fmt.Errorf("create the application's database: %w", err)
	}
	return f.Close()
}

func openSQLite(path string) (*sqlite.Conn, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, &posthaste.Error{
			Code: posthaste.CodeUnavailable, Message: "there is no file " + path,
			Hint: `give the path of the application's SQLite file; "posthaste outbox install --create" makes a new one`,
		}
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, fmt.Errorf("open the outbox's database %s: %w", path, err)
	}
	conn.SetBusyTimeout(busyTimeout)
	return conn, nil
}

const (
	sqliteColumns = `id, row_id, enqueued_at, tenant, type, coalesce(order_key, ''), coalesce(idempotency_key, ''), content_type, headers, payload`
	sqliteClaim   = `SELECT ` + sqliteColumns + ` FROM posthaste_outbox o
WHERE (order_key IS NULL OR NOT EXISTS (SELECT 1 FROM posthaste_outbox_parked p WHERE p.order_key = o.order_key))
ORDER BY id LIMIT ?1`
	sqliteDelete = `DELETE FROM posthaste_outbox WHERE id = ?1`
	sqlitePark   = `INSERT INTO posthaste_outbox_parked (id, row_id, enqueued_at, tenant, type, order_key, idempotency_key, content_type, headers, payload, code, reason)
SELECT id, row_id, enqueued_at, tenant, type, order_key, idempotency_key, content_type, headers, payload, ?2, ?3 FROM posthaste_outbox WHERE id = ?1`
)

// sqliteRows are rows that were read.
type sqliteRows struct {
	box   *sqliteBox
	found []row
}

func (b *sqliteBox) claim(ctx context.Context, p claimParams) (claim, error) {
	b.seen = b.state()
	c := &sqliteRows{box: b}
	size := int64(0)
	defer b.interruptible(ctx)()
	stmt, err := b.conn.Prepare(sqliteClaim)
	if err != nil {
		return nil, fmt.Errorf("claim rows: %w", err)
	}
	defer func() { _ = stmt.Reset() }()
	stmt.BindInt64(1, int64(p.rows+len(p.skip)))
	for size < p.bytes {
		more, err := stmt.Step()
		if err != nil {
			return nil, fmt.Errorf("claim rows: %w", err)
		}
		if !more {
			break
		}
		if slices.Contains(p.skip, stmt.ColumnInt64(0)) {
			continue
		}
		c.found = append(c.found, readSQLite(stmt))
		size += int64(stmt.ColumnLen(9))
	}
	return c, nil
}

func readSQLite(stmt *sqlite.Stmt) row {
	r := row{
		id: stmt.ColumnInt64(0), enqueuedAt: time.UnixMicro(stmt.ColumnInt64(2)), tenant: stmt.ColumnText(3), eventType: stmt.ColumnText(4),
		orderKey: stmt.ColumnText(5), idempotencyKey: stmt.ColumnText(6), contentType: stmt.ColumnText(7),
		headers: bytesOf(stmt, 8), payload: bytesOf(stmt, 9),
	}
	stmt.ColumnBytes(1, r.rowID[:])
	return r
}

func bytesOf(stmt *sqlite.Stmt, col int) []byte {
	out := make([]byte, stmt.ColumnLen(col))
	stmt.ColumnBytes(col, out)
	return out
}

// interruptible ends statements with ctx, until the function that it returns is called.
func (b *sqliteBox) interruptible(ctx context.Context) func() {
	before := b.conn.SetInterrupt(ctx.Done())
	return func() { b.conn.SetInterrupt(before) }
}

func (c *sqliteRows) rows() []row { return c.found }

func (c *sqliteRows) isJoint() bool { return false }

func (c *sqliteRows) accept(ctx context.Context, p store.AcceptParams) (store.Accepted, error) {
	return c.box.store(ctx, p)
}

func (c *sqliteRows) finish(ctx context.Context, done []int64, parked []verdict) error {
	defer c.box.interruptible(ctx)()
	return inSQLite(c.box.conn, func(conn *sqlite.Conn) error {
		for _, v := range parked {
			if err := sqlitex.Execute(conn, sqlitePark, &sqlitex.ExecOptions{Args: []any{v.id, string(v.code), v.text}}); err != nil {
				return fmt.Errorf("park a row: %w", err)
			}
			done = append(done, v.id)
		}
		for _, id := range done {
			if err := sqlitex.Execute(conn, sqliteDelete, &sqlitex.ExecOptions{Args: []any{id}}); err != nil {
				return fmt.Errorf("delete a row: %w", err)
			}
		}
		return nil
	})
}

// inSQLite runs f in a transaction.
func inSQLite(conn *sqlite.Conn, f func(*sqlite.Conn) error) error {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return fmt.Errorf("begin to write: %w", err)
	}
	err = f(conn)
	end(&err)
	return err
}

func (c *sqliteRows) release() {}

func (b *sqliteBox) park(ctx context.Context, v verdict) error {
	c := &sqliteRows{box: b}
	return c.finish(ctx, nil, []verdict{v})
}

const sqliteCount = `SELECT (SELECT count(*) FROM (SELECT 1 FROM posthaste_outbox LIMIT ?1)),
(SELECT count(*) FROM (SELECT 1 FROM posthaste_outbox_parked LIMIT ?1)), (SELECT enqueued_at FROM posthaste_outbox ORDER BY id LIMIT 1)`

func (b *sqliteBox) count(ctx context.Context) (c counts, err error) {
	defer b.interruptible(ctx)()
	err = sqlitex.Execute(b.conn, sqliteCount, &sqlitex.ExecOptions{Args: []any{maxCount}, ResultFunc: func(s *sqlite.Stmt) error {
		c.waiting, c.parked = s.ColumnInt(0), s.ColumnInt(1)
		if !s.ColumnIsNull(2) {
			c.oldestAt = time.UnixMicro(s.ColumnInt64(2))
		}
		return nil
	}})
	return c, err
}

func (b *sqliteBox) sleep(context.Context) error { return nil }
func (b *sqliteBox) awake(context.Context) error { return nil }

// isSettled is true when the file was last written so long ago that a commit since the
// coming claim must show.
func (b *sqliteBox) isSettled(context.Context) (bool, error) {
	s := b.state()
	last := s.at
	if s.walAt.After(last) {
		last = s.walAt
	}
	return time.Since(last) > coarsestTick, nil
}

func (b *sqliteBox) wait(ctx context.Context, d time.Duration) (bool, error) {
	tick := time.NewTicker(statEvery)
	defer tick.Stop()
	over := time.NewTimer(d)
	defer over.Stop()
	for b.state() == b.seen {
		select {
		case <-tick.C:
		case <-over.C:
			return false, nil
		case <-ctx.Done():
			return false, nil
		}
	}
	return true, nil
}

func (b *sqliteBox) close(context.Context) {
	if b.conn != nil {
		_ = b.conn.Close()
		b.conn = nil
	}
}
