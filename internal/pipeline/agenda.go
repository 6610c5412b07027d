package pipeline

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// agenda remembers when endpoints have due work next. It is a hint: what it
// forgets, the leader's look at the due table finds.
//
// Times are kept in buckets that widen with their distance (100 ms within a
// minute, 1 s within an hour, then 1 min), so that a million waiting retries
// cost a bounded number of entries.
type agenda struct {
	now        func() time.Time // the database's clock
	mu         sync.Mutex
	buckets    map[int64]map[store.EndpointNo]struct{} // by the bucket's end, µs
	order      int64Heap
	ready      map[store.EndpointNo]*readyWork
	readyCount atomic.Int64
	changed    chan struct{} // one token: something became due, or nearer
}

// readyWork is an endpoint with work that is due now.
type readyWork struct {
	floor     time.Time     // due_at of the last row claimed: where the next claim begins
	again     bool          // noted anew since the last claim began: that claim may not have seen it
	floorFrom time.Duration // uptime of the last claim from the start
}

func newAgenda(now func() time.Time) *agenda {
	return &agenda{
		now:     now,
		buckets: map[int64]map[store.EndpointNo]struct{}{},
		ready:   map[store.EndpointNo]*readyWork{},
		changed: make(chan struct{}, 1),
	}
}

func bucketEnd(at, now time.Time) int64 {
	width := int64(100 * time.Millisecond / time.Microsecond)
	switch d := at.Sub(now); {
	case d > time.Hour:
		width = int64(time.Minute / time.Microsecond)
	case d > time.Minute:
		width = int64(time.Second / time.Microsecond)
	}
	us := at.UnixMicro()
	return us + (width-us%width)%width
}

// note says that an endpoint has work due at the given time.
func (a *agenda) note(endpoint store.EndpointNo, at, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !at.After(now) {
		if w := a.ready[endpoint]; w != nil {
			w.again = true
		} else {
			a.ready[endpoint] = &readyWork{}
			a.readyCount.Store(int64(len(a.ready)))
			poke(a.changed)
		}
		return
	}
	end := bucketEnd(at, now)
	b := a.buckets[end]
	if b == nil {
		b = map[store.EndpointNo]struct{}{}
		a.buckets[end] = b
		if len(a.order) == 0 || end < a.order[0] {
			poke(a.changed)
		}
		heap.Push(&a.order, end)
	}
	b[endpoint] = struct{}{}
}

// due moves what has become due to ready, and returns the ready endpoints and
// the time of the next bucket (zero if none).
func (a *agenda) due(now time.Time) ([]store.EndpointNo, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.order) > 0 && a.order[0] <= now.UnixMicro() {
		end := heap.Pop(&a.order).(int64)
		for ep := range a.buckets[end] {
			if a.ready[ep] == nil {
				a.ready[ep] = &readyWork{}
			}
		}
		delete(a.buckets, end)
	}
	a.readyCount.Store(int64(len(a.ready)))
	out := make([]store.EndpointNo, 0, len(a.ready))
	for ep := range a.ready {
		out = append(out, ep)
	}
	if len(a.order) == 0 {
		return out, time.Time{}
	}
	return out, time.UnixMicro(a.order[0]).UTC()
}

// floorEvery is how often a claim begins at the start of an endpoint's due rows
// instead of where the last one ended: rows can commit behind the floor.
const floorEvery = 5 * time.Second

// from returns where a claim of a ready endpoint begins.
func (a *agenda) from(endpoint store.EndpointNo) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.ready[endpoint]
	if w == nil {
		return time.Time{}
	}
	w.again = false
	if now := uptime(); now-w.floorFrom > floorEvery {
		w.floorFrom, w.floor = now, time.Time{}
	}
	return w.floor
}

// claimed notes how far a claim came. exhausted: there was less than was asked
// for, so the endpoint has nothing more that is due; it stays ready only when the
// claim had not begun at the start.
func (a *agenda) claimed(endpoint store.EndpointNo, last time.Time, began time.Time, exhausted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.ready[endpoint]
	switch {
	case w == nil:
	case exhausted && began.IsZero() && !w.again:
		delete(a.ready, endpoint)
		a.readyCount.Store(int64(len(a.ready)))
	case exhausted:
		w.floor, w.floorFrom = time.Time{}, uptime()
	case last.After(w.floor):
		w.floor = last
	}
}

// isReady reports whether an endpoint is known to have work whose time has come.
func (a *agenda) isReady(endpoint store.EndpointNo) bool {
	if a.readyCount.Load() == 0 { // the usual case
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ready[endpoint] != nil
}

// idle reports whether nothing is known to be due now.
func (a *agenda) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ready) == 0 && (len(a.order) == 0 || a.order[0] > a.now().UnixMicro())
}

// drop forgets that an endpoint is ready: it is closed, and whoever opens it
// notes it again. Noted since from was called, it stays.
func (a *agenda) drop(endpoint store.EndpointNo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.ready[endpoint]; w != nil && !w.again {
		delete(a.ready, endpoint)
		a.readyCount.Store(int64(len(a.ready)))
	}
}

type int64Heap []int64

func (h int64Heap) Len() int           { return len(h) }
func (h int64Heap) Less(i, j int) bool { return h[i] < h[j] }
func (h int64Heap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *int64Heap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *int64Heap) Pop() any {
	old := *h
	v := old[len(old)-1]
	*h = old[:len(old)-1]
	return v
}
