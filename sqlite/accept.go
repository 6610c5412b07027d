package sqlite

import (
	"context"
	"slices"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Accept implements store.Acceptance.
func (db *DB) Accept(ctx context.Context, p store.AcceptParams) (store.Accepted, error) {
	var out store.Accepted
	order := byID(p.Events)
	err := db.write(ctx, "accept events", func(c *conn) (err error) {
		out = store.Accepted{}
		if err := db.fence(c, p.Epoch); err != nil {
			return err
		}
		if err := aboveLowWater(c, p, order); err != nil {
			return err
		}
		if out.Stale, err = newerRouting(c, p.Routing); err != nil || out.Stale != nil {
			return err
		}
		out.Events = make([]store.AcceptedEvent, len(p.Events))
		b := batch{conn: c, params: p, clock: db.now(), answers: out.Events, known: make([]bool, len(p.Events))}
		if err := b.store(order); err != nil {
			return err
		}
		return b.tell(order)
	})
	if err != nil {
		return store.Accepted{}, err
	}
	return out, nil
}

// byID returns the places of events in the order of their ids. In that order
// their rows, and those of their deliveries, go to the right edge of their
// trees: SQLite then fills each page before it begins the next, where rows that
// arrive out of order would split pages in halves.
func byID(events []store.NewEvent) []int {
	order := make([]int, len(events))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return events[a].ID.Compare(events[b].ID) })
	return order
}

const sqlFence = `SELECT 1 FROM replicas WHERE epoch = ?1 AND busy = 1 AND beat_at > ?2`

// fence fails unless the epoch has a fresh row: one that nobody would look
// after must not take work.
func (db *DB) fence(c *conn, epoch store.Epoch) error {
	ok, err := c.get(sqlFence, func(row) {}, epoch, db.now().Add(-store.FreshBeat))
	if err == nil && !ok {
		err = store.ErrFenced
	}
	return err
}

// aboveLowWater fails where the batch, in the order of its ids, begins below the
// low-water mark: what is born leased there, nobody would look for.
func aboveLowWater(c *conn, p store.AcceptParams, order []int) error {
	if len(order) == 0 {
		return nil
	}
	var mark posthaste.ID
	_, err := c.get(sqlLowWater, func(r row) { mark = r.id(0) }, p.Epoch)
	if err == nil && p.Events[order[0]].ID.Compare(mark) < 0 {
		err = store.ErrFenced
	}
	return err
}

const sqlRoutingVersion = `SELECT routing_version FROM tenants WHERE no = ?1`

const sqlLivingLeases = `SELECT id, tenant, endpoint, owner, attempts, failures, due_at, expires_at FROM deliveries
WHERE id > ?1 AND id <= ?2 AND state = 0 AND owner = ?3 ORDER BY id`

// livingLeases lists the deliveries of an event that the epoch leases.
func livingLeases(c *conn, event posthaste.ID, epoch store.Epoch) (leases []store.Lease, err error) {
	for r, err := range c.rows(sqlLivingLeases, event, event.Delivery(posthaste.MaxNumber), epoch) {
		if err != nil {
			return nil, err
		}
		leases = append(leases, scanLease(r))
	}
	return leases, nil
}

// scanLease reads id, tenant, endpoint, owner, attempts, failures, due_at and expires_at.
func scanLease(r row) store.Lease {
	return store.Lease{
		Delivery: r.id(0), Tenant: r.tenant(1), Endpoint: r.endpoint(2), Epoch: r.epoch(3),
		Number: r.ColumnInt(4) + 1, Failures: r.ColumnInt(5), DueAt: r.at(6), ExpiresAt: r.at(7),
	}
}

const sqlEventOfKey = `SELECT e.id, e.correlation_id, e.fan_out, e.sum FROM idempotency i
JOIN events e ON e.tenant = i.tenant AND e.id = i.event WHERE i.key = ?1 AND i.namespace = ?2 AND i.tenant = ?3`

// EventOfKey implements store.Acceptance.
func (db *DB) EventOfKey(ctx context.Context, p store.KeyParams) (out store.KeptEvent, err error) {
	err = db.readOn(ctx, db.lookups, "look up an idempotency key", func(c *conn) error {
		found, err := c.get(sqlEventOfKey, func(r row) {
			out = store.KeptEvent{ID: r.id(0), CorrelationID: r.id(1), FanOut: r.ColumnInt(2), Sum: r.hash(3)}
		}, p.Key, int64(p.Namespace), p.Tenant)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		if out.CorrelationID.IsZero() {
			out.CorrelationID = out.ID
		}
		return err
	})
	return out, err
}
