package pipeline

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
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
	// settleBatch and settleBatchBytes bound one statement.
	settleBatch      = 512
	settleBatchBytes = 4 << 20
	// settleTimeout is the time limit of one statement.
	settleTimeout = 5 * time.Second
)

// outbasket collects outcomes for the settle committer.
type outbasket struct {
	mu      sync.Mutex
	waiting []outcome
	arrived chan struct{} // one token: something waits
	full    chan struct{} // one token: a whole batch waits
	done    chan struct{} // closed when the committer has ended
	size    *batchSize    // of a statement, in bytes

	setAside time.Duration // how long an outcome rests that the database refuses in every form
}

func newOutbasket() *outbasket {
	return &outbasket{
		arrived: make(chan struct{}, 1), full: make(chan struct{}, 1), done: make(chan struct{}), size: newBatchSize(settleBatchBytes),
		setAside: 30 * time.Second,
	}
}

// settle hands an outcome to the committer. It never blocks; what waits is
// bounded, since nothing starts beyond MaxUnrecorded.
func (p *Pipeline) settle(o outcome) {
	p.load.unrecorded.Add(1)
	size := answerBytes(o)
	if p.load.unrecordedBytes.Add(int64(size)) > maxUnrecordedBytes && size > answerLeft {
		o = withAnswerOf(o, answerLeft)
		p.load.unrecordedBytes.Add(int64(answerBytes(o) - size))
	}
	p.basket.put(o)
}

