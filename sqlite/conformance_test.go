package sqlite

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Database {
		db := openTest(t, Config{})
		return storetest.Database{
			Store:         db,
			Another:       func(*testing.T) store.Store { return db },
			SingleReplica: true,
			Wipe: func(t *testing.T, table string) {
				change(t, db, `DELETE FROM `+table)
			},
			Exec: func(t *testing.T, sql string) { change(t, db, sql) },
			Refuse: func(t *testing.T, eventType string) {
				change(t, db, `CREATE TRIGGER refuse BEFORE INSERT ON events WHEN new.type = '`+eventType+`' BEGIN SELECT RAISE(ABORT, 'refused'); END`)
			},
			AgeBeat: func(t *testing.T, epoch store.Epoch, by time.Duration) {
				change(t, db, `UPDATE replicas SET beat_at = beat_at - ?2 WHERE epoch = ?1`, epoch, by.Microseconds())
			},
			StrayDue: func(t *testing.T, k store.DueKey) {
				change(t, db, `INSERT INTO due (endpoint, due_at, delivery) VALUES (?1, ?2, ?3)`, k.Endpoint, k.DueAt, k.Delivery)
			},
			DueRows: func(t *testing.T) map[posthaste.ID]int { return countDue(t, db) },
			Break: func(t *testing.T, damage storetest.Damage, delivery posthaste.ID) {
				for _, query := range damages[damage] {
					change(t, db, query, delivery)
				}
			},
		}
	})
}

var damages = map[storetest.Damage][]string{
	storetest.AttemptLost: {`DELETE FROM attempts WHERE delivery = ?1 AND number = 1`},
	storetest.HistoryLost: {`DELETE FROM attempts WHERE delivery = ?1`, `UPDATE deliveries SET attempts = 0 WHERE id = ?1`},
	storetest.ReasonLost:  {`UPDATE deliveries SET reason = 0 WHERE id = ?1`},
	storetest.DeliveryLost: {
		`DELETE FROM deliveries WHERE id = ?1`, `DELETE FROM due WHERE delivery = ?1`, `DELETE FROM dead WHERE delivery = ?1`,
	},
	storetest.DueLost: {`DELETE FROM due WHERE delivery = ?1`},
}
