package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// One statement. The due rows go first (the lock order), and moved waits for
// them by asking for their number; a new due row is made after that, since it
// may have the key of the old one. A due row that is owned by the lease's epoch and
// carries the lease's time is the lease's: so it may go even where the delivery
// doesn't move.
//
// The guard of moved names the lease's time as well: work that was given back
// keeps its number, and the same epoch may hold it again by a later due row.
// $27 and $28 are the lowest and the highest id. They are there for the
// executor, which then opens the partitions between them and no others.
const settleSQL = `
with batch as materialized (
	select * from unnest($1::int4[], $2::uuid[], $3::int4[], $4::int4[], $5::int4[], $6::int8[],
		$7::bool[], $8::int2[], $9::int2[], $10::int8[], $11::int2[],
		$12::int8[], $13::int4[], $14::int2[], $15::int2[], $16::int2[], $17::int8[],
		$18::int8[], $19::int8[], $20::int8[], $21::int8[], $22::text[], $23::bytea[], $24::bytea[], $25::bytea[], $29::int8[], $30::bool[])
		b (place, id, endpoint, epoch, number, due_at,
		tried, state, failures, next_at, reason,
		started_at, endpoint_version, outcome, cause, status, total,
		dns, connect, tls, first_byte, replica, error, response_headers, response_body, try_at, sent_twice)
	where id ` + anyID + `),
locked as materialized (
	select u.hint
	from (select endpoint, due_at, id, epoch from batch where due_at <> 0 order by endpoint, due_at, id) b
	cross join lateral (
		select u.ctid as hint from due u
		where u.endpoint = b.endpoint and u.due_at = b.due_at and u.delivery = b.id and u.owner = b.epoch
		for update) u),
gone as (
	delete from due where ctid = any (array (select hint from locked))
	returning 1),
found as materialized (
	select b.place, b.id, b.epoch, b.number, b.due_at, b.tried, b.state, b.failures, b.next_at, b.try_at, b.reason, b.outcome, d.row
	from batch b cross join lateral (
		select d.ctid as row from deliveries d
		where d.id = b.id and d.id between $27 and $28 limit 1) d),
moved as (
	update deliveries d
	set state = f.state, owner = 0, failures = f.failures, due_at = f.next_at, reason = f.reason,
		attempts = case when f.tried then f.number else d.attempts end,
		last_outcome = case when f.tried then f.outcome else d.last_outcome end,
		revoked = case when f.tried then 0 else d.revoked end,
		finished_at = case when f.state = 0 then 0 else $26::int8 end
	from found f
	where d.id = f.id and d.ctid = f.row and d.id between $27 and $28
		and d.state = 0 and d.owner = f.epoch and d.attempts = f.number - 1 and d.due_at = f.due_at
		and (select count(*) from gone) >= 0
	returning f.place, f.try_at, d.state, d.tenant, d.endpoint, d.due_at, d.id),
recorded as (
	insert into attempts as a (delivery, number, started_at, endpoint_version, outcome, cause, status, total,
		dns, connect, tls, first_byte, replica, error, response_headers, response_body, sent_twice)
	select id, number, started_at, endpoint_version, outcome, cause, status, total,
		dns, connect, tls, first_byte, replica, error, response_headers, response_body, sent_twice
	from batch where tried
	on conflict (delivery, number) do update
	set late = true, started_at = excluded.started_at, endpoint_version = excluded.endpoint_version,
		outcome = excluded.outcome, cause = excluded.cause, status = excluded.status, total = excluded.total,
		dns = excluded.dns, connect = excluded.connect, tls = excluded.tls, first_byte = excluded.first_byte,
		replica = excluded.replica, error = excluded.error,
		response_headers = excluded.response_headers, response_body = excluded.response_body, sent_twice = excluded.sent_twice
	where a.outcome = ` + lostOutcome + `),
waiting as (
	insert into due (endpoint, due_at, delivery, try_at)
	select endpoint, due_at, id, try_at from moved where state = 0
	on conflict (endpoint, due_at, delivery) do update set owner = 0, try_at = excluded.try_at),
buried as (
	insert into dead (tenant, delivery, endpoint)
	select tenant, id, endpoint from moved where state = 2
	on conflict do nothing),
told as (
	insert into changes (kind, at, tenants, ids)
	select 1 + state, $26::int8, array_agg(tenant), array_agg(id) from moved where state <> 0 group by state)
select array_agg(place) from moved`

