package postgres

import (
	"context"
	"encoding/binary"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// One statement, hence one snapshot: a page is judged as it was at one moment,
// while the database is in use. found says whether anything will take a pending
// delivery up: a claim of its due row, its living owner, or whoever reclaims that
// owner, which looks from the low-water mark on and in due.
const verifyDeliveriesSQL = `
with page as materialized (
	select * from deliveries where id >= $1 order by id limit $2),
judged as materialized (
	select w.id, w.state, w.reason, w.attempts, w.owner, w.due_at, a.n, a.lowest, a.top, a.delivered, a.failed,
		case when w.owner = 0 then coalesce(u.owner = 0, false)
		else r.epoch is not null and (w.id >= r.low_water or coalesce(u.owner = w.owner, false)) end as found
	from page w
	left join lateral (
		select count(*) as n, min(number) as lowest, max(number) as top, count(*) filter (where outcome = 1) as delivered,
			count(*) filter (where outcome in (2, 3)) as failed
		from attempts a where a.delivery = w.id) a on true
	left join lateral (select epoch, low_water from replicas where epoch = w.owner limit 1) r on true
	left join lateral (
		select owner from due u where u.endpoint = w.endpoint and u.due_at = w.due_at and u.delivery = w.id limit 1) u on true),
findings as (
	select id, format('%s attempts are recorded, numbered %s to %s, and the delivery counts %s', n, lowest, top, attempts) as what
	from judged where n <> attempts or (n > 0 and (lowest <> 1 or top <> n))
	union all
	select id, 'it is delivered, without an attempt that was' from judged where state = 1 and delivered = 0
	union all
	select id, 'it is dead, without a reason' from judged where state = 2 and reason = 0
	union all
	select id, 'its reason tells of an attempt, and none that failed is recorded' from judged where state = 2 and reason in (1, 2, 6) and failed = 0
	union all
	select id, 'it has ended, and has an owner or a time to be tried' from judged where state <> 0 and (owner <> 0 or due_at <> 0)
	union all
	select id, format('it is pending, and nothing would find it (owner %s, due at %s)', owner, due_at) from judged where state = 0 and not found)
select (select count(*) from page), (select coalesce(sum(n), 0)::int8 from judged), (select id from page order by id desc limit 1),
	f.id, f.what
from (values (1)) one left join (select * from findings order by id) f on true`

// Events have no index on id alone: the walk hops from tenant to tenant.
const verifyEventsSQL = `
with page as materialized (
	select e.id, e.fan_out
	from tenants t cross join lateral (
		select id, fan_out from events e where e.tenant = t.no and e.id >= $1 and e.id < $2 offset 0) e),
findings as (
	select w.id, format('it was fanned out to %s deliveries, and %s of them are there', w.fan_out, d.n) as what
	from page w cross join lateral (
		select count(*) as n from deliveries d
		where d.id > w.id and d.id <= (left(w.id::text, 31) || lpad(to_hex(w.fan_out), 5, '0'))::uuid) d
	where d.n <> w.fan_out)
select (select count(*) from page), f.id, f.what
from (values (1)) one left join (select * from findings order by id) f on true`

// Verify implements store.Upkeep.
func (db *DB) Verify(ctx context.Context, p store.VerifyParams) (store.Verified, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var v store.Verified
	to := posthaste.ID(highest)
	rows, err := db.chores.Query(ctx, verifyDeliveriesSQL, [16]byte(p.From), p.Limit)
	if err == nil {
		err = eachRow(rows, func(raw [][]byte) {
			v.Deliveries = int(binary.BigEndian.Uint64(raw[0]))
			v.Attempts = int(binary.BigEndian.Uint64(raw[1]))
			if v.Deliveries > 0 && v.Deliveries == p.Limit {
				v.Next = successor(posthaste.ID(raw[2]))
				to = v.Next
			}
			addFinding(&v, raw[3:])
		})
	}
	if err == nil {
		rows, err = db.chores.Query(ctx, verifyEventsSQL, [16]byte(p.From), [16]byte(to))
	}
	if err == nil {
		err = eachRow(rows, func(raw [][]byte) {
			v.Events = int(binary.BigEndian.Uint64(raw[0]))
			addFinding(&v, raw[1:])
		})
	}
	if err != nil {
		return store.Verified{}, fail("verify the database", err)
	}
	return v, nil
}

// addFinding adds the finding of a row, if it has one.
func addFinding(v *store.Verified, raw [][]byte) {
	if raw[0] != nil {
		v.Findings = append(v.Findings, store.Finding{Delivery: posthaste.ID(raw[0]), What: string(raw[1])})
	}
}

// eachRow calls do for each row, whose values are only valid during the call.
func eachRow(rows pgx.Rows, do func(raw [][]byte)) error {
	defer rows.Close()
	for rows.Next() {
		do(rows.RawValues())
	}
	return rows.Err()
}
