package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// settleLinger is how long an outcome may wait for company: bigger commits
	// cost the database less, and nobody waits for this one.
	settleLinger = 5 * time.Millisecond
	settleBatch  = 512
	// settleTimeout bounds one statement.
	settleTimeout = 5 * time.Second
)

// outbasket collects outcomes for the settle committer.
type outbasket struct {
	mu      sync.Mutex
	waiting []outcome
	arrived chan struct{} // one token: something waits
	full    chan struct{} // one token: a whole batch waits
	done    chan struct{} // closed when the committer has ended
}

func newOutbasket() *outbasket {
	return &outbasket{arrived: make(chan struct{}, 1), full: make(chan struct{}, 1), done: make(chan struct{})}
}

// settle hands an outcome to the committer. It never blocks; what waits is
// bounded, since nothing starts beyond MaxUnrecorded.
func (p *Pipeline) settle(o outcome) {
	p.load.unrecorded.Add(1)
	b := p.basket
	b.mu.Lock()
	b.waiting = append(b.waiting, o)
	n := len(b.waiting)
	b.mu.Unlock()
	poke(b.arrived)
	if n >= settleBatch {
		poke(b.full)
	}
}

func (b *outbasket) take() []outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), settleBatch)
	out := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	if len(b.waiting) == 0 {
		b.waiting = nil
	}
	return out
}

// runSettle is the settle committer. When ctx ends it commits what still waits
// and returns.
func (p *Pipeline) runSettle(ctx context.Context) {
	defer close(p.basket.done)
	linger := time.NewTimer(settleLinger)
	defer linger.Stop()
	for {
		select {
		case <-p.basket.arrived:
		case <-ctx.Done():
			for batch := p.basket.take(); len(batch) > 0; batch = p.basket.take() {
				p.record(ctx, batch)
			}
			return
		}
		linger.Reset(settleLinger)
		select {
		case <-p.basket.full:
		case <-linger.C:
		case <-ctx.Done():
		}
		for batch := p.basket.take(); len(batch) > 0; batch = p.basket.take() {
			p.record(ctx, batch)
			if len(batch) < settleBatch {
				break
			}
		}
	}
}

// record commits a batch, however often it takes: while the database is away the
// outcomes wait here, and only a crash loses them. A batch that the database
// refuses is halved until the outcome that it refuses stands alone.
func (p *Pipeline) record(ctx context.Context, batch []outcome) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if p.pastGrace(ctx) {
			p.log.ErrorContext(ctx, "settle: gave up at shutdown; the attempts will be repeated", "outcomes", len(batch))
			return
		}
		params := store.SettleParams{Now: p.clock.Now(), Settlements: make([]store.Settlement, len(batch))}
		for i, o := range batch {
			params.Settlements[i] = o.settlement
		}
		began := time.Now()
		call, cancel := p.withinGrace(ctx, settleTimeout)
		got, err := p.store.Settle(call, params)
		cancel()
		p.metrics.Late.Add(float64(got.Late))
		if err != nil {
			batch = p.recordMoved(ctx, batch, got)
		}
		switch {
		case err == nil:
			p.metrics.SettleBatch.Observe(float64(len(batch)))
			p.metrics.SettleSeconds.Observe(time.Since(began).Seconds())
			p.recorded(ctx, batch, got)
			return
		case len(batch) == 0:
			return
		case !errors.Is(err, store.ErrUnavailable) && len(batch) > 1:
			half := len(batch) / 2
			p.record(ctx, batch[:half])
			p.record(ctx, batch[half:])
			return
		case !errors.Is(err, store.ErrUnavailable):
			p.recordStripped(ctx, batch[0], err)
			return
		}
		p.log.WarnContext(ctx, "settle: the outcomes wait", "outcomes", len(batch), "err", err)
		p.pause(context.WithoutCancel(ctx), wait)
	}
}

