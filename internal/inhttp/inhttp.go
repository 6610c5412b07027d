// Package inhttp takes what providers send to sources, at /in/{source_id}: it reads
// the body, has it verified on the raw bytes, stores the event in one commit, and
// answers as the provider expects it. It decides nothing about signatures, which
// is inbound's, nor about events, which is the pipeline's.
//
// Whoever sends here holds no key. So a path that no source has tells nothing, a
// signature that is wrong is never explained to its sender, and how much is read
// at once is bounded. A failure of our own is 503, never a status that a provider
// would take for the end of the matter.
package inhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/inbound"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/telemetry"
)

// PathPrefix begins the path of every source.
const PathPrefix = "/in/"

// Config is what a handler is made of. Pipeline is required.
type Config struct {
	Pipeline *pipeline.Pipeline

	// Metrics are counted into. Default: the pipeline's.
	Metrics *telemetry.Metrics

	// Log takes a line for each request. Default: nowhere.
	Log *slog.Logger

	// BodyTimeout is how long the body of a request may take to arrive. Default: 30s.
	BodyTimeout time.Duration

	// Patience is how long a sender may be silent before its body, and what it may
	// fall behind 16 KiB/s afterwards. Default: 5s.
	Patience time.Duration

	// Verification is what verifiers need of their surroundings. Default: inbound's own.
	Verification inbound.Options

	// Expanders take the deliveries of some providers apart, by the provider's
	// name. Default: none; a delivery is one event.
	Expanders map[string]Expander
}

// Handler answers requests to sources. Make it with [New].
type Handler struct {
	Config
	room      room
	diagnoses allowance
	mu        sync.Mutex
	verifiers map[posthaste.ID]versioned // by source
}

// versioned is the verifier of a source as it is at a version.
type versioned struct {
	version  int
	verifier *inbound.Verifier
}

// maxVerifiers bounds what is remembered; what is in use is made again.
const maxVerifiers = 10_000

