package postgres

import (
	"context"
	"encoding/binary"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// deliveryColumns are what readDelivery reads of a row d that has the columns
// of deliveries and the event's type.
const (
	deliveryColumns = `d.id, p.id, coalesce(d.type, e.type), d.state, d.owner <> 0, d.attempts, d.failures, d.run_at, d.expires_at, ` + nextAttemptAt + `,
	d.finished_at, d.reason, d.last_outcome, d.endpoint, a.error, d.tenant`

	// nextAttemptAt is when a delivery d is due. Where that is its place in an order, its
	// due row says when it may be tried.
	nextAttemptAt = `greatest(d.due_at, case when d.due_at <> 0 then (
		select u.try_at from due u where u.endpoint = d.endpoint and u.due_at = d.due_at and u.delivery = d.id) end)`

	deliveryJoins = `
left join lateral (select id from endpoints where no = d.endpoint limit 1) p on true
left join lateral (select error from attempts where delivery = d.id and number = d.attempts limit 1) a on true`

	// eventOf is the id of the event of a delivery d.
	eventOf = `(left(d.id::text, 31) || '00000')::uuid`

	// withType joins the event of a delivery d for its type.
	withType = ` left join lateral (
	select type from events where tenant = d.tenant and id = ` + eventOf + ` limit 1) e on true`

	// typeIfAsked is that type where there is a filter on it, else null: by far
	// the most costly part of looking at a row.
	typeIfAsked = `case when $4 <> '' then (
				select type from events where tenant = d.tenant and id = ` + eventOf + ` limit 1) end as type`
)

func readDelivery(raw [][]byte) store.DeliveryRow {
	int4 := func(i int) int { return int(binary.BigEndian.Uint32(raw[i])) }
	int2 := func(i int) int { return int(binary.BigEndian.Uint16(raw[i])) }
	time := func(i int) int64 { return int64(binary.BigEndian.Uint64(raw[i])) }
	row := store.DeliveryRow{
		Delivery: posthaste.Delivery{
			ID: posthaste.ID(raw[0]), Type: string(raw[2]),
			State: posthaste.State(int2(3)), Leased: raw[4][0] != 0,
			Attempts: int4(5), Failures: int2(6),
			RunAt: timeAt(time(7)), ExpiresAt: timeAt(time(8)), FinishedAt: timeAt(time(10)),
			Reason: posthaste.Reason(int2(11)), LastOutcome: posthaste.Outcome(int2(12)),
		},
		Endpoint: store.EndpointNo(int4(13)), LastError: string(raw[14]), Tenant: store.TenantNo(int4(15)),
	}
	if raw[1] != nil {
		row.EndpointID = posthaste.ID(raw[1])
	}
	if row.State == posthaste.StatePending && !row.Leased {
		row.NextAttemptAt = timeAt(time(9))
	}
	return row
}

const deliverySQL = `
select ` + deliveryColumns + `
from (
	select d.*, null::text as type from deliveries d where ($1 = 0 or d.tenant = $1) and d.id = $2) d` + withType + deliveryJoins

// Delivery implements store.Reading.
func (db *DB) Delivery(ctx context.Context, tenant store.TenantNo, id posthaste.ID) (store.DeliveryRow, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var delivery store.DeliveryRow
	found := false
	rows, err := db.side.Query(ctx, deliverySQL, int32(tenant), [16]byte(id))
	if err == nil {
		for rows.Next() {
			delivery, found = readDelivery(rows.RawValues()), true
		}
		err = rows.Err()
	}
	if err == nil && !found {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.DeliveryRow{}, fail("look up a delivery", err)
	}
	return delivery, nil
}

// The ways to a page of deliveries, each down an index: by the events of the
// tenant, by one event, by endpoint, by dead letter. As in listEventsHead, rows
// are numbered as they are looked at. Each numbers by (event, id), and the page
// is cut in that very order, so that nothing is sorted that isn't shown. What
// costs a look at another table per row (the endpoint, the last error) is
// fetched for the rows of the page alone.
const (
	listHead = `
select d.hit, d.nth, d.place, ` + deliveryColumns + `
from (
	select d.* from (
		select d.*,
			coalesce(d.id is not null and ($4 = '' or d.type = $4)
				and ($5 = '' or case $5 when 'pending' then d.state = 0 and d.owner = 0 when 'delivering' then d.state = 0 and d.owner <> 0
					when 'delivered' then d.state = 1 when 'dead' then d.state = 2 else false end)
				and ($8 = 0 or d.endpoint = $8), false) as hit
		from (`
	listTail = `) d
		where d.nth <= $6) d
	where d.hit or d.nth = $6
	order by d.event desc, d.id desc
	limit $7) d` + withType + deliveryJoins + `
order by d.nth`

	// An event without deliveries is a row looked at as well.
	listByTenantSQL = listHead + `
			select e.id as event, coalesce(d.id, e.id) as place, row_number() over (order by e.id desc, d.id desc) as nth, e.type, d.*
			from events e left join lateral (
				select * from deliveries d
				where d.id > e.id and d.id <= (left(e.id::text, 31) || 'fffff')::uuid and d.id < $3
				order by d.id desc offset 0) d on true
			where e.tenant = $1 and e.id >= $2 and e.id < $3` + listTail

	listByEventSQL = listHead + `
			select d.id as event, d.id as place, row_number() over (order by d.id desc) as nth, ` + typeIfAsked + `, d.*
			from deliveries d
			where ($1 = 0 or d.tenant = $1) and d.id >= $2 and d.id < $3 and d.id > $9 and d.id <= $10` + listTail

	// Of all tenants, the dead too: dead is by tenant first.
	listAllSQL = listHead + `
			select d.id as event, d.id as place, row_number() over (order by d.id desc) as nth, ` + typeIfAsked + `, d.*
			from deliveries d
			where $1::int4 = 0 and d.id >= $2 and d.id < $3` + listTail

	listByEndpointSQL = listHead + `
			select d.id as event, d.id as place, row_number() over (order by d.id desc) as nth, ` + typeIfAsked + `, d.*
			from deliveries d
			where ($1 = 0 or d.tenant = $1) and d.endpoint = $8 and (d.endpoint, d.id) >= ($8, $2) and (d.endpoint, d.id) < ($8, $3)` + listTail

	listDeadHead = listHead + `
			select x.delivery as event, x.delivery as place, row_number() over (order by x.delivery desc) as nth, ` + typeIfAsked + `, d.*
			from dead x
			left join lateral (select * from deliveries where id = x.delivery limit 1) d on true
			where x.delivery >= $2 and x.delivery < $3`
	listDeadSQL           = listDeadHead + ` and x.tenant = $1` + listTail
	listDeadByEndpointSQL = listDeadHead + ` and ($1 = 0 or x.tenant + 0 = $1) and x.endpoint = $8` + listTail
)

// How many rows a page of deliveries looks at: at most store.MaxExamined, and no
// more than take some 20 ms, at 3 to 4 µs each or, with a look at the event, 10.
const (
	examinePlain = 5_000
	examineTyped = 2_000
)

// listPlan picks the statement that looks at the fewest rows, and its arguments.
func listPlan(p store.ListDeliveriesParams) (sql string, args []any) {
	from, to := span(p.Since, p.Until, p.Before)
	examine := examinePlain
	if p.Type != "" {
		examine = examineTyped
	}
	args = []any{int32(p.Tenant), from, to, p.Type, p.Status, examine, p.Limit + 1, int32(p.Endpoint)}
	dead := p.Status == posthaste.StateDead.String()
	switch {
	case !p.Event.IsZero():
		return listByEventSQL, append(args, [16]byte(p.Event.Event()), [16]byte(p.Event.Delivery(posthaste.MaxNumber)))
	case dead && p.Endpoint != 0:
		return listDeadByEndpointSQL, args
	case dead && p.Tenant != 0:
		return listDeadSQL, args
	case p.Endpoint != 0:
		return listByEndpointSQL, args
	case p.Tenant == 0:
		return listAllSQL, args
	default:
		return listByTenantSQL, args
	}
}

// ListDeliveries implements store.Reading.
func (db *DB) ListDeliveries(ctx context.Context, p store.ListDeliveriesParams) (store.DeliveryPage, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	sql, args := listPlan(p)
	examine, _ := args[5].(int)
	var page store.DeliveryPage
	rows, err := db.side.Query(ctx, sql, args...)
	if err != nil {
		return page, fail("list deliveries", err)
	}
	defer rows.Close()
	for rows.Next() {
		raw := rows.RawValues()
		hit := raw[0][0] != 0
		if hit && len(page.Deliveries) == p.Limit {
			page.Next = page.Deliveries[p.Limit-1].ID
			break
		}
		if hit {
			page.Deliveries = append(page.Deliveries, readDelivery(raw[3:]))
		}
		if binary.BigEndian.Uint64(raw[1]) == uint64(examine) {
			page.Next = posthaste.ID(raw[2])
			break
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return store.DeliveryPage{}, fail("list deliveries", err)
	}
	return page, nil
}
