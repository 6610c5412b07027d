package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
)

// A day is a UTC day: events, deliveries and attempts have one partition each
// for it, with the same bounds.
type day time.Time

const dayLength = 24 * time.Hour

func dayOf(t time.Time) day { return day(t.UTC().Truncate(dayLength)) }

func (d day) next() day             { return day(time.Time(d).Add(dayLength)) }
func (d day) after(other day) bool  { return time.Time(d).After(time.Time(other)) }
func (d day) String() string        { return time.Time(d).Format("2006-01-02") }
func (d day) suffix() string        { return time.Time(d).Format("20060102") }
func (d day) floor() posthaste.ID   { return posthaste.FloorID(time.Time(d)) }
func (d day) ceiling() posthaste.ID { return d.next().floor() }

// MakePartitions makes the daily partitions that cover [from, to], where they
// don't exist. Any number of callers at once is fine.
func (db *DB) MakePartitions(ctx context.Context, from, to time.Time) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	last := dayOf(to)
	for d := dayOf(from); !d.after(last); d = d.next() {
		err := pgx.BeginFunc(ctx, db.lookups, func(tx pgx.Tx) error { return makeDay(ctx, tx, d) })
		if err != nil {
			return fail("make the partitions of "+d.String(), err)
		}
	}
	return nil
}

const (
	partitionLockSQL = `select pg_advisory_xact_lock($1)`
	// Not to_regclass, whose cache would still say no after the wait for the lock.
	partitionKnownSQL = `
select exists (
	select from pg_inherits i join pg_class c on c.oid = i.inhrelid
	where i.inhparent = 'deliveries'::regclass and c.relname = $1)`
)

// The leaves are made alone and attached afterwards, since create table …
// partition of would lock out every reader and writer of the parent; attach
// doesn't. Between two indexes of an empty table that cost the same the planner
// takes the younger: so the primary key of deliveries is made last. %[1]s is the day as 20061129, %[2]s and %[3]s are its bounds.
const makeDayDDL = `
create table events_%[1]s (like events including defaults including storage)
	with (autovacuum_vacuum_insert_scale_factor = 0.2);
create table deliveries_%[1]s (like deliveries including defaults including storage)
	with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2);
create table attempts_%[1]s (like attempts including defaults including storage)
	with (autovacuum_vacuum_insert_scale_factor = 0.2);
create index on deliveries_%[1]s (endpoint, id);
alter table deliveries_%[1]s add primary key (id);
alter table events attach partition events_%[1]s for values from ('%[2]s') to ('%[3]s');
alter table deliveries attach partition deliveries_%[1]s for values from ('%[2]s') to ('%[3]s');
alter table attempts attach partition attempts_%[1]s for values from ('%[2]s') to ('%[3]s');`

func makeDay(ctx context.Context, tx pgx.Tx, d day) error {
	if known, err := dayKnown(ctx, tx, d); known || err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, partitionLockSQL, int64(migrationLock)); err != nil {
		return err
	}
	if known, err := dayKnown(ctx, tx, d); known || err != nil { // made while we waited
		return err
	}
	ddl := fmt.Sprintf(makeDayDDL, d.suffix(), uuidText(d.floor()), uuidText(d.ceiling()))
	_, err := tx.Conn().PgConn().Exec(ctx, ddl).ReadAll()
	return err
}

// The three partitions of a day come and go together, so one tells of all.
func dayKnown(ctx context.Context, tx pgx.Tx, d day) (known bool, err error) {
	err = tx.QueryRow(ctx, partitionKnownSQL, "deliveries_"+d.suffix()).Scan(&known)
	return known, err
}

func uuidText(id posthaste.ID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

const daysSQL = `
select substr(c.relname, length('deliveries_') + 1)
from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'deliveries'::regclass
order by 1`

// days lists the days that have partitions, oldest first.
func (db *DB) days(ctx context.Context) ([]day, error) {
	rows, err := db.lookups.Query(ctx, daysSQL)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (day, error) {
		var suffix string
		if err := row.Scan(&suffix); err != nil {
			return day{}, err
		}
		t, err := time.ParseInLocation("20060102", suffix, time.UTC)
		return day(t), err
	})
}
