package pipeline

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// rig is a set of lanes whose workers wait until the test lets them end.
type rig struct {
	*lanes
	minter  posthaste.Minter
	mu      sync.Mutex
	running map[store.EndpointNo]int
	most    map[store.EndpointNo]int
	order   []store.EndpointNo
	started chan store.EndpointNo
	end     chan struct{}
	worked  atomic.Int64
}

func newRig(maxInFlight int) *rig {
	r := &rig{
		running: map[store.EndpointNo]int{}, most: map[store.EndpointNo]int{},
		started: make(chan store.EndpointNo, 10_000), end: make(chan struct{}),
	}
	r.lanes = newLanes(maxInFlight, func(it *item) {
		no := it.lease.Endpoint
		r.mu.Lock()
		r.running[no]++
		r.most[no] = max(r.most[no], r.running[no])
		r.order = append(r.order, no)
		r.mu.Unlock()
		r.started <- no
		<-r.end
		r.mu.Lock()
		r.running[no]--
		r.mu.Unlock()
		r.worked.Add(1)
		r.settled([]*item{it})
	})
	return r
}

// offer reserves room and pushes as many items as fit; it returns how many.
func (r *rig) offer(no store.EndpointNo, slots, n int) int {
	n = r.reserve(no, slots, n, kind{})
	items := make([]*item, n)
	for i := range items {
		items[i] = &item{event: new(posthaste.Event), lease: store.Lease{Endpoint: no, Delivery: r.minter.Mint(testNow).Delivery(1)}}
	}
	r.push(items)
	return n
}

func (r *rig) finish(t *testing.T, n int64) {
	t.Helper()
	close(r.end)
	for r.worked.Load() < n {
		runtime.Gosched()
	}
	r.stop()
	r.workers.Wait()
	if got := r.worked.Load(); got != n {
		t.Errorf("worked off %d items, want %d", got, n)
	}
	if r.room != 0 || r.waiting != 0 || r.runs() != 0 || len(r.byNo) != 0 || len(r.held) != 0 {
		t.Errorf("left behind: room %d, waiting %d, lanes %d, held %d", r.room, r.waiting, len(r.byNo), len(r.held))
	}
}

func (r *rig) runs() int { n, _ := r.counts(); return n }

func TestLaneTakesItsSlotsAndFourTimesThatWaiting(t *testing.T) {
	r := newRig(100)
	if n := r.offer(1, 4, 1000); n != 20 {
		t.Errorf("a lane of 4 slots took %d, want 4 under way and 16 waiting", n)
	}
	for range 4 {
		<-r.started
	}
	if running, waiting := r.counts(); running != 4 || waiting != 16 {
		t.Errorf("running %d, waiting %d", running, waiting)
	}
	if n := r.offer(1, 4, 1); n != 0 {
		t.Errorf("a full lane took %d more", n)
	}
	r.finish(t, 20)
	if r.most[1] != 4 {
		t.Errorf("at most %d ran at once, want 4", r.most[1])
	}
}

func TestLanesTakeTurns(t *testing.T) {
	r := newRig(1)
	a := r.offer(1, 1, 5)
	b := r.offer(2, 1, 5)
	c := r.offer(3, 1, 5)
	r.finish(t, int64(a+b+c))
	for i, no := range r.order[1 : len(r.order)-1] {
		if no == r.order[i] {
			t.Errorf("endpoint %d ran twice in a row while others waited: %v", no, r.order)
		}
	}
}

func TestOneLaneCannotFillTheEngine(t *testing.T) {
	r := newRig(10)
	hog := r.offer(1, 4, 1000)
	for range 4 {
		<-r.started
	}
	other := r.offer(2, 4, 3)
	for range 3 {
		if no := <-r.started; no != 2 {
			t.Fatalf("endpoint %d started, want the other one", no)
		}
	}
	r.finish(t, int64(hog+other))
}

func TestASlowLaneIsGivenNoMoreThanItCanWorkOff(t *testing.T) {
	l := &lane{slots: 16, pace: maxLaneWait}
	if got := l.capacity(maxLaneWait); got != 32 {
		t.Errorf("capacity at a pace of one attempt in 15 s = %d, want its slots and one round of waiting", got)
	}
	l.pace = 0
	if got := l.capacity(maxLaneWait); got != 80 {
		t.Errorf("capacity of an unknown pace = %d, want 80", got)
	}
}

func TestStoppedLanesStartNothingAndGiveBackWhatWaits(t *testing.T) {
	r := newRig(2)
	r.offer(1, 2, 10)
	<-r.started
	<-r.started
	r.stop()
	back := r.recall(func(*item) bool { return true })
	if len(back) != 8 {
		t.Errorf("gave back %d, want 8", len(back))
	}
	if n := r.reserve(1, 2, 1, kind{}); n != 0 {
		t.Error("stopped lanes gave out room")
	}
	r.settled(back)
	r.finish(t, 2)
}

// What has ended and waits for its record takes no place in the queue, up to a bound.
func TestRoomOfWhatIsNotRecorded(t *testing.T) {
	l := &lane{slots: 10, room: 50}
	if got := l.free(kind{}); got != 0 {
		t.Errorf("a lane of 10 slots with 50 that wait or run takes %d more", got)
	}
	l.ended = 20
	if got := l.free(kind{}); got != 20 {
		t.Errorf("with 20 of them ended it takes %d more, want 20", got)
	}
	l.room, l.ended = 80, 60
	if got := l.free(kind{}); got != 0 {
		t.Errorf("with 60 that wait for their record it takes %d more, want 0", got)
	}
}

