package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	purgeStepsPerCall = 64  // of the walk over idempotency
	minPurgePages     = 16  // a step
	keysPerPage       = 100 // in a full page of idempotency, roughly
	daysPerCall       = 8
)

// Retain implements store.Upkeep. A day goes as a whole, oldest first, and only
// when all that happened in it is over; while one day must stay, so do the days
// after it. So the horizon never stands above anything that is kept, and
// whatever is kept can be replayed.
func (db *DB) Retain(ctx context.Context, p store.RetainParams) (store.Retained, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var retained store.Retained
	// Each goes on without the others: a day that can't be dropped must not let
	// keys pile up.
	err := errors.Join(db.dropDays(ctx, p, &retained), db.purgeKeys(ctx, p, &retained), db.purgeChanges(ctx, p, &retained),
		db.purgeTombstones(ctx, p.Now.Add(-p.Retention), p.Limit, &retained))
	secrets, secretsErr := db.dropSecrets(ctx, p.Now, p.Limit)
	gates, gatesErr := db.dropGates(ctx, p.Limit)
	retained.Secrets, retained.Gates = secrets, gates
	retained.More = retained.More || secrets == p.Limit || gates == p.Limit
	if err = errors.Join(err, secretsErr, gatesErr); err != nil {
		return retained, fail("delete what is past its retention", err)
	}
	return retained, nil
}

func (db *DB) dropDays(ctx context.Context, p store.RetainParams, retained *store.Retained) error {
	days, err := db.days(ctx)
	if err != nil {
		return err
	}
	cut := dayOf(p.Now.Add(-p.Retention)) // the day that holds the limit stays
	deadBefore := p.Now.Add(-p.DeadRetention)
	oldest := cut // the oldest day that stays
	for _, d := range days {
		if !cut.after(d) {
			break
		}
		if len(retained.Partitions) == daysPerCall {
			retained.More, oldest = true, d
			break
		}
		dropped, err := db.dropDay(ctx, d, deadBefore, p.Limit, retained)
		if err != nil {
			return err
		}
		if !dropped {
			oldest = d
			break
		}
		retained.Partitions = append(retained.Partitions, d.String())
	}
	_, err = db.chores.Exec(ctx, raiseHorizonSQL, [16]byte(oldest.floor()))
	return err
}

// The horizon is raised, never lowered, but for lowerHorizonSQL. It is locked
// for update by a no-key update's own lock only against its like; so the batch
// that changes it begins with horizonHoldSQL, which waits for every replay and
// resend under way.
const (
	horizonHoldSQL  = `select id from horizon for update`
	raiseHorizonSQL = `update horizon set id = $1 where id < $1`
	lowerHorizonSQL = `update horizon set id = $1 where id > $1`
)

// dropDay drops a day unless something in it must stay. The look before the
// horizon is raised spares replays a refusal for a day that stays anyway; the
// one after it is the one that counts, since no replay can begin there any more.
func (db *DB) dropDay(ctx context.Context, d day, deadBefore time.Time, limit int, retained *store.Retained) (bool, error) {
	if keep, err := db.mustStay(ctx, d, deadBefore); keep || err != nil {
		return false, err
	}
	batch := &pgx.Batch{}
	batch.Queue(horizonHoldSQL)
	batch.Queue(raiseHorizonSQL, [16]byte(d.ceiling()))
	if err := db.chores.Run(ctx, batch); err != nil {
		return false, err
	}
	keep, err := db.mustStay(ctx, d, deadBefore)
	if err == nil && keep { // a replay was faster
		_, err = db.chores.Exec(ctx, lowerHorizonSQL, [16]byte(d.floor()))
	}
	if keep || err != nil {
		return false, err
	}
	purged, err := db.purgeDead(ctx, d, limit)
	retained.PurgedDead += purged
	if err != nil {
		return false, err
	}
	dropped, err := db.dropTables(ctx, d)
	if err == nil && !dropped {
		retained.More = true
	}
	return dropped, err
}

// A scan of a whole day is cheaper in the order of the table, which the
// sessions' settings would forbid.
const (
	allowSeqScanSQL = `select set_config('enable_seqscan', 'on', true)`
	mustStaySQL     = `select exists (select from deliveries_%[1]s where state = 0 or (state = 2 and finished_at > $1))`
)

