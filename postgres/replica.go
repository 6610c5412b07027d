package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// An epoch is the next of its sequence, or the seconds since epochBase if that is more. So
	// it is higher than all before, also those that a database has forgotten which
	// went back in time.
	epochSQL = `select nextval(pg_get_serial_sequence('replicas', 'epoch')), (` + clockSQL + ` / 1000000 - ` + epochBase + `)::int4`
	// epochBase is the year 2026. Epochs are of four bytes, which last for 68 years.
	epochBase    = `1767225600`
	jumpEpochSQL = `select setval(pg_get_serial_sequence('replicas', 'epoch'), $1)`

	// Two that jump to the same epoch at once: one of them draws again.
	registerSQL = `
insert into replicas (epoch, name, beat_at, low_water, delivers)
overriding system value values ($4, $1, ` + clockSQL + `, $2, $3)
on conflict do nothing
returning beat_at`

	// Whoever is registered under the name of the caller is dead, since the
	// caller holds the lock on it.
	namesakesSQL = `select epoch, low_water, ` + clockSQL + ` from replicas where name = $1 order by epoch for update`
)

// Register implements store.Replicas.
func (db *DB) Register(ctx context.Context, p store.RegisterParams) (store.Registered, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var made store.Registered
	first := db.me.Load() == nil
	err := db.direct.use(func() error {
		conn, err := db.direct.hold(ctx, p.Name)
		if err != nil {
			return err
		}
		was := db.me.Load()
		me := &registration{name: p.Name}
		if me.identity, err = identity(ctx, conn); err != nil {
			return err
		}
		err = retryBlocked(ctx, conn, func(tx pgx.Tx) (err error) {
			made, err = register(ctx, tx, p)
			return err
		})
		if err != nil {
			return err
		}
		if was != nil && was.identity != nil && me.identity != nil && *was.identity != *me.identity {
			made.Rewound = true
		}
		me.epoch, db.direct.epoch = made.Epoch, made.Epoch
		db.me.Store(me)
		return nil
	})
	if err == nil && (first || made.Rewound) {
		err = db.purgeForeignChanges(ctx)
	}
	if err != nil {
		return store.Registered{}, fail("register the replica "+strconv.Quote(p.Name), err)
	}
	return made, nil
}

// register makes the new row last, so that its beat is fresh however long the rest
// has taken.
func register(ctx context.Context, tx pgx.Tx, p store.RegisterParams) (store.Registered, error) {
	var made store.Registered
	var now int64
	rows, err := tx.Query(ctx, namesakesSQL, p.Name)
	if err != nil {
		return made, err
	}
	dead, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r store.Replica, err error) {
		err = row.Scan((*int32)(&r.Epoch), (*[16]byte)(&r.LowWater), &now)
		return r, err
	})
	if err != nil {
		return made, err
	}
	for _, r := range dead {
		got, err := takeOver(ctx, tx, r, timeAt(now))
		if err != nil {
			return made, err
		}
		made.Reclaimed += got.Deliveries
		made.Endpoints = append(made.Endpoints, got.Endpoints...)
	}
	slices.Sort(made.Endpoints)
	made.Endpoints = slices.Compact(made.Endpoints)
	for range epochTries {
		var next, seconds int32
		if err := tx.QueryRow(ctx, epochSQL).Scan(&next, &seconds); err != nil {
			return made, err
		}
		if store.Epoch(next) <= p.Last {
			made.Rewound = true
		}
		if seconds = max(seconds, int32(p.Last)+1); seconds > next {
			if _, err := tx.Exec(ctx, jumpEpochSQL, seconds); err != nil {
				return made, err
			}
			next = seconds
		}
		err := tx.QueryRow(ctx, registerSQL, p.Name, [16]byte(p.LowWater), p.Delivers, next).Scan(&now)
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		made.Epoch, made.Now = store.Epoch(next), timeAt(now)
		return made, err
	}
	return made, fmt.Errorf("no epoch is free: %w", store.ErrUnavailable)
}

// epochTries bounds how often an epoch is drawn again.
const epochTries = 100