// recordMoved is recorded for those of a batch that moved although the rest failed, and
// returns the rest. To settle them again would say that they had not moved, and end
// as a late success what was replayed in between.
func (p *Pipeline) recordMoved(ctx context.Context, batch []outcome, got store.Settled) (rest []outcome) {
	var done []outcome
	for i, o := range batch {
		if i < len(got.Moved) && got.Moved[i] {
			done = append(done, o)
		} else {
			rest = append(rest, o)
		}
	}
	if len(done) > 0 {
		p.recorded(ctx, done, store.Settled{Moved: slices.Repeat([]bool{true}, len(done))})
	}
	return rest
}

// recordStripped stores an outcome that the database refused without anything
// that the receiver could choose. What is refused even so (its day was dropped)
// has nothing left to be recorded for.
func (p *Pipeline) recordStripped(ctx context.Context, o outcome, cause error) {
	stripped := o.settlement
	if stripped.Attempt != nil {
		a := *stripped.Attempt
		a.Error, a.ResponseHeaders, a.ResponseBody = "unrecordable: "+cause.Error(), nil, nil
		stripped.Attempt = &a
	}
	call, cancel := p.withinGrace(ctx, settleTimeout)
	defer cancel()
	got, err := p.store.Settle(call, store.SettleParams{Now: p.clock.Now(), Settlements: []store.Settlement{stripped}})
	result := "stripped"
	if err != nil {
		result, got = "dropped", store.Settled{Moved: []bool{false}}
	}
	p.metrics.Unrecordable.WithLabelValues(result).Inc()
	p.log.ErrorContext(ctx, "settle: unrecordable outcome", "result", result,
		"delivery_id", o.settlement.Lease.Delivery.Print(posthaste.KindDelivery), "attempt", o.settlement.Lease.Number, "err", errors.Join(cause, err))
	o.settlement = stripped
	p.recorded(ctx, []outcome{o}, got)
}

// recorded gives room back and tells everybody who cares: the agenda of a
// retry, the metrics and the log.
func (p *Pipeline) recorded(ctx context.Context, batch []outcome, got store.Settled) {
	items := make([]*item, 0, len(batch))
	now := p.clock.Now()
	counts := newTally()
	for i, o := range batch {
		items = append(items, o.item)
		p.ledger.release(o.item.entry)
		s := o.settlement
		o.moved = got.Moved[i]
		if s.State == posthaste.StatePending && !o.silent { // moved now, or by a run of this whose answer was lost
			p.agenda.note(s.Lease.Endpoint, s.TryAt, now) // DueAt may be a place in an order, ahead of the clock
			if s.Attempt == nil {
				p.waker.wake(s.Lease.Endpoint) // perhaps somebody else has room
			}
		}
		counts.add(o)
		p.observe(ctx, o)
		if s.Reason == posthaste.ReasonGone && o.endpoint != nil {
			p.tasks.Go(func() {
				p.disable(p.graceOver, o.endpoint, "answered 410 Gone at "+p.clock.Now().Format(time.RFC3339))
			})
		}
		p.afterOutcome(o)
	}
	p.count(counts)
	p.load.unrecorded.Add(-int64(len(batch)))
	p.lanes.settled(items)
}

// afterOutcome tells the endpoint's gate what became of an attempt, and, where the
// endpoint is ordered, the sweep that the next one may follow.
func (p *Pipeline) afterOutcome(o outcome) {
	e, s := o.endpoint, o.settlement
	if e == nil { // it ended, or was given back, without an attempt
		if e = p.routing.current(s.Lease.Endpoint); e == nil {
			return
		}
	}
	if a := s.Attempt; a != nil && !e.isHandler() { // a handler has no gate: one bad event must not close it to others
		p.gates.note(e, gate.Result{
			Attempt: gate.Attempt{Delivery: s.Lease.Delivery, Number: s.Lease.Number},
			Outcome: a.Outcome, Cause: a.Cause, StatusCode: a.StatusCode, RetryAfter: o.retryAfter,
		})
	}
	if e.ordered() && s.State != posthaste.StatePending && !o.silent {
		p.noteDue(e)
	}
}

func laterTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
