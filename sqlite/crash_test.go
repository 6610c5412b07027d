package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// copyLive copies a database as a crash of the machine would leave it. The two
// files can't be copied at one moment, so no checkpoint may run meanwhile.
func copyLive(t *testing.T, from string) (to string) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "posthaste.db")
	for _, suffix := range []string{"", "-wal"} {
		src, err := os.Open(from + suffix)
		if err != nil {
			t.Fatal(err)
		}
		dst, err := os.Create(to + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(dst, src); err != nil {
			t.Fatal(err)
		}
		src.Close()
		if err := dst.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func withoutCheckpoints(t *testing.T) *DB {
	t.Helper()
	db := openTest(t, Config{})
	if err := db.ckpt.close(); err != nil {
		t.Fatal(err)
	}
	db.ckpt = nil
	return db
}

// TestCrashKeepsWhatWasAnswered copies the files again and again under load. On
// each copy stands every event whose Accept had returned before it began, the
// file is sound, the promise holds, and a new life takes all work over.
func TestCrashKeepsWhatWasAnswered(t *testing.T) {
	db := withoutCheckpoints(t)
	w := newWork(t, db)
	stop, done := make(chan struct{}), make(chan struct{})
	// While a copy is checked the load soon pauses: checks must not grow with the
	// time that they take.
	answered := make(chan []store.NewEvent, 64)
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case answered <- w.round(t, 40):
			}
		}
	}()
	var before []store.NewEvent
	for range 5 {
		waitFor(t, func() bool { return len(answered) > 4 })
		for range len(answered) {
			before = append(before, <-answered...)
		}
		path := copyLive(t, db.cfg.Path)
		checkCopy(t, path, before)
	}
	close(stop)
	<-done
}

func checkCopy(t *testing.T, path string, before []store.NewEvent) {
	t.Helper()
	db := openTest(t, Config{Path: path})
	defer db.Close()
	if got := view(t, db, `PRAGMA integrity_check`); len(got) != 1 || got[0]["integrity_check"] != "ok" {
		t.Fatalf("integrity_check: %v", got)
	}
	for _, e := range before {
		if _, err := db.Event(t.Context(), 1, e.ID); err != nil {
			t.Fatalf("event %s was answered before the copy: %v", e.ID.Print(posthaste.KindEvent), err)
		}
	}
	seen := verify(t, db)
	reg, err := db.Register(t.Context(), store.RegisterParams{Name: "next"})
	if err != nil {
		t.Fatal(err)
	}
	// A quarter of each round is left leased.
	if least := len(before) / 4; reg.Reclaimed < least || seen.Events < len(before) {
		t.Errorf("of %d events and %d leases at least, %d and %d are there", len(before), least, seen.Events, reg.Reclaimed)
	}
	verify(t, db)
}

// TestTornCommitIsGoneWhole cuts the log short where the last commit
// lies, as a crash before its sync may, and expects the commit to be gone whole.
func TestTornCommitIsGoneWhole(t *testing.T) {
	db := withoutCheckpoints(t)
	w := newWork(t, db)
	w.accept(t, 30)
	size := logSize(t, db)
	w.accept(t, 30)
	path := copyLive(t, db.cfg.Path)
	if err := os.Truncate(path+"-wal", size+(logSize(t, db)-size)/2); err != nil {
		t.Fatal(err)
	}
	torn := openTest(t, Config{Path: path})
	if got := verify(t, torn); got.Events != 30 {
		t.Errorf("%d events are there, want the 30 of the first commit", got.Events)
	}
}

func logSize(t *testing.T, db *DB) int64 {
	t.Helper()
	info, err := os.Stat(db.cfg.Path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// workUntilKilled is the other process of TestKill. It prints the id of each
// event that was accepted.
func workUntilKilled(path string) {
	tb := &panicking{}
	ctx := context.Background()
	db, err := Open(ctx, Config{Path: path, LogBytes: 1 << 20}) // checkpoints all the time
	tb.check(err)
	tb.check(db.Migrate(ctx))
	w := newWork(tb, db)
	w.payload = make([]byte, 5<<10)
	for {
		out := &bytes.Buffer{}
		for _, e := range w.round(tb, 40) {
			fmt.Fprintln(out, e.ID.Print(posthaste.KindEvent))
		}
		os.Stdout.Write(out.Bytes()) // the test counts what it reads
	}
}

// panicking stands for the test in the other process.
type panicking struct{ testing.TB }

func (*panicking) Helper()                  {}
func (*panicking) Context() context.Context { return context.Background() }
func (*panicking) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }
func (p *panicking) check(err error) {
	if err != nil {
		p.Fatal(err)
	}
}

// TestKill kills a process that writes and checkpoints as fast as it can.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "posthaste.db")
	var answered []posthaste.ID
	for life := range 5 {
		other := exec.Command(os.Args[0])
		other.Env = append(os.Environ(), "SQLITE_TEST_WORK="+path)
		stdout, err := other.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		for n := 0; lines.Scan(); n++ {
			if n == 500+700*life {
				if err := other.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			id, err := posthaste.ParseID(posthaste.KindEvent, lines.Text())
			if err == nil { // the last line may be cut
				answered = append(answered, id)
			}
		}
		_ = other.Wait() // it was killed
	}
	db := openTest(t, Config{Path: path})
	if got := view(t, db, `PRAGMA integrity_check`); len(got) != 1 || got[0]["integrity_check"] != "ok" {
		t.Fatalf("integrity_check: %v", got)
	}
	for _, id := range answered {
		if _, err := db.Event(t.Context(), 1, id); err != nil {
			t.Fatalf("event %s was answered: %v", id.Print(posthaste.KindEvent), err)
		}
	}
	if got := verify(t, db); got.Events < len(answered) {
		t.Errorf("%d events are there, %d were answered", got.Events, len(answered))
	}
}
