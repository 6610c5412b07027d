package deliver_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
)

func trust(server *httptest.Server) func(*deliver.Config) {
	return func(c *deliver.Config) {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AddCert(server.Certificate())
	}
}

// afterRequest reads a request, then does as it is told.
func afterRequest(do func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := readRequest(bufio.NewReader(c)); err == nil {
			do(c)
		}
	}
}

func write(response string) func(net.Conn) {
	return func(c net.Conn) { io.WriteString(c, response) }
}

// untilClosed keeps a connection open until the other side closes it.
func untilClosed(c net.Conn) { io.Copy(io.Discard, c) }

func reset(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }

// trickle writes one byte each 5 ms until the other side has had enough.
func trickle(c net.Conn) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := c.Write([]byte("x")); err != nil {
			return
		}
	}
}

func endless(c net.Conn) {
	for chunk := bytes.Repeat([]byte("x"), 32<<10); ; {
		if _, err := c.Write(chunk); err != nil {
			return
		}
	}
}

// One row for each way in which a receiver fails once it has accepted.
func TestFailures(t *testing.T) {
	huge := strings.Repeat("X-Filler: "+strings.Repeat("y", 1000)+"\r\n", 100)
	for name, c := range map[string]struct {
		serve   func(net.Conn)
		timeout time.Duration
		status  int
		cause   posthaste.Cause
		words   string // in the error
	}{
		"silence before headers": {afterRequest(untilClosed), short, 0, posthaste.CauseHeaderTimeout, "wait for the response: not done within 400ms"},
		"silence in headers":     {afterRequest(func(c net.Conn) { write("HTTP/1.1 200 OK\r\nX-A: ")(c); untilClosed(c) }), short, 0, posthaste.CauseHeaderTimeout, ""},
		"silence in status line": {afterRequest(func(c net.Conn) { write("HTTP/1.1 20")(c); untilClosed(c) }), short, 0, posthaste.CauseHeaderTimeout, ""},
		"silence after 100":      {afterRequest(func(c net.Conn) { write("HTTP/1.1 100 Continue\r\n\r\n")(c); untilClosed(c) }), short, 0, posthaste.CauseHeaderTimeout, ""},
		"silence before trailer": {afterRequest(func(c net.Conn) {
			write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")(c)
			untilClosed(c)
		}), short, 200, posthaste.CauseBodyTimeout, ""},
		"headers trickle":          {afterRequest(func(c net.Conn) { write("HTTP/1.1 200 OK\r\nX-A: ")(c); trickle(c) }), short, 0, posthaste.CauseHeaderTimeout, ""},
		"endless 100s":             {afterRequest(func(c net.Conn) { write(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 50_000))(c); untilClosed(c) }), long, 0, posthaste.CauseTooLarge, ""},
		"silence in body":          {afterRequest(func(c net.Conn) { write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")(c); untilClosed(c) }), short, 200, posthaste.CauseBodyTimeout, "read the response body: not done within 400ms"},
		"body trickles":            {afterRequest(func(c net.Conn) { write("HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n")(c); trickle(c) }), short, 200, posthaste.CauseBodyTimeout, ""},
		"body trickles, no length": {afterRequest(func(c net.Conn) { write("HTTP/1.1 200 OK\r\n\r\n")(c); trickle(c) }), short, 200, posthaste.CauseBodyTimeout, ""},
		"huge headers":             {afterRequest(write("HTTP/1.1 200 OK\r\n" + huge + "\r\n")), long, 0, posthaste.CauseTooLarge, "65536"},
		"endless headers":          {afterRequest(func(c net.Conn) { write("HTTP/1.1 200 OK\r\nX-A: ")(c); endless(c) }), long, 0, posthaste.CauseTooLarge, ""},
		"huge body":                {afterRequest(func(c net.Conn) { write("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")(c); endless(c) }), long, 200, posthaste.CauseNone, ""},
		"huge body of an error":    {afterRequest(func(c net.Conn) { write("HTTP/1.1 500 No\r\nContent-Length: 99999999\r\n\r\n")(c); endless(c) }), long, 500, posthaste.CauseStatus, "the receiver answered 500"},
		"closes without answer":    {afterRequest(func(net.Conn) {}), long, 0, posthaste.CauseBadResponse, "wait for the response: the receiver closed the connection"},
		"resets without answer":    {afterRequest(reset), long, 0, posthaste.CauseBadResponse, "connection reset"},
		"closes mid-headers":       {afterRequest(write("HTTP/1.1 200 OK\r\nX-A")), long, 0, posthaste.CauseBadResponse, "malformed"},
		"closes mid-body":          {afterRequest(write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")), long, 200, posthaste.CauseBadResponse, "read the response body: the receiver closed the connection"},
		"closes mid-chunk":         {afterRequest(write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc")), long, 200, posthaste.CauseBadResponse, ""},
		"malformed chunk":          {afterRequest(write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n")), long, 200, posthaste.CauseBadResponse, ""},
		"not HTTP":                 {afterRequest(write("SSH-2.0-\xff\x00\x1b[2J\r\n\r\n")), long, 0, posthaste.CauseBadResponse, "malformed HTTP"},
		"malformed header":         {afterRequest(write("HTTP/1.1 200 OK\r\nno colon\r\n\r\n")), long, 0, posthaste.CauseBadResponse, ""},
		"two lengths":              {afterRequest(write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")), long, 0, posthaste.CauseBadResponse, ""},
		"101":                      {afterRequest(write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")), long, 101, posthaste.CauseBadResponse, "101"},
		"status 999":               {afterRequest(write("HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n")), long, 999, posthaste.CauseBadResponse, "999"},
		"status 000":               {afterRequest(write("HTTP/1.1 000 Odd\r\nContent-Length: 0\r\n\r\n")), long, 0, posthaste.CauseBadResponse, ""},
		"204":                      {afterRequest(write("HTTP/1.1 204 No Content\r\n\r\n")), long, 204, posthaste.CauseNone, ""},
		"100 then 200":             {afterRequest(write("HTTP/1.1 100 Continue\r\n\r\n" + ok)), long, 200, posthaste.CauseNone, ""},
		"HTTP/1.0 to the end":      {afterRequest(write("HTTP/1.0 200 OK\r\n\r\nabc")), long, 200, posthaste.CauseNone, ""},
		"503":                      {afterRequest(write("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")), long, 503, posthaste.CauseStatus, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, accepted := rawServer(t, c.serve)
			r := newSender(t, nil).Send(t.Context(), newTarget(t, url, c.timeout, nil), newMessage([]byte("x")))
			if r.StatusCode != c.status || r.Cause != c.cause || !strings.Contains(r.Error, c.words) {
				t.Errorf("status %d, cause %q, error %q", r.StatusCode, r.Cause, r.Error)
			}
			if (r.Error == "") != (c.cause == posthaste.CauseNone) || !utf8.ValidString(r.Error) || strings.ContainsAny(r.Error, "\x00\x1b\r\n") || len(r.Error) > 300 {
				t.Errorf("error %q", r.Error)
			}
			if c.timeout == short && (r.Timings.Total < short || r.Timings.Total > long/2) {
				t.Errorf("took %s with a deadline of %s", r.Timings.Total, short)
			}
			if accepted.Load() != 1 || len(r.Body) > posthaste.MaxResponseBodyBytes {
				t.Errorf("%d connections, %d bytes kept", accepted.Load(), len(r.Body))
			}
		})
	}
}

// The parts of the deadline add up: a receiver that uses a bit less than all of
// it at each step is cut all the same.
func TestOneDeadlineOverAllSteps(t *testing.T) {
	const timeout = 600 * time.Millisecond
	part := func() { <-time.After(timeout * 2 / 3) }
	url, _ := rawServer(t, afterRequest(func(c net.Conn) {
		part()
		write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")(c)
		part()
		write("abc")(c)
	}))
	r := newSender(t, nil).Send(t.Context(), newTarget(t, url, timeout, nil), newMessage(nil))
	if r.Cause != posthaste.CauseBodyTimeout || r.Timings.Total < timeout || r.Timings.FirstByte < timeout/2 {
		t.Errorf("cause %q (%s), %+v", r.Cause, r.Error, r.Timings)
	}
}

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r := newSender(t, nil).Send(t.Context(), newTarget(t, "http://"+l.Addr().String(), long, nil), newMessage(nil))
	if r.Cause != posthaste.CauseRefused || r.StatusCode != 0 || r.Error != "connect: connection refused" {
		t.Errorf("cause %q: %s", r.Cause, r.Error)
	}
}

// fullBacklog returns the address of a listener whose kernel drops our SYNs, as
// a firewall does.
func fullBacklog(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for full := false; !full; {
		c, err := net.DialTimeout("tcp", address, short)
		if full = err != nil; !full {
			t.Cleanup(func() { c.Close() })
		}
	}
	return address
}

// The dial must end with its attempt.
func TestConnectTimeout(t *testing.T) {
	before := goleak.IgnoreCurrent()
	r := newSender(t, nil).Send(t.Context(), newTarget(t, "http://"+fullBacklog(t), short, nil), newMessage(nil))
	if r.Cause != posthaste.CauseConnectTimeout || r.Timings.Total < short {
		t.Errorf("cause %q after %s: %s", r.Cause, r.Timings.Total, r.Error)
	}
	goleak.VerifyNone(t, before)
}

func TestWriteFailures(t *testing.T) {
	large := make([]byte, 32<<20) // more than the socket buffers of both sides
	stop := make(chan struct{})
	readsNothing, _ := rawServer(t, func(net.Conn) { <-stop })
	t.Cleanup(func() { close(stop) })
	r := newSender(t, nil).Send(t.Context(), newTarget(t, readsNothing, 2*short, nil), newMessage(large))
	if r.Cause != posthaste.CauseWrite || !strings.Contains(r.Error, "not done within 800ms") {
		t.Errorf("receiver that reads nothing: cause %q: %s", r.Cause, r.Error)
	}
	resets, _ := rawServer(t, func(c net.Conn) { io.ReadFull(c, make([]byte, 1000)); reset(c) })
	r = newSender(t, nil).Send(t.Context(), newTarget(t, resets, long, nil), newMessage(large))
	if r.Cause != posthaste.CauseWrite {
		t.Errorf("receiver that resets: cause %q: %s", r.Cause, r.Error)
	}
}

// A receiver may answer before it has read the body: the answer counts.
func TestEarlyAnswer(t *testing.T) {
	url, _ := rawServer(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		write("HTTP/1.1 413 Too large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")(c)
		untilClosed(c)
	})
	r := newSender(t, nil).Send(t.Context(), newTarget(t, url, long, nil), newMessage(make([]byte, 1<<20)))
	if r.StatusCode != 413 || r.Cause != posthaste.CauseStatus {
		t.Errorf("status %d, cause %q: %s", r.StatusCode, r.Cause, r.Error)
	}
}

func TestTLSFailures(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	otherName := func(c *deliver.Config) {
		trust(server)(c)
		c.Resolver = fakeDNS(t, func(string) dnsAnswer { return dnsAnswer{ip: [4]byte{127, 0, 0, 1}} })
	}
	silent, _ := rawServer(t, untilClosed)
	plain, _ := rawServer(t, answering("HTTP/1.1 400 Bad Request\r\n\r\n"))
	closes, _ := rawServer(t, func(c net.Conn) { c.Read(make([]byte, 1)) })
	for name, c := range map[string]struct {
		url     string
		timeout time.Duration
		change  func(*deliver.Config)
		words   string
	}{
		"unknown authority":  {server.URL, long, nil, "unknown authority"},
		"another host's":     {strings.Replace(server.URL, "127.0.0.1", "other.test", 1), long, otherName, "not other.test"},
		"never answers":      {strings.Replace(silent, "http:", "https:", 1), short, nil, "TLS handshake: not done within 400ms"},
		"speaks plain HTTP":  {strings.Replace(plain, "http:", "https:", 1), long, nil, ""},
		"closes immediately": {strings.Replace(closes, "http:", "https:", 1), long, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSender(t, c.change).Send(t.Context(), newTarget(t, c.url, c.timeout, nil), newMessage([]byte("x")))
			if r.Cause != posthaste.CauseTLS || r.StatusCode != 0 || !strings.Contains(r.Error, c.words) || r.Error == "" {
				t.Errorf("cause %q: %s", r.Cause, r.Error)
			}
		})
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var hits atomic.Int64
	inner, _ := rawServer(t, func(net.Conn) { hits.Add(1) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		url, _ := rawServer(t, answering(fmt.Sprintf("HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, inner)))
		r := newSender(t, nil).Send(t.Context(), newTarget(t, url, long, nil), newMessage([]byte("x")))
		if r.StatusCode != status || r.Cause != posthaste.CauseStatus {
			t.Errorf("status %d, cause %q", r.StatusCode, r.Cause)
		}
	}
	if hits.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestResponseIsKept(t *testing.T) {
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "X-%03d: %d\r\n", i, i)
	}
	body := strings.Repeat("\x00\xff\xfe", 10<<10)
	url, _ := rawServer(t, answering(fmt.Sprintf("HTTP/1.1 429 Slow\r\nRetry-After: 120\r\nSet-Cookie: sid=1\r\nSet-Cookie: b=2\r\n"+
		"Authorization: x\r\nWWW-Authenticate: Basic\r\nX-Auth-Token: x\r\nA-Raw: \xff\xe9\r\nContent-Length: %d\r\n%s\r\n%s", len(body), many.String(), body)))
	r := newSender(t, nil).Send(t.Context(), newTarget(t, url, long, nil), newMessage(nil))
	if r.StatusCode != 429 || r.RetryAfter != "120" || string(r.Body) != body[:posthaste.MaxResponseBodyBytes] {
		t.Errorf("status %d, Retry-After %q, %d bytes", r.StatusCode, r.RetryAfter, len(r.Body))
	}
	if len(r.Headers) != posthaste.MaxResponseHeaders {
		t.Fatalf("%d headers kept", len(r.Headers))
	}
	got := map[string]string{}
	for _, h := range r.Headers {
		got[h.Name] += h.Value + "|"
	}
	for name, want := range map[string]string{
		"Set-Cookie": "***|***|", "Authorization": "***|", "Www-Authenticate": "Basic|", "A-Raw": "\xff\xe9|", "X-000": "0|", "X-099": "",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

func TestCompressedResponseIsOnlyBytes(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	w.Write(make([]byte, 8<<20))
	w.Close()
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(bomb.Bytes())
	}))
	defer server.Close()
	s := newSender(t, nil)
	r := s.Send(t.Context(), newTarget(t, server.URL, long, nil), newMessage(nil))
	delivered(t, r)
	if accept := <-asked; accept != "" {
		t.Errorf("asked for %q", accept)
	}
	if want := bomb.Bytes()[:min(bomb.Len(), posthaste.MaxResponseBodyBytes)]; !bytes.Equal(r.Body, want) {
		t.Errorf("kept %d bytes, want the %d that came", len(r.Body), len(want))
	}
	s.Close()
}

func TestCallerEndsAttempt(t *testing.T) {
	arrived := make(chan struct{})
	url, _ := rawServer(t, afterRequest(func(c net.Conn) { close(arrived); untilClosed(c) }))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	r := newSender(t, nil).Send(ctx, newTarget(t, url, long, nil), newMessage(nil))
	if r.Cause != posthaste.CauseHeaderTimeout || r.Error != "wait for the response: cut off" {
		t.Errorf("cause %q: %s", r.Cause, r.Error)
	}
}
