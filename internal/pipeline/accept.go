package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// acceptBatch, acceptBatchBytes and acceptBatchRows bound one accepting commit:
	// events that are collected, their payloads, and events plus deliveries. A single
	// event may have more deliveries, and a batch request more events, than that.
	acceptBatch      = 256
	acceptBatchBytes = 4 << 20
	acceptBatchRows  = 4000
	// acceptPatience is how long a sender waits for a commit whose outcome is not known.
	acceptPatience = 8 * time.Second
	// acceptTimeout bounds one statement.
	acceptTimeout = 5 * time.Second
	// bigFanOut is the number of endpoints from which an event gets a commit of its own.
	bigFanOut = 1000
)

// runAccept is the committer: it takes all that waits, commits it in one
// statement, and begins again. No timer: while one commit is on its way, the
// next batch forms by itself, and whoever is about to hand in, since its last
// answer has just come, is let in first. With nobody ready to run that takes no time; at
// full load commits are larger, and an event takes 6 to 9 % less of the processor.
//
// A batch that is too large for one statement is stored piece by piece, in turn with
// what arrives meanwhile, so that it holds up nobody else.
func (p *Pipeline) runAccept(ctx context.Context) {
	c := &committer{Pipeline: p}
	batch := make([]*submission, 0, acceptBatch)
	for {
		if first := c.next(ctx); first != nil {
			runtime.Gosched()
			batch = p.collect(append(batch[:0], first...))
			for _, part := range byFate(batch) {
				c.commit(ctx, part, part[0].fate)
			}
		}
		if len(c.pieces) > 0 {
			piece := c.pieces[0]
			c.pieces = c.pieces[1:]
			c.commit(ctx, piece.batch, piece.fate)
		} else if ctx.Err() != nil {
			return
		}
	}
}

// committer is the one goroutine that commits events.
type committer struct {
	*Pipeline
	pieces []piece // of large batches, to be committed in their turn
}

// piece is a part of a batch.
type piece struct {
	batch []*submission
	fate  fate
}

// next returns a group that waits. Without one it returns nil if pieces wait or ctx has
// ended, else it waits for one.
func (c *committer) next(ctx context.Context) []*submission {
	select {
	case first := <-c.submissions:
		return first
	default:
	}
	if len(c.pieces) > 0 {
		return nil
	}
	select {
	case first := <-c.submissions:
		return first
	case <-ctx.Done():
		return nil
	}
}

// collect adds to a batch what else waits, up to a count and a size; a group is
// never split here.
func (p *Pipeline) collect(batch []*submission) []*submission {
	size := payloadBytes(batch)
	for len(batch) < acceptBatch && size < acceptBatchBytes {
		select {
		case group := <-p.submissions:
			batch = append(batch, group...)
			size += payloadBytes(group)
		default:
			return batch
		}
	}
	return batch
}

func payloadBytes(group []*submission) (n int) {
	for _, s := range group {
		n += len(s.Event.Payload)
	}
	return n
}

// fate says what is known of a batch that has no answer yet.
type fate int

const (
	unstored fate = iota // no run of it can have been committed
	unknown              // some run may have been
)

