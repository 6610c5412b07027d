package sqlite

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// One writer takes turns, so rows are numbered in the order of their commits and
// without gaps: a reader that has seen one has seen all below it. A number is never
// given twice, also after the table was emptied.
const (
	sqlTell       = `INSERT INTO changes (at, kind, entries, detail) VALUES (?1, ?2, ?3, ?4)`
	sqlLastChange = `SELECT seq FROM sqlite_sequence WHERE name = 'changes'`
	sqlChanges    = `SELECT seq, at, kind, entries, detail FROM changes WHERE seq >= ?1 AND seq < ?2 ORDER BY seq LIMIT ?3`
	sqlOldChanges = `DELETE FROM changes WHERE at < ?1 AND seq IN (SELECT seq FROM changes ORDER BY seq LIMIT ?2)`
)

// entryBytes is the length of a tenant's number and an id.
const entryBytes = 4 + 16

func appendEntry(entries []byte, tenant store.TenantNo, id posthaste.ID) []byte {
	return append(binary.BigEndian.AppendUint32(entries, uint32(tenant)), id[:]...)
}

// tell records the events that the batch has stored.
func (b *batch) tell(order []int) error {
	entries := make([]byte, 0, len(order)*entryBytes)
	for _, i := range order {
		if b.answers[i].Stored {
			entries = appendEntry(entries, b.params.Events[i].Tenant, b.answers[i].ID)
		}
	}
	return tell(b.conn, b.params.Now, store.ChangeAccepted, entries)
}

func tell(c *conn, at time.Time, kind store.ChangeKind, entries []byte) error {
	if len(entries) == 0 {
		return nil
	}
	_, err := c.exec(sqlTell, at, int64(kind), entries, nil)
	return err
}

// endings collects the deliveries that a transaction ends.
type endings struct {
	conn            *conn
	at              time.Time
	delivered, dead []byte
}

func (e *endings) add(state posthaste.State, tenant store.TenantNo, delivery posthaste.ID) {
	switch state {
	case posthaste.StateDelivered:
		e.delivered = appendEntry(e.delivered, tenant, delivery)
	case posthaste.StateDead:
		e.dead = appendEntry(e.dead, tenant, delivery)
	}
}

// write records them.
func (e *endings) write() error {
	if err := tell(e.conn, e.at, store.ChangeDelivered, e.delivered); err != nil {
		return err
	}
	return tell(e.conn, e.at, store.ChangeDead, e.dead)
}

// AppendChange implements store.Changes.
func (db *DB) AppendChange(ctx context.Context, p store.AppendChangeParams) error {
	return db.write(ctx, "record a change", func(c *conn) error {
		_, err := c.exec(sqlTell, p.At, int64(p.Kind), appendEntry(nil, p.Tenant, p.ID), []byte(p.Detail))
		return err
	})
}

// ChangesHead implements store.Changes.
func (db *DB) ChangesHead(ctx context.Context) (store.Cursor, error) {
	var head store.Cursor
	err := db.read(ctx, "look where the changes end", func(c *conn) (err error) {
		head, err = changesHead(c)
		return err
	})
	return head, err
}

func changesHead(c *conn) (head store.Cursor, err error) {
	head.Next = 1
	_, err = c.get(sqlLastChange, func(r row) { head.Next = uint64(r.ColumnInt64(0)) + 1 })
	return head, err
}

// ReadChanges implements store.Changes.
func (db *DB) ReadChanges(ctx context.Context, p store.ReadChangesParams) (store.ChangePage, error) {
	var page store.ChangePage
	err := db.read(ctx, "read changes", func(c *conn) error {
		return c.snapshot(func() error {
			upto, err := changesHead(c)
			if err != nil {
				return err
			}
			limit := max(p.Limit, 2) // one row of a full page is read again
			rows, err := changeRows(c, p, limit)
			if err != nil {
				return err
			}
			page = p.Page(rows, upto, len(rows) == limit)
			page.Gap = hasGap(p, rows, upto)
			return describe(c, page.Changes)
		})
	})
	if err != nil {
		return store.ChangePage{}, err
	}
	return page, nil
}

// hasGap reports whether the number that follows those that the reader has seen is
// missing, or the reader has seen numbers that were never given.
func hasGap(p store.ReadChangesParams, rows []store.ChangeRow, head store.Cursor) bool {
	next := max(1, p.After.Next)
	if p.Until.Next != 0 && p.Until.Next <= next {
		return false // it asks for nothing
	}
	if len(rows) > 0 {
		return rows[0].Tx != next
	}
	return head.Next != next
}

func changeRows(c *conn, p store.ReadChangesParams, limit int) (rows []store.ChangeRow, err error) {
	from, end := p.After.Next, uint64(math.MaxInt64)
	if p.Until.Next != 0 {
		end = p.Until.Next
	}
	if p.After.Tx != 0 {
		from, end, limit = p.After.Tx, p.After.Tx+1, 1
	}
	for r, err := range c.rows(sqlChanges, int64(from), int64(end), limit) {
		if err != nil {
			return nil, err
		}
		row := store.ChangeRow{Tx: uint64(r.ColumnInt64(0)), At: r.at(1), Kind: store.ChangeKind(r.ColumnInt64(2)), Detail: r.bytes(4)}
		for entries := r.bytes(3); len(entries) >= entryBytes; entries = entries[entryBytes:] {
			row.Tenants = append(row.Tenants, store.TenantNo(binary.BigEndian.Uint32(entries)))
			row.IDs = append(row.IDs, posthaste.ID(entries[4:entryBytes]))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

const (
	sqlTenantName       = `SELECT name FROM tenants WHERE no = ?1`
	sqlTypeOfEvent      = `SELECT type, correlation_id FROM events WHERE tenant = ?1 AND id = ?2`
	sqlDeliveryEndpoint = `SELECT p.id FROM deliveries d JOIN endpoints p ON p.no = d.endpoint WHERE d.id = ?1`
)

// describe looks up what the rows of changes don't have.
func describe(c *conn, changes []store.Change) error {
	for i := range changes {
		change := &changes[i]
		if _, err := c.get(sqlTenantName, func(r row) { change.TenantName = r.ColumnText(0) }, change.Tenant); err != nil {
			return err
		}
		if change.Event.IsZero() {
			continue
		}
		change.CorrelationID = change.Event
		_, err := c.get(sqlTypeOfEvent, func(r row) {
			change.Type = r.ColumnText(0)
			if id := r.id(1); !id.IsZero() {
				change.CorrelationID = id
			}
		}, change.Tenant, change.Event)
		if err != nil {
			return err
		}
		if change.Delivery.IsZero() {
			continue
		}
		if _, err := c.get(sqlDeliveryEndpoint, func(r row) { change.Endpoint = r.id(0) }, change.Delivery); err != nil {
			return err
		}
	}
	return nil
}

// purgeChanges deletes the oldest rows, limit of them at most.
func (db *DB) purgeChanges(ctx context.Context, before time.Time, limit int) (deleted int, err error) {
	err = db.write(ctx, "delete old changes", func(c *conn) (err error) {
		deleted, err = c.exec(sqlOldChanges, before, limit)
		return err
	})
	return deleted, err
}