// Settle implements store.Delivery. What it is told of deliveries whose day is past its
// retention, and gone, it drops.
func (db *DB) Settle(ctx context.Context, p store.SettleParams) (store.Settled, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	settled := store.Settled{Moved: make([]bool, len(p.Settlements))}
	places := byKey(p.Settlements)
	rest, err := db.settleDelivered(ctx, p, places, settled.Moved)
	if err == nil {
		err = db.settle(ctx, p, rest, settled.Moved)
	}
	if isMissingPartition(err) {
		if rest, err = db.keepKnownDays(ctx, p, rest); err == nil {
			err = db.settle(ctx, p, rest, settled.Moved)
		}
	}
	if err == nil {
		settled.Late, err = db.endLate(ctx, p, places, settled.Moved)
	}
	if err != nil {
		return settled, fail(fmt.Sprintf("settle %d deliveries", len(p.Settlements)), err)
	}
	return settled, nil
}

// byKey returns the places of settlements in the order of their keys, so that no
// two batches lock their rows in opposite orders, each key once: a statement can't
// complete a record that it has itself inserted.
func byKey(settlements []store.Settlement) []int {
	places := make([]int, len(settlements))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int {
		x, y := &settlements[a].Lease, &settlements[b].Lease
		return cmp.Or(x.Delivery.Compare(y.Delivery), cmp.Compare(x.Number, y.Number))
	})
	return slices.CompactFunc(places, func(a, b int) bool {
		x, y := &settlements[a].Lease, &settlements[b].Lease
		return x.Delivery == y.Delivery && x.Number == y.Number
	})
}

func (db *DB) settle(ctx context.Context, p store.SettleParams, places []int, moved []bool) error {
	if len(places) == 0 {
		return nil
	}
	rows, err := db.vital.Query(ctx, settleSQL, together(settleArgs(p, places))...)
	if err != nil {
		return err
	}
	return readMoved(rows, moved)
}

// readMoved reads the places of what moved. Before the last row is read they may still be undone.
func readMoved(rows pgx.Rows, moved []bool) error {
	var places []byte
	if err := eachRow(rows, func(raw [][]byte) { places = bytes.Clone(raw[0]) }); err != nil {
		return err
	}
	eachElement(places, func(v []byte) { moved[binary.BigEndian.Uint32(v)] = true })
	return nil
}

// settleArgs lays the settlements at the given places out as the statement's columns.
func settleArgs(p store.SettleParams, places []int) []any {
	n := len(places)
	place, id, endpoint, epoch, number, due := int4Column(n), uuidColumn(n), int4Column(n), int4Column(n), int4Column(n), int8Column(n)
	tried, state, failures, next, try, reason := boolColumn(n), int2Column(n), int2Column(n), int8Column(n), int8Column(n), int2Column(n)
	a := newAttemptColumns(n)
	for _, i := range places {
		s := &p.Settlements[i]
		place.int4(int32(i))
		id.uuid(s.Lease.Delivery)
		endpoint.int4(int32(s.Lease.Endpoint))
		epoch.int4(int32(s.Lease.Epoch))
		number.int4(int32(s.Lease.Number))
		due.time(s.Lease.DueAt)
		if s.Attempt != nil {
			tried.flag(1)
		} else {
			tried.flag(0)
		}
		state.int2(int16(s.State))
		failures.int2(int16(s.Failures))
		next.int8(nextDue(s, p.Now))
		try.time(s.TryAt)
		reason.int2(int16(s.Reason))
		a.add(s.Attempt)
	}
	first, last := p.Settlements[places[0]].Lease.Delivery, p.Settlements[places[n-1]].Lease.Delivery
	return []any{
		place, id, endpoint, epoch, number, due, tried, state, failures, next, reason,
		a.startedAt, a.version, a.outcome, a.cause, a.status, a.total, a.dns, a.connect, a.tls, a.firstByte,
		a.replica, a.error, a.headers, a.body,
		micros(p.Now), [16]byte(first), [16]byte(last), try, a.sentTwice,
	}
}

// nextDue is the time of the due row that a settlement makes, 0 for none.
func nextDue(s *store.Settlement, now time.Time) int64 {
	switch {
	case s.State != posthaste.StatePending:
		return 0
	case s.DueAt.IsZero():
		return micros(now)
	default:
		return micros(s.DueAt)
	}
}

// attemptColumns are the facts of attempts as parameters.
type attemptColumns struct {
	startedAt, version, outcome, cause, status, total, dns, connect, tls, firstByte, replica, error, headers, body, sentTwice *column
}

func newAttemptColumns(n int) attemptColumns {
	return attemptColumns{
		startedAt: int8Column(n), version: int4Column(n), outcome: int2Column(n), cause: int2Column(n), status: int2Column(n),
		total: int8Column(n), dns: int8Column(n), connect: int8Column(n), tls: int8Column(n), firstByte: int8Column(n),
		replica: textColumn(n), error: byteColumn(n, 0), headers: byteColumn(n, 128), body: byteColumn(n, 32),
		sentTwice: boolColumn(n),
	}
}

