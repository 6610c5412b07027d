package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// A row of changes carries the number of its transaction. Numbers are given out
// when transactions begin to write, and rows come to be seen when they commit,
// in any order. But a snapshot says which numbers it sees: all below xmax but
// for those in xip. So the rows that a reader has not seen are those of the
// numbers that the snapshot of its last read did not see; what is still under
// way then stands in the next cursor, and is looked for by its number. A
// transaction that somebody holds open for hours keeps nothing back, and costs a
// look at one key a read.
const headSQL = `select pg_current_snapshot()::text`

// $1 is the cursor's next, $2 what it left open, $3 the end, $4 the limit. A row
// of what was left open comes with the rows of the same transaction, which are one
// for each kind at most.
const changesSQL = `
select s.snapshot, c.xid, c.kind, c.at, c.tenants, c.ids, c.detail
from (select pg_current_snapshot()::text as snapshot) s
left join lateral (
	select c.* from unnest($2::int8[]) o (xid) cross join lateral (
		select xid, kind, at, tenants, ids, detail from changes c where c.xid = o.xid order by c.xid, c.kind limit 9) c
	union all
	(select xid, kind, at, tenants, ids, detail from changes where xid >= $1 and xid < $3 order by xid, kind limit $4)) c on true`

// ChangesHead implements store.Changes.
func (db *DB) ChangesHead(ctx context.Context) (store.Cursor, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var snapshot string
	err := db.side.QueryRow(ctx, headSQL).Scan(&snapshot)
	if err != nil {
		return store.Cursor{}, fail("look where the changes end", err)
	}
	return cursorOf(snapshot)
}

// cursorOf reads a snapshot as PostgreSQL prints it: xmin:xmax:xip,xip …
func cursorOf(snapshot string) (c store.Cursor, err error) {
	parts := strings.SplitN(snapshot, ":", 3)
	if len(parts) != 3 {
		return c, fmt.Errorf("read the snapshot %q: it has no three parts", snapshot)
	}
	if c.Next, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return c, fmt.Errorf("read the snapshot %q: %w", snapshot, err)
	}
	for s := range strings.SplitSeq(parts[2], ",") {
		if s == "" {
			break
		}
		tx, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return c, fmt.Errorf("read the snapshot %q: %w", snapshot, err)
		}
		c.Open = append(c.Open, tx)
	}
	slices.Sort(c.Open)
	return c, nil
}

// ReadChanges implements store.Changes.
func (db *DB) ReadChanges(ctx context.Context, p store.ReadChangesParams) (store.ChangePage, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	page, err := db.readChanges(ctx, p)
	if err != nil {
		return store.ChangePage{}, fail("read changes", err)
	}
	return page, nil
}

func (db *DB) readChanges(ctx context.Context, p store.ReadChangesParams) (store.ChangePage, error) {
	rows, upto, full, err := db.changeRows(ctx, p)
	if err != nil {
		return store.ChangePage{}, err
	}
	page := p.Page(rows, upto, full)
	if page.Gap, err = db.hasGap(ctx, p, rows, upto); err != nil {
		return store.ChangePage{}, err
	}
	return page, db.describe(ctx, page.Changes)
}

const (
	markedSQL = `select exists (select from changes where kind = 0)`
	markSQL   = `insert into changes (kind, at, tenants, ids) select 0, ` + clockSQL + `, '{}', '{}' where not exists (select from changes where kind = 0)`
)

// hasGap reports whether the reader has seen transactions that have not happened in this
// database, or the table was emptied since. It marks a table that was.
func (db *DB) hasGap(ctx context.Context, p store.ReadChangesParams, rows []store.ChangeRow, upto store.Cursor) (bool, error) {
	if !upto.Covers(p.After) {
		return true, nil
	}
	for _, r := range rows {
		if r.Kind == changeMark && upto.Sees(r.Tx) && !p.After.Sees(r.Tx) {
			return true, nil
		}
	}
	var marked bool
	if err := db.lookups.QueryRow(ctx, markedSQL).Scan(&marked); err != nil || marked {
		return false, err
	}
	_, err := db.lookups.Exec(ctx, markSQL)
	return true, err
}

// changeMark is the kind of the row that is there as long as the table is not emptied.
const changeMark store.ChangeKind = 0

// changeRows reads the rows that may be new to the cursor, in order, with what
// can be seen now, and whether there were as many as the limit. Of a cursor that has
// seen a transaction in part it reads that transaction, and nothing else.
func (db *DB) changeRows(ctx context.Context, p store.ReadChangesParams) (rows []store.ChangeRow, upto store.Cursor, full bool, err error) {
	next, end, open := p.After.Next, uint64(math.MaxInt64), p.After.Open
	if p.Until.Next != 0 {
		end = p.Until.Next
	}
	if p.After.Tx != 0 {
		next, open = math.MaxInt64, []uint64{p.After.Tx}
	}
	column := int8Column(len(open))
	for _, tx := range open {
		column.int8(int64(tx))
	}
	limit := max(p.Limit, leastChanges)
	answer, err := db.side.Query(ctx, changesSQL, int64(next), column, int64(end), limit)
	if err != nil {
		return nil, upto, false, err
	}
	var snapshot string
	beyond := 0
	err = eachRow(answer, func(raw [][]byte) {
		snapshot = string(raw[0])
		if raw[1] == nil {
			return
		}
		r := readChangeRow(raw[1:])
		if r.Tx >= next {
			beyond++
		}
		rows = append(rows, r)
	})
	if err != nil {
		return nil, upto, false, err
	}
	slices.SortFunc(rows, func(a, b store.ChangeRow) int { return cmp.Or(cmp.Compare(a.Tx, b.Tx), cmp.Compare(a.Kind, b.Kind)) })
	if upto, err = cursorOf(snapshot); err != nil {
		return nil, upto, false, err
	}
	return rows, upto, beyond == limit, nil
}

