package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// acceptRounds bounds how often a batch is run again because a rival's row
// stopped one of its events and was gone when we looked for it.
const acceptRounds = 4

// clockSQL is the database's clock in microseconds since 1970.
const clockSQL = `(extract(epoch from clock_timestamp()) * 1000000)::int8`

// fenceSQL finds the epoch $1 if it is busy and has beaten within the last $2
// microseconds, and keeps it from being reclaimed until the transaction ends.
const fenceSQL = `fence as materialized (
	select epoch from replicas
	where epoch = $1 and busy and beat_at > ` + clockSQL + ` - $2::int8
	for key share)`

// One statement, so that no round trip lies inside the fence's lock. What the
// insert into events returns are the winners; everything else hangs on them.
//
// The tests "in (select …)" stand beside an or, or inside coalesce, to stay
// sub-plans with a hash table; see plan.go.
const acceptSQL = acceptHead + acceptMiddle + plainDeliveries + acceptTail + `0`

// The same for a batch that may have been stored already, which then adds nothing,
// and for one in which events have parents. To ask for it each time would
// cost a seventh of the whole.
const acceptCarefulSQL = acceptHead + unlessStored + acceptMiddle + plainDeliveries + acceptTail + orphansFail

const plainDeliveries = `unnest($23::uuid[], $24::uuid[], $25::int4[], $26::int4[], $27::int8[], $28::int8[])`

// The same again for a batch that has ordered deliveries as well. Their endpoints, $32, are
// locked: what they may follow is committed, and nobody else goes to the end.
const acceptOrderedSQL = acceptHead + unlessStored + acceptMiddle + `(
		select d.event, d.id, d.tenant, d.endpoint,
			case when d.place > 0 then e.ends[d.place] + d.place_offset else d.due_at end,
			d.expires_at
		from (
			select array_agg(` + endOfOrder + ` order by x.place) as ends
			from ` + readClock + ` cross join unnest($32::int4[]) with ordinality x (endpoint, place)) e
		cross join unnest($23::uuid[], $24::uuid[], $25::int4[], $26::int4[], $27::int8[], $28::int8[], $30::int4[], $31::int8[])
			d (event, id, tenant, endpoint, due_at, expires_at, place, place_offset))` + acceptTail + orphansFail

// The ids of the batch must not be below the low-water mark: what is born there, nobody
// would look for if the replica died.
const acceptHead = `
with fence as materialized (
	select epoch from replicas
	where epoch = $1 and busy and beat_at > ` + clockSQL + ` - $2::int8 and low_water <= all ($5::uuid[])
	for key share),
moved as materialized (
	select r.no, coalesce(t.routing_version, -1) as routing_version
	from unnest($3::int4[], $4::int8[]) r (no, version) left join lateral (
		select routing_version from tenants where no = r.no limit 1) t on true
	where t.routing_version is distinct from r.version),
batch as materialized (
	select * from unnest($5::uuid[], $6::int4[], $7::int4[], $8::text[], $9::text[], $10::bytea[], $11::bytea[],
		$12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[], $16::uuid[], $17::uuid[], $18::bytea[],
		$19::int2[], $20::uuid[], $21::uuid[], $29::bytea[])
		b (id, tenant, fan_out, type, source, content_type, content_encoding,
		idempotency_key, order_key, traceparent, headers, parent, correlation, payload,
		namespace, key, sum, source_headers)
	where exists (select from fence) and not exists (select from moved)),
keyed as (
	insert into idempotency (namespace, tenant, key, event, sum)
	select namespace, tenant, key, id, sum from batch where key is not null
	on conflict do nothing
	returning event),
stored as (
	insert into events (id, tenant, fan_out, type, source, content_type, content_encoding,
		idempotency_key, order_key, traceparent, headers, parent, correlation, source_headers, payload)
	select id, tenant, fan_out, type, source, content_type, content_encoding,
		idempotency_key, order_key, traceparent, headers, parent, correlation, source_headers, payload
	from batch
	where key is null or id in (select event from keyed)`

