// Package outbox enqueues events in an application's own database, in the very
// transaction that makes the change which an event tells of: the event is sent if and
// only if that transaction commits.
//
//	tx, err := pool.Begin(ctx)
//	…
//	_, err = tx.Exec(ctx, `update invoices set paid = true where id = $1`, 42)
//	…
//	_, err = outbox.Enqueue(ctx, tx, outbox.Event{Type: "invoice.paid", Payload: body})
//	…
//	err = tx.Commit(ctx)
//
// "posthaste outbox install" makes what it needs in the database: the schema posthaste in
// PostgreSQL, tables that begin with posthaste_outbox in SQLite; see [PostgresSQL] and
// [SQLiteSQL]. "posthaste serve --outbox" relays the rows to the engine, each exactly once.
package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
)

// MaxPayloadBytes is the largest payload that an outbox takes. What an engine accepts
// may be less (--max-payload, 1 MiB by default): a row above that is parked.
const MaxPayloadBytes = 64 << 20

// Event is an event to enqueue. Only Type is required.
type Event struct {
	// Type is 1 to 128 of a-z A-Z 0-9 . _ - / :
	Type string
	// Payload is delivered byte for byte, 64 MiB at most. It may be empty.
	Payload []byte
	// Tenant is the name of the tenant whose endpoints get the event. One that the engine
	// does not know parks the row. Default: "default".
	Tenant string
	// OrderKey has the events of one key accepted in the order of their transactions, at
	// a price: a transaction that enqueues with a key makes others that do wait until
	// it ends. At most 255 bytes. Default: none; such events have no order.
	OrderKey string
	// IdempotencyKey is the same as with an event that is sent by the API: with the same
	// key, type and payload it is stored once, whichever way it comes. A row is never accepted
	// twice without it. At most 255 bytes. Default: none.
	IdempotencyKey string
	// ContentType is sent on to receivers, at most 255 bytes. Default: "application/json".
	ContentType string
	// Headers are sent on with each delivery; traceparent is kept as the event's trace
	// context. Names that Posthaste sets itself (webhook-*, content-*, host …) park the row.
	// Default: none.
	Headers map[string]string
}

// ID names a row of an outbox: a random UUID (RFC 9562, version 4), by which the engine
// knows the row again. The event gets an id of its own when it is accepted.
type ID [16]byte

// String returns the usual form, such as 0b69d1ec-4e3e-4f5b-8a58-0d8a1fbd0a1a.
func (id ID) String() string {
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

func newID() (id ID) {
	_, _ = rand.Read(id[:])                         // never fails, says its documentation
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version and variant
	return id
}

// sqlTx is *[sql.Tx], or what embeds one as other packages do.
type sqlTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Commit() error
	Rollback() error
}

// Enqueue stores an event with the transaction tx: a [pgx.Tx], or a *[sql.Tx] of a
// PostgreSQL or an SQLite database. A savepoint that is rolled back takes the event with it.
//
// A mistake in the event is a *[posthaste.Error] of [posthaste.CodeInvalid], and tx is
// untouched. Any other error is the database's; on PostgreSQL tx can then only be rolled back.
func Enqueue(ctx context.Context, tx any, event Event) (ID, error) {
	ids, err := EnqueueAll(ctx, tx, []Event{event})
	if err != nil {
		return ID{}, err
	}
	return ids[0], nil
}

// EnqueueAll stores events with the transaction tx, in their order, with one statement on
// PostgreSQL. It returns the ids of their rows in the same order. Errors are those of
// [Enqueue]; none of the events is stored then.
func EnqueueAll(ctx context.Context, tx any, events []Event) ([]ID, error) {
	if len(events) == 0 {
		return nil, nil
	}
	if err := check(events); err != nil {
		return nil, err
	}
	var ids []ID
	var err error
	switch tx := tx.(type) {
	case pgx.Tx:
		ids, err = enqueuePgx(ctx, tx, events)
	case sqlTx:
		ids, err = enqueueSQL(ctx, tx, events)
	default:
		return nil, fmt.Errorf("enqueue: %T is no transaction; want a pgx.Tx or a *sql.Tx", tx)
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue %d events in the outbox: %w", len(events), err)
	}
	return ids, nil
}

// check finds what the database would refuse, before the transaction is touched.
func check(events []Event) error {
	var problems []posthaste.Problem
	for i, e := range events {
		found := posthaste.ValidateType("Type", e.Type)
		if e.Tenant != "" {
			for _, p := range posthaste.ValidateTenantName(e.Tenant) {
				p.Field = "Tenant"
				found = append(found, p)
			}
		}
		for _, limited := range []struct {
			field    string
			bytes    int
			maxBytes int
		}{
			{"Payload", len(e.Payload), MaxPayloadBytes},
			{"OrderKey", len(e.OrderKey), posthaste.MaxOrderKeyBytes},
			{"IdempotencyKey", len(e.IdempotencyKey), posthaste.MaxIdempotencyKeyBytes},
			{"ContentType", len(e.ContentType), posthaste.MaxContentTypeBytes},
		} {
			if limited.bytes > limited.maxBytes {
				found = append(found, posthaste.Problem{Field: limited.field, Message: fmt.Sprintf("is longer than %d bytes", limited.maxBytes)})
			}
		}
		found = append(found, checkText(e)...)
		if len(events) > 1 {
			for k := range found {
				found[k].Field = fmt.Sprintf("events[%d].%s", i, found[k].Field)
			}
		}
		problems = append(problems, found...)
	}
	return posthaste.Invalid(problems)
}

// checkText finds what is no text to PostgreSQL, whose complaint would end the
// transaction, and what encoding/json would write as other text.
func checkText(e Event) (problems []posthaste.Problem) {
	texts := map[string]string{"OrderKey": e.OrderKey, "IdempotencyKey": e.IdempotencyKey, "ContentType": e.ContentType}
	for name, value := range e.Headers {
		texts["Headers."+name] = name + value
	}
	for _, field := range slices.Sorted(maps.Keys(texts)) {
		if text := texts[field]; !utf8.ValidString(text) || strings.Contains(text, "\x00") {
			problems = append(problems, posthaste.Problem{Field: field, Message: "is not text", Hint: "UTF-8 without NUL"})
		}
	}
	return problems
}

// orDefault returns nil, which means the default, for what was left out.
func orDefault(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// headersOf returns the headers as the text of a JSON object, nil for none.
func headersOf(e Event) *string {
	if len(e.Headers) == 0 {
		return nil
	}
	raw, err := json.Marshal(e.Headers)
	if err != nil {
		return nil // a map of strings always can be
	}
	text := string(raw)
	return &text
}