// mustStay reads the day's own deliveries, never due or dead, which are hints.
func (db *DB) mustStay(ctx context.Context, d day, deadBefore time.Time) (stay bool, err error) {
	batch := &pgx.Batch{}
	batch.Queue(allowSeqScanSQL)
	batch.Queue(fmt.Sprintf(mustStaySQL, d.suffix()), micros(deadBefore)).
		QueryRow(func(row pgx.Row) error { return row.Scan(&stay) })
	err = db.chores.Run(ctx, batch)
	return stay, err
}

const purgeDeadSQL = `
with page as materialized (
	select tenant, id from deliveries_%[1]s where state = 2 and id > $1 order by id limit $2),
gone as (
	delete from dead where ctid = any (array (
		select x.ctid from page w cross join lateral (
			select ctid from dead x where x.tenant = w.tenant and x.delivery = w.id limit 1) x)))
select count(*), (select id from page order by id desc limit 1) from page`

// purgeDead removes the day's rows of dead, limit of them a step, and returns
// how many dead letters the day has.
func (db *DB) purgeDead(ctx context.Context, d day, limit int) (purged int, err error) {
	var after [16]byte
	for {
		var n int
		var last *[16]byte
		if err := db.chores.QueryRow(ctx, fmt.Sprintf(purgeDeadSQL, d.suffix()), after, limit).Scan(&n, &last); err != nil {
			return purged, err
		}
		purged += n
		if n < limit || last == nil {
			return purged, nil
		}
		after = *last
	}
}

// To drop a leaf locks its parent against everybody. So it waits for less than
// deadlock_timeout, after which a statement that waits behind it would suspect a
// deadlock, and tries again later if it isn't let in.
const (
	briefLockSQL = `select set_config('lock_timeout', '400ms', true)`
	dropDayDDL   = `drop table events_%[1]s, deliveries_%[1]s, attempts_%[1]s`

	dropTries = 5
	dropPause = 200 * time.Millisecond
)

// dropTables drops the three partitions of a day together, or returns false if
// it didn't get the locks for it.
func (db *DB) dropTables(ctx context.Context, d day) (bool, error) {
	for try := range dropTries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return false, ctx.Err()
			case <-time.After(dropPause):
			}
		}
		batch := &pgx.Batch{}
		batch.Queue(briefLockSQL)
		batch.Queue(fmt.Sprintf(dropDayDDL, d.suffix()))
		err := db.chores.Run(ctx, batch)
		if !hasState(err, stateLockTimeout) {
			return err == nil, err
		}
	}
	return false, nil
}

// Rows are deleted by where they lie, a range of pages at a time: no second
// index on a table that takes a row for every event, and no scan that reads it
// all to find a few.
const (
	keyPagesSQL  = `select pg_relation_size('idempotency') / current_setting('block_size')::int8`
	purgeKeysSQL = `
delete from idempotency
where ctid >= format('(%s,0)', $1::int8)::tid and ctid < format('(%s,0)', $2::int8)::tid
	and event < case namespace when $3 then $4::uuid else $5::uuid end`
)

// purgeKeys goes on with the walk over the idempotency keys. Where it stands is
// kept in memory: a process that starts anew begins a round anew.
func (db *DB) purgeKeys(ctx context.Context, p store.RetainParams, retained *store.Retained) error {
	db.purge.Lock()
	defer db.purge.Unlock()
	source, other := p.KeyCuts()
	var pages int64
	if err := db.chores.QueryRow(ctx, keyPagesSQL).Scan(&pages); err != nil {
		return err
	}
	step := max(minPurgePages, int64(p.Limit)/keysPerPage)
	for range purgeStepsPerCall {
		if db.purge.page >= pages {
			db.purge.page = 0
			return nil
		}
		tag, err := db.chores.Exec(ctx, purgeKeysSQL, db.purge.page, db.purge.page+step,
			store.NamespaceSource, [16]byte(source), [16]byte(other))
		if err != nil {
			return err
		}
		retained.Keys += int(tag.RowsAffected())
		db.purge.page += step
	}
	retained.More = true
	return nil
}
