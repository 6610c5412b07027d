package main_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// lastStatement returns when a connection to the database last began a
// statement, and how many connections there are. It looks from another database.
func lastStatement(t *testing.T, db string) (at time.Time, connections int) {
	t.Helper()
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	name := u.Path[1:]
	u.Path = "/postgres"
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	const look = `select coalesce(max(query_start), 'epoch'), count(*) from pg_stat_activity where datname = $1`
	if err := conn.QueryRow(ctx, look, name).Scan(&at, &connections); err != nil {
		t.Fatal(err)
	}
	return at, connections
}

// asleepSoon waits until no statement has begun for five seconds.
func asleepSoon(t *testing.T, db string) {
	t.Helper()
	eventually(t, 60*time.Second, "the database is left asleep", func() bool {
		at, _ := lastStatement(t, db)
		return time.Since(at) > 5*time.Second
	})
}

func TestIdleEnginesLeaveTheDatabaseAsleep(t *testing.T) {
	db := testdb.Postgres(t)
	c := newCounter(t)
	var all []*replica
	for range 3 {
		r := newReplica(t, db, nil)
		r.start()
		all = append(all, r)
	}
	all[0].endpoint(c.URL)
	ids := startLoad(t, 4, 20, all[0].url, all[1].url, all[2].url)
	ids.done.Wait()
	arrived(t, c, ids.ids(), 20*time.Second, 0)

	asleepSoon(t, db)
	before, connections := lastStatement(t, db)
	began := time.Now()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for time.Since(began) < time.Minute {
		<-tick.C
		for _, r := range all {
			for _, path := range []string{"/readyz", "/livez", "/metrics"} {
				if status, body := r.api(http.MethodGet, path, ""); status != http.StatusOK {
					t.Errorf("%s while idle: %d %s", path, status, body)
				}
			}
		}
	}
	after, _ := lastStatement(t, db)
	t.Logf("3 replicas, %d connections, idle for %.0f s: last statement at %s before and %s after",
		connections, time.Since(began).Seconds(), before.Format(time.TimeOnly), after.Format(time.TimeOnly))
	if !after.Equal(before) {
		t.Error("an idle engine issued a statement")
	}

	// The database closes every connection meanwhile: that costs time, not an error.
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, db, fmt.Sprintf(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '%s' and pid <> pg_backend_pid()`, u.Path[1:]))
	woken := startLoad(t, 3, 30, all[0].url, all[1].url, all[2].url)
	woken.done.Wait()
	if n := woken.count(); n != 30 {
		t.Errorf("after the connections were closed %d of 30 events were accepted: %v", n, woken.refused)
	}
	arrived(t, c, woken.ids(), 20*time.Second, 0)

	// One of three sleeping replicas wakes for an event and is killed over it.
	asleepSoon(t, db)
	c.delay.Store(int64(time.Hour))
	victim, begun := all[2], c.begun.Load()
	last := startLoad(t, 1, 1, victim.url)
	last.done.Wait()
	if last.count() != 1 {
		t.Fatalf("the waking replica did not accept: %v", last.refused)
	}
	eventually(t, 10*time.Second, "the attempt is under way", func() bool { return c.begun.Load() > begun })
	victim.kill()
	killed := time.Now()
	c.delay.Store(0)
	eventually(t, 25*time.Second, "another replica has taken over", func() bool {
		missing, _ := c.missing(last.ids())
		return missing == 0
	})
	t.Logf("taken over after %.1f s", time.Since(killed).Seconds())
	settledEverywhere(t, all[0], 10*time.Second)
	verify(t, db)
}

func TestIdleEngineLeavesItsFileAlone(t *testing.T) {
	db := testdb.SQLite(t)
	c := newCounter(t)
	r := newReplica(t, db, nil)
	r.start()
	r.endpoint(c.URL)
	l := startLoad(t, 1, 5, r.url)
	l.done.Wait()
	arrived(t, c, l.ids(), 10*time.Second, 0)
	changed := func() (at time.Time) {
		for _, suffix := range []string{"", "-wal"} {
			if info, err := os.Stat(db + suffix); err == nil && info.ModTime().After(at) {
				at = info.ModTime()
			}
		}
		return at
	}
	eventually(t, 30*time.Second, "the file is left alone", func() bool { return time.Since(changed()) > 5*time.Second })
	before := changed()
	wait(t.Context(), 15*time.Second)
	if after := changed(); !after.Equal(before) {
		t.Errorf("an idle engine wrote to its file at %v, after %v", after, before)
	}
	again := startLoad(t, 1, 5, r.url)
	again.done.Wait()
	arrived(t, c, again.ids(), 10*time.Second, 0)
}
