package sqlite

import (
	"context"
	"fmt"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Verify implements store.Upkeep. A page is read in one snapshot, so that a
// server may run beside it.
func (db *DB) Verify(ctx context.Context, p store.VerifyParams) (store.Verified, error) {
	var out store.Verified
	err := db.readOn(ctx, db.chores, "verify", func(c *conn) error {
		return c.snapshot(func() error {
			v := verifier{conn: c, from: p.From}
			err := v.run(p.Limit)
			out = v.out
			return err
		})
	})
	return out, err
}

// verifier looks at the deliveries and the events with ids in [from, to).
type verifier struct {
	*conn
	from, to posthaste.ID
	horizon  posthaste.ID
	lowWater map[store.Epoch]posthaste.ID
	out      store.Verified
}

func (v *verifier) run(limit int) (err error) {
	if v.horizon, err = readHorizon(v.conn); err != nil {
		return err
	}
	v.lowWater = map[store.Epoch]posthaste.ID{}
	for r, err := range v.rows(sqlReplicas) {
		if err != nil {
			return err
		}
		v.lowWater[r.epoch(0)] = r.id(4)
	}
	tenants, err := v.page(limit)
	if err != nil {
		return err
	}
	if err := v.deliveries(); err != nil {
		return err
	}
	for _, t := range tenants {
		if err := v.events(t); err != nil {
			return err
		}
	}
	if v.to != below(posthaste.ID{}) {
		v.out.Next = v.to
	}
	return nil
}

const (
	sqlDeliveryAfter = `SELECT id FROM deliveries WHERE id >= ?1 ORDER BY id LIMIT 1 OFFSET ?2`
	sqlEventAfter    = `SELECT id FROM events WHERE tenant = ?1 AND id >= ?2 AND id < ?3 ORDER BY id LIMIT 1 OFFSET ?4`
)

// page sets where the page ends, such that it holds at most limit deliveries,
// and limit events of each tenant, and lists the tenants that have events.
func (v *verifier) page(limit int) (tenants []store.TenantNo, err error) {
	v.to = below(posthaste.ID{})
	if _, err := v.get(sqlDeliveryAfter, func(r row) { v.to = r.id(0) }, v.from, limit); err != nil {
		return nil, err
	}
	for t := store.TenantNo(0); ; {
		found, err := v.get(sqlNextTenant, func(r row) { t = r.tenant(0) }, t)
		if err != nil || !found {
			return tenants, err
		}
		tenants = append(tenants, t)
		if _, err := v.get(sqlEventAfter, func(r row) { v.to = r.id(0) }, t, v.from, v.to, limit); err != nil {
			return nil, err
		}
	}
}

func (v *verifier) found(id posthaste.ID, format string, args ...any) {
	v.out.Findings = append(v.out.Findings, store.Finding{Delivery: id, What: fmt.Sprintf(format, args...)})
}

const (
	sqlVerifyDeliveries = `SELECT d.id, d.tenant, d.owner, d.state, d.attempts, d.reason,
  CASE WHEN d.state = 0 THEN (SELECT u.owner FROM due u WHERE u.endpoint = d.endpoint AND u.due_at = d.due_at AND u.delivery = d.id) END
FROM deliveries d WHERE d.id >= ?1 AND d.id < ?2 ORDER BY d.id`
	sqlVerifyAttempts = `SELECT count(*), coalesce(min(number), 0), coalesce(max(number), 0), coalesce(max(outcome = 1), 0) FROM attempts WHERE delivery = ?1`
)

func (v *verifier) deliveries() error {
	for r, err := range v.rows(sqlVerifyDeliveries, v.from, v.to) {
		if err != nil {
			return err
		}
		if err := v.delivery(r); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) delivery(r row) error {
	v.out.Deliveries++
	id, attempts := r.id(0), r.ColumnInt(4)
	var records, lowest, highest int
	var succeeded bool
	_, err := v.get(sqlVerifyAttempts, func(r row) {
		records, lowest, highest, succeeded = r.ColumnInt(0), r.ColumnInt(1), r.ColumnInt(2), r.ColumnBool(3)
	}, id)
	if err != nil {
		return err
	}
	v.out.Attempts += records
	if exists, err := v.get(sqlEventExists, func(row) {}, r.tenant(1), id.Event()); err != nil {
		return err
	} else if !exists {
		v.found(id, "the event of the delivery is missing")
	}
	// One record more than attempts may be there: a stale settlement is recorded
	// too, and its number is the one that the present holder was given.
	if records > 0 && lowest != 1 || records != highest || highest < attempts {
		v.found(id, "attempts 1 to %d are not all recorded: there are %d records, numbered %d to %d", attempts, records, lowest, highest)
	}
	switch state, reason := posthaste.State(r.ColumnInt(3)), posthaste.Reason(r.ColumnInt(5)); {
	case state == posthaste.StatePending:
		v.pending(id, r.epoch(2), r)
	case state == posthaste.StateDelivered && !succeeded:
		v.found(id, "delivered without a successful attempt")
	case state == posthaste.StateDead && reason.String() == "":
		v.found(id, "dead without a reason")
	case state == posthaste.StateDead && needsAttempt(reason) && records == 0:
		v.found(id, "dead (%s) without an attempt", reason)
	case state.String() == "":
		v.found(id, "in state %d, which does not exist", state)
	}
	return nil
}

// needsAttempt reports whether only an attempt can lead to a reason.
func needsAttempt(r posthaste.Reason) bool {
	return r == posthaste.ReasonPermanent || r == posthaste.ReasonExhausted || r == posthaste.ReasonGone
}

// pending checks that a claim or a reclaim would find the delivery.
func (v *verifier) pending(id posthaste.ID, owner store.Epoch, r row) {
	hasDue := !r.ColumnIsNull(6) && r.epoch(6) == owner
	lowWater, living := v.lowWater[owner]
	switch {
	case owner == 0 && !hasDue:
		v.found(id, "pending, with no owner and no row in due")
	case owner != 0 && !living:
		v.found(id, "pending, owned by epoch %d, which has no row in replicas", owner)
	case owner != 0 && !hasDue && id.Compare(lowWater) < 0:
		v.found(id, "pending, owned by epoch %d, below its low-water mark and with no row in due", owner)
	}
}

const (
	sqlVerifyEvents = `SELECT id, fan_out FROM events WHERE tenant = ?1 AND id >= ?2 AND id < ?3 ORDER BY id`
	sqlCountFanOut  = `SELECT count(*) FROM deliveries WHERE id > ?1 AND id <= ?2`
)

// events checks that the deliveries 1 to fan_out of each event are there. Below
// the horizon, retention may be at work on them.
func (v *verifier) events(tenant store.TenantNo) error {
	for r, err := range v.rows(sqlVerifyEvents, tenant, v.from, v.to) {
		if err != nil {
			return err
		}
		v.out.Events++
		id, want, have := r.id(0), r.ColumnInt(1), 0
		if _, err := v.get(sqlCountFanOut, func(r row) { have = r.ColumnInt(0) }, id, id.Delivery(uint32(want))); err != nil {
			return err
		}
		if have != want && id.Compare(v.horizon) > 0 {
			v.found(id, "the event has %d of its deliveries 1 to %d", have, want)
		}
	}
	return nil
}
