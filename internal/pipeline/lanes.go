package pipeline

import (
	"slices"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/concurrency"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// lanes hands leased deliveries to workers: at most max at once, at most a
// lane's slots for an endpoint, and endpoints in turn. Retries take at most a part of
// all slots while first attempts wait. A worker that ends an
// attempt takes the next one, so a busy engine starts no goroutines.
type lanes struct {
	mu      sync.Mutex
	byNo    map[store.EndpointNo]*lane
	turn    [2]queue[*lane] // lanes with work in a line, first come first served
	held    map[posthaste.ID]*item
	runs    map[*run]struct{} // those with items that have not joined their lane
	later   later             // items whose time has not come
	max     int
	most    int // leased to all lanes together
	running int
	retried int // of running: no first attempts
	waiting int
	room    int
	stopped bool // nothing starts any more
	work    func(*item)
	// burdened reports whether too many outcomes wait to be recorded. Nothing starts
	// meanwhile; settled, which is called for each batch recorded, starts what waits.
	burdened func() bool
	workers  sync.WaitGroup
	parked   []chan *item  // workers that wait for an item, the last one first
	freed    chan struct{} // one token: room was given back

	limits map[store.EndpointNo]concurrency.State // of endpoints without a lane
	fixed  func(store.EndpointNo) bool            // whether an endpoint's slots never adapt

	payloads payloads
	toLoad   chan struct{} // one token: an item waits for its event, or bytes were freed
}

func newLanes(maxInFlight int, work func(*item)) *lanes {
	ls := &lanes{
		byNo: map[store.EndpointNo]*lane{}, held: map[posthaste.ID]*item{}, runs: map[*run]struct{}{},
		max: maxInFlight, most: max(maxInFlight*roomTotal, minRoom), work: work, freed: make(chan struct{}, 1), toLoad: make(chan struct{}, 1), burdened: func() bool { return false },
	}
	ls.limits, ls.fixed = map[store.EndpointNo]concurrency.State{}, func(store.EndpointNo) bool { return false }
	ls.later.ripe = ls.ripen
	ls.payloads.byID = map[posthaste.ID]*payload{}
	return ls
}

// reserve takes room for up to n deliveries of an endpoint and returns how many fit.
func (ls *lanes) reserve(endpoint store.EndpointNo, slots, n int, k kind) int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.stopped || ls.payloads.full() {
		return 0
	}
	l := ls.lane(endpoint, slots)
	if l.bytes >= maxBytesPerLane {
		return 0
	}
	n = max(0, min(n, l.free(k), ls.most-ls.room))
	l.room += n
	ls.room += n
	if k.born {
		l.born += n
	}
	ls.sweep(l)
	return n
}

// reserveRun takes room for up to n deliveries of an ordered endpoint and returns how many
// fit: none while its lane has work, since nothing is leased behind that.
func (ls *lanes) reserveRun(endpoint store.EndpointNo, n int) int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.stopped || ls.payloads.full() {
		return 0
	}
	l := ls.lane(endpoint, 1)
	if n = max(0, min(n, ls.most-ls.room)); l.room > 0 {
		n = 0
	}
	l.room += n
	ls.room += n
	ls.sweep(l)
	return n
}

// force takes room for one delivery that was born leased, whether it fits or not.
func (ls *lanes) force(endpoint store.EndpointNo, slots int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lane(endpoint, slots)
	l.room++
	l.born++
	ls.room++
}

// unreserve gives back room that was reserved and not used.
func (ls *lanes) unreserve(endpoint store.EndpointNo, n int, k kind) {
	if n > 0 {
		ls.release(endpoint, n, k)
		poke(ls.freed)
	}
}

// release is unreserve without a word to those who wait for room.
func (ls *lanes) release(endpoint store.EndpointNo, n int, k kind) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byNo[endpoint]; l != nil {
		l.room -= n
		ls.room -= n
		if k.born {
			l.born -= n
		}
		ls.sweep(l)
	}
}

