// Package httpapi is the HTTP API: it reads requests, checks them, asks the
// pipeline or the store, and answers. It holds no state and no rule of its own
// about events; what it adds is that every mistake in a request is answered at
// once, with its field and a hint, and that nothing in a request is silently ignored.
//
// routes.go has every route on one screen, problem.go maps errors to answers, and
// a file per noun has its handlers.
package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/auth"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/stream"
	"github.com/posthaste-dev/posthaste/internal/telemetry"
)

// Config is what the API is made of. Pipeline and Auth are required.
type Config struct {
	Pipeline *pipeline.Pipeline
	Auth     *auth.Auth

	// Ready says whether everything works here. Default: the pipeline's word.
	Ready func() error

	// Metrics are served at /metrics, and the API registers its own with them.
	// Default: the pipeline's.
	Metrics *telemetry.Metrics
	// MetricsPublic serves /metrics without a key. Default: an admin key is needed.
	MetricsPublic bool

	// Stream is the live stream. Default: one on the pipeline's store, which only looks
	// for changes now and then.
	Stream *stream.Stream

	// Log takes a line for each request at level debug, and one at warn or error
	// for each that is answered with 5xx. Default: nowhere.
	Log *slog.Logger

	// Version is the program's, shown at / and in the OpenAPI document.
	Version string

	// MaxPayloadBytes bounds an event's payload. Default: 1 MiB.
	MaxPayloadBytes int
	// BodyTimeout is how long the body of a request may take to arrive. Default: 30s.
	BodyTimeout time.Duration

	// AllowNetworks, AllowHTTP and Retention are what an endpoint's definition is
	// judged by; see posthaste.DefinitionRules. Default: https to public
	// addresses only, and the pipeline's default retention, 720h.
	AllowNetworks []netip.Prefix
	AllowHTTP     deliver.PlainHTTP
	Retention     time.Duration
}

// api holds what the handlers share.
type api struct {
	Config
	store   store.Store
	rules   posthaste.DefinitionRules
	mux     *http.ServeMux
	spec    []byte // the OpenAPI document
	seconds *requestSeconds
}

// New returns the handler for everything that the API serves. Limits on the size
// of headers and the time that they may take are the server's.
func New(cfg Config) (http.Handler, error) {
	if cfg.Pipeline == nil || cfg.Auth == nil {
		return nil, errors.New("make the API: Pipeline and Auth are required")
	}
	if cfg.Metrics == nil {
		cfg.Metrics = cfg.Pipeline.Metrics()
	}
	if cfg.Ready == nil {
		cfg.Ready = cfg.Pipeline.Ready
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Stream == nil {
		cfg.Stream = stream.New(stream.Config{Store: cfg.Pipeline.Store(), Log: cfg.Log})
	}
	if cfg.MaxPayloadBytes <= 0 {
		cfg.MaxPayloadBytes = 1 << 20
	}
	if cfg.BodyTimeout <= 0 {
		cfg.BodyTimeout = 30 * time.Second
	}
	if cfg.Retention <= 0 {
		cfg.Retention = 720 * time.Hour
	}
	seconds, err := newRequestSeconds(cfg.Metrics.Registry)
	if err != nil {
		return nil, fmt.Errorf("make the API: %w", err)
	}
	a := &api{Config: cfg, store: cfg.Pipeline.Store(), seconds: seconds, rules: rulesOf(cfg)}
	routes := a.routes()
	if a.spec, err = a.describe(routes); err != nil {
		return nil, fmt.Errorf("make the API: %w", err)
	}
	a.mux = a.newMux(routes)
	return a, nil
}

func rulesOf(cfg Config) posthaste.DefinitionRules {
	rules := posthaste.DefinitionRules{AllowNetworks: cfg.AllowNetworks, Retention: cfg.Retention}
	switch cfg.AllowHTTP {
	case deliver.HTTPNetworks:
		rules.AllowHTTP = posthaste.HTTPInNetworks
	case deliver.HTTPEverywhere:
		rules.AllowHTTP = posthaste.HTTPEverywhere
	case deliver.HTTPNowhere:
	}
	return rules
}

// call is one request on its way. It stands in as the ResponseWriter, so that
// the status is known afterwards, at the cost of no further allocation.
type call struct {
	http.ResponseWriter
	r         *http.Request
	began     time.Time
	id        string    // of the request
	always    [2]string // the values of the headers that every answer has, which need no memory of their own
	route     *served   // nil where none matched
	principal auth.Principal
	tenant    store.TenantRow
	status    int // 0: nothing answered yet
	failure   error
	endless   bool // the answer goes on while the client stays: its time says nothing
	detached  bool // the body was not read to its end: the connection cannot be used again
}

// WriteHeader notes the status.
func (c *call) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write notes that something was answered.
func (c *call) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

const headerRequestID = "Posthaste-Request-Id"

// ServeHTTP gives the request its id, and answers, logs and counts it.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{ResponseWriter: w, r: r, began: time.Now(), id: newRequestID()}
	c.always = [...]string{c.id, "nosniff"}
	h := w.Header()
	h[headerRequestID], h["X-Content-Type-Options"] = c.always[0:1:1], c.always[1:2:2]
	defer a.finish(c)
	if r.ContentLength != 0 {
		// For every request, whatever becomes of it: net/http reads on in a body that the
		// handler left, and without a deadline anybody could hold a connection for ever.
		c.setReadDeadline(c.began.Add(a.BodyTimeout))
	}
	a.mux.ServeHTTP(c, r)
}

