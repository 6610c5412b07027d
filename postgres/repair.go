package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// horizonLockSQL keeps retention from raising the horizon until the transaction
// ends. It is a statement of its own: what follows must see the days that are
// left when the lock is had, and must not hold their partitions while it waits.
const horizonLockSQL = `select id from horizon for key share`

const replaySQL = `
with revived as (
	update deliveries d
	set state = 0, owner = 0, failures = 0, revoked = 0, reason = 0, finished_at = 0,
		run_at = $3::int8, expires_at = $4,
		due_at = case when $5 then (
			select ` + endOfOrder + ` from ` + readClock + ` cross join lateral (select d.endpoint) x) else $3::int8 end
	where d.id = $2 and d.tenant = $1 and d.state = 2
		and (select id from horizon) < $2
		and (select p.deleted_at from endpoints p where p.no = d.endpoint) = 0
	returning d.tenant, d.endpoint, d.due_at, d.id),
risen as (
	delete from dead where tenant = $1 and delivery = $2 and exists (select from revived)),
waiting as (
	insert into due (endpoint, due_at, delivery)
	select endpoint, due_at, id from revived
	on conflict (endpoint, due_at, delivery) do update set owner = 0)
select count(*) from revived`

// Replay implements store.Repair.
func (db *DB) Replay(ctx context.Context, p store.ReplayParams) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var revived int
	batch := &pgx.Batch{}
	if p.Ordered {
		batch.Queue(orderLockOfSQL, orderLockClass, [16]byte(p.Delivery))
	}
	batch.Queue(horizonLockSQL)
	batch.Queue(replaySQL, int32(p.Tenant), [16]byte(p.Delivery), micros(p.Now), micros(p.ExpiresAt), p.Ordered).
		QueryRow(func(row pgx.Row) error { return row.Scan(&revived) })
	err := db.side.Run(ctx, batch)
	if err == nil && revived == 0 {
		err = db.whyNotReplayed(ctx, p)
	}
	if err != nil {
		return fail("replay a delivery", err)
	}
	return nil
}

const whyNotReplayedSQL = `
select $2 <= (select id from horizon), d.id is not null, d.state = 2,
	exists (select from endpoints p where p.no = d.endpoint and p.deleted_at = 0)
from (values (1)) one left join deliveries d on d.id = $2 and d.tenant = $1`

func (db *DB) whyNotReplayed(ctx context.Context, p store.ReplayParams) error {
	var expired, exists, endpoint bool
	var dead *bool
	err := db.side.QueryRow(ctx, whyNotReplayedSQL, int32(p.Tenant), [16]byte(p.Delivery)).Scan(&expired, &exists, &dead, &endpoint)
	switch {
	case err != nil:
		return err
	case expired:
		return errExpired()
	case !exists:
		return store.ErrNotFound
	case *dead && !endpoint:
		return errEndpointDeleted()
	default: // also one that died again in the meantime: this replay came too early for it
		return &posthaste.Error{
			Code: posthaste.CodeNotDead, Message: "the delivery is not dead",
			Hint: "only a dead delivery can be replayed; resend its event to deliver it once more",
		}
	}
}

func errExpired() error {
	return &posthaste.Error{
		Code: posthaste.CodeExpiredEvent, Message: "the event is past its retention",
		Hint: "send it again as a new event",
	}
}

func errEndpointDeleted() error {
	return &posthaste.Error{
		Code: posthaste.CodeEndpointDeleted, Message: "the endpoint of the delivery is deleted",
		Hint: "resend the event to another endpoint",
	}
}

// Two resends of an event wait for each other on its row, since both would take
// the next number.
const (
	resendLockSQL = `select id from events where tenant = $1 and id = $2 for no key update`
	resendSQL     = `
with numbered as (
	select ('x' || right((
		select d.id from deliveries d where d.id between $2 and $6 order by d.id desc limit 1)::text, 5))::bit(20)::int4 + 1 as n),
made as (
	insert into deliveries (id, tenant, endpoint, run_at, due_at, expires_at)
	select (left($2::uuid::text, 31) || lpad(to_hex(coalesce(n, 1)), 5, '0'))::uuid, $1, $3::int4, $4::int8,
		case when $8 then (select ` + endOfOrder + ` from ` + readClock + ` cross join (select $3::int4 as endpoint) x) else $4::int8 end,
		$5::int8
	from numbered
	where coalesce(n, 1) <= $7::int4
		and $2 > (select id from horizon)
		and exists (select from events where tenant = $1 and id = $2)
		and exists (select from endpoints p where p.no = $3 and p.tenant in ($1, $9) and p.deleted_at = 0)
	returning endpoint, due_at, id),
waiting as (
	insert into due (endpoint, due_at, delivery)
	select endpoint, due_at, id from made
	on conflict (endpoint, due_at, delivery) do update set owner = 0)
select id from made`
)

// Resend implements store.Repair.
func (db *DB) Resend(ctx context.Context, p store.ResendParams) (posthaste.ID, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var made [16]byte
	batch := &pgx.Batch{}
	if p.Ordered {
		queueOrderLock(batch, p.Endpoint)
	}
	batch.Queue(horizonLockSQL)
	batch.Queue(resendLockSQL, int32(p.Tenant), [16]byte(p.Event))
	batch.Queue(resendSQL, int32(p.Tenant), [16]byte(p.Event), int32(p.Endpoint), micros(p.Now), micros(p.ExpiresAt),
		[16]byte(p.Event.Delivery(posthaste.MaxNumber)), posthaste.MaxNumber, p.Ordered, int32(store.EveryTenant)).
		QueryRow(func(row pgx.Row) error { return row.Scan(&made) })
	err := db.side.Run(ctx, batch)
	if errors.Is(err, pgx.ErrNoRows) {
		err = db.whyNotResent(ctx, p)
	}
	if err != nil {
		return posthaste.ID{}, fail("resend an event", err)
	}
	return made, nil
}

const whyNotResentSQL = `
select $2 <= (select id from horizon),
	exists (select from events where tenant = $1 and id = $2),
	exists (select from endpoints where no = $3 and tenant in ($1, $4)),
	exists (select from endpoints where no = $3 and tenant in ($1, $4) and deleted_at = 0)`

func (db *DB) whyNotResent(ctx context.Context, p store.ResendParams) error {
	var expired, event, endpoint, living bool
	err := db.side.QueryRow(ctx, whyNotResentSQL, int32(p.Tenant), [16]byte(p.Event), int32(p.Endpoint), int32(store.EveryTenant)).
		Scan(&expired, &event, &endpoint, &living)
	switch {
	case err != nil:
		return err
	case expired:
		return errExpired()
	case !event, !endpoint:
		return store.ErrNotFound
	case !living:
		return errEndpointDeleted()
	default:
		return &posthaste.Error{
			Code: posthaste.CodeConflict, Message: "the event has no number left for another delivery",
			Hint: "send it again as a new event",
		}
	}
}
