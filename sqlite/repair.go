package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const sqlReplay = `UPDATE deliveries SET owner = 0, state = 0, failures = 0, due_at = ?4, run_at = ?2, expires_at = ?3, reason = 0, finished_at = 0
WHERE id = ?1 AND state = 2`

// Replay implements store.Repair.
func (db *DB) Replay(ctx context.Context, p store.ReplayParams) error {
	return db.write(ctx, "replay delivery", func(c *conn) error {
		d, found, err := readStanding(c, p.Delivery)
		switch {
		case err != nil:
			return err
		case !found || d.tenant != p.Tenant:
			return store.ErrNotFound
		case d.state != posthaste.StateDead:
			return &posthaste.Error{
				Code: posthaste.CodeNotDead, Message: "the delivery is " + d.state.String(),
				Hint: "only a dead delivery can be replayed; resend its event to deliver it once more",
			}
		}
		if err := aboveHorizon(c, p.Delivery); err != nil {
			return err
		}
		if err := livingEndpoint(c, p.Tenant, d.endpoint); err != nil {
			return err
		}
		if d.dueAt = p.Now; p.Ordered {
			if d.dueAt, err = c.nextPosition(d.endpoint, db.now()); err != nil {
				return err
			}
		}
		if _, err := c.exec(sqlReplay, p.Delivery, p.Now, p.ExpiresAt, d.dueAt); err != nil {
			return err
		}
		if err := dropDead(c, d.tenant, d.id); err != nil {
			return err
		}
		return insertDue(c, d.dueKey())
	})
}

const sqlDropDead = `DELETE FROM dead WHERE tenant = ?1 AND delivery = ?2`

func dropDead(c *conn, tenant store.TenantNo, delivery posthaste.ID) error {
	_, err := c.exec(sqlDropDead, tenant, delivery)
	return err
}

const sqlHorizon = `SELECT id FROM horizon WHERE one = 1`

func readHorizon(c *conn) (h posthaste.ID, err error) {
	_, err = c.get(sqlHorizon, func(r row) { h = r.id(0) })
	return h, err
}

// aboveHorizon fails for what retention may be deleting at this moment.
func aboveHorizon(c *conn, id posthaste.ID) error {
	h, err := readHorizon(c)
	if err == nil && id.Compare(h) <= 0 {
		err = &posthaste.Error{
			Code: posthaste.CodeExpiredEvent, Message: "the event is past its retention",
			Hint: "send it as a new event",
		}
	}
	return err
}

const sqlEndpointStanding = `SELECT tenant, deleted_at FROM endpoints WHERE no = ?1`

// livingEndpoint fails unless the endpoint exists, for this tenant or for all, and
// is not deleted.
func livingEndpoint(c *conn, tenant store.TenantNo, no store.EndpointNo) error {
	var owner store.TenantNo
	var deletedAt time.Time
	_, err := c.get(sqlEndpointStanding, func(r row) { owner, deletedAt = r.tenant(0), r.at(1) }, no)
	switch {
	case err != nil:
		return err
	case owner != tenant && owner != store.EveryTenant:
		return fmt.Errorf("endpoint: %w", store.ErrNotFound)
	case !deletedAt.IsZero():
		return &posthaste.Error{
			Code: posthaste.CodeEndpointDeleted, Message: "the endpoint is deleted",
			Hint: "resend the event to another endpoint",
		}
	}
	return nil
}

const (
	sqlEventExists   = `SELECT 1 FROM events WHERE tenant = ?1 AND id = ?2`
	sqlHighestNumber = `SELECT id FROM deliveries WHERE id > ?1 AND id <= ?2 ORDER BY id DESC LIMIT 1`
	sqlInsertResend  = `INSERT INTO deliveries (id, tenant, endpoint, owner, state, attempts, failures, due_at, run_at, expires_at, outcome, reason, finished_at)
VALUES (?1, ?2, ?3, 0, 0, 0, 0, ?6, ?4, ?5, 0, 0, 0)`
)

// Resend implements store.Repair.
func (db *DB) Resend(ctx context.Context, p store.ResendParams) (posthaste.ID, error) {
	var id posthaste.ID
	err := db.write(ctx, "resend event", func(c *conn) error {
		found, err := c.get(sqlEventExists, func(row) {}, p.Tenant, p.Event)
		if err == nil && !found {
			err = fmt.Errorf("event: %w", store.ErrNotFound)
		}
		if err != nil {
			return err
		}
		if err := aboveHorizon(c, p.Event); err != nil {
			return err
		}
		if err := livingEndpoint(c, p.Tenant, p.Endpoint); err != nil {
			return err
		}
		highest := p.Event
		last := p.Event.Delivery(posthaste.MaxNumber)
		if _, err := c.get(sqlHighestNumber, func(r row) { highest = r.id(0) }, p.Event, last); err != nil {
			return err
		}
		if highest == last {
			return &posthaste.Error{
				Code: posthaste.CodeConflict, Message: "the event has as many deliveries as an event can have",
				Hint: "send it as a new event",
			}
		}
		id = p.Event.Delivery(highest.Number() + 1)
		dueAt := p.Now
		if p.Ordered {
			if dueAt, err = c.nextPosition(p.Endpoint, db.now()); err != nil {
				return err
			}
		}
		if _, err := c.exec(sqlInsertResend, id, p.Tenant, p.Endpoint, p.Now, p.ExpiresAt, dueAt); err != nil {
			return err
		}
		return insertDue(c, store.DueKey{Endpoint: p.Endpoint, DueAt: dueAt, Delivery: id})
	})
	if err != nil {
		return posthaste.ID{}, err
	}
	return id, nil
}
