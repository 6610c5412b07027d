package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/testdb"
)

const outboxGuide = "../../docs/guides/transactional-outbox.md"

// guideBlocks returns the blocks of a language in the guide.
func guideBlocks(t *testing.T, language string) (blocks []string) {
	t.Helper()
	page, err := os.ReadFile(outboxGuide)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(page, -1) {
		blocks = append(blocks, string(found[1]))
	}
	return blocks
}

// guideBlock returns the one block of a language.
func guideBlock(t *testing.T, language string) string {
	t.Helper()
	blocks := guideBlocks(t, language)
	if len(blocks) != 1 {
		t.Fatalf("%d blocks in %s, want one", len(blocks), language)
	}
	return blocks[0]
}

// run runs a program with the database's URL in its environment.
func runWith(t *testing.T, db string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+db, "NODE_PATH="+filepath.Join(workDir(t), "testdata", "node", "node_modules"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func workDir(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeTo(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// runGo runs a Go program as if it stood in this module.
func runGo(t *testing.T, db, text string) {
	t.Helper()
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(workDir(t), "guide", "main.go"): writeTo(t, "main.go", text),
	}})
	if err != nil {
		t.Fatal(err)
	}
	runWith(t, db, "go", "run", "-overlay", writeTo(t, "overlay.json", string(overlay)), "./guide")
}

// Every example of the guide is run as it stands there, and its event arrives.
func TestOutboxGuide(t *testing.T) {
	shop, file := testdb.Postgres(t), testdb.SQLite(t)
	r := newReplica(t, testdb.SQLite(t), map[string]string{"POSTHASTE_OUTBOX": shop + " " + file})
	for _, database := range []string{shop, file} {
		if database == file {
			runWith(t, "", pythonOfDebian, "-c", "import sqlite3; sqlite3.connect("+fmt.Sprintf("%q", file)+").execute('pragma user_version = 1')")
		}
		runWith(t, "", r.binary, "outbox", "install", "--database", database)
	}
	execute(t, shop, `create table accounts (id int primary key, balance int); insert into accounts select i, 100 from generate_series(1, 4) i`)
	c := newCounter(t)
	r.start()
	r.endpoint(c.URL)

	sql := guideBlocks(t, "sql")
	if len(sql) != 2 {
		t.Fatalf("%d blocks of SQL", len(sql))
	}
	runWith(t, shop, "psql", shop, "-v", "ON_ERROR_STOP=1", "-q", "-f", writeTo(t, "example.sql", sql[0]))
	runGo(t, shop, guideBlock(t, "go"))
	runWith(t, shop, "node", writeTo(t, "example.js", guideBlock(t, "js")))
	runWith(t, shop, pythonOfDebian, writeTo(t, "example.py", guideBlock(t, "python")))
	runWith(t, "", pythonOfDebian, "-c", "import sqlite3\nwith sqlite3.connect("+fmt.Sprintf("%q", file)+") as db: db.executescript('''"+sql[1]+"''')")

	eventually(t, 30*time.Second, "five events have arrived", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.hits) == 5
	})
	if n := count(t, shop, `select count(*) from accounts where balance = 90`); n != 4 {
		t.Errorf("%d accounts were changed, want 4", n)
	}
	for _, want := range []string{`{"account":1,"amount":10}`, `{"account":2,"amount":10}`, `{"account":3,"amount":10}`, `{"account": 4, "amount": 10}`} {
		found := false
		for _, id := range r.eventIDs() {
			_, payload := r.api(http.MethodGet, "/v1/events/"+id+"/payload", "")
			found = found || string(payload) == want
		}
		if !found {
			t.Errorf("no event has the payload %s", want)
		}
	}
}

// pythonOfDebian is the interpreter that Debian's package python3-psycopg belongs to, which
// scripts/setup-tests installs.
const pythonOfDebian = "/usr/bin/python3"

func (r *replica) eventIDs() (ids []string) {
	r.t.Helper()
	_, raw := r.api(http.MethodGet, "/v1/events?limit=250", "")
	var page struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		r.t.Fatalf("list events: %v: %s", err, raw)
	}
	for _, e := range page.Data {
		ids = append(ids, e.ID)
	}
	return ids
}
