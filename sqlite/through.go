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
			err = claimRun(c, p, &out)
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

const sqlAhead = `SELECT u.delivery, d.tenant, u.endpoint, d.owner, d.attempts, d.failures, u.due_at, d.expires_at,
  d.state IS NOT 0 OR d.due_at <> u.due_at OR d.endpoint <> u.endpoint, u.owner, u.try_at
FROM due u LEFT JOIN deliveries d ON d.id = u.delivery
WHERE u.endpoint = ?1 AND u.due_at >= ?2 ORDER BY u.due_at, u.delivery LIMIT ?3`

// placedRow is a due row of an ordered endpoint.
type placedRow struct {
	dueRow
	owner store.Epoch
	tryAt time.Time
}

// readAhead reads the first due rows of an ordered endpoint, owned or not.
func readAhead(c *conn, p store.ClaimThroughParams, limit int) (page []placedRow, err error) {
	for r, err := range c.rows(sqlAhead, p.Endpoint, p.From, limit) {
		if err != nil {
			return nil, err
		}
		d := placedRow{dueRow: dueRow{Lease: scanLease(r), stale: r.ColumnBool(8)}, owner: r.epoch(9), tryAt: r.at(10)}
		d.key = store.DueKey{Endpoint: d.Endpoint, DueAt: d.DueAt, Delivery: d.Delivery}
		page = append(page, d)
	}
	return page, nil
}

// claimRun leases successive due rows of an ordered endpoint from its first one on, as
// far as they have no owner and their time has come. It drops stale rows on the way.
func claimRun(c *conn, p store.ClaimThroughParams, out *store.ClaimedThrough) error {
	for range maxStale {
		page, err := readAhead(c, p, out.Pass.Attempts+1)
		if err != nil {
			return err
		}
		stopped, err := leaseRun(c, p, page, out)
		if err != nil || stopped || len(out.Leases) > 0 || len(page) == 0 {
			return err
		}
	}
	return nil
}

// leaseRun leases the first rows of a page, and reports whether a row ended the run.
func leaseRun(c *conn, p store.ClaimThroughParams, page []placedRow, out *store.ClaimedThrough) (stopped bool, err error) {
	retries := out.Pass.Retries
	for i, d := range page {
		if len(out.Leases) == out.Pass.Attempts {
			out.More = true
			return true, nil
		}
		out.Examined, out.More = d.DueAt, i < len(page)-1
		switch {
		case d.owner != 0:
			return true, nil
		case d.stale:
			if err := deleteDue(c, d.key); err != nil {
				return false, err
			}
			continue
		case d.tryAt.After(p.Now):
			if len(out.Leases) == 0 {
				out.HeadAt = d.tryAt
			}
			return true, nil
		case d.Epoch != 0, d.Number > 1 && retries <= 0:
			return true, nil
		}
		if d.Number > 1 {
			retries--
		}
		d.Epoch = p.Epoch
		out.Leases = append(out.Leases, d.Lease)
		if err := own(c, d.Lease); err != nil {
			return false, err
		}
	}
	return false, nil
}
