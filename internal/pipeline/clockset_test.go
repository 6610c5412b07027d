package pipeline

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/sqlite"
)

// startOnAClock starts an engine whose machine and database share one clock, which is ahead
// by what the returned value says.
func startOnAClock(t *testing.T, ahead time.Duration, edit func(*Config)) (*engine, *atomic.Int64) {
	t.Helper()
	offset := &atomic.Int64{}
	offset.Store(int64(ahead))
	now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	e := startEngine(t, func(c *Config) {
		db, err := sqlite.Open(t.Context(), sqlite.Config{Path: testdb.SQLite(t), Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Store.(*flaky).Store = db
		c.Now = now
		if edit != nil {
			edit(c)
		}
	})
	return e, offset
}

// A machine without a battery starts with a clock that is ahead, and it is set right a little
// later: nothing waits for the wrong time.
func TestNothingWaitsForAWrongTime(t *testing.T) {
	for _, ahead := range []time.Duration{3 * time.Hour, 10 * 365 * 24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			e, offset := startOnAClock(t, ahead, nil)
			once := newReceiver(t, http.StatusInternalServerError)
			e.endpoint(once.URL, func(d *posthaste.Definition) {
				d.EventTypes, d.Retry.Schedule = []string{"a", "c"}, []posthaste.Duration{posthaste.Duration(20 * time.Second)}
			})
			retried := e.send("a", "retried")
			slow := newReceiver(t)
			row := e.endpoint(slow.URL, func(d *posthaste.Definition) { d.EventTypes = []string{"b"} })
			pause := func(paused bool) {
				t.Helper()
				_, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, func(r *store.EndpointRow) error {
					r.Paused = paused
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			pause(true)
			waits := e.send("b", "paused for a moment")
			e.eventually(20*time.Second, "the retry waits", func() bool { return e.delivery(retried.ID, 1).Attempts == 1 })
			epoch := e.epoch()
			offset.Store(0)
			e.eventually(60*time.Second, "the retry has arrived", func() bool { return len(once.seen()) == 2 })
			pause(false)
			e.eventually(60*time.Second, "what was paused has arrived", func() bool { return len(slow.seen()) == 1 })
			if e.epoch() == epoch {
				t.Error("ids go on from the wrong time: the epoch is the same")
			}
			fresh := e.send("c", "after")
			if off := time.Since(fresh.ID.Time()).Abs(); off > time.Minute {
				t.Errorf("the id of a new event is %v off", off)
			}
			for _, id := range []posthaste.ID{retried.ID, waits.ID, fresh.ID} {
				if d, _ := e.ended(id, 1); d.State != posthaste.StateDelivered {
					t.Errorf("%+v", d)
				}
			}
			e.verified()
		})
	}
}

// A clock that is far ahead for a moment neither ends runs nor deletes what is finished.
func TestAJumpAheadExpiresNothing(t *testing.T) {
	e, offset := startOnAClock(t, 0, nil)
	r := newReceiver(t, http.StatusInternalServerError)
	e.endpoint(r.URL, func(d *posthaste.Definition) {
		d.Retry.Schedule = []posthaste.Duration{posthaste.Duration(3 * time.Second), posthaste.Duration(3 * time.Second)}
	})
	retried := e.send("a", "retried after the jump")
	done := e.send("a", "done")
	e.eventually(20*time.Second, "one is finished, one waits", func() bool {
		return e.delivery(done.ID, 1).State == posthaste.StateDelivered && e.delivery(retried.ID, 1).Attempts == 1 ||
			e.delivery(retried.ID, 1).State == posthaste.StateDelivered && e.delivery(done.ID, 1).Attempts == 1
	})
	offset.Store(int64(31 * 24 * time.Hour))
	e.eventually(20*time.Second, "the jump is seen", func() bool { return !e.clock.believed() })
	e.chores(t.Context())
	for _, id := range []posthaste.ID{retried.ID, done.ID} {
		if d, _ := e.ended(id, 1); d.State != posthaste.StateDelivered {
			t.Errorf("%+v", d)
		}
		if _, err := e.store.Event(t.Context(), e.tenant.No, id); err != nil {
			t.Errorf("the event was deleted: %v", err)
		}
	}
	offset.Store(0)
	after := e.send("a", "after")
	e.ended(after.ID, 1)
	e.verified()
}

func TestClockNoticesThatItWasSet(t *testing.T) {
	c := clock{wall: time.Now}
	now := time.Now()
	if step := c.observe(now, now, now); step != 0 {
		t.Errorf("the first look: %v", step)
	}
	for _, set := range []time.Duration{-time.Hour, time.Hour, 0} {
		now := time.Now().Add(set)
		want := set
		if set == 0 {
			want = -time.Hour // set right again
		} else if set > 0 {
			want = 2 * time.Hour
		}
		if step := c.observe(now, time.Now(), time.Now()); (step - want).Abs() > 5*time.Second {
			t.Errorf("set to %v: %v, want %v", set, step, want)
		}
	}
	if c.believed() {
		t.Error("a clock that was set ahead just now is believed")
	}
}
