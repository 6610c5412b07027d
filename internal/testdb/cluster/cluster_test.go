//go:build unix

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestClusterStopsStartsAndKeepsItsData(t *testing.T) {
	c := start(t, Config{Settings: map[string]string{"max_connections": "20"}})
	address := c.URL()
	exec1(t, c, "CREATE TABLE t (n int)")
	for i, end := range []func() error{
		func() error { return c.Stop(Fast) },
		func() error { return c.Stop(Immediate) },
		c.Kill,
		c.Kill,
	} {
		exec1(t, c, fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
		// A session that is busy when the end comes must not keep the server.
		busy := connect(t, c)
		done := make(chan error, 1)
		go func() {
			_, err := busy.Exec(context.WithoutCancel(t.Context()), "SELECT pg_sleep(600)")
			done <- err
		}()
		await(t, "the busy session", func() bool {
			return query(t, c, "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'") == 1
		})
		if err := end(); err != nil {
			t.Fatalf("end %d: %v", i, err)
		}
		if err := <-done; err == nil {
			t.Errorf("end %d: the busy session ended well, want an error", i)
		}
		if c.PID() != 0 {
			t.Errorf("end %d: PID = %d after the end", i, c.PID())
		}
		if conn, err := pgx.Connect(t.Context(), c.URL()); err == nil {
			_ = conn.Close(t.Context())
			t.Fatalf("end %d: connected to a stopped server", i)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatalf("start after end %d: %v", i, err)
		}
		if got := query(t, c, "SELECT count(*) FROM t"); got != i+1 {
			t.Errorf("after end %d: %d rows, want %d", i, got, i+1)
		}
	}
	if c.URL() != address {
		t.Errorf("URL changed from %s to %s", address, c.URL())
	}
	if got := query(t, c, "SELECT current_setting('max_connections')::int"); got != 20 {
		t.Errorf("max_connections = %d, want the caller's 20", got)
	}
}

func TestStartAndStopTwiceIsOnce(t *testing.T) {
	c := start(t, Config{})
	pid := c.PID()
	if err := c.Start(t.Context()); err != nil || c.PID() != pid {
		t.Errorf("second Start: pid %d, error %v; want pid %d and no error", c.PID(), err, pid)
	}
	if err := c.Stop("gently"); err == nil || c.PID() != pid {
		t.Errorf("Stop with an unknown mode: error %v, pid %d; want an error and a server that runs", err, c.PID())
	}
	for range 2 {
		if err := c.Stop(Fast); err != nil {
			t.Error(err)
		}
		if err := c.Kill(); err != nil {
			t.Error(err)
		}
	}
}

func TestServerIsNotOpenToOthers(t *testing.T) {
	c := start(t, Config{})
	wrong := strings.Replace(c.URL(), c.password, "guess", 1)
	if conn, err := pgx.Connect(t.Context(), wrong); err == nil {
		_ = conn.Close(t.Context())
		t.Error("connected with a wrong password")
	}
	info, err := os.Stat(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder, which holds the password, has mode %v, want 0700", info.Mode().Perm())
	}
}

func TestABadSettingFailsWithTheServersWords(t *testing.T) {
	t.Setenv("TMPDIR", openFolder(t))
	c, err := New(t.Context(), Config{Settings: map[string]string{"max_connections": "many"}})
	if err == nil {
		_ = c.Close()
		t.Fatal("started with max_connections = many")
	}
	if !strings.Contains(err.Error(), `"max_connections"`) {
		t.Errorf("error %q does not hold the server's own message", err)
	}
	if left, _ := filepath.Glob(os.Getenv("TMPDIR") + "/*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// The process that dies here without any chance to clean up is this test binary,
// run again.
func TestServerGoesWhenItsOwnerIsKilled(t *testing.T) {
	if os.Getenv("CLUSTER_TEST_OWNER") != "" {
		c := start(t, Config{})
		fmt.Printf("owner of %d %s\n", c.PID(), c.dir)
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "CLUSTER_TEST_OWNER=1")
	out, err := cmd.Output()
	var pid int
	var dir string
	if _, scanErr := fmt.Sscanf(string(out), "owner of %d %s", &pid, &dir); scanErr != nil {
		t.Fatalf("no pid and folder in %q: %v (%v)", out, scanErr, err)
	}
	await(t, "the end of the server", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	await(t, "the removal of its folder", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

func TestFindRefusesWhatIsNoServer(t *testing.T) {
	t.Setenv(BinEnv, t.TempDir())
	_, err := Find(t.Context())
	if err == nil || !strings.Contains(err.Error(), "make test") {
		t.Errorf("Find = %v, want an error that says how to get a server", err)
	}
}

func TestDebianFoldersNewestFirst(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"9", "15", "18", "notes"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := strings.Join(debianFolders(root), " ")
	want := fmt.Sprintf("%[1]s/18/bin %[1]s/15/bin %[1]s/9/bin", root)
	if got != want {
		t.Errorf("debianFolders = %s, want %s", got, want)
	}
}

func TestParseVersion(t *testing.T) {
	for line, want := range map[string]int{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": 15,
		"postgres (PostgreSQL) 18beta1\n":                        18,
		"postgres (EnterpriseDB) 15.1":                           0,
		"postgres (PostgreSQL) devel":                            0,
		"":                                                       0,
	} {
		got, err := parseVersion(line)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("parseVersion(%q) = %d, %v, want %d", line, got, err, want)
		}
	}
}

func start(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(c.dir); !os.IsNotExist(err) {
			t.Errorf("folder %s is still there: %v", c.dir, err)
		}
	})
	return c
}

// openFolder returns a folder that the server's user can reach too.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "cluster-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func connect(t *testing.T, c *Cluster) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec1(t *testing.T, c *Cluster, statement string) {
	t.Helper()
	if _, err := connect(t, c).Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func query(t *testing.T, c *Cluster, statement string) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var n int
	if err := conn.QueryRow(t.Context(), statement).Scan(&n); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return n
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come within 30 s", what)
		}
		if err := pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
