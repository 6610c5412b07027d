package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// claimRounds bounds how often a claim looks again because hints that lead
// nowhere took the places of real work.
const claimRounds = 8

// The backlog of an endpoint that may not be attempted costs nothing: it isn't in the
// list, or its gate says so. A hint is judged by the delivery as the
// statement's snapshot has it: what made the hint set the delivery's due_at in
// the same transaction, and what changed that since has removed the hint or
// holds it locked. Deliveries are changed in the order of their ids, as
// everywhere: even a change that comes too late locks the row that it finds.
const claimSQL = `
with ` + fenceSQL + `,
wanted as materialized (
	select w.*, not w.ignores and exists (
		select from gates g where g.endpoint = w.endpoint and (g.breaker <> 0 or g.retry_after_until > $6::int8 and g.retry_after_until <= $6::int8 + ` + longestHold + `)) as shut
	from unnest($3::int4[], $4::int4[], $5::int8[], $7::bool[]) w (endpoint, cap, from_at, ignores)),
picked as materialized (
	select q.*
	from wanted w
	cross join lateral (
		select u.ctid as hint, u.endpoint, u.due_at, u.delivery from due u
		where u.endpoint = w.endpoint and u.due_at between w.from_at and $6::int8 and u.owner = 0
		order by u.endpoint, u.due_at, u.delivery
		limit w.cap for update skip locked) q
	where exists (select from fence) and not w.shut),` + claimTail + `
select (select count(*) from fence), (select count(*) from dropped), (select array_agg(endpoint) from wanted where shut), l.*
from (values (1)) one left join leased l on true`

// longestHold is how far ahead a Retry-After can hold: gate.MaxRetryAfter and gate.HoldSlack, in
// microseconds. One that holds longer was noted by a wrong clock.
const longestHold = `3660000000`

// claimTail is the part of a statement that leases for the epoch $1 what its CTE
// picked has: due rows, locked. It drops those that lead nowhere.
const claimTail = `
judged as materialized (
	select k.hint, k.due_at, d.*, coalesce(d.state = 0 and d.due_at_of = k.due_at, false) as true_hint
	from picked k left join lateral (
		select d.ctid as row, d.id, d.state, d.owner, d.due_at as due_at_of from deliveries d
		where d.id = k.delivery limit 1) d on true
	where k.delivery ` + anyID + `
	order by k.delivery),
leased as (
	update deliveries d set owner = $1
	from judged j
	where d.id = j.id and d.ctid = j.row and j.true_hint
		and d.state = 0 and d.owner = 0 and d.due_at = j.due_at
	returning ` + leaseColumns + `, j.hint),
taken as (
	update due set owner = $1 where ctid = any (array (select hint from leased))),
dropped as (
	delete from due where ctid = any (array (select hint from judged where not true_hint))
	returning 1)`

// newerSQL lists the tenants whose routing is at another version than the caller's. A
// rewound database is behind the caller.
const newerSQL = `
select r.no, coalesce(t.routing_version, -1)
from unnest($1::int4[], $2::int8[]) r (no, version) left join lateral (
	select routing_version from tenants where no = r.no limit 1) t on true
where t.routing_version is distinct from r.version`

// routingSinceSQL lists the tenants that changed lately.
const routingSinceSQL = `select no, routing_version from tenants where routing_version >= $1 order by routing_version`

// Claim implements store.Delivery.
func (db *DB) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var claimed store.Claimed
	var shut []store.EndpointNo
	want := p.Want
	for round := range claimRounds {
		got, dropped, err := db.claim(ctx, p, want)
		if err != nil && round > 0 {
			break // what the rounds before took is taken; the next call will tell
		}
		if err != nil {
			return store.Claimed{}, fail(fmt.Sprintf("claim work of %d endpoints", len(p.Want)), err)
		}
		claimed.Leases = append(claimed.Leases, got.Leases...)
		claimed.Newer = got.Newer
		for _, g := range got.Shut {
			shut = append(shut, g.Endpoint)
		}
		if want = unsatisfied(want, got.Leases); dropped == 0 || len(want) == 0 {
			break
		}
	}
	sortLeases(claimed.Leases)
	if len(shut) > 0 {
		slices.Sort(shut)
		// What was leased is to be told of, whatever becomes of this: the next call will tell.
		claimed.Shut, _ = db.Gates(ctx, slices.Compact(shut))
	}
	return claimed, nil
}

