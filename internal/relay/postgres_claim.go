package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	rowColumns = `id, row_id, enqueued_at, tenant, type, coalesce(order_key, ''), coalesce(idempotency_key, ''), content_type, headers::text, payload`

	// fitting takes those of the rows head whose payloads fit into $2 bytes, at least one.
	fitting = `select ` + rowColumns + ` from (select *, sum(octet_length(payload)) over (order by id rows unbounded preceding)
		- octet_length(payload) as before from head) head where before < $2 order by id`

	// From an id on, since below it lie only index entries of rows that are gone.
	claimFreeSQL = `with head as materialized (
		select * from posthaste.outbox where order_key is null and id >= $4 and id <> all($3)
		order by id limit $1 for update skip locked) ` + fitting

	// Keys are claimed by bucket, which bounds the locks that a claim may take.
	bucketSQL = `(hashtext(o.order_key) & 255)`
	// A row that is parked holds its key.
	notHeld = `not exists (select from posthaste.outbox_parked p where p.order_key = o.order_key)`

	// By the order of the index that has these rows alone; see outbox/schema.
	claimKeysSQL = `with head as materialized (
		select ` + bucketSQL + ` as bucket from posthaste.outbox o where o.order_key is not null and ` + notHeld + ` order by o.id + 0 limit $1),
	buckets as materialized (select distinct bucket from head)
	select bucket from buckets where pg_try_advisory_xact_lock($2, bucket)`

	// A statement of its own after the locks were taken: it sees what the relays that had
	// them before did, their parked rows too. No other relay has these rows, so they are
	// not skipped when they are locked: the next one of the key must not come first.
	claimOrderedSQL = `with head as materialized (
		select o.* from posthaste.outbox o where o.order_key is not null and ` + bucketSQL + ` = any($4) and o.id <> all($3) and ` + notHeld + `
		order by o.id + 0 limit $1 for update of o) ` + fitting

	deleteSQL = `delete from posthaste.outbox where id = any($1)`
	parkSQL   = `with gone as (delete from posthaste.outbox where id = any($1) returning *)
	insert into posthaste.outbox_parked (id, row_id, enqueued_at, tenant, type, order_key, idempotency_key, content_type, headers, payload, code, reason)
	select g.id, g.row_id, g.enqueued_at, g.tenant, g.type, g.order_key, g.idempotency_key, g.content_type, g.headers, g.payload, v.code, v.reason
	from unnest($1::int8[], $2::text[], $3::text[]) v (id, code, reason) join gone g on g.id = v.id`
)

// lookAgain is how often claims begin at the first row under load: transactions commit
// out of the order of their ids.
const lookAgain = time.Second

// postgresClaim is an open transaction that holds rows.
type postgresClaim struct {
	box   *postgresBox
	tx    pgx.Tx
	found []row
}

func (b *postgresBox) claim(ctx context.Context, p claimParams) (claim, error) {
	tx, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	c := &postgresClaim{box: b, tx: tx}
	if err := c.take(ctx, p); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

func (b *postgresBox) begin(ctx context.Context) (pgx.Tx, error) {
	if b.isHome {
		return b.home.Begin(ctx)
	}
	return b.conn.Begin(ctx)
}

// take finds rows: those without an order key, and those of the keys that are free.
func (c *postgresClaim) take(ctx context.Context, p claimParams) error {
	b := c.box
	if time.Since(b.fromTop) > lookAgain {
		b.from, b.fromTop = 0, time.Now()
	}
	skip := append([]int64{}, p.skip...) // not nil, which would be null
	var free []row
	var buckets []int32
	batch := &pgx.Batch{}
	batch.Queue(claimFreeSQL, p.rows, p.bytes, skip, b.from).Query(readInto(&free))
	batch.Queue(claimKeysSQL, ordered(p.rows), lockKeys).Query(func(rows pgx.Rows) (err error) {
		buckets, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		return err
	})
	if err := c.tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("claim rows: %w", err)
	}
	if len(free) < p.rows/2 { // caught up
		b.from = 0
	} else {
		b.from = free[0].id
	}
	c.found = free
	if len(buckets) == 0 {
		return nil
	}
	batch = &pgx.Batch{}
	batch.Queue(claimOrderedSQL, ordered(p.rows), p.bytes, skip, buckets).Query(readInto(&c.found))
	if err := c.tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("claim rows of order keys: %w", err)
	}
	slices.SortFunc(c.found, func(a, b row) int { return int(a.id - b.id) })
	return nil
}

// ordered is how many rows with an order key are claimed beside others.
func ordered(rows int) int { return (rows + 1) / 2 }

func readInto(to *[]row) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			var r row
			err := rows.Scan(&r.id, &r.rowID, &r.enqueuedAt, &r.tenant, &r.eventType, &r.orderKey, &r.idempotencyKey, &r.contentType, &r.headers, &r.payload)
			if err != nil {
				return err
			}
			*to = append(*to, r)
		}
		return rows.Err()
	}
}

func (c *postgresClaim) rows() []row { return c.found }

func (c *postgresClaim) isJoint() bool { return c.box.isHome }

func (c *postgresClaim) accept(ctx context.Context, p store.AcceptParams) (store.Accepted, error) {
	if c.box.isHome {
		return c.box.home.AcceptWithin(ctx, c.tx, p)
	}
	return c.box.store(ctx, p)
}

func (c *postgresClaim) finish(ctx context.Context, done []int64, parked []verdict) error {
	batch := &pgx.Batch{}
	if len(done) > 0 {
		batch.Queue(deleteSQL, done)
	}
	if len(parked) > 0 {
		batch.Queue(parkSQL, columnsOf(parked)...)
	}
	if err := c.tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("delete rows: %w", err)
	}
	return c.tx.Commit(ctx)
}

func columnsOf(parked []verdict) []any {
	var ids []int64
	var codes, reasons []string
	for _, v := range parked {
		ids, codes, reasons = append(ids, v.id), append(codes, string(v.code)), append(reasons, v.text)
	}
	return []any{ids, codes, reasons}
}

// release rolls back, unless the claim is finished: then there is nothing to do.
func (c *postgresClaim) release() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // the claim's own may be over
	defer cancel()
	_ = c.tx.Rollback(ctx)
}

func (b *postgresBox) park(ctx context.Context, v verdict) error {
	_, err := b.conn.Exec(ctx, parkSQL, columnsOf([]verdict{v})...)
	return err
}
