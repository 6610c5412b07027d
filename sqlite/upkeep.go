package sqlite

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	sqlNextEndpoint = `SELECT endpoint FROM due WHERE endpoint > ?1 ORDER BY endpoint LIMIT 1`
	sqlFirstUnowned = `SELECT max(due_at, try_at), try_at FROM due WHERE endpoint = ?1 AND owner = 0 ORDER BY due_at, delivery LIMIT 1`
)

// DueEndpoints implements store.Upkeep. It hops from endpoint to endpoint, so
// its cost is their number, not that of their rows.
func (db *DB) DueEndpoints(ctx context.Context) ([]store.EndpointDue, error) {
	var out []store.EndpointDue
	err := db.readOn(ctx, db.chores, "list endpoints with due work", func(c *conn) error {
		for e := (store.EndpointDue{}); ; {
			found, err := c.get(sqlNextEndpoint, func(r row) { e.Endpoint = r.endpoint(0) }, e.Endpoint)
			if err != nil || !found {
				return err
			}
			unowned, err := c.get(sqlFirstUnowned, func(r row) { e.NextAt, e.TryAt = r.at(0), r.at(1) }, e.Endpoint)
			if err != nil {
				return err
			}
			if unowned {
				out = append(out, e)
			}
		}
	})
	return out, err
}

// EndDeleted implements store.Upkeep. Whether an endpoint is deleted is asked in
// the transaction that ends its deliveries, never taken from the caller.
func (db *DB) EndDeleted(ctx context.Context, p store.EndDeletedParams) (int, error) {
	var ended int
	err := db.write(ctx, "end deliveries of deleted endpoints", func(c *conn) error {
		ended = 0
		for _, no := range p.Endpoints {
			deleted := true // absent counts as deleted
			if _, err := c.get(sqlEndpointStanding, func(r row) { deleted = !r.at(1).IsZero() }, no); err != nil {
				return err
			}
			if !deleted {
				continue
			}
			page, err := readDue(c, store.DueKey{Endpoint: no}, forever, p.Limit-ended)
			if err != nil {
				return err
			}
			n, err := endAll(c, page, posthaste.ReasonEndpointDeleted, p.Now)
			if err != nil {
				return err
			}
			ended += n
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return ended, nil
}

// forever is above every due time.
const forever = int64(1) << 62

// EndExpired implements store.Upkeep. Most steps find nothing to end, so it
// looks without the writer and asks again in the transaction that ends.
func (db *DB) EndExpired(ctx context.Context, p store.EndExpiredParams) (store.EndedExpired, error) {
	var out store.EndedExpired
	p.After.Endpoint = p.Endpoint
	expired := false
	err := db.readOn(ctx, db.chores, "look for expired deliveries", func(c *conn) error {
		page, err := readDue(c, p.After, forever, p.Limit)
		for _, d := range page {
			if d.stale || d.Epoch != 0 || d.ExpiresAt.IsZero() {
				continue
			}
			if !d.ExpiresAt.After(p.Now) {
				expired = true
			} else if out.NextExpiry.IsZero() || d.ExpiresAt.Before(out.NextExpiry) {
				out.NextExpiry = d.ExpiresAt
			}
		}
		if len(page) == p.Limit && len(page) > 0 {
			out.Next = page[len(page)-1].key
		}
		return err
	})
	if err != nil || !expired {
		return out, err
	}
	err = db.write(ctx, "end expired deliveries", func(c *conn) error {
		page, err := readDue(c, p.After, forever, p.Limit)
		if err != nil {
			return err
		}
		over := page[:0]
		for _, d := range page {
			if !d.ExpiresAt.IsZero() && !d.ExpiresAt.After(p.Now) {
				over = append(over, d)
			}
		}
		out.Ended, err = endAll(c, over, posthaste.ReasonExpired, p.Now)
		return err
	})
	return out, err
}

const sqlEnd = `UPDATE deliveries SET state = 2, due_at = 0, reason = ?3, finished_at = ?4 WHERE id = ?1 AND state = 0 AND owner = 0 AND due_at = ?2`

// endAll makes unowned due deliveries dead, and drops due rows that are stale.
func endAll(c *conn, page []dueRow, reason posthaste.Reason, now time.Time) (ended int, err error) {
	told := endings{conn: c, at: now}
	for _, d := range page {
		if !d.stale && d.Epoch != 0 {
			continue // the delivery is leased: it ends when that settles
		}
		if err := deleteDue(c, d.key); err != nil {
			return 0, err
		}
		if d.stale {
			continue
		}
		n, err := c.exec(sqlEnd, d.Delivery, d.DueAt, int64(reason), now)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			continue
		}
		ended++
		told.add(posthaste.StateDead, d.Tenant, d.Delivery)
		if err := insertDead(c, d.Tenant, d.Endpoint, d.Delivery); err != nil {
			return 0, err
		}
	}
	return ended, told.write()
}

// MakePartitions implements store.Upkeep: there are none.
func (db *DB) MakePartitions(context.Context, time.Time, time.Time) error { return nil }

const sqlSetting = `SELECT value FROM settings WHERE name = ?1`

// Setting implements store.Upkeep.
func (db *DB) Setting(ctx context.Context, name string) ([]byte, error) {
	var value []byte
	err := db.readOn(ctx, db.lookups, "read setting "+name, func(c *conn) error {
		found, err := c.get(sqlSetting, func(r row) { value = r.bytes(0) }, name)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	return value, err
}

const sqlKeepSetting = `INSERT INTO settings (name, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING`

// KeepSetting implements store.Upkeep.
func (db *DB) KeepSetting(ctx context.Context, name string, value []byte) ([]byte, error) {
	var kept []byte
	err := db.write(ctx, "keep setting "+name, func(c *conn) error {
		if _, err := c.exec(sqlKeepSetting, name, value); err != nil {
			return err
		}
		_, err := c.get(sqlSetting, func(r row) { kept = r.bytes(0) }, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}
