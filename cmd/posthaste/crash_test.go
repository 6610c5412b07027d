package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/internal/testdb/cluster"
)

const kills = 10

// arrived waits until every accepted event has arrived, and checks the number of duplicates.
func arrived(t *testing.T, c *counter, accepted []string, within time.Duration, mostDuplicates int) {
	t.Helper()
	began := time.Now()
	eventually(t, within, "every accepted event has arrived", func() bool {
		missing, _ := c.missing(accepted)
		return missing == 0
	})
	_, duplicates := c.missing(accepted)
	t.Logf("accepted %d, lost 0, duplicates %d (at most %d allowed), last arrival within %.1fs after the load ended",
		len(accepted), duplicates, mostDuplicates, time.Since(began).Seconds())
	if duplicates > mostDuplicates {
		t.Errorf("%d duplicates, at most %d are explained by what was in flight or unrecorded", duplicates, mostDuplicates)
	}
}

// settledEverywhere waits until nothing is pending, so that verify looks at terminal states.
func settledEverywhere(t *testing.T, r *replica, within time.Duration) {
	t.Helper()
	eventually(t, within, "no delivery is pending or delivering", func() bool {
		for _, status := range []string{"pending", "delivering"} {
			code, raw := r.api(http.MethodGet, "/v1/deliveries?limit=1&status="+status, "")
			if code != http.StatusOK {
				return false
			}
			if string(raw[:len(`{"data":[]`)]) != `{"data":[]` {
				return false
			}
		}
		return true
	})
}

func TestCrashSIGKILLUnderLoadOnSQLite(t *testing.T) {
	db := testdb.SQLite(t)
	c := newCounter(t)
	r := newReplica(t, db, nil)
	r.start()
	r.endpoint(c.URL)
	l := startLoad(t, 16, 1_000_000, r.url)
	for range kills {
		grow(t, l, 300+rand.IntN(1000))
		r.kill()
		r.start()
	}
	grow(t, l, 300)
	l.stop()
	arrived(t, c, l.ids(), 30*time.Second, (crashMaxInFlight+crashUnrecorded)*kills)
	settledEverywhere(t, r, 10*time.Second)
	verify(t, db) // beside the running server
	r.terminate(15 * time.Second)
	verify(t, db)
}

func TestCrashSIGKILLUnderLoadOnPostgres(t *testing.T) {
	db := testdb.Postgres(t)
	c := newCounter(t)
	pair := []*replica{newReplica(t, db, nil), newReplica(t, db, nil)}
	pair[0].start()
	pair[1].start()
	pair[0].endpoint(c.URL)
	l := startLoad(t, 16, 1_000_000, pair[0].url, pair[1].url)
	for i := range kills {
		grow(t, l, 300+rand.IntN(1000))
		victim := pair[i%2]
		victim.kill()
		grow(t, l, 100) // the other one goes on
		victim.start()
	}
	l.stop()
	arrived(t, c, l.ids(), 60*time.Second, (crashMaxInFlight+crashUnrecorded)*kills)
	settledEverywhere(t, pair[0], 30*time.Second)
	verify(t, db)
}

// grow waits until n more events have been accepted.
func grow(t *testing.T, l *load, n int) {
	t.Helper()
	target := l.count() + n
	eventually(t, 60*time.Second, fmt.Sprintf("%d more events are accepted", n), func() bool { return l.count() >= target })
}

func TestCrashSIGTERMUnderLoad(t *testing.T) {
	for name, db := range map[string]func(testing.TB) string{"sqlite": testdb.SQLite, "postgres": testdb.Postgres} {
		t.Run(name, func(t *testing.T) {
			db := db(t)
			c := newCounter(t)
			c.delay.Store(int64(50 * time.Millisecond))
			r := newReplica(t, db, nil)
			r.start()
			r.endpoint(c.URL)
			l := startLoad(t, 16, 1_000_000, r.url)
			grow(t, l, 1500)
			took := r.terminate(10 * time.Second)
			l.stop()
			t.Logf("out in %.2fs of a grace of 10s", took.Seconds())
			r.start()
			arrived(t, c, l.ids(), 30*time.Second, 0)
			settledEverywhere(t, r, 10*time.Second)
			r.terminate(10 * time.Second)
			verify(t, db)
			if name == "postgres" {
				if n := count(t, db, `select (select count(*) from deliveries where owner <> 0) + (select count(*) from due) + (select count(*) from replicas)`); n != 0 {
					t.Errorf("%d leases, due rows or replica rows are left behind", n)
				}
			}
		})
	}
}