// add adds an attempt. nil stands for none, whose facts aren't looked at.
func (c attemptColumns) add(a *posthaste.Attempt) {
	if a == nil {
		a = &posthaste.Attempt{}
	}
	c.addDelivered(a)
	c.outcome.int2(int16(a.Outcome))
	c.cause.int2(int16(a.Cause))
	c.error.textOrNone(a.Error)
	if a.SentTwice {
		c.sentTwice.flag(1)
	} else {
		c.sentTwice.flag(0)
	}
}

// addDelivered adds what there is to say of an attempt that delivered.
func (c attemptColumns) addDelivered(a *posthaste.Attempt) {
	c.startedAt.time(a.StartedAt)
	c.version.int4(int32(a.EndpointVersion))
	c.status.int2(int16(a.StatusCode))
	c.total.int8(a.Timings.Total.Microseconds())
	c.dns.durationOrNone(a.Timings.DNS)
	c.connect.durationOrNone(a.Timings.Connect)
	c.tls.durationOrNone(a.Timings.TLS)
	c.firstByte.durationOrNone(a.Timings.FirstByte)
	c.replica.text(a.Replica)
	c.headers.bytesOrNone(appendHeaders(a.ResponseHeaders))
	c.body.bytesOrNone(a.ResponseBody)
}

// keepKnownDays returns the places of the settlements whose day has a partition.
func (db *DB) keepKnownDays(ctx context.Context, p store.SettleParams, places []int) ([]int, error) {
	days, err := db.days(ctx)
	if err != nil {
		return nil, err
	}
	known := make(map[day]bool, len(days))
	for _, d := range days {
		known[d] = true
	}
	return slices.DeleteFunc(slices.Clone(places), func(i int) bool { // the caller needs its own
		return !known[dayOf(p.Settlements[i].Lease.Delivery.Time())]
	}), nil
}

// A late success ends a delivery that is still pending, whoever holds it now.
// The number that is held is recorded as lost: its holder's result completes it.
const endLateSQL = `
with found as materialized (
	select x.number, d.*, ` + blockedIfSo + `
	from unnest($2::uuid[], $3::int4[]) x (id, number) cross join lateral (
		select d.ctid as row, d.id, d.endpoint, d.owner, d.attempts, d.due_at from deliveries d
		where d.id = x.id and d.state = 0 limit 1) d` + dueOfFound + `
	where x.id ` + anyID + `),` + heldOfFound + `
lost as (
	insert into attempts (delivery, number, started_at, outcome, cause, error, replica)
	select h.id, h.attempts + 1, $1::int8, ` + lostOutcome + `, ` + lostCause + `, '` + lostError + `', ` + nameOfOwner + `
	from held h where h.owner <> 0
	on conflict (delivery, number) do nothing),
ended as (
	update deliveries d
	set state = 1, owner = 0, due_at = 0, finished_at = $1, last_outcome = 1, reason = 0, revoked = 0,
		attempts = greatest(h.number, h.attempts + (h.owner <> 0)::int4)
	from held h where d.id = h.id and d.ctid = h.row
	returning d.tenant, d.id),
told as (
	insert into changes (kind, at, tenants, ids)
	select 2, $1::int8, array_agg(tenant), array_agg(id) from ended having count(*) > 0)
select (select count(*) from ended), (select count(*) from found where blocked)`

// endLate applies the rule of the late success to the deliveries that were
// delivered and didn't move. It returns how many it ended. Most batches have
// none, and cost nothing here.
func (db *DB) endLate(ctx context.Context, p store.SettleParams, places []int, moved []bool) (int, error) {
	id, number := uuidColumn(0), int4Column(0)
	var last posthaste.ID
	for _, i := range places {
		s := &p.Settlements[i]
		if moved[i] || s.Attempt == nil || s.Attempt.Outcome != posthaste.OutcomeDelivered {
			continue
		}
		if s.Lease.Delivery == last {
			continue // two numbers of one delivery: the first will do
		}
		last = s.Lease.Delivery
		id.uuid(s.Lease.Delivery)
		number.int4(int32(s.Lease.Number))
	}
	if id.n == 0 {
		return 0, nil
	}
	late := 0
	for range blockedTries {
		var ended, blocked int
		batch := &pgx.Batch{}
		queueLocks(batch, id)
		batch.Queue(endLateSQL, micros(p.Now), id, number).QueryRow(func(row pgx.Row) error { return row.Scan(&ended, &blocked) })
		if err := db.vital.Run(ctx, batch); err != nil {
			return late, err
		}
		if late += ended; blocked == 0 {
			return late, nil
		}
	}
	return late, errBlocked
}
