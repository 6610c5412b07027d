//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/outbox"
)

// outboxSuffix and apartSuffix end the names of descriptions whose events come from an
// outbox: in the engine's own database, and in another one of the same server.
const (
	outboxSuffix = "-outbox"
	apartSuffix  = "-outbox-apart"
)

// outboxDatabase is the name of an application's database, where it has its own.
const outboxDatabase = "bench_app"

// openOutbox makes the outbox that a description wants, and its address a variable.
func (s *session) openOutbox(ctx context.Context) error {
	if s.d.Outbox == 0 {
		return nil
	}
	name := runDatabase
	if strings.HasSuffix(s.d.Name, apartSuffix) {
		name = outboxDatabase
		if err := s.bench.server.recreate(ctx, name); err != nil {
			return err
		}
	}
	address, err := s.bench.server.databaseURL(name)
	if err != nil {
		return err
	}
	s.vars["outbox"] = address
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return fmt.Errorf("connect to the outbox's database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // all has been answered
	if _, err := conn.PgConn().Exec(ctx, outbox.PostgresSQL()).ReadAll(); err != nil {
		return fmt.Errorf("install the outbox: %w", err)
	}
	return nil
}

// sender hands over the events of one request or transaction.
type sender interface {
	send(t template, rec *recorder, seq int) error
	close()
}

// newSender returns a sender of a template's kind.
func (t template) newSender() sender {
	if t.outbox != "" {
		return &outboxWriter{}
	}
	return &wire{}
}

// outboxWriter is an application that enqueues, on a connection of its own.
type outboxWriter struct{ conn *pgx.Conn }

func (w *outboxWriter) close() {
	if w.conn != nil {
		_ = w.conn.Close(context.Background())
	}
}

// send enqueues the events from seq on, as many as the template has lines, in one transaction.
func (w *outboxWriter) send(t template, rec *recorder, seq int) (err error) {
	ctx := context.Background() // bounded by the run's deadline, which the caller watches
	if w.conn == nil {
		if w.conn, err = pgx.Connect(ctx, t.outbox); err != nil {
			return fmt.Errorf("connect to the outbox's database: %w", err)
		}
	}
	events := make([]outbox.Event, 0, t.events())
	for i := seq; i < min(seq+t.events(), len(rec.intended)); i++ {
		events = append(events, outbox.Event{Type: "bench.event", Payload: rec.appendPayload(nil, i)})
	}
	return pgx.BeginFunc(ctx, w.conn, func(tx pgx.Tx) error {
		_, err := outbox.EnqueueAll(ctx, tx, events)
		return err
	})
}