// commit answers every submission of a batch, or leaves it to a later piece. It runs the
// batch again while the outcome is unknown, matches it again when routing has moved on,
// and splits it when the database refuses it, until the event that it refuses stands
// alone, or with those that it is stored together with. What met its time limit is
// repeated in smaller pieces. fate says what earlier runs left open.
func (c *committer) commit(ctx context.Context, batch []*submission, fate fate) {
	p := c.Pipeline
	var err error
	refusedAlone := false
	for {
		if batch = p.outOfPatience(ctx, batch, fate, err); len(batch) == 0 {
			return
		}
		if batch = p.leaveUnloaded(batch, fate); len(batch) == 0 {
			return
		}
		for _, s := range batch { // their lanes' room is for others meanwhile
			p.unreserve(s)
		}
		first, rest := cut(batch, p.acceptSize.limit(), func(s *submission) { p.matchAgain(s, fate) })
		if len(rest) > 0 {
			c.pieces = append(c.pieces, piece{rest, fate})
		}
		if batch = p.prepare(first); len(batch) == 0 {
			return
		}
		rows := rowsOf(batch)
		began := time.Now()
		params := p.acceptParams(batch)
		call, cancel := context.WithTimeout(ctx, timeoutOf(batch, rows))
		var got store.Accepted
		got, err = p.store.Accept(call, params)
		timedOut := call.Err() != nil
		cancel()
		switch {
		case err == nil && len(got.Stale) == 0:
			p.acceptSize.succeeded(uptime())
			p.taken(ctx, "accept")
			p.metrics.AcceptBatch.Observe(float64(len(batch)))
			p.metrics.AcceptSeconds.Observe(time.Since(began).Seconds())
			p.accepted(batch, params, got)
			return
		case err == nil:
			batch = p.leaveStale(batch, got.Stale, fate)
		case errors.Is(err, store.ErrFenced):
			err = p.renew(ctx)
		case errors.Is(err, store.ErrUnavailable):
			fate = unknown
			if timedOut && ctx.Err() == nil {
				p.acceptSize.timedOut(rows, uptime())
				if first, _ := halve(batch); len(first) == 0 && rows > bigFanOut { // it can't be made smaller
					p.giveUp(batch, fate, unavailable(err))
					return
				}
			}
			p.refused(ctx, "accept", err, false)
		case fate == unstored, errors.Is(err, store.ErrParentKept):
			if first, rest := halve(batch); len(first) > 0 {
				c.commit(ctx, first, fate)
				c.commit(ctx, rest, fate)
				return
			}
			if !refusedAlone { // perhaps because of another transaction
				refusedAlone = true
				p.pause(ctx, 50*time.Millisecond)
				continue
			}
		}
		if err != nil {
			p.log.WarnContext(ctx, "accept: the batch was not stored", "events", len(batch), "err", err)
			if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFenced) {
				p.giveUp(batch, fate, p.refusal(ctx, err))
				return
			}
			p.pause(ctx, 100*time.Millisecond)
		}
	}
}

// refusal is the answer to what the database refused alone, twice.
func (p *Pipeline) refusal(ctx context.Context, err error) error {
	if !errors.Is(err, store.ErrParentKept) && p.refused(ctx, "accept", err, true) {
		return unavailable(err)
	}
	return &posthaste.Error{Code: posthaste.CodeInternal, Message: "the event could not be stored", Err: err}
}

// timeoutOf returns how long a statement for the batch may take: no sender in it
// waits much longer than its patience. One that can't be made smaller gets all of it.
func timeoutOf(batch []*submission, rows int) time.Duration {
	left := acceptTimeout
	if rows > acceptBatchRows {
		left = acceptPatience
	}
	for _, s := range batch {
		left = min(left, s.givenUp-uptime())
	}
	return max(left, 500*time.Millisecond)
}

// outOfPatience answers those that have waited too long, or all once the engine
// stops with the outcome unknown, and returns the others.
func (p *Pipeline) outOfPatience(ctx context.Context, batch []*submission, f fate, err error) []*submission {
	now := uptime()
	var rest, late []*submission
	for _, s := range batch {
		if now >= s.givenUp || ctx.Err() != nil && err != nil {
			late = append(late, s)
		} else {
			rest = append(rest, s)
		}
	}
	p.giveUp(late, f, unavailable(err))
	return rest
}

// giveUp answers a batch with an error. Where a commit may have happened, the
// entries stay open until the heartbeat has asked the database for them.
func (p *Pipeline) giveUp(batch []*submission, f fate, err error) {
	for _, s := range batch {
		p.unreserve(s)
		if f == unknown && s.entry != nil {
			p.ledger.abandon(s.entry)
		} else {
			p.ledger.release(s.entry)
		}
		p.metrics.Refused.WithLabelValues("unavailable").Inc()
		s.answer <- Result{Err: err}
	}
}

// matchAgain finds the endpoints of a submission. Where it names unknown ones, or its tenant
// is deleted, it is refused, unless an earlier run may have stored it.
func (p *Pipeline) matchAgain(s *submission, f fate) {
	p.unreserve(s)
	targets, err := p.targetsOf(s)
	if s.invalid != nil {
		err = s.invalid
	}
	switch {
	case err == nil:
		s.targets = targets
	case f == unstored:
		s.refuse(err)
	}
}

