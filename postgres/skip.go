package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Run after the locks of queueLocks. A number that is held is recorded as lost: its
// holder's result completes it.
const skipSQL = `
with found as materialized (
	select d.*, ` + blockedIfSo + `
	from (
		select d.ctid as row, d.id, d.endpoint, d.owner, d.attempts, d.due_at from deliveries d
		where d.id = $2 and d.state = 0 and ($3 = 0 or d.tenant = $3) limit 1) d` + dueOfFound + `),` + heldOfFound + `
lost as (
	insert into attempts (delivery, number, started_at, outcome, cause, error, replica)
	select h.id, h.attempts + 1, $1::int8, ` + lostOutcome + `, ` + lostCause + `, '` + lostError + `', ` + nameOfOwner + `
	from held h where h.owner <> 0
	on conflict (delivery, number) do nothing),
ended as (
	update deliveries d
	set state = 2, owner = 0, due_at = 0, finished_at = $1, reason = $4, revoked = 0,
		attempts = h.attempts + (h.owner <> 0)::int4,
		last_outcome = case when h.owner <> 0 then ` + lostOutcome + ` else d.last_outcome end
	from held h where d.id = h.id and d.ctid = h.row
	returning d.tenant, d.endpoint, d.id),
buried as (
	insert into dead (tenant, delivery, endpoint)
	select tenant, id, endpoint from ended
	on conflict do nothing),
told as (
	insert into changes (kind, at, tenants, ids)
	select 3, $1::int8, array_agg(tenant), array_agg(id) from ended having count(*) > 0)
select (select count(*) from ended), (select count(*) from found where blocked)`

// Skip implements store.Skipping.
func (db *DB) Skip(ctx context.Context, p store.SkipParams) (store.DeliveryRow, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := db.skip(ctx, p); err != nil {
		return store.DeliveryRow{}, fail("skip a delivery", err)
	}
	return db.Delivery(ctx, p.Tenant, p.Delivery)
}

func (db *DB) skip(ctx context.Context, p store.SkipParams) error {
	ids := idColumn([]posthaste.ID{p.Delivery})
	for range blockedTries {
		var ended, blocked int
		batch := &pgx.Batch{}
		queueLocks(batch, ids)
		batch.Queue(skipSQL, micros(p.Now), [16]byte(p.Delivery), int32(p.Tenant), int16(posthaste.ReasonSkipped)).
			QueryRow(func(row pgx.Row) error { return row.Scan(&ended, &blocked) })
		if err := db.side.Run(ctx, batch); err != nil {
			return err
		}
		switch {
		case ended > 0:
			return nil
		case blocked == 0:
			if _, err := db.Delivery(ctx, p.Tenant, p.Delivery); err != nil {
				return err
			}
			return errNotPending()
		}
	}
	return errBlocked
}

func errNotPending() error {
	return &posthaste.Error{
		Code: posthaste.CodeNotPending, Message: "the delivery is not pending",
		Hint: "only a pending delivery can be skipped; it has ended already",
	}
}
