package postgres

import (
	"context"
	"fmt"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// deliveredSQL settles what most attempts are: the first of a delivery that was born
// leased, and it delivered. Such a delivery has no row in due and gets none, and
// there is no record of the attempt yet. Where there is one (its loss was recorded,
// or this very batch is settled a second time) the statement fails as a whole, by the
// key of attempts, and settleSQL has to look closer.
//
// %[1]s is the suffix of the tables of the day that all of the batch is of. Without
// partitions to choose from, and without the rest, this takes 60 % of settleSQL's time.
// The join has no "=" in it, so that the planner can't turn it around; see plan.go.
const deliveredSQL = `
with batch as materialized (
	select * from unnest($1::int4[], $2::uuid[], $3::int4[], $4::int8[], $5::int4[], $6::int2[], $7::int8[],
		$8::int8[], $9::int8[], $10::int8[], $11::int8[], $12::text[], $13::bytea[], $14::bytea[])
		b (place, id, epoch, started_at, endpoint_version, status, total,
		dns, connect, tls, first_byte, replica, response_headers, response_body)
	where id ` + anyID + `),
moved as (
	update deliveries_%[1]s d
	set state = 1, owner = 0, attempts = 1, last_outcome = 1, revoked = 0, finished_at = $15::int8
	from batch b
	where d.id between b.id and b.id and d.state = 0 and d.owner = b.epoch and d.attempts = 0 and d.due_at = 0
	returning b.place, d.tenant, d.id),
recorded as (
	insert into attempts_%[1]s (delivery, number, started_at, endpoint_version, outcome, status, total,
		dns, connect, tls, first_byte, replica, response_headers, response_body)
	select id, 1, started_at, endpoint_version, 1, status, total,
		dns, connect, tls, first_byte, replica, response_headers, response_body
	from batch),
told as (
	insert into changes (kind, at, tenants, ids)
	select 2, $15::int8, array_agg(tenant), array_agg(id) from moved having count(*) > 0)
select array_agg(place) from moved`

// isDelivered reports whether deliveredSQL can settle s.
func isDelivered(s *store.Settlement) bool {
	a := s.Attempt
	return a != nil && a.Outcome == posthaste.OutcomeDelivered && a.Cause == 0 && a.Error == "" && !a.SentTwice &&
		s.Lease.Number == 1 && s.Lease.DueAt.IsZero() && s.State == posthaste.StateDelivered && s.Failures == 0 && s.Reason == 0
}

// enoughDelivered is how many of a batch make up for a commit of their own. Under
// load a batch has a hundred.
const enoughDelivered = 32

// settleDelivered settles those of the given places that deliveredSQL can, if they are
// of one day and all of the batch or enough of it, and returns the other places. In
// two commits, since in one the rows that they lock would not be in order. All are left where
// an attempt is recorded already, and where the day's tables are gone or are those of
// another role, on which ours may have no rights but through the partitioned ones.
func (db *DB) settleDelivered(ctx context.Context, p store.SettleParams, places []int, moved []bool) (rest []int, err error) {
	if len(places) == 0 {
		return nil, nil
	}
	today := dayOf(p.Settlements[places[0]].Lease.Delivery.Time())
	ceiling := today.ceiling()
	usual := make([]int, 0, len(places))
	for _, i := range places {
		if s := &p.Settlements[i]; isDelivered(s) && s.Lease.Delivery.Compare(ceiling) < 0 {
			usual = append(usual, i)
		} else {
			rest = append(rest, i)
		}
	}
	if len(usual) == 0 || len(rest) > 0 && len(usual) < enoughDelivered {
		return places, nil
	}
	rows, err := db.vital.Query(ctx, fmt.Sprintf(deliveredSQL, today.suffix()), together(deliveredArgs(p, usual))...)
	if err == nil {
		err = readMoved(rows, moved)
	}
	if hasState(err, stateUniqueViolation) || hasState(err, stateUndefinedTable) || hasState(err, stateNotPermitted) {
		return places, nil
	}
	return rest, err
}

// deliveredArgs lays the settlements at the given places out as the statement's columns.
func deliveredArgs(p store.SettleParams, places []int) []any {
	n := len(places)
	place, id, epoch := int4Column(n), uuidColumn(n), int4Column(n)
	a := newAttemptColumns(n)
	for _, i := range places {
		s := &p.Settlements[i]
		place.int4(int32(i))
		id.uuid(s.Lease.Delivery)
		epoch.int4(int32(s.Lease.Epoch))
		a.addDelivered(s.Attempt)
	}
	return []any{
		place, id, epoch, a.startedAt, a.version, a.status, a.total,
		a.dns, a.connect, a.tls, a.firstByte, a.replica, a.headers, a.body, micros(p.Now),
	}
}
