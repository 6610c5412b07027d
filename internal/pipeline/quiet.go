package pipeline

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// An engine with nothing to do leaves its database asleep: with nothing leased
// and nothing due it issues no statement until a request comes, the next due
// time, a hint of another replica, or the idle sweep.
//
// A replica is in one of three moods, and shortly in a fourth on its way to the first:
//
//	working   beats every second, busy: it may lease
//	watching  beats every second, not busy: another replica is busy, and may have
//	          to be reclaimed, which takes a witness whose own beats are unbroken
//	asleep    no statement; its row stays, not busy, and nobody minds that it is silent
type mood int32

const (
	working mood = iota
	waking       // beats busy for the first time; who comes meanwhile waits for it
	watching
	asleep
)

// quietFor is how long there must have been no work before a replica rests.
const quietFor = 3 * time.Second

// rest is how a replica falls asleep and is woken.
type rest struct {
	mood     atomic.Int32
	lastWork atomic.Int64 // uptime
	hints    atomic.Int64 // words of other replicas that they work
	turn     sync.Mutex   // one change of mood at a time
	falling  atomic.Bool  // the last look before sleeping is under way
	failedAt atomic.Int64 // uptime when waking failed last; failure says why
	failure  error        // under turn
	woken    chan struct{}
}

func newRest() *rest { return &rest{woken: make(chan struct{}, 1)} }

func (r *rest) is(m mood) bool { return mood(r.mood.Load()) == m }

// worked notes that there is work.
func (r *rest) worked() { r.lastWork.Store(int64(uptime())) }

// awake makes sure that this replica may lease: it beats, busy, if it was
// resting. Whoever is about to accept or claim calls it after making itself visible
// to quiet, so that one of the two sees the other.
func (p *Pipeline) awake(ctx context.Context) error {
	p.rest.worked()
	if p.rest.is(working) {
		return nil
	}
	if err := p.wakeUp(ctx, uptime()); err != nil {
		return err
	}
	if p.waker.alone.Load() {
		return nil
	}
	if err := p.store.Wake(ctx, nil); err != nil {
		p.log.DebugContext(ctx, "tell the other replicas of work", "err", err) // they look when they wake; until then nobody watches us
	}
	return nil
}

// wakeUp beats for the first time after a rest. Those who have waited for it
// since before it failed share the failure: the next one tries anew.
func (p *Pipeline) wakeUp(ctx context.Context, asked time.Duration) error {
	p.rest.turn.Lock()
	defer p.rest.turn.Unlock()
	was := mood(p.rest.mood.Load())
	if was == working {
		return nil
	}
	if time.Duration(p.rest.failedAt.Load()) > asked {
		return p.rest.failure
	}
	p.rest.mood.Store(int32(waking))
	if err := p.firstBeat(ctx); err != nil {
		p.rest.mood.Store(int32(was))
		if ctx.Err() == nil { // else it failed for this caller alone
			p.rest.failure = err
			p.rest.failedAt.Store(int64(uptime()))
		}
		return err
	}
	p.rest.mood.Store(int32(working))
	poke(p.rest.woken)
	return nil
}

// firstBeat beats after a rest. The connections of the pool may have been closed
// meanwhile: that costs time, not an error.
func (p *Pipeline) firstBeat(ctx context.Context) (err error) {
	for end := uptime() + wakePatience; ; p.pause(ctx, 50*time.Millisecond) {
		if err = p.renew(ctx); err == nil || !errors.Is(err, store.ErrUnavailable) || uptime() > end || ctx.Err() != nil {
			return err
		}
	}
}

// wakePatience is how long a replica that wakes tries to reach the database.
const wakePatience = 3 * time.Second

// quiet reports whether there has been nothing to do for a while.
func (p *Pipeline) quiet() bool {
	return uptime()-time.Duration(p.rest.lastWork.Load()) > quietFor &&
		!p.ledger.unresolved() && p.claimsLost.Load() == 0 && !p.life.hasStrays() && p.load.uncommitted.Load() == 0 && p.load.unrecorded.Load() == 0 && !p.lanes.any() && p.agenda.idle()
}

