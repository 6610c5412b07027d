package main_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// These tests take the database back in time under living replicas. What it has
// forgotten is lost, and nobody can help it. What it still knows is delivered.

// at returns the URL of a database as it is on another server.
func at(t *testing.T, db string, server *testdb.Cluster) string {
	t.Helper()
	there, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	there.Path = u.Path
	return there.String()
}

// rewound checks what must hold after the database went back: what is accepted from now on
// arrives, also at an endpoint that is made now, and of what the database knows nothing
// is left undone.
func rewound(t *testing.T, db string, c *counter, pair []*replica) {
	t.Helper()
	fresh := newCounter(t)
	eventually(t, 60*time.Second, "an endpoint is made", func() bool {
		body := fmt.Sprintf(`{"url":%q,"event_types":["*"]}`, fresh.URL)
		status, _ := pair[0].api(http.MethodPost, "/v1/endpoints", body)
		return status == http.StatusCreated
	})
	l := startLoad(t, 4, 1_000_000, pair[0].url, pair[1].url)
	grow(t, l, 200)
	l.stop()
	arrived(t, fresh, l.ids(), 60*time.Second, 2*(crashMaxInFlight+crashUnrecorded))
	arrived(t, c, l.ids(), 60*time.Second, 4*(crashMaxInFlight+crashUnrecorded))
	settledEverywhere(t, pair[0], 60*time.Second)
	if n := count(t, db, `select count(*) from v_deliveries where status <> 'delivered'`); n != 0 {
		t.Errorf("%d deliveries that the database knows are not delivered", n)
	}
	verify(t, db)
}

func TestCrashFailoverToAStandbyThatLagsBehind(t *testing.T) {
	server := testdb.NewCluster(t)
	replication, through := newNetwork(t, server.URL())
	standby := server.Standby(through)
	onPrimary := server.Postgres()
	app, db := newNetwork(t, onPrimary)
	c := newCounter(t)
	c.delay.Store(int64(100 * time.Millisecond))
	pair := []*replica{newReplica(t, db, nil), newReplica(t, db, nil)}
	pair[0].start()
	pair[1].start()
	pair[0].endpoint(c.URL)
	l := startLoad(t, 4, 1_000_000, pair[0].url, pair[1].url)
	grow(t, l, 300)
	onStandby := at(t, onPrimary, standby)
	eventually(t, 30*time.Second, "the standby has events", func() bool { return count(t, onStandby, `select count(*) from events`) > 100 })
	replication.turn(weather{held: true})
	grow(t, l, 300) // what is accepted and delivered from now on, the standby never learns
	if status, raw := pair[0].api(http.MethodPost, "/v1/endpoints", fmt.Sprintf(`{"url":%q,"event_types":["none"]}`, c.URL)); status != http.StatusCreated {
		t.Fatalf("create endpoint: %d %s", status, raw)
	}
	l.stop()
	settledEverywhere(t, pair[0], 90*time.Second)
	wait(t.Context(), 3*time.Second) // beats that raise the marks
	known := count(t, onStandby, `select count(*) from deliveries where owner <> 0`)
	t.Logf("the standby knows %d of %d events, and %d leases that have ended", count(t, onStandby, `select count(*) from events`), l.count(), known)
	if known == 0 {
		t.Fatal("the standby knows of no lease: nothing is tested")
	}
	server.Kill()
	standby.Promote()
	app.lead(t, onStandby)
	rewound(t, onStandby, c, pair)
}

func TestCrashDumpIsRestored(t *testing.T) {
	for name, elsewhere := range map[string]bool{"in place": false, "into another cluster": true} {
		t.Run(name, func(t *testing.T) {
			server := testdb.NewCluster(t)
			before := server.Postgres()
			app, db := newNetwork(t, before)
			c := newCounter(t)
			c.delay.Store(int64(300 * time.Millisecond))
			pair := []*replica{newReplica(t, db, nil), newReplica(t, db, nil)}
			pair[0].start()
			pair[0].endpoint(c.URL)
			l := startLoad(t, 8, 1_000_000, pair[0].url)
			grow(t, l, 300)
			dump := server.Dump(before)
			pair[1].start() // the dump does not know of it
			grow(t, l, 300)
			after := before
			if elsewhere {
				other := testdb.NewCluster(t)
				after = at(t, before, other)
				other.Restore(after, dump)
				same, err := url.Parse(before) // the replicas keep their password
				if err != nil {
					t.Fatal(err)
				}
				password, _ := same.User.Password()
				execute(t, after, "alter role postgres password '"+password+"'")
				there, err := url.Parse(after)
				if err != nil {
					t.Fatal(err)
				}
				same.Host = there.Host
				after = same.String()
				app.lead(t, after)
			} else {
				server.Restore(before, dump)
			}
			grow(t, l, 100)
			l.stop()
			rewound(t, after, c, pair)
		})
	}
}
