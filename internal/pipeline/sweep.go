package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// lookEvery is how often the leader looks through the due table for endpoints
	// with work that nobody remembers, and for what has expired behind a closed endpoint.
	lookEvery = 5 * time.Second
	// farAhead is how long the sweep sleeps when nothing is due.
	farAhead = time.Minute
)

// runSweep claims what is due, and sleeps until the next due time, until room
// is freed, or until something becomes due sooner.
func (p *Pipeline) runSweep(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait := p.sweep(ctx)
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-p.agenda.changed:
		case <-p.lanes.freed:
		case <-ctx.Done():
			return
		}
	}
}

// runLook looks now and then, beside the sweep: to end a million deliveries takes
// a while, and claims must not wait for it.
func (p *Pipeline) runLook(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	p.lookOrLog(ctx)
	for {
		select {
		case <-p.lookSoon:
			p.lookOrLog(ctx)
		case <-tick.C:
			if p.isLeader() && !p.rest.is(asleep) {
				p.lookOrLog(ctx)
			}
		case <-ctx.Done():
			return
		}
	}
}

// sweep claims until nothing that is due fits, and returns how long to sleep.
func (p *Pipeline) sweep(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		ready, next := p.agenda.due(p.clock.Now())
		p.metrics.DueReady.Set(float64(len(ready)))
		if !p.cfg.Roles.Deliver {
			for _, no := range ready {
				p.agenda.drop(no) // others' work; endings are found by look
			}
			return farAhead
		}
		if len(ready) > 0 && !p.load.overburdened() && p.mayClaim(ctx) {
			if wants := p.want(ctx, ready); len(wants) > 0 {
				err := p.claim(ctx, wants)
				if err == nil {
					continue
				}
				if ctx.Err() == nil {
					p.log.WarnContext(ctx, "claim failed", "err", err)
					return time.Second
				}
			}
		}
		wait := farAhead
		if !next.IsZero() {
			wait = min(wait, max(time.Millisecond, next.Sub(p.clock.Now())))
		}
		if len(ready) > 0 {
			wait = min(wait, time.Second) // full lanes, or no fresh beat: freed room wakes us sooner
		}
		return wait
	}
	return farAhead
}

// mayClaim reports whether the beat is fresh, waking a resting replica.
func (p *Pipeline) mayClaim(ctx context.Context) bool {
	if err := p.awake(ctx); err != nil {
		if ctx.Err() == nil {
			p.log.WarnContext(ctx, "there is due work, but no heartbeat", "err", err)
		}
		return false
	}
	return p.life.fresh(p.epoch())
}

func (p *Pipeline) lookOrLog(ctx context.Context) {
	if err := p.look(ctx); err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "look at the due table failed", "err", err)
	}
}

// look notes every endpoint that has due work, and ends what has expired behind
// closed endpoints and what belongs to deleted ones.
func (p *Pipeline) look(ctx context.Context) error {
	p.looking.Lock()
	defer p.looking.Unlock()
	p.lookAgain()
	call, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	due, err := p.store.DueEndpoints(call)
	if err != nil {
		return err
	}
	now := p.clock.Now()
	var failed error
	for _, d := range after(due, p.lookedAt) {
		err := p.lookAt(call, d, now)
		if err != nil && call.Err() != nil {
			return err // the next look goes on with this one
		}
		p.lookedAt = d.Endpoint
		if err != nil { // perhaps of this one alone: it must not hold up the others
			failed = err
		}
	}
	return failed
}

// after returns endpoints in the order of a look that goes on where the last one
// stopped: those with a higher number first. They are sorted by number.
func after(due []store.EndpointDue, last store.EndpointNo) []store.EndpointDue {
	at, _ := slices.BinarySearchFunc(due, last+1, func(d store.EndpointDue, no store.EndpointNo) int { return cmp.Compare(d.Endpoint, no) })
	return slices.Concat(due[at:], due[:at])
}

// lookAt does so for one endpoint.
func (p *Pipeline) lookAt(ctx context.Context, d store.EndpointDue, now time.Time) error {
	e, err := p.routing.endpointSoon(ctx, d.Endpoint)
	switch {
	case err != nil:
		return err
	case e == nil || e.deleted():
		return p.endDeleted(ctx, d.Endpoint)
	case e.attemptable() && p.cfg.Roles.Deliver:
		at := d.NextAt
		if e.ordered() {
			at = d.TryAt
		}
		at = laterTime(at, laterTime(p.heldUntil(e, now), p.throughs.nextSlot(d.Endpoint, now)))
		p.agenda.note(d.Endpoint, at, now)
		if p.plain(e, now) {
			return nil
		}
		return p.endExpired(ctx, d.Endpoint) // what waits long may be past its deadline before its turn comes
	case e.open():
		p.hint(d, now)
		if !e.isHandler() {
			return nil
		}
		return p.endExpired(ctx, d.Endpoint) // perhaps nobody registers it any more
	default:
		return p.endExpired(ctx, d.Endpoint)
	}
}

