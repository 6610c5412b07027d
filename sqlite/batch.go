package sqlite

import (
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// batch is an accept on its way through the transaction.
type batch struct {
	*conn
	params  store.AcceptParams
	clock   time.Time // the database's
	answers []store.AcceptedEvent
	known   []bool // the event's key or id is stored already, perhaps by this batch
}

// store runs each statement for the whole batch before the next one: keys
// decide who is new, new events are stored with their deliveries, and the others
// are answered with what is stored, which may be an event of this very batch.
func (b *batch) store(order []int) error {
	if err := b.takeKeys(order); err != nil {
		return err
	}
	if err := b.insertEvents(b.fresh(order)); err != nil {
		return err
	}
	if err := b.insertDeliveries(order); err != nil {
		return err
	}
	for _, i := range order {
		if b.answers[i].Stored {
			continue
		}
		if err := b.answerStored(i); err != nil {
			return err
		}
	}
	return b.refuseOrphans()
}

// refuseOrphans fails where an event is stored and its parent, of the same batch, is not.
func (b *batch) refuseOrphans() error {
	var kept map[posthaste.ID]bool // events of the batch that others stand for
	for i := range b.answers {
		if id := b.params.Events[i].ID; !b.answers[i].Stored && b.answers[i].ID != id {
			if kept == nil {
				kept = map[posthaste.ID]bool{}
			}
			kept[id] = true
		}
	}
	for i := range b.answers {
		if b.answers[i].Stored && kept[b.params.Events[i].Parent] {
			return store.ErrParentKept
		}
	}
	return nil
}

const (
	keyRow      = `(?, ?, ?, ?)`
	fourKeys    = keyRow + `, ` + keyRow + `, ` + keyRow + `, ` + keyRow
	insertKeys  = `INSERT OR FAIL INTO idempotency (key, namespace, tenant, event) VALUES `
	sqlTakeKey  = insertKeys + keyRow + ` ON CONFLICT DO NOTHING`
	sqlTakeKeys = insertKeys + fourKeys + `, ` + fourKeys + `, ` + fourKeys + `, ` + fourKeys + ` ON CONFLICT DO NOTHING`
)

// takeKeys stores the keys of the batch, and finds out which were taken.
func (b *batch) takeKeys(order []int) error {
	keyed := make([]int, 0, len(order))
	for _, i := range order {
		if b.params.Events[i].HasKey() {
			keyed = append(keyed, i)
		}
	}
	w := inserter{conn: b.conn, one: sqlTakeKey, many: sqlTakeKeys, left: len(keyed)}
	for k, i := range keyed {
		e := &b.params.Events[i]
		if err := w.begin(); err != nil {
			return err
		}
		w.blob(e.Key[:])
		w.int(int64(e.Namespace))
		w.int(int64(e.Tenant))
		w.id(e.ID)
		ran, changed, err := w.end()
		if err != nil {
			return err
		}
		if ran == changed {
			continue
		}
		for _, i := range keyed[k+1-ran : k+1] {
			holder, err := b.keyHolder(i)
			if err != nil {
				return err
			}
			b.known[i] = holder != b.params.Events[i].ID
		}
	}
	return nil
}

const sqlKeyHolder = `SELECT event FROM idempotency WHERE key = ?1 AND namespace = ?2 AND tenant = ?3`

// keyHolder returns the event that an event's key names.
func (b *batch) keyHolder(i int) (id posthaste.ID, err error) {
	e := &b.params.Events[i]
	_, err = b.get(sqlKeyHolder, func(r row) { id = r.id(0) }, e.Key, int64(e.Namespace), e.Tenant)
	return id, err
}

// fresh returns those events whose keys were free, each id once.
func (b *batch) fresh(order []int) []int {
	fresh := make([]int, 0, len(order))
	var last posthaste.ID
	for _, i := range order {
		if b.known[i] {
			continue
		}
		if id := b.params.Events[i].ID; id != last {
			fresh, last = append(fresh, i), id
		}
	}
	return fresh
}

const (
	insertEvents = `INSERT OR FAIL INTO events (tenant, id, type, source, content_type, content_encoding, headers, fan_out, idempotency_key,
  parent, correlation_id, order_key, traceparent, source_headers, sum, payload) VALUES `
	eventRow        = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	fourEvents      = eventRow + `, ` + eventRow + `, ` + eventRow + `, ` + eventRow
	sqlInsertEvent  = insertEvents + eventRow + ` ON CONFLICT DO NOTHING`
	sqlInsertEvents = insertEvents + fourEvents + `, ` + fourEvents + `, ` + fourEvents + `, ` + fourEvents + ` ON CONFLICT DO NOTHING`

	sqlLastEventRow = `SELECT max(rowid) FROM events`
	sqlEventRow     = `SELECT rowid FROM events WHERE tenant = ?1 AND id = ?2`
)

// insertEvents stores events. One whose id is stored already is left for
// answerStored.
func (b *batch) insertEvents(fresh []int) error {
	// Rows of this batch are those above the last one before it.
	var before int64
	if _, err := b.get(sqlLastEventRow, func(r row) { before = r.ColumnInt64(0) }); err != nil {
		return err
	}
	w := inserter{conn: b.conn, one: sqlInsertEvent, many: sqlInsertEvents, left: len(fresh)}
	for k, i := range fresh {
		if err := w.begin(); err != nil {
			return err
		}
		bindEvent(&w, &b.params.Events[i])
		ran, changed, err := w.end()
		if err != nil {
			return err
		}
		for _, i := range fresh[k+1-ran : k+1] {
			e := &b.params.Events[i]
			stored := ran == changed
			if !stored {
				if _, err := b.get(sqlEventRow, func(r row) { stored = r.ColumnInt64(0) > before }, e.Tenant, e.ID); err != nil {
					return err
				}
			}
			if stored {
				b.answers[i] = store.AcceptedEvent{Stored: true, ID: e.ID, FanOut: len(e.Deliveries), Sum: e.Sum}
			}
		}
	}
	return nil
}

func bindEvent(w *inserter, e *store.NewEvent) {
	w.int(int64(e.Tenant))
	w.id(e.ID)
	w.text(e.Type)
	w.text(e.Source)
	w.text(e.ContentType)
	w.text(e.ContentEncoding)
	w.orNull(encodeHeaders(e.Headers))
	w.int(int64(len(e.Deliveries)))
	w.text(e.IdempotencyKey)
	w.idOrNull(e.Parent)
	if e.CorrelationID == e.ID {
		w.idOrNull(posthaste.ID{}) // the usual case, stored in no bytes
	} else {
		w.idOrNull(e.CorrelationID)
	}
	w.text(e.OrderKey)
	w.text(e.Traceparent)
	w.orNull(encodeHeaders(e.SourceHeaders))
	w.blob(e.Sum[:])
	w.blob(e.Payload)
}

const (
	insertDeliveries = `INSERT OR FAIL INTO deliveries (id, tenant, endpoint, owner, state, attempts, failures, due_at, run_at, expires_at, outcome, reason, finished_at) VALUES `
	deliveryRow      = `(?, ?, ?, ?, 0, 0, 0, ?, ?, ?, 0, 0, 0)`
	fourDeliveries   = deliveryRow + `, ` + deliveryRow + `, ` + deliveryRow + `, ` + deliveryRow

	sqlInsertDelivery   = insertDeliveries + deliveryRow
	sqlInsertDeliveries = insertDeliveries + fourDeliveries + `, ` + fourDeliveries + `, ` + fourDeliveries + `, ` + fourDeliveries
)

// insertDeliveries stores the deliveries of the events that were stored.
func (b *batch) insertDeliveries(order []int) error {
	total := 0
	for _, i := range order {
		if b.answers[i].Stored {
			total += len(b.params.Events[i].Deliveries)
		}
	}
	w := inserter{conn: b.conn, one: sqlInsertDelivery, many: sqlInsertDeliveries, left: total}
	for _, i := range order {
		e := &b.params.Events[i]
		if !b.answers[i].Stored {
			continue
		}
		for k := range e.Deliveries {
			d := &e.Deliveries[k]
			owner, dueAt := b.params.Epoch, time.Time{}
			switch {
			case d.Ordered:
				owner = 0
				var err error
				if dueAt, err = b.nextPosition(d.Endpoint, b.clock); err != nil {
					return err
				}
			case !d.Leased:
				if owner, dueAt = 0, d.DueAt; dueAt.IsZero() {
					dueAt = b.params.Now
				}
			}
			if err := w.begin(); err != nil {
				return err
			}
			w.id(e.ID.Delivery(uint32(k + 1)))
			w.int(int64(e.Tenant))
			w.int(int64(d.Endpoint))
			w.int(int64(owner))
			w.int(micros(dueAt))
			w.int(micros(b.params.Now))
			w.int(micros(d.ExpiresAt))
			if _, _, err := w.end(); err != nil {
				return err
			}
			if dueAt.IsZero() {
				continue
			}
			if err := insertDue(b.conn, store.DueKey{Endpoint: d.Endpoint, DueAt: dueAt, Delivery: e.ID.Delivery(uint32(k + 1))}); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	sqlStoredEvent = `SELECT fan_out, sum FROM events WHERE tenant = ?1 AND id = ?2`
	sqlPassKey     = `UPDATE idempotency SET event = ?4 WHERE key = ?1 AND namespace = ?2 AND tenant = ?3`
)

// answerStored answers an event that is stored under its key or its id.
func (b *batch) answerStored(i int) (err error) {
	e := &b.params.Events[i]
	a := store.AcceptedEvent{ID: e.ID}
	if b.known[i] {
		if a.ID, err = b.keyHolder(i); err != nil {
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
		b.known[i] = false
		if err := b.insertEvents([]int{i}); err != nil {
			return err
		}
		return b.insertDeliveries([]int{i})
	}
	if a.ID == e.ID {
		if a.Mine, err = livingLeases(b.conn, e.ID, b.params.Epoch); err != nil {
			return err
		}
	}
	b.answers[i] = a
	return nil
}
