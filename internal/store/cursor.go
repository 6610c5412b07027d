package store

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Cursor is what a reader has seen: every transaction whose number is below
// Next, but for those in Open, which were not committed when it looked; and of the
// transaction Tx, unless that is 0, the changes up to Kind and Place. The zero
// cursor has seen nothing.
//
// A driver numbers transactions in the order of their beginning. Where they commit in the
// same order, as on SQLite, Open is always empty.
type Cursor struct {
	Next  uint64
	Open  []uint64 // ascending, all below Next; shared, not to be changed
	Tx    uint64   // is Next, or in Open
	Kind  ChangeKind
	Place int // counts the changes of a kind in a transaction from 1
}

// Sees reports whether the whole of a transaction has been seen.
func (c Cursor) Sees(tx uint64) bool {
	if tx >= c.Next {
		return false
	}
	_, open := slices.BinarySearch(c.Open, tx)
	return !open
}

// Covers reports whether c has seen all that other has.
func (c Cursor) Covers(other Cursor) bool {
	if other.Next > c.Next || (other.Tx != 0 && !c.Sees(other.Tx)) {
		return false
	}
	for _, tx := range c.Open {
		if other.Sees(tx) {
			return false
		}
	}
	return true
}

// Through adds to what c has seen what upto has seen of the transactions below
// end. That of c in part is to be finished before: see Finish.
func (c Cursor) Through(upto Cursor, end uint64) Cursor {
	next := Cursor{Next: max(c.Next, min(end, upto.Next))}
	for _, tx := range c.Open {
		if tx >= end || !upto.Sees(tx) {
			next.Open = append(next.Open, tx)
		}
	}
	from, _ := slices.BinarySearch(upto.Open, c.Next)
	for _, tx := range upto.Open[from:] {
		if tx < next.Next {
			next.Open = append(next.Open, tx)
		}
	}
	return next
}

// Finish adds to what c has seen the rest of the transaction that it has seen in part.
func (c Cursor) Finish() Cursor {
	if c.Tx == 0 {
		return c
	}
	next := Cursor{Next: c.Next}
	for _, tx := range c.Open {
		if tx != c.Tx {
			next.Open = append(next.Open, tx)
		}
	}
	if c.Tx == c.Next {
		next.Next++
	}
	return next
}

// hasPart reports whether c has seen a change of a transaction that it has not
// seen as a whole.
func (c Cursor) hasPart(tx uint64, kind ChangeKind, place int) bool {
	return c.Tx == tx && (kind < c.Kind || kind == c.Kind && place <= c.Place)
}

// ChangeRow is a row of changes as the drivers keep it: what a transaction did of one kind.
type ChangeRow struct {
	Tx      uint64
	Kind    ChangeKind
	At      time.Time
	Tenants []TenantNo // parallel to IDs
	IDs     []posthaste.ID
	Detail  json.RawMessage
}

// Page makes a page of the rows, in order, that a driver has read: those that upto has
// seen and p.After perhaps has not, or, where p.After has seen a transaction in
// part, the rows of that one alone. Of a full page there may be more rows, of its last
// transaction too. What only other tables know is still to be filled in.
func (p ReadChangesParams) Page(rows []ChangeRow, upto Cursor, full bool) ChangePage {
	if p.Until.Next != 0 {
		upto = p.Until
	}
	page := ChangePage{More: full}
	switch {
	case p.After.Tx != 0:
		page.Next, page.More = p.After.Finish(), true
	case full:
		last := rows[len(rows)-1].Tx
		rows = slices.DeleteFunc(rows, func(r ChangeRow) bool { return r.Tx == last })
		page.Next = p.After.Through(upto, last)
	default:
		page.Next = p.After.Through(upto, math.MaxUint64)
	}
	before := p.After
	for i, r := range rows {
		if !upto.Sees(r.Tx) {
			continue // beyond Until, or restored from another database, whose numbers mean nothing here
		}
		if p.After.Tx == 0 && (i == 0 || rows[i-1].Tx != r.Tx) {
			before = p.After.Through(upto, r.Tx)
		}
		page.Changes = p.appendWanted(page.Changes, r, before)
	}
	return page
}

// appendWanted adds those changes of a row that are asked for. before has seen what
// comes before the row's transaction.
func (p ReadChangesParams) appendWanted(changes []Change, r ChangeRow, before Cursor) []Change {
	if p.Kinds != nil && !slices.Contains(p.Kinds, r.Kind) {
		return changes
	}
	for i, id := range r.IDs {
		if p.Tenants != nil && !slices.Contains(p.Tenants, r.Tenants[i]) || p.After.hasPart(r.Tx, r.Kind, i+1) {
			continue
		}
		c := Change{Kind: r.Kind, Tenant: r.Tenants[i], At: r.At, Detail: r.Detail, Cursor: before}
		c.Cursor.Tx, c.Cursor.Kind, c.Cursor.Place = r.Tx, r.Kind, i+1
		switch r.Kind {
		case ChangeAccepted:
			c.Event = id
		case ChangeGate:
			c.Endpoint = id
		default:
			c.Event, c.Delivery = id.Event(), id
		}
		changes = append(changes, c)
	}
	return changes
}
