package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/retry"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// A handler is an endpoint whose attempt is a function of this process. It is a
// row as any other, with the URL func:NAME, which replicas that run another version
// of the program may not know: to them its deliveries are born due, and they never
// claim one. Everything else (leases, retries, dead letters) is the same.

// Handler is a function for the events of a tenant, or of all.
type Handler struct {
	Tenant store.TenantNo // store.EveryTenant: of all
	Name   string
	Run    func(ctx context.Context, d Handling) error
}

// Handling is what a handler is given to work on.
type Handling struct {
	Event    posthaste.Event // its own copy
	Delivery posthaste.ID
	Tenant   store.TenantRow // the event's: name and number
	Attempt  int
	// Send has an event accepted that this one causes; see [Pipeline.acceptChild]. Of
	// the same tenant where none is given.
	Send func(ctx context.Context, child Submission) (Receipt, error)
}

// handlers are those that this process has registered.
type handlers struct {
	mu    sync.RWMutex
	known map[handlerKey]Handler
}

type handlerKey struct {
	tenant store.TenantNo
	name   string
}

func newHandlers() *handlers { return &handlers{known: map[handlerKey]Handler{}} }

func (hs *handlers) find(tenant store.TenantNo, name string) (Handler, bool) {
	hs.mu.RLock()
	defer hs.mu.RUnlock()
	h, ok := hs.known[handlerKey{tenant, name}]
	return h, ok
}

// AddHandler makes a function known, before Run. Its row is the caller's to make,
// after this: whoever learns of the row must not find the function missing.
func (p *Pipeline) AddHandler(h Handler) {
	p.handlers.mu.Lock()
	defer p.handlers.mu.Unlock()
	p.handlers.known[handlerKey{h.Tenant, h.Name}] = h
}

// handler returns the function of an endpoint that is one and is registered here.
func (e *endpoint) handler() (Handler, bool) {
	name, isHandler := e.row.Handler()
	if !isHandler {
		return Handler{}, false
	}
	return e.handlers.find(e.row.Tenant, name)
}

func (e *endpoint) isHandler() bool {
	_, is := e.row.Handler()
	return is
}

// attemptable reports whether this replica may attempt work of the endpoint now:
// it is open, and its function, if it is one, is registered here.
func (e *endpoint) attemptable() bool {
	if !e.open() {
		return false
	}
	_, here := e.handler()
	return here || !e.isHandler()
}

// verdicts on the error of a handler.
type (
	permanentError  struct{ err error }
	retryAfterError struct {
		err  error
		wait time.Duration
	}
)

func (e *permanentError) Error() string  { return e.err.Error() }
func (e *permanentError) Unwrap() error  { return e.err }
func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// Permanent marks an error of a handler that no retry can help. Nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// RetryAfter marks an error of a handler that is not worth a try before the wait is over. Nil stays nil.
func RetryAfter(err error, wait time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, wait}
}

// handled is what came of a handler's attempt.
type handled struct {
	outcome posthaste.Outcome
	wait    time.Duration // asked for by the handler
}

// outcome says how an attempt ended: a handler's by its error, any other by what
// the receiver answered.
func (s sent) outcome() posthaste.Outcome {
	if s.handled != nil {
		return s.handled.outcome
	}
	return retry.Classify(s.endpoint.transient, s.result.StatusCode, s.result.Cause)
}

// retryAfter returns the wait that was asked for, 0 for none.
func (s sent) retryAfter(now time.Time) time.Duration {
	if s.handled != nil {
		return s.handled.wait
	}
	return retry.RetryAfter(s.result.StatusCode, s.result.RetryAfter, now)
}

// judge turns what a handler returned into the words of an attempt.
func judge(err error) (handled, posthaste.Cause, string) {
	if err == nil {
		return handled{outcome: posthaste.OutcomeDelivered}, posthaste.CauseNone, ""
	}
	h := handled{outcome: posthaste.OutcomeTransient}
	if _, permanent := errors.AsType[*permanentError](err); permanent {
		h.outcome = posthaste.OutcomePermanent
	}
	if later, ok := errors.AsType[*retryAfterError](err); ok {
		h.wait = later.wait
	}
	text := deliver.Printable(err.Error())
	if text == "" {
		text = "the handler failed without a word"
	}
	return h, posthaste.CauseHandler, text
}
