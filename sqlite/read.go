package sqlite

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const sqlEvent = `SELECT ` + eventColumns + `source_headers, payload FROM events WHERE tenant = ?1 AND id = ?2`

// Event implements store.Reading.
func (db *DB) Event(ctx context.Context, tenant store.TenantNo, id posthaste.ID) (posthaste.Event, error) {
	var out posthaste.Event
	err := db.read(ctx, "read event", func(c *conn) error {
		for r, err := range c.rows(sqlEvent, tenant, id) {
			if err != nil {
				return err
			}
			if out, err = scanEvent(r); err != nil {
				return err
			}
			out.SourceHeaders, err = decodeHeaders(r.bytes(12))
			out.Payload = r.bytes(13)
			return err
		}
		return store.ErrNotFound
	})
	return out, err
}

// bounds are the ids [from, to) of events accepted in [since, until), below a
// page's cursor.
func bounds(since, until time.Time, before posthaste.ID) (from, to posthaste.ID) {
	to = below(before)
	if !since.IsZero() {
		from = posthaste.FloorID(ceilMilli(since))
	}
	if !until.IsZero() {
		if end := posthaste.FloorID(ceilMilli(until)); end.Compare(to) < 0 {
			to = end
		}
	}
	return from, to
}

// ceilMilli rounds up to the milliseconds that ids count in: an event of a
// millisecond that began before t was not accepted at or after t.
func ceilMilli(t time.Time) time.Time {
	if down := t.Truncate(time.Millisecond); !down.Equal(t) {
		return down.Add(time.Millisecond)
	}
	return t
}

// The inner query bounds how many rows are looked at, whatever the filters
// leave of them.
const (
	listedColumns = eventColumns + `bytes `
	walkEvents    = `SELECT ` + eventColumns + `length(payload) AS bytes FROM events WHERE `
	eventFilter   = ` WHERE (?4 = '' OR type = ?4) AND (?5 = '' OR source = ?5) AND (?6 = '' OR idempotency_key = ?6)
  ORDER BY id DESC LIMIT ?7`
	sqlListEvents   = `SELECT ` + listedColumns + `FROM (` + walkEvents + `tenant = ?1 AND id >= ?2 AND id < ?3 ORDER BY id DESC LIMIT ?8)` + eventFilter
	sqlListChildren = `SELECT ` + listedColumns + `FROM (` + walkEvents + `parent = ?9 AND id >= ?2 AND id < ?3 AND tenant = ?1 ORDER BY id DESC LIMIT ?8)` + eventFilter

	sqlLastExamined      = `SELECT id FROM events WHERE tenant = ?1 AND id >= ?2 AND id < ?3 ORDER BY id DESC LIMIT 1 OFFSET ?4`
	sqlLastChildExamined = `SELECT id FROM events WHERE parent = ?5 AND id >= ?2 AND id < ?3 AND tenant = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?4`
)

// ListEvents implements store.Reading.
func (db *DB) ListEvents(ctx context.Context, p store.ListEventsParams) (store.EventPage, error) {
	var out store.EventPage
	err := db.read(ctx, "list events", func(c *conn) error {
		return c.snapshot(func() (err error) {
			if p.IdempotencyKey != "" && p.Before.IsZero() {
				if out.Events, err = eventOfKey(c, p); err != nil || len(out.Events) > 0 {
					return err
				}
			}
			out, err = listEvents(c, p)
			return err
		})
	})
	return out, err
}

func listEvents(c *conn, p store.ListEventsParams) (out store.EventPage, err error) {
	query, last := sqlListEvents, sqlLastExamined
	from, to := bounds(p.Since, p.Until, p.Before)
	args := []any{p.Tenant, from, to, p.Type, p.Source, p.IdempotencyKey, p.Limit, store.MaxExamined}
	lastArgs := []any{p.Tenant, from, to, store.MaxExamined - 1}
	if !p.Parent.IsZero() {
		query, last = sqlListChildren, sqlLastChildExamined
		args, lastArgs = append(args, p.Parent), append(lastArgs, p.Parent)
	}
	for r, err := range c.rows(query, args...) {
		if err != nil {
			return out, err
		}
		e, err := scanEvent(r)
		if err != nil {
			return out, err
		}
		out.Events = append(out.Events, store.EventRow{Event: e, PayloadBytes: r.ColumnInt(12)})
	}
	if n := len(out.Events); n > 0 && n == p.Limit {
		out.Next = out.Events[n-1].ID
		return out, nil
	}
	// A page that is short because no more was looked at goes on from there.
	_, err = c.get(last, func(r row) { out.Next = r.id(0) }, lastArgs...)
	return out, err
}

const (
	sqlEventsOfKey = `SELECT tenant, event FROM idempotency WHERE key = ?1`
	sqlListedEvent = `SELECT ` + listedColumns + `FROM (` + walkEvents + `tenant = ?1 AND id = ?8 AND id >= ?2 AND id < ?3)` + eventFilter
)

// eventOfKey finds the event that holds an idempotency key now, without a walk.
// Earlier events of the same key, from before its window, are not looked for.
// Whether the hash is the one that the key was stored under does not matter to
// what is right: without a hit, and below the first page, events are walked.
func eventOfKey(c *conn, p store.ListEventsParams) (out []store.EventRow, err error) {
	sum := sha256.Sum256([]byte(p.IdempotencyKey))
	var ids []posthaste.ID
	for r, err := range c.rows(sqlEventsOfKey, sum[:len(store.Hash{})]) {
		if err != nil {
			return nil, err
		}
		if r.tenant(0) == p.Tenant {
			ids = append(ids, r.id(1))
		}
	}
	from, to := bounds(p.Since, p.Until, p.Before)
	for _, id := range ids {
		for r, err := range c.rows(sqlListedEvent, p.Tenant, from, to, p.Type, p.Source, p.IdempotencyKey, 1, id) {
			if err != nil {
				return nil, err
			}
			e, err := scanEvent(r)
			if err != nil {
				return nil, err
			}
			if p.Parent.IsZero() || p.Parent == e.Parent {
				out = append(out, store.EventRow{Event: e, PayloadBytes: r.ColumnInt(12)})
			}
		}
	}
	return out, nil
}

const sqlAttempts = `SELECT number, started_at, dns_us, connect_us, tls_us, first_byte_us, total_us, outcome, late, cause, status_code,
  error, endpoint_version, replica, response_headers, response_body, sent_twice FROM attempts WHERE delivery = ?1 ORDER BY number`

// Attempts implements store.Reading.
func (db *DB) Attempts(ctx context.Context, delivery posthaste.ID) ([]posthaste.Attempt, error) {
	var out []posthaste.Attempt
	err := db.read(ctx, "list attempts", func(c *conn) error {
		for r, err := range c.rows(sqlAttempts, delivery) {
			if err != nil {
				return err
			}
			headers, err := decodeHeaders(r.bytes(14))
			if err != nil {
				return err
			}
			us := func(col int) time.Duration { return time.Duration(r.ColumnInt64(col)) * time.Microsecond }
			out = append(out, posthaste.Attempt{
				Number: r.ColumnInt(0), StartedAt: r.at(1),
				Timings: posthaste.Timings{DNS: us(2), Connect: us(3), TLS: us(4), FirstByte: us(5), Total: us(6)},
				Outcome: posthaste.Outcome(r.ColumnInt(7)), Late: r.ColumnBool(8), Cause: posthaste.Cause(r.ColumnInt(9)),
				StatusCode: r.ColumnInt(10), Error: string(r.bytes(11)), EndpointVersion: r.ColumnInt(12), Replica: r.ColumnText(13),
				ResponseHeaders: headers, ResponseBody: r.bytes(15), SentTwice: r.ColumnBool(16),
			})
		}
		return nil
	})
	return out, err
}
