package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// wantedWaits are the endpoints $1 with the latest times $2 and the ends of runs $3.
const wantedWaits = `unnest($1::int4[], $2::int8[], $3::int8[]) w (endpoint, latest, expires_at)`

const (
	pullBackSQL = `
with locked as materialized (
	select q.*, w.expires_at
	from ` + wantedWaits + ` cross join lateral (
		select u.ctid as hint, u.endpoint, u.due_at, u.delivery from due u
		where u.endpoint = w.endpoint and u.due_at > w.latest and u.owner = 0
		order by u.endpoint, u.due_at, u.delivery
		limit $5 for update skip locked) q
	limit $5),
judged as materialized (
	select k.hint, d.*, k.expires_at as ends_at, $4::int8 + row_number() over (order by k.due_at, k.delivery) as now_due
	from locked k cross join lateral (
		select d.ctid as row, d.id, d.due_at from deliveries d
		where d.id = k.delivery and d.state = 0 and d.owner = 0 and d.due_at = k.due_at limit 1) d
	where k.delivery ` + anyID + `),
moved as (
	update deliveries d set due_at = j.now_due, expires_at = least(d.expires_at, j.ends_at)
	from judged j
	where d.id = j.id and d.ctid = j.row and d.state = 0 and d.owner = 0 and d.due_at = j.due_at
	returning d.endpoint, d.due_at, d.id, j.hint),
gone as (
	delete from due where ctid = any (array (select hint from locked))
	returning 1),
waiting as (
	insert into due (endpoint, due_at, delivery)
	select endpoint, due_at, id from moved where (select count(*) from gone) >= 0
	on conflict (endpoint, due_at, delivery) do update set owner = 0)
select count(*) from moved`

	// The first row of an endpoint alone can hold up the others by it.
	tryNowSQL = `
with locked as materialized (
	select q.hint
	from ` + wantedWaits + ` cross join lateral (
		select u.ctid as hint, u.try_at from due u
		where u.endpoint = w.endpoint and u.owner = 0
		order by u.endpoint, u.due_at, u.delivery
		limit 1 for update skip locked) q
	where q.try_at > w.latest and w.expires_at is not null),
moved as (
	update due set try_at = $4 where ctid = any (array (select hint from locked))
	returning 1)
select count(*) from moved`
)

// PullBack implements store.Upkeep.
func (db *DB) PullBack(ctx context.Context, p store.PullBackParams) (int, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	n := len(p.Endpoints)
	endpoint, latest, expires := int4Column(n), int8Column(n), int8Column(n)
	for _, e := range p.Endpoints {
		endpoint.int4(int32(e.Endpoint))
		latest.time(e.Latest)
		expires.time(e.ExpiresAt)
	}
	var moved, tried int
	batch := &pgx.Batch{}
	batch.Queue(pullBackSQL, endpoint, latest, expires, micros(p.Now), p.Limit).QueryRow(func(row pgx.Row) error { return row.Scan(&moved) })
	batch.Queue(tryNowSQL, endpoint, latest, expires, micros(p.Now)).QueryRow(func(row pgx.Row) error { return row.Scan(&tried) })
	if err := db.chores.Run(ctx, batch); err != nil {
		return 0, fail(fmt.Sprintf("pull back what waits too long at %d endpoints", n), err)
	}
	return moved + tried, nil
}
