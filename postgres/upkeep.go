package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// A loose index scan: it hops from endpoint to endpoint, some 11 µs each, and
// doesn't read their backlogs. PostgreSQL has none of its own.
const dueEndpointsSQL = `
with recursive hop (endpoint, due_at, try_at) as (
	(select endpoint, due_at, try_at from due where owner = 0 order by endpoint, due_at, delivery limit 1)
	union all
	select n.endpoint, n.due_at, n.try_at
	from hop h cross join lateral (
		select u.endpoint, u.due_at, u.try_at from due u
		where u.endpoint > h.endpoint and u.owner = 0
		order by u.endpoint, u.due_at, u.delivery limit 1) n)
select endpoint, greatest(due_at, try_at), try_at from hop`

// DueEndpoints implements store.Upkeep.
func (db *DB) DueEndpoints(ctx context.Context) ([]store.EndpointDue, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := db.chores.Query(ctx, dueEndpointsSQL)
	if err != nil {
		return nil, fail("list endpoints with due work", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.EndpointDue, error) {
		var e store.EndpointDue
		var at, try int64
		err := row.Scan((*int32)(&e.Endpoint), &at, &try)
		e.NextAt, e.TryAt = timeAt(at), timeAt(try)
		return e, err
	})
	if err != nil {
		return nil, fail("list endpoints with due work", err)
	}
	return due, nil
}

// endTail ends a statement whose CTE locked has due rows, locked, whose
// deliveries are to end. $1 is now, $2 the reason. Nobody holds these
// deliveries, so no number is spent. A hint whose delivery is not where it says goes too.
const endTail = `
judged as materialized (
	select w.hint, w.due_at, d.*
	from locked w left join lateral (
		select d.ctid as row, d.id from deliveries d where d.id = w.delivery limit 1) d on true
	where w.delivery ` + anyID + `
	order by w.delivery),
ended as (
	update deliveries d
	set state = 2, due_at = 0, finished_at = $1::int8, reason = $2::int2, revoked = 0
	from judged j
	where d.id = j.id and d.ctid = j.row and d.state = 0 and d.owner = 0 and d.due_at = j.due_at
	returning d.tenant, d.endpoint, d.id),
gone as (
	delete from due where ctid = any (array (select hint from locked))),
buried as (
	insert into dead (tenant, delivery, endpoint)
	select tenant, id, endpoint from ended
	on conflict do nothing),
told as (
	insert into changes (kind, at, tenants, ids)
	select 3, $1::int8, array_agg(tenant), array_agg(id) from ended having count(*) > 0)`

// Whether an endpoint is deleted is asked of the table by the very statement
// that ends its work: an accept that was matched against an older state can't slip
// a delivery in behind a judgement made earlier.
const endDeletedSQL = `
with locked as materialized (
	select q.*
	from unnest($3::int4[]) w (endpoint)
	cross join lateral (
		select u.ctid as hint, u.due_at, u.delivery from due u
		where u.endpoint = w.endpoint and u.owner = 0
			and not exists (select from endpoints p where p.no = w.endpoint and p.deleted_at = 0)
		order by u.endpoint, u.due_at, u.delivery
		limit $4 for update skip locked) q
	limit $4),` + endTail + `
select count(*) from ended`

// EndDeleted implements store.Upkeep.
func (db *DB) EndDeleted(ctx context.Context, p store.EndDeletedParams) (int, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	endpoints := slices.Clone(p.Endpoints)
	slices.Sort(endpoints)
	column := int4Column(len(endpoints))
	for _, no := range slices.Compact(endpoints) {
		column.int4(int32(no))
	}
	var ended int
	err := db.chores.QueryRow(ctx, endDeletedSQL, micros(p.Now), int16(posthaste.ReasonEndpointDeleted), column, p.Limit).Scan(&ended)
	if err != nil {
		return 0, fail("end the deliveries of deleted endpoints", err)
	}
	return ended, nil
}

const endExpiredSQL = `
with page as materialized (
	select u.due_at, u.delivery, d.expires_at
	from (
		select due_at, delivery from due
		where endpoint = $3 and (due_at, delivery) > ($4, $5) and owner = 0
		order by endpoint, due_at, delivery limit $6) u
	left join lateral (
		select d.expires_at from deliveries d where d.id = u.delivery and d.state = 0 limit 1) d on true),
locked as materialized (
	select u.*
	from (select due_at, delivery from page where expires_at between 1 and $1 order by due_at, delivery) w
	cross join lateral (
		select u.ctid as hint, u.due_at, u.delivery from due u
		where u.endpoint = $3 and u.due_at = w.due_at and u.delivery = w.delivery and u.owner = 0
		for update skip locked) u),` + endTail + `
select (select count(*) from ended), (select count(*) from page),
	(select min(expires_at) from page where expires_at > $1),
	w.due_at, w.delivery
from (values (1)) one left join (select due_at, delivery from page order by due_at desc, delivery desc limit 1) w on true`

// EndExpired implements store.Upkeep.
func (db *DB) EndExpired(ctx context.Context, p store.EndExpiredParams) (store.EndedExpired, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var ended store.EndedExpired
	var looked int
	var expiry, at *int64
	var delivery *[16]byte
	err := db.chores.QueryRow(ctx, endExpiredSQL, micros(p.Now), int16(posthaste.ReasonExpired),
		int32(p.Endpoint), micros(p.After.DueAt), [16]byte(p.After.Delivery), p.Limit).
		Scan(&ended.Ended, &looked, &expiry, &at, &delivery)
	if err != nil {
		return store.EndedExpired{}, fail("end expired deliveries", err)
	}
	if looked == p.Limit && at != nil {
		ended.Next = store.DueKey{Endpoint: p.Endpoint, DueAt: timeAt(*at), Delivery: *delivery}
	}
	if expiry != nil {
		ended.NextExpiry = timeAt(*expiry)
	}
	return ended, nil
}

const (
	settingSQL     = `select value from settings where name = $1`
	keepSettingSQL = `insert into settings (name, value) values ($1, $2) on conflict do nothing`
)

// Setting implements store.Upkeep.
func (db *DB) Setting(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var value []byte
	err := db.lookups.QueryRow(ctx, settingSQL, name).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, fail("read the setting "+name, err)
	}
	return value, nil
}

// KeepSetting implements store.Upkeep. The read is a statement of its own, since
// the one that lost against a rival doesn't see the rival's row.
func (db *DB) KeepSetting(ctx context.Context, name string, value []byte) ([]byte, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if value == nil {
		value = []byte{}
	}
	if _, err := db.lookups.Exec(ctx, keepSettingSQL, name, value); err != nil {
		return nil, fail("keep the setting "+name, err)
	}
	return db.Setting(ctx, name)
}
