package pipeline

import (
	"slices"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
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
	// maxLaneBytes bounds the payloads that wait in all lanes together.
	maxLaneBytes = 64 << 20
	// roomTotal bounds what is leased to all lanes together, as a multiple of --max-in-flight.
	roomTotal = 16
)

// item is one leased delivery in memory.
type item struct {
	lease    store.Lease
	event    *posthaste.Event // nil until loaded
	entry    *entry           // of work born leased: holds the low-water mark
	lane     *lane
	queuedAt time.Duration // uptime
	bytes    int           // counted against maxLaneBytes
	ended    bool          // its attempt has ended, and its lane counts it so
	recorded bool
}

// lane is the work of one endpoint. It is a plain struct; lanes drives it.
type lane struct {
	endpoint store.EndpointNo
	slots    int // attempts that may be under way
	running  int // attempts under way
	room     int // reserved, waiting, running, or ended and not recorded
	ended    int // of room: ended and not recorded
	waiting  []*item
	first    int // of waiting
	inTurn   bool
	pace     time.Duration // moving average of an attempt's duration
}

// capacity is how much may be leased to the lane: a waiting queue of four times
// its slots, but no more than it can work off in maxLaneWait.
func (l *lane) capacity() int {
	full := l.slots * roomPerSlot
	if l.pace <= 0 {
		return full
	}
	inTime := int(maxLaneWait*time.Duration(l.slots)/l.pace) + l.slots
	return max(l.slots, min(full, inTime))
}

// free returns how many more deliveries may be leased to the lane.
func (l *lane) free() int {
	return min(l.capacity()-(l.room-l.ended), l.slots*roomInAll-l.room)
}

func (l *lane) pop() *item {
	it := l.waiting[l.first]
	l.waiting[l.first] = nil
	if l.first++; l.first == len(l.waiting) {
		l.waiting, l.first = l.waiting[:0], 0
	}
	return it
}

func (l *lane) hasWork() bool { return l.first < len(l.waiting) && l.running < l.slots }

// lanes hands leased deliveries to workers: at most max at once, at most a
// lane's slots for an endpoint, and endpoints in turn. A worker that ends an
// attempt takes the next one, so a busy engine starts no goroutines.
type lanes struct {
	mu      sync.Mutex
	byNo    map[store.EndpointNo]*lane
	turn    []*lane // lanes with work, first come first served
	held    map[posthaste.ID]*item
	max     int
	running int
	waiting int
	room    int
	bytes   int
	stopped bool // nothing starts any more
	work    func(*item)
	workers sync.WaitGroup
	parked  []chan *item  // workers that wait for an item, the last one first
	freed   chan struct{} // one token: room was given back
}

func newLanes(maxInFlight int, work func(*item)) *lanes {
	return &lanes{
		byNo: map[store.EndpointNo]*lane{}, held: map[posthaste.ID]*item{},
		max: maxInFlight, work: work, freed: make(chan struct{}, 1),
	}
}

// lane returns the lane of an endpoint, made if needed, with its slots set anew.
func (ls *lanes) lane(endpoint store.EndpointNo, slots int) *lane {
	l := ls.byNo[endpoint]
	if l == nil {
		l = &lane{endpoint: endpoint}
		ls.byNo[endpoint] = l
	}
	l.slots = slots
	return l
}

// reserve takes room for up to n deliveries of an endpoint and returns how many fit.
func (ls *lanes) reserve(endpoint store.EndpointNo, slots, n int) int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.stopped || ls.bytes >= maxLaneBytes {
		return 0
	}
	l := ls.lane(endpoint, slots)
	n = max(0, min(n, l.free(), ls.max*roomTotal-ls.room))
	l.room += n
	ls.room += n
	ls.sweep(l)
	return n
}

// force takes room for one delivery that is leased already, whether it fits or not.
func (ls *lanes) force(endpoint store.EndpointNo, slots int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.lane(endpoint, slots).room++
	ls.room++
}

// unreserve gives back room that was reserved and not used.
func (ls *lanes) unreserve(endpoint store.EndpointNo, n int) {
	if n > 0 {
		ls.release(endpoint, n)
		poke(ls.freed)
	}
}

// release is unreserve without a word to those who wait for room.
func (ls *lanes) release(endpoint store.EndpointNo, n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byNo[endpoint]; l != nil {
		l.room -= n
		ls.room -= n
		ls.sweep(l)
	}
}