const unlessStored = `
	on conflict do nothing`

const acceptMiddle = `
	returning id, tenant),
fresh as materialized (select array_agg(id) as ids, array_agg(tenant) as tenants from stored),
told as (
	insert into changes (kind, at, tenants, ids)
	select 1, $22::int8, tenants, ids from fresh where ids is not null),
made as (
	insert into deliveries (id, tenant, endpoint, owner, run_at, due_at, expires_at)
	select d.id, d.tenant, d.endpoint, case when d.due_at = 0 then $1::int4 else 0 end, $22::int8, d.due_at, d.expires_at
	from `

const acceptTail = `
		d (event, id, tenant, endpoint, due_at, expires_at)
	where coalesce(d.event in (select id from stored), false)
	returning endpoint, due_at, id),
waiting as (
	insert into due (endpoint, due_at, delivery)
	select endpoint, due_at, id from made where due_at <> 0
	on conflict (endpoint, due_at, delivery) do update set owner = 0)
select (select count(*) from fence), (select array_agg(no) from moved), (select array_agg(routing_version) from moved),
	(select ids from fresh), `

// orphansFail undoes the statement, by the only error that an expression can make of
// its own accord, where an event is stored and its parent, of the same batch, is not.
const orphansFail = `1 / (case when exists (
		select from batch b
		where b.parent is not null and coalesce(b.id in (select id from stored), false)
			and coalesce(b.parent in (select id from batch), false) and not coalesce(b.parent in (select id from stored), false))
	then 0 else 1 end)`

// Accept implements store.Acceptance.
func (db *DB) Accept(ctx context.Context, p store.AcceptParams) (store.Accepted, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	accepted, err := db.accept(ctx, p)
	if isMissingPartition(err) {
		first, last := p.Events[0].ID, p.Events[0].ID
		for i := range p.Events {
			first, last = lower(first, p.Events[i].ID), higher(last, p.Events[i].ID)
		}
		if err := db.MakePartitions(ctx, first.Time(), last.Time()); err != nil {
			return store.Accepted{}, err
		}
		accepted, err = db.accept(ctx, p)
	}
	if hasState(err, stateDivisionByZero) {
		err = store.ErrParentKept
	}
	if err != nil {
		return store.Accepted{}, fail(fmt.Sprintf("accept %d events", len(p.Events)), err)
	}
	return accepted, nil
}

func lower(a, b posthaste.ID) posthaste.ID {
	if b.Compare(a) < 0 {
		return b
	}
	return a
}

func higher(a, b posthaste.ID) posthaste.ID {
	if b.Compare(a) > 0 {
		return b
	}
	return a
}

func (db *DB) accept(ctx context.Context, p store.AcceptParams) (store.Accepted, error) {
	accepted := store.Accepted{Events: make([]store.AcceptedEvent, len(p.Events))}
	open := make([]int, len(p.Events)) // places in the batch that have no answer yet
	for i := range open {
		open[i] = i
	}
	for round := 0; len(open) > 0; round++ {
		winners, stale, err := db.insertBatch(ctx, p, open)
		if round > 0 && err != nil {
			return store.Accepted{}, unfinished(err)
		}
		if err != nil {
			return store.Accepted{}, err
		}
		if len(stale) > 0 {
			if round > 0 {
				return store.Accepted{}, unfinished(errors.New("the routing moved on"))
			}
			return store.Accepted{Stale: stale}, nil
		}
		var rest []int
		for _, i := range open {
			e := &p.Events[i]
			if len(winners) == len(open) || winners[e.ID] {
				accepted.Events[i] = store.AcceptedEvent{Stored: true, ID: e.ID, FanOut: len(e.Deliveries), Sum: e.Sum}
			} else {
				rest = append(rest, i)
			}
		}
		if open = rest; len(open) == 0 {
			break
		}
		if open, err = db.findExisting(ctx, p, open, accepted.Events); err != nil {
			return store.Accepted{}, unfinished(err)
		}
		if round == acceptRounds {
			return store.Accepted{}, unfinished(fmt.Errorf("%d events are kept out by rows that vanish", len(open)))
		}
	}
	return accepted, nil
}

