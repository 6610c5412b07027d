package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// maxThroughs is how many claims go through gates at once: one that has to wait
// for its gate's row must not hold up the others.
const maxThroughs = 8

// throughs are the claims through gates that are under way, one an endpoint.
type throughs struct {
	mu      sync.Mutex
	running map[store.EndpointNo]bool
	slots   map[store.EndpointNo]time.Duration // uptime at which the limit of an endpoint lets something pass again
	tasks   sync.WaitGroup
}

func newThroughs() *throughs {
	return &throughs{running: map[store.EndpointNo]bool{}, slots: map[store.EndpointNo]time.Duration{}}
}

// begin reports whether a claim through the endpoint's gate may begin now.
func (t *throughs) begin(no store.EndpointNo) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[no] || len(t.running) >= maxThroughs {
		return false
	}
	t.running[no] = true
	return true
}

func (t *throughs) end(no store.EndpointNo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, no)
}

// noteSlot remembers when an endpoint whose limit is reached may be asked for again.
func (t *throughs) noteSlot(no store.EndpointNo, in time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slots[no] = uptime() + in
}

func (t *throughs) forgetSlot(no store.EndpointNo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.slots, no)
}

// nextSlot returns what noteSlot noted, zero for nothing.
func (t *throughs) nextSlot(no store.EndpointNo, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, noted := t.slots[no]; noted { // however the clock was set meanwhile
		return now.Add(at - uptime())
	}
	return time.Time{}
}

// startThrough claims due work of an endpoint through its gate, beside the sweep.
func (p *Pipeline) startThrough(ctx context.Context, e *endpoint) {
	if !p.throughs.begin(e.row.No) {
		return // looked at again when one has ended
	}
	n, room := p.reserveThrough(e)
	if n == 0 {
		p.throughs.end(e.row.No)
		return // looked at again when room is freed, and not before: that would go round in circles
	}
	p.throughs.tasks.Go(func() {
		if err := p.claimThrough(ctx, e, n, room); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "claim failed", "err", err)
			p.pause(ctx, time.Second)
		}
		p.throughs.end(e.row.No)
		poke(p.agenda.changed)
	})
}

// reserveThrough takes room for what may pass the gate of an endpoint at most.
func (p *Pipeline) reserveThrough(e *endpoint) (n int, room kind) {
	no := e.row.No
	room = kind{within: e.policy.Lateness()}
	want := claimCap
	if e.ordered() {
		within := runTime
		if room.within > 0 {
			within = min(within, room.within)
		}
		want = p.runs.next(no, within)
	}
	if p.gates.state(no).Probing(e.policy) {
		want = 1
	}
	if e.ordered() {
		return p.lanes.reserveRun(no, want), room
	}
	return p.lanes.reserve(no, p.slotsFor(e), want, room), room
}

// claimThrough leases what the gate of an endpoint lets pass. A gate that can't be
// asked, because somebody else holds its row, is no reason not to deliver; only order
// waits for it. Of an ordered endpoint it leases a run. Room for n is reserved.
func (p *Pipeline) claimThrough(ctx context.Context, e *endpoint, n int, room kind) error {
	no := e.row.No
	from := p.agenda.from(no)
	if e.ordered() {
		from = time.Time{} // a place may be filled that lies before the last one
	}
	if p.gates.isLocked(no) && !e.ordered() {
		return p.claim(ctx, []store.ClaimWant{{Endpoint: no, Cap: n, From: from, IgnoreGate: true}})
	}
	wants := []store.ClaimWant{{Endpoint: no, Cap: n, From: from}}
	var moves []gate.Transition
	var starts []gate.Start
	// Not cut short by a shutdown: see claim.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	got, err := p.store.ClaimThrough(call, store.ClaimThroughParams{
		Epoch: p.epoch(), Now: p.clock.Now(), Endpoint: no, From: from, Ordered: e.ordered(), Tenants: p.routing.versionsOf(wants),
		Enter: func(s gate.State) gate.Pass { return s.Enter(e.policy, p.clock.Now(), n) },
		Take: func(s gate.State, leases []store.Lease) gate.State {
			s, starts, moves = s.Take(e.policy, p.clock.Now(), takenOf(leases))
			return s
		},
	})
	cancel()
	if err != nil {
		return p.throughFailed(ctx, e, wants, err)
	}
	p.refreshBriefly(ctx, got.Newer)
	p.gates.came(no)
	p.learnGates([]store.Gate{got.Gate})
	p.moved(ctx, e, got.Gate, moves)
	p.lanes.release(no, n-len(got.Leases), room)
	p.noteThrough(e, n, from, got)
	p.metrics.Claimed.Add(float64(len(got.Leases)))
	items := p.itemsOf(got.Leases)
	now, at := uptime(), p.clock.Now()
	for i, it := range items {
		if start := starts[i]; !start.At.IsZero() {
			it.startAt = now + start.At.Sub(at)
		}
		if latest := starts[i].Latest; !latest.IsZero() {
			it.latest = now + latest.Sub(at)
		}
	}
	if e.ordered() {
		p.lanes.pushRun(items)
	} else {
		p.lanes.push(items)
	}
	return nil
}

