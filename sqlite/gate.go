package sqlite

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	gateColumns = `SELECT endpoint, breaker, failures, openings, probe, probe_number, open_until, closed_at, retry_after_until,
  failing_since, slot, retry_slot, changed_at, failed_at FROM gates `
	sqlGate         = gateColumns + `WHERE endpoint = ?1`
	sqlShutGates    = gateColumns + `WHERE breaker <> 0 OR retry_after_until > ?1 OR closed_at > ?2 OR failing_since <> 0 OR failures <> 0`
	sqlChangedGates = gateColumns + `WHERE changed_at > ?1 ORDER BY changed_at`
	sqlKeepGate     = `INSERT INTO gates (endpoint, breaker, failures, openings, probe, probe_number, open_until, closed_at, retry_after_until,
  failing_since, slot, retry_slot, changed_at, failed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT DO UPDATE SET breaker = excluded.breaker, failures = excluded.failures, openings = excluded.openings,
  probe = excluded.probe, probe_number = excluded.probe_number, open_until = excluded.open_until, closed_at = excluded.closed_at,
  retry_after_until = excluded.retry_after_until, failing_since = excluded.failing_since, slot = excluded.slot,
  retry_slot = excluded.retry_slot, changed_at = excluded.changed_at, failed_at = excluded.failed_at`
)

// scanGate reads gateColumns.
func scanGate(r row) store.Gate {
	return store.Gate{
		Endpoint: r.endpoint(0), ChangedAt: r.at(12),
		State: gate.State{
			Breaker: gate.Breaker(r.ColumnInt(1)), Failures: r.ColumnInt(2), Openings: r.ColumnInt(3),
			Probe:     gate.Attempt{Delivery: r.id(4), Number: r.ColumnInt(5)},
			OpenUntil: r.at(6), ClosedAt: r.at(7), RetryAfterUntil: r.at(8), FailingSince: r.at(9),
			Slot: r.at(10), RetrySlot: r.at(11), FailedAt: r.at(13),
		},
	}
}

// readGate returns the gate of an endpoint, an open one if it has no row.
func readGate(c *conn, endpoint store.EndpointNo) (g store.Gate, found bool, err error) {
	found, err = c.get(sqlGate, func(r row) { g = scanGate(r) }, endpoint)
	g.Endpoint = endpoint
	return g, found, err
}

// keepGate stores another state of a gate and returns it as it is stored.
func (db *DB) keepGate(c *conn, was store.Gate, s gate.State) (store.Gate, error) {
	now := store.Gate{Endpoint: was.Endpoint, State: stored(s), ChangedAt: was.ChangedAt}
	if now == was {
		return was, nil
	}
	slotsOnly := now.State
	slotsOnly.Slot, slotsOnly.RetrySlot = was.Slot, was.RetrySlot
	if slotsOnly != was.State {
		// Two changes never have the same time, whatever the clock does.
		if now.ChangedAt = db.now(); !now.ChangedAt.After(was.ChangedAt) {
			now.ChangedAt = was.ChangedAt.Add(time.Microsecond)
		}
	}
	_, err := c.exec(sqlKeepGate, now.Endpoint, int64(now.Breaker), now.Failures, now.Openings, now.Probe.Delivery, now.Probe.Number,
		now.OpenUntil, now.ClosedAt, now.RetryAfterUntil, now.FailingSince, now.Slot, now.RetrySlot, now.ChangedAt, now.FailedAt)
	return now, err
}

// stored is a state as it comes back from the table: two of those are the same if
// they are equal.
func stored(s gate.State) gate.State {
	for _, t := range []*time.Time{&s.OpenUntil, &s.ClosedAt, &s.RetryAfterUntil, &s.FailingSince, &s.FailedAt, &s.Slot, &s.RetrySlot} {
		if !t.IsZero() {
			*t = time.UnixMicro(t.UnixMicro()).UTC()
		}
	}
	return s
}

// ChangeGate implements store.Gates. There is one writer, so nobody else holds the row.
func (db *DB) ChangeGate(ctx context.Context, endpoint store.EndpointNo, change func(gate.State) gate.State) (store.Gate, error) {
	var out store.Gate
	err := db.write(ctx, "change a gate", func(c *conn) error {
		was, _, err := readGate(c, endpoint)
		if err == nil {
			out, err = db.keepGate(c, was, change(was.State))
		}
		return err
	})
	if err != nil {
		return store.Gate{}, err
	}
	return out, nil
}

// Gates implements store.Gates.
func (db *DB) Gates(ctx context.Context, endpoints []store.EndpointNo) ([]store.Gate, error) {
	var out []store.Gate
	err := db.readOn(ctx, db.lookups, "read gates", func(c *conn) error {
		for _, no := range endpoints {
			g, found, err := readGate(c, no)
			if err != nil {
				return err
			}
			if found {
				out = append(out, g)
			}
		}
		return nil
	})
	return out, err
}

// ShutGates implements store.Gates.
func (db *DB) ShutGates(ctx context.Context, now time.Time) ([]store.Gate, error) {
	var out []store.Gate
	err := db.readOn(ctx, db.lookups, "list the gates that are shut", func(c *conn) (err error) {
		out, err = listGates(c, sqlShutGates, now, now.Add(-time.Minute))
		return err
	})
	return out, err
}

func listGates(c *conn, query string, args ...any) (out []store.Gate, err error) {
	for r, err := range c.rows(query, args...) {
		if err != nil {
			return nil, err
		}
		out = append(out, scanGate(r))
	}
	return out, nil
}

const (
	sqlForgottenGates = `SELECT endpoint FROM gates WHERE NOT EXISTS (
  SELECT 1 FROM endpoints WHERE no = gates.endpoint AND deleted_at = 0) LIMIT ?1`
	sqlDropGate = `DELETE FROM gates WHERE endpoint = ?1`
)

// dropGates deletes the gates of endpoints that are gone; see Retain. It looks for them without
// the writer: no endpoint comes back.
func (db *DB) dropGates(ctx context.Context, limit int) (n int, err error) {
	var forgotten []int64
	err = db.readOn(ctx, db.chores, "look for gates of deleted endpoints", func(c *conn) error {
		forgotten = forgotten[:0]
		for r, err := range c.rows(sqlForgottenGates, limit) {
			if err != nil {
				return err
			}
			forgotten = append(forgotten, r.ColumnInt64(0))
		}
		return nil
	})
	if err != nil || len(forgotten) == 0 {
		return 0, err
	}
	err = db.write(ctx, "delete gates of deleted endpoints", func(c *conn) error {
		n = 0
		for _, no := range forgotten {
			gone, err := c.exec(sqlDropGate, no)
			if err != nil {
				return err
			}
			n += gone
		}
		return nil
	})
	return n, err
}
