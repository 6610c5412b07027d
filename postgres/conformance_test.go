package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Database {
		_, url := open(t)
		return conformant(t, Config{URL: url}, func(*testing.T, *DB) {})
	})
}

// conformant is a migrated database and all that the suite does to it. opened is
// called with each handle.
func conformant(t *testing.T, c Config, opened func(*testing.T, *DB)) storetest.Database {
	connect := func(t *testing.T) *DB {
		db := connectWith(t, c)
		opened(t, db)
		return db
	}
	db := connect(t)
	return storetest.Database{
		Store:   db,
		Another: func(t *testing.T) store.Store { return connect(t) },
		Wipe:    func(t *testing.T, table string) { exec(t, db, "delete from "+table) },
		Exec:    func(t *testing.T, sql string) { exec(t, db, sql) },
		Refuse: func(t *testing.T, eventType string) {
			exec(t, db, `create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`)
			exec(t, db, `create trigger refuse before insert on events for each row when (new.type = '`+eventType+`') execute function refuse()`)
		},
		AgeBeat: func(t *testing.T, epoch store.Epoch, by time.Duration) {
			exec(t, db, "update replicas set beat_at = beat_at - $2 where epoch = $1", int32(epoch), by.Microseconds())
		},
		StrayDue: func(t *testing.T, key store.DueKey) {
			exec(t, db, "insert into due (endpoint, due_at, delivery) values ($1, $2, $3)",
				int32(key.Endpoint), micros(key.DueAt), [16]byte(key.Delivery))
		},
		DueRows: func(t *testing.T) map[posthaste.ID]int { return dueRows(t, db) },
		Break:   func(t *testing.T, damage storetest.Damage, id posthaste.ID) { damageDelivery(t, db, damage, id) },
	}
}

func damageDelivery(t *testing.T, db *DB, damage storetest.Damage, id posthaste.ID) {
	t.Helper()
	for _, sql := range map[storetest.Damage][]string{
		storetest.AttemptLost:  {"delete from attempts where delivery = $1 and number = 1"},
		storetest.HistoryLost:  {"delete from attempts where delivery = $1", "update deliveries set attempts = 0 where id = $1"},
		storetest.ReasonLost:   {"update deliveries set reason = 0 where id = $1"},
		storetest.DeliveryLost: {"delete from deliveries where id = $1", "delete from due where delivery = $1", "delete from dead where delivery = $1"},
		storetest.DueLost:      {"delete from due where delivery = $1"},
	}[damage] {
		exec(t, db, sql, [16]byte(id))
	}
}

func dueRows(t *testing.T, db *DB) map[posthaste.ID]int {
	t.Helper()
	rows, err := db.side.Query(t.Context(), "select delivery from due")
	if err != nil {
		t.Fatal(err)
	}
	n := map[posthaste.ID]int{}
	var id [16]byte
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { n[id]++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}
