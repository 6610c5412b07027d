package outbox

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

const (
	enqueueSQL1   = `select posthaste.enqueue($1, $2::bytea, $3, $4, $5, $6, $7)`
	enqueueAllSQL = `select unnest(posthaste.enqueue_all($1, $2, $3, $4, $5, $6, $7))`
)

func enqueuePgx(ctx context.Context, tx pgx.Tx, events []Event) ([]ID, error) {
	ids := make([]ID, len(events))
	if len(events) == 1 {
		e := events[0]
		err := tx.QueryRow(ctx, enqueueSQL1, e.Type, notNil(e.Payload), orDefault(e.IdempotencyKey), orDefault(e.Tenant),
			orDefault(e.OrderKey), orDefault(e.ContentType), headersOf(e)).Scan((*[16]byte)(&ids[0]))
		return ids, err
	}
	c := columnsOf(events)
	rows, err := tx.Query(ctx, enqueueAllSQL, c.types, c.payloads, c.idempotencyKeys, c.tenants, c.orderKeys, c.contentTypes, c.headers)
	if err != nil {
		return nil, err
	}
	var id [16]byte
	i := 0
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		ids[i] = id
		i++
		return nil
	})
	return ids, err
}

// notNil keeps an empty payload from being taken for none.
func notNil(payload []byte) []byte {
	if payload == nil {
		return []byte{}
	}
	return payload
}

// columns are events by column. One in which nothing is set is nil, and not sent.
type columns struct {
	types           []string
	payloads        [][]byte
	idempotencyKeys []*string
	tenants         []*string
	orderKeys       []*string
	contentTypes    []*string
	headers         []*string
}

func columnsOf(events []Event) (c columns) {
	for _, e := range events {
		c.types = append(c.types, e.Type)
		c.payloads = append(c.payloads, notNil(e.Payload))
	}
	c.idempotencyKeys = column(events, func(e Event) *string { return orDefault(e.IdempotencyKey) })
	c.tenants = column(events, func(e Event) *string { return orDefault(e.Tenant) })
	c.orderKeys = column(events, func(e Event) *string { return orDefault(e.OrderKey) })
	c.contentTypes = column(events, func(e Event) *string { return orDefault(e.ContentType) })
	c.headers = column(events, headersOf)
	return c
}

func column(events []Event, of func(Event) *string) []*string {
	values := make([]*string, len(events))
	found := false
	for i, e := range events {
		values[i] = of(e)
		found = found || values[i] != nil
	}
	if !found {
		return nil
	}
	return values
}

// Through database/sql: arrays as text, which every driver can send.
const enqueueTextSQL = `select cast(unnest(posthaste.enqueue_all(cast($1 as text[]), cast($2 as bytea[]), cast($3 as text[]), ` +
	`cast($4 as text[]), cast($5 as text[]), cast($6 as text[]), cast($7 as jsonb[]))) as text)`

// enqueuePostgres stores events through a driver of database/sql.
func enqueuePostgres(ctx context.Context, tx sqlTx, events []Event) ([]ID, error) {
	c := columnsOf(events)
	types := make([]*string, len(events))
	payloads := make([]*string, len(events))
	for i := range events {
		payload := `\x` + hex.EncodeToString(c.payloads[i])
		types[i], payloads[i] = &c.types[i], &payload
	}
	// One text for all ids: a Row is all that every kind of transaction returns alike.
	var joined string
	err := tx.QueryRowContext(ctx, `select string_agg(id, ',') from (`+enqueueTextSQL+`) made (id)`, arrayText(types), arrayText(payloads),
		arrayText(c.idempotencyKeys), arrayText(c.tenants), arrayText(c.orderKeys), arrayText(c.contentTypes), arrayText(c.headers)).Scan(&joined)
	if err != nil {
		return nil, err
	}
	ids := make([]ID, 0, len(events))
	for text := range strings.SplitSeq(joined, ",") {
		raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		if err != nil || len(raw) != len(ID{}) {
			return nil, fmt.Errorf("read the row's id: %q is no UUID", text)
		}
		ids = append(ids, ID(raw))
	}
	return ids, nil
}

// arrayText writes an array as PostgreSQL reads it
// (https://www.postgresql.org/docs/current/arrays.html#ARRAYS-INPUT); nil for none.
func arrayText(values []*string) any {
	if values == nil {
		return nil
	}
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		if v == nil {
			b.WriteString("NULL")
			continue
		}
		b.WriteByte('"')
		b.WriteString(quoted.Replace(*v))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}
