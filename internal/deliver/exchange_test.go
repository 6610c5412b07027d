package deliver_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
)

const unasked = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"

// tlsServer is rawServer behind TLS, with the certificate of net/http's tests.
// Writes go out together when flush is called, so that a test can put several
// records into one packet.
func tlsServer(t *testing.T, serve func(c *tls.Conn, flush func())) (address string, accepted *atomic.Int64, trusted func(*deliver.Config)) {
	t.Helper()
	owner := httptest.NewTLSServer(nil)
	t.Cleanup(owner.Close)
	address, accepted = rawServer(t, func(c net.Conn) {
		corked := &corkedConn{Conn: c}
		secure := tls.Server(corked, &tls.Config{Certificates: owner.TLS.Certificates})
		if secure.Handshake() == nil {
			corked.isCorked = true
			serve(secure, corked.flush)
		}
	})
	return strings.Replace(address, "http:", "https:", 1), accepted, trust(owner)
}

type corkedConn struct {
	net.Conn
	isCorked bool
	held     []byte
}

func (c *corkedConn) Write(b []byte) (int, error) {
	if !c.isCorked {
		return c.Conn.Write(b)
	}
	c.held = append(c.held, b...)
	return len(b), nil
}

func (c *corkedConn) flush() {
	c.Conn.Write(c.held)
	c.held = nil
}

// A response that nobody asked for, as some servers send before they close an
// idle connection, is not the answer to the next request.
func TestUnaskedResponseIsNotTaken(t *testing.T) {
	answered, sent := make(chan struct{}, 1), make(chan struct{}, 1)
	url, accepted := rawServer(t, func(c net.Conn) {
		if _, err := readRequest(bufio.NewReader(c)); err != nil {
			return
		}
		io.WriteString(c, ok)
		<-answered
		io.WriteString(c, unasked)
		sent <- struct{}{}
		untilClosed(c)
	})
	s := newSender(t, nil)
	target := newTarget(t, url, long, nil)
	for range 3 {
		delivered(t, s.Send(t.Context(), target, newMessage([]byte("x"))))
		answered <- struct{}{}
		<-sent
	}
	if got := accepted.Load(); got != 3 {
		t.Errorf("%d connections, want 3", got)
	}
}

// With TLS, the response that nobody asked for may have been read already, in
// whole or in part, but not yet decrypted.
func TestUnaskedResponseInTLS(t *testing.T) {
	for name, cut := range map[string]int{"whole record": 0, "half a record": 20, "half a record's header": 3} {
		t.Run(name, func(t *testing.T) {
			url, accepted, trusted := tlsServer(t, func(c *tls.Conn, flush func()) {
				if _, err := readRequest(bufio.NewReader(c)); err != nil {
					return
				}
				corked := c.NetConn().(*corkedConn)
				io.WriteString(c, ok)
				first := len(corked.held)
				io.WriteString(c, unasked)
				if cut > 0 {
					corked.held = corked.held[:first+cut]
				}
				flush()
				untilClosed(c)
			})
			s := newSender(t, trusted)
			target := newTarget(t, url, long, nil)
			for range 3 {
				delivered(t, s.Send(t.Context(), target, newMessage([]byte("x"))))
			}
			if got := accepted.Load(); got != 3 {
				t.Errorf("%d connections, want 3", got)
			}
		})
	}
}

func TestTLSConnectionsAreReused(t *testing.T) {
	url, accepted, trusted := tlsServer(t, func(c *tls.Conn, flush func()) {
		for r := bufio.NewReader(c); ; flush() {
			if _, err := readRequest(r); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n")
			io.WriteString(c, strings.Repeat("x", 30_000)) // several records
		}
	})
	s := newSender(t, trusted)
	target := newTarget(t, url, long, nil)
	for _, size := range []int{0, 10, 1 << 20, 10} {
		delivered(t, s.Send(t.Context(), target, newMessage(make([]byte, size))))
	}
	if got := accepted.Load(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// A receiver that closes its connections without notice, between requests and
// just as one arrives, costs no attempt.
func TestServerThatClosesUnderLoad(t *testing.T) {
	var requests atomic.Int64
	url, accepted := rawServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for range 3 {
			if _, err := readRequest(r); err != nil {
				return
			}
			io.WriteString(c, ok)
			if requests.Add(1)%7 == 0 {
				reset(c)
				return
			}
		}
		if requests.Load()%2 == 0 {
			_, _ = readRequest(r) // and hangs up once it has come
		}
	})
	s := newSender(t, nil)
	target := newTarget(t, url, long, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 250 {
				if r := s.Send(context.Background(), target, newMessage([]byte("x"))); r.Cause != posthaste.CauseNone {
					t.Errorf("cause %q: %s", r.Cause, r.Error)
				}
			}
		})
	}
	wg.Wait()
	if got := accepted.Load(); got < 600 || got > 2000 {
		t.Errorf("%d connections for 2,000 attempts of at most 3 each", got)
	}
}