const (
	beatSQL      = beatHead + sameIdentity + beatTail
	plainBeatSQL = beatHead + beatTail // where the server does not tell its identity
	sameIdentity = `
		and (` + identityOf + `) = $7`
	beatHead = `
with mine as (
	update replicas set beat_at = ` + clockSQL + `, low_water = greatest(low_water, $2), busy = not $3, delivers = $4
	where epoch = $1 and ($5::text is null or name = $5) and beat_at >= $6`
	beatTail = `
	returning epoch, name, busy, delivers, beat_at, low_water)
select * from (
	select * from mine
	union all
	select epoch, name, busy, delivers, beat_at, low_water from replicas where epoch <> $1 and exists (select from mine)) r
order by epoch`
)

// Beat implements store.Replicas.
func (db *DB) Beat(ctx context.Context, p store.BeatParams) (store.Beat, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var beat store.Beat
	batch := &pgx.Batch{}
	name, identity := db.registered(p.Epoch)
	sql, args := plainBeatSQL, []any{int32(p.Epoch), [16]byte(p.LowWater), p.Idle, p.Delivers, name, micros(p.Seen)}
	if identity != nil {
		sql, args = beatSQL, append(args, *identity)
	}
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		var r store.Replica
		var at int64
		_, err := pgx.ForEachRow(rows, []any{(*int32)(&r.Epoch), &r.Name, &r.Busy, &r.Delivers, &at, (*[16]byte)(&r.LowWater)}, func() error {
			r.BeatAt = timeAt(at)
			beat.Replicas = append(beat.Replicas, r)
			if r.Epoch == p.Epoch {
				beat.Now = r.BeatAt
			}
			return nil
		})
		return err
	})
	if len(p.Tenants) > 0 {
		queueNewer(batch, p.Tenants, &beat.Newer)
	}
	if p.RoutingSince > 0 {
		batch.Queue(routingSinceSQL, p.RoutingSince).Query(readNewer(&beat.Newer))
	}
	if !p.Gates.IsZero() {
		batch.Queue(changedGatesSQL, micros(p.Gates.Add(-changedAgain))).Query(func(rows pgx.Rows) error {
			return readGates(rows, &beat.Gates)
		})
	}
	err := db.vital.Run(ctx, batch)
	if err == nil && len(beat.Replicas) == 0 {
		err = db.whyNotBeaten(ctx, p.Epoch, identity)
	}
	if err != nil {
		return store.Beat{}, fail(fmt.Sprintf("beat for epoch %d", p.Epoch), err)
	}
	return beat, nil
}

// lockEpochSQL waits for the accepts and claims of an epoch that are under way, and keeps out
// later ones until the transaction ends.
const (
	lockEpochSQL = `select epoch from replicas where epoch = $1 for update`
	raiseSQL     = `update replicas set low_water = greatest(low_water, $2) where epoch = $1`

	raiseLockWait = 500 * time.Millisecond
)

// RaiseLowWater implements store.Replicas.
func (db *DB) RaiseLowWater(ctx context.Context, p store.RaiseLowWaterParams, known func([]store.Lease) bool) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := db.raiseLowWater(ctx, p, known); err != nil {
		return fail(fmt.Sprintf("raise the low-water mark of epoch %d", p.Epoch), err)
	}
	return nil
}

func (db *DB) raiseLowWater(ctx context.Context, p store.RaiseLowWaterParams, known func([]store.Lease) bool) error {
	found := false
	var owned []store.Lease
	batch := &pgx.Batch{}
	batch.Queue(lockEpochSQL, int32(p.Epoch)).Query(func(rows pgx.Rows) error {
		found = rows.Next()
		rows.Close()
		return rows.Err()
	})
	batch.Queue(ownedSQL, [16]byte(p.From), [16]byte(p.To), int32(p.Epoch)).Query(func(rows pgx.Rows) error {
		return eachRow(rows, func(raw [][]byte) { owned = append(owned, readLease(raw)) })
	})
	s, err := db.vital.begin(ctx, raiseLockWait, batch)
	if err != nil {
		return err
	}
	defer s.end()
	if !found {
		return store.ErrFenced
	}
	if !known(owned) {
		return nil
	}
	batch = &pgx.Batch{}
	batch.Queue(raiseSQL, int32(p.Epoch), [16]byte(p.To))
	return s.commit(ctx, batch)
}

