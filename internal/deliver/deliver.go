// Package deliver makes one HTTP attempt: it signs a message, sends it to an
// address that may be spoken to, within one deadline, and reports what came of
// it. It knows nothing of storage, schedules or what the result means.
package deliver

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
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
	maxIdleConns    = 4096 // over all hosts; fewer where the limit of open files is low
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
	// came, not decompressed. Where the two repeat the endpoint's own credentials, those
	// are masked as well.
	Headers []posthaste.Header
	Body    []byte

	RetryAfter string // the header's value, whatever the status

	// SentTwice reports that the request was written a second time, on a new
	// connection: the first connection, a reused one, broke before the response began.
	SentTwice bool

	// Shortage is what this server lacked, for [posthaste.CauseLocal].
	Shortage Shortage
}

// Sender makes attempts. It keeps connections for later ones; [Sender.Close]
// lets go of them. Safe for concurrent use.
type Sender struct {
	guard     guard
	userAgent string
	now       func() time.Time

	secure, plain dialer
	pool          *pool
	resolver      resolverCheck

	outOfDescriptors atomic.Int64 // Unix time in nanoseconds of the last such failure
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
	s.resolver.resolver = resolver
	if c.RootCAs == nil {
		// crypto/x509 reads the system's certificates once. If that failed later, for lack
		// of descriptors, every handshake after it would fail.
		_, _ = x509.SystemCertPool()
	}
	// No protocol but HTTP/1.1: with HTTP/2, one connection would carry all
	// attempts to a host and stall them together.
	s.secure = dialer{
		net: net.Dialer{Resolver: resolver, KeepAlive: keepAlivePeriod, Control: s.guard.controlSecure},
		tls: &tls.Config{
			RootCAs: c.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(maxIdleConns),
		},
	}
	s.plain = dialer{net: net.Dialer{Resolver: resolver, KeepAlive: keepAlivePeriod, Control: s.guard.controlPlain}}
	s.pool = newPool(cmp.Or(c.MaxIdleConnsPerHost, maxIdlePerHost), descriptorsFor(openFileLimit()))
	return s
}

// Close closes the idle connections. Attempts under way go on, and close theirs.
// An attempt that begins later opens the sender again.
func (s *Sender) Close() {
	s.pool.close()
}

// Send makes one attempt and returns when it has ended, at the target's timeout
// at the latest. That one deadline holds over DNS, connect, TLS, writing, the
// response's headers and its body. Redirects are not followed.
//
// When ctx ends first, the result names the step that was under way, as for a
// timeout: the caller, who ended ctx, knows that it says nothing of the receiver.
//
// An attempt writes its request at most twice. It does so where a reused connection
// breaks before the first byte of a response, as when the receiver has closed an
// idle connection. The second request goes over a new connection. The receiver may
// see both, and Result.SentTwice tells.
//
// A failed lookup may take up to two seconds more, to tell whose fault it is.
func (s *Sender) Send(ctx context.Context, t *Target, m *Message) Result {
	r := s.send(ctx, t, m)
	t.mask(&r)
	return r
}

func (s *Sender) send(ctx context.Context, t *Target, m *Message) Result {
	r := Result{StartedAt: s.now()}
	w := workspaces.Get().(*workspace)
	defer w.free()
	w.progress = begin(ctx, t.timeout)
	p := &w.progress
	if t.to.plain {
		if err := s.guard.checkHTTP(); err != nil {
			return s.failed(ctx, p, r, err)
		}
	}
	w.request, w.body = s.appendRequest(w.request[:0], t, m, r.StartedAt), m.Body
	c, err := s.connect(ctx, t.to, p)
	if err != nil {
		return s.failed(ctx, p, r, err)
	}
	err = s.exchange(ctx, c, w, &r)
	if err != nil && c.isReused && !w.hasAnswer && ctx.Err() == nil && !isTimeout(err) && shortageOf(err) == "" {
		if c, err = s.dial(ctx, t.to, p); err == nil {
			r.SentTwice = true
			err = s.exchange(ctx, c, w, &r)
		}
	}
	if err != nil {
		return s.failed(ctx, p, r, err)
	}
	r = p.answered(r)
	if w.isReusable {
		s.pool.give(c, p.began.Add(r.Timings.Total))
	}
	return r
}

// exchange is that of the connection, which it drops unless it can be used again.
func (s *Sender) exchange(ctx context.Context, c *conn, w *workspace, r *Result) error {
	err := c.exchange(ctx, &w.progress, w, r)
	if !w.isReusable {
		s.pool.drop(c)
	}
	return err
}

// connect returns a connection with the attempt's deadline on it: one that is
// there and well, or a new one.
func (s *Sender) connect(ctx context.Context, to destination, p *progress) (*conn, error) {
	for c := s.pool.take(to); c != nil; c = s.pool.take(to) {
		if c.SetDeadline(p.deadline) == nil && c.isSilent() {
			return c, nil
		}
		s.pool.drop(c)
	}
	return s.dial(ctx, to, p)
}

// dial returns a new connection with the attempt's deadline on it.
func (s *Sender) dial(ctx context.Context, to destination, p *progress) (*conn, error) {
	d := &s.secure
	if to.plain {
		d = &s.plain
	}
	s.pool.reserve()
	c, err := d.dial(ctx, to.address, p)
	if err != nil {
		s.pool.release()
		return nil, err
	}
	s.pool.add(to, c)
	if err := c.SetDeadline(p.deadline); err != nil {
		s.pool.drop(c)
		return nil, fmt.Errorf("set the deadline: %w", err)
	}
	return c, nil
}