// prepare reserves room for submissions that are matched, mints ids on the first run, and
// sorts the batch by key. A submission that is refused is answered and left out.
func (p *Pipeline) prepare(batch []*submission) []*submission {
	now := p.clock.Now()
	keep := batch[:0]
	for _, s := range batch {
		if err := s.refused(); err != nil {
			p.ledger.release(s.entry)
			s.answer <- Result{Err: err}
			continue
		}
		if s.entry == nil {
			s.entry = p.ledger.mint(now)
			s.event = s.Event
			s.event.ID = s.entry.id
			s.inherit()
		}
		s.event.FanOut = len(s.targets)
		p.reserve(s)
		keep = append(keep, s)
	}
	slices.SortFunc(keep, func(a, b *submission) int {
		return cmp.Or(cmp.Compare(a.Tenant.No, b.Tenant.No), bytes.Compare(a.key[:], b.key[:]), a.event.ID.Compare(b.event.ID))
	})
	return keep
}

// targetsOf returns the endpoints of a submission by the routing in memory. It does not
// wait: the committer serves all tenants.
func (p *Pipeline) targetsOf(s *submission) ([]*endpoint, error) {
	own, every := p.routing.of(s.Tenant.No), p.routing.of(store.EveryTenant)
	switch {
	case own == nil || every == nil: // forgotten since they were loaded
		return nil, unavailable(errStillLoading)
	case own.name != s.Tenant.Name: // the database was rewound, and the number is another tenant's
		return nil, unavailable(errAnotherTenant)
	}
	m := own.match(every, s.Submission)
	if !m.tenantDeletedAt.IsZero() {
		return nil, errTenantDeleted
	}
	s.matched = [2]store.TenantVersion{{Tenant: store.EveryTenant, Version: m.every}, {Tenant: s.Tenant.No, Version: m.version}}
	return m.targets, posthaste.Invalid(m.problems)
}

var errAnotherTenant = errors.New("the tenant's number is another tenant's now")

// reserve decides for each delivery whether it is born leased, which needs room
// in its lane, or born due.
func (p *Pipeline) reserve(s *submission) {
	s.leased, s.spilled = make([]bool, len(s.targets)), 0
	if !p.cfg.Roles.Deliver || len(s.targets) > bigFanOut || p.load.overburdened() {
		return
	}
	now := p.clock.Now()
	for i, e := range s.targets {
		if e.attemptable() && p.plain(e, now) {
			room := kind{born: true, besideDue: p.agenda.isReady(e.row.No)}
			if s.leased[i] = p.lanes.reserve(e.row.No, p.slotsFor(e), 1, room) == 1; !s.leased[i] {
				s.spilled++
			}
		}
	}
}

func (p *Pipeline) unreserve(s *submission) {
	for i, leased := range s.leased {
		if leased {
			p.lanes.unreserve(s.targets[i].row.No, 1, kind{born: true})
		}
	}
	s.leased = nil
}

func (p *Pipeline) acceptParams(batch []*submission) store.AcceptParams {
	now := p.clock.Now()
	out := store.AcceptParams{Epoch: p.epoch(), Now: now, Events: make([]store.NewEvent, len(batch))}
	out.Routing = matchedBy(batch)
	for i, s := range batch {
		ev := store.NewEvent{
			Event: s.event, Tenant: s.Tenant.No, Namespace: s.Namespace, Key: s.key, Sum: s.sum,
			Deliveries: make([]store.NewDelivery, len(s.targets)),
		}
		for j, e := range s.targets {
			d := store.NewDelivery{Endpoint: e.row.No, Leased: s.leased[j], Ordered: e.ordered(), ExpiresAt: e.deadlineOf(now)}
			if !d.Leased {
				d.DueAt = now
			}
			ev.Deliveries[j] = d
		}
		out.Events[i] = ev
	}
	return out
}

