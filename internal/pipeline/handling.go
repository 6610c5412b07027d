package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// handlerMargin is how long a handler may take to return once its context has
// ended. Then it is left behind: a function that does not look at its context must
// not hold a slot of its endpoint for good.
const handlerMargin = time.Second

// abandonedError says that a handler did not return in time.
type abandonedError struct{ timeout time.Duration }

func (e *abandonedError) Error() string {
	return fmt.Sprintf("the handler did not return within %s of its timeout of %s, and was left behind", handlerMargin, e.timeout)
}

// localError says that a handler was not called, for a reason that it has nothing to do with.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// runHandler makes an attempt by calling a function. False: the engine's grace
// ended, and the function was not done.
func (p *Pipeline) runHandler(ctx context.Context, l loaded, h Handler) (sent, bool) {
	s := sent{loaded: l, result: deliver.Result{StartedAt: p.cfg.Now()}}
	began := uptime()
	err := p.call(ctx, l, h)
	took := uptime() - began
	s.result.Timings.Total = took
	if local, ok := errors.AsType[*localError](err); ok {
		s.result.Cause, s.result.Error = posthaste.CauseLocal, deliver.Printable(local.Error())
		return s, ctx.Err() == nil
	}
	verdict, cause, text := judge(err)
	s.handled, s.result.Cause, s.result.Error = &verdict, cause, text
	return s, err == nil || ctx.Err() == nil
}

// call runs the function on a goroutine of its own, so that one that never
// returns can be left behind.
func (p *Pipeline) call(ctx context.Context, l loaded, h Handler) error {
	timeout := time.Duration(l.endpoint.row.Retry.Timeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tenant, err := p.routing.tenantName(ctx, l.lease.Tenant)
	if err != nil {
		return &localError{fmt.Errorf("look up the tenant of the event: %w", err)}
	}
	handling := p.handling(l, tenant)
	ended := make(chan error, 1)
	var over atomic.Bool // the function has returned, or was left behind: whichever was first
	go func() {
		err := p.guarded(ctx, l, h, handling)
		if over.CompareAndSwap(false, true) {
			ended <- err
			return
		}
		p.metrics.HandlersAbandoned.Dec()
		n := l.names()
		p.log.Warn("a handler returned after it was left behind", "handler", n.handler, "event_id", n.event, "delivery_id", n.delivery,
			"correlation_id", n.chain, "attempt", l.lease.Number, "err", err)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	margin := time.NewTimer(handlerMargin)
	defer margin.Stop()
	select {
	case err := <-ended:
		return err
	case <-margin.C:
	}
	p.metrics.HandlersAbandoned.Inc() // before it can be counted down
	if !over.CompareAndSwap(false, true) {
		p.metrics.HandlersAbandoned.Dec()
		return <-ended // it has ended this very moment
	}
	n := l.names()
	p.log.Error("a handler does not return: it was left behind", "handler", n.handler, "event_id", n.event, "delivery_id", n.delivery,
		"correlation_id", n.chain, "attempt", l.lease.Number, "timeout", timeout)
	return &abandonedError{timeout}
}

// guarded runs the function and makes an error of a panic, and of a goroutine that
// ended itself (runtime.Goexit, which is what t.FailNow does).
func (p *Pipeline) guarded(ctx context.Context, l loaded, h Handler, d Handling) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if cause := recover(); cause != nil {
			n := l.names()
			p.log.Error("a handler panicked", "handler", n.handler, "event_id", n.event, "delivery_id", n.delivery,
				"correlation_id", n.chain, "attempt", l.lease.Number, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = fmt.Errorf("the handler panicked: %v", cause)
		} else {
			err = errors.New("the handler ended its goroutine")
		}
	}()
	err = h.Run(ctx, d)
	returned = true
	return err
}

// attemptNames is what the log lines of a handler's attempt say it was.
type attemptNames struct{ handler, event, delivery, chain string }

func (l loaded) names() attemptNames {
	return attemptNames{
		handler: l.endpoint.row.URL, event: l.event.ID.Print(posthaste.KindEvent),
		delivery: l.lease.Delivery.Print(posthaste.KindDelivery), chain: l.event.CorrelationID.Print(posthaste.KindEvent),
	}
}

// handling copies the event: the same bytes go to other endpoints, and a handler
// that writes into them must not change what those receive.
func (p *Pipeline) handling(l loaded, tenant string) Handling {
	e := *l.event
	e.Payload, e.Headers = slices.Clone(e.Payload), slices.Clone(e.Headers)
	d := Handling{
		Event: e, Delivery: l.lease.Delivery, Attempt: l.lease.Number,
		Tenant: store.TenantRow{No: l.lease.Tenant, Tenant: posthaste.Tenant{Name: tenant}},
	}
	var children atomic.Int64
	d.Send = func(ctx context.Context, child Submission) (Receipt, error) {
		child.Event.Source = l.endpoint.row.URL
		if child.Tenant.No == 0 {
			child.Tenant = d.Tenant
		}
		return p.acceptChild(ctx, d, child, children.Add(1))
	}
	return d
}

// MaxChildKeyBytes bounds the own key of an event that a handler sends: the name of
// the delivery goes before it.
const MaxChildKeyBytes = posthaste.MaxIdempotencyKeyBytes - len("dlv_01jckr3wqge0t9rr6bzs4d8vnq/")

// acceptChild accepts an event that a handler sends: with the
// event that it works on as parent, and under a key that an attempt after this one
// makes again. The key is the delivery with the child's own key, or with its number
// in the order of this attempt. Keys of handlers are in a namespace of their own,
// so that no key of a client stands in their way.
func (p *Pipeline) acceptChild(ctx context.Context, d Handling, in Submission, number int64) (Receipt, error) {
	key := "/" + in.Event.IdempotencyKey
	if key == "/" {
		key = fmt.Sprint("#", number)
	}
	in.Namespace = store.NamespaceHandler
	in.Event.IdempotencyKey = d.Delivery.Print(posthaste.KindDelivery) + key
	in.Event.Parent, in.Event.CorrelationID = d.Event.ID, d.Event.CorrelationID
	if err := p.running(); err != nil {
		return Receipt{}, err
	}
	s := newSubmission(in)
	p.submitAnyway(ctx, []*submission{s})
	got, err := s.result.Receipt, s.result.Err
	if posthaste.CodeOf(err) == posthaste.CodeIdempotencyMismatch {
		return got, &posthaste.Error{
			Code: posthaste.CodeIdempotencyMismatch, Err: err,
			Message: fmt.Sprintf("an earlier attempt of this delivery sent another event under the key %q", key[1:]),
			Hint:    "give each event that a handler sends a key of its own, and the same bytes in every attempt",
		}
	}
	return got, err
}