// push hands items over whose room was reserved.
func (ls *lanes) push(items []*item) {
	now := uptime()
	ls.mu.Lock()
	for _, it := range items {
		ls.hold(it, now)
		ls.join(it, now)
	}
	ls.startAndUnlock()
}

// pushRun hands over items of an ordered endpoint whose room was reserved, in their order.
func (ls *lanes) pushRun(items []*item) {
	if len(items) == 0 {
		return
	}
	now, r := uptime(), &run{}
	ls.mu.Lock()
	for _, it := range items {
		it.run = r
		ls.hold(it, now)
	}
	for _, it := range items[1:] {
		r.behind.push(it)
	}
	if len(items) > 1 {
		ls.runs[r] = struct{}{}
	}
	ls.join(items[0], now)
	ls.startAndUnlock()
}

// hold takes an item into account.
func (ls *lanes) hold(it *item, now time.Duration) {
	it.lane, it.queuedAt = ls.byNo[it.lease.Endpoint], now // there: room is reserved in it
	ls.payloads.hold(it)
	ls.held[it.lease.Delivery] = it
	ls.waiting++
	if it.event == nil {
		ls.payloads.wait(it)
		poke(ls.toLoad)
	}
}

// join lets an item wait for its event, then for its time, and then for its turn.
func (ls *lanes) join(it *item, now time.Duration) {
	it.joined = true
	switch {
	case it.event == nil && it.early == nil: // the loader queues it
	case it.startAt > now:
		ls.later.add(it)
	default:
		ls.queue(it)
	}
}

// loaded lets an item go on whose event came, or will never come.
func (ls *lanes) loaded(it *item, now time.Duration) {
	if it.joined {
		ls.join(it, now)
	}
}

// joinNext lets the next item of a run join its lane, now that the one before it has ended.
func (ls *lanes) joinNext(r *run) {
	if r == nil || r.behind.len() == 0 {
		return
	}
	ls.join(r.behind.pop(), uptime())
	if r.behind.len() == 0 {
		delete(ls.runs, r)
	}
}

// cut takes back the items of a run that have not joined their lane.
func (ls *lanes) cut(r *run) []*item {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	rest := r.behind.take(func(*item) bool { return true })
	ls.stopLoading(rest)
	ls.waiting -= len(rest)
	delete(ls.runs, r)
	return rest
}

// stopLoading forgets that items wait for their events.
func (ls *lanes) stopLoading(items []*item) {
	for _, it := range items {
		it.left = true
		if it.event == nil && it.early == nil {
			ls.payloads.missing -= len(it.lane.unloaded.take(func(x *item) bool { return x == it }))
		}
	}
}

// isLast reports whether a run has no items that have not joined their lane.
func (ls *lanes) isLast(r *run) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return r.behind.len() == 0
}

// queue lets an item wait for its turn.
func (ls *lanes) queue(it *item) {
	it.lane.waiting[it.line()].push(it)
	ls.take(it.lane)
}

// ripen queues the items whose time has come.
func (ls *lanes) ripen() {
	ls.mu.Lock()
	now := uptime()
	for _, it := range ls.later.due(now) {
		ls.queue(it)
	}
	ls.startAndUnlock()
}