// matchedBy returns the versions of the routing that a batch, sorted by tenant, was
// matched by. Where one moved on between two matches the earlier version counts.
func matchedBy(batch []*submission) []store.TenantVersion {
	out := []store.TenantVersion{batch[0].matched[0]}
	for i, s := range batch {
		if i == 0 || batch[i-1].Tenant.No != s.Tenant.No {
			out = append(out, s.matched[1])
		}
		out[0].Version = min(out[0].Version, s.matched[0].Version)
		last := &out[len(out)-1]
		last.Version = min(last.Version, s.matched[1].Version)
	}
	return out
}

// accepted answers a batch that was committed, and hands the work that was born
// leased to the lanes. Everything after the commit may crash.
func (p *Pipeline) accepted(batch []*submission, params store.AcceptParams, got store.Accepted) {
	items := make([]*item, 0, len(batch))
	stored := 0
	for i, s := range batch {
		a := got.Events[i]
		switch {
		case a.Stored:
			items = p.bornLeased(items, s, params.Events[i], params.Epoch)
			p.noteBornDue(s, params.Events[i])
			stored++
		case a.ID == s.event.ID: // an earlier run of this batch stored it
			items = append(items, p.recovered(s, a)...)
			for _, e := range s.targets { // that run's plan is not known: any of them may wait
				p.noteDue(e)
			}
			stored++
		default:
			p.unreserve(s)
		}
		p.ledger.release(s.entry)
		s.answer <- p.answerFor(s, a)
	}
	p.metrics.Accepted.WithLabelValues("stored").Add(float64(stored))
	p.lanes.push(items)
}

func (p *Pipeline) answerFor(s *submission, a store.AcceptedEvent) Result {
	r := Receipt{ID: a.ID, Type: s.event.Type, Deliveries: a.FanOut}
	if a.Stored || a.ID == s.event.ID {
		r.Spilled = s.spilled
		return Result{Receipt: r}
	}
	if r.Differs = a.Sum != s.sum; r.Differs && !s.KeepFirst {
		p.metrics.Accepted.WithLabelValues("mismatch").Inc()
		return Result{Err: &posthaste.Error{
			Code:    posthaste.CodeIdempotencyMismatch,
			Message: fmt.Sprintf("the idempotency key was used for %s, which has another type or other bytes", a.ID.Print(posthaste.KindEvent)),
			Hint:    "use a new key for a new event",
		}}
	}
	p.metrics.Accepted.WithLabelValues("duplicate").Inc()
	r.Duplicate = true
	return Result{Receipt: r}
}

// bornLeased appends the items of an event that this commit stored.
func (p *Pipeline) bornLeased(items []*item, s *submission, ev store.NewEvent, epoch store.Epoch) []*item {
	before := len(items)
	for i, d := range ev.Deliveries {
		if !d.Leased {
			continue
		}
		items = append(items, &item{event: &s.event, entry: s.entry, born: true, lease: store.Lease{
			Delivery: s.event.ID.Delivery(uint32(i + 1)), Tenant: s.Tenant.No, Endpoint: d.Endpoint,
			Epoch: epoch, Number: 1, ExpiresAt: d.ExpiresAt,
		}})
	}
	p.ledger.hold(s.entry, len(items)-before)
	s.leased = nil // the room now belongs to the items
	return items
}

// recovered makes the items of an event that an earlier run stored: exactly
// those deliveries that the database says are ours, whatever this run matched.
func (p *Pipeline) recovered(s *submission, a store.AcceptedEvent) []*item {
	p.unreserve(s)
	var items []*item
	for _, lease := range a.Mine {
		if p.lanes.holds(lease.Delivery) {
			continue
		}
		p.lanes.force(lease.Endpoint, p.slotsOf(lease.Endpoint))
		items = append(items, &item{lease: lease, event: &s.event, entry: s.entry, born: true})
	}
	p.ledger.hold(s.entry, len(items))
	return items
}

// noteBornDue tells the sweep, here and on other replicas, of work that found no room.
func (p *Pipeline) noteBornDue(s *submission, ev store.NewEvent) {
	for i, d := range ev.Deliveries {
		if d.Leased || !s.targets[i].open() {
			continue
		}
		if s.targets[i].attemptable() {
			p.metrics.Spilled.Inc()
			p.recent.add(&s.event)
			p.noteDue(s.targets[i])
			continue
		}
		p.waker.wake(d.Endpoint)
	}
}
