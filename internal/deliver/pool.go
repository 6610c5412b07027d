package deliver

import (
	"sync"
	"time"
)

// destination is what a connection can be reused for.
type destination struct {
	plain   bool   // http:
	address string // host and port, as dialled
}

// pool keeps the connections that wait for their next request. Whoever takes one
// has it alone until it is given back or dropped.
type pool struct {
	perHost     int
	descriptors int // what attempts and idle connections may hold together

	mu      sync.Mutex
	hosts   map[destination]*host
	busy    int   // attempts that use a connection, or make one
	count   int   // of idle connections
	oldest  *conn // the idle ones of all hosts, by when they became so
	newest  *conn
	closing bool // since Close; ends with the next attempt

	// One timer for all, set for the oldest of the moment. It is left alone when
	// that one is taken, which happens at each attempt, and looks anew when it fires.
	timer *time.Timer
	isSet bool
}

// host is in the map as long as it has a connection, idle or not.
type host struct {
	to   destination
	idle []*conn // by when they became so
	open int
}

func newPool(perHost, descriptors int) *pool {
	return &pool{perHost: perHost, descriptors: descriptors, hosts: map[destination]*host{}}
}

// take returns an idle connection, or nil. The newest goes first, so that those
// beyond the need of the moment grow old and are closed.
func (p *pool) take(to destination) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = false
	h := p.hosts[to]
	if h == nil || len(h.idle) == 0 {
		return nil
	}
	last := len(h.idle) - 1
	c := h.idle[last]
	h.idle[last] = nil
	h.idle = h.idle[:last]
	p.unlink(c)
	p.busy++
	c.isReused = true
	return c
}

// reserve makes room for a new connection: where attempts and idle connections
// would hold too many descriptors, it closes idle ones, the oldest first. Call add
// or release when the outcome of the dial is known.
func (p *pool) reserve() {
	p.mu.Lock()
	p.busy++
	surplus := p.removeSurplus()
	p.mu.Unlock()
	closeAll(surplus)
}

// release ends a reservation whose connection could not be made.
func (p *pool) release() {
	p.mu.Lock()
	p.busy--
	p.mu.Unlock()
}

// shed closes the older half of the idle connections: the system has no descriptor left.
func (p *pool) shed() {
	p.mu.Lock()
	var surplus []*conn
	for range (p.count + 1) / 2 {
		surplus = append(surplus, p.removeOldest())
	}
	p.mu.Unlock()
	closeAll(surplus)
}

// removeSurplus takes out the idle connections for which no descriptor is left.
func (p *pool) removeSurplus() (surplus []*conn) {
	for p.oldest != nil && (p.count > maxIdleConns || p.busy*descriptorsPerAttempt+p.count > p.descriptors) {
		surplus = append(surplus, p.removeOldest())
	}
	return surplus
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.Close()
	}
}

// add takes a new connection in, as one that is in use. reserve made room for it.
func (p *pool) add(to destination, c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[to]
	if h == nil {
		h = &host{to: to}
		p.hosts[to] = h
	}
	h.open++
	c.host = h
}

// give puts a connection that was in use among the idle ones, or closes it where
// there are enough of them. Of all hosts together, the oldest has to go.
func (p *pool) give(c *conn, now time.Time) {
	p.mu.Lock()
	h := c.host
	if p.closing || len(h.idle) >= p.perHost {
		p.mu.Unlock()
		p.drop(c)
		return
	}
	c.idleAt = now
	h.idle = append(h.idle, c)
	c.older, c.newer = p.newest, nil
	if p.newest != nil {
		p.newest.newer = c
	} else {
		p.oldest = c
	}
	p.newest = c
	p.count++
	p.busy--
	surplus := p.removeSurplus()
	if !p.isSet {
		p.set(idleTimeout)
	}
	p.mu.Unlock()
	closeAll(surplus)
}

// drop closes a connection that was in use.
func (p *pool) drop(c *conn) {
	c.abort()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	p.forget(c.host)
}

// forget counts a connection of the host that is no more.
func (p *pool) forget(h *host) {
	if h.open--; h.open == 0 {
		delete(p.hosts, h.to)
	}
}

func (p *pool) unlink(c *conn) {
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		p.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		p.newest = c.older
	}
	c.older, c.newer = nil, nil
	p.count--
}

// removeOldest takes the oldest idle connection out. It is the oldest of its
// host, too.
func (p *pool) removeOldest() *conn {
	c := p.oldest
	p.unlink(c)
	c.host.idle[0] = nil
	c.host.idle = c.host.idle[1:]
	p.forget(c.host)
	return c
}

func (p *pool) set(d time.Duration) {
	p.isSet = true
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.expire)
		return
	}
	p.timer.Reset(d)
}

// expire closes what has been idle for too long.
func (p *pool) expire() {
	now := time.Now()
	p.mu.Lock()
	var expired []*conn
	for p.oldest != nil && now.Sub(p.oldest.idleAt) >= idleTimeout {
		expired = append(expired, p.removeOldest())
	}
	if p.isSet = false; p.oldest != nil {
		p.set(idleTimeout - now.Sub(p.oldest.idleAt))
	}
	p.mu.Unlock()
	closeAll(expired)
}

// close closes the idle connections, and those that attempts under way give back
// before the next attempt begins.
func (p *pool) close() {
	p.mu.Lock()
	var idle []*conn
	for p.oldest != nil {
		idle = append(idle, p.removeOldest())
	}
	p.closing = true
	if p.isSet {
		p.timer.Stop()
		p.isSet = false
	}
	p.mu.Unlock()
	closeAll(idle)
}
