package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// rampMemory is how long a gate is remembered that has closed: its share of
	// the slots still grows.
	rampMemory = time.Minute
	// lockedFor is how long a gate's row is not asked for that somebody else held
	// locked: meanwhile the endpoint is open.
	lockedFor = 5 * time.Second
	// gateTimeout bounds the change of one gate.
	gateTimeout = 2 * time.Second
	// maxGateNews bounds what is remembered of an endpoint between two changes of its gate.
	maxGateNews = 1024
	// failingLong is how long an endpoint must have failed here without a success
	// before that is written down where the breaker has no reason to write.
	failingLong = time.Minute
)

// gatebook is what is known here of the gates in the database, and what is to be
// told them. Only gates that are not as they would be without a row are in it. It is
// as old as the last heartbeat; claims ask the database itself.
type gatebook struct {
	mu      sync.RWMutex
	shut    map[store.EndpointNo]gate.State
	news    map[store.EndpointNo]*gateNews
	failing map[store.EndpointNo]time.Duration // uptime of the first failure here since the last success here
	locked  map[store.EndpointNo]time.Duration // uptime until which the row is left alone
	missed  map[store.EndpointNo]store.Gate    // how gates stood whose lock did not come
	since   time.Time                          // changes up to here are known; zero: the gates were not read yet
	size    atomic.Int64                       // of shut, news and failing: 0 is the usual case, and cheap to see
	arrived chan struct{}
}

// gateNews are results that are to be recorded in an endpoint's gate.
type gateNews struct {
	endpoint *endpoint
	results  []gate.Result
}

func newGatebook() *gatebook {
	return &gatebook{
		shut: map[store.EndpointNo]gate.State{}, news: map[store.EndpointNo]*gateNews{},
		failing: map[store.EndpointNo]time.Duration{}, locked: map[store.EndpointNo]time.Duration{},
		missed:  map[store.EndpointNo]store.Gate{},
		arrived: make(chan struct{}, 1),
	}
}

// state returns the gate of an endpoint as far as it is known here.
func (g *gatebook) state(no store.EndpointNo) gate.State {
	if g.size.Load() == 0 {
		return gate.State{}
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.shut[no]
}

// learn notes a gate as the database has it, and returns what it was taken for.
func (g *gatebook) learn(row store.Gate, now time.Time) (before gate.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before = g.shut[row.Endpoint]
	s := row.State
	s.Slot, s.RetrySlot = time.Time{}, time.Time{} // those change with each claim, which asks for them
	if now.Sub(s.ClosedAt) > rampMemory {
		s.ClosedAt = time.Time{}
	}
	if !s.Asked(now) {
		s.RetryAfterUntil = time.Time{}
	}
	if s == (gate.State{}) {
		delete(g.shut, row.Endpoint)
	} else {
		g.shut[row.Endpoint] = s
	}
	if !g.since.IsZero() && row.ChangedAt.After(g.since) { // before all were read, one says nothing of the others
		g.since = row.ChangedAt
	}
	g.count()
	return before
}

func (g *gatebook) count() { g.size.Store(int64(len(g.shut) + len(g.news) + len(g.failing))) }

// note remembers a result for the gate's next change. Successes of an endpoint
// whose gate has nothing to forget are not worth a word.
func (g *gatebook) note(e *endpoint, r gate.Result) {
	if r.Outcome == posthaste.OutcomeDelivered && g.size.Load() == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.count()
	no := e.row.No
	n, known := g.news[no]
	_, shut := g.shut[no]
	if r.Outcome == posthaste.OutcomeDelivered {
		delete(g.failing, no)
		if !known && !shut {
			return
		}
	} else if _, failing := g.failing[no]; !failing {
		g.failing[no] = uptime()
	}
	if !known {
		n = &gateNews{}
		g.news[no] = n
	}
	n.endpoint = e
	if len(n.results) == maxGateNews { // the latest count
		n.results = append(n.results[:0], n.results[maxGateNews/2:]...)
	}
	n.results = append(n.results, r)
	poke(g.arrived)
}

// take returns what is to be recorded.
func (g *gatebook) take() map[store.EndpointNo]*gateNews {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.news
	g.news = map[store.EndpointNo]*gateNews{}
	g.count()
	return out
}

// lock notes that a gate's row is locked by somebody else.
func (g *gatebook) lock(no store.EndpointNo) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.locked[no] = uptime() + lockedFor
}

// unchanged notes how a gate stands whose lock did not come, and reports whether it
// stood so when it did not come before.
func (g *gatebook) unchanged(row store.Gate) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, again := g.missed[row.Endpoint]
	g.missed[row.Endpoint] = row
	return again && before == row
}

// came notes that the lock of a gate came.
func (g *gatebook) came(no store.EndpointNo) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.missed, no)
}

// isLocked reports whether a gate's row is left alone for now.
func (g *gatebook) isLocked(no store.EndpointNo) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	until, found := g.locked[no]
	if found && uptime() >= until {
		delete(g.locked, no)
		return false
	}
	return found
}