// New makes a handler.
func New(cfg Config) (*Handler, error) {
	if cfg.Pipeline == nil {
		return nil, errors.New("make the handler of sources: Pipeline is required")
	}
	if cfg.Metrics == nil {
		cfg.Metrics = cfg.Pipeline.Metrics()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.BodyTimeout <= 0 {
		cfg.BodyTimeout = 30 * time.Second
	}
	if cfg.Patience <= 0 {
		cfg.Patience = 5 * time.Second
	}
	return &Handler{Config: cfg, verifiers: map[posthaste.ID]versioned{}}, nil
}

// request is one request on its way.
type request struct {
	http.ResponseWriter
	r        *http.Request
	id       string
	began    time.Time
	known    *pipeline.KnownSource // nil: no source has the path
	verifier *inbound.Verifier
	body     []byte
	status   int    // of the answer
	result   string // what became of it

	// For its line.
	failure  error
	warnings []string
	why      inbound.Rejection
	receipts []pipeline.Receipt // its event's, then its items'
}

// The results that requests are counted by.
const (
	resultStored      = "stored"
	resultDuplicate   = "duplicate"
	resultHandshake   = "handshake"
	resultIgnored     = "ignored"  // a probe, a wrong method
	resultRejected    = "rejected" // not verified
	resultUnreadable  = "unreadable"
	resultTooLarge    = "too_large"
	resultUnknown     = "unknown_source"
	resultUnavailable = "unavailable" // our own failure
)

// ServeHTTP answers a request, counts it and writes its line.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &request{ResponseWriter: w, r: r, began: time.Now(), id: fmt.Sprintf("req_%016x", rand.Uint64())} //nolint:gosec // a name, not a secret
	w.Header().Set("Posthaste-Request-Id", q.id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	defer h.finish(q)
	if r.ContentLength != 0 {
		// Whatever becomes of it: net/http reads on in a body that was left unread. Where
		// the writer can't do it, the server's own limits hold.
		_ = q.control().SetReadDeadline(q.began.Add(min(h.BodyTimeout, h.Patience)))
	}
	answer, err := h.take(q)
	if err != nil {
		answer = q.failed(err)
	}
	q.write(answer)
}

func (q *request) control() *http.ResponseController {
	return http.NewResponseController(q.ResponseWriter)
}

func (q *request) write(answer inbound.Answer) {
	for name, values := range answer.Header {
		q.Header()[name] = values
	}
	q.status = answer.Status
	q.WriteHeader(answer.Status)
	_, _ = q.Write(answer.Body) // an error is the sender's going away
}

// failed is the answer to a failure of our own.
func (q *request) failed(err error) inbound.Answer {
	q.result, q.failure = resultUnavailable, err
	answer := plain(http.StatusServiceUnavailable, "not stored, try again")
	answer.Header.Set("Retry-After", "5")
	if q.body == nil {
		answer.Header.Set("Connection", "close") // the body was not read
	}
	return answer
}

// take is the way of a request. Its error is a failure of our own.
func (h *Handler) take(q *request) (inbound.Answer, error) {
	id, err := posthaste.ParseID(posthaste.KindSource, strings.TrimPrefix(q.r.URL.Path, PathPrefix))
	if err != nil {
		return q.unknown(), nil
	}
	if err := h.Pipeline.TakesFromSources(); err != nil {
		return inbound.Answer{}, err
	}
	q.known, err = h.Pipeline.Source(q.r.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return q.unknown(), nil
	}
	if err != nil {
		return inbound.Answer{}, fmt.Errorf("look up the source: %w", err)
	}
	if q.verifier, err = h.verifierOf(q.known); err != nil {
		return inbound.Answer{}, fmt.Errorf("use the source as it is configured: %w", err)
	}
	held := h.room.share(id, q.r.RemoteAddr)
	defer held.release()
	refusal, err := h.readBody(q, held)
	if err != nil || refusal != nil {
		return value(refusal), err
	}
	outcome, err := q.verifier.Receive(q.r.Context(), &inbound.Request{
		Method: q.r.Method, URL: q.r.URL, Header: q.r.Header, Body: q.body, At: q.began,
		MaxDecoded: q.known.Row.MaxBodyBytes,
		MayDecode:  func(more int) bool { return held.take(int64(more)) == nil },
		MayDiagnose: func() bool {
			return h.Pipeline.KeepsRejection(q.known) && h.diagnoses.take(len(q.body), time.Now())
		},
	})
	if err != nil {
		return inbound.Answer{}, err
	}
	switch outcome.Kind {
	case inbound.KindEvent:
		return h.store(q, outcome)
	case inbound.KindRejected:
		h.reject(q, outcome.Rejection)
	case inbound.KindHandshake:
		q.result = resultHandshake
	default:
		q.result = resultIgnored
	}
	return outcome.Answer, nil
}

func value(answer *inbound.Answer) inbound.Answer {
	if answer == nil {
		return inbound.Answer{}
	}
	return *answer
}

// unknown is the answer to a path that no source has, or had: it is the same for
// whatever reason.
func (q *request) unknown() inbound.Answer {
	q.result = resultUnknown
	answer := plain(http.StatusNotFound, "not found")
	answer.Header.Set("Connection", "close") // what was sent is not read
	return answer
}

// verifierOf returns the verifier of a source, which is made once for a version:
// it parses keys, and remembers those that it fetched.
func (h *Handler) verifierOf(known *pipeline.KnownSource) (*inbound.Verifier, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v, ok := h.verifiers[known.Row.ID]; ok && v.version == known.Row.Version {
		return v.verifier, nil
	}
	settings := map[string]string{}
	for _, from := range []map[string]string{known.Row.Settings, known.Secret.Settings} {
		for name, value := range from {
			settings[name] = value
		}
	}
	verifier, err := inbound.New(inbound.Config{Provider: known.Row.Provider, Secrets: known.Secret.Secrets, Settings: settings}, h.Verification)
	if err != nil {
		return nil, err
	}
	if len(h.verifiers) >= maxVerifiers {
		clear(h.verifiers)
	}
	h.verifiers[known.Row.ID] = versioned{known.Row.Version, verifier}
	return verifier, nil
}

func plain(status int, text string) inbound.Answer {
	return inbound.Answer{Status: status, Body: []byte(text + "\n"), Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}}
}

