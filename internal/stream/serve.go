package stream

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// Subscription is what a client asks for.
type Subscription struct {
	Tenant store.TenantNo     // 0: all
	Kinds  []store.ChangeKind // empty: all
	LastID string             // of the last event that it saw; empty: from now on
}

// client is one connection.
type client struct {
	tenant store.TenantNo
	kinds  []store.ChangeKind
	cursor store.Cursor // what it has been sent; its own goroutine's, once it has joined
	joined chan joined  // holds one
	more   chan struct{}

	mu      sync.Mutex
	queue   []*batch
	bytes   int
	limit   int
	dropped bool
}

// joined is the tailer's answer to a client that asked to be taken in.
type joined struct {
	at  store.Cursor // it gets what comes after this
	err error
}

// push queues a batch. It returns false for a client that has not read the ones before.
func (c *client) push(b *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes > 0 && c.bytes+b.bytes > c.limit {
		c.dropped, c.queue = true, nil
	} else {
		c.queue, c.bytes = append(c.queue, b), c.bytes+b.bytes
	}
	select {
	case c.more <- struct{}{}:
	default:
	}
	return !c.dropped
}

// take returns what waits.
func (c *client) take() (batches []*batch, dropped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	batches, c.queue = c.queue, nil
	return batches, c.dropped
}

// wrote says that batches have been sent, so that there is room for more.
func (c *client) wrote(batches []*batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range batches {
		c.bytes -= b.bytes
	}
}

func (c *client) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes == 0 && !c.dropped
}

// Serve answers a request with the stream, until ctx ends, the client is too
// slow, or the stream is closed. An error is one that nothing was answered before.
func (s *Stream) Serve(ctx context.Context, w http.ResponseWriter, sub Subscription) error {
	c := &client{tenant: sub.Tenant, kinds: sub.Kinds, joined: make(chan joined, 1), more: make(chan struct{}, 1), limit: s.QueueBytes}
	if len(c.kinds) == 0 {
		c.kinds = []store.ChangeKind{store.ChangeAccepted, store.ChangeDelivered, store.ChangeDead, store.ChangeGate}
	}
	select {
	case <-s.closed:
		return errClosed
	default:
	}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	defer s.leave(c)
	resumed, reset, err := s.locate(ctx, c, sub.LastID)
	if err != nil {
		return err
	}
	out := &answer{w: w, control: http.NewResponseController(w), timeout: s.WriteTimeout}
	ping := time.NewTicker(s.PingEvery)
	defer ping.Stop()
	v := visit{stream: s, client: c, ctx: ctx, out: out, ping: ping}
	if resumed {
		out.begin()
		if !v.note("connected") || !v.catchUp(store.Cursor{}) {
			return nil
		}
	}
	start, err := v.join()
	if err != nil {
		if resumed {
			return nil // it comes back with what it has
		}
		return err
	}
	out.begin()
	switch {
	case resumed:
		if !v.catchUp(start) {
			return nil
		}
	case reset != "":
		if !out.send(resetFrame(start, s.Now(), reset)) {
			return nil
		}
	default:
		if !out.send(appendNote(nil, "connected", start, s.Now())) {
			return nil
		}
	}
	v.follow()
	return nil
}

// locate finds out where a client stands. reset says why events may be missing.
func (s *Stream) locate(ctx context.Context, c *client, lastID string) (resumed bool, reset string, err error) {
	if lastID == "" {
		return false, "", nil
	}
	cursor, at, err := parseID(lastID)
	if err != nil {
		return false, "unknown_id", nil //nolint:nilerr // the client is told by a reset
	}
	if s.Now().Sub(at) > store.ChangesKept {
		return false, "too_old", nil
	}
	head, err := s.Store.ChangesHead(ctx)
	if err != nil {
		return false, "", err
	}
	if !head.Covers(cursor) {
		return false, "unknown_id", nil // of another database, or of one that was restored
	}
	c.cursor = cursor
	return true, "", nil
}

// visit is one client on its way.
type visit struct {
	stream *Stream
	client *client
	ctx    context.Context //nolint:containedctx // of the request, whose life this is
	out    *answer
	ping   *time.Ticker
}

