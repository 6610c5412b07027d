package postgres

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Taking leases away is two statements sent at once, without a round trip
// between them: the first locks due rows, the second locks the deliveries and
// moves them. So the lock order holds, no client is waited for inside the locks,
// and the second has a snapshot in which whatever stood in the way is committed.

// lockDueSQL locks the due rows of the deliveries $1.
const lockDueSQL = `
with locked as materialized (
	select u.endpoint
	from unnest($1::uuid[]) x (id)
	join deliveries d on d.id = x.id
	join due u on u.endpoint = d.endpoint and u.due_at = d.due_at and u.delivery = d.id
	order by u.endpoint, u.due_at, u.delivery
	for update of u)
select count(*) from locked`

// heldColumns are what the tail below needs of a delivery d that is taken away.
const heldColumns = `d.id, d.endpoint, d.owner, d.attempts + 1 as number, d.due_at,
	least(d.revoked + 1, 32767)::int2 as revoked`

// revokeTail ends a statement whose CTE held has the leases to take away,
// locked. $1 is now, $2 the waits after the first, second, … revocation. The
// number that was held is recorded as lost in the same transaction: so it is
// never used again. A row of due is made after the old one is gone, since both
// may have the same key.
const revokeTail = `
gone as (
	delete from due u using held h
	where u.endpoint = h.endpoint and u.due_at = h.due_at and u.delivery = h.id
	returning 1),
lost as (
	insert into attempts (delivery, number, started_at, outcome, cause, error, replica)
	select h.id, h.number, $1::int8, ` + lostOutcome + `, ` + lostCause + `, '` + lostError + `', coalesce(r.name, '')
	from held h left join replicas r on r.epoch = h.owner
	on conflict (delivery, number) do nothing),
back as (
	update deliveries d
	set owner = 0, attempts = h.number, revoked = h.revoked, last_outcome = ` + lostOutcome + `,
		due_at = $1::int8 + ($2::int8[])[least(h.revoked, array_length($2::int8[], 1))]
	from held h where d.id = h.id
	returning d.endpoint, d.due_at, d.id),
waiting as (
	insert into due (endpoint, due_at, delivery)
	select endpoint, due_at, id from back where (select count(*) from gone) >= 0
	on conflict (endpoint, due_at, delivery) do update set owner = 0)`

// How a lost attempt is recorded; the numbers are those of posthaste.OutcomeLost
// and posthaste.CauseLost.
const (
	lostOutcome = `4`
	lostCause   = `13`
	lostError   = `the replica that held this attempt vanished; the request may have been sent`
)

// revokedSQL is what a statement with revokeTail answers.
const revokedSQL = `
select (select count(*) from back), (select array_agg(distinct endpoint) from back)`

// revokeWaits is store.RevokeBackoff as a parameter.
func revokeWaits() *column {
	c := int8Column(4)
	for times := 1; times <= 4; times++ {
		c.int8(store.RevokeBackoff(times).Microseconds())
	}
	return c
}

// readRevoked adds what a statement that ends in revokedSQL answers.
func readRevoked(into *store.Reclaimed) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			r := readReclaimed(rows.RawValues())
			into.Deliveries += r.Deliveries
			into.Endpoints = append(into.Endpoints, r.Endpoints...)
		}
		return rows.Err()
	}
}

func readReclaimed(raw [][]byte) store.Reclaimed {
	r := store.Reclaimed{Deliveries: int(binary.BigEndian.Uint64(raw[0]))}
	eachElement(raw[1], func(v []byte) {
		r.Endpoints = append(r.Endpoints, store.EndpointNo(binary.BigEndian.Uint32(v)))
	})
	return r
}

// compact returns the ids sorted and without duplicates.
func compact(ids []posthaste.ID) []posthaste.ID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, posthaste.ID.Compare)
	return slices.Compact(ids)
}
