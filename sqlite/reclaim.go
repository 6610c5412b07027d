package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const sqlSeenBeat = `SELECT beat_at FROM replicas WHERE epoch = ?1`

// Reclaim implements store.Replicas. Where one process owns the database there
// is nobody to reclaim from; it keeps its promise all the same.
func (db *DB) Reclaim(ctx context.Context, p store.ReclaimParams) (store.Reclaimed, error) {
	var out store.Reclaimed
	err := db.write(ctx, "reclaim", func(c *conn) (err error) {
		var beatAt time.Time
		found, err := c.get(sqlSeenBeat, func(r row) { beatAt = r.at(0) }, p.Dead)
		if err != nil {
			return err
		}
		if !found || !beatAt.Equal(p.SeenBeatAt) {
			return store.ErrConflict
		}
		out, err = reclaim(c, p.Dead, p.Now)
		return err
	})
	if err != nil {
		return store.Reclaimed{}, err
	}
	return out, nil
}

// reclaimPage is how many leases are read before they are revoked.
const reclaimPage = 1000

const (
	sqlLowWater  = `SELECT low_water FROM replicas WHERE epoch = ?1`
	sqlOwnedFrom = `SELECT id FROM deliveries WHERE id >= ?1 AND owner = ?2 AND state = 0 ORDER BY id LIMIT ?3`
)

// reclaim revokes every lease of an epoch and deletes its row. Leases are found
// in two walks: work that was born leased has ids above the low-water mark,
// and claimed work has an owned due row.
func reclaim(c *conn, epoch store.Epoch, now time.Time) (store.Reclaimed, error) {
	var out store.Reclaimed
	endpoints := map[store.EndpointNo]bool{}
	take := func(id posthaste.ID) error {
		d, revoked, err := revoke(c, id, epoch, now, nil)
		if revoked {
			out.Deliveries++
			endpoints[d.endpoint] = true
		}
		return err
	}
	if err := walkOwned(c, epoch, take); err != nil {
		return out, err
	}
	for after := (store.DueKey{}); ; {
		page, err := ownedDue(c, epoch, after, reclaimPage)
		if err != nil {
			return out, err
		}
		for _, k := range page {
			after = k
			if err := take(k.Delivery); err != nil {
				return out, err
			}
			// A delivery that did not agree leaves a row that nobody would claim.
			if err := freeDue(c, k); err != nil {
				return out, err
			}
		}
		if len(page) < reclaimPage {
			break
		}
	}
	for e := range endpoints {
		out.Endpoints = append(out.Endpoints, e)
	}
	slices.Sort(out.Endpoints)
	_, err := c.exec(sqlDropReplica, epoch)
	return out, err
}

// walkOwned visits the deliveries at or above the low-water mark that the epoch owns.
func walkOwned(c *conn, epoch store.Epoch, visit func(posthaste.ID) error) error {
	var from posthaste.ID
	if _, err := c.get(sqlLowWater, func(r row) { from = r.id(0) }, epoch); err != nil {
		return err
	}
	for {
		var page []posthaste.ID
		for r, err := range c.rows(sqlOwnedFrom, from, epoch, reclaimPage) {
			if err != nil {
				return err
			}
			page = append(page, r.id(0))
		}
		for _, id := range page {
			if err := visit(id); err != nil {
				return err
			}
			from = following(id)
		}
		if len(page) < reclaimPage {
			return nil
		}
	}
}

const sqlFreeDue = `UPDATE due SET owner = 0 WHERE endpoint = ?1 AND due_at = ?2 AND delivery = ?3 AND owner <> 0`

func freeDue(c *conn, k store.DueKey) error {
	_, err := c.exec(sqlFreeDue, k.Endpoint, k.DueAt, k.Delivery)
	return err
}