func TestUnreservedRoomIsFree(t *testing.T) {
	r := newRig(2)
	if n := r.reserve(1, 2, 100, kind{}); n != 10 {
		t.Fatalf("reserved %d", n)
	}
	r.unreserve(1, 10, kind{})
	if n := r.reserve(1, 2, 100, kind{}); n != 10 {
		t.Errorf("room after giving it back = %d, want 10", n)
	}
	r.unreserve(1, 10, kind{})
	r.finish(t, 0)
}

func TestHalfOfARoomIsBornLeasedWhileOlderWorkWaits(t *testing.T) {
	r := newRig(100)
	born := kind{born: true}
	if n := r.reserve(1, 4, 100, kind{born: true, besideDue: true}); n != 10 {
		t.Errorf("beside due work %d were born leased, want half of 20", n)
	}
	if n := r.reserve(1, 4, 100, kind{}); n != 10 {
		t.Errorf("the claimed work got %d places, want the other half", n)
	}
	r.unreserve(1, 10, born)
	r.unreserve(1, 10, kind{})
	if n := r.reserve(1, 4, 100, born); n != 20 {
		t.Errorf("alone, %d were born leased, want all of 20", n)
	}
	r.unreserve(1, 20, born)
	r.finish(t, 0)
}

func TestRetriesTakeAPartOfTheSlotsWhileFirstAttemptsWait(t *testing.T) {
	r := newRig(10)
	push := func(no store.EndpointNo, number, n int) {
		items := make([]*item, r.reserve(no, 10, n, kind{}))
		for i := range items {
			items[i] = &item{event: new(posthaste.Event), lease: store.Lease{Endpoint: no, Number: number, Delivery: r.minter.Mint(testNow).Delivery(1)}}
		}
		r.push(items)
	}
	push(1, 1, 1) // something runs, so that the rest queues up behind it in order
	push(2, 2, 30)
	if running := r.runs(); running != 10 {
		t.Fatalf("%d run, retries alone may take all slots", running)
	}
	push(3, 1, 30)
	for range 10 {
		<-r.started
	}
	for range 20 {
		r.end <- struct{}{}
		<-r.started // the one that follows
	}
	r.lanes.mu.Lock()
	retried, running := r.lanes.retried, r.lanes.running
	r.lanes.mu.Unlock()
	if running != 10 || retried > 3 {
		t.Errorf("%d of %d slots go to retries, want 3 at most", retried, running)
	}
	r.finish(t, 61)
}

func TestAnItemWaitsForItsSlot(t *testing.T) {
	r := newRig(10)
	r.reserve(1, 10, 2, kind{})
	soon := uptime() + 50*time.Millisecond
	r.push([]*item{
		{event: new(posthaste.Event), lease: store.Lease{Endpoint: 1, Number: 1, Delivery: r.minter.Mint(testNow).Delivery(1)}, startAt: soon},
		{event: new(posthaste.Event), lease: store.Lease{Endpoint: 1, Number: 1, Delivery: r.minter.Mint(testNow).Delivery(1)}, startAt: soon + time.Hour},
	})
	<-r.started
	if now := uptime(); now < soon {
		t.Errorf("started %s before its time", soon-now)
	}
	back := r.recall(func(*item) bool { return true })
	if len(back) != 1 {
		t.Errorf("%d items could be taken back, want the one that waits", len(back))
	}
	r.settled(back)
	r.finish(t, 1)
}

func TestAQueueThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	var q queue[int]
	next := 0
	for i := range 10_000 {
		q.push(i)
		if q.len() < 5 {
			continue
		}
		if got := q.pop(); got != next {
			t.Fatalf("popped %d, want %d", got, next)
		}
		next++
	}
	if q.len() != 4 || cap(q.items) > 32 {
		t.Errorf("%d wait in room for %d", q.len(), cap(q.items))
	}
}

// What waits because outcomes pile up starts when outcomes are recorded, and not at
// the next heartbeat.
func TestRecordedOutcomesStartWhatWaitsForThem(t *testing.T) {
	r := newRig(10)
	var burdened atomic.Bool
	burdened.Store(true)
	r.burdened = burdened.Load
	r.offer(1, 4, 4)
	if running, waiting := r.counts(); running != 0 || waiting != 4 {
		t.Fatalf("running %d, waiting %d while outcomes pile up, want 0 and 4", running, waiting)
	}
	burdened.Store(false)
	r.settled(nil)
	for range 4 {
		<-r.started
	}
	r.finish(t, 4)
}

// A receiver that keeps its latency gets more at once, up to what its endpoint allows, and
// the next lane of the endpoint remembers it; a handler's calls never adapt.
func TestSlotsFollowWhatTheReceiverTakes(t *testing.T) {
	for _, c := range []struct {
		name   string
		failed bool
		fixed  bool
		want   int
	}{
		{"steady", false, false, 40},
		{"failing", true, false, 1},
		{"fixed", true, true, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			ls := newLanes(1000, func(it *item) { it.took, it.failed = 300*time.Millisecond, c.failed })
			ls.fixed = func(store.EndpointNo) bool { return c.fixed }
			var minter posthaste.Minter
			var l *lane
			for range 60 {
				n := ls.reserve(1, 40, 64, kind{})
				ls.mu.Lock()
				l = ls.byNo[1]
				ls.mu.Unlock()
				items := make([]*item, n)
				for i := range items {
					items[i] = &item{event: new(posthaste.Event), lease: store.Lease{Endpoint: 1, Delivery: minter.Mint(testNow).Delivery(1)}}
				}
				ls.push(items)
				for ended := 0; ended < n; runtime.Gosched() {
					ls.mu.Lock()
					ended = l.ended
					ls.mu.Unlock()
				}
				ls.settled(items)
			}
			if l.slots != c.want {
				t.Errorf("%d slots, want %d", l.slots, c.want)
			}
			ls.stop()
			ls.workers.Wait()
		})
	}
}
