package pipeline

import (
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/concurrency"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// roomPerSlot sizes a lane: for each attempt that may be under way, this many
	// deliveries may be leased to it and not yet attempted, or under way.
	roomPerSlot = 5
	// roomInAll is the same with those that have ended and are not recorded yet.
	roomInAll = 8
	// maxLaneWait is how long a delivery may wait in a lane before it is given back.
	maxLaneWait = 15 * time.Second
	// maxLaneBytes bounds the events of leased deliveries in memory, each counted once: beyond
	// it no event is loaded, and new ones are born due.
	maxLaneBytes = 32 << 20
	// maxBytesPerLane bounds the events that wait in one lane, so that a slow
	// endpoint with large ones leaves room for the others.
	maxBytesPerLane = maxLaneBytes / 8
	// roomTotal bounds what is leased to all lanes together, as a multiple of
	// --max-in-flight, and is minRoom at least.
	roomTotal = 4
	minRoom   = 8192
	// maxLimits bounds the endpoints whose limit of attempts is remembered while they have none.
	maxLimits = 10_000
)

// item is one leased delivery in memory.
type item struct {
	lease    store.Lease
	event    *posthaste.Event // nil until loaded
	payload  *payload         // the same, shared by all deliveries of the event
	entry    *entry           // of work born leased: holds the low-water mark
	lane     *lane
	born     bool          // born leased, not claimed
	startAt  time.Duration // uptime before which it must not start: its slot under a rate limit; 0: now
	latest   time.Duration // uptime after which it must not start any more; 0: maxLaneWait
	joined   bool          // has its place in its lane: not behind others of its run
	left     bool          // was taken back from behind others of its run
	early    *verdict      // why it ends without an attempt: its event did not come
	pastGate bool          // claimed past its endpoint's gate, which somebody else holds locked: it stops nothing
	run      *run          // of an ordered endpoint: what it was leased with
	queuedAt time.Duration // uptime
	bytes    int           // of its event, counted against its lane
	took     time.Duration // of its attempt; 0: none was made
	failed   bool          // its attempt failed for now, which its receiver may not do for others
	ended    bool          // its attempt has ended, and its lane counts it so
	recorded bool
}

// run is successive deliveries of an ordered endpoint that were leased together. Its first
// item waits in its lane like any other. Each further item joins the lane when the attempt
// before it has ended, so the run has one attempt under way at most. The lock of lanes guards it.
type run struct {
	behind queue[*item] // not in the lane yet
}

// line says which of two queues an item waits in: first attempts, and all
// others. A lane has both, so that old failures don't stand in the way of new events.
type line int

const (
	firsts line = iota
	retries
)

func (it *item) line() line {
	if it.lease.Number > 1 {
		return retries
	}
	return firsts
}

// lane is the work of one endpoint. It is a plain struct; lanes drives it.
type lane struct {
	endpoint store.EndpointNo
	most     int  // attempts that its endpoint allows at once here
	fixed    bool // most may always be under way: limit does not matter
	limit    concurrency.State
	slots    int // attempts that may be under way now
	running  int // attempts under way
	room     int // reserved, waiting, running, or ended and not recorded
	ended    int // of room: ended and not recorded
	born     int // of room: born leased
	bytes    int // of the events of its items
	waiting  [2]queue[*item]
	inTurn   [2]bool
	unloaded queue[*item]  // without their event
	toLoad   bool          // in turn for a load
	pace     time.Duration // moving average of an attempt's duration
}

// allow sets how many attempts the endpoint allows at once, and reports whether more may
// be under way now than before.
func (l *lane) allow(most int) (more bool) {
	before := l.slots
	if l.most, l.slots = most, most; !l.fixed {
		l.slots = l.limit.Slots(most)
	}
	return l.slots > before
}

// learn takes in what came of an attempt that has just ended, and reports whether more
// may be under way now than before.
func (l *lane) learn(it *item) (more bool) {
	if it.took == 0 || l.fixed {
		return false
	}
	l.limit = l.limit.After(concurrency.Attempt{Latency: it.took, Failed: it.failed, Limited: l.running >= l.slots}, l.most)
	return l.allow(l.most)
}

// capacity is how much may be leased to the lane: a waiting queue of four times
// its slots, but no more than it can work off within a time.
func (l *lane) capacity(within time.Duration) int {
	full := l.slots * roomPerSlot
	if l.pace <= 0 {
		return full
	}
	inTime := int(within*time.Duration(l.slots)/l.pace) + l.slots
	return max(l.slots, min(full, inTime))
}

// free returns how many more deliveries may be leased to the lane.
func (l *lane) free(k kind) int {
	within := maxLaneWait
	if k.within > 0 {
		within = min(k.within, maxLaneWait)
	}
	capacity := l.capacity(within)
	n := min(capacity-(l.room-l.ended), l.slots*roomInAll-l.room)
	if k.besideDue {
		n = min(n, capacity/2-l.born)
	}
	return n
}

func (l *lane) mayRun(q line) bool { return l.waiting[q].len() > 0 && l.running < l.slots }

// kind says for what room is reserved.
type kind struct {
	born      bool          // for work that is born leased, else for claimed work
	besideDue bool          // born while older work of its endpoint waits: half of the room is that work's
	within    time.Duration // how soon it has to start; 0: maxLaneWait
}

// queue is a first-in-first-out queue.
type queue[T any] struct {
	items []T
	first int
}

func (q *queue[T]) len() int { return len(q.items) - q.first }
func (q *queue[T]) head() T  { return q.items[q.first] }

func (q *queue[T]) push(x T) {
	if len(q.items) == cap(q.items) && q.first > len(q.items)/2 { // one that is never empty must not grow for good
		kept := copy(q.items, q.items[q.first:])
		clear(q.items[kept:])
		q.items, q.first = q.items[:kept], 0
	}
	q.items = append(q.items, x)
}

func (q *queue[T]) pop() T {
	var none T
	x := q.items[q.first]
	q.items[q.first] = none
	if q.first++; q.first == len(q.items) {
		q.items, q.first = q.items[:0], 0
	}
	return x
}

// putBack puts items before all others.
func (q *queue[T]) putBack(items []T) {
	q.items = append(slices.Clone(items), q.items[q.first:]...)
	q.first = 0
}

// take removes the items that the test picks.
func (q *queue[T]) take(pick func(T) bool) (taken []T) {
	keep := q.items[:0]
	for _, x := range q.items[q.first:] {
		if pick(x) {
			taken = append(taken, x)
		} else {
			keep = append(keep, x)
		}
	}
	clear(q.items[len(keep):])
	q.items, q.first = keep, 0
	return taken
}