// leastChanges is more than the rows of one transaction, so that each page gets on.
const leastChanges = 16

func readChangeRow(raw [][]byte) store.ChangeRow {
	r := store.ChangeRow{
		Tx:     binary.BigEndian.Uint64(raw[0]),
		Kind:   store.ChangeKind(binary.BigEndian.Uint16(raw[1])),
		At:     timeAt(int64(binary.BigEndian.Uint64(raw[2]))),
		Detail: slices.Clone(raw[5]),
	}
	eachElement(raw[3], func(v []byte) { r.Tenants = append(r.Tenants, store.TenantNo(binary.BigEndian.Uint32(v))) })
	eachElement(raw[4], func(v []byte) { r.IDs = append(r.IDs, posthaste.ID(v)) })
	return r
}

// $5 and $6 are the lowest and the highest id, for the executor, as in settleSQL.
const describeSQL = `
select x.place, coalesce(t.name, ''), coalesce(e.type, ''), coalesce(e.correlation, x.event), p.id
from unnest($1::int4[], $2::int4[], $3::uuid[], $4::uuid[]) x (place, tenant, event, delivery)
left join lateral (select name from tenants t where t.no = x.tenant limit 1) t on true
left join lateral (
	select type, correlation from events e
	where e.tenant = x.tenant and e.id = x.event and e.id between $5 and $6 limit 1) e on true
left join lateral (
	select endpoint from deliveries d where d.id = x.delivery and d.id between $5 and $6 limit 1) d on true
left join lateral (select id from endpoints p where p.no = d.endpoint limit 1) p on true`

// describe looks up what the rows of changes don't have.
func (db *DB) describe(ctx context.Context, changes []store.Change) error {
	if len(changes) == 0 {
		return nil
	}
	n := len(changes)
	place, tenant, event, delivery := int4Column(n), int4Column(n), uuidColumn(n), uuidColumn(n)
	var first, last posthaste.ID
	for i := range changes {
		c := &changes[i]
		place.int4(int32(i))
		tenant.int4(int32(c.Tenant))
		event.uuidOrNone(c.Event)
		delivery.uuidOrNone(c.Delivery)
		if c.Event.IsZero() {
			continue
		}
		if first.IsZero() {
			first, last = c.Event, c.Event.Delivery(posthaste.MaxNumber)
		}
		first, last = lower(first, c.Event), higher(last, c.Event.Delivery(posthaste.MaxNumber))
	}
	rows, err := db.side.Query(ctx, describeSQL, place, tenant, event, delivery, [16]byte(first), [16]byte(last))
	if err != nil {
		return err
	}
	return eachRow(rows, func(raw [][]byte) {
		c := &changes[binary.BigEndian.Uint32(raw[0])]
		c.TenantName, c.Type = string(raw[1]), string(raw[2])
		if raw[3] != nil {
			c.CorrelationID = posthaste.ID(raw[3])
		}
		if raw[4] != nil {
			c.Endpoint = posthaste.ID(raw[4])
		}
	})
}

const appendChangeSQL = `insert into changes (kind, at, tenants, ids, detail) values ($1, $2, array[$3::int4], array[$4::uuid], $5)`

// AppendChange implements store.Changes.
func (db *DB) AppendChange(ctx context.Context, p store.AppendChangeParams) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err := db.side.Exec(ctx, appendChangeSQL, int16(p.Kind), micros(p.At), int32(p.Tenant), [16]byte(p.ID), []byte(p.Detail))
	if err != nil {
		return fail("record a change", err)
	}
	return nil
}

const (
	purgeChangesSQL = `
delete from changes where ctid = any (array (
	select ctid from changes where at < $1 and kind <> 0 order by at limit $2))`

	// Rows of transactions that have not begun yet came with a dump of another cluster.
	// Readers would take them for new once this cluster's numbers reach theirs.
	purgeForeignChangesSQL = `
delete from changes where ctid = any (array (
	select ctid from changes where xid >= pg_snapshot_xmax(pg_current_snapshot())::text::int8 limit $1))`
)

func (db *DB) purgeChanges(ctx context.Context, p store.RetainParams, retained *store.Retained) error {
	for range purgeStepsPerCall {
		tag, err := db.chores.Exec(ctx, purgeChangesSQL, micros(p.Now.Add(-store.ChangesPurgeAfter)), p.Limit)
		if err != nil {
			return err
		}
		retained.Changes += int(tag.RowsAffected())
		if int(tag.RowsAffected()) < p.Limit {
			return nil
		}
	}
	retained.More = true
	return nil
}

// purgeForeignChanges deletes what a restored dump brought from another cluster.
func (db *DB) purgeForeignChanges(ctx context.Context) error {
	const step = 10_000
	for {
		tag, err := db.chores.Exec(ctx, purgeForeignChangesSQL, step)
		if err != nil || tag.RowsAffected() < step {
			return err
		}
	}
}
