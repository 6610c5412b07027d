package sqlite

import (
	"context"
	"fmt"
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
		if out.Stale, err = staleRouting(c, p.Routing); err != nil || out.Stale != nil {
			return err
		}
		out.Events = make([]store.AcceptedEvent, len(p.Events))
		b := batch{conn: c, params: p, answers: out.Events, known: make([]bool, len(p.Events))}
		return b.store(order)
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

const sqlRoutingVersion = `SELECT routing_version FROM tenants WHERE no = ?1`

// staleRouting returns the present versions of those tenants that are at
// another version than the caller's.
func staleRouting(c *conn, seen []store.TenantVersion) (stale []store.TenantVersion, err error) {
	for _, v := range seen {
		now := v
		found, err := c.get(sqlRoutingVersion, func(r row) { now.Version = r.ColumnInt64(0) }, v.Tenant)
		if err == nil && !found {
			err = fmt.Errorf("tenant %d: %w", v.Tenant, store.ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		if now.Version != v.Version {
			stale = append(stale, now)
		}
	}
	return stale, nil
}

// batch is an accept on its way through the transaction.
type batch struct {
	*conn
	params  store.AcceptParams
	answers []store.AcceptedEvent
	known   []bool // the event's key is stored already
}

// store runs each statement for the whole batch before the next one, in three
// passes: keys decide who is new, new events are stored, and the others are
// answered with what is stored, which may be an event of this very batch.
func (b *batch) store(order []int) error {
	for _, i := range order {
		if err := b.takeKey(i); err != nil {
			return err
		}
	}
	for _, i := range order {
		if b.known[i] {
			continue
		}
		if err := b.insert(i); err != nil {
			return err
		}
	}
	for _, i := range order {
		if b.answers[i].Stored {
			continue
		}
		if err := b.answerStored(i); err != nil {
			return err
		}
	}
	return nil
}

const sqlTakeKey = `INSERT INTO idempotency (key, namespace, tenant, event) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING`

func (b *batch) takeKey(i int) error {
	e := &b.params.Events[i]
	if e.IdempotencyKey == "" {
		return nil
	}
	n, err := b.exec(sqlTakeKey, e.Key, int64(e.Namespace), e.Tenant, e.ID)
	b.known[i] = n == 0
	return err
}

const sqlInsertEvent = `INSERT INTO events (tenant, id, type, source, content_type, content_encoding, headers, fan_out, idempotency_key,
  parent, correlation_id, order_key, traceparent, sum, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) ON CONFLICT DO NOTHING`

// insert stores an event with its deliveries. An event whose id is stored
// already is left for answerStored.
func (b *batch) insert(i int) error {
	e := &b.params.Events[i]
	correlation := e.CorrelationID
	if correlation == e.ID {
		correlation = posthaste.ID{} // the usual case, stored in no bytes
	}
	n, err := b.exec(sqlInsertEvent, e.Tenant, e.ID, e.Type, e.Source, e.ContentType, e.ContentEncoding, orNull(encodeHeaders(e.Headers)),
		len(e.Deliveries), e.IdempotencyKey, idOrNull(e.Parent), idOrNull(correlation), e.OrderKey, e.Traceparent, e.Sum, e.Payload)
	if err != nil || n == 0 {
		return err
	}
	for k, d := range e.Deliveries {
		if err := b.insertDelivery(e, uint32(k+1), d); err != nil {
			return err
		}
	}
	b.answers[i] = store.AcceptedEvent{Stored: true, ID: e.ID, FanOut: len(e.Deliveries), Sum: e.Sum}
	return nil
}

const (
	sqlInsertDelivery = `INSERT INTO deliveries (id, tenant, endpoint, owner, state, attempts, failures, due_at, run_at, expires_at, outcome, reason, finished_at)
VALUES (?1, ?2, ?3, ?4, 0, 0, 0, ?5, ?6, ?7, 0, 0, 0)`
	sqlInsertDue = `INSERT INTO due (endpoint, due_at, delivery) VALUES (?1, ?2, ?3)`
)

func (b *batch) insertDelivery(e *store.NewEvent, number uint32, d store.NewDelivery) error {
	id := e.ID.Delivery(number)
	owner, dueAt := b.params.Epoch, int64(0)
	if !d.Leased {
		owner, dueAt = 0, micros(d.DueAt)
	}
	if _, err := b.exec(sqlInsertDelivery, id, e.Tenant, d.Endpoint, owner, dueAt, b.params.Now, d.ExpiresAt); err != nil {
		return err
	}
	if d.Leased {
		return nil
	}
	_, err := b.exec(sqlInsertDue, d.Endpoint, dueAt, id)
	return err
}

const (
	sqlKeyHolder   = `SELECT event FROM idempotency WHERE key = ?1 AND namespace = ?2 AND tenant = ?3`
	sqlStoredEvent = `SELECT fan_out, sum FROM events WHERE tenant = ?1 AND id = ?2`
	sqlPassKey     = `UPDATE idempotency SET event = ?4 WHERE key = ?1 AND namespace = ?2 AND tenant = ?3`
)

// answerStored answers an event that is stored under its key or its id.
func (b *batch) answerStored(i int) error {
	e := &b.params.Events[i]
	a := store.AcceptedEvent{ID: e.ID}
	if b.known[i] {
		if _, err := b.get(sqlKeyHolder, func(r row) { a.ID = r.id(0) }, e.Key, int64(e.Namespace), e.Tenant); err != nil {
			return err
		}
	}
	found, err := b.get(sqlStoredEvent, func(r row) { a.FanOut, a.Sum = r.ColumnInt(0), r.hash(1) }, e.Tenant, a.ID)
	if err != nil {
		return err
	}
	if !found {
		// Retention has deleted the event and not yet its key. An answer that names
		// an event that is gone helps nobody: the key passes to this event.
		if _, err := b.exec(sqlPassKey, e.Key, int64(e.Namespace), e.Tenant, e.ID); err != nil {
			return err
		}
		return b.insert(i)
	}
	if a.ID == e.ID {
		if a.Mine, err = livingLeases(b.conn, e.ID, b.params.Epoch); err != nil {
			return err
		}
	}
	b.answers[i] = a
	return nil
}

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