// hint is what was last said of work that only others can attempt.
type hint struct {
	nextAt time.Time
	saidAt time.Duration // uptime
}

// hintAgain is how soon the same is said once more, while this replica is awake.
const hintAgain = 30 * time.Second

// hint tells those who can attempt it of due work: they may have missed it. Not at
// each look: where nobody can, two replicas would keep each other awake for good.
func (p *Pipeline) hint(d store.EndpointDue, now time.Time) {
	last, said := p.hinted[d.Endpoint]
	if d.NextAt.After(now.Add(lookEvery)) || said && last.nextAt.Equal(d.NextAt) && uptime()-last.saidAt < hintAgain {
		return
	}
	p.hinted[d.Endpoint] = hint{nextAt: d.NextAt, saidAt: uptime()}
	p.waker.wake(d.Endpoint)
}

// waker tells other replicas of due work, at most every wakeEvery and never one
// message an event.
type waker struct {
	mu      sync.Mutex
	waiting map[store.EndpointNo]struct{}
	look    bool // the others are to look for themselves
	arrived chan struct{}
	alone   atomic.Bool // no other replica is registered
	blind   func() bool // alone is of too long ago to be believed: this replica sleeps
}

const (
	wakeEvery = 50 * time.Millisecond
	// wakeAgain is the pause before hints are sent again that did not get through.
	wakeAgain = time.Second
)

func newWaker() *waker {
	return &waker{waiting: map[store.EndpointNo]struct{}{}, arrived: make(chan struct{}, 1), blind: func() bool { return false }}
}

// wake tells the others that an endpoint has due work.
func (w *waker) wake(no store.EndpointNo) {
	w.mu.Lock()
	w.waiting[no] = struct{}{}
	w.mu.Unlock()
	w.speak()
}

// wakeAll tells the others that something has changed which makes work due, or ends it.
func (w *waker) wakeAll() {
	w.mu.Lock()
	w.look = true
	w.mu.Unlock()
	w.speak()
}

// speak has the hints sent, unless this replica knows that it is alone.
func (w *waker) speak() {
	if !w.alone.Load() || w.blind() {
		poke(w.arrived)
	}
}

// company notes whether there are other replicas. One that has just come is
// told what was said before it was seen.
func (w *waker) company(others int) {
	if was := w.alone.Swap(others == 0); was && others > 0 {
		poke(w.arrived)
	}
}

// take returns the hints that wait. look: the others are to look for themselves.
func (w *waker) take() (due []store.EndpointNo, look bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	due = make([]store.EndpointNo, 0, len(w.waiting))
	for no := range w.waiting {
		due = append(due, no)
	}
	clear(w.waiting)
	look, w.look = w.look, false
	return due, look
}

// holds reports whether hints wait.
func (w *waker) holds() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.look || len(w.waiting) > 0
}

// putBack keeps hints that did not get through.
func (w *waker) putBack(due []store.EndpointNo, look bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, no := range due {
		w.waiting[no] = struct{}{}
	}
	w.look = w.look || look
}

// tellOthers sends the hints that wait. Those that don't get through wait on.
func (p *Pipeline) tellOthers(ctx context.Context) error {
	due, look := p.waker.take()
	var err error
	if look {
		err = p.store.Wake(ctx, nil)
	}
	if len(due) > 0 && err == nil {
		err = p.store.Wake(ctx, due)
	}
	if err != nil {
		p.waker.putBack(due, look)
		return fmt.Errorf("wake the other replicas: %w", err)
	}
	return nil
}

func (p *Pipeline) runWaker(ctx context.Context) {
	for {
		select {
		case <-p.waker.arrived:
		case <-ctx.Done():
			return
		}
		p.pause(ctx, wakeEvery)
		if err := p.tellOthers(ctx); err != nil {
			if ctx.Err() == nil { // else the end of the engine tells them
				p.log.DebugContext(ctx, "hints for the other replicas wait", "err", err)
			}
			p.pause(ctx, wakeAgain)
			poke(p.waker.arrived)
		}
	}
}

// runListen takes hints from other replicas, and connects again when the
// connection is lost.
func (p *Pipeline) runListen(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.store.Listen(ctx, func(endpoints []store.EndpointNo) {
			p.watch()
			if len(endpoints) == 0 {
				poke(p.lookSoon) // hints may have been missed before we listened
			}
			now := p.clock.Now()
			for _, no := range endpoints {
				if e := p.routing.current(no); e == nil || !e.isHandler() || e.attemptable() {
					p.agenda.note(no, now, now)
				}
			}
		})
		if ctx.Err() == nil {
			p.log.WarnContext(ctx, "listening for other replicas was interrupted", "err", err)
			p.watch() // what is said now, we don't hear
			p.pause(ctx, time.Second)
		}
	}
}