// push hands items over whose room was reserved.
func (ls *lanes) push(items []*item) {
	now := uptime()
	ls.mu.Lock()
	for _, it := range items {
		l := ls.byNo[it.lease.Endpoint] // there: room is reserved in it
		it.lane, it.queuedAt = l, now
		if it.event != nil {
			it.bytes = len(it.event.Payload)
		}
		ls.bytes += it.bytes
		ls.held[it.lease.Delivery] = it
		l.waiting = append(l.waiting, it)
		ls.waiting++
		ls.take(l)
	}
	starts := ls.start()
	woken := ls.parked[max(0, len(ls.parked)-len(starts)):]
	woken, ls.parked = slices.Clone(woken), ls.parked[:len(ls.parked)-len(woken)]
	ls.mu.Unlock()
	for i, it := range starts {
		if i < len(woken) {
			woken[i] <- it
		} else {
			ls.workers.Go(func() { ls.run(it) })
		}
	}
}

// take puts a lane in turn if it has work and is not there yet.
func (ls *lanes) take(l *lane) {
	if !l.inTurn && l.hasWork() {
		l.inTurn = true
		ls.turn = append(ls.turn, l)
	}
}

// start takes as many items as may run now.
func (ls *lanes) start() (items []*item) {
	for it := ls.next(); it != nil; it = ls.next() {
		items = append(items, it)
	}
	return items
}

// next takes the item whose turn it is, or nil.
func (ls *lanes) next() *item {
	for !ls.stopped && ls.running < ls.max && len(ls.turn) > 0 {
		l := ls.turn[0]
		ls.turn[0] = nil
		ls.turn = ls.turn[1:]
		l.inTurn = false
		if !l.hasWork() {
			ls.sweep(l)
			continue
		}
		it := l.pop()
		ls.waiting--
		ls.running++
		l.running++
		ls.take(l)
		return it
	}
	return nil
}

// maxParked is how many workers wait for an item instead of ending: a stack
// that has grown once need not grow again for every attempt.
const maxParked = 64

func (ls *lanes) run(it *item) {
	next := make(chan *item, 1)
	for it != nil {
		start := uptime()
		ls.work(it)
		it = ls.done(it, uptime()-start, next)
		if it == nil {
			it = <-next
		}
	}
}

// done ends an item's turn and returns the next item. With none, the worker is
// to wait on its channel: for an item, or for nil, which ends it.
func (ls *lanes) done(worked *item, took time.Duration, next chan *item) *item {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := worked.lane
	if !worked.recorded { // else it was recorded faster than this
		worked.ended = true
		l.ended++
	}
	l.running--
	ls.running--
	l.pace += (took - l.pace) / 8
	ls.take(l)
	ls.sweep(l)
	it := ls.next()
	switch {
	case it != nil:
	case ls.stopped || len(ls.parked) == maxParked:
		next <- nil
	default:
		ls.parked = append(ls.parked, next)
	}
	return it
}

// settled gives back the room of recorded items.
func (ls *lanes) settled(items []*item) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, it := range items {
		if ls.held[it.lease.Delivery] == it {
			delete(ls.held, it.lease.Delivery)
		}
		ls.bytes -= it.bytes
		ls.room--
		it.lane.room--
		it.recorded = true
		if it.ended {
			it.lane.ended--
		}
		ls.sweep(it.lane)
	}
	poke(ls.freed)
}

// sweep forgets a lane that has nothing.
func (ls *lanes) sweep(l *lane) {
	if l.room == 0 && !l.inTurn && l.running == 0 {
		delete(ls.byNo, l.endpoint)
	}
}

// holds reports whether a delivery is leased in memory.
func (ls *lanes) holds(delivery posthaste.ID) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.held[delivery] != nil
}

// recall takes back all waiting items that the test picks.
func (ls *lanes) recall(pick func(*item) bool) (items []*item) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.byNo {
		keep := l.waiting[:0]
		for _, it := range l.waiting[l.first:] {
			if pick(it) {
				items = append(items, it)
				ls.waiting--
			} else {
				keep = append(keep, it)
			}
		}
		clear(l.waiting[len(keep):])
		l.waiting, l.first = keep, 0
	}
	return items
}

// remaining lists the deliveries that are still leased in memory.
func (ls *lanes) remaining() []posthaste.ID {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	out := make([]posthaste.ID, 0, len(ls.held))
	for id := range ls.held {
		out = append(out, id)
	}
	return out
}

// stop lets nothing start any more.
func (ls *lanes) stop() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.stopped = true
	for _, worker := range ls.parked {
		worker <- nil
	}
	ls.parked = nil
}

// any reports whether anything is leased, or room for it reserved.
func (ls *lanes) any() bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.room > 0 || len(ls.held) > 0
}

// counts returns what is under way and what waits.
func (ls *lanes) counts() (running, waiting int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.running, ls.waiting
}
