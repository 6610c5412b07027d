package sqlite

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	sqlDueAfter = `SELECT due_at, delivery FROM due WHERE endpoint = ?1 AND due_at > ?2 AND owner = 0 ORDER BY due_at, delivery LIMIT ?3`
	sqlPullBack = `UPDATE deliveries SET due_at = ?3, expires_at = min(expires_at, ?4)
WHERE id = ?1 AND state = 0 AND owner = 0 AND due_at = ?2`
	sqlFirstTryAt = `SELECT due_at, delivery, try_at FROM due WHERE endpoint = ?1 AND owner = 0 ORDER BY due_at, delivery LIMIT 1`
	sqlSetTryAt   = `UPDATE due SET try_at = ?4 WHERE endpoint = ?1 AND due_at = ?2 AND delivery = ?3`
)

// PullBack implements store.Upkeep.
func (db *DB) PullBack(ctx context.Context, p store.PullBackParams) (int, error) {
	var moved int
	err := db.write(ctx, "pull back what waits too long", func(c *conn) error {
		moved = 0
		at := p.Now
		for _, e := range p.Endpoints {
			var page []store.DueKey
			for r, err := range c.rows(sqlDueAfter, e.Endpoint, e.Latest, p.Limit-moved) {
				if err != nil {
					return err
				}
				page = append(page, store.DueKey{Endpoint: e.Endpoint, DueAt: r.at(0), Delivery: r.id(1)})
			}
			for _, k := range page {
				at = at.Add(time.Microsecond)
				if err := pullBack(c, k, at, e.ExpiresAt); err != nil {
					return err
				}
				moved++
			}
			tried, err := tryNow(c, e, p.Now)
			if err != nil {
				return err
			}
			if tried {
				moved++
			}
			if moved >= p.Limit {
				return nil
			}
		}
		return nil
	})
	return moved, err
}

// pullBack moves a delivery and its due row; a row that no delivery confirms goes.
func pullBack(c *conn, k store.DueKey, at, expiresAt time.Time) error {
	if err := deleteDue(c, k); err != nil {
		return err
	}
	n, err := c.exec(sqlPullBack, k.Delivery, k.DueAt, at, expiresAt)
	if err != nil || n == 0 {
		return err
	}
	k.DueAt = at
	return insertDue(c, k)
}

// tryNow lets the first row of an endpoint be tried, which alone can hold up the others.
func tryNow(c *conn, e store.LongestWait, now time.Time) (bool, error) {
	var dueAt, tryAt time.Time
	var id posthaste.ID
	found, err := c.get(sqlFirstTryAt, func(r row) { dueAt, id, tryAt = r.at(0), r.id(1), r.at(2) }, e.Endpoint)
	if err != nil || !found || !tryAt.After(e.Latest) {
		return false, err
	}
	_, err = c.exec(sqlSetTryAt, e.Endpoint, dueAt, id, now)
	return err == nil, err
}
