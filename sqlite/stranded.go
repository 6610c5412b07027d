package sqlite

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// The last two columns are asked of the few rows that need them: the owner of
// a pending delivery's due row (NULL: it has none), and whether a dead one has
// its row in dead.
const sqlWalkDeliveries = `SELECT d.id, d.tenant, d.endpoint, d.owner, d.state, d.due_at,
  CASE WHEN d.state = 0 THEN (SELECT u.owner FROM due u WHERE u.endpoint = d.endpoint AND u.due_at = d.due_at AND u.delivery = d.id) END,
  CASE WHEN d.state = 2 THEN EXISTS (SELECT 1 FROM dead x WHERE x.tenant = d.tenant AND x.delivery = d.id) END
FROM deliveries d WHERE d.id >= ?1 AND d.id < ?2 ORDER BY d.id LIMIT ?3`

// FindStranded implements store.Upkeep.
func (db *DB) FindStranded(ctx context.Context, p store.FindStrandedParams) (store.Stranded, error) {
	var out store.Stranded
	var unlisted []posthaste.ID // dead, without a row in dead
	err := db.readOn(ctx, db.chores, "find stranded deliveries", func(c *conn) error {
		return c.snapshot(func() error {
			living, err := livingEpochs(c)
			if err != nil {
				return err
			}
			seen, last := 0, posthaste.ID{}
			for r, err := range c.rows(sqlWalkDeliveries, p.From, p.To, p.Limit) {
				if err != nil {
					return err
				}
				seen, last = seen+1, r.id(0)
				s := store.StrandedDelivery{Delivery: last, Endpoint: r.endpoint(2), Owner: r.epoch(3), DueAt: r.at(5)}
				mark, lives := living[s.Owner]
				s.Living = lives && (!s.DueAt.IsZero() || last.Compare(mark) >= 0)
				switch state := posthaste.State(r.ColumnInt(4)); {
				case state == posthaste.StateDead && r.ColumnInt(7) == 0:
					unlisted = append(unlisted, last)
				case state == posthaste.StatePending && (s.Owner != 0 || r.ColumnIsNull(6) || r.epoch(6) != 0):
					out.Deliveries = append(out.Deliveries, s)
				}
			}
			if seen > 0 && seen == p.Limit {
				out.Next = following(last)
			}
			return nil
		})
	})
	if err != nil || len(unlisted) == 0 {
		return out, err
	}
	out.Dead, err = db.listDead(ctx, unlisted)
	return out, err
}

const sqlListDead = `INSERT INTO dead (tenant, delivery, endpoint) SELECT tenant, id, endpoint FROM deliveries WHERE id = ?1 AND state = 2
ON CONFLICT DO NOTHING`

// listDead gives dead deliveries, if they still are, their row in dead.
func (db *DB) listDead(ctx context.Context, ids []posthaste.ID) (listed int, err error) {
	err = db.write(ctx, "list dead deliveries", func(c *conn) error {
		listed = 0
		for _, id := range ids {
			n, err := c.exec(sqlListDead, id)
			if err != nil {
				return err
			}
			listed += n
		}
		return nil
	})
	return listed, err
}

// livingEpochs are those that may hold a lease, with their low-water marks: an idle one holds none.
func livingEpochs(c *conn) (map[store.Epoch]posthaste.ID, error) {
	living := map[store.Epoch]posthaste.ID{}
	for r, err := range c.rows(sqlBusyEpochs) {
		if err != nil {
			return nil, err
		}
		living[r.epoch(0)] = r.id(1)
	}
	return living, nil
}

// RepairStranded implements store.Upkeep.
func (db *DB) RepairStranded(ctx context.Context, p store.RepairStrandedParams) (int, error) {
	var repaired int
	err := db.write(ctx, "repair stranded deliveries", func(c *conn) error {
		repaired = 0
		for _, found := range p.Deliveries {
			done, err := repairOne(c, found, p.Now)
			if err != nil {
				return err
			}
			if done {
				repaired++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return repaired, nil
}

const (
	sqlDueOwner = `SELECT owner FROM due WHERE endpoint = ?1 AND due_at = ?2 AND delivery = ?3`
	sqlSetDue   = `UPDATE deliveries SET due_at = ?2 WHERE id = ?1`
)

// repairOne gives a delivery that still stands as it was found a due row.
func repairOne(c *conn, found store.StrandedDelivery, now time.Time) (bool, error) {
	d, exists, err := readStanding(c, found.Delivery)
	if err != nil || !exists || d.state != posthaste.StatePending || d.owner != found.Owner || !d.dueAt.Equal(found.DueAt) {
		return false, err
	}
	if d.owner != 0 {
		_, done, err := revoke(c, d.id, d.owner, now, &d.dueAt)
		return done, err
	}
	if !d.dueAt.IsZero() {
		owner := store.Epoch(0)
		has, err := c.get(sqlDueOwner, func(r row) { owner = r.epoch(0) }, d.endpoint, d.dueAt, d.id)
		if err != nil || has && owner == 0 {
			return false, err
		}
		return true, insertDue(c, d.dueKey())
	}
	d.dueAt = now
	if _, err := c.exec(sqlSetDue, d.id, d.dueAt); err != nil {
		return false, err
	}
	return true, insertDue(c, d.dueKey())
}
