package pipeline

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

func TestAQuietEngineSleepsAndWakesForARequest(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	e.send("a", "1")
	e.eventually(15*time.Second, "asleep", func() bool { return e.rest.is(asleep) })
	if err := e.Ready(); err != nil {
		t.Errorf("asleep and not ready: %v", err)
	}
	beats := e.flaky.beats.Load()
	select {
	case <-time.After(2500 * time.Millisecond): // two beats of one that is awake
	case <-t.Context().Done():
	}
	if n := e.flaky.beats.Load() - beats; n != 0 {
		t.Errorf("%d beats while asleep", n)
	}
	got := e.send("a", "2")
	if d, _ := e.ended(got.ID, 1); d.State != posthaste.StateDelivered {
		t.Errorf("%+v", d)
	}
	if !e.rest.is(working) {
		t.Error("not working after a request")
	}
	e.verified()
}

func TestASleepingEngineWakesForARetry(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 503)
	e.endpoint(r.URL, func(d *posthaste.Definition) {
		d.Retry.Schedule = []posthaste.Duration{posthaste.Duration(8 * time.Second)}
	})
	got := e.send("a", "x")
	e.eventually(8*time.Second, "asleep before the retry", func() bool { return e.rest.is(asleep) })
	if d, attempts := e.ended(got.ID, 1); d.State != posthaste.StateDelivered || len(attempts) != 2 {
		t.Errorf("%+v after %d attempts", d, len(attempts))
	}
	e.verified()
}

func TestAnEngineWhoseNeighbourIsBusyWatches(t *testing.T) {
	e := startEngine(t, nil)
	if _, err := e.store.Beat(t.Context(), store.BeatParams{Epoch: e.epoch()}); err != nil {
		t.Fatal(err)
	}
	e.life.mu.Lock()
	busy := &sighting{busy: true, since: sinceBoot()}
	e.life.others[99] = busy
	e.life.mu.Unlock()
	if !e.othersBusy() {
		t.Error("a busy neighbour is not seen")
	}
	busy.busy = false
	if e.othersBusy() {
		t.Error("an idle neighbour keeps this one awake")
	}
}

func TestManyAreAcceptedInOneCommitAndAnsweredOneByOne(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	row := e.endpoint(r.URL, func(d *posthaste.Definition) { d.MaxInFlight = 100 })
	var commits atomic.Int32
	after := func(p store.AcceptParams, got store.Accepted, err error) (store.Accepted, error) {
		if len(got.Stale) == 0 {
			commits.Add(1)
		}
		return got, err
	}
	e.flaky.accept.Store(&after)
	in := make([]Submission, 1000)
	for i := range in {
		in[i] = Submission{Tenant: e.tenant, Event: posthaste.Event{Type: "a", Payload: fmt.Append(nil, i)}}
	}
	in[10].Endpoints = []posthaste.ID{row.ID.Delivery(7)} // nobody's
	in[20].Event.IdempotencyKey, in[21].Event.IdempotencyKey = "k", "k"
	in[21].Event.Payload = in[20].Event.Payload
	in[22].Event.IdempotencyKey = "k"
	got := e.AcceptAll(t.Context(), in)
	if n := commits.Load(); n != 1 {
		t.Errorf("%d commits for 1,000 events", n)
	}
	for i, g := range got {
		switch i {
		case 10:
			if posthaste.CodeOf(g.Err) != posthaste.CodeInvalid {
				t.Errorf("event %d: %v", i, g.Err)
			}
		case 20, 21, 22: // whichever comes first is stored
		default:
			if g.Err != nil || g.Receipt.Duplicate || g.Receipt.Deliveries != 1 {
				t.Errorf("event %d: %+v", i, g)
			}
		}
	}
	stored, duplicate, mismatch := 0, 0, 0
	for _, g := range got[20:23] {
		switch {
		case posthaste.CodeOf(g.Err) == posthaste.CodeIdempotencyMismatch:
			mismatch++
		case g.Receipt.Duplicate:
			duplicate++
		default:
			stored++
		}
	}
	if stored != 1 || duplicate+mismatch != 2 || mismatch == 0 {
		t.Errorf("three events of one key: %d stored, %d duplicates, %d mismatches", stored, duplicate, mismatch)
	}
	e.eventually(20*time.Second, "all have arrived", func() bool { return len(r.seen()) == 997 })
	e.verified()
}

func TestRolesShareOutTheWork(t *testing.T) {
	accepting := startEngine(t, func(c *Config) { c.Roles = Roles{Accept: true} })
	r := newReceiver(t)
	accepting.endpoint(r.URL, nil)
	got := accepting.send("a", "x")
	if d := accepting.delivery(got.ID, 1); d.State != posthaste.StatePending || d.Leased {
		t.Errorf("accepted without the role deliver: %+v", d)
	}
	delivering := startEngine(t, func(c *Config) { c.Roles = Roles{Deliver: true} })
	if _, err := delivering.Accept(t.Context(), Submission{Tenant: delivering.tenant, Event: posthaste.Event{Type: "a"}}); posthaste.CodeOf(err) != posthaste.CodeUnavailable {
		t.Errorf("accept without the role: %v", err)
	}
	if err := delivering.Ready(); err != nil {
		t.Errorf("a replica that only delivers is not ready: %v", err)
	}
	if n := len(r.seen()); n != 0 {
		t.Errorf("%d attempts without the role deliver", n)
	}
}

// The last look before sleeping can take long, where many deliveries have expired. Work
// that comes meanwhile needs a heartbeat.
func TestTheHeartGoesOnDuringALongLook(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	looking, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(sync.OnceFunc(func() { close(release) }))
	var once sync.Once
	slow := func() {
		if e.rest.is(watching) {
			once.Do(func() { close(looking); <-release })
		}
	}
	e.flaky.duringLook.Store(&slow)
	<-looking
	e.send("a", "x")
	before := e.flaky.beats.Load()
	e.eventually(10*time.Second, "it has beaten for that work", func() bool { return e.flaky.beats.Load() >= before+4 })
}
