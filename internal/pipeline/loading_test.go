package pipeline

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// unloaded makes lanes with n items that lack their events, each in turn of the given
// endpoints, and returns the items.
func unloaded(r *rig, events int, endpoints ...store.EndpointNo) (items []*item) {
	for range events {
		id := r.minter.Mint(testNow)
		for i, no := range endpoints {
			r.reserve(no, 10, 1, kind{})
			items = append(items, &item{lease: store.Lease{Endpoint: no, Number: 1, Delivery: id.Delivery(uint32(i + 1))}})
		}
	}
	r.push(items)
	return items
}

func keysOf(items []*item) (keys []store.EventKey) {
	seen := map[posthaste.ID]bool{}
	for _, it := range items {
		if id := it.lease.Delivery.Event(); !seen[id] {
			seen[id] = true
			keys = append(keys, store.EventKey{ID: id})
		}
	}
	return keys
}

func TestAnEventIsLoadedOnceForItsFanOut(t *testing.T) {
	r := newRig(100)
	unloaded(r, 1, 1, 2, 3)
	items := r.takeToLoad(maxLoadEvents)
	if keys := keysOf(items); len(items) != 3 || len(keys) != 1 {
		t.Fatalf("%d items wait for %d events, want 3 for 1", len(items), len(keys))
	}
	event := posthaste.Event{ID: items[0].lease.Delivery.Event(), Payload: make([]byte, 1000)}
	r.eventsLoaded(items, []posthaste.Event{event}, keysOf(items), time.Millisecond)
	for range 3 {
		<-r.started
	}
	if r.payloads.bytes != 1000 {
		t.Errorf("%d bytes are counted, want those of one event", r.payloads.bytes)
	}
	r.finish(t, 3)
	if r.payloads.bytes != 0 || len(r.payloads.byID) != 0 || r.payloads.missing != 0 {
		t.Errorf("left behind: %+v", r.payloads)
	}
}

// A load ends where its bytes end: what is missing after the last event that came is
// loaded next, in its order; what is missing before it is gone.
func TestWhatALoadDidNotBring(t *testing.T) {
	r := newRig(100)
	all := unloaded(r, 4, 1)
	items := r.takeToLoad(maxLoadEvents)
	second := posthaste.Event{ID: all[1].lease.Delivery.Event()}
	r.eventsLoaded(items, []posthaste.Event{second}, keysOf(items), time.Millisecond)
	if all[0].early == nil || all[0].early.reason != posthaste.ReasonExpired || all[1].event == nil {
		t.Errorf("the first one: %+v, the second one: %+v", all[0], all[1])
	}
	again := r.takeToLoad(maxLoadEvents)
	if len(again) != 2 || again[0] != all[2] || again[1] != all[3] {
		t.Errorf("%d items are loaded again, want the last two in order", len(again))
	}
	r.eventsLoaded(again, nil, keysOf(again), time.Millisecond)
	if all[2].early == nil || all[3].early == nil {
		t.Error("a load that brought nothing left items that wait for it")
	}
	r.finish(t, 4)
}

// Items behind others of their run are loaded with them, and start in their order; those
// taken back while they are loaded do not come back.
func TestARunIsLoadedAtOnceAndStartsInOrder(t *testing.T) {
	r := newRig(100)
	run := func(no store.EndpointNo) []*item {
		items := make([]*item, r.reserve(no, 1, 3, kind{}))
		for i := range items {
			items[i] = &item{lease: store.Lease{Endpoint: no, Number: 1, Delivery: r.minter.Mint(testNow).Delivery(1)}}
		}
		r.pushRun(items)
		return items
	}
	load := func() {
		items := r.takeToLoad(maxLoadEvents)
		var events []posthaste.Event
		for _, k := range keysOf(items) {
			events = append(events, posthaste.Event{ID: k.ID})
		}
		r.eventsLoaded(items, events, keysOf(items), time.Millisecond)
	}
	all := run(1)
	load()
	for i, it := range all {
		if it.event == nil {
			t.Errorf("item %d was not loaded", i)
		}
	}
	if running, waiting := r.counts(); running != 1 || waiting != 2 {
		t.Errorf("%d run and %d wait, want 1 and 2", running, waiting)
	}
	cut := run(2)
	loading := r.takeToLoad(maxLoadEvents)
	back := r.cut(cut[0].run)
	r.loadAgain(loading)
	load()
	if len(back) != 2 || cut[0].event == nil || cut[1].event != nil || r.payloads.missing != 0 {
		t.Errorf("%d are taken back, %d wait for their events", len(back), r.payloads.missing)
	}
	r.settled(back)
	r.finish(t, 4)
}

// Large events of one endpoint leave room for those of the others.
func TestOneLaneCannotFillTheMemory(t *testing.T) {
	r := newRig(100)
	unloaded(r, 40, 1)
	load := func() {
		items := r.takeToLoad(1)
		var events []posthaste.Event
		for _, k := range keysOf(items) {
			events = append(events, posthaste.Event{ID: k.ID, Payload: make([]byte, 1<<20)})
		}
		r.eventsLoaded(items, events, keysOf(items), time.Millisecond)
	}
	for range 40 {
		load()
	}
	if most := maxBytesPerLane + 1<<20; r.payloads.bytes > most { // the last load may exceed it by its bytes
		t.Errorf("one endpoint has %d bytes in memory, want %d at most", r.payloads.bytes, most)
	}
	unloaded(r, 1, 2)
	load()
	for no := <-r.started; no != 2; {
		no = <-r.started
	}
	r.end <- struct{}{} // room for the next one of the first
	<-r.toLoad
	back := r.recall(func(*item) bool { return true })
	r.settled(back)
	r.finish(t, int64(41-len(back)))
}

// A load that met its time limit is repeated at half its size, and a slow link lets
// less be leased ahead.
func TestALoadThatMetItsTimeLimitIsHalved(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	row := e.endpoint(r.URL, nil)
	pause := func(paused bool) {
		if _, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, func(ep *store.EndpointRow) error { ep.Paused = paused; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	const n = 40
	for i := range n {
		e.send("a", fmt.Sprint(i))
	}
	var mu sync.Mutex
	var sizes []int
	load := func(ctx context.Context, p store.LoadParams) ([]posthaste.Event, error) {
		mu.Lock()
		sizes = append(sizes, len(p.Events))
		mu.Unlock()
		if len(p.Events) > 3 {
			return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, context.DeadlineExceeded)
		}
		return e.flaky.Store.Load(ctx, p)
	}
	e.flaky.load.Store(&load)
	pause(false)
	e.eventually(20*time.Second, "all have arrived", func() bool { return len(r.seen()) == n })
	mu.Lock()
	defer mu.Unlock()
	for i, size := range sizes[1:] {
		if before := sizes[i]; before > 3 && size > (before+1)/2 {
			t.Errorf("a load of %d followed one of %d that met its time limit", size, before)
		}
	}
	e.verified()
}
