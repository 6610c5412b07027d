package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/migration"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
)

func TestMigrateTwice(t *testing.T) {
	db, _ := open(t)
	w := newWay(t, db, 3)
	w.batch(t)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate again: %v", err)
	}
	w.batch(t) // what was there still works
	if row, err := db.EndpointByNo(t.Context(), w.endpoint.No); err != nil || row.ID != w.endpoint.ID {
		t.Errorf("endpoint after the second migration: %v, %v", row.ID, err)
	}
}

func TestMigrateAtOnce(t *testing.T) {
	url := testdb.Postgres(t)
	errs := make([]error, 6)
	var wg sync.WaitGroup
	for i := range errs {
		db := connect(t, url)
		wg.Go(func() { errs[i] = db.Migrate(t.Context()) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	tenants, err := connect(t, url).ListTenants(t.Context(), store.ListTenantsParams{Limit: 10})
	if err != nil || len(tenants) != 2 {
		t.Errorf("tenants %v, %v; want default and operator once", tenants, err)
	}
}

func TestMigrateForeignSchema(t *testing.T) {
	for name, damage := range map[string]string{
		"another version":       "update posthaste_schema set sha256 = '\\x00'",
		"another migration":     "update posthaste_schema set name = '0000_other' where name = '0001_initial'",
		"tables of another one": "drop table posthaste_schema",
	} {
		t.Run(name, func(t *testing.T) {
			db, _ := open(t)
			exec(t, db, damage)
			err := db.Migrate(t.Context())
			if !errors.Is(err, store.ErrForeignSchema) || errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("error %v, want ErrForeignSchema and no other", err)
			}
			if e, ok := errors.AsType[*posthaste.Error](err); !ok || e.Hint == "" {
				t.Errorf("error %v has no hint", err)
			}
		})
	}
}

// A schema that is not public: names in the migration and the statements are plain.
func TestMigrateIntoASchema(t *testing.T) {
	db, url := open(t)
	exec(t, db, "create schema elsewhere")
	other := connect(t, url+"&search_path=elsewhere")
	if err := other.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	newWay(t, other, 5).batch(t)
	var n int
	if err := db.side.QueryRow(t.Context(), "select (select count(*) from elsewhere.events) - (select count(*) from public.events)").Scan(&n); err != nil || n != 5 {
		t.Errorf("%d more events elsewhere than in public, want 5; %v", n, err)
	}
}

func TestMigrateIsPrintable(t *testing.T) {
	db, _ := open(t)
	if sql := db.SchemaSQL(); !strings.Contains(sql, "create table events") {
		t.Errorf("schema: %.80q", sql)
	}
}

func TestPartitionsAtOnce(t *testing.T) {
	db, url := open(t)
	from, to := time.Now().AddDate(0, 0, -5), time.Now().AddDate(0, 0, 3)
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		db := connect(t, url)
		wg.Go(func() { errs[i] = db.MakePartitions(t.Context(), from, to) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	days, err := db.days(t.Context())
	if err != nil || len(days) != 9 || days[0] != dayOf(from) || !slices.IsSortedFunc(days, func(a, b day) int { return time.Time(a).Compare(time.Time(b)) }) {
		t.Errorf("days %v, %v; want the nine from %v on", days, err, dayOf(from))
	}
}

// Partitions are cut at UTC midnight, whatever the session's time zone, and the
// three tables have the same bounds.
func TestPartitionBounds(t *testing.T) {
	db, _ := open(t)
	rows, err := db.side.Query(t.Context(), `
		select c.relname, pg_get_expr(c.relpartbound, c.oid) from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where c.relkind = 'r' order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	bounds := map[string]string{}
	err = eachRow(rows, func(raw [][]byte) { bounds[string(raw[0])] = string(raw[1]) })
	if err != nil {
		t.Fatal(err)
	}
	d := dayOf(time.Now())
	want := "FOR VALUES FROM ('" + uuidText(d.floor()) + "') TO ('" + uuidText(d.next().floor()) + "')"
	for _, table := range []string{"events_", "deliveries_", "attempts_"} {
		if got := bounds[table+d.suffix()]; got != want {
			t.Errorf("%s%s: %s, want %s", table, d.suffix(), got, want)
		}
	}
	if time.Time(d.next()).Sub(time.Time(d)) != 24*time.Hour || d.floor().Time() != time.Time(d) {
		t.Errorf("day %v does not begin at UTC midnight", d)
	}
}

// An exclusive migration is refused while a replica is alive, which holds the lock on
// its name, and runs once it is gone.
func TestAnExclusiveMigrationIsRefusedWhileReplicasLive(t *testing.T) {
	db, url := open(t)
	old := connect(t, url)
	if _, err := old.Register(t.Context(), store.RegisterParams{Name: "old", LowWater: posthaste.FloorID(time.Now())}); err != nil {
		t.Fatal(err)
	}
	try := func() error {
		return db.onOwnConnection(t.Context(), "try", func(ctx context.Context, conn *pgx.Conn) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				return refuseWhileAlive(ctx, tx, migration.Migration{Name: "0099_exclusive"})
			})
		})
	}
	if err := try(); !errors.Is(err, store.ErrForeignSchema) || !strings.Contains(err.Error(), "old") {
		t.Errorf("while a replica lives: %v, want ErrForeignSchema that names it", err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if err := try(); err != nil {
		t.Errorf("when it is gone: %v", err)
	}
}
