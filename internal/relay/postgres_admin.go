package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pgconnect"
	"github.com/posthaste-dev/posthaste/outbox"
)

type postgresAdmin struct{ conn *pgx.Conn }

func openPostgresAdmin(ctx context.Context, url string) (*postgresAdmin, error) {
	b, err := newPostgresBox(url, nil, nil)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, b.config)
	if err != nil {
		return nil, fmt.Errorf("connect to the outbox's database: %w", pgconnect.Explain(err))
	}
	return &postgresAdmin{conn}, nil
}

func (a *postgresAdmin) Close(ctx context.Context) { hangUp(ctx, a.conn) }

func (a *postgresAdmin) Install(ctx context.Context, g Grants) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	err := pgx.BeginFunc(ctx, a.conn, func(tx pgx.Tx) error {
		// Several statements in one string: the simple protocol.
		if _, err := tx.Conn().PgConn().Exec(ctx, outbox.PostgresSQL()).ReadAll(); err != nil {
			return notPermitted(err)
		}
		for granted, roles := range map[string][]string{"posthaste_outbox_app": g.App, "posthaste_outbox_relay": g.Relay} {
			for _, role := range roles {
				if _, err := tx.Exec(ctx, `grant `+granted+` to `+pgx.Identifier{role}.Sanitize()); err != nil {
					return noRole(role, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("install the outbox: %w", err)
	}
	return nil
}

// notPermitted explains an installation by a role without the rights that it takes.
func notPermitted(err error) error {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || answer.Code != "42501" {
		return err
	}
	return &posthaste.Error{
		Code: posthaste.CodeForbidden, Message: answer.Message,
		Hint: "connect as the owner of the database or as another role that may create schemas and roles, or have one run the SQL of --print",
	}
}

// noRole explains a grant to a role that does not exist.
func noRole(role string, err error) error {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || answer.Code != "42704" {
		return notPermitted(err)
	}
	return &posthaste.Error{
		Code: posthaste.CodeNotFound, Message: fmt.Sprintf("there is no role %q in this database", role),
		Hint: "check the spelling, which is case-sensitive, or create the role first: CREATE ROLE " + pgx.Identifier{role}.Sanitize() + " LOGIN; nothing was installed",
	}
}

const (
	listParkedSQL = `select row_id, tenant, type, coalesce(order_key, ''), octet_length(payload), code, reason, enqueued_at, parked_at
		from posthaste.outbox_parked order by id limit $1`
	// Their ids are kept, so that rows of a key come back to their place.
	retrySQL = `with back as (delete from posthaste.outbox_parked where id = any(array(
			select id from posthaste.outbox_parked where $1::uuid[] is null or row_id = any($1) order by id limit $2 for update)) returning *)
		insert into posthaste.outbox (id, row_id, enqueued_at, tenant, type, order_key, idempotency_key, content_type, headers, payload)
		overriding system value
		select id, row_id, enqueued_at, tenant, type, order_key, idempotency_key, content_type, headers, payload from back`
	dropSQL = `delete from posthaste.outbox_parked where id = any(array(
		select id from posthaste.outbox_parked where $1::uuid[] is null or row_id = any($1) order by id limit $2 for update))`
	wakeSQL = `select pg_notify('posthaste_outbox', '')`
)

func (a *postgresAdmin) Parked(ctx context.Context, limit int) ([]ParkedRow, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	rows, err := a.conn.Query(ctx, listParkedSQL, limit)
	if err != nil {
		return nil, notInstalled(err)
	}
	var out []ParkedRow
	var r ParkedRow
	var id [16]byte
	var code string
	_, err = pgx.ForEachRow(rows, []any{&id, &r.Tenant, &r.Type, &r.OrderKey, &r.PayloadBytes, &code, &r.Reason, &r.EnqueuedAt, &r.ParkedAt}, func() error {
		r.RowID, r.Code = id, posthaste.Code(code)
		out = append(out, r)
		return nil
	})
	if err != nil {
		return nil, notInstalled(err)
	}
	return out, nil
}

func (a *postgresAdmin) Retry(ctx context.Context, ids []outbox.ID) (int, error) {
	return a.inChunks(ctx, retrySQL, ids)
}

func (a *postgresAdmin) Drop(ctx context.Context, ids []outbox.ID) (int, error) {
	return a.inChunks(ctx, dropSQL, ids)
}

// inChunks runs a statement until it finds no more rows, and wakes the relays each time:
// rows that waited behind those may go on.
func (a *postgresAdmin) inChunks(ctx context.Context, statement string, ids []outbox.ID) (total int, err error) {
	var rowIDs [][16]byte
	for _, id := range ids {
		rowIDs = append(rowIDs, id)
	}
	for {
		call, cancel := context.WithTimeout(ctx, adminTimeout)
		n := 0
		err := pgx.BeginFunc(call, a.conn, func(tx pgx.Tx) error {
			tag, err := tx.Exec(call, statement, rowIDs, chunk)
			if err != nil {
				return err
			}
			n = int(tag.RowsAffected())
			_, err = tx.Exec(call, wakeSQL)
			return err
		})
		cancel()
		total += n
		if err != nil {
			return total, notInstalled(err)
		}
		if n < chunk {
			return total, nil
		}
	}
}

func (a *postgresAdmin) Status(ctx context.Context) (s Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	var oldest *time.Time
	if err := a.conn.QueryRow(ctx, countSQL, maxCount).Scan(&s.Waiting, &s.Parked, &oldest); err != nil {
		return s, notInstalled(err)
	}
	if oldest != nil {
		s.OldestAt = *oldest
	}
	return s, nil
}
