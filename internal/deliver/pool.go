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
	perHost int

	mu      sync.Mutex
	hosts   map[destination]*host
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

func newPool(perHost int) *pool {
	return &pool{perHost: perHost, hosts: map[destination]*host{}}
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
	c.isReused = true
	return c
}

// add takes a new connection in, as one that is in use.
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
	var surplus *conn
	if p.count >= maxIdleConns {
		surplus = p.removeOldest()
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
	if !p.isSet {
		p.set(idleTimeout)
	}
	p.mu.Unlock()
	if surplus != nil {
		surplus.Close()
	}
}

// drop closes a connection that was in use.
func (p *pool) drop(c *conn) {
	c.abort()
	p.mu.Lock()
	defer p.mu.Unlock()
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
	for _, c := range expired {
		c.Close()
	}
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
	for _, c := range idle {
		c.Close()
	}
}
