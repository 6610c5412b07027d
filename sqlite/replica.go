package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	sqlEpochs      = `SELECT epoch FROM replicas ORDER BY epoch`
	sqlBusyEpochs  = `SELECT epoch, low_water FROM replicas WHERE busy = 1 ORDER BY epoch`
	sqlAddReplica  = `INSERT INTO replicas (name, busy, delivers, beat_at, low_water) VALUES (?1, 1, ?4, ?2, ?3)`
	sqlLastEpoch   = `SELECT seq FROM sqlite_sequence WHERE name = 'replicas'`
	sqlDropReplica = `DELETE FROM replicas WHERE epoch = ?1`
)

// Register implements store.Replicas. The lock file proves that every other
// epoch is of a process that has ended, or of an earlier life of this one, so
// it reclaims them all.
func (db *DB) Register(ctx context.Context, p store.RegisterParams) (store.Registered, error) {
	var out store.Registered
	err := db.write(ctx, "register replica", func(c *conn) error {
		out = store.Registered{Now: db.now()}
		if _, err := c.get(sqlLastEpoch, func(r row) { out.Rewound = r.epoch(0) < p.Last }); err != nil {
			return err
		}
		var dead []store.Epoch
		for r, err := range c.rows(sqlEpochs) {
			if err != nil {
				return err
			}
			dead = append(dead, r.epoch(0))
		}
		for _, epoch := range dead {
			got, err := reclaim(c, epoch, out.Now)
			if err != nil {
				return err
			}
			out.Reclaimed += got.Deliveries
			out.Endpoints = append(out.Endpoints, got.Endpoints...)
		}
		slices.Sort(out.Endpoints)
		out.Endpoints = slices.Compact(out.Endpoints)
		if _, err := c.exec(sqlAddReplica, p.Name, out.Now, p.LowWater, p.Delivers); err != nil {
			return err
		}
		out.Epoch = store.Epoch(c.LastInsertRowID())
		return nil
	})
	if err != nil {
		return store.Registered{}, err
	}
	return out, nil
}

const (
	sqlBeat     = `UPDATE replicas SET busy = ?4, delivers = ?5, beat_at = ?2, low_water = max(low_water, ?3) WHERE epoch = ?1`
	sqlReplicas = `SELECT epoch, name, busy, beat_at, low_water, delivers FROM replicas ORDER BY epoch`
)

// changedAgain is how far before the time asked for gates that changed are told of
// again, as promised; with one writer there is no need.
const changedAgain = 5 * time.Second

// Beat implements store.Replicas.
func (db *DB) Beat(ctx context.Context, p store.BeatParams) (store.Beat, error) {
	var out store.Beat
	err := db.write(ctx, "beat", func(c *conn) error {
		out = store.Beat{Now: db.now()}
		var at time.Time
		if _, err := c.get(sqlSeenBeat, func(r row) { at = r.at(0) }, p.Epoch); err != nil {
			return err
		}
		if !at.IsZero() && at.Before(p.Seen) {
			return store.ErrRewound
		}
		n, err := c.exec(sqlBeat, p.Epoch, out.Now, p.LowWater, !p.Idle, p.Delivers)
		if err != nil {
			return err
		}
		if n == 0 {
			return store.ErrFenced
		}
		for r, err := range c.rows(sqlReplicas) {
			if err != nil {
				return err
			}
			out.Replicas = append(out.Replicas, store.Replica{
				Epoch: r.epoch(0), Name: r.ColumnText(1), Busy: r.ColumnInt(2) == 1, BeatAt: r.at(3), LowWater: r.id(4), Delivers: r.ColumnInt(5) == 1,
			})
		}
		if out.Newer, err = newerRouting(c, p.Tenants); err != nil {
			return err
		}
		if p.RoutingSince > 0 {
			for r, err := range c.rows(sqlRoutingSince, p.RoutingSince) {
				if err != nil {
					return err
				}
				out.Newer = append(out.Newer, store.TenantVersion{Tenant: r.tenant(0), Version: r.ColumnInt64(1)})
			}
		}
		if p.Gates.IsZero() {
			return nil
		}
		out.Gates, err = listGates(c, sqlChangedGates, p.Gates.Add(-changedAgain))
		return err
	})
	if err != nil {
		return store.Beat{}, err
	}
	return out, nil
}

const sqlRaiseLowWater = `UPDATE replicas SET low_water = max(low_water, ?2) WHERE epoch = ?1`

// RaiseLowWater implements store.Replicas. With one writer nothing is under way.
func (db *DB) RaiseLowWater(ctx context.Context, p store.RaiseLowWaterParams, known func([]store.Lease) bool) error {
	return db.write(ctx, "raise the low-water mark", func(c *conn) error {
		found, err := c.get(sqlSeenBeat, func(row) {}, p.Epoch)
		if err == nil && !found {
			err = store.ErrFenced
		}
		if err != nil {
			return err
		}
		owned, err := listOwned(c, p.From, p.To, p.Epoch)
		if err != nil || !known(owned) {
			return err
		}
		_, err = c.exec(sqlRaiseLowWater, p.Epoch, p.To)
		return err
	})
}

const sqlOwned = `SELECT id, tenant, endpoint, owner, attempts, failures, due_at, expires_at FROM deliveries
WHERE id >= ?1 AND id < ?2 AND owner = ?3 AND state = 0 ORDER BY id`

