package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	beatEvery   = time.Second
	beatTimeout = 2 * time.Second
	// maxClaimTime is longer than any claim may take from its commit until its
	// leases are in memory.
	maxClaimTime = 10 * time.Second
	// strayMemory is how long a stray is remembered that was not seen again.
	strayMemory = 3 * maxClaimTime
)

// life is this replica's place among the others: its epoch, how fresh its beat
// is, and what it has seen of theirs.
type life struct {
	mu       sync.Mutex
	epoch    store.Epoch
	beatAt   time.Duration // sinceBoot when the last successful beat began; 0: none
	beatSeen time.Duration // uptime when it ended
	rowSeen  time.Time     // beat_at of the row as it was read last
	lowWater posthaste.ID
	alive    chan struct{} // closed and replaced at every beat: wakes those who wait for one
	leader   bool
	peers    int // replicas that make attempts, this one included
	rank     int // of those, how many have a lower epoch

	unbroken time.Duration // sinceBoot since which no beat failed or was late
	others   map[store.Epoch]*sighting
	strays   map[posthaste.ID]time.Duration // owned rows that memory doesn't know, by when they were first seen
}

func newLife() *life {
	return &life{alive: make(chan struct{}), others: map[store.Epoch]*sighting{}, strays: map[posthaste.ID]time.Duration{}}
}

func (p *Pipeline) epoch() store.Epoch {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	return p.life.epoch
}

// fresh reports whether the beat is young enough for work of the epoch to
// start: well before another replica could take us for dead.
func (l *life) fresh(epoch store.Epoch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch == epoch && l.beatAt != 0 && sinceBoot()-l.beatAt < store.FreshBeat
}

// beatSince reports whether a heartbeat was answered that was sent after t, a time of sinceBoot.
func (l *life) beatSince(t time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beatAt > t
}

// recent is fresh without the machine's sleep: good enough to turn events away
// early, since the fence in the database decides.
func (l *life) recent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beatAt != 0 && uptime()-l.beatSeen < store.FreshBeat
}

// renew beats, and takes a new epoch if the row of this one is gone or the database has
// gone back. It returns nil when the epoch is fresh.
func (p *Pipeline) renew(ctx context.Context) error {
	p.beating.Lock() // one beat at a time
	defer p.beating.Unlock()
	err := p.beat(ctx)
	switch {
	case errors.Is(err, store.ErrRewound):
		p.log.WarnContext(ctx, "the database is another one, or has gone back in time: taking a new epoch", "epoch", p.epoch())
		err = p.register(ctx, true)
	case errors.Is(err, store.ErrFenced):
		p.log.WarnContext(ctx, "others took this replica for dead, or its row was removed: taking a new epoch", "epoch", p.epoch())
		err = p.register(ctx, false)
	}
	if err != nil {
		p.metrics.BeatFailures.Inc()
		p.life.mu.Lock()
		p.life.unbroken = 0
		p.life.mu.Unlock()
	}
	return err
}

func (p *Pipeline) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	began := sinceBoot()
	low, err := p.verifiedLowWater(ctx)
	if err != nil {
		return err
	}
	params := p.beatParams()
	params.LowWater = low
	asked := p.clock.wall()
	beat, err := p.store.Beat(ctx, params)
	if err != nil {
		return err
	}
	step := p.clock.observe(beat.Now, asked, p.clock.wall())
	p.routing.beaten(beat.Now, beat.Newer)
	p.life.alivened(params.Epoch, began, beat.Now, low)
	p.lookAround(ctx, beat.Replicas)
	if step != 0 {
		if err := p.clockWasSet(ctx, step); err != nil {
			return err
		}
	}
	p.learnGates(beat.Gates)
	if p.gates.known(p.clock.Now()).IsZero() { // as they could not be read at the start
		if err := p.loadGates(ctx); err != nil {
			p.log.WarnContext(ctx, "the gates are not known yet", "err", err)
		}
	}
	p.lanes.resize(p.slotsOf)
	return nil
}