// Nobody dials while a connection is idle, so there are never more than senders.
func TestOneConnectionForEachSender(t *testing.T) {
	url, accepted := rawServer(t, answering(ok))
	s := newSender(t, nil)
	target := newTarget(t, url, long, nil)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 30 {
				if r := s.Send(context.Background(), target, newMessage([]byte("x"))); r.Cause != posthaste.CauseNone {
					t.Error(r.Error)
				}
			}
		})
	}
	wg.Wait()
	if got := accepted.Load(); got > 64 {
		t.Errorf("%d connections for 64 senders", got)
	}
}

func TestResponseToTheEndOfConnection(t *testing.T) {
	url, accepted := rawServer(t, afterRequest(write("HTTP/1.0 200 OK\r\n\r\nabc")))
	s := newSender(t, nil)
	target := newTarget(t, url, long, nil)
	for range 3 {
		r := s.Send(t.Context(), target, newMessage([]byte("x")))
		delivered(t, r)
		if string(r.Body) != "abc" {
			t.Errorf("body %q", r.Body)
		}
	}
	if got := accepted.Load(); got != 3 {
		t.Errorf("%d connections, want 3", got)
	}
}

// The caller's end cuts an attempt at once, wherever it stands. It comes when
// each of them has been at its step for long.
func TestCallerEndsAttemptAtEachStep(t *testing.T) {
	after := func(do func(net.Conn)) string {
		url, _ := rawServer(t, func(c net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				do(c)
				untilStopped(c)
			}
		})
		return url
	}
	nothing := after(func(net.Conn) {})
	handshake, _ := rawServer(t, untilClosed)
	for name, c := range map[string]struct {
		url   string
		size  int
		cause posthaste.Cause
		words string
	}{
		"dial":      {"http://" + fullBacklog(t), 1, posthaste.CauseConnectTimeout, "connect: cut off"},
		"handshake": {strings.Replace(handshake, "http:", "https:", 1), 1, posthaste.CauseTLS, "TLS handshake: cut off"},
		"write":     {nothing, 32 << 20, posthaste.CauseWrite, "write the request: cut off"},
		"wait":      {nothing, 1, posthaste.CauseHeaderTimeout, "wait for the response: cut off"},
		"headers":   {after(write("HTTP/1.1 200 OK\r\nX-A: ")), 1, posthaste.CauseHeaderTimeout, "wait for the response: cut off"},
		"body":      {after(write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")), 1, posthaste.CauseBodyTimeout, "read the response body: cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, target, m := newSender(t, nil), newTarget(t, c.url, long, nil), newMessage(make([]byte, c.size))
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(4*short, cancel) // what goes before must be over by then
			r := s.Send(ctx, target, m)
			if r.Cause != c.cause || r.Error != c.words || r.Timings.Total > long/2 {
				t.Errorf("cause %q: %s after %s", r.Cause, r.Error, r.Timings.Total)
			}
		})
	}
}

// untilStopped keeps a connection open and reads nothing of it.
func untilStopped(c net.Conn) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := c.Write(nil); err != nil {
			return
		}
	}
}

// A cut that comes just as the response does must not hit whoever uses the
// connection next.
func TestLateCutHitsNobodyElse(t *testing.T) {
	cuts := make(chan context.CancelFunc, 1)
	url, _ := rawServer(t, func(c net.Conn) {
		for r := bufio.NewReader(c); ; {
			if _, err := readRequest(r); err != nil {
				return
			}
			io.WriteString(c, ok)
			select {
			case cut := <-cuts:
				cut()
			default:
			}
		}
	})
	s := newSender(t, nil)
	target := newTarget(t, url, long, nil)
	var kept, cut int
	for i := range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		cuts <- func() {
			for began := time.Now(); time.Since(began) < time.Duration(i%64)*2*time.Microsecond; {
				runtime.Gosched() // sometimes a bit before the response is read, sometimes a bit after
			}
			cancel()
		}
		if r := s.Send(ctx, target, newMessage([]byte("x"))); r.Cause != posthaste.CauseNone {
			cut++
		}
		r := s.Send(t.Context(), target, newMessage([]byte("x")))
		delivered(t, r)
		if r.Timings.Connect == 0 {
			kept++
		}
		cancel()
	}
	if kept == 0 || kept == 2000 {
		t.Errorf("%d connections of 2,000 were used again, %d attempts cut, so nothing was tested", kept, cut)
	}
}

