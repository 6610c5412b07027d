package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("SQLITE_TEST_HOLD"); path != "" {
		holdOpen(path)
		return
	}
	if path := os.Getenv("SQLITE_TEST_WORK"); path != "" {
		workUntilKilled(path)
	}
	os.Exit(m.Run())
}

// holdOpen is the other process of TestLockFileKeepsOtherProcessesOut.
func holdOpen(path string) {
	if _, err := Open(context.Background(), Config{Path: path}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("open")
	io.Copy(io.Discard, os.Stdin) // waits until the test closes it
}

func TestLockFileKeepsOtherProcessesOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "posthaste.db")
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "SQLITE_TEST_HOLD="+path)
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "open\n" {
		t.Fatalf("the other process: %q", line)
	}

	began := time.Now()
	_, err = Open(t.Context(), Config{Path: path})
	if posthaste.CodeOf(err) != posthaste.CodeConflict {
		t.Fatalf("open beside another process: %v", err)
	}
	if e, _ := errors.AsType[*posthaste.Error](err); e.Hint == "" || !strings.Contains(err.Error(), fmt.Sprint(other.Process.Pid)) {
		t.Errorf("the error %q names no process, or has no hint %q", err, e.Hint)
	}
	if took := time.Since(began); took > busyTimeout {
		t.Errorf("it waited %v to say so", took)
	}

	// A process that is killed leaves nothing behind that keeps others out.
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it was killed
	stdin.Close()
	openTest(t, Config{Path: path})
}

func TestOpenTwiceInOneProcess(t *testing.T) {
	db := openTest(t, Config{})
	if _, err := Open(t.Context(), Config{Path: db.cfg.Path}); posthaste.CodeOf(err) != posthaste.CodeConflict {
		t.Errorf("second open: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	openTest(t, Config{Path: db.cfg.Path})
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	db := openTest(t, Config{})
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(db.cfg.Path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("posthaste.db%s has mode %v", suffix, mode)
		}
	}
}

func TestPathsThatLookLikeURIs(t *testing.T) {
	for _, name := range []string{"a b.db", "50%25.db", "what?vfs=none.db", "x#y.db", "ü.db", "file:x.db"} {
		dir := t.TempDir()
		db := openTest(t, Config{Path: filepath.Join(dir, name)})
		newWork(t, db).accept(t, 1)
		if _, err := os.Stat(filepath.Join(dir, name+"-wal")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Chdir(t.TempDir())
	openTest(t, Config{Path: "file:relative?.db"})
	if _, err := os.Stat("file:relative?.db-wal"); err != nil {
		t.Error(err)
	}
}

func TestReadOnlyBesideTheServer(t *testing.T) {
	db := openTest(t, Config{})
	w := newWork(t, db)
	w.round(t, 40)
	beside := openTest(t, Config{Path: db.cfg.Path, ReadOnly: true})
	if got := verify(t, beside); got.Events != 40 {
		t.Errorf("verify beside the server saw %d events of 40", got.Events)
	}
	w.round(t, 40)
	if got := verify(t, beside); got.Events != 80 {
		t.Errorf("verify beside the server saw %d events of 80", got.Events)
	}
	if _, err := beside.CreateTenant(t.Context(), posthaste.Tenant{Name: "acme", CreatedAt: time.Now()}); !errors.Is(err, errReadOnly) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a write on it: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got := verify(t, beside); got.Events != 80 {
		t.Errorf("verify after the server saw %d events of 80", got.Events)
	}
	_, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "none.db"), ReadOnly: true})
	if posthaste.CodeOf(err) != posthaste.CodeNotFound {
		t.Errorf("open a file that does not exist, read-only: %v", err)
	}
}

func TestCallsAfterCloseAndDeadlines(t *testing.T) {
	db := openTest(t, Config{})
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for name, err := range map[string]error{
		"read past the deadline":  db.Ping(past),
		"write past the deadline": third(db.KeepSetting(past, "x", nil)),
	} {
		if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("ping after that: %v", err)
	}
	for range 2 {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := db.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("ping after close: %v", err)
	}
}

func third(_ []byte, err error) error { return err }

// TestLockedByAnotherProgram holds the write lock as the sqlite3 shell can.
func TestLockedByAnotherProgram(t *testing.T) {
	db := openTest(t, Config{})
	shell, err := openConn(db.cfg.Path, 2) // read and write
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Close()
	if _, err := shell.exec(sqlBegin); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := db.KeepSetting(ctx, "x", []byte("1")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a write while another program holds the lock: %v", err)
	}
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("a read meanwhile: %v", err)
	}
	shell.rollback()
	if got, err := db.KeepSetting(t.Context(), "x", []byte("2")); err != nil || string(got) != "2" {
		t.Errorf("a write after that: %q, %v: the call that gave up must not have been done", got, err)
	}
}
