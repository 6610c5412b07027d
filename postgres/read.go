package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// eventColumns are what readEvent reads of a row e of events.
const (
	eventColumns = `e.id, e.type, e.source, e.content_type, e.content_encoding, e.headers, e.fan_out, e.idempotency_key,
	e.parent, e.correlation, e.order_key, e.traceparent`
	eventColumnCount = 12
)

func readEvent(raw [][]byte) posthaste.Event {
	e := posthaste.Event{
		ID:              posthaste.ID(raw[0]),
		Type:            string(raw[1]),
		Source:          string(raw[2]),
		ContentType:     string(raw[3]),
		ContentEncoding: string(raw[4]),
		Headers:         readHeaders(raw[5]),
		FanOut:          int(binary.BigEndian.Uint32(raw[6])),
		IdempotencyKey:  string(raw[7]),
		OrderKey:        string(raw[10]),
		Traceparent:     string(raw[11]),
	}
	e.CorrelationID = e.ID
	if raw[8] != nil {
		e.Parent = posthaste.ID(raw[8])
	}
	if raw[9] != nil {
		e.CorrelationID = posthaste.ID(raw[9])
	}
	return e
}

const eventSQL = `select ` + eventColumns + `, e.source_headers, e.payload from events e where e.tenant = $1 and e.id = $2`

// Event implements store.Reading.
func (db *DB) Event(ctx context.Context, tenant store.TenantNo, id posthaste.ID) (posthaste.Event, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var event posthaste.Event
	found := false
	rows, err := db.side.Query(ctx, eventSQL, int32(tenant), [16]byte(id))
	if err == nil {
		for rows.Next() {
			raw := rows.RawValues()
			event, found = readEvent(raw), true
			event.SourceHeaders = readHeaders(raw[eventColumnCount])
			event.Payload = append([]byte{}, raw[eventColumnCount+1]...)
		}
		err = rows.Err()
	}
	if err == nil && !found {
		err = store.ErrNotFound
	}
	if err != nil {
		return posthaste.Event{}, fail("look up an event", err)
	}
	return event, nil
}

// highest is above every id.
var highest = [16]byte{0: 0xff}

// before returns the upper bound, exclusive, for a cursor.
func before(cursor posthaste.ID) [16]byte {
	if cursor.IsZero() {
		return highest
	}
	return cursor
}

// span returns the ids from since to until, the latter exclusive and not above the cursor.
func span(since, until time.Time, cursor posthaste.ID) (from, to [16]byte) {
	to = before(cursor)
	if !since.IsZero() {
		from = posthaste.FloorID(ceilMilli(since))
	}
	if !until.IsZero() {
		to = lower(to, posthaste.FloorID(ceilMilli(until)))
	}
	return from, to
}

// ceilMilli rounds up to what ids can tell: [since, until) in milliseconds.
func ceilMilli(t time.Time) time.Time {
	if floor := t.Truncate(time.Millisecond); !floor.Equal(t) {
		return floor.Add(time.Millisecond)
	}
	return t
}

// A page is read from the index downwards, and every row looked at is numbered as it comes. Rows
// that pass the filters are answered, and so is the last that may be looked at,
// which carries the cursor where the page ends early.
const (
	listEventsHead = `
select e.hit, e.nth, ` + eventColumns + `, e.bytes
from (
	select ` + eventColumns + `, coalesce(octet_length(e.payload), 0) as bytes,
		($4 = '' or e.type = $4) and ($5 = '' or e.source = $5)
			and (length($6::bytea) = 0 or e.idempotency_key = $6) as hit,
		row_number() over (order by e.id desc) as nth
	from events e
	where e.id >= $2 and e.id < $3`
	listEventsTail = `
	order by e.id desc limit $7) e
where e.hit or e.nth = $7
order by e.id desc limit $8`

	listEventsSQL   = listEventsHead + ` and e.tenant = $1` + listEventsTail
	listChildrenSQL = listEventsHead + ` and e.tenant + 0 = $1 and e.parent = $9` + listEventsTail
)

// ListEvents implements store.Reading.
func (db *DB) ListEvents(ctx context.Context, p store.ListEventsParams) (store.EventPage, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	from, to := span(p.Since, p.Until, p.Before)
	args := []any{int32(p.Tenant), from, to, p.Type, p.Source, []byte(p.IdempotencyKey), store.MaxExamined, p.Limit + 1}
	sql := listEventsSQL
	if !p.Parent.IsZero() {
		sql = listChildrenSQL
		args = append(args, [16]byte(p.Parent))
	}
	var page store.EventPage
	rows, err := db.side.Query(ctx, sql, args...)
	if err != nil {
		return page, fail("list events", err)
	}
	defer rows.Close()
	for rows.Next() {
		raw := rows.RawValues()
		hit, last := raw[0][0] != 0, binary.BigEndian.Uint64(raw[1]) == store.MaxExamined
		if hit && len(page.Events) == p.Limit {
			page.Next = page.Events[p.Limit-1].ID
			break
		}
		event := readEvent(raw[2:])
		if hit {
			page.Events = append(page.Events, store.EventRow{Event: event, PayloadBytes: int(binary.BigEndian.Uint32(raw[2+eventColumnCount]))})
		}
		if last {
			page.Next = event.ID
			break
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return store.EventPage{}, fail("list events", err)
	}
	return page, nil
}

const attemptsSQL = `
select number, started_at, endpoint_version, outcome, cause, status, late, total,
	coalesce(dns, 0), coalesce(connect, 0), coalesce(tls, 0), coalesce(first_byte, 0),
	replica, error, response_headers, response_body, sent_twice
from attempts where delivery = $1
order by number`

// Attempts implements store.Reading.
func (db *DB) Attempts(ctx context.Context, delivery posthaste.ID) ([]posthaste.Attempt, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := db.side.Query(ctx, attemptsSQL, [16]byte(delivery))
	if err != nil {
		return nil, fail("list attempts", err)
	}
	attempts, err := pgx.CollectRows(rows, readAttempt)
	if err != nil {
		return nil, fail("list attempts", err)
	}
	return attempts, nil
}

func readAttempt(row pgx.CollectableRow) (posthaste.Attempt, error) {
	var a posthaste.Attempt
	var started, total, dns, connect, tls, firstByte int64
	var outcome, cause int16
	var message, headers []byte
	err := row.Scan(&a.Number, &started, &a.EndpointVersion, &outcome, &cause, &a.StatusCode, &a.Late, &total,
		&dns, &connect, &tls, &firstByte, &a.Replica, &message, &headers, &a.ResponseBody, &a.SentTwice)
	if err != nil {
		return a, fmt.Errorf("read an attempt: %w", err)
	}
	span := func(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
	a.StartedAt, a.Outcome, a.Cause = timeAt(started), posthaste.Outcome(outcome), posthaste.Cause(cause)
	a.Timings = posthaste.Timings{DNS: span(dns), Connect: span(connect), TLS: span(tls), FirstByte: span(firstByte), Total: span(total)}
	a.Error, a.ResponseHeaders = string(message), readHeaders(headers)
	return a, nil
}