// sortLeases puts leases in the order of the due rows that they were claimed by.
func sortLeases(leases []store.Lease) {
	slices.SortFunc(leases, func(a, b store.Lease) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), a.DueAt.Compare(b.DueAt), a.Delivery.Compare(b.Delivery))
	})
}

// unsatisfied returns what is still wanted after leases were taken.
func unsatisfied(want []store.ClaimWant, leases []store.Lease) (rest []store.ClaimWant) {
	got := map[store.EndpointNo]int{}
	for _, l := range leases {
		got[l.Endpoint]++
	}
	for _, w := range want {
		taken := min(w.Cap, got[w.Endpoint])
		got[w.Endpoint] -= taken
		if w.Cap -= taken; w.Cap > 0 {
			rest = append(rest, w)
		}
	}
	return rest
}

// claim is one round. Of the gates that are shut it names the endpoints.
func (db *DB) claim(ctx context.Context, p store.ClaimParams, want []store.ClaimWant) (got store.Claimed, dropped uint64, err error) {
	n := len(want)
	endpoint, limit, from, ignores := int4Column(n), int4Column(n), int8Column(n), boolColumn(n)
	for _, w := range want {
		endpoint.int4(int32(w.Endpoint))
		limit.int4(int32(w.Cap))
		from.time(w.From)
		if w.IgnoreGate {
			ignores.flag(1)
		} else {
			ignores.flag(0)
		}
	}
	fenced := false
	batch := &pgx.Batch{}
	batch.Queue(claimSQL, int32(p.Epoch), freshMicros, endpoint, limit, from, micros(p.Now), ignores).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			raw := rows.RawValues()
			fenced = binary.BigEndian.Uint64(raw[0]) == 0
			dropped = binary.BigEndian.Uint64(raw[1])
			if len(got.Shut) == 0 { // the same in every row
				eachElement(raw[2], func(v []byte) {
					got.Shut = append(got.Shut, store.Gate{Endpoint: store.EndpointNo(binary.BigEndian.Uint32(v))})
				})
			}
			if raw[3] != nil {
				got.Leases = append(got.Leases, readLease(raw[3:]))
			}
		}
		return rows.Err()
	})
	if len(p.Tenants) > 0 {
		queueNewer(batch, p.Tenants, &got.Newer)
	}
	if err := db.claims.Run(ctx, batch); err != nil {
		return store.Claimed{}, 0, err
	}
	if fenced {
		return store.Claimed{}, 0, store.ErrFenced
	}
	return got, dropped, nil
}

func queueNewer(batch *pgx.Batch, known []store.TenantVersion, newer *[]store.TenantVersion) {
	tenant, version := versionColumns(known)
	batch.Queue(newerSQL, tenant, version).Query(readNewer(newer))
}

func readNewer(newer *[]store.TenantVersion) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var v store.TenantVersion
		_, err := pgx.ForEachRow(rows, []any{(*int32)(&v.Tenant), &v.Version}, func() error {
			*newer = append(*newer, v)
			return nil
		})
		return err
	}
}

// Events are looked up one by one from a list, in its order, and the list ends
// with the event whose payload makes the sum exceed the limit, so that a slow
// reader of a thousand large payloads isn't sent all of them at once.
const loadSQL = `
select ` + eventColumns + `, e.payload
from (
	select x.place, e.*,
		sum(coalesce(octet_length(e.payload), 0)) over (order by x.place) as upto,
		row_number() over (order by x.place) as nth
	from unnest($1::int4[], $2::uuid[]) with ordinality x (tenant, id, place)
	cross join lateral (select * from events e where e.tenant = x.tenant and e.id = x.id limit 1) e) e
where e.upto <= $3 or e.nth = 1
order by e.place`

// Load implements store.Delivery.
func (db *DB) Load(ctx context.Context, p store.LoadParams) ([]posthaste.Event, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	tenant, id := int4Column(len(p.Events)), uuidColumn(len(p.Events))
	for _, k := range p.Events {
		tenant.int4(int32(k.Tenant))
		id.uuid(k.ID)
	}
	rows, err := db.loads.Query(ctx, loadSQL, tenant, id, int64(p.MaxBytes))
	if err != nil {
		return nil, fail("load events", err)
	}
	defer rows.Close()
	var events []posthaste.Event
	for rows.Next() {
		raw := rows.RawValues()
		event := readEvent(raw)
		event.Payload = append([]byte{}, raw[eventColumnCount]...)
		events = append(events, event)
	}
	if err := rows.Err(); err != nil {
		return nil, fail("load events", err)
	}
	return events, nil
}
