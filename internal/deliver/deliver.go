// Package deliver makes one HTTP attempt: it signs a message, sends it to an
// address that may be spoken to, within one deadline, and reports what came of
// it. It knows nothing of storage, schedules or what the result means.
package deliver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Limits of what is read of a response, in bytes.
const (
	// maxHeaderBytes is more than any server's own limit for requests that we
	// know of, and still small beside the memory of 512 attempts.
	maxHeaderBytes = 64 << 10
	// maxDrainBytes is how much of a body is read so that the connection can be
	// used again. Beyond it a new connection is cheaper than the rest of the body.
	maxDrainBytes = 64 << 10
)

// Connections that wait for their next request. Receivers and load balancers
// commonly close an idle one after 60 s or later, so ours goes first: most
// requests that would meet a connection closed by the other side never do.
const (
	idleTimeout     = 60 * time.Second
	maxIdleConns    = 4096 // over all hosts; bounds file descriptors
	maxIdlePerHost  = 512
	keepAlivePeriod = 15 * time.Second
)

// Config is what a [Sender] needs to know. The zero value works: public
// addresses, HTTPS only.
type Config struct {
	// AllowNetworks are networks that may be sent to although they are not
	// public. Default: none.
	AllowNetworks []netip.Prefix

	// AllowHTTP says where plain http: is allowed. Default: nowhere.
	AllowHTTP PlainHTTP

	// UserAgent is sent where the endpoint's own headers hold none.
	// Default: "Posthaste".
	UserAgent string

	// RootCAs are the authorities that a receiver's certificate is checked
	// against. Default: the system's.
	RootCAs *x509.CertPool

	// Resolver looks up names. Default: Go's own, with /etc/hosts and
	// /etc/resolv.conf.
	Resolver *net.Resolver

	// MaxIdleConnsPerHost is how many idle connections are kept to one host and
	// port. Default: 512, as many as there are attempts at once by default.
	MaxIdleConnsPerHost int

	// Now gives the time that is signed and recorded. Durations are measured
	// with the monotonic clock all the same. Default: time.Now.
	Now func() time.Time
}

// Message is one event on its way to one endpoint.
type Message struct {
	EventID         posthaste.ID
	DeliveryID      posthaste.ID
	Number          int // of the attempt, from 1
	Type            string
	ContentType     string // "" sends none
	ContentEncoding string // "" sends none
	Traceparent     string // "" sends none
	Headers         []posthaste.Header
	Body            []byte // not changed, not kept after Send returns
}

// Result is what came of an attempt.
type Result struct {
	StatusCode int             // 0 if no response came
	Cause      posthaste.Cause // none for a 2xx that arrived whole
	Error      string          // in words, printable UTF-8 of 300 bytes at most; "" for a 2xx
	StartedAt  time.Time

	// Timings do not overlap: FirstByte counts from the moment the connection
	// was there to the first byte of the response.
	Timings posthaste.Timings

	// Headers are the first 64 by name, values as they came (any byte from 0x80
	// up may be in them), credentials masked. Body is the first 16 KiB as they
	// came, not decompressed.
	Headers []posthaste.Header
	Body    []byte

	RetryAfter string // the header's value, whatever the status
}

// Sender makes attempts. It keeps connections for later ones; [Sender.Close]
// lets go of them. Safe for concurrent use.
type Sender struct {
	guard     guard
	userAgent string
	now       func() time.Time

	// Two transports, because what may be dialled differs, and a dialer does not
	// learn which scheme it dials for.
	secure, plain *http.Transport
}

