package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Settle implements store.Delivery.
func (db *DB) Settle(ctx context.Context, p store.SettleParams) (store.Settled, error) {
	var out store.Settled
	// In the order of the rows, for the reason that byID gives. It is stable: of
	// two settlements of one lease the first one counts.
	order := make([]int, len(p.Settlements))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return p.Settlements[a].Lease.Delivery.Compare(p.Settlements[b].Lease.Delivery)
	})
	err := db.write(ctx, "settle attempts", func(c *conn) error {
		out = store.Settled{Moved: make([]bool, len(p.Settlements))}
		records := 0
		told := endings{conn: c, at: p.Now}
		for _, i := range order {
			s := &p.Settlements[i]
			moved, err := move(c, s, p.Now)
			if err != nil {
				return err
			}
			out.Moved[i] = moved
			if moved && s.Attempt != nil {
				records++
			}
			if moved {
				told.add(s.State, s.Lease.Tenant, s.Lease.Delivery)
			}
		}
		w := inserter{conn: c, one: sqlRecord, many: sqlRecords, left: records}
		for _, i := range order {
			if s := &p.Settlements[i]; out.Moved[i] && s.Attempt != nil {
				if _, err := record(&w, s.Lease.Delivery, s.Attempt); err != nil {
					return err
				}
			}
		}
		for _, i := range order {
			if out.Moved[i] || p.Settlements[i].Attempt == nil {
				continue
			}
			s := &p.Settlements[i]
			late, err := settleStale(c, s, p.Now)
			if err != nil {
				return err
			}
			if late {
				out.Late++
				told.add(posthaste.StateDelivered, s.Lease.Tenant, s.Lease.Delivery)
			}
		}
		return told.write()
	})
	if err != nil {
		return store.Settled{}, err
	}
	return out, nil
}

// settleStale records the attempt of a lease that no longer stands, and reports
// whether it ended its delivery by a late success.
func settleStale(c *conn, s *store.Settlement, now time.Time) (late bool, err error) {
	// A delivery that retention has deleted takes no records any more: nothing
	// would ever delete them.
	if _, found, err := readStanding(c, s.Lease.Delivery); err != nil || !found {
		return false, err
	}
	recorded, err := recordOne(c, s.Lease.Delivery, s.Attempt)
	if err != nil || !recorded || s.Attempt.Outcome != posthaste.OutcomeDelivered {
		return false, err
	}
	return endLate(c, s, now)
}

// due_at tells a lease from one of the same number that was taken after it was
// given back: a give-back sets another time.
const sqlMove = `UPDATE deliveries SET owner = 0, state = ?4, attempts = ?5, failures = ?6, due_at = ?7,
  outcome = CASE WHEN ?8 = 0 THEN outcome ELSE ?8 END, reason = ?9, finished_at = ?10
WHERE id = ?1 AND state = 0 AND attempts = ?2 AND owner = ?3 AND due_at = ?11`

// move applies a settlement to its delivery, with the rows of due and dead that
// go with it, if the lease still stands.
func move(c *conn, s *store.Settlement, now time.Time) (bool, error) {
	l := &s.Lease
	attempts, outcome := l.Number-1, posthaste.Outcome(0)
	if s.Attempt != nil {
		attempts, outcome = l.Number, s.Attempt.Outcome
	}
	dueAt, finishedAt, reason := s.DueAt, time.Time{}, posthaste.ReasonNone
	if s.State != posthaste.StatePending {
		dueAt, finishedAt = time.Time{}, now
	}
	if s.State == posthaste.StateDead {
		reason = s.Reason
	}
	n, err := c.exec(sqlMove, l.Delivery, l.Number-1, l.Epoch,
		int64(s.State), attempts, s.Failures, dueAt, int64(outcome), int64(reason), finishedAt, l.DueAt)
	if err != nil || n == 0 {
		return false, err
	}
	if !l.DueAt.IsZero() {
		if err := deleteDue(c, store.DueKey{Endpoint: l.Endpoint, DueAt: l.DueAt, Delivery: l.Delivery}); err != nil {
			return false, err
		}
	}
	switch s.State {
	case posthaste.StatePending:
		err = insertDueFrom(c, store.DueKey{Endpoint: l.Endpoint, DueAt: s.DueAt, Delivery: l.Delivery}, s.TryAt)
	case posthaste.StateDead:
		err = insertDead(c, l.Tenant, l.Endpoint, l.Delivery)
	}
	return true, err
}

// insertDue makes an unowned due row. One of that key, which only a stale hint
// can be, becomes it.
const sqlPutDue = `INSERT INTO due (endpoint, due_at, delivery, try_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET owner = 0, try_at = excluded.try_at WHERE owner <> 0 OR try_at <> excluded.try_at`

func insertDue(c *conn, k store.DueKey) error { return insertDueFrom(c, k, time.Time{}) }

// insertDueFrom is insertDue for an ordered endpoint, whose row waits in its place
// until tryAt.
func insertDueFrom(c *conn, k store.DueKey, tryAt time.Time) error {
	_, err := c.exec(sqlPutDue, k.Endpoint, k.DueAt, k.Delivery, tryAt)
	return err
}

const sqlPutDead = `INSERT INTO dead (tenant, delivery, endpoint) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING`

func insertDead(c *conn, tenant store.TenantNo, endpoint store.EndpointNo, delivery posthaste.ID) error {
	_, err := c.exec(sqlPutDead, tenant, delivery, endpoint)
	return err
}