// unfinished is the error once a part of the batch may be stored: whatever the
// cause, the whole can no longer be refused, only run again.
func unfinished(err error) error {
	return fmt.Errorf("a part of the batch has no answer yet: %w: %v", store.ErrUnavailable, err) //nolint:errorlint // the cause must not be matched
}

// insertBatch runs the statement for the events at the given places. Where all
// of them are stored, it may spare itself their ids: winners then has as many.
func (db *DB) insertBatch(ctx context.Context, p store.AcceptParams, places []int) (winners map[posthaste.ID]bool, stale []store.TenantVersion, err error) {
	fenced := true
	read := func(rows pgx.Rows) error {
		return eachRow(rows, func(raw [][]byte) {
			fenced = binary.BigEndian.Uint64(raw[0]) == 0
			stale = readVersions(raw[1], raw[2])
			winners = make(map[posthaste.ID]bool, len(places))
			eachElement(raw[3], func(id []byte) { winners[posthaste.ID(id)] = true })
		})
	}
	args := together(acceptArgs(p, places))
	one := func(sql string) error {
		rows, err := db.hot.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		return read(rows)
	}
	switch o := orderingOf(p, places); {
	case len(o.endpoints) > 0:
		batch := &pgx.Batch{}
		queueOrderLock(batch, o.endpoints...)
		batch.Queue(acceptOrderedSQL, together(append(args, o.args()...))...).Query(read)
		err = db.hot.Run(ctx, batch)
	case db.hot.tx != nil || haveParents(p, places): // a transaction would not outlive the failure
		err = one(acceptCarefulSQL)
	default:
		if err = one(acceptSQL); hasState(err, stateUniqueViolation) { // an earlier run stored it
			err = one(acceptCarefulSQL)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if fenced {
		return nil, nil, store.ErrFenced
	}
	return winners, stale, nil
}

func haveParents(p store.AcceptParams, places []int) bool {
	return slices.ContainsFunc(places, func(i int) bool { return !p.Events[i].Parent.IsZero() })
}

func readVersions(tenants, versions []byte) (out []store.TenantVersion) {
	eachElement(tenants, func(v []byte) {
		out = append(out, store.TenantVersion{Tenant: store.TenantNo(binary.BigEndian.Uint32(v))})
	})
	i := 0
	eachElement(versions, func(v []byte) {
		out[i].Version = int64(binary.BigEndian.Uint64(v))
		i++
	})
	return out
}

// acceptArgs lays the events at the given places out as the statement's columns.
func acceptArgs(p store.AcceptParams, places []int) []any {
	n, payloads, fan := len(places), 0, 0
	for _, i := range places {
		payloads += len(p.Events[i].Payload)
		fan += len(p.Events[i].Deliveries)
	}
	id, tenant, fanOut, kind, source := uuidColumn(n), int4Column(n), int4Column(n), textColumn(n), textColumn(n)
	contentType, encoding, idemKey, orderKey := byteColumn(n, 24), byteColumn(n, 0), byteColumn(n, 24), byteColumn(n, 0)
	trace, headers, parent, correlation := byteColumn(n, 0), byteColumn(n, 0), uuidColumn(n), uuidColumn(n)
	sourceHeaders, payload := byteColumn(n, 0), byteColumn(1, payloads+4*n)
	namespace, key, sum := int2Column(n), uuidColumn(n), uuidColumn(n)
	dEvent, dID, dTenant, dEndpoint := uuidColumn(fan), uuidColumn(fan), int4Column(fan), int4Column(fan)
	dDue, dExpires := int8Column(fan), int8Column(fan)
	now := micros(p.Now)
	for _, i := range places {
		e := &p.Events[i]
		id.uuid(e.ID)
		tenant.int4(int32(e.Tenant))
		fanOut.int4(int32(len(e.Deliveries)))
		kind.text(e.Type)
		source.text(e.Source)
		contentType.textOrNone(e.ContentType)
		encoding.textOrNone(e.ContentEncoding)
		idemKey.textOrNone(e.IdempotencyKey)
		orderKey.textOrNone(e.OrderKey)
		trace.textOrNone(e.Traceparent)
		headers.bytesOrNone(appendHeaders(e.Headers))
		parent.uuidOrNone(e.Parent)
		if e.CorrelationID == e.ID {
			correlation.none()
		} else {
			correlation.uuidOrNone(e.CorrelationID)
		}
		sourceHeaders.bytesOrNone(appendHeaders(e.SourceHeaders))
		payload.bytes(e.Payload)
		namespace.int2(e.Namespace)
		if e.HasKey() {
			key.uuid(e.Key)
		} else {
			key.none()
		}
		sum.uuid(e.Sum)
		for j, d := range e.Deliveries {
			dEvent.uuid(e.ID)
			dID.uuid(e.ID.Delivery(uint32(j + 1)))
			dTenant.int4(int32(e.Tenant))
			dEndpoint.int4(int32(d.Endpoint))
			switch {
			case d.Leased:
				dDue.int8(0)
			case d.DueAt.IsZero():
				dDue.int8(now)
			default:
				dDue.int8(micros(d.DueAt))
			}
			dExpires.time(d.ExpiresAt)
		}
	}
	routed, version := versionColumns(p.Routing)
	return []any{
		int32(p.Epoch), freshMicros, routed, version,
		id, tenant, fanOut, kind, source, contentType, encoding, idemKey, orderKey, trace, headers, parent, correlation, payload,
		namespace, key, sum, now, dEvent, dID, dTenant, dEndpoint, dDue, dExpires, sourceHeaders,
	}
}

const freshMicros = int64(store.FreshBeat / time.Microsecond)

func versionColumns(versions []store.TenantVersion) (tenant, version *column) {
	tenant, version = int4Column(len(versions)), int8Column(len(versions))
	for _, v := range versions {
		tenant.int4(int32(v.Tenant))
		version.int8(v.Version)
	}
	return tenant, version
}

// A statement of its own, so that it sees the rival's row that a batch has
// just run into: the conflict proves that the rival has committed. An event's
// own id goes before its key: it is then stored by an earlier run of the batch.
const existingSQL = `
select x.place, coalesce(mine.id, i.event), coalesce(mine.fan_out, theirs.fan_out, 0), i.sum
from unnest($1::int4[], $2::uuid[], $3::int4[], $4::int2[], $5::uuid[]) x (place, id, tenant, namespace, key)
left join lateral (
	select id, fan_out from events e where e.tenant = x.tenant and e.id = x.id limit 1) mine on true
left join lateral (
	select event, sum from idempotency i where i.namespace = x.namespace and i.tenant = x.tenant and i.key = x.key limit 1) i on true
left join lateral (
	select fan_out from events e where e.tenant = x.tenant and e.id = i.event limit 1) theirs on true
where mine.id is not null or i.event is not null`

// findExisting answers the events at the given places with what is stored, and
// returns the places of those that nothing explains.
func (db *DB) findExisting(ctx context.Context, p store.AcceptParams, places []int, answers []store.AcceptedEvent) ([]int, error) {
	n := len(places)
	place, id, tenant, namespace, key := int4Column(n), uuidColumn(n), int4Column(n), int2Column(n), uuidColumn(n)
	for _, i := range places {
		e := &p.Events[i]
		place.int4(int32(i))
		id.uuid(e.ID)
		tenant.int4(int32(e.Tenant))
		namespace.int2(e.Namespace)
		if e.HasKey() {
			key.uuid(e.Key)
		} else {
			key.none()
		}
	}
	rows, err := db.hot.Query(ctx, existingSQL, place, id, tenant, namespace, key)
	if err != nil {
		return nil, err
	}
	var own []int
	var i, fanOut int32
	var found [16]byte
	var sum *[16]byte
	_, err = pgx.ForEachRow(rows, []any{&i, &found, &fanOut, &sum}, func() error {
		e := &p.Events[i]
		answers[i] = store.AcceptedEvent{ID: found, FanOut: int(fanOut), Sum: e.Sum}
		if answers[i].ID == e.ID {
			own = append(own, int(i))
		}
		if sum != nil {
			answers[i].Sum = *sum
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var rest []int
	for _, i := range places {
		if answers[i].ID.IsZero() {
			rest = append(rest, i)
		}
	}
	return rest, db.findMine(ctx, p, own, answers)
}

const mineSQL = `
select x.place, ` + leaseColumns + `
from unnest($1::int4[], $2::uuid[], $3::uuid[]) x (place, first, last)
cross join lateral (
	select * from deliveries d
	where d.id between x.first and x.last and d.owner = $4 and d.state = 0
	order by d.id offset 0) d`

// findMine adds to the events at the given places the leases of their
// deliveries that the batch's epoch holds.
func (db *DB) findMine(ctx context.Context, p store.AcceptParams, places []int, answers []store.AcceptedEvent) error {
	if len(places) == 0 {
		return nil
	}
	place, first, last := int4Column(len(places)), uuidColumn(len(places)), uuidColumn(len(places))
	for _, i := range places {
		place.int4(int32(i))
		first.uuid(p.Events[i].ID.Delivery(1))
		last.uuid(p.Events[i].ID.Delivery(posthaste.MaxNumber))
	}
	rows, err := db.hot.Query(ctx, mineSQL, place, first, last, int32(p.Epoch))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		raw := rows.RawValues()
		i := binary.BigEndian.Uint32(raw[0])
		answers[i].Mine = append(answers[i].Mine, readLease(raw[1:]))
	}
	return rows.Err()
}

// leaseColumns are what readLease reads of a row d of deliveries.
const leaseColumns = `d.id, d.tenant, d.endpoint, d.owner, d.attempts, d.failures, d.due_at, d.expires_at`

func readLease(raw [][]byte) store.Lease {
	return store.Lease{
		Delivery:  posthaste.ID(raw[0]),
		Tenant:    store.TenantNo(binary.BigEndian.Uint32(raw[1])),
		Endpoint:  store.EndpointNo(binary.BigEndian.Uint32(raw[2])),
		Epoch:     store.Epoch(binary.BigEndian.Uint32(raw[3])),
		Number:    int(binary.BigEndian.Uint32(raw[4])) + 1,
		Failures:  int(binary.BigEndian.Uint16(raw[5])),
		DueAt:     timeAt(int64(binary.BigEndian.Uint64(raw[6]))),
		ExpiresAt: timeAt(int64(binary.BigEndian.Uint64(raw[7]))),
	}
}

const eventOfKeySQL = `
select e.id, coalesce(e.correlation, e.id), e.fan_out, i.sum
from idempotency i cross join lateral (
	select id, correlation, fan_out from events e where e.tenant = i.tenant and e.id = i.event limit 1) e
where i.namespace = $1 and i.tenant = $2 and i.key = $3`

// EventOfKey implements store.Acceptance.
func (db *DB) EventOfKey(ctx context.Context, p store.KeyParams) (store.KeptEvent, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var id, correlation, sum [16]byte
	var fanOut int
	err := db.lookups.QueryRow(ctx, eventOfKeySQL, p.Namespace, int32(p.Tenant), [16]byte(p.Key)).Scan(&id, &correlation, &fanOut, &sum)
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.KeptEvent{}, fail("look up an idempotency key", err)
	}
	return store.KeptEvent{ID: id, CorrelationID: correlation, FanOut: fanOut, Sum: sum}, nil
}