func takenOf(leases []store.Lease) []gate.Taken {
	out := make([]gate.Taken, len(leases))
	for i, l := range leases {
		out[i] = gate.Taken{Attempt: gate.Attempt{Delivery: l.Delivery, Number: l.Number}, Retry: l.Number > 1}
	}
	return out
}

// stuck reports whether the gate of an endpoint, whose lock did not come, is held by
// somebody who does nothing with it. Where replicas of ours queue for it its row
// changes, and to go round it would break the limit that they keep.
func (p *Pipeline) stuck(ctx context.Context, no store.EndpointNo) bool {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	rows, err := p.store.Gates(ctx, []store.EndpointNo{no}) // waits for no lock
	if err != nil {
		return false
	}
	row := store.Gate{Endpoint: no}
	if len(rows) > 0 {
		row = rows[0]
	}
	return p.gates.unchanged(row)
}

// throughFailed gives the room back of a claim that failed, and goes round a gate
// that is locked.
func (p *Pipeline) throughFailed(ctx context.Context, e *endpoint, wants []store.ClaimWant, err error) error {
	no := e.row.No
	switch {
	case errors.Is(err, store.ErrLocked) && e.ordered():
		p.releaseWants(wants)
		now := p.clock.Now()
		p.agenda.drop(no)
		p.agenda.note(no, now.Add(time.Second), now)
		return nil
	case errors.Is(err, store.ErrLocked) && !p.stuck(ctx, no):
		p.releaseWants(wants)
		return nil // other replicas come and go through it: again
	case errors.Is(err, store.ErrLocked):
		p.gates.lock(no)
		p.metrics.GatesPassedBy.Inc()
		wants[0].IgnoreGate = true
		return p.claim(ctx, wants)
	}
	p.releaseWants(wants)
	if errors.Is(err, store.ErrFenced) {
		return p.renew(ctx)
	}
	p.claimLost()
	return fmt.Errorf("through the gate of endpoint %d: %w", no, err)
}

// noteThrough notes when the endpoint is to be looked at again.
func (p *Pipeline) noteThrough(e *endpoint, asked int, from time.Time, got store.ClaimedThrough) {
	no, now := e.row.No, p.clock.Now()
	sooner := func(at time.Time) {
		p.agenda.drop(no)
		p.agenda.note(no, at, now)
	}
	n := len(got.Leases)
	exhausted := n < asked && !got.More
	stands := n == 0 && !got.Examined.After(from) // there is more, which a look from here does not come to
	p.throughs.forgetSlot(no)
	switch pass := got.Pass; {
	case !got.HeadAt.IsZero():
		sooner(got.HeadAt)
	case e.ordered() && n == 0 && !pass.Again.IsZero():
		sooner(pass.Again)
	case e.ordered():
		p.agenda.drop(no) // whoever holds the head notes it again
	case !pass.Again.IsZero() && n == pass.Attempts && n < asked: // the limit is reached
		p.throughs.noteSlot(no, pass.Again.Sub(now))
		sooner(pass.Again)
	case !pass.Again.IsZero() && pass.Retries < pass.Attempts && (exhausted || stands): // what is left are retries
		sooner(pass.Again)
	case n > 0 && p.gates.state(no).Probing(e.policy):
		sooner(got.Gate.OpenUntil) // the probe decides, and is heard of sooner
	default:
		p.agenda.claimed(no, got.Examined, from, exhausted)
	}
}
