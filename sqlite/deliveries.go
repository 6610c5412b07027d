package sqlite

import (
	"context"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	deliveryColumns = `SELECT d.id, d.tenant, d.endpoint, d.owner, d.state, d.attempts, d.failures, d.due_at, d.run_at, d.expires_at, d.outcome, d.reason, d.finished_at
FROM deliveries d `
	sqlDelivery = deliveryColumns + `WHERE d.id = ?1`
)

// Delivery implements store.Reading.
func (db *DB) Delivery(ctx context.Context, tenant store.TenantNo, id posthaste.ID) (store.DeliveryRow, error) {
	var out store.DeliveryRow
	err := db.read(ctx, "read delivery", func(c *conn) error {
		return c.snapshot(func() error {
			found := false
			_, err := c.get(sqlDelivery, func(r row) {
				out = scanDelivery(r)
				found = tenant == 0 || out.Tenant == tenant
			}, id)
			if err == nil && !found {
				err = store.ErrNotFound
			}
			if err != nil {
				return err
			}
			if out.Type, err = eventType(c, out.Tenant, id.Event()); err != nil {
				return err
			}
			return complete(c, &out)
		})
	})
	if err != nil {
		return store.DeliveryRow{}, err
	}
	return out, nil
}

func scanDelivery(r row) store.DeliveryRow {
	d := store.DeliveryRow{Tenant: r.tenant(1), Endpoint: r.endpoint(2), Delivery: posthaste.Delivery{
		ID: r.id(0), Leased: r.epoch(3) != 0, State: posthaste.State(r.ColumnInt(4)), Attempts: r.ColumnInt(5), Failures: r.ColumnInt(6),
		RunAt: r.at(8), ExpiresAt: r.at(9), LastOutcome: posthaste.Outcome(r.ColumnInt(10)),
		Reason: posthaste.Reason(r.ColumnInt(11)), FinishedAt: r.at(12),
	}}
	if d.State == posthaste.StatePending && !d.Leased {
		d.NextAttemptAt = r.at(7)
	}
	return d
}

const sqlEventType = `SELECT type FROM events WHERE tenant = ?1 AND id = ?2`

func eventType(c *conn, tenant store.TenantNo, event posthaste.ID) (t string, err error) {
	_, err = c.get(sqlEventType, func(r row) { t = r.ColumnText(0) }, tenant, event)
	return t, err
}

const (
	sqlEndpointID = `SELECT id FROM endpoints WHERE no = ?1`
	sqlTryAt      = `SELECT try_at FROM due WHERE endpoint = ?1 AND due_at = ?2 AND delivery = ?3`
	sqlLastError  = `SELECT error FROM attempts WHERE delivery = ?1 ORDER BY number DESC LIMIT 1`
)

// complete adds what stands in other tables.
func complete(c *conn, d *store.DeliveryRow) error {
	if _, err := c.get(sqlEndpointID, func(r row) { d.EndpointID = r.id(0) }, d.Endpoint); err != nil {
		return err
	}
	if !d.NextAttemptAt.IsZero() { // at an ordered endpoint that is its place, and its row says when
		tryAt := d.NextAttemptAt
		if _, err := c.get(sqlTryAt, func(r row) { tryAt = r.at(0) }, d.Endpoint, d.NextAttemptAt, d.ID); err != nil {
			return err
		}
		if tryAt.After(d.NextAttemptAt) {
			d.NextAttemptAt = tryAt
		}
	}
	_, err := c.get(sqlLastError, func(r row) { d.LastError = string(r.bytes(0)) }, d.ID)
	return err
}

// ListDeliveries implements store.Reading. There is no index by state or by
// tenant; each way to ask walks the one that serves it best.
func (db *DB) ListDeliveries(ctx context.Context, p store.ListDeliveriesParams) (store.DeliveryPage, error) {
	var out store.DeliveryPage
	err := db.read(ctx, "list deliveries", func(c *conn) error {
		return c.snapshot(func() error {
			l := lister{conn: c, params: p}
			err := l.run()
			out = l.page
			return err
		})
	})
	if err != nil {
		return store.DeliveryPage{}, err
	}
	return out, nil
}

// lister fills a page of deliveries.
type lister struct {
	*conn
	params   store.ListDeliveriesParams
	page     store.DeliveryPage
	examined int
}

// walkBlock is how many ids are read before the rows that they name.
const walkBlock = 500

