package postgres

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// A tombstone goes when no delivery names it any more. Nothing new can: its deletion is
// long past, and every statement that makes a delivery looks at the routing. The newest
// change of a living tenant stays, since replicas name it as the state they are at.
const purgeTombstonesSQL = `
with page as materialized (
	select p.ctid as row, p.no, p.deleted_at, p.tenant, p.routing_version from endpoints p
	where p.deleted_at <> 0 and p.deleted_at < $1 and (p.deleted_at, p.no) > ($2, $3)
	order by p.deleted_at, p.no limit $4),
free as materialized (
	select p.row, p.no from page p
	where (select d.id from deliveries d where d.endpoint = p.no order by d.endpoint, d.id limit 1) is null
		and (select u.delivery from due u where u.endpoint = p.no order by u.endpoint, u.due_at, u.delivery limit 1) is null
		and (select t.no from tenants t where t.no = p.tenant and t.deleted_at = 0 and t.routing_version = p.routing_version limit 1) is null),
secrets as (
	delete from endpoint_secrets where ctid = any (array (
		select s.ctid from free f cross join lateral (
			select s.ctid from endpoint_secrets s where s.endpoint = f.no order by s.endpoint, s.no limit 1000) s))),
versions as (
	delete from endpoint_versions where ctid = any (array (
		select v.ctid from free f cross join lateral (
			select v.ctid from endpoint_versions v where v.endpoint = f.no order by v.endpoint, v.version limit 100000) v))),
gone as (
	delete from endpoints where ctid = any (array (select row from free)) and deleted_at <> 0
	returning 1)
select (select count(*) from gone), (select count(*) from page), l.deleted_at, l.no
from (values (1)) one left join (select deleted_at, no from page order by deleted_at desc, no desc limit 1) l on true`

// purgeTombstones goes on with the walk over deleted endpoints, a step a call. Where it
// stands is kept in memory: a process that starts begins a new round.
func (db *DB) purgeTombstones(ctx context.Context, before time.Time, limit int, retained *store.Retained) error {
	db.tombstones.Lock()
	defer db.tombstones.Unlock()
	var looked int
	var at *int64
	var no *int32
	err := db.chores.QueryRow(ctx, purgeTombstonesSQL, micros(before), db.tombstones.at, db.tombstones.no, limit).
		Scan(&retained.Endpoints, &looked, &at, &no)
	if err != nil {
		return err
	}
	if looked < limit || at == nil {
		db.tombstones.at, db.tombstones.no = 0, 0
		return nil
	}
	db.tombstones.at, db.tombstones.no = *at, *no
	retained.More = true
	return nil
}
