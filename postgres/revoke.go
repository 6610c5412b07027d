package postgres

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Taking leases away is three statements sent at once, without a round trip
// between them: lock the due rows, lock the deliveries, move them. So the lock
// order holds, no client is waited for inside the locks, and the third has a
// snapshot in which whatever stood in the way is committed and nothing named can move.
const (
	lockDueSQL = `
with locked as materialized (
	select from (
		select d.endpoint, d.due_at, d.id
		from unnest($1::uuid[]) x (id) cross join lateral (
			select endpoint, due_at, id from deliveries d where d.id = x.id and d.due_at <> 0 limit 1) d
		order by d.endpoint, d.due_at, d.id) d
	cross join lateral (
		select from due u where u.endpoint = d.endpoint and u.due_at = d.due_at and u.delivery = d.id
		for update) u)
select count(*) from locked`

	// In the order of the array, which is sorted.
	lockDeliveriesSQL = `
with locked as materialized (
	select from unnest($1::uuid[]) x (id) cross join lateral (
		select from deliveries d where d.id = x.id for update) d)
select count(*) from locked`
)

// queueLocks locks deliveries, sorted, and their due rows until the batch is done.
func queueLocks(batch *pgx.Batch, ids *column) {
	batch.Queue(lockDueSQL, ids)
	batch.Queue(lockDeliveriesSQL, ids)
}

// heldColumns are what the tail below needs of a delivery d. At an ordered endpoint
// it stays in its place.
const heldColumns = `d.ctid as row, d.id, d.endpoint, d.owner, d.attempts + 1 as number, d.due_at,
		d.due_at <> 0 and coalesce((select p.definition->>'ordered' = 'endpoint' from endpoints p where p.no = d.endpoint), false) as stays,
		least(d.revoked + 1, 32767)::int2 as revoked`

// Parts of a statement that finds deliveries d to move and calls them found: the due
// row of each, and whether somebody else has that locked. It was locked before
// the deliveries were; but one that had none, or another, at that moment may have
// been given a new one, which a claim has taken hold of that now waits for our
// delivery. To wait for it in turn would be a deadlock, so such a delivery is
// left alone, and asked for again.
const (
	dueOfFound = `
	left join lateral (
		select u.ctid as hint from due u
		where u.endpoint = d.endpoint and u.due_at = d.due_at and u.delivery = d.id
		for update skip locked) u on true`
	blockedIfSo = `u.hint, u.hint is null and exists (
		select from due u where u.endpoint = d.endpoint and u.due_at = d.due_at and u.delivery = d.id) as blocked`
	heldOfFound = `
held as materialized (select * from found where not blocked),
gone as (
	delete from due where ctid = any (array (select hint from held where hint is not null))
	returning 1),`

	// blockedTries bounds how often blocked deliveries are asked for again.
	blockedTries = 5
)

// errBlocked says that some deliveries were left alone for now.
var errBlocked = fmt.Errorf("deliveries are being claimed at this moment: %w", store.ErrUnavailable)

// nameOfOwner is the name of the replica that owns a row h of held.
const nameOfOwner = `coalesce((select name from replicas r where r.epoch = h.owner), '')`

// revokeTail ends a statement whose CTE found has the leases to take away,
// locked. $1 is now, $2 the waits after the first, second, … revocation. The
// number that was held is recorded as lost in the same transaction: so it is
// never used again. A row of due is made after the old one is gone, since both
// may have the same key.
const revokeTail = heldOfFound + `
lost as (
	insert into attempts (delivery, number, started_at, outcome, cause, error, replica)
	select h.id, h.number, $1::int8, ` + lostOutcome + `, ` + lostCause + `, '` + lostError + `', ` + nameOfOwner + `
	from held h
	on conflict (delivery, number) do nothing),
back as (
	update deliveries d
	set owner = 0, attempts = h.number, revoked = h.revoked, last_outcome = ` + lostOutcome + `,
		due_at = case when h.stays then h.due_at + 1 else ` + revokedUntil + ` end
	from held h where d.id = h.id and d.ctid = h.row
	returning d.endpoint, d.due_at, d.id, case when h.stays then ` + revokedUntil + ` else 0 end as try_at),
waiting as (
	insert into due (endpoint, due_at, delivery, try_at)
	select endpoint, due_at, id, try_at from back where (select count(*) from gone) >= 0
	on conflict (endpoint, due_at, delivery) do update set owner = 0, try_at = excluded.try_at)
select count(*), array_agg(distinct endpoint), (select count(*) from found where blocked) from back`

// revokedUntil is when a row h of held may be tried again.
const revokedUntil = `$1::int8 + ($2::int8[])[least(h.revoked, array_length($2::int8[], 1))]`

// How a lost attempt is recorded; the numbers are those of posthaste.OutcomeLost
// and posthaste.CauseLost.
const (
	lostOutcome = `4`
	lostCause   = `13`
	lostError   = `the replica that held this attempt vanished; the request may have been sent`
)

// revokeWaits is store.RevokeBackoff as a parameter.
func revokeWaits() *column {
	c := int8Column(4)
	for times := 1; times <= 4; times++ {
		c.int8(store.RevokeBackoff(times).Microseconds())
	}
	return c
}

// readRevoked adds what a statement with revokeTail answers: how many it took
// back, of which endpoints, and how many were blocked.
func readRevoked(into *store.Reclaimed, blocked *int) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		return eachRow(rows, func(raw [][]byte) {
			into.Deliveries += int(binary.BigEndian.Uint64(raw[0]))
			eachElement(raw[1], func(v []byte) {
				into.Endpoints = append(into.Endpoints, store.EndpointNo(binary.BigEndian.Uint32(v)))
			})
			*blocked = int(binary.BigEndian.Uint64(raw[2]))
		})
	}
}

// compact returns the ids sorted and without duplicates.
func compact(ids []posthaste.ID) []posthaste.ID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, posthaste.ID.Compare)
	return slices.Compact(ids)
}
