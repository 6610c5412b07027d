package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// How long a gate's row is waited for, where somebody else has it.
const (
	changeLockWait = 100 * time.Millisecond
	claimLockWait  = 250 * time.Millisecond
)

// gateRow is a row of gates.
type gateRow struct {
	endpoint                                                            int32
	breaker                                                             int16
	failures, openings, probeNumber                                     int32
	probe                                                               [16]byte
	openUntil, closedAt, retryAfterUntil, failingSince, slot, retrySlot int64
	failedAt                                                            int64
	changedAt                                                           int64
}

const gateColumns = `g.endpoint, g.breaker, g.failures, g.openings, g.probe_number, g.probe,
	g.open_until, g.closed_at, g.retry_after_until, g.failing_since, g.slot, g.retry_slot, g.changed_at, g.failed_at`

// fields are what gateColumns are scanned into.
func (r *gateRow) fields() []any {
	return []any{
		&r.endpoint, &r.breaker, &r.failures, &r.openings, &r.probeNumber, &r.probe,
		&r.openUntil, &r.closedAt, &r.retryAfterUntil, &r.failingSince, &r.slot, &r.retrySlot, &r.changedAt, &r.failedAt,
	}
}

func (r *gateRow) gate() store.Gate {
	return store.Gate{
		Endpoint: store.EndpointNo(r.endpoint), ChangedAt: timeAt(r.changedAt),
		State: gate.State{
			Breaker: gate.Breaker(r.breaker), Failures: int(r.failures), Openings: int(r.openings),
			Probe:     gate.Attempt{Delivery: r.probe, Number: int(r.probeNumber)},
			OpenUntil: timeAt(r.openUntil), ClosedAt: timeAt(r.closedAt),
			RetryAfterUntil: timeAt(r.retryAfterUntil), FailingSince: timeAt(r.failingSince), FailedAt: timeAt(r.failedAt),
			Slot: timeAt(r.slot), RetrySlot: timeAt(r.retrySlot),
		},
	}
}

// with returns the row with another state.
func (r gateRow) with(s gate.State) gateRow {
	return gateRow{
		endpoint: r.endpoint, changedAt: r.changedAt,
		breaker: int16(s.Breaker), failures: int32(s.Failures), openings: int32(s.Openings),
		probeNumber: int32(s.Probe.Number), probe: s.Probe.Delivery,
		openUntil: micros(s.OpenUntil), closedAt: micros(s.ClosedAt),
		retryAfterUntil: micros(s.RetryAfterUntil), failingSince: micros(s.FailingSince), failedAt: micros(s.FailedAt),
		slot: micros(s.Slot), retrySlot: micros(s.RetrySlot),
	}
}

const (
	makeGateSQL = `insert into gates (endpoint) values ($1) on conflict do nothing`
	lockGateSQL = `select ` + gateColumns + ` from gates g where g.endpoint = $1 for update`

	// Two changes of one gate never have the same time, whatever the clock does: so
	// whoever sees both knows the later one.
	keepGateSQL = `
update gates
set breaker = $2, failures = $3, openings = $4, probe_number = $5, probe = $6,
	open_until = $7, closed_at = $8, retry_after_until = $9, failing_since = $10, slot = $11, retry_slot = $12, failed_at = $14,
	changed_at = case when $13::bool then greatest(changed_at + 1, ` + clockSQL + `) else changed_at end
where endpoint = $1
returning changed_at`
)

// queueGate locks the row of a gate, which it makes if there is none, and reads it.
func queueGate(batch *pgx.Batch, endpoint store.EndpointNo, into *gateRow) {
	batch.Queue(makeGateSQL, int32(endpoint))
	batch.Queue(lockGateSQL, int32(endpoint)).QueryRow(func(row pgx.Row) error {
		return row.Scan(into.fields()...)
	})
}

// queueKeep stores a locked gate as it is now, unless it is as it was.
func queueKeep(batch *pgx.Batch, was gateRow, now *gateRow) {
	if was == *now {
		return
	}
	slotsOnly := *now
	slotsOnly.slot, slotsOnly.retrySlot = was.slot, was.retrySlot
	batch.Queue(keepGateSQL, now.endpoint, now.breaker, now.failures, now.openings, now.probeNumber, now.probe,
		now.openUntil, now.closedAt, now.retryAfterUntil, now.failingSince, now.slot, now.retrySlot, was != slotsOnly, now.failedAt,
	).QueryRow(func(row pgx.Row) error { return row.Scan(&now.changedAt) })
}