const ownedSQL = `
select ` + leaseColumns + ` from deliveries d
where d.id >= $1 and d.id < $2 and d.owner = $3 and d.state = 0
order by d.id`

// Owned implements store.Replicas.
func (db *DB) Owned(ctx context.Context, p store.OwnedParams) ([]store.Lease, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := db.vital.Query(ctx, ownedSQL, [16]byte(p.From), [16]byte(p.To), int32(p.Epoch))
	if err != nil {
		return nil, fail("list the leases of an epoch", err)
	}
	defer rows.Close()
	var leases []store.Lease
	for rows.Next() {
		leases = append(leases, readLease(rows.RawValues()))
	}
	if err := rows.Err(); err != nil {
		return nil, fail("list the leases of an epoch", err)
	}
	return leases, nil
}

const ownedDueSQL = `
select endpoint, due_at, delivery from due
where (endpoint, due_at, delivery) > ($1, $2, $3) and owner = $4
order by endpoint, due_at, delivery
limit $5`

// OwnedDue implements store.Replicas.
func (db *DB) OwnedDue(ctx context.Context, p store.OwnedDueParams) ([]store.DueKey, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	after := p.After
	rows, err := db.chores.Query(ctx, ownedDueSQL,
		int32(after.Endpoint), micros(after.DueAt), [16]byte(after.Delivery), int32(p.Epoch), p.Limit)
	if err != nil {
		return nil, fail("list the due rows of an epoch", err)
	}
	keys, err := pgx.CollectRows(rows, readDueKey)
	if err != nil {
		return nil, fail("list the due rows of an epoch", err)
	}
	return keys, nil
}

func readDueKey(row pgx.CollectableRow) (store.DueKey, error) {
	var key store.DueKey
	var at int64
	err := row.Scan((*int32)(&key.Endpoint), &at, (*[16]byte)(&key.Delivery))
	key.DueAt = timeAt(at)
	return key, err
}

// $5 are the due times of the leases to revoke, or null: then any that the epoch holds.
const revokeSQL = `
with found as materialized (
	select d.*, ` + blockedIfSo + ` from unnest($4::uuid[], $5::int8[]) x (id, due_at) cross join lateral (
		select ` + heldColumns + `
		from deliveries d where d.id = x.id and d.state = 0 and d.owner = $3 and (x.due_at is null or d.due_at = x.due_at) limit 1) d` + dueOfFound + `
	where x.id ` + anyID + `),` + revokeTail

// Revoke implements store.Replicas.
func (db *DB) Revoke(ctx context.Context, p store.RevokeParams) (int, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	leases := slices.Clone(p.Leases)
	slices.SortFunc(leases, func(a, b store.HeldLease) int {
		return cmp.Or(a.Delivery.Compare(b.Delivery), a.DueAt.Compare(b.DueAt))
	})
	leases = slices.Compact(leases)
	ids, dueAt := uuidColumn(len(leases)), int8Column(len(leases))
	for _, l := range leases {
		ids.uuid(l.Delivery)
		dueAt.time(l.DueAt)
	}
	var revoked store.Reclaimed
	for range blockedTries {
		var blocked int
		batch := &pgx.Batch{}
		queueLocks(batch, ids)
		batch.Queue(revokeSQL, micros(p.Now), revokeWaits(), int32(p.Epoch), ids, dueAt).Query(readRevoked(&revoked, &blocked))
		if err := db.chores.Run(ctx, batch); err != nil {
			return 0, fail(fmt.Sprintf("revoke %d leases", len(p.Leases)), err)
		}
		if blocked == 0 {
			break
		}
	}
	return revoked.Deliveries, nil
}

// The epoch's row is locked first, which waits for an accept or a claim of that
// epoch that is under way, and keeps out later ones: what they stored is seen by
// the statements after it. What the epoch holds is what it was born with, from
// its low-water mark on, and what it claimed, in due.
const (
	silentSQL  = `select low_water from replicas where epoch = $1 and beat_at = $2 for update`
	claimedSQL = `select delivery from due where owner = $1 order by endpoint, due_at, delivery for update`
	bornSQL    = `select d.id from deliveries d where d.id >= $1 and d.owner = $2 and d.state = 0 order by d.id`

	// A due row of the epoch that names no lease of its own becomes nobody's: a
	// claim will judge it.
	freeDueSQL = `
update due set owner = 0
where ctid = any (array (select ctid from due where owner = $1 order by endpoint, due_at, delivery))`
	endReplicaSQL = `delete from replicas where epoch = $1`
)

// Reclaim implements store.Replicas.
func (db *DB) Reclaim(ctx context.Context, p store.ReclaimParams) (store.Reclaimed, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var reclaimed store.Reclaimed
	err := retryBlocked(ctx, db.chores, func(tx pgx.Tx) error {
		dead := store.Replica{Epoch: p.Dead}
		err := tx.QueryRow(ctx, silentSQL, int32(p.Dead), micros(p.SeenBeatAt)).Scan((*[16]byte)(&dead.LowWater))
		if err == nil {
			reclaimed, err = takeOver(ctx, tx, dead, p.Now)
		}
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrConflict
	}
	if err != nil {
		return store.Reclaimed{}, fail(fmt.Sprintf("reclaim epoch %d", p.Dead), err)
	}
	return reclaimed, nil
}

// retryBlocked runs f in a transaction, several times if a lease was blocked.
func retryBlocked(ctx context.Context, on interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, f func(pgx.Tx) error,
) error {
	err := errBlocked
	for try := 0; try < blockedTries && errors.Is(err, errBlocked); try++ {
		err = pgx.BeginFunc(ctx, on, f)
	}
	return err
}

// takeOver revokes every lease of a dead epoch, whose row is locked, and deletes
// the row.
func takeOver(ctx context.Context, tx pgx.Tx, dead store.Replica, now time.Time) (store.Reclaimed, error) {
	var reclaimed store.Reclaimed
	var ids []posthaste.ID
	held := func(rows pgx.Rows) error {
		return eachRow(rows, func(raw [][]byte) { ids = append(ids, posthaste.ID(raw[0])) })
	}
	epoch := int32(dead.Epoch)
	batch := &pgx.Batch{}
	batch.Queue(claimedSQL, epoch).Query(held)
	batch.Queue(bornSQL, [16]byte(dead.LowWater), epoch).Query(held)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return reclaimed, err
	}
	taken := idColumn(compact(ids))
	var blocked int
	batch = &pgx.Batch{}
	queueLocks(batch, taken)
	batch.Queue(revokeSQL, micros(now), revokeWaits(), epoch, taken, nil).Query(readRevoked(&reclaimed, &blocked))
	batch.Queue(freeDueSQL, epoch)
	batch.Queue(endReplicaSQL, epoch)
	err := tx.SendBatch(ctx, batch).Close()
	if err == nil && blocked > 0 {
		err = errBlocked // and all of it is undone: the row must not go before the last lease
	}
	return reclaimed, err
}

// Locked like a reclaim, so that the check sees what the epoch's last accept
// and claim stored.
const (
	retireLockSQL = `select epoch from replicas where epoch = $1 for update`
	retireSQL     = `
with gone as (
	delete from replicas r
	where r.epoch = $1
		and not exists (select from deliveries d where d.id >= r.low_water and d.owner = $1 and d.state = 0)
		and (select u.owner from due u where u.owner = $1 order by u.endpoint, u.due_at, u.delivery limit 1) is null
	returning 1)
select (select count(*) from gone) = 0 and exists (select from replicas where epoch = $1)`
)

// Retire implements store.Replicas. A row that is gone already is no error.
func (db *DB) Retire(ctx context.Context, epoch store.Epoch) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var left bool
	batch := &pgx.Batch{}
	batch.Queue(retireLockSQL, int32(epoch))
	batch.Queue(retireSQL, int32(epoch)).QueryRow(func(row pgx.Row) error { return row.Scan(&left) })
	err := db.chores.Run(ctx, batch)
	if err == nil && left {
		err = store.ErrConflict
	}
	if err != nil {
		return fail(fmt.Sprintf("retire epoch %d", epoch), err)
	}
	db.direct.release(ctx, epoch)
	return nil
}
