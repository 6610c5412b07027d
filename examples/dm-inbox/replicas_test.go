package main

import (
	"context"
	"database/sql"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/examples/dm-inbox/sim"
	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/testdb"
)

var (
	simulated = flag.Int("simulated", 20_000, "events of TestReplicasDie")
	deaths    = flag.Int("deaths", 12, "how often TestReplicasDie kills a replica")
	seed      = flag.Uint64("seed", 1, "of the traffic of TestReplicasDie")
)

// TestReplicasDie sends twenty thousand events, with duplicates, out of order, between
// forged and broken ones, to two replicas that are killed again and again. In
// the end the tables hold what was sent, all of it, once.
func TestReplicasDie(t *testing.T) {
	plan, err := sim.NewPlan(sim.Options{
		Events: *simulated, Seed: *seed, Start: time.Unix(1_790_000_000, 0),
		Instagram: []string{acmeInstagram, globexInstagram}, Pages: []string{acmePage},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("planned: %v", plan.Tables.Counts())
	database := testdb.Postgres(t)
	const secret = "an-app-secret-of-a-test"
	replicas, urls := startReplicas(t, database, secret)

	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	trouble := make(chan error, 1)
	go func() {
		killed, err := sim.Trouble{Every: 2 * time.Second, Times: *deaths, Seed: *seed}.Make(ctx, replicas)
		t.Logf("killed and started again: %d", killed)
		trouble <- err
	}()
	began := time.Now()
	// A slow sender, so that replicas die while it sends.
	report, err := plan.Send(ctx, sim.Target{URLs: urls, Secret: secret, Pause: 40 * time.Millisecond})
	t.Logf("sent in %v: %v", time.Since(began).Round(time.Millisecond), report)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-trouble; err != nil {
		t.Fatal(err)
	}
	inbox, err := sim.OpenInbox(database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inbox.Close() }()
	got, differences, err := inbox.WaitFor(ctx, plan, 45*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("stored, %v after the start: %v", time.Since(began).Round(time.Millisecond), got.Counts())
	for _, d := range differences[:min(len(differences), 50)] {
		t.Error(d)
	}
	toldOnce(t, database, plan.Tables)
}

// startReplicas runs the program twice on one database.
func startReplicas(t *testing.T, database, secret string) (replicas []*sim.Replica, urls []string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "dm-inbox")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v: %s", err, out)
	}
	key := keyring.Generate()
	for _, name := range []string{"one", "two"} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := listener.Addr().String()
		_ = listener.Close()
		log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		r := &sim.Replica{
			Command: []string{program, "-addr", address, "-data", t.TempDir(), "-db", database, "-replica", name},
			Env: append(os.Environ(), "DM_INBOX_APP_SECRET="+secret, "DM_INBOX_ADMIN_KEY=adm_key_of_the_replicas_test",
				"DM_INBOX_MASTER_KEY="+key),
			Log: log,
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Kill(); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
				t.Logf("end of the log of %s:\n%s", name, text[max(0, len(text)-10_000):])
			}
			_ = log.Close()
		})
		replicas, urls = append(replicas, r), append(urls, "http://"+address+webhookPath)
	}
	return replicas, urls
}

// toldOnce looks into the engine's own table: of each thing that is new it has one
// event, whatever the replicas that sent it have been through.
func toldOnce(t *testing.T, database string, want sim.Tables) {
	t.Helper()
	db, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for kind, n := range want.Told {
		var got int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM events WHERE type = $1`, kind).Scan(&got); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d events %s in the engine", got, kind)
		if got != n {
			t.Errorf("the engine has %d events %s, want %d", got, kind, n)
		}
	}
}