// known returns the time up to which changes of gates are known. A gate that was changed while
// the database's clock was ahead must not hide what is changed since the clock was set right.
func (g *gatebook) known(now time.Time) time.Time {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.since.After(now) {
		return now
	}
	return g.since
}

// plain reports whether work of the endpoint need not be claimed through its gate.
func (p *Pipeline) plain(e *endpoint, now time.Time) bool {
	return !e.ordered() && p.gates.state(e.row.No).Plain(e.policy, now)
}

// heldUntil returns until when the endpoint's gate lets nothing pass, as far as is
// known here; zero: it may let something pass now.
func (p *Pipeline) heldUntil(e *endpoint, now time.Time) time.Time {
	return p.gates.state(e.row.No).Hold(e.policy, now)
}

// mayStart reports whether a leased attempt may begin, for the gate's part.
func (p *Pipeline) mayStart(e *endpoint, lease store.Lease, now time.Time) bool {
	s := p.gates.state(e.row.No)
	if !s.Probing(e.policy) {
		return s.Hold(e.policy, now).IsZero()
	}
	mine := gate.Attempt{Delivery: lease.Delivery, Number: lease.Number}
	return s.Breaker == gate.HalfOpen && s.Probe == mine && !s.Asked(now)
}

// slotsFor returns how many attempts of an endpoint may be under way on this replica:
// its part of what the endpoint allows in the cluster, and of that what its breaker,
// which has closed lately, leaves. A handler's are each replica's own: not every
// replica has it, and what its calls use up is in this process.
func (p *Pipeline) slotsFor(e *endpoint) int {
	if e.ordered() {
		return 1
	}
	if e.isHandler() {
		return e.row.MaxInFlight
	}
	slots := p.life.share(e.row.MaxInFlight)
	if s := p.gates.state(e.row.No); !s.ClosedAt.IsZero() {
		slots = min(slots, p.life.share(s.Share(e.row.MaxInFlight, p.clock.Now())))
	}
	return slots
}

// loadGates reads the gates that an engine must know before it attempts anything.
func (p *Pipeline) loadGates(ctx context.Context) error {
	now := p.clock.Now()
	shut, err := p.store.ShutGates(ctx, now)
	if err != nil {
		return fmt.Errorf("load the gates: %w", err)
	}
	p.learnGates(shut)
	p.gates.mu.Lock()
	p.gates.since = now
	p.gates.mu.Unlock()
	return nil
}

// learnGates notes gates that the database told of. Where one opened the way,
// there may be work to claim.
func (p *Pipeline) learnGates(gates []store.Gate) {
	now := p.clock.Now()
	for _, row := range gates {
		before := p.gates.learn(row, now)
		if before.Breaker != gate.Closed && row.Breaker == gate.Closed || before.OpenUntil.After(row.OpenUntil) || before.RetryAfterUntil.After(row.RetryAfterUntil) {
			p.agenda.note(row.Endpoint, now, now)
		}
	}
}

// runGates records results in the gates, in transactions of their own: whatever
// holds them up, no outcome waits for it.
func (p *Pipeline) runGates(ctx context.Context) {
	for {
		select {
		case <-p.gates.arrived:
		case <-ctx.Done():
			return
		}
		for _, n := range p.gates.take() {
			if ctx.Err() != nil {
				return
			}
			p.recordInGate(ctx, n)
		}
	}
}

func (p *Pipeline) recordInGate(ctx context.Context, n *gateNews) {
	e := n.endpoint
	if current := p.routing.current(e.row.No); current != nil {
		e = current // the policy as it is now
	}
	if e.deleted() || p.gates.isLocked(e.row.No) || !p.worthRecording(e, n) {
		return
	}
	now := p.clock.Now()
	var moves []gate.Transition
	row, err := p.changeGate(ctx, e, func(s gate.State) gate.State {
		s, moves = s.Record(e.policy, now, n.results)
		return s
	})
	if err != nil {
		return
	}
	p.moved(ctx, e, row, moves)
	if p.failedTooLong(row.State, now) {
		p.tasks.Go(func() {
			p.disable(p.graceOver, e, fmt.Sprintf("failed for %s without one success, since %s",
				posthaste.Duration(p.cfg.DisableAfter), row.FailingSince.Format(time.RFC3339)))
		})
	}
}

// policyOf returns the policy of a gate: what its owner has set, and for how long an
// endpoint that is not attempted counts as one that still fails.
func (p *Pipeline) policyOf(d posthaste.Definition) gate.Policy {
	policy := gate.PolicyOf(d)
	policy.Gap = max(p.cfg.DisableAfter/2, time.Hour)
	return policy
}

// failedTooLong reports whether an endpoint has failed for so long without a success
// that it is to be disabled.
func (p *Pipeline) failedTooLong(s gate.State, now time.Time) bool {
	return !s.FailingSince.IsZero() && now.Sub(s.FailingSince) >= p.cfg.DisableAfter
}