func TestCallerThatHasEnded(t *testing.T) {
	url, _ := rawServer(t, answering(ok))
	s := newSender(t, nil)
	target := newTarget(t, url, long, nil)
	delivered(t, s.Send(t.Context(), target, newMessage(nil)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if r := s.Send(ctx, target, newMessage(nil)); r.StatusCode == 0 && !strings.HasSuffix(r.Error, "cut off") {
			t.Errorf("cause %q: %s", r.Cause, r.Error)
		}
	}
}

// An attempt that had no time left takes at most one connection down with it.
func TestDeadlineThatHasPassed(t *testing.T) {
	url, accepted := rawServer(t, answering(ok))
	s := newSender(t, nil)
	target := newTarget(t, url, long, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { s.Send(context.Background(), target, newMessage(nil)) })
	}
	wg.Wait()
	before := accepted.Load()
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if r := s.Send(over, target, newMessage(nil)); r.StatusCode != 0 || r.Cause != posthaste.CauseWrite {
		t.Errorf("cause %q: %s", r.Cause, r.Error)
	}
	for range before - 1 {
		delivered(t, s.Send(t.Context(), target, newMessage(nil)))
	}
	if before > 1 && accepted.Load() != before {
		t.Errorf("%d connections before, %d after", before, accepted.Load())
	}
}

// A receiver that answers and then neither reads on nor hangs up, and one that
// writes so much that it can only go on when we read.
func TestAnswerWhileWriting(t *testing.T) {
	large := make([]byte, 32<<20)
	deaf, _ := rawServer(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			write("HTTP/1.1 413 Too large\r\nContent-Length: 0\r\n\r\n")(c)
			untilStopped(c)
		}
	})
	r := newSender(t, nil).Send(t.Context(), newTarget(t, deaf, long, nil), newMessage(large))
	if r.StatusCode != 413 || r.Timings.Total > long/2 {
		t.Errorf("status %d after %s: %s", r.StatusCode, r.Timings.Total, r.Error)
	}
	answersFirst, accepted := rawServer(t, func(c net.Conn) {
		for r := bufio.NewReader(c); ; {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")(c)
			io.Copy(io.Discard, request.Body)
		}
	})
	s := newSender(t, nil)
	for range 3 { // the rest is written before the connection is used again, or goes down with it
		delivered(t, s.Send(t.Context(), newTarget(t, answersFirst, long, nil), newMessage(large[:1<<20])))
	}
	if accepted.Load() > 3 {
		t.Errorf("%d connections", accepted.Load())
	}
}

// Nothing that a message or an endpoint is made of can end a line.
func TestNothingIsInjected(t *testing.T) {
	const evil = "a\r\nEvil: 1\r\n\r\nPOST /evil HTTP/1.1\r\n"
	received := make(chan []byte, 1)
	url, _ := rawServer(t, func(c net.Conn) {
		var buf bytes.Buffer
		if _, err := readRequest(bufio.NewReader(io.TeeReader(c, &buf))); err == nil {
			received <- buf.Bytes()
			io.WriteString(c, ok)
		}
	})
	m := newMessage([]byte("body"))
	m.Type, m.ContentType, m.ContentEncoding, m.Traceparent = evil, evil, evil, evil
	m.Headers = []posthaste.Header{{Name: evil, Value: "1"}, {Name: "X-A", Value: evil}, {Name: "X-B", Value: "1\nEvil: 1"}, {Name: "X-C\r", Value: "Evil"}, {Name: "X-D", Value: "\x00"}}
	for _, signed := range []posthaste.Signature{
		{Scheme: posthaste.SchemeStandard},
		{Scheme: posthaste.SchemeHex, Headers: posthaste.SignatureHeaders{ID: "X-1", DeliveryID: "X-2", Timestamp: "X-3", Event: "X-4", Signature: "X-5"}},
	} {
		s := newSender(t, func(c *deliver.Config) { c.UserAgent = evil })
		target := newTarget(t, url, long, func(d *posthaste.Definition) { d.Signature = signed })
		delivered(t, s.Send(t.Context(), target, m))
		if got := <-received; bytes.Contains(bytes.ToLower(got), []byte("evil")) || bytes.Contains(got, []byte("X-C")) || bytes.Contains(got, []byte("X-D")) {
			t.Errorf("arrived:\n%s", got)
		}
	}
	for _, raw := range []string{"/\r\nEvil: 1", "/ HTTP/1.1\nEvil:1", "/?a=\r\nb"} {
		d := posthaste.DefaultDefinition()
		d.URL = url + raw
		if target, err := deliver.NewTarget(d, []string{secretA}); err == nil {
			delivered(t, newSender(t, nil).Send(t.Context(), target, newMessage(nil)))
			if got := <-received; bytes.Contains(got, []byte("\nEvil")) {
				t.Errorf("arrived:\n%s", got)
			}
		}
	}
}

