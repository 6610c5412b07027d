package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
)

const fellAsleep = "nothing to do: leaving the database asleep"

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// sleepers is called before both replicas are given work, and returns what waits
// until each has fallen asleep after it.
func sleepers(t *testing.T, a, b *program) (wait func()) {
	n, m := a.log.count(fellAsleep), b.log.count(fellAsleep)
	return func() {
		t.Helper()
		eventually(t, "both fall asleep", func() bool { return a.log.count(fellAsleep) > n && b.log.count(fellAsleep) > m })
	}
}

// TestHandlerOfTheNewVersionOnly runs two versions of a program on one database. The
// old one does not know the handler: what it accepts is for the new one, which hears
// of it, asleep or not; and where nobody has the handler, it waits.
func TestHandlerOfTheNewVersionOnly(t *testing.T) {
	url := testdb.Postgres(t)
	arrived := make(chan engine.Delivery, 100)
	handler := engine.Handler{EventTypes: []string{"a"}, MaxInFlight: 4, Func: func(_ context.Context, d engine.Delivery) error { arrived <- d; return nil }}
	before := newProgram(t, connect(t, url), "old")
	stopOld := run(t, before.Engine)
	if got := before.send("default", engine.Event{Type: "a"}); got.Deliveries != 0 {
		t.Fatalf("before anybody has the handler: %+v", got)
	}
	after := newProgram(t, connect(t, url), "new", handler)
	stopNew := run(t, after.Engine)
	var ids []posthaste.ID
	var bothAsleep func()
	for i := range 40 { // the first of them at once: the new version has answered that it is ready
		if i == 38 {
			bothAsleep = sleepers(t, before, after)
		}
		got := []*program{before, after}[i%2].send("default", engine.Event{Type: "a", Payload: fmt.Append(nil, i)})
		if got.Deliveries != 1 {
			t.Fatalf("event %d: %+v", i, got)
		}
		ids = append(ids, got.ID)
	}
	for _, id := range ids {
		if d, attempts := after.ended(id); d.State != posthaste.StateDelivered || len(attempts) != 1 || attempts[0].Replica != "new" {
			t.Errorf("%+v, %+v", d, attempts)
		}
	}
	if _, text := request(t, before.Engine, adminKey, "GET /metrics", ""); !strings.Contains(text, "\nposthaste_deliveries_claimed_total 0\n") {
		t.Error("the old version has claimed")
	}

	bothAsleep()
	sent := time.Now()
	id := before.send("default", engine.Event{Type: "a"}).ID
	after.ended(id)
	if took := time.Since(sent); took > 4*time.Second {
		t.Errorf("a sleeping replica heard of it after %s", took)
	}

	// Without the handler's program it waits, and keeps nobody awake.
	stopNew()
	other := newProgram(t, connect(t, url), "old too")
	stopOther := run(t, other.Engine)
	bothAsleep = sleepers(t, before, other)
	waits := before.send("default", engine.Event{Type: "a"}).ID
	bothAsleep()
	n, m := before.log.count(fellAsleep), other.log.count(fellAsleep)
	quiet := time.NewTimer(6 * time.Second) // twice what a replica needs to fall asleep again
	<-quiet.C
	if before.log.count(fellAsleep) > n+1 || other.log.count(fellAsleep) > m+1 {
		t.Error("two replicas without the handler keep each other awake")
	}
	if d, err := before.db.Delivery(t.Context(), 0, waits.Delivery(1)); err != nil || d.State != posthaste.StatePending || d.Attempts != 0 {
		t.Errorf("what waits: %+v, %v", d, err)
	}
	stopOther()
	after = newProgram(t, connect(t, url), "new", handler)
	stopNew = run(t, after.Engine)
	after.ended(waits)
	stopNew()
	stopOld()
	verified(t, connect(t, url))
}

// TestHandlerThatNobodyHas: what waits for it ends with its deadline.
func TestHandlerThatNobodyHas(t *testing.T) {
	onBoth(t, func(t *testing.T, db store.Store) {
		stop := run(t, newProgram(t, db, "first", engine.Handler{
			EventTypes: []string{"a"}, Deadline: 2 * time.Second, Func: func(context.Context, engine.Delivery) error { return nil },
		}).Engine)
		stop()
		p := newProgram(t, db, "second")
		stop = run(t, p.Engine)
		sent := p.send("default", engine.Event{Type: "a"})
		if sent.Deliveries != 1 {
			t.Errorf("%+v", sent)
		}
		if d, attempts := p.ended(sent.ID); d.Reason != posthaste.ReasonExpired || len(attempts) != 0 || d.FinishedAt.Sub(d.RunAt) < 2*time.Second {
			t.Errorf("%+v, %+v", d, attempts)
		}
		stop()
		verified(t, db)
	})
}
