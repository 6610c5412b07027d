package postgres

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// claimScan bounds how many due rows a claim looks at to find some that are no retries.
const claimScan = 2000

// Claims of one endpoint $2, whose gate is locked: due rows from $3 to $4, $5 at
// most. What the caller is told beside the leases is how many hints were dropped, how
// far the look went, whether there is more, and when the head of an ordered endpoint
// may be tried. Fencing is a statement of its own here, after the gate's lock.
const (
	claimFenceSQL = `with ` + fenceSQL + ` select count(*) from fence`

	claimEndpointSQL = `
with picked as materialized (
	select u.ctid as hint, u.endpoint, u.due_at, u.delivery from due u
	where u.endpoint = $2 and u.due_at between $3 and $4 and u.owner = 0
	order by u.endpoint, u.due_at, u.delivery
	limit $5 for update skip locked),` + claimTail + `
select (select count(*) from dropped), (select max(due_at) from picked), (select count(*) from picked) = $5, 0::int8, l.*
from (values (1)) one left join leased l on true`

	// No more than $6 retries: it passes over others, and looks at $7 rows at most. The
	// list of those is read only as far as it takes to choose, hence the case.
	claimFreshSQL = `
with scanned as materialized (
	select u.endpoint, u.due_at, u.delivery, coalesce(d.attempts > 0, false) as again
	from (
		select u.endpoint, u.due_at, u.delivery from due u
		where u.endpoint = $2 and u.due_at between $3 and $4 and u.owner = 0
		order by u.endpoint, u.due_at, u.delivery
		limit $7) u
	left join lateral (select d.attempts from deliveries d where d.id = u.delivery limit 1) d on true),
chosen as materialized (
	select endpoint, due_at, delivery
	from (
		select *, count(*) filter (where again) over (order by due_at, delivery rows unbounded preceding) as retries
		from scanned) s
	where not again or retries <= $6
	order by due_at, delivery
	limit $5),
picked as materialized (
	select u.hint, c.endpoint, c.due_at, c.delivery
	from chosen c cross join lateral (
		select u.ctid as hint from due u
		where u.endpoint = c.endpoint and u.due_at = c.due_at and u.delivery = c.delivery and u.owner = 0
		for update skip locked) u),` + claimTail + `
select (select count(*) from dropped),
	case when (select count(*) from chosen) = $5 then (select max(due_at) from chosen) else (select max(due_at) from scanned) end,
	case when (select count(*) from chosen) = $5 then true else (select count(*) from scanned) = $7 end,
	0::int8, l.*
from (values (1)) one left join leased l on true`

	// A run of an ordered endpoint is found without locks, and its rows are then locked as they were
	// found. The lease ends before the first row that moved meanwhile: a search under locks
	// would pass over that row and take the ones behind it.
	claimRunSQL = `
with ahead as materialized (
	select u.ctid as hint, u.endpoint, u.due_at, u.delivery, u.owner, u.try_at from due u
	where u.endpoint = $2 and u.due_at >= $3
	order by u.endpoint, u.due_at, u.delivery
	limit $5::int4 + 1),
looked as materialized (
	select a.hint, a.endpoint, a.due_at, a.delivery,
		row_number() over (order by a.due_at, a.delivery) as place,
		a.owner <> 0 or a.try_at > $4 or coalesce(d.here and d.owner <> 0, false) as stops,
		coalesce(d.here and d.attempts > 0, false) as again
	from ahead a
	left join lateral (
		select d.state = 0 and d.due_at = a.due_at as here, d.owner, d.attempts from deliveries d
		where d.id = a.delivery limit 1) d on true),
run as materialized (
	select hint, endpoint, due_at, delivery, place
	from (
		select *, bool_or(stops) over upto as stopped, count(*) filter (where again) over upto as retries
		from looked window upto as (order by place rows unbounded preceding)) l
	where not stopped and retries <= $6 and place <= $5
	order by place),
locked as materialized (
	select r.hint, r.endpoint, r.due_at, r.delivery, r.place
	from run r cross join lateral (
		select from due u where u.ctid = r.hint and u.owner = 0 and u.try_at <= $4
		for update) u),
picked as materialized (
	select hint, endpoint, due_at, delivery
	from (select *, row_number() over (order by place) as nth from locked) l
	where nth = place),` + claimTail + `
select (select count(*) from dropped), (select max(due_at) from looked where place <= $5), (select count(*) from looked) > $5,
	coalesce((select try_at from (select * from ahead order by due_at, delivery limit 1) head where owner = 0 and try_at > $4), 0), l.*
from (values (1)) one left join leased l on true`
)