// alivened notes a successful beat and wakes those who wait for it.
func (l *life) alivened(epoch store.Epoch, began time.Duration, row time.Time, low posthaste.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unbroken == 0 || began-l.beatAt > store.FreshBeat {
		l.unbroken = began
	}
	l.epoch, l.beatAt, l.rowSeen, l.lowWater = epoch, began, row, low
	l.beatSeen = uptime()
	close(l.alive)
	l.alive = make(chan struct{})
}

// register takes a new epoch. Work leased under the old one is given back where
// it has not started; what is under way ends and settles under the old epoch,
// as far as nobody has revoked it. Where the database has gone back, what memory knows of
// it is forgotten before work of the new epoch begins.
//
//nolint:revive // rewound is a fact about the database, not a way to work
func (p *Pipeline) register(ctx context.Context, rewound bool) error {
	began := sinceBoot()
	asked := p.clock.wall()
	low, _ := p.ledger.lowWater(p.clock.Now())
	got, err := p.store.Register(ctx, store.RegisterParams{Name: p.cfg.Replica, LowWater: low, Delivers: p.cfg.Roles.Deliver, Last: p.epoch()})
	if err != nil {
		err = fmt.Errorf("register as a replica: %w", err)
		if errors.Is(err, store.ErrConflict) { // no waiting cures it
			select {
			case p.nameLost <- err:
			default:
			}
		}
		return err
	}
	p.clock.observe(got.Now, asked, p.clock.wall())
	old := p.epoch()
	if rewound || got.Rewound {
		p.forget(ctx)
	}
	p.life.alivened(got.Epoch, began, got.Now, low)
	p.metrics.Epochs.Inc()
	p.log.InfoContext(ctx, "replica registered", "replica", p.cfg.Replica, "epoch", got.Epoch, "reclaimed", got.Reclaimed)
	p.giveBack(p.lanes.recall(func(it *item) bool { return it.lease.Epoch != got.Epoch }), "new epoch")
	p.metrics.Lost.WithLabelValues("register").Add(float64(got.Reclaimed))
	for _, ep := range got.Endpoints {
		p.agenda.note(ep, got.Now, got.Now)
		p.waker.wake(ep)
	}
	if old != 0 || got.Reclaimed > 0 {
		p.requestReconcile() // whoever emptied replicas may have emptied more
	}
	return nil
}

// lowWaterStep is how much of the id space the first look covers; each further
// one covers twice as much. After a long attempt, or a sleep, the range is long.
const lowWaterStep = 30 * time.Second

// verifiedLowWater returns how far the low-water mark may be raised: below the
// first unresolved id, over a range in which the database knows no lease of
// ours that memory has forgotten.
func (p *Pipeline) verifiedLowWater(ctx context.Context) (posthaste.ID, error) {
	p.life.mu.Lock()
	epoch, low := p.life.epoch, p.life.lowWater
	p.life.mu.Unlock()
	candidate, abandoned := p.ledger.lowWater(p.clock.Now())
	from := low
	for step, end := lowWaterStep, uptime()+beatTimeout/4; low.Compare(candidate) < 0 && uptime() < end; step *= 2 {
		to := candidate
		if far := posthaste.FloorID(low.Time().Add(step)); far.Compare(candidate) < 0 {
			to = far
		}
		owned, err := p.ownedBelow(ctx, epoch, low, to, abandoned)
		if err != nil && low != from {
			return low, nil // the rest is for the next beat
		}
		if err != nil {
			return low, err
		}
		strays, adopted := p.adopt(owned, abandoned, to)
		if len(strays) > 0 {
			return low, p.revokeStrays(ctx, epoch, strays)
		}
		if adopted {
			return low, nil // their entries hold the mark now
		}
		low = to
	}
	return low, nil
}

// ownedBelow lists the leases of the epoch in [low, to) that memory does not know. Where
// commits were given up in that range it first makes sure that they cannot happen any
// more: an accept that was held up on its way would store what nobody looks for.
func (p *Pipeline) ownedBelow(ctx context.Context, epoch store.Epoch, low, to posthaste.ID, abandoned []*entry) ([]store.Lease, error) {
	unknown := func(owned []store.Lease) []store.Lease {
		return slices.DeleteFunc(owned, func(l store.Lease) bool { return p.lanes.holds(l.Delivery) })
	}
	if !slices.ContainsFunc(abandoned, func(e *entry) bool { return e.id.Compare(to) < 0 }) {
		owned, err := p.store.Owned(ctx, store.OwnedParams{Epoch: epoch, From: low, To: to})
		return unknown(owned), err
	}
	var left []store.Lease
	err := p.store.RaiseLowWater(ctx, store.RaiseLowWaterParams{Epoch: epoch, From: low, To: to}, func(owned []store.Lease) bool {
		left = unknown(owned)
		return len(left) == 0
	})
	return left, err
}