// Owned implements store.Replicas.
func (db *DB) Owned(ctx context.Context, p store.OwnedParams) ([]store.Lease, error) {
	var out []store.Lease
	err := db.readOn(ctx, db.vital, "list owned deliveries", func(c *conn) (err error) {
		out, err = listOwned(c, p.From, p.To, p.Epoch)
		return err
	})
	return out, err
}

func listOwned(c *conn, from, to posthaste.ID, epoch store.Epoch) (out []store.Lease, err error) {
	for r, err := range c.rows(sqlOwned, from, to, epoch) {
		if err != nil {
			return nil, err
		}
		out = append(out, scanLease(r))
	}
	return out, nil
}

const sqlOwnedDue = `SELECT endpoint, due_at, delivery FROM due
WHERE (endpoint, due_at, delivery) > (?1, ?2, ?3) AND owner = ?4 ORDER BY endpoint, due_at, delivery LIMIT ?5`

// OwnedDue implements store.Replicas.
func (db *DB) OwnedDue(ctx context.Context, p store.OwnedDueParams) ([]store.DueKey, error) {
	var out []store.DueKey
	err := db.readOn(ctx, db.chores, "list owned due rows", func(c *conn) (err error) {
		out, err = ownedDue(c, p.Epoch, p.After, p.Limit)
		return err
	})
	return out, err
}

func ownedDue(c *conn, epoch store.Epoch, after store.DueKey, limit int) (out []store.DueKey, err error) {
	for r, err := range c.rows(sqlOwnedDue, after.Endpoint, after.DueAt, after.Delivery, epoch, limit) {
		if err != nil {
			return nil, err
		}
		out = append(out, store.DueKey{Endpoint: r.endpoint(0), DueAt: r.at(1), Delivery: r.id(2)})
	}
	return out, nil
}

// Revoke implements store.Replicas.
func (db *DB) Revoke(ctx context.Context, p store.RevokeParams) (int, error) {
	var n int
	err := db.write(ctx, "revoke leases", func(c *conn) error {
		n = 0
		for _, l := range p.Leases {
			_, revoked, err := revoke(c, l.Delivery, p.Epoch, p.Now, &l.DueAt)
			if err != nil {
				return err
			}
			if revoked {
				n++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

const sqlRevoke = `UPDATE deliveries SET owner = 0, attempts = ?2, due_at = ?3, outcome = 4 WHERE id = ?1`

// revoke takes a delivery away from the epoch, if it still holds it: the number
// is spent, and the delivery waits in due. leasedAt is the due time of the lease; nil:
// whichever it holds.
func revoke(c *conn, id posthaste.ID, epoch store.Epoch, now time.Time, leasedAt *time.Time) (standing, bool, error) {
	d, found, err := readStanding(c, id)
	if err != nil || !found || d.state != posthaste.StatePending || d.owner != epoch || epoch == 0 {
		return d, false, err
	}
	if leasedAt != nil && !d.dueAt.Equal(*leasedAt) {
		return d, false, nil
	}
	if !d.dueAt.IsZero() {
		if err := deleteDue(c, d.dueKey()); err != nil {
			return d, false, err
		}
	}
	d.attempts, d.owner = d.attempts+1, 0
	if err := recordLost(c, id, d.attempts, epoch, now); err != nil {
		return d, false, err
	}
	times, err := lostInARow(c, id)
	if err != nil {
		return d, false, err
	}
	stays := false // in its place
	if !d.dueAt.IsZero() {
		if stays, err = c.isOrdered(d.endpoint); err != nil {
			return d, false, err
		}
	}
	until, tryAt := now.Add(store.RevokeBackoff(times)), time.Time{}
	if stays {
		d.dueAt, tryAt = d.dueAt.Add(time.Microsecond), until
	} else {
		d.dueAt = until
	}
	if _, err := c.exec(sqlRevoke, id, d.attempts, d.dueAt); err != nil {
		return d, false, err
	}
	return d, true, insertDueFrom(c, d.dueKey(), tryAt)
}

// Beyond four the wait grows no more.
const sqlLastOutcomes = `SELECT outcome FROM attempts WHERE delivery = ?1 ORDER BY number DESC LIMIT 4`

// lostInARow counts the lost attempts at the end of a delivery's history.
func lostInARow(c *conn, id posthaste.ID) (n int, err error) {
	for r, err := range c.rows(sqlLastOutcomes, id) {
		if err != nil {
			return 0, err
		}
		if posthaste.Outcome(r.ColumnInt(0)) != posthaste.OutcomeLost {
			break
		}
		n++
	}
	return n, nil
}

// Retire implements store.Replicas.
func (db *DB) Retire(ctx context.Context, epoch store.Epoch) error {
	return db.write(ctx, "retire replica", func(c *conn) error {
		if err := walkOwned(c, epoch, func(posthaste.ID) error { return store.ErrConflict }); err != nil {
			return err
		}
		left, err := ownedDue(c, epoch, store.DueKey{}, 1)
		if err == nil && len(left) > 0 {
			err = store.ErrConflict
		}
		if err != nil {
			return err
		}
		_, err = c.exec(sqlDropReplica, epoch)
		return err
	})
}

// Wake implements store.Replicas: there is no other replica to tell.
func (db *DB) Wake(context.Context, []store.EndpointNo) error { return nil }

// Listen implements store.Replicas: no hint ever comes.
func (db *DB) Listen(ctx context.Context, _ func([]store.EndpointNo)) error {
	<-ctx.Done()
	return ctx.Err()
}