// lockFailed says what the failure to lock a gate means.
func lockFailed(err error) error {
	switch {
	case hasState(err, stateLockTimeout):
		return store.ErrLocked
	case errors.Is(err, pgx.ErrNoRows): // the table was emptied between two statements
		return fmt.Errorf("the gate has just been deleted: %w", store.ErrUnavailable)
	}
	return err
}

// A gate need not survive the crash of the server, so nobody waits for the disk
// with its row locked.
const soonDurableSQL = `select set_config('synchronous_commit', 'off', true)`

// ChangeGate implements store.Gates.
func (db *DB) ChangeGate(ctx context.Context, endpoint store.EndpointNo, change func(gate.State) gate.State) (store.Gate, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	changed, err := db.changeGate(ctx, endpoint, change)
	if err != nil {
		return store.Gate{}, fail(fmt.Sprintf("change the gate of endpoint %d", endpoint), lockFailed(err))
	}
	return changed.gate(), nil
}

func (db *DB) changeGate(ctx context.Context, endpoint store.EndpointNo, change func(gate.State) gate.State) (gateRow, error) {
	var was gateRow
	batch := &pgx.Batch{}
	batch.Queue(soonDurableSQL)
	queueGate(batch, endpoint, &was)
	s, err := db.gates.begin(ctx, changeLockWait, batch)
	if err != nil {
		return was, err
	}
	defer s.end()
	now := was.with(change(was.gate().State))
	if now == was {
		return was, nil
	}
	batch = &pgx.Batch{}
	queueKeep(batch, was, &now)
	return now, s.commit(ctx, batch)
}

const (
	gatesSQL = `
select ` + gateColumns + `
from unnest($1::int4[]) x (endpoint) cross join lateral (select * from gates g where g.endpoint = x.endpoint limit 1) g`

	shutGatesSQL = `
select ` + gateColumns + ` from gates g
where g.breaker <> 0 or g.retry_after_until > $1 or g.closed_at > $2 or g.failing_since <> 0 or g.failures <> 0`

	// Times are given before the commit: what another transaction was about to commit when
	// the caller looked last is found in the seconds before.
	changedGatesSQL = `select ` + gateColumns + ` from gates g where g.changed_at > $1 order by g.changed_at`

	changedAgain   = 5 * time.Second
	closedRecently = time.Minute
)

// Gates implements store.Gates.
func (db *DB) Gates(ctx context.Context, endpoints []store.EndpointNo) ([]store.Gate, error) {
	column := int4Column(len(endpoints))
	for _, no := range endpoints {
		column.int4(int32(no))
	}
	return db.listGates(ctx, "read gates", gatesSQL, column)
}

// ShutGates implements store.Gates.
func (db *DB) ShutGates(ctx context.Context, now time.Time) ([]store.Gate, error) {
	return db.listGates(ctx, "list the gates that are shut", shutGatesSQL, micros(now), micros(now.Add(-closedRecently)))
}

func (db *DB) listGates(ctx context.Context, what, sql string, args ...any) ([]store.Gate, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := db.gates.Query(ctx, sql, args...)
	var gates []store.Gate
	if err == nil {
		err = readGates(rows, &gates)
	}
	if err != nil {
		return nil, fail(what, err)
	}
	return gates, nil
}

func readGates(rows pgx.Rows, into *[]store.Gate) error {
	var r gateRow
	_, err := pgx.ForEachRow(rows, r.fields(), func() error {
		*into = append(*into, r.gate())
		return nil
	})
	return err
}

// One that is locked goes next time.
const dropGatesSQL = `
delete from gates where ctid = any (array (
	select g.ctid from gates g
	where not exists (select from endpoints p where p.no = g.endpoint and p.deleted_at = 0)
	limit $1 for update skip locked))`

// dropGates deletes the gates of endpoints that are gone; see Retain.
func (db *DB) dropGates(ctx context.Context, limit int) (int, error) {
	tag, err := db.chores.Exec(ctx, dropGatesSQL, limit)
	return int(tag.RowsAffected()), err
}
