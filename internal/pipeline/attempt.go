package pipeline

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/retry"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// An attempt is a pipe of named steps, a type per stage: a leased item is loaded,
// guarded, sent (which signs it), and classified. A step that ends the attempt early
// says so with a verdict.

// loaded is an item with all that an attempt needs.
type loaded struct {
	*item
	endpoint *endpoint
}

// sent is a loaded item with what came of the request.
type sent struct {
	loaded
	result  deliver.Result
	handled *handled // nil unless a handler made the attempt
}

// verdict ends an item without an attempt: given back, or dead.
type verdict struct {
	state  posthaste.State
	reason posthaste.Reason // if dead
	why    string           // if given back: the metric's label
	wait   time.Duration    // if given back: until it is due again
}

// outcome is what a worker hands to the settle committer.
type outcome struct {
	item       *item
	endpoint   *endpoint // nil if the work never came that far
	settlement store.Settlement
	retryAfter time.Duration // what the answer asked for
	moved      bool          // set once recorded: the delivery was still ours to move
	silent     bool          // another outcome of its run says when the endpoint has work again
}

// work runs one attempt of an item and hands its outcome on. It is what the
// lanes' workers call.
func (p *Pipeline) work(it *item) {
	ctx := p.attempting
	l, early := p.loadItem(ctx, it)
	if early == nil {
		early = p.guard(&l)
	}
	if early != nil {
		p.conclude(p.unstarted(it, *early))
		return
	}
	s, ok := p.send(ctx, l)
	if !ok {
		return // shutdown cut it short: the lease is revoked, since nobody knows what the receiver saw
	}
	o := p.classify(s)
	if a := o.settlement.Attempt; a.Cause != posthaste.CauseLocal { // else it says nothing of the receiver
		it.took, it.failed = a.Timings.Total, a.Outcome == posthaste.OutcomeTransient
	}
	p.conclude(o)
}

// loadItem finds the endpoint as it is now.
func (p *Pipeline) loadItem(ctx context.Context, it *item) (loaded, *verdict) {
	l := loaded{item: it}
	if it.early != nil {
		return l, it.early
	}
	e, err := p.routing.endpoint(ctx, it.lease.Endpoint)
	if err != nil {
		return l, &verdict{why: "endpoint not loaded", wait: loadPause}
	}
	l.endpoint = e
	if e != nil && e.row.Tenant == store.EveryTenant {
		if _, err := p.routing.ensure(ctx, it.lease.Tenant); err != nil { // guard asks whether it is deleted
			return l, &verdict{why: "tenant not loaded", wait: loadPause}
		}
	}
	return l, nil
}

// disableTimeout bounds the change that disables an endpoint.
const disableTimeout = 5 * time.Second

// guard is the last look before the request is written: the beat is fresh, the
// endpoint open and unchanged, the run not expired.
func (p *Pipeline) guard(l *loaded) *verdict {
	if !p.awaitFresh(l.lease.Epoch) {
		return &verdict{why: "epoch over"}
	}
	if current := p.routing.current(l.lease.Endpoint); current != nil {
		l.endpoint = current
	}
	now := p.clock.Now()
	switch e := l.endpoint; {
	case e == nil || e.deleted() || p.routing.tenantDeleted(l.lease.Tenant):
		return &verdict{state: posthaste.StateDead, reason: posthaste.ReasonEndpointDeleted}
	case !l.lease.ExpiresAt.After(now) && p.clock.believed():
		return &verdict{state: posthaste.StateDead, reason: posthaste.ReasonExpired}
	case !e.open():
		return &verdict{why: "endpoint closed"}
	case !e.attemptable():
		return &verdict{why: "handler not here"}
	case e.ordered() && l.run == nil: // leased before it became ordered, beside others
		return &verdict{why: "now ordered"}
	case !l.pastGate && !p.mayStart(e, l.lease, now):
		return &verdict{why: "gate closed"}
	case l.latest != 0 && uptime() > l.latest:
		return &verdict{why: "slot missed"}
	case uptime()-l.queuedAt > maxLaneWait:
		return &verdict{why: "waited too long"}
	}
	return nil
}

// send makes the request. False: the engine's grace ended before an answer came.
func (p *Pipeline) send(ctx context.Context, l loaded) (sent, bool) {
	if h, ok := l.endpoint.handler(); ok {
		return p.runHandler(ctx, l, h)
	}
	s := sent{loaded: l}
	target, err := p.targetOf(l.endpoint)
	if err != nil {
		s.result = deliver.Result{StartedAt: p.clock.Now(), Cause: posthaste.CauseLocal, Error: deliver.Printable(err.Error())}
		return s, true
	}
	e := l.event
	s.result = p.sender.Send(ctx, target, &deliver.Message{
		EventID: e.ID, DeliveryID: l.lease.Delivery, Number: l.lease.Number, Type: e.Type,
		ContentType: e.ContentType, ContentEncoding: e.ContentEncoding, Traceparent: e.Traceparent,
		Headers: e.Headers, Body: e.Payload,
	})
	return s, ctx.Err() == nil || s.result.StatusCode != 0
}

