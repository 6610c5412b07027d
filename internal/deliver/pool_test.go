package deliver_test

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-dev/posthaste/internal/deliver"
)

// madeUp is a connection that knows whether it was closed.
type madeUp struct {
	net.Conn
	isClosed bool
}

func (m *madeUp) Close() error { m.isClosed = true; return nil }

func countClosed(conns []*madeUp) (n int) {
	for _, c := range conns {
		if c.isClosed {
			n++
		}
	}
	return n
}

func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := deliver.NewIdle(512)
		defer idle.Close()
		var conns []*madeUp
		for i := range 10 { // one each 10 s, on two hosts
			c := new(madeUp)
			conns = append(conns, c)
			idle.Add(fmt.Sprintf("host%d:80", i%2), c)
			<-time.After(10 * time.Second)
		}
		synctest.Wait()
		// At 100 s, those of 0 to 40 s are over.
		if got := countClosed(conns); got != 5 {
			t.Errorf("%d closed after 100 s, want 5", got)
		}
		if c := idle.Take("host1:80"); c != conns[9] {
			t.Errorf("took %v, want the newest", c)
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if got := countClosed(conns); got != 9 || conns[9].isClosed {
			t.Errorf("%d closed in the end, want all but the one in use", got)
		}
		if got := idle.Hosts(); got != 1 {
			t.Errorf("%d hosts remembered, want that of the connection in use", got)
		}
	})
}

func TestIdleLimits(t *testing.T) {
	idle := deliver.NewIdle(3)
	var conns []*madeUp
	add := func(address string) *madeUp {
		c := new(madeUp)
		conns = append(conns, c)
		idle.Add(address, c)
		return c
	}
	first := add("first:80")
	for range 5 {
		add("a:80")
	}
	if got := countClosed(conns); got != 2 {
		t.Errorf("%d of 5 closed with a limit of 3 for a host", got)
	}
	for i := 4; i < deliver.MaxIdle; i++ {
		add(fmt.Sprintf("host%d:80", i))
	}
	if got := countClosed(conns); got != 2 {
		t.Errorf("%d closed at the limit over all hosts", got)
	}
	add("last:80")
	if got := countClosed(conns); got != 3 || !first.isClosed {
		t.Errorf("%d closed beyond the limit, the oldest: %t", got, first.isClosed)
	}
	idle.Close()
	if got := countClosed(conns); got != len(conns) {
		t.Errorf("%d of %d closed in the end", got, len(conns))
	}
	late := add("late:80") // its attempt was under way when the pool was closed
	if !late.isClosed {
		t.Error("a connection was kept that came back after Close")
	}
	if got := idle.Hosts(); got != 0 {
		t.Errorf("%d hosts remembered", got)
	}
	if idle.Take("a:80") != nil {
		t.Error("a closed connection was handed out")
	}
	if c := add("again:80"); c.isClosed || idle.Take("again:80") != c {
		t.Error("the pool does not open again")
	}
	idle.Close()
}

func TestCloseClosesIdleConnections(t *testing.T) {
	closed := make(chan struct{})
	url, _ := rawServer(t, func(c net.Conn) {
		answering(ok)(c)
		close(closed)
	})
	s := newSender(t, nil)
	delivered(t, s.Send(t.Context(), newTarget(t, url, long, nil), newMessage(nil)))
	s.Close()
	select {
	case <-closed:
	case <-time.After(long):
		t.Error("the receiver still waits for requests")
	}
}