// The first two lines are what net/http would write.
func TestRequestLine(t *testing.T) {
	heads := make(chan string, 1)
	base, _ := rawServer(t, func(c net.Conn) {
		var head strings.Builder
		for r := bufio.NewReader(c); !strings.HasSuffix(head.String(), "\r\n\r\n"); {
			b, err := r.ReadByte()
			if err != nil {
				return
			}
			head.WriteByte(b)
		}
		heads <- head.String()
		io.WriteString(c, ok)
	})
	base = strings.TrimSuffix(base, "/hook")
	for _, path := range []string{"", "/", "?", "?a=b", "/a b", "/a%20b", "/%2f%2F", "//x//", "/ü?ü=ß", "/x?a=1&b=%00&c=+", "/x?a b", "/x#fragment", "/;a=b,c"} {
		var want bytes.Buffer
		request, err := http.NewRequest(http.MethodPost, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := request.Write(&want); err != nil {
			t.Fatal(err)
		}
		delivered(t, newSender(t, nil).Send(t.Context(), newTarget(t, base+path, long, nil), newMessage(nil)))
		two := func(s string) []string { return strings.SplitN(s, "\r\n", 3)[:2] }
		if got := <-heads; !slices.Equal(two(got), two(want.String())) {
			t.Errorf("%q: %q, want %q", path, two(got), two(want.String()))
		}
	}
}

// What is shown is what a receiver sees, whatever the values look like.
func TestShownIsSent(t *testing.T) {
	received := make(chan []string, 1)
	url, _ := rawServer(t, func(c net.Conn) {
		var buf bytes.Buffer
		if _, err := readRequest(bufio.NewReader(io.TeeReader(c, &buf))); err == nil {
			head, _, _ := strings.Cut(buf.String(), "\r\n\r\n")
			received <- strings.Split(head, "\r\n")
			io.WriteString(c, ok)
		}
	})
	forward := func(names ...string) (out []posthaste.Header) {
		for i := 0; i < len(names); i += 2 {
			out = append(out, posthaste.Header{Name: names[i], Value: names[i+1]})
		}
		return out
	}
	for name, c := range map[string]struct {
		own       map[string]string
		forwarded []posthaste.Header
		has, not  []string
	}{
		"spaces":            {map[string]string{"X-Own": "\t a b "}, forward("x-FWD", " c ", "X-Empty", ""), []string{"X-Own: a b", "X-Fwd: c", "X-Empty: "}, nil},
		"colons":            {map[string]string{"X-Own": "a: b"}, forward("X-Fwd", ": c:"), []string{"X-Own: a: b", "X-Fwd: : c:"}, nil},
		"no agent":          {nil, nil, []string{"User-Agent: Posthaste/test"}, nil},
		"own agent":         {map[string]string{"user-agent": "mine"}, forward("User-Agent", "theirs"), []string{"User-Agent: mine"}, []string{"User-Agent: theirs"}},
		"forwarded agents":  {nil, forward("User-Agent", "first", "user-agent", "second"), []string{"User-Agent: first"}, []string{"User-Agent: second"}},
		"empty agent":       {nil, forward("User-Agent", ""), nil, []string{"User-Agent: ", "User-Agent: Posthaste/test"}},
		"own above":         {map[string]string{"x-a": "own"}, forward("X-A", "fwd"), []string{"X-A: own"}, []string{"X-A: fwd"}},
		"own trace":         {map[string]string{"TraceParent": "own"}, forward("traceparent", "fwd"), []string{"Traceparent: own"}, []string{"Traceparent: fwd"}},
		"idempotency key":   {nil, forward("Idempotency-Key", "k"), []string{"Idempotency-Key: k"}, nil},
		"bytes above ASCII": {map[string]string{"X-Own": "\xff\xe9"}, nil, []string{"X-Own: \xff\xe9"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSender(t, func(c *deliver.Config) { c.Now = func() time.Time { return startAt } })
			target := newTarget(t, url, long, func(d *posthaste.Definition) { d.Headers = c.own })
			m := newMessage([]byte("x"))
			m.Headers = c.forwarded
			delivered(t, s.Send(t.Context(), target, m))
			got := <-received
			for _, line := range c.has {
				if !slices.Contains(got, line) {
					t.Errorf("%q is not among %q", line, got)
				}
			}
			for _, line := range c.not {
				if slices.Contains(got, line) {
					t.Errorf("%q is among %q", line, got)
				}
			}
			compareShown(t, s.RequestHeaders(target, m, startAt), got)
		})
	}
}