const (
	sqlWalkEvent        = deliveryColumns + `WHERE d.id >= ?1 AND d.id < ?2 ORDER BY d.id DESC LIMIT ?3`
	sqlWalkEndpoint     = `SELECT id FROM deliveries WHERE endpoint = ?4 AND id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3`
	sqlWalkDead         = `SELECT delivery FROM dead WHERE tenant = ?4 AND delivery >= ?1 AND delivery < ?2 ORDER BY delivery DESC LIMIT ?3`
	sqlWalkEndpointDead = `SELECT delivery FROM dead WHERE endpoint = ?4 AND delivery >= ?1 AND delivery < ?2 ORDER BY delivery DESC LIMIT ?3`
	sqlWalkEvents       = `SELECT id FROM events WHERE tenant = ?4 AND id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3`
)

func (l *lister) run() error {
	p := &l.params
	from, to := bounds(p.Since, p.Until, p.Before)
	dead := p.Status == posthaste.StateDead.String()
	switch {
	case !p.Event.IsZero():
		if p.Event.Compare(from) > 0 {
			from = p.Event
		}
		if end := following(p.Event.Delivery(posthaste.MaxNumber)); end.Compare(to) < 0 {
			to = end
		}
		return l.event(from, to)
	case dead && p.Endpoint != 0:
		return l.walk(sqlWalkEndpointDead, from, to, p.Endpoint)
	case dead && p.Tenant != 0:
		return l.walk(sqlWalkDead, from, to, p.Tenant)
	case p.Endpoint != 0:
		return l.walk(sqlWalkEndpoint, from, to, p.Endpoint)
	case p.Tenant == 0: // the dead too: their index is by tenant
		return l.event(from, to)
	}
	return l.events(from, to)
}

// walk lists the deliveries that an index names, in blocks.
func (l *lister) walk(query string, from, to posthaste.ID, of any) error {
	for !l.full() {
		ids, err := l.block(query, from, to, of)
		if err != nil {
			return err
		}
		for _, id := range ids {
			var d store.DeliveryRow
			found, err := l.get(sqlDelivery, func(r row) { d = scanDelivery(r) }, id)
			if err == nil && found {
				err = l.look(d)
			}
			if err != nil {
				return err
			}
			if l.examined++; l.full() {
				l.page.Next = id
				return nil
			}
		}
		if len(ids) < walkBlock {
			return nil
		}
		to = ids[len(ids)-1]
	}
	return nil
}

func (l *lister) block(query string, from, to posthaste.ID, of any) (ids []posthaste.ID, err error) {
	for r, err := range l.rows(query, from, to, walkBlock, of) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, r.id(0))
	}
	return ids, nil
}

// events lists the deliveries of the tenant: its events, newest first, and of
// each the range of its deliveries.
func (l *lister) events(from, to posthaste.ID) error {
	for upper := to; ; {
		ids, err := l.block(sqlWalkEvents, from, upper, l.params.Tenant)
		if err != nil {
			return err
		}
		for _, id := range ids {
			// The cursor may be in the middle of an event.
			end := following(id.Delivery(posthaste.MaxNumber))
			if end.Compare(to) > 0 {
				end = to
			}
			if err := l.event(id, end); err != nil || !l.page.Next.IsZero() {
				return err
			}
			if l.examined++; l.full() {
				l.page.Next = id
				return nil
			}
		}
		if len(ids) < walkBlock {
			return nil
		}
		upper = ids[len(ids)-1]
	}
}

// event lists deliveries of one event, or of all events in a range.
func (l *lister) event(from, to posthaste.ID) error {
	for r, err := range l.rows(sqlWalkEvent, from, to, store.MaxExamined-l.examined) {
		if err != nil {
			return err
		}
		d := scanDelivery(r)
		if err := l.look(d); err != nil {
			return err
		}
		if l.examined++; l.full() {
			l.page.Next = d.ID
			return nil
		}
	}
	return nil
}

func (l *lister) full() bool {
	return len(l.page.Deliveries) >= l.params.Limit || l.examined >= store.MaxExamined
}

// look adds a delivery to the page if it passes the filters.
func (l *lister) look(d store.DeliveryRow) (err error) {
	p := &l.params
	if p.Tenant != 0 && d.Tenant != p.Tenant {
		return nil
	}
	if p.Status != "" && d.Status() != p.Status || p.Endpoint != 0 && d.Endpoint != p.Endpoint {
		return nil
	}
	if d.Type, err = eventType(l.conn, d.Tenant, d.EventID()); err != nil || p.Type != "" && d.Type != p.Type {
		return err
	}
	if err := complete(l.conn, &d); err != nil {
		return err
	}
	l.page.Deliveries = append(l.page.Deliveries, d)
	return nil
}
