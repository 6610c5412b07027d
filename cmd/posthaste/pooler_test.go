package main_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// TestCrashThroughAPooler: two replicas that reach their database through a
// PgBouncer in transaction mode, one of them killed under load.
func TestCrashThroughAPooler(t *testing.T) {
	const sessions = 8 // of the pooler; each replica would have twice as many connections
	db := testdb.Postgres(t)
	settings := map[string]string{"POSTHASTE_DB": testdb.Pooler(t, db, sessions), "POSTHASTE_DB_DIRECT": db}
	c := newCounter(t)
	pair := []*replica{newReplica(t, db, settings), newReplica(t, db, settings)}
	pair[0].start()
	pair[1].start()
	pair[0].endpoint(c.URL)
	l := startLoad(t, 16, 1_000_000, pair[0].url, pair[1].url)
	grow(t, l, 2000+rand.IntN(1000))

	// Each replica has its name's lock and its ear on a session past the pooler,
	// and nothing else.
	if n := count(t, db, `select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`); n != 2 {
		t.Errorf("%d advisory locks, want one for each replica", n)
	}
	if n := count(t, db, `select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`); n > sessions+2 {
		t.Errorf("%d sessions, want at most %d of the pooler's and one of each replica", n, sessions)
	}

	pair[1].kill()
	grow(t, l, 1000) // the other one goes on
	pair[1].start()
	grow(t, l, 2000)
	l.stop()
	arrived(t, c, l.ids(), 30*time.Second, crashMaxInFlight+crashUnrecorded)
	settledEverywhere(t, pair[0], 20*time.Second)
	verify(t, db)
	verifyWith(t, settings)
	for _, r := range pair {
		r.terminate(15 * time.Second)
	}
	if n := count(t, db, `select (select count(*) from deliveries where owner <> 0) + (select count(*) from due) + (select count(*) from replicas)`); n != 0 {
		t.Errorf("%d leases, due rows or replica rows are left behind", n)
	}
}