// put queues an outcome.
func (b *outbasket) put(o outcome) {
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

// outcomeBytes is what an outcome takes in a statement, what the receiver answered left out.
const outcomeBytes = 512

// answerBytes returns the size of what an outcome records of the receiver's answer.
func answerBytes(o outcome) int {
	a := o.settlement.Attempt
	if a == nil {
		return 0
	}
	n := len(a.Error) + len(a.ResponseBody)
	for _, h := range a.ResponseHeaders {
		n += len(h.Name) + len(h.Value)
	}
	return n
}

// fit returns how many outcomes of a batch go into one statement of at most limit
// bytes, at least one, and their size.
func fit(batch []outcome, limit int) (n, size int) {
	for _, o := range batch {
		bytes := outcomeBytes + answerBytes(o)
		if n > 0 && size+bytes > limit {
			break
		}
		n, size = n+1, size+bytes
	}
	return n, size
}

// record commits a batch, however often it takes: while the database is away the
// outcomes wait here, and only a crash loses them. A statement that met its time
// limit is repeated with half of its outcomes. A batch that the database refuses is
// halved until the outcome that it refuses stands alone.
func (p *Pipeline) record(ctx context.Context, batch []outcome) {
	const shortest, longest = 50 * time.Millisecond, time.Second
	for wait := shortest; len(batch) > 0; {
		if p.pastGrace(ctx) {
			p.log.ErrorContext(ctx, "settle: gave up at shutdown; the attempts will be repeated", "outcomes", len(batch))
			return
		}
		n, size := fit(batch, p.basket.size.limit())
		rest, err := p.recordOnce(ctx, batch[:n], size)
		batch = batch[n:]
		switch {
		case err == nil:
			wait = shortest
			continue
		case len(rest) == 0:
			continue
		case !errors.Is(err, store.ErrUnavailable) && len(rest) > 1:
			half := len(rest) / 2
			p.record(ctx, rest[:half])
			p.record(ctx, rest[half:])
			continue
		case !errors.Is(err, store.ErrUnavailable):
			p.recordAlone(ctx, rest[0], err)
			continue
		}
		batch = slices.Concat(rest, batch)
		p.log.WarnContext(ctx, "settle: the outcomes wait", "outcomes", len(batch), "err", err)
		p.pause(context.WithoutCancel(ctx), wait)
		wait = min(2*wait, longest)
	}
}

// recordOnce runs one statement, of the given size, and returns the outcomes that it did not
// store. After a time limit the next statement is smaller; an outcome that met it
// alone loses half of the receiver's answer, unless the database was away.
func (p *Pipeline) recordOnce(ctx context.Context, batch []outcome, size int) (rest []outcome, err error) {
	params := store.SettleParams{Now: p.clock.Now(), Settlements: make([]store.Settlement, len(batch))}
	for i, o := range batch {
		params.Settlements[i] = o.settlement
	}
	began, beganSinceBoot := time.Now(), sinceBoot()
	call, cancel := p.withinGrace(ctx, settleTimeout)
	got, err := p.store.Settle(call, params)
	timedOut := call.Err() != nil
	cancel()
	p.metrics.Late.Add(float64(got.Late))
	if err == nil {
		p.basket.size.succeeded(uptime())
		p.taken(ctx, "settle")
		p.metrics.SettleBatch.Observe(float64(len(batch)))
		p.metrics.SettleSeconds.Observe(time.Since(began).Seconds())
		p.recorded(ctx, batch, got)
		return nil, nil
	}
	p.refused(ctx, "settle", err, false)
	if rest = p.recordMoved(ctx, batch, got); timedOut {
		p.basket.size.timedOut(size, uptime())
		if len(rest) == 1 && p.life.beatSince(beganSinceBoot) {
			rest[0] = p.withHalfTheAnswer(rest[0])
		}
	}
	return rest, err
}

// withAnswerOf returns an outcome that records the beginning of the receiver's answer,
// most bytes of it: half for the error, then half of the rest for the body.
func withAnswerOf(o outcome, most int) outcome {
	a, left := *o.settlement.Attempt, most
	a.Error = strings.Clone(a.Error[:min(len(a.Error), left/2)])
	left -= len(a.Error)
	a.ResponseBody = bytes.Clone(a.ResponseBody[:min(len(a.ResponseBody), left/2)])
	left -= len(a.ResponseBody)
	headers := a.ResponseHeaders
	a.ResponseHeaders = nil
	for _, h := range headers {
		if left -= len(h.Name) + len(h.Value); left < 0 {
			break
		}
		a.ResponseHeaders = append(a.ResponseHeaders, h)
	}
	o.settlement.Attempt = &a
	return o
}

// withHalfTheAnswer returns an outcome that records at most half as much of the receiver's answer.
func (p *Pipeline) withHalfTheAnswer(o outcome) outcome {
	before := answerBytes(o)
	if before == 0 {
		return o
	}
	o = withAnswerOf(o, before/2)
	p.load.unrecordedBytes.Add(int64(answerBytes(o) - before))
	return o
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

// recordAlone stores an outcome that the database refused for what is in it. It
// tries once more, since another transaction may have been the reason; then without
// anything that the receiver could choose. What is refused even so is set aside, so
// that it holds up no other outcome, and tried again for as long as the process lives.
func (p *Pipeline) recordAlone(ctx context.Context, o outcome, cause error) {
	result, whole := "stored", o
	for _, form := range []string{"stored", "stripped"} {
		if form == "stripped" {
			o = p.strip(o, cause)
		}
		result = form
		p.pause(ctx, 50*time.Millisecond)
		rest, err := p.recordOnce(ctx, []outcome{o}, outcomeBytes)
		if len(rest) == 0 {
			break
		}
		cause, result = errors.Join(cause, err), "set_aside"
	}
	if result == "stored" {
		return
	}
	p.metrics.Unrecordable.WithLabelValues(result).Inc()
	p.log.ErrorContext(ctx, "settle: unrecordable outcome", "result", result,
		"delivery_id", o.settlement.Lease.Delivery.Print(posthaste.KindDelivery), "attempt", o.settlement.Lease.Number, "err", cause)
	if result == "set_aside" {
		p.refused(ctx, "settle", cause, true)
		p.load.unrecordedBytes.Add(int64(answerBytes(whole) - answerBytes(o)))
		time.AfterFunc(p.basket.setAside, func() { p.basket.put(whole) })
	}
}

// strip returns an outcome without what the receiver could choose.
func (p *Pipeline) strip(o outcome, cause error) outcome {
	if o.settlement.Attempt == nil {
		return o
	}
	before := answerBytes(o)
	a := *o.settlement.Attempt
	a.Error, a.ResponseHeaders, a.ResponseBody = "unrecordable: "+cause.Error(), nil, nil
	o.settlement.Attempt = &a
	p.load.unrecordedBytes.Add(int64(answerBytes(o) - before))
	return o
}

// recorded gives room back and tells everybody who cares: the agenda of a
// retry, the metrics and the log.
func (p *Pipeline) recorded(ctx context.Context, batch []outcome, got store.Settled) {
	items := make([]*item, 0, len(batch))
	now := p.clock.Now()
	counts := newTally()
	bytes := 0
	for i, o := range batch {
		bytes += answerBytes(o)
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
	p.load.unrecordedBytes.Add(-int64(bytes))
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