// catchUp sends what the client has missed up to an end, the present one where
// that is zero. It returns false when the visit is over.
func (v *visit) catchUp(until store.Cursor) bool {
	for {
		page, ok := v.missed(until)
		if !ok {
			return false
		}
		if page.Gap {
			return v.reset(until)
		}
		var buf []byte
		for i := range page.Changes {
			f, err := newFrame(&page.Changes[i])
			if err != nil {
				v.stream.Log.WarnContext(v.ctx, "stream: a client is sent away", "err", err)
				return false
			}
			buf = append(buf, f.bytes...)
		}
		if len(buf) > 0 && !v.out.send(buf) {
			return false
		}
		if v.client.cursor = page.Next; !page.More {
			return true
		}
	}
}

// reset tells the client that it may have missed changes, and goes on from a cursor, the
// present one where that is zero.
func (v *visit) reset(from store.Cursor) bool {
	if from.Next == 0 {
		head, err := v.stream.Store.ChangesHead(v.ctx)
		if err != nil {
			return false // it comes back with what it has
		}
		from = head
	}
	v.client.cursor = from
	return v.out.send(resetFrame(from, v.stream.Now(), resetGap))
}

// missed reads a page of what the client has missed, when it is its turn.
func (v *visit) missed(until store.Cursor) (page store.ChangePage, ok bool) {
	for {
		select {
		case v.stream.reading <- struct{}{}:
		case <-v.ping.C:
			if !v.note("ping") {
				return page, false
			}
			continue
		case <-v.ctx.Done():
			return page, false
		case <-v.stream.closed:
			return page, false
		}
		break
	}
	p := store.ReadChangesParams{After: v.client.cursor, Until: until, Kinds: v.client.kinds, Limit: pageRows}
	if v.client.tenant != 0 {
		p.Tenants = []store.TenantNo{v.client.tenant}
	}
	page, err := v.stream.Store.ReadChanges(v.ctx, p)
	<-v.stream.reading
	if err != nil {
		v.stream.Log.WarnContext(v.ctx, "stream: a client is sent away, since what it missed can't be read", "err", err)
		return page, false
	}
	return page, true
}

// note sends a sign of life without an id.
func (v *visit) note(text string) bool { return v.out.send([]byte(": " + text + "\n\n")) }

// join waits until the tailer has taken the client in.
func (v *visit) join() (store.Cursor, error) {
	v.stream.join(v.client)
	for {
		select {
		case j := <-v.client.joined:
			return j.at, j.err
		case <-v.ping.C:
			if v.out.begun && !v.note("ping") {
				return store.Cursor{}, errClosed
			}
		case <-v.ctx.Done():
			return store.Cursor{}, v.ctx.Err()
		case <-v.stream.closed:
			return store.Cursor{}, errClosed
		}
	}
}

// follow sends what the tailer brings.
func (v *visit) follow() {
	for {
		select {
		case <-v.client.more:
			batches, dropped := v.client.take()
			if dropped {
				v.note("too slow: connect again with the last id")
				return
			}
			if !v.write(batches) {
				return
			}
			v.client.wrote(batches)
		case <-v.ping.C:
			if !v.out.send(v.pinged()) {
				return
			}
		case <-v.ctx.Done():
			return
		case <-v.stream.closed:
			v.note("the server is stopping: connect again with the last id")
			return
		}
	}
}

// write sends batches, those of their changes that the client wants.
func (v *visit) write(batches []*batch) bool {
	var buf []byte
	for _, b := range batches {
		buf = append(buf, b.reset...)
		for _, f := range b.frames {
			if slices.Contains(v.client.kinds, f.kind) && (v.client.tenant == 0 || f.tenant == v.client.tenant) {
				buf = append(buf, f.bytes...)
			}
		}
	}
	return len(buf) == 0 || v.out.send(buf)
}

// pinged is a ping with the id of the present, if nothing waits for the client.
func (v *visit) pinged() []byte {
	v.stream.mu.Lock()
	defer v.stream.mu.Unlock()
	if !v.client.idle() {
		return []byte(": ping\n\n")
	}
	return appendNote(nil, "ping", v.stream.position, v.stream.readAt)
}

// answer is the response to one client.
type answer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	begun   bool
}

// begin sends the head, once.
func (a *answer) begin() {
	if a.begun {
		return
	}
	a.begun = true
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	a.w.WriteHeader(http.StatusOK)
}

// send sends bytes at once. It returns false when the client is gone, or has not read
// for too long.
func (a *answer) send(b []byte) bool {
	// Where the writer can't do it, the server's own limits hold.
	_ = a.control.SetWriteDeadline(time.Now().Add(a.timeout))
	if _, err := a.w.Write(b); err != nil {
		return false
	}
	if a.control.Flush() != nil {
		return false
	}
	_ = a.control.SetWriteDeadline(time.Time{})
	return true
}
