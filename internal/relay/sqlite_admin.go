package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/outbox"
)

type sqliteAdmin struct{ box sqliteBox }

func openSQLiteAdmin(path string) (*sqliteAdmin, error) {
	conn, err := openSQLite(path)
	if err != nil {
		return nil, err
	}
	return &sqliteAdmin{sqliteBox{path: path, conn: conn}}, nil
}

func (a *sqliteAdmin) Close(ctx context.Context) { a.box.close(ctx) }

func (a *sqliteAdmin) Install(ctx context.Context, g Grants) error {
	if len(g.App)+len(g.Relay) > 0 {
		return &posthaste.Error{
			Code: posthaste.CodeInvalid, Message: "install the outbox: SQLite has no roles",
			Hint: "leave out --grant-app and --grant-relay: who may write the file may enqueue",
		}
	}
	defer a.box.interruptible(ctx)()
	err := inSQLite(a.box.conn, func(conn *sqlite.Conn) error {
		if err := sqlitex.ExecuteScript(conn, outbox.SQLiteSQL(), nil); err != nil {
			return err
		}
		return sqlitex.Execute(conn, `SELECT max(version) FROM posthaste_outbox_schema`, &sqlitex.ExecOptions{
			ResultFunc: func(s *sqlite.Stmt) error {
				if v := s.ColumnInt(0); v > outbox.SchemaVersion {
					return wrongVersion(v)
				}
				return nil
			},
		})
	})
	if err != nil {
		return fmt.Errorf("install the outbox: %w", noTables(err))
	}
	return nil
}

const (
	sqliteListParked = `SELECT row_id, tenant, type, coalesce(order_key, ''), length(CAST(payload AS BLOB)), code, reason, enqueued_at, parked_at
FROM posthaste_outbox_parked ORDER BY id LIMIT ?1`
	sqliteParkedIDs = `SELECT id FROM posthaste_outbox_parked ORDER BY id LIMIT ?1`
	sqliteParkedID  = `SELECT id FROM posthaste_outbox_parked WHERE row_id = ?1`
	sqliteBack      = `INSERT INTO posthaste_outbox (id, row_id, enqueued_at, tenant, type, order_key, idempotency_key, content_type, headers, payload)
SELECT id, row_id, enqueued_at, tenant, type, order_key, idempotency_key, content_type, headers, payload FROM posthaste_outbox_parked WHERE id = ?1`
	sqliteUnpark = `DELETE FROM posthaste_outbox_parked WHERE id = ?1`
)

func (a *sqliteAdmin) Parked(ctx context.Context, limit int) (out []ParkedRow, err error) {
	defer a.box.interruptible(ctx)()
	err = sqlitex.Execute(a.box.conn, sqliteListParked, &sqlitex.ExecOptions{Args: []any{limit}, ResultFunc: func(s *sqlite.Stmt) error {
		r := ParkedRow{
			Tenant: s.ColumnText(1), Type: s.ColumnText(2), OrderKey: s.ColumnText(3), PayloadBytes: s.ColumnInt(4), Code: posthaste.Code(s.ColumnText(5)),
			Reason: s.ColumnText(6), EnqueuedAt: time.UnixMicro(s.ColumnInt64(7)), ParkedAt: time.UnixMicro(s.ColumnInt64(8)),
		}
		s.ColumnBytes(0, r.RowID[:])
		out = append(out, r)
		return nil
	}})
	if err != nil {
		return nil, fmt.Errorf("list parked rows: %w", noTables(err))
	}
	return out, nil
}

func (a *sqliteAdmin) Retry(ctx context.Context, ids []outbox.ID) (int, error) {
	return a.inChunks(ctx, ids, sqliteBack, sqliteUnpark)
}

func (a *sqliteAdmin) Drop(ctx context.Context, ids []outbox.ID) (int, error) {
	return a.inChunks(ctx, ids, sqliteUnpark)
}

// inChunks runs statements on parked rows until there are no more.
func (a *sqliteAdmin) inChunks(ctx context.Context, ids []outbox.ID, statements ...string) (total int, err error) {
	defer a.box.interruptible(ctx)()
	for {
		n := 0
		err := inSQLite(a.box.conn, func(conn *sqlite.Conn) error {
			places, err := parkedPlaces(conn, ids)
			for _, place := range places {
				for _, statement := range statements {
					err = errors.Join(err, sqlitex.Execute(conn, statement, &sqlitex.ExecOptions{Args: []any{place}}))
				}
			}
			n = len(places)
			return err
		})
		if err != nil {
			return total, fmt.Errorf("change parked rows: %w", noTables(err))
		}
		total += n
		if n < chunk || len(ids) > 0 {
			return total, nil
		}
	}
}

// parkedPlaces returns the ids of parked rows: of those named, or of the first ones.
func parkedPlaces(conn *sqlite.Conn, ids []outbox.ID) (places []int64, err error) {
	collect := func(s *sqlite.Stmt) error {
		places = append(places, s.ColumnInt64(0))
		return nil
	}
	if len(ids) == 0 {
		err = sqlitex.Execute(conn, sqliteParkedIDs, &sqlitex.ExecOptions{Args: []any{chunk}, ResultFunc: collect})
	}
	for _, id := range ids {
		err = errors.Join(err, sqlitex.Execute(conn, sqliteParkedID, &sqlitex.ExecOptions{Args: []any{id[:]}, ResultFunc: collect}))
	}
	return places, err
}

func (a *sqliteAdmin) Status(ctx context.Context) (Status, error) {
	c, err := a.box.count(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("count the rows of the outbox: %w", noTables(err))
	}
	return Status{Waiting: c.waiting, Parked: c.parked, OldestAt: c.oldestAt}, nil
}
