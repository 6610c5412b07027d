package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// A delivery that waits is nobody's and has its due row, unowned: a claim finds
// it. All others are told of: whether a living owner knows of its own, only that
// owner can say, unless it was born leased below the owner's low-water mark, where the
// owner looks no more; a due row that an epoch owns without the delivery, or the other
// way round, or both of an epoch that has no row, is found by nobody.
const strandedSQL = `
with page as materialized (
	select id, tenant, endpoint, owner, state, due_at from deliveries
	where id >= $1 and id < $2
	order by id limit $3),
unburied as (
	insert into dead (tenant, delivery, endpoint)
	select d.tenant, d.id, d.endpoint
	from page w
	left join lateral (select 1 as there from dead x where x.tenant = w.tenant and x.delivery = w.id limit 1) x on true
	cross join lateral (select tenant, id, endpoint from deliveries d where d.id = w.id and d.state = 2 for share) d
	where w.state = 2 and x.there is null
	on conflict do nothing
	returning 1)
select (select count(*) from page), (select count(*) from unburied),
	(select id from page order by id desc limit 1), s.*
from (values (1)) one left join lateral (
	select w.id, w.endpoint, w.owner, r.epoch is not null and (w.due_at <> 0 or w.id >= r.low_water), w.due_at
	from page w
	left join lateral (select epoch, low_water from replicas where epoch = w.owner and busy limit 1) r on true
	left join lateral (
		select owner from due u where u.endpoint = w.endpoint and u.due_at = w.due_at and u.delivery = w.id limit 1) u on true
	where w.state = 0
		and not coalesce(w.owner = 0 and u.owner = 0, false)
	order by w.id) s on true`

// FindStranded implements store.Upkeep.
func (db *DB) FindStranded(ctx context.Context, p store.FindStrandedParams) (store.Stranded, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := db.chores.Query(ctx, strandedSQL, [16]byte(p.From), [16]byte(p.To), p.Limit)
	if err != nil {
		return store.Stranded{}, fail("look for stranded deliveries", err)
	}
	defer rows.Close()
	var found store.Stranded
	for rows.Next() {
		raw := rows.RawValues()
		if looked := binary.BigEndian.Uint64(raw[0]); looked > 0 && looked == uint64(p.Limit) {
			found.Next = successor(posthaste.ID(raw[2]))
		}
		found.Dead = int(binary.BigEndian.Uint64(raw[1]))
		if raw[3] != nil {
			found.Deliveries = append(found.Deliveries, store.StrandedDelivery{
				Delivery: posthaste.ID(raw[3]),
				Endpoint: store.EndpointNo(binary.BigEndian.Uint32(raw[4])),
				Owner:    store.Epoch(binary.BigEndian.Uint32(raw[5])),
				Living:   raw[6][0] != 0,
				DueAt:    timeAt(int64(binary.BigEndian.Uint64(raw[7]))),
			})
		}
	}
	if err := rows.Err(); err != nil {
		return store.Stranded{}, fail("look for stranded deliveries", err)
	}
	return found, nil
}

// successor returns the next id in order.
func successor(id posthaste.ID) posthaste.ID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

// Those that an epoch owned, as they were found.
const repairOwnedSQL = `
with found as materialized (
	select d.*, ` + blockedIfSo + ` from unnest($3::uuid[], $4::int4[], $5::int8[]) x (id, owner, due_at) cross join lateral (
		select ` + heldColumns + `
		from deliveries d
		where d.id = x.id and d.state = 0 and d.owner = x.owner and d.due_at = x.due_at limit 1) d` + dueOfFound + `
	where x.owner <> 0 and x.id ` + anyID + `),` + revokeTail

// Those that nobody owned, as they were found: no number was held, so none is
// spent. The due row may be there, owned by an epoch that doesn't own the delivery,
// or made by a repair that was faster, which is then no repair of ours.
const repairUnownedSQL = `
with held as materialized (
	select d.* from unnest($2::uuid[], $3::int4[], $4::int8[]) x (id, owner, due_at) cross join lateral (
		select d.ctid as row, d.id, d.endpoint, case when d.due_at = 0 then $1::int8 else d.due_at end as due_at
		from deliveries d
		where d.id = x.id and d.state = 0 and d.owner = 0 and d.due_at = x.due_at limit 1) d
	where x.owner = 0 and x.id ` + anyID + `),
back as (
	update deliveries d set due_at = h.due_at
	from held h where d.id = h.id and d.ctid = h.row and d.due_at <> h.due_at),
waiting as (
	insert into due (endpoint, due_at, delivery)
	select endpoint, due_at, id from held
	on conflict (endpoint, due_at, delivery) do update set owner = 0 where due.owner <> 0
	returning 1)
select count(*) from waiting`

// RepairStranded implements store.Upkeep.
func (db *DB) RepairStranded(ctx context.Context, p store.RepairStrandedParams) (int, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	found := slices.Clone(p.Deliveries)
	slices.SortFunc(found, func(a, b store.StrandedDelivery) int { return a.Delivery.Compare(b.Delivery) })
	n := len(found)
	id, owner, due := uuidColumn(n), int4Column(n), int8Column(n)
	for _, d := range found {
		id.uuid(d.Delivery)
		owner.int4(int32(d.Owner))
		due.time(d.DueAt)
	}
	var revoked store.Reclaimed
	var unowned, blocked int // what is blocked is being taken care of
	batch := &pgx.Batch{}
	queueLocks(batch, id)
	batch.Queue(repairOwnedSQL, micros(p.Now), revokeWaits(), id, owner, due).Query(readRevoked(&revoked, &blocked))
	batch.Queue(repairUnownedSQL, micros(p.Now), id, owner, due).QueryRow(func(row pgx.Row) error { return row.Scan(&unowned) })
	if err := db.chores.Run(ctx, batch); err != nil {
		return 0, fail(fmt.Sprintf("repair %d stranded deliveries", n), err)
	}
	return revoked.Deliveries + unowned, nil
}
