package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	zs "zombiezen.com/go/sqlite"

	"github.com/posthaste-dev/posthaste/internal/store"
)

var errTest = errors.New("refused")

const sqlTestSetting = `INSERT INTO settings (name, value) VALUES (?1, x'00')`

// TestOneFailureHarmsNobody sends jobs that share a transaction, of which some
// fail in each of the ways in which a job can.
func TestOneFailureHarmsNobody(t *testing.T) {
	db := openTest(t, Config{})
	insert := func(name string) func(*conn) error {
		return func(c *conn) error {
			_, err := c.exec(sqlTestSetting, name)
			return err
		}
	}
	failures := map[string]func(*conn) error{
		"before it wrote": func(*conn) error { return errTest },
		"after it wrote": func(c *conn) error {
			if err := insert("never")(c); err != nil {
				return err
			}
			return errTest
		},
		"by a constraint": func(c *conn) error { return errors.Join(insert("twice")(c), insert("twice")(c)) },
		"by a rollback": func(c *conn) error {
			c.rollback() // as SQLite does when the disk is full
			return errTest
		},
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			// All wait behind a job that holds the writer, so that they share what follows.
			held, release := make(chan struct{}), make(chan struct{})
			go db.writer.doBare(t.Context(), func(*conn) error { //nolint:errcheck // it has no error
				close(held)
				<-release
				return nil
			})
			<-held
			var all sync.WaitGroup
			errs := make([]error, 9)
			for i := range errs {
				all.Go(func() {
					run := insert(fmt.Sprintf("%s %d", name, i))
					if i%4 == 2 {
						run = fail
					}
					errs[i] = db.write(t.Context(), "test", run)
				})
			}
			waitFor(t, func() bool { return len(db.writer.queue) == len(errs) })
			close(release)
			all.Wait()
			for i, err := range errs {
				_, kept := db.Setting(t.Context(), fmt.Sprintf("%s %d", name, i))
				switch {
				case i%4 == 2 && err == nil:
					t.Errorf("job %d did not fail", i)
				case i%4 != 2 && (err != nil || kept != nil):
					t.Errorf("job %d: error %v, read back: %v", i, err, kept)
				}
			}
			for _, never := range []string{"never", "twice"} {
				if _, err := db.Setting(t.Context(), never); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("%q of a failed job: %v", never, err)
				}
			}
		})
	}
}

// TestInterruptedJob lets a deadline pass in the middle of a statement.
func TestInterruptedJob(t *testing.T) {
	db := openTest(t, Config{})
	endless := `INSERT INTO settings (name, value) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, x'00' FROM n WHERE i < 0`
	for name, do := range map[string]func(context.Context) error{
		"write": func(ctx context.Context) error {
			return db.write(ctx, "test", func(c *conn) error {
				if _, err := c.exec(sqlTestSetting, "interrupted"); err != nil {
					return err
				}
				_, err := c.exec(endless)
				return err
			})
		},
		"read": func(ctx context.Context) error {
			return db.read(ctx, "test", func(c *conn) error {
				return c.snapshot(func() error {
					_, err := c.get(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0`, func(row) {})
					return err
				})
			})
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := do(ctx)
		cancel()
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// No connection is left in a transaction, and nothing was kept.
	if _, err := db.KeepSetting(t.Context(), "after", nil); err != nil {
		t.Error(err)
	}
	if _, err := db.Setting(t.Context(), "interrupted"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the interrupted job: %v", err)
	}
	for _, p := range db.readers.all() {
		for range p.size {
			c := <-p.free
			if !c.AutocommitEnabled() {
				t.Error("a reader is left in a transaction")
			}
			defer func() { p.free <- c }()
		}
	}
}

// TestLateJob stops a job before it begins, and one that has ended. Neither
// stops another one.
func TestLateJob(t *testing.T) {
	c, err := openConn(filepath.Join(t.TempDir(), "posthaste.db"), zs.OpenReadWrite|zs.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	w := newWriter(c)
	defer w.close()
	query := func(c *conn) error {
		_, err := c.get(`SELECT 1`, func(row) {})
		return err
	}
	late := &job{run: query}
	w.stop.interrupt(late)
	for _, run := range []string{"first", "second"} { // as after another one's failure
		if err := w.interruptible(late); zs.ErrCode(err) != zs.ResultInterrupt {
			t.Errorf("the late job's %s run: %v", run, err)
		}
	}
	if err := w.interruptible(&job{run: query}); err != nil {
		t.Errorf("the one after it: %v", err)
	}
	during := &job{run: func(c *conn) error {
		w.stop.interrupt(late)
		return query(c)
	}}
	if err := w.interruptible(during); err != nil {
		t.Errorf("one that ran when a deadline of an ended one passed: %v", err)
	}
}

// TestFullDisk lets SQLite run out of pages, which it takes for a full disk.
func TestFullDisk(t *testing.T) {
	db := openTest(t, Config{})
	w := newWork(t, db)
	w.round(t, 40)
	limit := func(pages int) {
		err := db.writer.doBare(t.Context(), func(c *conn) error {
			_, err := c.get(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages), func(row) {})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(1) // no fewer than there are
	events := w.events(400)
	p := store.AcceptParams{Epoch: w.epoch, Now: w.now, Routing: w.routing, Events: events}
	if _, err := db.Accept(t.Context(), p); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("accept on a full disk: %v", err)
	}
	if got := verify(t, db); got.Events != 40 {
		t.Errorf("%d events are there, want those 40 from before the disk was full", got.Events)
	}
	limit(1 << 30)
	got, err := db.Accept(t.Context(), p)
	if err != nil || !got.Events[0].Stored {
		t.Fatalf("accept with room again: %v", err)
	}
	verify(t, db)
}

// TestLogStartsAnew writes far more than the log may hold, beside readers that
// never pause.
func TestLogStartsAnew(t *testing.T) {
	db := openTest(t, Config{LogBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				db.Verify(ctx, store.VerifyParams{Limit: 200}) //nolint:errcheck // fails when it is stopped
			}
		})
	}
	w := newWork(t, db)
	w.payload = make([]byte, 16<<10)
	// Wait for the log to have started anew a few times: each time it is short again.
	last, anew := int64(0), 0
	waitFor(t, func() bool {
		w.accept(t, 20)
		var size int64
		err := db.writer.doBare(t.Context(), func(c *conn) (err error) {
			size, err = logBytes(c, sqlLogSize)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if size < last {
			anew++
		}
		last = size
		return anew == 3
	})
	stop()
	readers.Wait()
}

// waitFor polls for what another goroutine does.
func waitFor(t testing.TB, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it did not happen within 10 s")
		}
	}
}