// ClaimThrough implements store.Gates. It takes three round trips, two where the
// gate lets nothing through.
func (db *DB) ClaimThrough(ctx context.Context, p store.ClaimThroughParams) (store.ClaimedThrough, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	claimed, err := db.claimThrough(ctx, p)
	if err != nil {
		return store.ClaimedThrough{}, fail(fmt.Sprintf("claim work of endpoint %d through its gate", p.Endpoint), lockFailed(err))
	}
	return claimed, nil
}

func (db *DB) claimThrough(ctx context.Context, p store.ClaimThroughParams) (store.ClaimedThrough, error) {
	var claimed store.ClaimedThrough
	var was gateRow
	var fresh int
	batch := &pgx.Batch{}
	queueGate(batch, p.Endpoint, &was) // first: whoever waits for it holds nothing that an accept needs
	if p.Ordered {
		queueOrderLock(batch, p.Endpoint)
	}
	batch.Queue(claimFenceSQL, int32(p.Epoch), freshMicros).QueryRow(func(row pgx.Row) error { return row.Scan(&fresh) })
	s, err := db.gates.begin(ctx, claimLockWait, batch)
	if err != nil {
		return claimed, err
	}
	defer s.end()
	if fresh == 0 {
		return claimed, store.ErrFenced
	}
	state := was.gate().State
	claimed.Pass = p.Enter(state)
	claimed.Gate = was.gate()
	if claimed.Pass.Attempts <= 0 {
		return claimed, nil // all is undone, and nobody waits for a commit
	}
	if err := claimRows(ctx, s, p, &claimed); err != nil {
		return claimed, err
	}
	now := was.with(p.Take(state, claimed.Leases))
	batch = &pgx.Batch{}
	queueKeep(batch, was, &now)
	if len(p.Tenants) > 0 {
		queueNewer(batch, p.Tenants, &claimed.Newer)
	}
	err = s.commit(ctx, batch)
	claimed.Gate = now.gate()
	return claimed, err
}

// claimRows leases what the pass allows, looking again where hints that lead
// nowhere took the places of real work.
func claimRows(ctx context.Context, s *steps, p store.ClaimThroughParams, claimed *store.ClaimedThrough) error {
	attempts, retries := claimed.Pass.Attempts, claimed.Pass.Retries
	for range claimRounds {
		var dropped uint64
		before := len(claimed.Leases)
		batch := &pgx.Batch{}
		args := []any{int32(p.Epoch), int32(p.Endpoint), micros(p.From), micros(p.Now), attempts}
		read := func(rows pgx.Rows) error {
			return eachRow(rows, func(raw [][]byte) { dropped = readThrough(raw, claimed) })
		}
		switch {
		case p.Ordered:
			batch.Queue(claimRunSQL, append(args, retries)...).Query(read)
		case retries < attempts:
			batch.Queue(claimFreshSQL, append(args, retries, claimScan)...).Query(read)
		default:
			batch.Queue(claimEndpointSQL, args...).Query(read)
		}
		if err := s.run(ctx, batch); err != nil {
			return err
		}
		for _, l := range claimed.Leases[before:] {
			attempts--
			if l.Number > 1 {
				retries--
			}
		}
		ran := p.Ordered && len(claimed.Leases) > 0 // the next round would find the run owned
		if dropped == 0 || attempts <= 0 || ran {
			break
		}
	}
	sortLeases(claimed.Leases)
	return nil
}

// readThrough adds a row of a claim through a gate, and returns how many hints were dropped.
func readThrough(raw [][]byte, claimed *store.ClaimedThrough) (dropped uint64) {
	if raw[1] != nil {
		claimed.Examined = timeAt(int64(binary.BigEndian.Uint64(raw[1])))
	}
	claimed.More = raw[2][0] != 0
	claimed.HeadAt = timeAt(int64(binary.BigEndian.Uint64(raw[3])))
	if raw[4] != nil {
		claimed.Leases = append(claimed.Leases, readLease(raw[4:]))
	}
	return binary.BigEndian.Uint64(raw[0])
}