func TestCrashSIGTERMWhileAReceiverHangs(t *testing.T) {
	db := testdb.Postgres(t)
	c := newCounter(t)
	c.delay.Store(int64(time.Hour))
	r := newReplica(t, db, map[string]string{"POSTHASTE_SHUTDOWN_TIMEOUT": "4s"})
	r.start()
	body := fmt.Sprintf(`{"url":%q,"retry":{"timeout":"30s","schedule":["1s","1s"]}}`, c.URL)
	if status, raw := r.api(http.MethodPost, "/v1/endpoints", body); status != http.StatusCreated {
		t.Fatalf("create endpoint: %d %s", status, raw)
	}
	l := startLoad(t, 4, 40, r.url)
	l.done.Wait()
	took := r.terminate(30 * time.Second)
	if took < 4*time.Second {
		t.Errorf("out after %v: attempts under way had less than the shutdown timeout of 4s", took)
	}
	if n := count(t, db, `select (select count(*) from deliveries where owner <> 0) + (select count(*) from due where owner <> 0) + (select count(*) from replicas)`); n != 0 {
		t.Errorf("%d leases or replica rows are left behind", n)
	}
	if n := count(t, db, `select count(*) from v_attempts where outcome = 'lost'`); n == 0 {
		t.Error("attempts that were cut short are not recorded as lost")
	}
	c.delay.Store(0)
	r.start()
	arrived(t, c, l.ids(), 30*time.Second, 0)
	settledEverywhere(t, r, 10*time.Second)
	verify(t, db)
}

func TestCrashSIGSTOPUntilReclaimed(t *testing.T) {
	db := testdb.Postgres(t)
	c := newCounter(t)
	c.delay.Store(int64(20 * time.Millisecond))
	sleeper, other := newReplica(t, db, nil), newReplica(t, db, nil)
	sleeper.start()
	other.start()
	sleeper.endpoint(c.URL)
	l := startLoad(t, 16, 1_000_000, sleeper.url, other.url)
	grow(t, l, 1000)
	sleeper.signal(syscall.SIGSTOP)
	before := count(t, db, `select count(*) from replicas`)
	eventually(t, 40*time.Second, "the stopped replica is reclaimed", func() bool {
		return count(t, db, `select count(*) from replicas`) < before
	})
	sleeper.signal(syscall.SIGCONT)
	grow(t, l, 500)
	l.stop()
	arrived(t, c, l.ids(), 40*time.Second, crashMaxInFlight+crashUnrecorded)
	settledEverywhere(t, other, 30*time.Second)
	verify(t, db)
}

func TestCrashDatabaseStopsUnderLoad(t *testing.T) {
	server := testdb.NewCluster(t)
	db := server.Postgres()
	c := newCounter(t)
	pair := []*replica{newReplica(t, db, nil), newReplica(t, db, nil)}
	pair[0].start()
	pair[1].start()
	pair[0].endpoint(c.URL)
	l := startLoad(t, 16, 1_000_000, pair[0].url, pair[1].url)
	grow(t, l, 1000)
	epochs := count(t, db, `select max(epoch) from replicas`)
	server.Stop(cluster.Immediate)
	wait(t.Context(), 20*time.Second)
	server.Start()
	grow(t, l, 1000)
	l.stop()
	if l.refused[http.StatusServiceUnavailable] == 0 {
		t.Errorf("no 503 while the database was away: %v", l.refused)
	}
	arrived(t, c, l.ids(), 60*time.Second, 2*(crashMaxInFlight+crashUnrecorded))
	settledEverywhere(t, pair[0], 30*time.Second)
	if n := count(t, db, `select max(epoch) from replicas`); n != epochs {
		t.Errorf("a living replica was reclaimed: the highest epoch went from %d to %d", epochs, n)
	}
	t.Logf("answers while away: %v", l.refused)
	verify(t, db)
}

func TestCrashDisposablePartIsWiped(t *testing.T) {
	db := testdb.Postgres(t)
	c := newCounter(t)
	c.status.Store(http.StatusServiceUnavailable) // everything piles up as due
	pair := []*replica{
		newReplica(t, db, map[string]string{"POSTHASTE_RECONCILE_INTERVAL": "5s"}),
		newReplica(t, db, map[string]string{"POSTHASTE_RECONCILE_INTERVAL": "5s"}),
	}
	pair[0].start()
	pair[1].start()
	body := fmt.Sprintf(`{"url":%q,"max_in_flight":64,"retry":{"schedule":["20s","20s","20s","20s","20s","20s"],"timeout":"5s"}}`, c.URL)
	if status, raw := pair[0].api(http.MethodPost, "/v1/endpoints", body); status != http.StatusCreated {
		t.Fatalf("create endpoint: %d %s", status, raw)
	}
	const events = 50_000
	l := startLoad(t, 32, events, pair[0].url, pair[1].url)
	grow(t, l, events/2)
	pending := count(t, db, `select count(*) from deliveries where state = 0`)
	if pending < 20_000 {
		t.Fatalf("only %d deliveries are pending", pending)
	}
	execute(t, db, `truncate due; truncate dead; delete from replicas`)
	t.Logf("wiped due, dead and replicas under load, with %d pending", pending)
	c.status.Store(http.StatusOK)
	l.done.Wait()
	if n := l.count(); n < events*9/10 {
		t.Errorf("only %d of %d events were accepted: %v", n, events, l.refused)
	}
	arrived(t, c, l.ids(), 150*time.Second, 2*(crashMaxInFlight+crashUnrecorded))
	settledEverywhere(t, pair[0], 60*time.Second)
	verify(t, db)
}

// count runs a query that returns one number.
func count(t *testing.T, db, query string) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func execute(t *testing.T, db, statements string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}
