package sqlite

import (
	"context"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Claim implements store.Delivery.
func (db *DB) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	var out store.Claimed
	err := db.write(ctx, "claim due deliveries", func(c *conn) (err error) {
		out = store.Claimed{}
		if err := db.fence(c, p.Epoch); err != nil {
			return err
		}
		if out.Newer, err = newerRouting(c, p.Tenants); err != nil {
			return err
		}
		for _, w := range p.Want {
			g, _, err := readGate(c, w.Endpoint)
			if err != nil {
				return err
			}
			if !w.IgnoreGate && (g.Breaker != gate.Closed || g.Asked(p.Now)) {
				out.Shut = append(out.Shut, g)
				continue
			}
			if out.Leases, err = claimEndpoint(c, p, w, out.Leases); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return store.Claimed{}, err
	}
	return out, nil
}

const sqlRoutingSince = `SELECT no, routing_version FROM tenants WHERE routing_version >= ?1 ORDER BY routing_version`

// newerRouting returns the present versions of those tenants that are at another one than
// the caller's.
func newerRouting(c *conn, seen []store.TenantVersion) (newer []store.TenantVersion, err error) {
	for _, v := range seen {
		now := store.TenantVersion{Tenant: v.Tenant, Version: store.NoVersion}
		if _, err := c.get(sqlRoutingVersion, func(r row) { now.Version = r.ColumnInt64(0) }, v.Tenant); err != nil {
			return nil, err
		}
		if now.Version != v.Version {
			newer = append(newer, now)
		}
	}
	return newer, nil
}

// claimPage is how many due rows are read before they are claimed or dropped.
// SQLite does not say what a query sees of rows that are changed while it runs,
// so none is.
const claimPage = 256

// maxStale bounds the stale rows that one claim drops for an endpoint.
const maxStale = 4096

// dueRow is a row of due with what its delivery says.
type dueRow struct {
	store.Lease
	key   store.DueKey
	stale bool // the delivery is gone, not pending, or names another row
}

// claimEndpoint leases what is wanted of one endpoint, and drops stale rows on the way.
func claimEndpoint(c *conn, p store.ClaimParams, w store.ClaimWant, leases []store.Lease) ([]store.Lease, error) {
	after := store.DueKey{Endpoint: w.Endpoint, DueAt: w.From}
	for left, passed := w.Cap, 0; left > 0 && passed < maxStale; {
		ask := min(left, claimPage)
		page, err := readDue(c, after, p.Now, ask)
		if err != nil {
			return nil, err
		}
		for _, d := range page {
			after = d.key
			switch {
			case d.stale:
				passed++
				err = deleteDue(c, d.key)
			case d.Epoch != 0:
				// Somebody owns the delivery and not its due row: left for FindStranded,
				// which knows who lives.
				passed++
			default:
				left--
				d.Epoch = p.Epoch
				leases = append(leases, d.Lease)
				err = own(c, d.Lease)
			}
			if err != nil {
				return nil, err
			}
		}
		if len(page) < ask {
			break
		}
	}
	return leases, nil
}

// A due row at exactly From counts, whatever its delivery: the key that begins
// the walk has delivery zero, which is below every id.
const sqlReadDue = `SELECT u.delivery, d.tenant, u.endpoint, d.owner, d.attempts, d.failures, u.due_at, d.expires_at,
  d.state IS NOT 0 OR d.due_at <> u.due_at OR d.endpoint <> u.endpoint
FROM due u LEFT JOIN deliveries d ON d.id = u.delivery
WHERE u.endpoint = ?1 AND (u.due_at, u.delivery) > (?2, ?3) AND u.due_at <= ?4 AND u.owner = 0
ORDER BY u.due_at, u.delivery LIMIT ?5`

// readDue reads unowned due rows of after's endpoint in key order, beyond after.
func readDue(c *conn, after store.DueKey, until any, limit int) (page []dueRow, err error) {
	for r, err := range c.rows(sqlReadDue, after.Endpoint, after.DueAt, after.Delivery, until, limit) {
		if err != nil {
			return nil, err
		}
		d := dueRow{Lease: scanLease(r), stale: r.ColumnBool(8)}
		d.key = store.DueKey{Endpoint: d.Endpoint, DueAt: d.DueAt, Delivery: d.Delivery}
		page = append(page, d)
	}
	return page, nil
}

const (
	sqlOwnDue      = `UPDATE due SET owner = ?4 WHERE endpoint = ?1 AND due_at = ?2 AND delivery = ?3`
	sqlOwnDelivery = `UPDATE deliveries SET owner = ?2 WHERE id = ?1`
)

// own writes the lease on its due row and on its delivery, so that a process
// that dies leaves a trace of it.
func own(c *conn, l store.Lease) error {
	if _, err := c.exec(sqlOwnDue, l.Endpoint, l.DueAt, l.Delivery, l.Epoch); err != nil {
		return err
	}
	_, err := c.exec(sqlOwnDelivery, l.Delivery, l.Epoch)
	return err
}

const (
	eventColumns = `id, type, source, content_type, content_encoding, headers, fan_out, idempotency_key,
  parent, correlation_id, order_key, traceparent, `
	sqlLoad = `SELECT ` + eventColumns + `payload FROM events WHERE tenant = ?1 AND id = ?2`
)

// Load implements store.Delivery.
func (db *DB) Load(ctx context.Context, p store.LoadParams) ([]posthaste.Event, error) {
	var out []posthaste.Event
	err := db.readOn(ctx, db.loads, "load events", func(c *conn) error {
		total := 0
		for _, k := range p.Events {
			for r, err := range c.rows(sqlLoad, k.Tenant, k.ID) {
				if err != nil {
					return err
				}
				// The size is known before the payload is read.
				if total += r.ColumnLen(12); len(out) > 0 && total > p.MaxBytes {
					return nil
				}
				e, err := scanEvent(r)
				if err != nil {
					return err
				}
				e.Payload = r.bytes(12)
				out = append(out, e)
			}
		}
		return nil
	})
	return out, err
}

// scanEvent reads eventColumns.
func scanEvent(r row) (posthaste.Event, error) {
	headers, err := decodeHeaders(r.bytes(5))
	e := posthaste.Event{
		ID: r.id(0), Type: r.ColumnText(1), Source: r.ColumnText(2), ContentType: r.ColumnText(3), ContentEncoding: r.ColumnText(4),
		Headers: headers, FanOut: r.ColumnInt(6), IdempotencyKey: r.ColumnText(7),
		Parent: r.id(8), CorrelationID: r.id(9), OrderKey: r.ColumnText(10), Traceparent: r.ColumnText(11),
	}
	if r.ColumnIsNull(9) {
		e.CorrelationID = e.ID
	}
	return e, err
}

const sqlDeleteDue = `DELETE FROM due WHERE endpoint = ?1 AND due_at = ?2 AND delivery = ?3`

func deleteDue(c *conn, k store.DueKey) error {
	_, err := c.exec(sqlDeleteDue, k.Endpoint, k.DueAt, k.Delivery)
	return err
}
