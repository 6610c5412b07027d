// Package posthastetest is for the tests of programs that send webhooks with
// Posthaste: a [Receiver] is an endpoint that verifies what arrives, records it,
// and fails when it is told to.
//
//	receiver := posthastetest.NewReceiver(t, posthastetest.Config{})
//	// make an endpoint with receiver.URL and receiver.Secret, send an event, and then
//	arrived, err := receiver.Wait(t.Context(), 1)
//
// A receiver listens on 127.0.0.1, without TLS: the server under test has to allow
// that, with --allow-networks 127.0.0.0/8 --allow-http networks.
package posthastetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/signature"
)

// Config says how a receiver behaves. The zero value verifies signatures of the
// scheme standard with a secret of its own, and answers 200.
type Config struct {
	// Secrets verify signatures: one of them has to match. Default: a new one,
	// which is the receiver's Secret.
	Secrets []string

	// Signature says how requests are signed; it is the endpoint's own. Default: the
	// scheme standard.
	Signature posthaste.Signature

	// Answer decides how a request is answered that is next to none of the
	// receiver's [Receiver.Next]. It is called by several goroutines at once.
	// Default: 200.
	Answer func(Arrival) Answer
}

// Arrival is a request that arrived.
type Arrival struct {
	EventID    string // the header webhook-id, or the one that scheme hex names
	DeliveryID string
	Type       string // of the event
	Attempt    int    // 1, 2, 3 …; 0 if the request does not say
	At         time.Time
	URL        string // path and query
	Header     http.Header
	Body       []byte

	// Err is why the signature was refused; nil in what [Receiver.Arrived] returns.
	// Test for the errors of package signature with [errors.Is].
	Err error
}

// Receiver is an endpoint on this machine. Its methods are safe for concurrent use.
type Receiver struct {
	// URL is where it listens: http://127.0.0.1:port.
	URL string
	// Secret is the first of the secrets, for the endpoint to be made with.
	Secret string

	config Config
	verify func(http.Header, []byte, time.Time) error
	server *httptest.Server
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	arrived []Arrival
	refused []Arrival
	next    []Answer
	changed chan struct{} // closed and replaced with each arrival
}

// NewReceiver starts a receiver that is closed when the test ends. It ends the
// test if the config cannot be used.
func NewReceiver(tb testing.TB, config Config) *Receiver {
	tb.Helper()
	r, err := Start(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return r
}

// Start starts a receiver outside of a test. Close it.
func Start(config Config) (*Receiver, error) {
	if len(config.Secrets) == 0 {
		config.Secrets = []string{signature.NewSecret()}
	}
	verify, err := newVerifier(config)
	if err != nil {
		return nil, fmt.Errorf("start a receiver: %w", err)
	}
	r := &Receiver{
		Secret: config.Secrets[0], config: config, verify: verify,
		closed: make(chan struct{}), changed: make(chan struct{}),
	}
	r.server = httptest.NewServer(r)
	r.URL = r.server.URL
	return r, nil
}

func newVerifier(config Config) (func(http.Header, []byte, time.Time) error, error) {
	names := config.Signature.Headers
	switch config.Signature.Scheme {
	case "", posthaste.SchemeStandard:
		verifier, err := signature.NewStandard(config.Secrets...)
		if err != nil {
			return nil, err
		}
		return verifier.Verify, nil
	case posthaste.SchemeHex:
		if names.Timestamp == "" || names.Signature == "" {
			return nil, errors.New("scheme hex needs the names of the headers for timestamp and signature")
		}
		verifier, err := signature.NewHex(config.Secrets...)
		if err != nil {
			return nil, err
		}
		return func(h http.Header, body []byte, now time.Time) error {
			return verifier.Verify(signature.HexRequest{Timestamp: h.Get(names.Timestamp), Signature: h.Get(names.Signature), Body: body}, now)
		}, nil
	}
	return nil, fmt.Errorf("the signature scheme %q is not known", config.Signature.Scheme)
}

// Close ends the receiver: requests that hang or are delayed are cut off. It may
// be called again.
func (r *Receiver) Close() {
	r.once.Do(func() {
		close(r.closed)
		r.server.CloseClientConnections()
		r.server.Close()
	})
}

// Arrived returns the requests with a good signature so far, in the order in
// which they arrived, whatever they were answered.
func (r *Receiver) Arrived() []Arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.arrived)
}

