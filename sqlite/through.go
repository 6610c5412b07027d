package sqlite

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// ClaimThrough implements store.Gates.
func (db *DB) ClaimThrough(ctx context.Context, p store.ClaimThroughParams) (store.ClaimedThrough, error) {
	var out store.ClaimedThrough
	err := db.write(ctx, "claim due deliveries through a gate", func(c *conn) error {
		out = store.ClaimedThrough{}
		if err := db.fence(c, p.Epoch); err != nil {
			return err
		}
		was, _, err := readGate(c, p.Endpoint)
		if err != nil {
			return err
		}
		out.Gate, out.Pass = was, p.Enter(was.State)
		if out.Pass.Attempts <= 0 {
			return nil
		}
		if out.Newer, err = newerRouting(c, p.Tenants); err != nil {
			return err
		}
		if p.Ordered {
			err = claimHead(c, p, &out)
		} else {
			err = claimFresh(c, p, &out)
		}
		if err != nil {
			return err
		}
		out.Gate, err = db.keepGate(c, was, p.Take(was.State, out.Leases))
		return err
	})
	if err != nil {
		return store.ClaimedThrough{}, err
	}
	return out, nil
}

// claimScan bounds how many due rows a claim through a gate looks at.
const claimScan = 2000

// claimFresh leases what the pass allows of one endpoint, passing over the retries
// that it does not allow. It drops stale rows on the way.
func claimFresh(c *conn, p store.ClaimThroughParams, out *store.ClaimedThrough) error {
	after := store.DueKey{Endpoint: p.Endpoint, DueAt: p.From}
	retries := out.Pass.Retries
	for looked := 0; looked < claimScan; {
		ask := claimPage
		if left := out.Pass.Attempts - len(out.Leases); retries >= left { // nothing is passed over: one more tells of more
			ask = min(ask, left+1)
		}
		page, err := readDue(c, after, p.Now, ask)
		if err != nil {
			return err
		}
		for _, d := range page {
			if len(out.Leases) == out.Pass.Attempts {
				out.More = true
				return nil
			}
			looked++
			after, out.Examined = d.key, d.key.DueAt
			switch {
			case d.stale:
				err = deleteDue(c, d.key)
			case d.Epoch != 0, d.Number > 1 && retries <= 0: // as in claimEndpoint; one retry too many
			default:
				if d.Number > 1 {
					retries--
				}
				d.Epoch = p.Epoch
				out.Leases = append(out.Leases, d.Lease)
				err = own(c, d.Lease)
			}
			if err != nil {
				return err
			}
		}
		if len(page) < ask {
			return nil
		}
	}
	out.More = true
	return nil
}

const sqlHead = `SELECT u.delivery, d.tenant, u.endpoint, d.owner, d.attempts, d.failures, u.due_at, d.expires_at,
  d.state IS NOT 0 OR d.due_at <> u.due_at OR d.endpoint <> u.endpoint, u.owner, u.try_at
FROM due u LEFT JOIN deliveries d ON d.id = u.delivery
WHERE u.endpoint = ?1 AND u.due_at >= ?2 ORDER BY u.due_at, u.delivery LIMIT 2`

// claimHead leases the first due row of an ordered endpoint, if it is nobody's and
// its time has come. It drops stale rows before it.
func claimHead(c *conn, p store.ClaimThroughParams, out *store.ClaimedThrough) error {
	for range maxStale {
		var head dueRow
		var owner store.Epoch
		var tryAt time.Time
		rows := 0
		for r, err := range c.rows(sqlHead, p.Endpoint, p.From) {
			if err != nil {
				return err
			}
			if rows++; rows == 1 {
				head = dueRow{Lease: scanLease(r), stale: r.ColumnBool(8)}
				owner, tryAt = r.epoch(9), r.at(10)
			}
		}
		if out.More = rows > 1; rows == 0 {
			return nil
		}
		head.key = store.DueKey{Endpoint: head.Endpoint, DueAt: head.DueAt, Delivery: head.Delivery}
		out.Examined = head.DueAt
		switch {
		case owner != 0:
			return nil
		case head.stale:
			if err := deleteDue(c, head.key); err != nil {
				return err
			}
			continue
		case tryAt.After(p.Now):
			out.HeadAt = tryAt
			return nil
		case head.Epoch != 0, head.Number > 1 && out.Pass.Retries <= 0:
			return nil
		}
		head.Epoch = p.Epoch
		out.Leases = append(out.Leases, head.Lease)
		return own(c, head.Lease)
	}
	return nil
}