// beatOrRest is what the beat does each second: it renews a working replica, and
// lets a quiet one rest.
func (p *Pipeline) beatOrRest(ctx context.Context) error {
	if !p.quiet() {
		return p.renewWorking(ctx)
	}
	hints := p.rest.hints.Load() // before the others are looked at
	if settled, err := p.settleDown(ctx); err != nil || !settled || p.othersBusy() {
		return err
	}
	if p.rest.falling.CompareAndSwap(false, true) {
		p.tasks.Go(func() { // not here: to end a million deliveries takes a while, and work may come that needs a beat
			defer p.rest.falling.Store(false)
			p.fallAsleep(ctx, hints)
		})
	}
	return nil
}

// fallAsleep takes the last look before sleeping: whatever is due later is on the agenda
// then. What another replica makes due from now on, it tells us, or works on itself.
func (p *Pipeline) fallAsleep(ctx context.Context, hints int64) {
	worked := p.rest.lastWork.Load()
	if err := p.look(ctx); err != nil {
		if ctx.Err() == nil {
			p.log.WarnContext(ctx, "the last look before sleeping failed; trying again", "err", err)
		}
		return
	}
	p.rest.turn.Lock()
	defer p.rest.turn.Unlock()
	if p.rest.lastWork.Load() != worked { // work came and went, which the look did not see
		return
	}
	if !p.quiet() || p.othersBusy() || !p.rest.mood.CompareAndSwap(int32(watching), int32(asleep)) {
		return
	}
	if p.rest.hints.Load() != hints { // said while we fell asleep
		p.watch()
		return
	}
	if p.waker.holds() { // said since the last heartbeat: somebody may have come meanwhile
		poke(p.waker.arrived)
	}
	p.log.DebugContext(ctx, "nothing to do: leaving the database asleep")
}

// settleDown beats as one that watches. False: work came between.
func (p *Pipeline) settleDown(ctx context.Context) (bool, error) {
	p.rest.turn.Lock()
	was := mood(p.rest.mood.Swap(int32(watching)))
	if !p.quiet() { // something came between the look and the swap
		p.rest.mood.Store(int32(was))
		p.rest.turn.Unlock()
		return false, p.renewWorking(ctx)
	}
	defer p.rest.turn.Unlock()
	if err := p.renew(ctx); err != nil {
		p.rest.mood.Store(int32(was))
		return false, err
	}
	return true, nil
}

// renewWorking beats for a replica that works; one that was resting begins to.
func (p *Pipeline) renewWorking(ctx context.Context) error {
	if p.rest.is(working) {
		return p.renew(ctx)
	}
	return p.awake(ctx)
}

// othersBusy reports whether another replica was busy at the last look. One that
// is dead stays so until it is reclaimed, for which somebody has to watch.
func (p *Pipeline) othersBusy() bool {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	for _, s := range p.life.others {
		if s.busy {
			return true
		}
	}
	return false
}

// watch makes a sleeping replica look around: another one has begun to work.
func (p *Pipeline) watch() {
	p.rest.hints.Add(1)
	if p.rest.mood.CompareAndSwap(int32(asleep), int32(watching)) {
		poke(p.rest.woken)
	}
}

// runBeat beats every second while the replica works or watches, and waits
// while it is asleep.
func (p *Pipeline) runBeat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		if p.rest.is(asleep) {
			select {
			case <-p.rest.woken: // perhaps a token of an earlier waking: look again
				tick.Reset(beatEvery)
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := p.beatOrRest(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			p.log.WarnContext(ctx, "heartbeat failed", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// beatParams is what a beat says of this replica.
func (p *Pipeline) beatParams() store.BeatParams {
	idle := p.rest.is(watching) || p.rest.is(asleep)
	tenants, since := p.routing.versions()
	p.life.mu.Lock()
	epoch, seen := p.life.epoch, p.life.rowSeen
	p.life.mu.Unlock()
	return store.BeatParams{Epoch: epoch, Seen: seen, Tenants: tenants, RoutingSince: since, Idle: idle, Delivers: p.cfg.Roles.Deliver, Gates: p.gates.known(p.clock.Now())}
}
