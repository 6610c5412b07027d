package main_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// takeoverLimit is how long what was in flight may take to be delivered by a
// replica that starts under the name of the dead one, from when it is ready.
const takeoverLimit = 3 * time.Second

// TestNameTakesOverAfterSIGKILL: a replica that is killed and starts again has the
// same name, host and port, and finds its work at once; another replica's work is
// left alone.
func TestNameTakesOverAfterSIGKILL(t *testing.T) {
	db := testdb.Postgres(t)
	c := newCounter(t)
	other, victim := newReplica(t, db, nil), newReplica(t, db, nil)
	other.start()
	victim.start()
	victim.endpoint(c.URL)
	epoch := count(t, db, `select min(epoch) from replicas`)

	c.delay.Store(int64(time.Hour)) // attempts hang, so all of this is in flight
	theirs := startLoad(t, 2, 10, other.url)
	mine := startLoad(t, 4, 40, victim.url)
	theirs.done.Wait()
	mine.done.Wait()
	eventually(t, 10*time.Second, "attempts are under way", func() bool { return c.begun.Load() >= 24 })
	inFlight := count(t, db, `select count(*) from deliveries where owner = (select max(epoch) from replicas)`)
	victim.kill()
	c.delay.Store(0)
	killed := time.Now()
	victim.start()
	ready := time.Now()
	eventually(t, takeoverLimit, "what was in flight is delivered", func() bool {
		missing, _ := c.missing(mine.ids())
		return missing == 0
	})
	t.Logf("%d in flight when killed; ready again after %.2f s, all of it delivered %.2f s later (limit %v)",
		inFlight, ready.Sub(killed).Seconds(), time.Since(ready).Seconds(), takeoverLimit)
	if inFlight < 32 { // the endpoint's limit
		t.Errorf("only %d deliveries were in flight", inFlight)
	}
	if n := count(t, db, `select count(*) from v_attempts where outcome = 'lost'`); n != inFlight {
		t.Errorf("%d attempts are recorded as lost, want the %d that were in flight", n, inFlight)
	}
	if n := count(t, db, `select min(epoch) from replicas`); n != epoch {
		t.Errorf("the other replica's epoch went from %d to %d", epoch, n)
	}
	arrived(t, c, theirs.ids(), 20*time.Second, crashMaxInFlight)
	settledEverywhere(t, victim, 10*time.Second)
	verify(t, db)
}

func TestNameOfALivingReplicaIsRefused(t *testing.T) {
	db := testdb.Postgres(t)
	c := newCounter(t)
	name := map[string]string{"POSTHASTE_REPLICA": "twin"}
	first, second := newReplica(t, db, name), newReplica(t, db, name)
	first.start()
	first.endpoint(c.URL)
	second.launch()
	began := time.Now()
	if status := second.exit(20 * time.Second); status != 1 {
		t.Errorf("exit status %d of a second replica with the name, want 1", status)
	}
	t.Logf("refused after %.1f s", time.Since(began).Seconds())
	log, err := os.ReadFile(second.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`another living replica is named "twin"`, "hint: set --replica"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("it doesn't say %q but:\n%s", want, log)
		}
	}
	l := startLoad(t, 4, 100, first.url)
	l.done.Wait()
	if n := l.count(); n != 100 {
		t.Errorf("the first one accepted %d of 100 events: %v", n, l.refused)
	}
	arrived(t, c, l.ids(), 10*time.Second, 0)
	settledEverywhere(t, first, 10*time.Second)
	verify(t, db)
}

// TestNameLostToAnotherReplica: a replica whose session was cut, and whose name
// another one took in that moment, ends by itself and says why.
func TestNameLostToAnotherReplica(t *testing.T) {
	db := testdb.Postgres(t)
	c := newCounter(t)
	name := map[string]string{"POSTHASTE_REPLICA": "twin"}
	first, second := newReplica(t, db, name), newReplica(t, db, name)
	first.start()
	first.endpoint(c.URL)
	l := startLoad(t, 4, 1_000_000, first.url, second.url)
	grow(t, l, 200)
	second.launch()
	const waits = `select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database()) and not granted`
	eventually(t, 10*time.Second, "the second one asks for the name", func() bool { return count(t, db, waits) == 1 })
	execute(t, db, `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database()) and granted`)
	began := time.Now()
	if status := first.exit(20 * time.Second); status != 1 {
		t.Errorf("exit status %d of the one that lost its name, want 1", status)
	}
	t.Logf("it ended %.1f s after its session", time.Since(began).Seconds())
	if n := first.logged(t, `another living replica is named`); n == 0 {
		t.Error("it doesn't say why")
	}
	grow(t, l, 200) // the second one goes on
	l.stop()
	arrived(t, c, l.ids(), 20*time.Second, crashMaxInFlight+crashUnrecorded)
	settledEverywhere(t, second, 20*time.Second)
	verify(t, db)
}

// exit waits for the process to end by itself and returns its exit status, or -1 if
// it doesn't.
func (r *replica) exit(limit time.Duration) int {
	r.t.Helper()
	timer := time.AfterFunc(limit, func() { _ = r.cmd.Process.Kill() })
	defer timer.Stop()
	err := r.cmd.Wait()
	r.cmd = nil
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return ended.ExitCode()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return 0
}