// adopt takes over leases of events whose commit was given up and turns out to
// have happened: they were never started, so they go to their lanes. The fate of
// every abandoned entry below to is known then. What is left are strays.
func (p *Pipeline) adopt(owned []store.Lease, abandoned []*entry, to posthaste.ID) (strays []store.Lease, adopted bool) {
	byEvent := map[posthaste.ID]*entry{}
	for _, e := range abandoned {
		if e.id.Compare(to) < 0 {
			byEvent[e.id] = e
		}
	}
	var items []*item
	for _, lease := range owned {
		e := byEvent[lease.Delivery.Event()]
		if e == nil || lease.Number != 1 {
			strays = append(strays, lease)
			continue
		}
		p.ledger.hold(e, 1)
		p.lanes.force(lease.Endpoint, p.slotsOf(lease.Endpoint))
		items = append(items, &item{lease: lease, entry: e, born: true})
	}
	for _, e := range byEvent {
		p.ledger.resolve(e)
	}
	p.lanes.push(items)
	return strays, len(items) > 0
}

// revokeStrays revokes leases that memory has not known for longer than a claim
// can take: what was forgotten is found again, at the price of a lost attempt.
func (p *Pipeline) revokeStrays(ctx context.Context, epoch store.Epoch, leases []store.Lease) error {
	now := sinceBoot()
	var forgotten []store.HeldLease
	p.life.mu.Lock()
	for _, l := range leases {
		since, known := p.life.strays[l.Delivery]
		switch {
		case !known:
			p.life.strays[l.Delivery] = now
		case now-since > maxClaimTime:
			forgotten = append(forgotten, l.Held())
			delete(p.life.strays, l.Delivery)
		}
	}
	for id, since := range p.life.strays { // those that found their way
		if now-since > strayMemory {
			delete(p.life.strays, id)
		}
	}
	p.life.mu.Unlock()
	n, err := p.revokeForgotten(ctx, epoch, forgotten)
	p.metrics.Lost.WithLabelValues("low_water").Add(float64(n))
	return err
}

// revokeForgotten revokes those of the leases that memory still doesn't know, and
// returns how many. They are due then; the sweep looks for them.
func (p *Pipeline) revokeForgotten(ctx context.Context, epoch store.Epoch, leases []store.HeldLease) (int, error) {
	leases = slices.DeleteFunc(leases, func(l store.HeldLease) bool { return p.lanes.holds(l.Delivery) })
	if len(leases) == 0 {
		return 0, nil
	}
	n, err := p.store.Revoke(ctx, store.RevokeParams{Epoch: epoch, Leases: leases, Now: p.clock.Now()})
	if err != nil {
		return 0, fmt.Errorf("revoke forgotten leases: %w", err)
	}
	p.log.WarnContext(ctx, "found leases that memory had forgotten", "revoked", n)
	poke(p.lookSoon)
	return n, nil
}

// hasStrays reports whether a lease was seen lately that memory didn't know.
func (l *life) hasStrays() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := sinceBoot()
	for _, since := range l.strays {
		if now-since <= strayMemory {
			return true
		}
	}
	return false
}

// awaitFresh waits for a fresh beat of the epoch. A beat, a new epoch and the end
// of the engine end the wait. False: work of the epoch may never start again, because
// the epoch is over or the engine stops.
func (p *Pipeline) awaitFresh(epoch store.Epoch) bool {
	for {
		p.life.mu.Lock()
		alive, current := p.life.alive, p.life.epoch
		p.life.mu.Unlock()
		switch {
		case current != epoch || p.starting.Err() != nil:
			return false
		case p.life.fresh(epoch):
			return true
		}
		select {
		case <-alive:
		case <-p.starting.Done():
			return false
		}
	}
}