// classify turns an answer into the delivery's next state.
func (p *Pipeline) classify(s sent) outcome {
	now, r, lease := p.clock.Now(), s.result, s.lease
	a := &posthaste.Attempt{
		Number: lease.Number, StartedAt: r.StartedAt.Add(time.Duration(p.clock.offset.Load())), Timings: r.Timings,
		Outcome: s.outcome(), Cause: r.Cause, StatusCode: r.StatusCode, Error: r.Error,
		SentTwice: r.SentTwice, EndpointVersion: s.endpoint.row.Version, Replica: p.cfg.Replica, ResponseHeaders: r.Headers, ResponseBody: r.Body,
	}
	out := store.Settlement{Lease: lease, Attempt: a, Failures: lease.Failures}
	retryAfter := s.retryAfter(now)
	switch {
	case a.Outcome == posthaste.OutcomeDelivered:
		out.State = posthaste.StateDelivered
	case a.Outcome == posthaste.OutcomePermanent:
		out.State, out.Reason = posthaste.StateDead, posthaste.ReasonPermanent
		if r.StatusCode == statusGone {
			out.Reason = posthaste.ReasonGone
		}
	case r.Cause.Fault() == posthaste.FaultLocal: // the schedule is for failures of the receiver
		wait := p.shortage.note(r)
		dueAgain(&out, now.Add(retry.ForLocal(wait, rand.Float64())), s.endpoint)
	default:
		out.Failures++
		wait, again := retry.Next(s.endpoint.row.Retry, out.Failures, rand.Float64(), retryAfter)
		if !again {
			out.State, out.Reason = posthaste.StateDead, posthaste.ReasonExhausted
			break
		}
		dueAgain(&out, now.Add(wait), s.endpoint)
	}
	return outcome{item: s.item, endpoint: s.endpoint, settlement: out, retryAfter: retryAfter}
}

const statusGone = 410

// dueAgain places a retry: not after the end of the run, where the delivery ends,
// and after the due row that it was claimed from, so that the two can't be mixed up.
// A delivery of an ordered endpoint keeps its place in the order; one that was born leased
// before the endpoint became ordered, and was not attempted, has the place of its acceptance. Any
// other says its time twice: should the endpoint become ordered before it comes, a place is no time.
func dueAgain(s *store.Settlement, at time.Time, e *endpoint) {
	if at.After(s.Lease.ExpiresAt) {
		at = s.Lease.ExpiresAt
	}
	at = at.Truncate(time.Microsecond)
	after := s.Lease.DueAt.Add(time.Microsecond)
	switch {
	case e != nil && e.ordered() && !s.Lease.DueAt.IsZero():
		s.DueAt, s.TryAt = after, at
	case e != nil && e.ordered() && s.Attempt == nil && s.Lease.Delivery.Time().Before(at):
		s.DueAt, s.TryAt = s.Lease.Delivery.Time(), at
	case at.Before(after):
		s.DueAt, s.TryAt = after, after
	default:
		s.DueAt, s.TryAt = at, at
	}
}

// unstarted makes the outcome of an item that was not attempted: its number is
// free again.
func (p *Pipeline) unstarted(it *item, v verdict) outcome {
	out := store.Settlement{Lease: it.lease, State: v.state, Reason: v.reason, Failures: it.lease.Failures}
	if v.state == posthaste.StatePending {
		p.metrics.GivenBack.WithLabelValues(v.why).Inc()
		dueAgain(&out, p.clock.Now().Add(v.wait), p.routing.current(it.lease.Endpoint))
	}
	return outcome{item: it, settlement: out}
}

// giveBack returns items that have not started.
func (p *Pipeline) giveBack(items []*item, why string) {
	for _, it := range items {
		p.settle(p.unstarted(it, verdict{why: why}))
	}
}

// disable disables an endpoint that its answers speak against, unless it changed
// meanwhile, and tells the operator.
func (p *Pipeline) disable(ctx context.Context, e *endpoint, reason string) {
	ctx, cancel := context.WithTimeout(ctx, disableTimeout)
	defer cancel()
	_, err := p.change(ctx, e.row.Tenant, e.row.ID, func(current *store.EndpointRow) error {
		if current.Version != e.row.Version || current.Disabled {
			return errUnchanged
		}
		current.Disabled, current.DisabledReason = true, reason
		return nil
	})
	switch {
	case err == nil:
		p.log.WarnContext(ctx, "endpoint disabled", "endpoint_id", e.row.ID.Print(posthaste.KindEndpoint), "reason", reason)
		p.announceAbout(e, "endpoint.disabled", map[string]any{"reason": reason})
	case !errors.Is(err, errUnchanged):
		p.log.WarnContext(ctx, "endpoint could not be disabled", "endpoint_id", e.row.ID.Print(posthaste.KindEndpoint), "reason", reason, "err", err)
	}
}

var errUnchanged = errors.New("nothing to change")