// reject keeps a delivery that could not be verified.
func (h *Handler) reject(q *request, why inbound.Rejection) {
	q.result, q.why = resultRejected, why
	h.Pipeline.Reject(q.r.Context(), q.known, posthaste.Rejection{
		Reason: string(why.Reason), Detail: clip(why.Text, posthaste.MaxRejectionTextBytes), Hint: clip(why.Hint, posthaste.MaxRejectionTextBytes),
		Method: q.r.Method, Headers: q.kept(posthaste.MaxRejectionHeaderBytes),
		Body: q.body, BodyBytes: len(q.body),
	})
}

func clip(text string, maxBytes int) string {
	if len(text) > maxBytes {
		text = strings.ToValidUTF8(text[:maxBytes], "")
	}
	return text
}

// maxWarnings bounds what one request can add to its line.
const maxWarnings = 10

// warn raises the level of the request's line, and says why.
func (q *request) warn(warnings ...string) {
	q.warnings = append(q.warnings, warnings[:min(len(warnings), maxWarnings-len(q.warnings))]...)
}

// finish runs when a request has been answered or has panicked, which a bug in the
// way that one provider is verified might make it: that is a failure of ours like
// any. It counts the request and writes its one line.
func (h *Handler) finish(q *request) {
	ctx := context.WithoutCancel(q.r.Context())
	if p := recover(); p != nil {
		h.Log.ErrorContext(ctx, "a request to a source panicked", "request_id", q.id, "panic", p, "stack", string(debug.Stack()))
		q.write(q.failed(fmt.Errorf("panic: %v", p)))
	}
	took := time.Since(q.began)
	provider := "none" // what a sender makes up must not make series
	if q.known != nil {
		provider = q.known.Row.Provider
	}
	h.Metrics.Inbound.WithLabelValues(provider, q.result).Inc()
	if q.result == resultStored || q.result == resultDuplicate {
		h.Metrics.InboundSeconds.Observe(took.Seconds())
	}
	h.log(ctx, q, provider, took)
}

// log writes the one line of a request.
func (h *Handler) log(ctx context.Context, q *request, provider string, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case q.result == resultUnknown: // anybody can ask for anything
		level = slog.LevelDebug
	case q.result == resultUnavailable || len(q.warnings) > 0:
		level = slog.LevelWarn
	}
	if !h.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", q.id), slog.String("provider", provider), slog.String("method", q.r.Method),
		slog.Int("status", q.status), slog.String("result", q.result), slog.Int("bytes", len(q.body)), slog.Duration("took", took),
		slog.String("remote", q.r.RemoteAddr),
	}
	if q.known != nil {
		attrs = append(attrs, slog.String("source_id", q.known.Row.ID.Print(posthaste.KindSource)), slog.String("tenant", q.known.Tenant.Name))
	}
	if len(q.receipts) > 0 {
		event := q.receipts[0]
		id := event.ID.Print(posthaste.KindEvent) // which has no parent, and so begins the chain
		attrs = append(attrs, slog.String("type", event.Type), slog.String("event_id", id), slog.String("correlation_id", id),
			slog.Int("deliveries", event.Deliveries), slog.Int("children", len(q.receipts)-1))
	}
	if q.result == resultRejected {
		attrs = append(attrs, slog.String("reason", string(q.why.Reason)), slog.String("detail", q.why.Text))
	}
	if len(q.warnings) > 0 {
		attrs = append(attrs, slog.String("warnings", strings.Join(q.warnings, "; ")))
	}
	if q.failure != nil {
		attrs = append(attrs, slog.Any("err", q.failure))
	}
	h.Log.LogAttrs(ctx, level, "source answered", attrs...)
}