// New returns a sender.
func New(c Config) *Sender {
	s := &Sender{
		guard:     newGuard(c.AllowNetworks, c.AllowHTTP),
		userAgent: cmp.Or(c.UserAgent, "Posthaste"),
		now:       c.Now,
	}
	if s.now == nil {
		s.now = time.Now
	}
	resolver := c.Resolver
	if resolver == nil {
		resolver = &net.Resolver{PreferGo: true}
	}
	secure := dialer{
		net: net.Dialer{Resolver: resolver, KeepAlive: keepAlivePeriod, Control: s.guard.controlSecure},
		tls: &tls.Config{
			RootCAs: c.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(maxIdleConns),
		},
	}
	plain := dialer{net: net.Dialer{Resolver: resolver, KeepAlive: keepAlivePeriod, Control: s.guard.controlPlain}}
	s.secure, s.plain = newTransport(c), newTransport(c)
	s.secure.DialTLSContext = secure.dialTLS
	s.plain.DialContext = plain.dial
	return s
}

// newTransport leaves out what net/http would add: no proxy from the
// environment, which would dial for us past the guard; no HTTP/2, where one
// connection would carry all attempts to a host and stall them together; no
// decompression, so that a small response cannot become a large one.
func newTransport(c Config) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols:              protocols,
		DisableCompression:     true,
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    cmp.Or(c.MaxIdleConnsPerHost, maxIdlePerHost),
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// Close closes the idle connections. Attempts under way go on, and their
// connections are closed by the idle timeout.
func (s *Sender) Close() {
	s.secure.CloseIdleConnections()
	s.plain.CloseIdleConnections()
}

// Send makes one attempt and returns when it has ended, at the target's timeout
// at the latest. That one deadline holds over DNS, connect, TLS, writing, the
// response's headers and its body. Redirects are not followed.
//
// When ctx ends first, the result names the step that was under way, as for a
// timeout: the caller, who ended ctx, knows that it says nothing of the receiver.
//
// A request that meets a connection which the receiver has closed meanwhile is
// written again on another one, within the same attempt. The receiver may then
// see it twice, which at-least-once delivery allows; each such replay uses up a
// connection on which an earlier request was answered, so they cannot go on.
func (s *Sender) Send(ctx context.Context, t *Target, m *Message) Result {
	r := Result{StartedAt: s.now()}
	p, ctx, cancel := begin(ctx, t.timeout)
	defer cancel()
	transport := s.secure
	if t.plain {
		transport = s.plain
		if err := s.guard.checkHTTP(); err != nil {
			return p.failed(ctx, r, err)
		}
	}
	response, err := transport.RoundTrip(s.request(ctx, t, m, r.StartedAt))
	if err != nil {
		return p.failed(ctx, r, err)
	}
	p.enter(stepBody)
	r.StatusCode = response.StatusCode
	r.RetryAfter = response.Header.Get("Retry-After")
	r.Headers = keepHeaders(response.Header)
	r.Body, err = readBody(response.Body)
	response.Body.Close() // also from the middle of a body: it closes the connection then
	if err != nil {
		return p.failed(ctx, r, err)
	}
	return p.answered(r)
}

// request does not go through http.NewRequest, which would parse the URL again.
func (s *Sender) request(ctx context.Context, t *Target, m *Message, startedAt time.Time) *http.Request {
	r := http.Request{
		Method: http.MethodPost, URL: t.url, Host: t.url.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: s.header(t, m, startedAt), ContentLength: int64(len(m.Body)),
	}
	// net/http repeats a POST on another connection only if it can get the body
	// again and a header says that the request is idempotent. An empty list says
	// so without a header on the wire (documented at [http.Transport]).
	if _, has := r.Header[idempotencyKey]; !has {
		r.Header[idempotencyKey] = nil
	}
	if len(m.Body) > 0 {
		r.Body = newBody(m.Body)
		r.GetBody = func() (io.ReadCloser, error) { return newBody(m.Body), nil }
	}
	return r.WithContext(ctx)
}

const idempotencyKey = "Idempotency-Key"

// newBody returns one of the readers that net/http knows to be in memory. For
// any other it sends the headers in a packet of their own, in case the body
// takes its time.
func newBody(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }
