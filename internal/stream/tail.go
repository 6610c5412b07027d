package stream

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// join asks the tailer to take a client in, and starts it if it isn't running.
// The client is told on c.joined where it stands.
func (s *Stream) join(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joining = append(s.joining, c)
	if !s.running && !s.over {
		s.running = true
		s.tailing.Go(s.tail)
	}
	s.Wake()
}

// leave takes a client out.
func (s *Stream) leave(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.joining, c); i >= 0 {
		s.joining = slices.Delete(s.joining, i, i+1)
	}
	s.remove(c)
}

// remove is leave for a client that has joined, under the lock.
func (s *Stream) remove(c *client) {
	peers := s.clients[c.tenant]
	if _, ok := peers[c]; !ok {
		return
	}
	delete(peers, c)
	if len(peers) == 0 {
		delete(s.clients, c.tenant)
	}
	for _, k := range c.kinds {
		s.kinds[k]--
	}
}

// tail reads the changes while there are clients.
func (s *Stream) tail() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // a read under way ends with the stream
		select {
		case <-s.closed:
			cancel()
		case <-stop:
		}
	}()
	at, ok := s.start(ctx)
	for ok {
		wait := s.read(ctx, &at)
		ok = s.rest(ctx, wait)
	}
}

// start finds out where the changes end, as soon as the database answers.
func (s *Stream) start(ctx context.Context) (store.Cursor, bool) {
	for {
		head, err := s.Store.ChangesHead(ctx)
		if err == nil {
			return head, true
		}
		s.Log.WarnContext(ctx, "stream: the database does not answer; trying again", "err", err)
		s.refuseJoining()
		if !s.rest(ctx, retryEvery) {
			return head, false
		}
	}
}

// read reads a page, hands it out, and returns how long to wait for more.
func (s *Stream) read(ctx context.Context, at *store.Cursor) time.Duration {
	tenants, kinds := s.wanted()
	now := s.Now()
	page, err := s.Store.ReadChanges(ctx, store.ReadChangesParams{After: *at, Tenants: tenants, Kinds: kinds, Limit: pageRows})
	if err == nil && page.Gap {
		return s.resetAll(ctx, at)
	}
	if err == nil {
		err = s.handOut(page, now)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.Log.WarnContext(ctx, "stream: changes can't be read; trying again", "err", err)
			s.refuseJoining()
		}
		return retryEvery
	}
	*at = page.Next
	if page.More {
		return 0
	}
	return pollEvery
}

// resetAll tells every client that it may have missed changes, and goes on from the present.
func (s *Stream) resetAll(ctx context.Context, at *store.Cursor) time.Duration {
	head, err := s.Store.ChangesHead(ctx)
	if err != nil {
		return retryEvery
	}
	s.Log.WarnContext(ctx, "stream: changes are missing, since the table was emptied or the database went back; clients are told")
	*at = head
	frame := resetFrame(head, s.Now(), resetGap)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, peers := range s.clients {
		for c := range peers {
			if !c.push(&batch{reset: frame, bytes: len(frame)}) {
				s.remove(c)
			}
		}
	}
	s.position, s.readAt = head, s.Now()
	return 0
}

// resetGap is the reason of a reset where the table of changes does not have what
// a client has not seen.
const resetGap = "changes_missing"

// resetFrame is the event that tells a client that it may have missed changes before the cursor.
func resetFrame(at store.Cursor, now time.Time, reason string) []byte {
	return appendEvent(nil, printID(at, now), "stream.reset", []byte(`{"reason":"`+reason+`"}`))
}

// wanted is what the clients that have joined want to see, together. nil: everything.
func (s *Stream) wanted() (tenants []store.TenantNo, kinds []store.ChangeKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[0] == nil {
		tenants = slices.AppendSeq(make([]store.TenantNo, 0, len(s.clients)), maps.Keys(s.clients))
	}
	kinds = []store.ChangeKind{}
	for k, n := range s.kinds {
		if n > 0 {
			kinds = append(kinds, store.ChangeKind(k))
		}
	}
	return tenants, kinds
}

// handOut gives a page to those whom it concerns, and then takes in the clients that
// wait for that and have seen nothing that the page's end hasn't.
func (s *Stream) handOut(page store.ChangePage, readAt time.Time) error {
	batches := map[store.TenantNo]*batch{0: {}}
	for i := range page.Changes {
		f, err := newFrame(&page.Changes[i])
		if err != nil {
			return err
		}
		if batches[f.tenant] == nil {
			batches[f.tenant] = &batch{}
		}
		batches[f.tenant].add(f)
		batches[0].add(f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for tenant, b := range batches {
		if len(b.frames) == 0 {
			continue
		}
		for c := range s.clients[tenant] {
			if !c.push(b) {
				s.remove(c) // too slow; its goroutine sees it
			}
		}
	}
	s.position, s.readAt = page.Next, readAt
	s.joining = slices.DeleteFunc(s.joining, func(c *client) bool {
		if !page.Next.Covers(c.cursor) {
			return false
		}
		if s.clients[c.tenant] == nil {
			s.clients[c.tenant] = map[*client]struct{}{}
		}
		s.clients[c.tenant][c] = struct{}{}
		for _, k := range c.kinds {
			s.kinds[k]++
		}
		c.joined <- joined{at: page.Next}
		return true
	})
	return nil
}

// refuseJoining answers clients that would wait for a database that is away.
// Those that have joined keep waiting: they are told nothing false.
func (s *Stream) refuseJoining() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.joining {
		c.joined <- joined{err: errAway}
	}
	s.joining = nil
}

// rest waits for a commit of this replica, or that long. It returns false when
// the tailer has to end: the stream is closed, or has no client.
func (s *Stream) rest(ctx context.Context, wait time.Duration) bool {
	if wait > 0 {
		began := time.Now()
		timer := time.NewTimer(wait)
		select {
		case <-s.wake:
			timer.Reset(max(0, readGap-time.Since(began)))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil || len(s.clients)+len(s.joining) == 0 {
		s.running = false
		return false
	}
	return true
}
