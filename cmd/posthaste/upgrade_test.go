package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// What testdata/upgrade holds, on both databases.
const (
	upgradeMasterKey  = "dXBncmFkZS11cGdyYWRlLXVwZ3JhZGUtdXBncmFkZTA="
	upgradeEvents     = 24 // in the tenant default
	upgradeDeliveries = 60
	upgradeDead       = 3
	upgradeAttempts   = 56
	upgradeWaiting    = 8 // due or leased
)

// The fixture's deliveries have deadlines; the test must not depend on its date.
const withoutDeadlines = `UPDATE deliveries SET expires_at = 4102444800000000` // in the year 2100

func loadSQLite(t *testing.T) string {
	t.Helper()
	path := testdb.SQLite(t)
	dump, err := os.ReadFile("testdata/upgrade/sqlite_0001.sql")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := sqlite.OpenConn(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, script := range []string{string(dump), withoutDeadlines} {
		if err := sqlitex.ExecuteScript(conn, script, nil); err != nil {
			t.Fatalf("load the first schema: %v", err)
		}
	}
	return path
}

func loadPostgres(t *testing.T) string {
	t.Helper()
	url := testdb.Postgres(t)
	dump, err := os.ReadFile("testdata/upgrade/postgres_0001.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{string(dump), withoutDeadlines} {
		execPostgres(t, url, script)
	}
	return url
}

// execPostgres runs statements in a session of its own.
func execPostgres(t *testing.T, url, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.PgConn().Exec(ctx, script).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

// countedBy asks the API for all of a list and returns how many it has.
func countedBy(t *testing.T, r *replica, tenant, path string) (n int) {
	t.Helper()
	for cursor := ""; ; {
		status, raw := r.api(http.MethodGet, path+cursor, "", "Posthaste-Tenant", tenant)
		var page struct {
			Data []json.RawMessage `json:"data"`
			Next string            `json:"next"`
		}
		if err := json.Unmarshal(raw, &page); err != nil || status != http.StatusOK {
			t.Fatalf("GET %s: %d %s", path, status, raw)
		}
		n += len(page.Data)
		if page.Next == "" {
			return n
		}
		cursor = "&cursor=" + page.Next
	}
}

// A database of the first schema, whose program was killed, is upgraded by the
// program that opens it: nothing is lost, and what waited is delivered.
func TestUpgradeFromTheFirstSchema(t *testing.T) {
	for name, load := range map[string]func(*testing.T) string{"sqlite": loadSQLite, "postgres": loadPostgres} {
		t.Run(name, func(t *testing.T) {
			db := load(t)
			settings := map[string]string{"POSTHASTE_MASTER_KEY": upgradeMasterKey, "POSTHASTE_RETENTION": "87600h", "POSTHASTE_DEAD_RETENTION": "87600h"}
			c := newCounter(t)
			r := newReplica(t, db, settings)
			r.start()
			for _, uid := range []string{"good", "limited", "ordered", "bad", "failing", "hanging"} {
				if status, raw := r.api(http.MethodPatch, "/v1/endpoints/uid:"+uid, fmt.Sprintf(`{"url":%q}`, c.URL)); status != http.StatusOK {
					t.Fatalf("change endpoint %s: %d %s", uid, status, raw)
				}
			}
			settledEverywhere(t, r, 60*time.Second)
			for path, want := range map[string]int{
				"/v1/events?limit=100":                      upgradeEvents,
				"/v1/deliveries?limit=100":                  upgradeDeliveries,
				"/v1/deliveries?limit=100&status=dead":      upgradeDead,
				"/v1/deliveries?limit=100&status=delivered": upgradeDeliveries - upgradeDead,
			} {
				tenant := "*"
				if strings.HasPrefix(path, "/v1/events") {
					tenant = "default"
				}
				if got := countedBy(t, r, tenant, path); got != want {
					t.Errorf("GET %s: %d, want %d", path, got, want)
				}
			}
			status, raw := r.api(http.MethodPost, "/v1/events", `{"order":1}`, "Posthaste-Event-Type", "order.paid", "Idempotency-Key", "paid-1")
			if status != http.StatusOK || !strings.Contains(string(raw), `"duplicate":true`) {
				t.Errorf("an idempotency key of the first schema: %d %s, want a duplicate", status, raw)
			}
			r.terminate(15 * time.Second)
			verifyWith(t, map[string]string{"POSTHASTE_DB": db})
			// What was leased when the program was killed is recorded as lost, and sent again.
			if name == "postgres" {
				if got := count(t, db, "select count(*) from attempts"); got < upgradeAttempts+upgradeWaiting {
					t.Errorf("%d attempts, want the %d of the fixture and one for each of %d deliveries that waited", got, upgradeAttempts, upgradeWaiting)
				}
			}
		})
	}
}

// The server and migrate refuse a database that a newer program has migrated, and
// say so. A server with --migrate=check, and verify, refuse one that lacks a migration.
func TestSchemaIsRefused(t *testing.T) {
	newer := map[string]func(t *testing.T, db string){
		"sqlite": func(t *testing.T, db string) {
			t.Helper()
			conn, err := sqlite.OpenConn(db)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if err := sqlitex.ExecuteScript(conn, `INSERT INTO migrations (name, sha256, applied_at) VALUES ('9999_future', 'ab', 1)`, nil); err != nil {
				t.Fatal(err)
			}
		},
		"postgres": func(t *testing.T, db string) {
			t.Helper()
			execPostgres(t, db, `insert into posthaste_schema (name, sha256, applied_at) values ('9999_future', '\x00', now())`)
		},
	}
	for name, load := range map[string]func(*testing.T) string{"sqlite": loadSQLite, "postgres": loadPostgres} {
		t.Run(name, func(t *testing.T) {
			db := load(t)
			mustSay := func(want string, arguments ...string) {
				t.Helper()
				binary, err := buildBinary()
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				cmd := exec.CommandContext(ctx, binary, arguments...)
				cmd.Env = append(os.Environ(), "POSTHASTE_TEST_POSTGRES=", "POSTHASTE_DB="+db, "POSTHASTE_LISTEN=127.0.0.1:0", "POSTHASTE_MASTER_KEY="+upgradeMasterKey)
				out, err := cmd.CombinedOutput()
				if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "hint: ") {
					t.Errorf("posthaste %s: %v, %s; want a failure with %q and a hint", strings.Join(arguments, " "), err, out, want)
				}
			}
			mustSay("lacks", "serve", "--migrate=check", "--replica=early")
			mustSay("lacks", "verify")
			r := newReplica(t, db, map[string]string{"POSTHASTE_MASTER_KEY": upgradeMasterKey})
			r.start()
			r.terminate(15 * time.Second)
			newer[name](t, db)
			mustSay("9999_future", "serve", "--listen=127.0.0.1:0", "--replica=late")
			mustSay("9999_future", "migrate")
		})
	}
}
