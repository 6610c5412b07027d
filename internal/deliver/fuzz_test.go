package deliver_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/posthaste-dev/posthaste"
)

// scriptedConn answers with the same bytes whatever is asked, once or for ever,
// a few at a time.
type scriptedConn struct {
	net.Conn // nil: nothing else is called
	script   []byte
	isLoop   bool
	step     int
	given    int
}

func (c *scriptedConn) Read(b []byte) (int, error) {
	if len(c.script) == 0 || !c.isLoop && c.given >= len(c.script) {
		return 0, io.EOF
	}
	at := c.given % len(c.script)
	n := copy(b[:min(len(b), c.step)], c.script[at:])
	c.given += n
	return n, nil
}

func (c *scriptedConn) Write(b []byte) (int, error)      { return len(b), nil }
func (c *scriptedConn) Close() error                     { return nil }
func (c *scriptedConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptedConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptedConn) SetWriteDeadline(time.Time) error { return nil }

// Whatever a receiver sends: no panic, an end, and nothing beyond the limits.
func FuzzResponse(f *testing.F) {
	for _, response := range []string{
		"", ok, unasked + ok, "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nabc", "HTTP/1.1 200 OK\r\nX-A: ",
		"HTTP/1.1 100 Continue\r\n\r\n" + ok, "HTTP/1.1 101 X\r\n\r\n", "HTTP/1.1 000 X\r\n\r\n", "SSH-2.0-\xff\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n3\r\nabc\r\n0\r\nA: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc", "1;" + strings.Repeat("x", 100) + "\r\na\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 200) + "\r\n", "\r\n\r\n\r\n", "HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nA\xff: \x00\r\n\r\n",
	} {
		f.Add([]byte(response), false, uint16(4096))
		f.Add([]byte(response), true, uint16(7))
	}
	s, target, message := newSender(f, nil), newTarget(f, "http://127.0.0.1:1/", long, nil), newMessage([]byte("x"))
	f.Fuzz(func(t *testing.T, script []byte, isLoop bool, step uint16) {
		c := &scriptedConn{script: script, isLoop: isLoop, step: int(step) + 1}
		r, isReusable := s.Exchange(target, message, c)
		// Chunks of one byte may cost 18 more before net/http gives up.
		if c.given > 64<<10+20*(64<<10) {
			t.Errorf("%d bytes were read", c.given)
		}
		if len(r.Body) > posthaste.MaxResponseBodyBytes || len(r.Headers) > posthaste.MaxResponseHeaders || len(r.Error) > 300 || !utf8.ValidString(r.Error) {
			t.Errorf("%d bytes of body, %d headers, error %q", len(r.Body), len(r.Headers), r.Error)
		}
		if (r.Error == "") != (r.Cause == posthaste.CauseNone) || r.Cause == posthaste.CauseNone && r.StatusCode/100 != 2 {
			t.Errorf("status %d, cause %q, error %q", r.StatusCode, r.Cause, r.Error)
		}
		if isReusable && (r.StatusCode < 200 || c.given < len("HTTP/1.1 200\r\n\r\n")) {
			t.Errorf("another request would follow status %d (%s)", r.StatusCode, r.Error)
		}
	})
}
