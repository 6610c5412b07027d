package main_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/testdb"
)

func TestRolesSideBySide(t *testing.T) {
	db := testdb.Postgres(t)
	c := newCounter(t)
	accepts := newReplica(t, db, map[string]string{"POSTHASTE_ROLES": "accept", "POSTHASTE_REPLICA": "accepts"})
	delivers := newReplica(t, db, map[string]string{"POSTHASTE_ROLES": "deliver", "POSTHASTE_REPLICA": "delivers"})
	accepts.start()
	delivers.start()
	accepts.endpoint(c.URL)
	if status, body := delivers.api(http.MethodPost, "/v1/events?type=a", "{}"); status != http.StatusServiceUnavailable {
		t.Errorf("a replica without the role accept answered %d %s", status, body)
	}
	l := startLoad(t, 8, 3000, accepts.url)
	l.done.Wait()
	if n := l.count(); n != 3000 {
		t.Errorf("%d of 3000 accepted: %v", n, l.refused)
	}
	arrived(t, c, l.ids(), 20*time.Second, 0)
	settledEverywhere(t, accepts, 10*time.Second)
	if n := count(t, db, `select count(*) from v_attempts where replica = 'accepts'`); n != 0 {
		t.Errorf("%d attempts were made without the role deliver", n)
	}

	// What is accepted while nobody delivers waits, and goes when somebody does.
	delivers.kill()
	waits := startLoad(t, 4, 500, accepts.url)
	waits.done.Wait()
	if missing, _ := c.missing(waits.ids()); missing != 500 {
		t.Errorf("%d of 500 events are missing while nobody delivers", missing)
	}
	delivers.start()
	arrived(t, c, waits.ids(), 30*time.Second, 0)
	verify(t, db)
}
