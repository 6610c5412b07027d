package deliver

import (
	"context"
	"math"
	"net"
	"time"
)

// ControlPlain asks what the dialer for plain HTTP asks right before it connects,
// for addresses that a test must never really connect to.
func (s *Sender) ControlPlain(address string) error { return s.guard.controlPlain("tcp", address, nil) }

// Exchange makes an attempt over a connection that need not be a socket, and
// reports whether another could follow on it.
func (s *Sender) Exchange(t *Target, m *Message, over net.Conn) (r Result, isReusable bool) {
	w := workspaces.Get().(*workspace)
	defer w.free()
	ctx, p := context.Background(), &w.progress
	w.progress = begin(ctx, t.timeout)
	r.StartedAt = s.now()
	w.request, w.body = s.appendRequest(w.request[:0], t, m, r.StartedAt), m.Body
	if err := newConn(over, nil).exchange(ctx, p, w, &r); err != nil {
		return s.failed(ctx, p, r, err), w.isReusable
	}
	return p.answered(r), w.isReusable
}

// Idle is the pool, for connections that a test makes up.
type Idle struct{ pool *pool }

func NewIdle(perHost int) Idle { return Idle{newPool(perHost, math.MaxInt)} }

// NewIdleWithin is NewIdle for a number of file descriptors.
func NewIdleWithin(perHost, descriptors int) Idle { return Idle{newPool(perHost, descriptors)} }

// Count is how many connections are idle.
func (i Idle) Count() int { return i.pool.count }

// Busy is how many attempts the pool counts.
func (s *Sender) Busy() int { return s.pool.busy }

// DescriptorsFor is what attempts and idle connections may hold under a limit of open files.
var DescriptorsFor = descriptorsFor

// Add takes in a new connection, as if an attempt on it had ended now.
func (i Idle) Add(address string, c net.Conn) {
	made := newConn(c, nil)
	i.pool.reserve()
	i.pool.add(destination{address: address}, made)
	i.pool.give(made, time.Now())
}

// Take returns nil where none is idle.
func (i Idle) Take(address string) net.Conn {
	if c := i.pool.take(destination{address: address}); c != nil {
		return c.Conn
	}
	return nil
}

// Hosts is how many hosts the pool remembers.
func (i Idle) Hosts() int { return len(i.pool.hosts) }

func (i Idle) Close() { i.pool.close() }

// MaxIdle is over all hosts.
const MaxIdle = maxIdleConns

// UsePortablePoll makes new connections receive as on systems without recv(2). Call
// the returned function to undo it.
func UsePortablePoll() (undo func()) {
	system := newPoll
	newPoll = func(s *socket) (poll, error) { return &portablePoll{s}, nil }
	return func() { newPoll = system }
}
