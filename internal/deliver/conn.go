package deliver

import (
	"context"
	"net"
	"time"
)

// Requests up to maxInlineBytes, headers included, are written by the goroutine
// that reads the response: so few bytes always fit into the buffers of the two
// kernels (Linux takes in 64 KiB before the receiver has read anything). More
// may have to wait for a receiver that itself waits for us to read its answer;
// those are written by a goroutine of their own.
const maxInlineBytes = 32 << 10

// maxWriteRest is how long the rest of a request may take once its response has
// come in whole; after that the connection is not worth waiting for.
const maxWriteRest = 50 * time.Millisecond

// longAgo is a deadline that cuts off what is under way.
var longAgo = time.Unix(1, 0)

// conn is a connection that carries one request at a time.
type conn struct {
	net.Conn         // what is spoken through: TCP, or TLS over it
	socket   *socket // what lies below; nil for one that a test made up
	cutOff   func()  // made once, as each attempt needs it

	isReused bool // a request was answered on it before

	// The pool's.
	host         *host
	older, newer *conn
	idleAt       time.Time
}

func newConn(c net.Conn, s *socket) *conn {
	return &conn{Conn: c, socket: s, cutOff: func() { _ = c.SetDeadline(longAgo) }}
}

// SetDeadline sets the deadlines of reads and writes, and tells the socket, whose
// poll may have to restore them.
func (c *conn) SetDeadline(t time.Time) error {
	if c.socket != nil {
		c.socket.deadline = t
	}
	return c.Conn.SetDeadline(t)
}

// abort closes the connection below TLS, which would take its time to say
// goodbye to a receiver that has stopped reading.
func (c *conn) abort() {
	if c.socket != nil {
		c.socket.TCPConn.Close()
		return
	}
	c.Close()
}

// isSilent reports whether nothing has come since the last response: neither the
// end of the connection nor a response that nobody asked for, which would be
// taken for that to the next request.
func (c *conn) isSilent() bool {
	if c.Conn == net.Conn(c.socket.TCPConn) {
		return c.socket.isSilent()
	}
	return c.socket.isSilentAbove(c.Conn)
}

// exchange writes w's request, and reads the response into r. Afterwards w says
// whether a response has begun, and whether the connection can be used again.
// The connection's deadline has been set to the attempt's before.
func (c *conn) exchange(ctx context.Context, p *progress, w *workspace, r *Result) error {
	w.hasAnswer, w.isReusable = false, false
	stop := context.AfterFunc(ctx, c.cutOff)
	err := c.talk(p, w, r)
	if !stop() {
		w.isReusable = false // else a cut that comes late would hit the next attempt
	}
	return err
}

// talk is exchange without the caller's interruption.
func (c *conn) talk(p *progress, w *workspace, r *Result) error {
	p.step = stepWrite
	began := time.Now()
	out := c.startWrite(w)
	w.listen(c.Conn)
	if out.isDone() && isTimeout(out.err) {
		return out.err
	}
	// Also after an error: a receiver that has had enough may have said why.
	if _, err := w.reader.Peek(1); err != nil {
		return out.unanswered(p, err)
	}
	w.hasAnswer = true
	p.timings.FirstByte = time.Since(began)
	p.step = stepHeaders
	err := w.receive(p, r)
	if err != nil || !w.isReusable {
		out.abandon()
	} else if !out.finish() {
		w.isReusable = false
	}
	return err
}

// outgoing is a request that is being written.
type outgoing struct {
	conn *conn
	done chan error // nil once err holds what came out of it
	err  error
}

func (c *conn) startWrite(w *workspace) outgoing {
	if len(w.request)+len(w.body) <= maxInlineBytes {
		// One write, hence one packet and, with TLS, one record, where it fits.
		head := len(w.request)
		w.request = append(w.request, w.body...)
		_, err := c.Write(w.request)
		w.request = w.request[:head] // for another try, on another connection
		return outgoing{err: err}
	}
	out := outgoing{conn: c, done: make(chan error, 1)}
	parts := net.Buffers{w.request, w.body}
	go func() {
		_, err := parts.WriteTo(c.Conn)
		out.done <- err
	}()
	return out
}

func (o *outgoing) isDone() bool {
	if o.done == nil {
		return true
	}
	select {
	case err := <-o.done:
		o.done, o.err = nil, err
	default:
	}
	return o.done == nil
}

// unanswered returns why an attempt failed whose response did not begin, err
// being what reading says, and leaves it at the step that did: while the request
// is not written out, that is writing.
func (o *outgoing) unanswered(p *progress, err error) error {
	if !o.isDone() {
		o.abandon()
		return err
	}
	if o.err != nil {
		return o.err
	}
	p.step = stepHeaders
	return err
}

// finish waits for the rest, but not long, and reports whether all was written.
func (o *outgoing) finish() bool {
	if o.done == nil {
		return o.err == nil
	}
	patience := time.NewTimer(maxWriteRest)
	defer patience.Stop()
	select {
	case o.err = <-o.done:
		o.done = nil
		return o.err == nil
	case <-patience.C:
		o.abandon()
		return false
	}
}

// abandon makes sure that nobody reads the request's body any more. The
// connection is of no use after that.
func (o *outgoing) abandon() {
	if o.done == nil {
		return
	}
	o.conn.abort()
	o.err = <-o.done
	o.done = nil
}