const (
	insertAttempts = `INSERT OR FAIL INTO attempts (delivery, number, started_at, dns_us, connect_us, tls_us, first_byte_us, total_us,
  outcome, late, cause, status_code, error, endpoint_version, replica, response_headers, response_body, sent_twice) VALUES `
	attemptRow   = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	fourAttempts = attemptRow + `, ` + attemptRow + `, ` + attemptRow + `, ` + attemptRow

	// The late result of an attempt that was recorded as lost completes its
	// record; any other record stays as it is.
	completeLost = ` ON CONFLICT DO UPDATE SET started_at = excluded.started_at, dns_us = excluded.dns_us, connect_us = excluded.connect_us,
  tls_us = excluded.tls_us, first_byte_us = excluded.first_byte_us, total_us = excluded.total_us, outcome = excluded.outcome,
  late = 1, cause = excluded.cause, status_code = excluded.status_code, error = excluded.error,
  endpoint_version = excluded.endpoint_version, replica = excluded.replica,
  response_headers = excluded.response_headers, response_body = excluded.response_body, sent_twice = excluded.sent_twice
WHERE attempts.outcome = 4 AND excluded.outcome <> 4`

	sqlRecord  = insertAttempts + attemptRow + completeLost
	sqlRecords = insertAttempts + fourAttempts + `, ` + fourAttempts + `, ` + fourAttempts + `, ` + fourAttempts + completeLost
)

// record writes an attempt's record. Where it was the only one of its statement,
// it reports whether it was written: not where the number has its record already.
func record(w *inserter, delivery posthaste.ID, a *posthaste.Attempt) (bool, error) {
	if err := w.begin(); err != nil {
		return false, err
	}
	var late, sentTwice int64
	if a.Late {
		late = 1
	}
	if a.SentTwice {
		sentTwice = 1
	}
	w.id(delivery)
	w.int(int64(a.Number))
	w.int(micros(a.StartedAt))
	w.int(a.Timings.DNS.Microseconds())
	w.int(a.Timings.Connect.Microseconds())
	w.int(a.Timings.TLS.Microseconds())
	w.int(a.Timings.FirstByte.Microseconds())
	w.int(a.Timings.Total.Microseconds())
	w.int(int64(a.Outcome))
	w.int(late)
	w.int(int64(a.Cause))
	w.int(int64(a.StatusCode))
	w.orNull([]byte(a.Error))
	w.int(int64(a.EndpointVersion))
	w.text(a.Replica)
	w.orNull(encodeHeaders(a.ResponseHeaders))
	w.orNull(a.ResponseBody)
	w.int(sentTwice)
	_, changed, err := w.end()
	return changed == 1, err
}

func recordOne(c *conn, delivery posthaste.ID, a *posthaste.Attempt) (bool, error) {
	return record(&inserter{conn: c, one: sqlRecord, left: 1}, delivery, a)
}

// standing is how a delivery stands at this moment of the transaction.
type standing struct {
	id        posthaste.ID
	tenant    store.TenantNo
	endpoint  store.EndpointNo
	owner     store.Epoch
	state     posthaste.State
	attempts  int
	dueAt     time.Time
	expiresAt time.Time
}

func (s *standing) dueKey() store.DueKey {
	return store.DueKey{Endpoint: s.endpoint, DueAt: s.dueAt, Delivery: s.id}
}

const sqlStanding = `SELECT tenant, endpoint, owner, state, attempts, due_at, expires_at FROM deliveries WHERE id = ?1`

func readStanding(c *conn, id posthaste.ID) (s standing, found bool, err error) {
	found, err = c.get(sqlStanding, func(r row) {
		s = standing{
			id: id, tenant: r.tenant(0), endpoint: r.endpoint(1), owner: r.epoch(2), state: posthaste.State(r.ColumnInt(3)),
			attempts: r.ColumnInt(4), dueAt: r.at(5), expiresAt: r.at(6),
		}
	}, id)
	return s, found, err
}

const sqlEndLate = `UPDATE deliveries SET owner = 0, state = 1, attempts = ?2, due_at = 0, outcome = 1, reason = 0, finished_at = ?3 WHERE id = ?1`

// endLate ends a delivery that is still pending by the success of an attempt
// that had been given up for lost. If another epoch holds the next number, that
// attempt is lost: its own result will come late.
func endLate(c *conn, s *store.Settlement, now time.Time) (bool, error) {
	d, found, err := readStanding(c, s.Lease.Delivery)
	if err != nil || !found || d.state != posthaste.StatePending {
		return false, err
	}
	attempts := max(d.attempts, s.Attempt.Number)
	if held := d.attempts + 1; d.owner != 0 && held > attempts {
		if err := recordLost(c, d.id, held, d.owner, now); err != nil {
			return false, err
		}
		attempts = held
	}
	if !d.dueAt.IsZero() {
		if err := deleteDue(c, d.dueKey()); err != nil {
			return false, err
		}
	}
	_, err = c.exec(sqlEndLate, d.id, attempts, now)
	return true, err
}

const sqlReplicaName = `SELECT name FROM replicas WHERE epoch = ?1`

// recordLost records the attempt that the epoch held as lost. When it was
// started nobody can say any more: the record has the time of the loss.
func recordLost(c *conn, delivery posthaste.ID, number int, epoch store.Epoch, now time.Time) error {
	a := posthaste.Attempt{Number: number, StartedAt: now, Outcome: posthaste.OutcomeLost, Cause: posthaste.CauseLost}
	if _, err := c.get(sqlReplicaName, func(r row) { a.Replica = r.ColumnText(0) }, epoch); err != nil {
		return err
	}
	_, err := recordOne(c, delivery, &a)
	return err
}
