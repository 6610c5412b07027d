package deliver_test

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/posthaste-dev/posthaste"
)

// However many idle connections there are, a receiver that closes each connection at
// the request it does not like sees an attempt twice at most.
func TestAtMostTwoRequests(t *testing.T) {
	const idle = 20
	for name, c := range map[string]struct {
		refuse    func(net.Conn) // on a connection that carried a request before
		fresh     func(net.Conn) // on another one
		requests  int64
		sentTwice bool
		cause     posthaste.Cause
	}{
		"it closes every time":         {func(net.Conn) {}, func(net.Conn) {}, 2, true, posthaste.CauseBadResponse},
		"it resets every time":         {reset, reset, 2, true, posthaste.CauseBadResponse},
		"it closes old connections":    {func(net.Conn) {}, write(ok), 2, true, posthaste.CauseNone},
		"half an answer, then the end": {write("HTTP/1.1 2"), write(ok), 1, false, posthaste.CauseBadResponse},
		"it answers old connections":   {write(ok), write(ok), 1, false, posthaste.CauseNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var poison atomic.Bool
			var requests atomic.Int64
			var together sync.WaitGroup // so that each of the first requests has a connection of its own
			together.Add(idle)
			url, accepted := rawServer(t, func(conn net.Conn) {
				in := bufio.NewReader(conn)
				for n := 0; ; n++ {
					if _, err := readRequest(in); err != nil {
						return
					}
					if poison.Load() {
						requests.Add(1)
						if n == 0 {
							c.fresh(conn)
						} else {
							c.refuse(conn)
						}
						return
					}
					together.Done()
					together.Wait()
					write(ok)(conn)
				}
			})
			s, target := newSender(t, nil), newTarget(t, url, long, nil)
			var first sync.WaitGroup
			for range idle {
				first.Go(func() { delivered(t, s.Send(t.Context(), target, newMessage([]byte("x")))) })
			}
			first.Wait()
			poison.Store(true)
			r := s.Send(t.Context(), target, newMessage([]byte("poison")))
			if r.Cause != c.cause || r.SentTwice != c.sentTwice || requests.Load() != c.requests {
				t.Errorf("cause %q, sent twice: %t, %d requests: %s", r.Cause, r.SentTwice, requests.Load(), r.Error)
			}
			if want := idle + c.requests - 1; accepted.Load() != want {
				t.Errorf("%d connections, want %d: a second request needs a new one", accepted.Load(), want)
			}
			if s.Busy() != 0 {
				t.Errorf("%d attempts are counted after the last one", s.Busy())
			}
		})
	}
}

// A second request whose connection cannot be made was not sent.
func TestNotSentTwiceWithoutAConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		_, _ = readRequest(in)
		write(ok)(conn)
		_, _ = readRequest(in)
		listener.Close()
	}()
	s, target := newSender(t, nil), newTarget(t, "http://"+listener.Addr().String(), long, nil)
	delivered(t, s.Send(t.Context(), target, newMessage(nil)))
	r := s.Send(t.Context(), target, newMessage(nil))
	<-served
	if r.SentTwice || r.Cause != posthaste.CauseRefused {
		t.Errorf("cause %q, sent twice: %t: %s", r.Cause, r.SentTwice, r.Error)
	}
}

// Over TLS the same holds.
func TestAtMostTwoRequestsOverTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	certificate := server.TLS.Certificates
	defer server.Close()
	var requests atomic.Int64
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificate})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for first := true; ; first = false {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(conn)
			if first {
				if _, err := readRequest(in); err == nil {
					write(ok)(conn)
				}
			}
			if _, err := readRequest(in); err == nil {
				requests.Add(1)
			}
			conn.Close()
		}
	}()
	s := newSender(t, trust(server))
	target := newTarget(t, "https://"+listener.Addr().String(), long, nil)
	delivered(t, s.Send(t.Context(), target, newMessage(nil)))
	r := s.Send(t.Context(), target, newMessage(nil))
	if r.Cause != posthaste.CauseBadResponse || !r.SentTwice || requests.Load() != 2 {
		t.Errorf("cause %q, sent twice: %t, %d requests: %s", r.Cause, r.SentTwice, requests.Load(), r.Error)
	}
}