// startAndUnlock starts what may run now: on workers that are parked, then on new ones.
func (ls *lanes) startAndUnlock() {
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

// take puts a lane in turn where it has work and is not there yet.
func (ls *lanes) take(l *lane) {
	for _, q := range []line{firsts, retries} {
		if !l.inTurn[q] && l.mayRun(q) {
			l.inTurn[q] = true
			ls.turn[q].push(l)
		}
	}
}

// start takes as many items as may run now.
func (ls *lanes) start() (items []*item) {
	for it := ls.next(); it != nil; it = ls.next() {
		items = append(items, it)
	}
	return items
}

// retryShare is the part of all slots, in tenths, that retries may take while first
// attempts wait.
const retryShare = 3

// next takes the item whose turn it is, or nil.
func (ls *lanes) next() *item {
	if ls.stopped || ls.running >= ls.max || ls.burdened() {
		return nil
	}
	q, found := ls.nextLine()
	if !found {
		return nil
	}
	l := ls.leaveTurn(q)
	it := l.waiting[q].pop()
	ls.waiting--
	ls.running++
	l.running++
	if q == retries {
		ls.retried++
	}
	ls.take(l)
	return it
}

// leaveTurn takes the first lane out of a line.
func (ls *lanes) leaveTurn(q line) *lane {
	l := ls.turn[q].pop()
	l.inTurn[q] = false
	return l
}

// nextLine returns the line that is served next: the one whose head has waited
// longer, or first attempts where retries have their share.
func (ls *lanes) nextLine() (line, bool) {
	for _, q := range []line{firsts, retries} { // lanes that have run out of slots or work meanwhile
		for ls.turn[q].len() > 0 && !ls.turn[q].head().mayRun(q) {
			ls.sweep(ls.leaveTurn(q))
		}
	}
	first, again := &ls.turn[firsts], &ls.turn[retries]
	switch {
	case first.len() == 0:
		return retries, again.len() > 0
	case again.len() == 0 || ls.retried*10 >= ls.max*retryShare:
		return firsts, true
	case again.head().waiting[retries].head().queuedAt < first.head().waiting[firsts].head().queuedAt:
		return retries, true
	default:
		return firsts, true
	}
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
	more := l.learn(worked)
	l.running--
	ls.running--
	if worked.line() == retries {
		ls.retried--
	}
	l.pace += (took - l.pace) / 8
	ls.joinNext(worked.run)
	ls.take(l)
	ls.sweep(l)
	if more {
		poke(ls.freed) // its room has grown
	}
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

// settled gives back the room of recorded items, and starts what waited for that.
func (ls *lanes) settled(items []*item) {
	ls.mu.Lock()
	for _, it := range items {
		if ls.held[it.lease.Delivery] == it {
			delete(ls.held, it.lease.Delivery)
		}
		ls.payloads.release(it)
		ls.payloads.queue(it.lane)
		ls.room--
		it.lane.room--
		if it.born {
			it.lane.born--
		}
		it.recorded = true
		if it.ended {
			it.lane.ended--
		}
		ls.sweep(it.lane)
	}
	missing := ls.payloads.missing > 0
	ls.startAndUnlock()
	poke(ls.freed)
	if missing {
		poke(ls.toLoad)
	}
}

// sweep forgets a lane that has nothing.
func (ls *lanes) sweep(l *lane) {
	if l.room == 0 && !l.inTurn[firsts] && !l.inTurn[retries] && !l.toLoad && l.running == 0 {
		delete(ls.byNo, l.endpoint)
		if !l.fixed && l.limit != (concurrency.State{}) && len(ls.limits) < maxLimits {
			ls.limits[l.endpoint] = l.limit
		}
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
	for _, l := range ls.byNo {
		for q := range l.waiting {
			items = append(items, l.waiting[q].take(pick)...)
		}
		for _, it := range l.unloaded.take(func(it *item) bool { return it.joined && pick(it) }) {
			ls.payloads.missing--
			items = append(items, it)
		}
	}
	items = append(items, ls.later.take(pick)...)
	joined := len(items)
	for r := range ls.runs {
		items = append(items, r.behind.take(pick)...)
		if r.behind.len() == 0 {
			delete(ls.runs, r)
		}
	}
	for _, it := range items[:joined] {
		ls.joinNext(it.run)
	}
	ls.stopLoading(items[joined:])
	ls.waiting -= len(items)
	ls.startAndUnlock()
	return items
}

// remaining lists the leases that are still held in memory.
func (ls *lanes) remaining() []store.HeldLease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	out := make([]store.HeldLease, 0, len(ls.held))
	for _, it := range ls.held {
		out = append(out, it.lease.Held())
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
