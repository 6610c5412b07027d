package main

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// TestMain makes this test binary the program under test: scripts run it as
// "posthaste", in processes of their own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"posthaste": main})
}

// TestScripts runs every script on SQLite, on the file that POSTHASTE_DB names,
// but those that are about PostgreSQL alone.
func TestScripts(t *testing.T) {
	t.Parallel()
	files := slices.DeleteFunc(scripts(t, "*.txtar"), func(name string) bool {
		return strings.HasPrefix(filepath.Base(name), "pg-")
	})
	testscript.Run(t, params(files, func(env *testscript.Env) error {
		env.Setenv("POSTHASTE_DB", filepath.Join(env.WorkDir, "posthaste.db"))
		return nil
	}))
}

// TestScriptsOnPostgres runs those where the database matters again, and those
// about PostgreSQL, each on a database of its own.
func TestScriptsOnPostgres(t *testing.T) {
	t.Parallel()
	files := append(scripts(t, "db-*.txtar"), scripts(t, "pg-*.txtar")...)
	testscript.Run(t, params(files, func(env *testscript.Env) error {
		tb, ok := env.T().(testing.TB)
		if !ok {
			return errors.New("the script's T is not a testing.TB")
		}
		env.Setenv("POSTHASTE_DB", testdb.Postgres(tb))
		env.Setenv("POSTHASTE_MASTER_KEY", keyring.Generate())
		return nil
	}))
}

func scripts(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts %s: %v", pattern, err)
	}
	return files
}

func params(files []string, database func(*testscript.Env) error) testscript.Params {
	return testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			addresses, err := freeAddresses()
			if err != nil {
				return err
			}
			env.Setenv("LISTEN", addresses[0])
			env.Setenv("POSTHASTE_SERVER", "http://"+addresses[0])
			env.Setenv("RECEIVER", addresses[1])
			env.Setenv("BACK", addresses[2]) // of a second replica
			env.Setenv("ADMIN_KEY", "the-key-of-the-scripts")
			env.Setenv("POSTHASTE_KEY", "the-key-of-the-scripts")
			if err := shareGuides(env); err != nil {
				return err
			}
			return database(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":     exitStatus,
			"await":      await,
			"listening":  listening,
			"eventually": eventually,
			"sql":        runSQL,
		},
	}
}

// shareGuides tells scripts where the guides are, whose commands they run.
func shareGuides(env *testscript.Env) error {
	guides, err := filepath.Abs(filepath.Join("..", "..", "docs", "guides"))
	env.Setenv("GUIDES", guides)
	return err
}

// freeAddresses finds three that nothing listens on. Another process may take
// one before the script does; ports of the ephemeral range make that rare.
func freeAddresses() (addresses [3]string, err error) {
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return addresses, err
		}
		defer l.Close() // until all are known, so that they differ
		addresses[i] = l.Addr().String()
	}
	return addresses, nil
}

// exitStatus is "status N command …": it runs the command and wants that very
// exit status.
func exitStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command …")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit status %d, want %s; stderr:\n%s", got, args[0], ts.ReadFile("stderr"))
	}
}

// patience is how long scripts wait for what has to come: many times what a
// loaded machine needs.
const patience = 30 * time.Second

// poll tries until it succeeds or patience is over.
func poll(try func() bool) bool {
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if try() {
			return true
		}
		select {
		case <-deadline:
			return false
		case <-tick.C:
		}
	}
}

// await is "await URL": it waits until a GET is answered with 2xx.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await URL")
	}
	client := &http.Client{Timeout: 5 * time.Second}
	last := ""
	if !poll(func() bool {
		res, err := client.Get(args[0])
		if err != nil {
			last = err.Error()
			return false
		}
		last = res.Status
		_ = res.Body.Close()
		return res.StatusCode < 300
	}) {
		ts.Fatalf("%s is not ready: %s", args[0], last)
	}
}

// listening is "listening HOST:PORT": it waits until something listens there, and
// asks it nothing.
func listening(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listening HOST:PORT")
	}
	if !poll(func() bool {
		conn, err := net.DialTimeout("tcp", args[0], time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}) {
		ts.Fatalf("nothing listens at %s", args[0])
	}
}

// eventually is "eventually TEXT command …": it runs the command until its
// output holds the text.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually TEXT command …")
	}
	if !poll(func() bool {
		err := ts.Exec(args[1], args[2:]...)
		return err == nil && strings.Contains(ts.ReadFile("stdout"), args[0])
	}) {
		ts.Fatalf("%q has not come; last output:\n%s%s", args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// runSQL is "sql STATEMENT": it changes the SQLite file behind the program's back.
func runSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sql STATEMENT")
	}
	conn, err := sqlite.OpenConn(ts.Getenv("POSTHASTE_DB"), sqlite.OpenReadWrite)
	ts.Check(err)
	ts.Check(errors.Join(sqlitex.ExecuteTransient(conn, args[0], nil), conn.Close()))
}

// TestMainIsShort keeps main.go what it should be: signals and an exit status.
func TestMainIsShort(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(source), "\n"); lines > 60 {
		t.Errorf("main.go has %d lines, want 60 at most", lines)
	}
}