// Refused returns the requests whose signature was bad.
func (r *Receiver) Refused() []Arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refused)
}

// patience is how long Wait waits if its context has no end.
const patience = 30 * time.Second

// Wait waits until n requests with a good signature have arrived, since the
// start, and returns all that have; or until ctx ends, and then its error says
// what has come instead. A ctx without a deadline is given 30 s.
func (r *Receiver) Wait(ctx context.Context, n int) ([]Arrival, error) {
	if _, hasEnd := ctx.Deadline(); !hasEnd {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	for {
		r.mu.Lock()
		arrived, refused, changed := slices.Clone(r.arrived), slices.Clone(r.refused), r.changed
		r.mu.Unlock()
		if len(arrived) >= n {
			return arrived, nil
		}
		select {
		case <-changed:
		case <-r.closed:
			return arrived, fmt.Errorf("wait for %d requests: the receiver was closed; %s", n, tally(arrived, refused))
		case <-ctx.Done():
			return arrived, fmt.Errorf("wait for %d requests: %w; %s", n, ctx.Err(), tally(arrived, refused))
		}
	}
}

// tally says what arrived, for one who waited for something else.
func tally(arrived, refused []Arrival) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d arrived", len(arrived))
	for _, a := range arrived {
		fmt.Fprintf(&b, "\n  %s %s, attempt %d", a.Type, a.EventID, a.Attempt)
	}
	if len(refused) > 0 {
		fmt.Fprintf(&b, "\n%d refused", len(refused))
	}
	for _, a := range refused {
		fmt.Fprintf(&b, "\n  %s %s, attempt %d: %v", a.Type, a.EventID, a.Attempt, a.Err)
	}
	return b.String()
}

// ServeHTTP implements http.Handler, for a receiver behind a mux of the test's own.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	a := r.read(req, body)
	// What is recorded is the receiver's own: neither the answer nor a test that
	// changes what it got can reach it.
	kept := a
	kept.Header, kept.Body = a.Header.Clone(), bytes.Clone(body)
	answer := r.record(kept)
	if a.Err != nil {
		http.Error(w, a.Err.Error(), http.StatusUnauthorized)
		return
	}
	if answer == nil {
		answer = &Answer{}
		if r.config.Answer != nil {
			*answer = r.config.Answer(a)
		}
	}
	r.answer(w, req, *answer)
}

// read finds in a request what is told of it.
func (r *Receiver) read(req *http.Request, body []byte) Arrival {
	names := r.config.Signature.Headers
	first := func(candidates ...string) string {
		for _, name := range candidates {
			if name != "" && req.Header.Get(name) != "" {
				return req.Header.Get(name)
			}
		}
		return ""
	}
	now := time.Now()
	attempt, _ := strconv.Atoi(req.Header.Get("posthaste-attempt")) // 0: it does not say
	return Arrival{
		EventID:    first(names.ID, signature.HeaderID),
		DeliveryID: first(names.DeliveryID, "posthaste-delivery-id"),
		Type:       first(names.Event, "posthaste-event-type"),
		Attempt:    attempt, At: now, URL: req.URL.RequestURI(), Header: req.Header, Body: body,
		Err: r.verify(req.Header, body, now),
	}
}

// record keeps an arrival and returns the answer that was set for it, if one was.
func (r *Receiver) record(a Arrival) *Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
	if a.Err != nil {
		r.refused = append(r.refused, a)
		return nil
	}
	r.arrived = append(r.arrived, a)
	if len(r.next) == 0 {
		return nil
	}
	answer := r.next[0]
	r.next = r.next[1:]
	return &answer
}
