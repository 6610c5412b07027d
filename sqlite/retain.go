package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// retainRounds is where retention goes on. Events and keys are walked round
// after round, a step a call, because what may not go yet (a dead letter that is
// kept longer) would otherwise be looked at again and again before what may. A
// process that starts anew begins a new round.
type retainRounds struct {
	mu     sync.Mutex // one step at a time; two would delete the same rows
	events eventCursor
	keys   keyCursor

	tombstones tombstoneCursor
}

// eventCursor is a place in the order of events: by tenant, then by id.
type eventCursor struct {
	tenant store.TenantNo
	id     posthaste.ID
}

// keyCursor is a place in the order of idempotency keys.
type keyCursor struct {
	key       store.Hash
	namespace int64
	tenant    store.TenantNo
}

// defaultRetainLimit is the step of a caller that names none.
const defaultRetainLimit = 500

// Retain implements store.Upkeep. A call looks at Limit events and at ten times
// as many keys, without the writer, and deletes about Limit rows at most.
func (db *DB) Retain(ctx context.Context, p store.RetainParams) (store.Retained, error) {
	if p.Limit <= 0 {
		p.Limit = defaultRetainLimit
	}
	db.rounds.mu.Lock()
	defer db.rounds.mu.Unlock()
	horizon := posthaste.FloorID(p.Now.Add(-p.Retention))
	if err := db.raiseHorizon(ctx, horizon); err != nil {
		return store.Retained{}, err
	}
	out, err := db.retainEvents(ctx, p, horizon)
	if err != nil {
		return out, err
	}
	keys, more, err := db.retainKeys(ctx, p)
	out.Keys, out.More = keys, out.More || more
	if err != nil {
		return out, err
	}
	out.Secrets, err = db.dropSecrets(ctx, p.Now, p.Limit)
	out.More = out.More || out.Secrets == p.Limit
	if err != nil {
		return out, err
	}
	out.Endpoints, more, err = db.purgeTombstones(ctx, p.Now.Add(-p.Retention), p.Limit)
	out.More = out.More || more
	if err != nil {
		return out, err
	}
	out.Gates, err = db.dropGates(ctx, p.Limit)
	out.More = out.More || out.Gates == p.Limit
	if err != nil {
		return out, err
	}
	out.Changes, err = db.purgeChanges(ctx, p.Now.Add(-store.ChangesPurgeAfter), p.Limit)
	out.More = out.More || out.Changes == p.Limit
	return out, err
}

const sqlRaiseHorizon = `UPDATE horizon SET id = ?1 WHERE one = 1 AND id < ?1`

// raiseHorizon commits the horizon before anything is looked at: from then on
// no replay or resend brings back what was found finished.
func (db *DB) raiseHorizon(ctx context.Context, to posthaste.ID) error {
	return db.write(ctx, "raise the horizon", func(c *conn) error {
		_, err := c.exec(sqlRaiseHorizon, to)
		return err
	})
}

// retainEvents does one step of the round over events.
func (db *DB) retainEvents(ctx context.Context, p store.RetainParams, horizon posthaste.ID) (store.Retained, error) {
	var out store.Retained
	var finished []eventCursor
	next, more := db.rounds.events, false
	err := db.readOn(ctx, db.chores, "look for events past their retention", func(c *conn) (err error) {
		finished, next, more, err = finishedEvents(c, next, horizon, p)
		return err
	})
	if err != nil {
		return out, err
	}
	if len(finished) > 0 {
		var part store.Retained
		err = db.write(ctx, "delete events past their retention", func(c *conn) (err error) {
			part, err = deleteEvents(c, finished, p.Limit)
			return err
		})
		if err != nil {
			return out, err
		}
		out = part
	}
	if out.More {
		return out, nil // the step is not done: the next call looks at the same place
	}
	db.rounds.events, out.More = next, more
	return out, nil
}

const (
	sqlNextTenant = `SELECT tenant FROM events WHERE tenant > ?1 ORDER BY tenant LIMIT 1`
	sqlOldEvents  = `SELECT id FROM events WHERE tenant = ?1 AND id > ?2 AND id < ?3 ORDER BY id LIMIT ?4`
)

// finishedEvents looks at p.Limit events below the horizon, from a place on, and
// returns those that may go, the place to go on, and whether there are more.
func finishedEvents(c *conn, at eventCursor, horizon posthaste.ID, p store.RetainParams) (out []eventCursor, next eventCursor, more bool, err error) {
	for left := p.Limit; ; {
		var page []posthaste.ID
		for r, err := range c.rows(sqlOldEvents, at.tenant, at.id, horizon, left) {
			if err != nil {
				return nil, at, false, err
			}
			page = append(page, r.id(0))
		}
		for _, id := range page {
			at.id = id
			ok, err := mayGo(c, id, p.Now.Add(-p.DeadRetention))
			if err != nil {
				return nil, at, false, err
			}
			if ok {
				out = append(out, at)
			}
		}
		if left -= len(page); left <= 0 {
			return out, at, true, nil
		}
		tenant := at.tenant
		found, err := c.get(sqlNextTenant, func(r row) { tenant = r.tenant(0) }, at.tenant)
		if err != nil || !found {
			return out, eventCursor{}, false, err
		}
		at = eventCursor{tenant: tenant}
	}
}

