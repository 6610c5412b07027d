package sqlite

import (
	"context"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const sqlSkip = `UPDATE deliveries SET owner = 0, state = 2, attempts = ?2, due_at = 0, outcome = CASE WHEN ?3 = 0 THEN outcome ELSE ?3 END,
  reason = ?4, finished_at = ?5 WHERE id = ?1`

// Skip implements store.Skipping.
func (db *DB) Skip(ctx context.Context, p store.SkipParams) (store.DeliveryRow, error) {
	err := db.write(ctx, "skip delivery", func(c *conn) error {
		d, found, err := readStanding(c, p.Delivery)
		switch {
		case err != nil:
			return err
		case !found || p.Tenant != 0 && d.tenant != p.Tenant:
			return store.ErrNotFound
		case d.state != posthaste.StatePending:
			return &posthaste.Error{
				Code: posthaste.CodeNotPending, Message: "the delivery is " + d.state.String(),
				Hint: "only a pending delivery can be skipped; it has ended already",
			}
		}
		if !d.dueAt.IsZero() {
			if err := deleteDue(c, d.dueKey()); err != nil {
				return err
			}
		}
		outcome := posthaste.Outcome(0)
		if d.owner != 0 { // its holder's result will come late
			d.attempts, outcome = d.attempts+1, posthaste.OutcomeLost
			if err := recordLost(c, d.id, d.attempts, d.owner, p.Now); err != nil {
				return err
			}
		}
		if _, err := c.exec(sqlSkip, d.id, d.attempts, int64(outcome), int64(posthaste.ReasonSkipped), p.Now); err != nil {
			return err
		}
		if err := tell(c, p.Now, store.ChangeDead, appendEntry(nil, d.tenant, d.id)); err != nil {
			return err
		}
		return insertDead(c, d.tenant, d.endpoint, d.id)
	})
	if err != nil {
		return store.DeliveryRow{}, err
	}
	return db.Delivery(ctx, p.Tenant, p.Delivery)
}
