package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// paused makes endpoints that take every event and attempt nothing.
func (e *engine) paused(n int) {
	e.t.Helper()
	for i := range n {
		row := e.endpoint(fmt.Sprintf("http://127.0.0.1:1/%d", i), nil)
		if _, err := e.ChangeEndpoint(e.t.Context(), e.tenant, row.ID, func(row *store.EndpointRow) error {
			row.Paused = true
			return nil
		}); err != nil {
			e.t.Fatal(err)
		}
	}
}

func (e *engine) lines(n int, payload string) (in []Submission) {
	for i := range n {
		in = append(in, Submission{Tenant: e.tenant, Event: posthaste.Event{
			Type: "a", Source: posthaste.SourceAPI, IdempotencyKey: fmt.Sprint("line", i), Payload: []byte(payload),
		}})
	}
	return in
}

func (e *engine) allStored(results []Result) {
	e.t.Helper()
	for i, r := range results {
		if r.Err != nil {
			e.t.Errorf("line %d: %v", i, r.Err)
			return
		}
	}
}

// watchAccepts calls f before each accepting statement; what it returns is the answer to it.
func (e *engine) watchAccepts(f func(events, deliveries, bytes int) error) {
	hook := func(p store.AcceptParams) error {
		deliveries, size := 0, 0
		for i := range p.Events {
			deliveries += len(p.Events[i].Deliveries)
			size += len(p.Events[i].Payload)
		}
		return f(len(p.Events), deliveries, size)
	}
	e.flaky.refuse.Store(&hook)
}

func TestACommitIsBoundedByBytes(t *testing.T) {
	e := startEngine(t, nil)
	var most atomic.Int64
	e.watchAccepts(func(_, _, size int) error {
		most.Store(max(most.Load(), int64(size)))
		return nil
	})
	e.allStored(e.AcceptAll(t.Context(), e.lines(40, strings.Repeat("x", 500<<10))))
	if most.Load() > acceptBatchBytes {
		t.Errorf("a commit of %d bytes", most.Load())
	}
}

// An event is at fault only when the database refuses it alone, twice, and takes others.
func TestOnlyAnEventThatIsRefusedAloneTwiceIsAtFault(t *testing.T) {
	e := startEngine(t, nil)
	var alone, all atomic.Int64
	refuse := func(p store.AcceptParams) error {
		for i := range p.Events {
			if string(p.Events[i].Payload) == "bad" || all.Load() > 0 {
				if len(p.Events) == 1 {
					alone.Add(1)
				}
				return errors.New("invalid data")
			}
		}
		return nil
	}
	e.flaky.refuse.Store(&refuse)
	in := e.lines(20, "good")
	in[7].Event.Payload = []byte("bad")
	for i, r := range e.AcceptAll(t.Context(), in) {
		switch {
		case i == 7 && posthaste.CodeOf(r.Err) != posthaste.CodeInternal:
			t.Errorf("the bad one: %v", r.Err)
		case i != 7 && r.Err != nil:
			t.Errorf("line %d: %v", i, r.Err)
		}
	}
	if alone.Load() != 2 {
		t.Errorf("it was refused alone %d times, want 2", alone.Load())
	}
	if err := e.Ready(); err != nil {
		t.Errorf("ready: %v", err)
	}
	all.Store(1) // whatever comes is refused: none of it is at fault
	var last error
	for _, s := range e.lines(24, "x")[20:] {
		_, last = e.Accept(t.Context(), s)
	}
	if posthaste.CodeOf(last) != posthaste.CodeUnavailable || e.Ready() == nil {
		t.Errorf("answered %v, ready: %v", last, e.Ready())
	}
	e.flaky.refuse.Store(nil)
	e.verified()
}

// A group that is stored together makes several commits where one would be too large.
func TestAGroupIsBoundedByDeliveries(t *testing.T) {
	e := startEngine(t, nil)
	e.paused(50)
	var commits, most atomic.Int64
	e.watchAccepts(func(events, deliveries, _ int) error {
		commits.Add(1)
		most.Store(max(most.Load(), int64(events+deliveries)))
		return nil
	})
	parent, children := e.family("w1", 200)
	got := e.together(parent, children)
	if most.Load() > acceptBatchRows || commits.Load() < 3 {
		t.Errorf("%d commits, the largest of %d rows", commits.Load(), most.Load())
	}
	if stored := e.children(got[0].ID); len(stored) != 200 {
		t.Errorf("%d children are stored", len(stored))
	}
	e.verified()
}

// Several senders of full batches are not refused while the database keeps up, whatever
// waits to be recorded.
func TestFullBatchesOfSeveralSendersAreTaken(t *testing.T) {
	e := startEngine(t, nil)
	e.load.unrecorded.Add(MaxUnrecorded)
	defer e.load.unrecorded.Add(-MaxUnrecorded)
	const senders, full = 12, 1000
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			group := e.lines(full, "x")
			for i := range group {
				group[i].Event.IdempotencyKey = ""
			}
			for _, r := range e.AcceptAll(t.Context(), group) {
				if r.Err != nil {
					t.Error(r.Err)
					return
				}
			}
		})
	}
	wg.Wait()
	l := &load{}
	if !l.admit(1000, maxUncommittedBytes) || l.admit(1, 1) {
		t.Error("bytes are not bounded")
	}
}

// A refusal is forgotten that nothing repeats: without traffic nobody finds out that it has passed.
func TestARefusalIsForgotten(t *testing.T) {
	e := startEngine(t, nil)
	e.refused(t.Context(), "accept", fmt.Errorf("accept: %w: %w", store.ErrUnavailable, store.ErrSystemic), false)
	e.taken(t.Context(), "settle") // which says nothing about events
	if e.Ready() == nil {
		t.Fatal("it is ready")
	}
	e.refusals.mu.Lock()
	r := e.refusals.of["accept"]
	r.last -= refusalMemory
	e.refusals.of["accept"] = r
	e.refusals.mu.Unlock()
	if err := e.Ready(); err != nil {
		t.Errorf("a long time after the refusal: %v", err)
	}
}