// newRequestID needs to be unique among the requests of a log, no more.
func newRequestID() string {
	const zeros = "0000000000000000"
	var buf [20]byte
	digits := strconv.AppendUint(buf[:0], rand.Uint64(), 16) //nolint:gosec // a name, not a secret
	return "req_" + zeros[len(digits):] + string(digits)
}

// finish runs when a request has been answered or has panicked.
func (a *api) finish(c *call) {
	if p := recover(); p != nil {
		if err, isErr := p.(error); isErr && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		a.Log.ErrorContext(c.r.Context(), "a request panicked", "request_id", c.id, "panic", p, "stack", string(debug.Stack()))
		if c.status != 0 {
			panic(http.ErrAbortHandler) // a half answer must not look whole
		}
		c.refuse(fmt.Errorf("panic: %v", p))
	}
	took := time.Since(c.began)
	if !c.endless {
		a.seconds.observe(c.route, c.status, took)
	}
	level := slog.LevelDebug
	switch {
	case c.status == http.StatusServiceUnavailable:
		level = slog.LevelWarn
	case c.status >= http.StatusInternalServerError:
		level = slog.LevelError
	}
	if !a.Log.Enabled(c.r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", c.id), slog.String("method", c.r.Method), slog.String("path", c.r.URL.Path),
		slog.Int("status", c.status), slog.Duration("took", took), slog.String("remote", c.r.RemoteAddr),
	}
	if c.principal.Name != "" {
		attrs = append(attrs, slog.String("key", c.principal.Name), slog.String("tenant", c.tenant.Name))
	}
	if c.failure != nil {
		attrs = append(attrs, slog.Any("err", c.failure))
	}
	a.Log.LogAttrs(c.r.Context(), level, "request answered", attrs...)
}

// write answers with JSON. An error while writing is the client's going away.
func (c *call) write(status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Errorf("write the answer: %w", err)) // our own types: a bug
	}
	h := c.Header()
	if h.Get("Content-Type") == "" {
		h["Content-Type"] = []string{"application/json"}
	}
	if c.detached {
		h.Set("Connection", "close")
	}
	c.WriteHeader(status)
	_, _ = c.Write(append(raw, '\n'))
}

// readBody returns the body, read exactly once into a buffer of its size.
// CodeTooLarge above the limit, CodeUnreadable where it does not arrive.
func (a *api) readBody(c *call, maxBytes int) ([]byte, error) {
	length := c.r.ContentLength
	switch {
	case length == 0:
		return []byte{}, nil
	case length > int64(maxBytes):
		c.detached = true
		return nil, tooLarge(maxBytes)
	}
	body, err := readAll(c.r.Body, length, maxBytes)
	if err != nil {
		c.detached = true
		if posthaste.CodeOf(err) == posthaste.CodeTooLarge {
			return nil, err
		}
		return nil, &posthaste.Error{
			Code: posthaste.CodeUnreadable, Message: "the body did not arrive whole",
			Hint: fmt.Sprintf("send it within %s, as long as Content-Length says", a.BodyTimeout), Err: err,
		}
	}
	// Left in force it would end the request's context while the answer is made:
	// the server goes on reading, to notice a client that goes away.
	c.setReadDeadline(time.Time{})
	return body, nil
}

func (c *call) setReadDeadline(at time.Time) {
	// Where the writer can't do it (a test's recorder, a proxy of another kind), the server's own limits hold.
	if w, ok := c.ResponseWriter.(interface{ SetReadDeadline(t time.Time) error }); ok {
		_ = w.SetReadDeadline(at)
		return
	}
	_ = http.NewResponseController(c.ResponseWriter).SetReadDeadline(at)
}

func readAll(r io.Reader, length int64, maxBytes int) ([]byte, error) {
	if length > 0 {
		body := make([]byte, length)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(maxBytes)+1))
	if err == nil && len(body) > maxBytes {
		return nil, tooLarge(maxBytes)
	}
	return body, err
}

func tooLarge(maxBytes int) error {
	return &posthaste.Error{
		Code: posthaste.CodeTooLarge, Message: fmt.Sprintf("the body is larger than %d bytes", maxBytes),
		Hint: "send less, or a reference to what is large",
	}
}