// worthRecording reports whether results would change the endpoint's gate. Without
// a breaker there is little to count.
func (p *Pipeline) worthRecording(e *endpoint, n *gateNews) bool {
	s := p.gates.state(e.row.No)
	now := p.clock.Now()
	after, moves := s.Record(e.policy, now, n.results)
	if len(moves) > 0 || p.failedTooLong(after, now) {
		return true
	}
	if s.FailingSince.IsZero() && !after.FailingSince.IsZero() && after.Failures == s.Failures {
		// Only refusals. Where a success is due within a minute, that is not worth two writes.
		return p.failingLong(e.row.No)
	}
	return after != s
}

// failingLong reports whether an endpoint has not succeeded here for a while.
func (p *Pipeline) failingLong(no store.EndpointNo) bool {
	p.gates.mu.RLock()
	defer p.gates.mu.RUnlock()
	since, failing := p.gates.failing[no]
	return failing && uptime()-since > failingLong
}

// changeGate changes the gate of an endpoint and notes how it is then. What stands in
// the way is logged and counted: a change that is lost delays a breaker, nothing more.
func (p *Pipeline) changeGate(ctx context.Context, e *endpoint, change func(gate.State) gate.State) (store.Gate, error) {
	ctx, cancel := p.withinGrace(ctx, gateTimeout)
	defer cancel()
	row, err := p.store.ChangeGate(ctx, e.row.No, change)
	if err != nil {
		p.metrics.GateChangesLost.Inc()
		p.log.WarnContext(ctx, "a change of a gate was lost", "endpoint_id", e.row.ID.Print(posthaste.KindEndpoint), "err", err)
		return row, err
	}
	p.learnGates([]store.Gate{row})
	return row, nil
}

// moved tells of a breaker's moves.
func (p *Pipeline) moved(ctx context.Context, e *endpoint, row store.Gate, moves []gate.Transition) {
	for _, m := range moves {
		p.metrics.BreakerMoves.WithLabelValues(m.From.String(), m.To.String()).Inc()
		p.log.InfoContext(ctx, "breaker moved", "endpoint_id", e.row.ID.Print(posthaste.KindEndpoint),
			"from", m.From.String(), "to", m.To.String(), "consecutive_failures", row.Failures, "until", row.OpenUntil)
		about := map[string]any{
			"from_state": m.From.String(), "to_state": m.To.String(), "consecutive_failures": row.Failures, "until": orNil(row.OpenUntil),
		}
		p.tellStream(ctx, e, about)
		p.announceAbout(e, "endpoint.gate", about)
	}
	if len(moves) > 0 {
		p.waker.wake(e.row.No) // the other replicas look at the gate when they claim
	}
}

// tellStream records a breaker's move for those who follow the stream of its tenant.
func (p *Pipeline) tellStream(ctx context.Context, e *endpoint, about map[string]any) {
	detail, err := json.Marshal(about)
	if err == nil {
		err = p.store.AppendChange(ctx, store.AppendChangeParams{
			Kind: store.ChangeGate, Tenant: e.row.Tenant, ID: e.row.ID, At: p.clock.Now(), Detail: detail,
		})
	}
	if err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "a breaker's move is missing from the stream", "err", err)
	}
}

func orNil(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at
}

// ownerChanged brings a gate in line with what the endpoint's owner changed: what
// the endpoint did at another URL counts no more, a breaker that is taken away is
// closed, and one that is enabled or resumed has all the time that it may fail before it.
func (p *Pipeline) ownerChanged(ctx context.Context, before, after posthaste.Endpoint, no store.EndpointNo) {
	elsewhere := after.URL != before.URL
	unguarded := after.Breaker == nil && before.Breaker != nil
	opened := before.Disabled && !after.Disabled || before.Paused && !after.Paused
	e := p.routing.current(no)
	if e == nil || !elsewhere && !unguarded && !opened {
		return
	}
	now := p.clock.Now()
	var moves []gate.Transition
	row, err := p.changeGate(ctx, e, func(s gate.State) gate.State {
		next := s
		if elsewhere {
			next = next.Reset()
		}
		if unguarded {
			next, _ = next.Record(p.policyOf(after.Definition), now, nil)
		}
		if opened {
			next.FailingSince, next.FailedAt = time.Time{}, time.Time{}
		}
		moves = nil
		if s.Breaker != next.Breaker {
			moves = []gate.Transition{{From: s.Breaker, To: next.Breaker}}
		}
		return next
	})
	if err == nil {
		p.moved(ctx, e, row, moves)
		p.noteDue(e)
	}
}

// GatesOf returns the gates of endpoints as they are in the database; those not in the
// answer are as they are made: open.
func (p *Pipeline) GatesOf(ctx context.Context, endpoints []store.EndpointNo) (map[store.EndpointNo]gate.State, error) {
	rows, err := p.store.Gates(ctx, endpoints)
	if err != nil {
		return nil, fmt.Errorf("read the gates of endpoints: %w", err)
	}
	out := make(map[store.EndpointNo]gate.State, len(rows))
	for _, row := range rows {
		out[row.Endpoint] = row.State
	}
	return out, nil
}