const sqlKept = `SELECT 1 FROM deliveries WHERE id > ?1 AND id <= ?2 AND (state = 0 OR state = 2 AND finished_at > ?3) LIMIT 1`

// mayGo reports whether none of an event's deliveries is pending, or dead since
// less than the retention of dead letters.
func mayGo(c *conn, event posthaste.ID, deadBefore time.Time) (bool, error) {
	kept, err := c.get(sqlKept, func(row) {}, event, event.Delivery(posthaste.MaxNumber), deadBefore)
	return !kept, err
}

const (
	sqlLastDeliveries = `SELECT id, tenant, state FROM deliveries WHERE id > ?1 AND id <= ?2 ORDER BY id DESC LIMIT ?3`
	sqlDropAttempts   = `DELETE FROM attempts WHERE delivery = ?1`
	sqlDropDelivery   = `DELETE FROM deliveries WHERE id = ?1`
	sqlDropEvent      = `DELETE FROM events WHERE tenant = ?1 AND id = ?2`
)

// deleteEvents deletes events with all that belongs to them, up to limit
// deliveries. One with more goes from its end, the event itself last, over
// several calls.
func deleteEvents(c *conn, events []eventCursor, limit int) (out store.Retained, err error) {
	left := limit
	for _, e := range events {
		page, err := deletedPage(c, e.id, left)
		if err != nil {
			return out, err
		}
		for _, d := range page {
			if err := deleteDelivery(c, d); err != nil {
				return out, err
			}
			if d.state == posthaste.StateDead {
				out.PurgedDead++
			}
		}
		if left -= len(page); left == 0 {
			out.More = true // perhaps only the event itself is left of it
			return out, nil
		}
		if _, err := c.exec(sqlDropEvent, e.tenant, e.id); err != nil {
			return out, err
		}
		out.Events++
	}
	return out, nil
}

func deletedPage(c *conn, event posthaste.ID, limit int) (page []standing, err error) {
	for r, err := range c.rows(sqlLastDeliveries, event, event.Delivery(posthaste.MaxNumber), limit) {
		if err != nil {
			return nil, err
		}
		page = append(page, standing{id: r.id(0), tenant: r.tenant(1), state: posthaste.State(r.ColumnInt(2))})
	}
	return page, nil
}

func deleteDelivery(c *conn, d standing) error {
	if _, err := c.exec(sqlDropAttempts, d.id); err != nil {
		return err
	}
	if d.state == posthaste.StateDead {
		if err := dropDead(c, d.tenant, d.id); err != nil {
			return err
		}
	}
	_, err := c.exec(sqlDropDelivery, d.id)
	return err
}

// keysLooked is how many keys are looked at for each that may be deleted. Keys
// lie in the order of their hashes, so old ones are anywhere.
const keysLooked = 10

const (
	sqlWalkKeys = `SELECT key, namespace, tenant, event FROM idempotency WHERE (key, namespace, tenant) > (?1, ?2, ?3)
ORDER BY key, namespace, tenant LIMIT ?4`
	sqlDropKey = `DELETE FROM idempotency WHERE key = ?1 AND namespace = ?2 AND tenant = ?3 AND event < ?4`
)

// retainKeys does one step of the round over keys, and reports whether the
// round goes on.
func (db *DB) retainKeys(ctx context.Context, p store.RetainParams) (deleted int, more bool, err error) {
	at, seen, limit := db.rounds.keys, 0, p.Limit
	source, other := p.KeyCuts()
	cut := func(namespace int64) posthaste.ID {
		if namespace == int64(store.NamespaceSource) {
			return source
		}
		return other
	}
	var old []keyCursor
	err = db.readOn(ctx, db.chores, "look for idempotency keys past their window", func(c *conn) error {
		for r, err := range c.rows(sqlWalkKeys, at.key, at.namespace, at.tenant, limit*keysLooked) {
			if err != nil {
				return err
			}
			seen++
			at = keyCursor{key: r.hash(0), namespace: r.ColumnInt64(1), tenant: r.tenant(2)}
			if r.id(3).Compare(cut(at.namespace)) < 0 {
				if old = append(old, at); len(old) == limit {
					break
				}
			}
		}
		return nil
	})
	if err != nil {
		return 0, false, err
	}
	if len(old) > 0 {
		err = db.write(ctx, "delete idempotency keys past their window", func(c *conn) error {
			deleted = 0
			for _, k := range old {
				n, err := c.exec(sqlDropKey, k.key, k.namespace, k.tenant, cut(k.namespace))
				if err != nil {
					return err
				}
				deleted += n
			}
			return nil
		})
		if err != nil {
			return 0, false, err
		}
	}
	if more = len(old) == limit || seen == limit*keysLooked; !more {
		at = keyCursor{} // the round is done
	}
	db.rounds.keys = at
	return deleted, more, nil
}
