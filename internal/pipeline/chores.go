package pipeline

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// partitionsAhead is how far ahead daily partitions are made.
	partitionsAhead = 48 * time.Hour
	// choreEvery is the shortest time between two looks at what is past its
	// retention; they come with the idle sweep.
	choreEvery = time.Hour
	// retainStep bounds one deleting statement, retainRest spaces them.
	retainStep = 500
	retainRest = 100 * time.Millisecond
)

// runUpkeep is what the leader does now and then: it walks with the reconciler at
// the start, when asked to, and every idle sweep, and does the chores every
// hour. The idle sweep is also when a sleeping replica looks around.
func (p *Pipeline) runUpkeep(ctx context.Context) {
	tick := time.NewTicker(p.cfg.IdleSweep)
	defer tick.Stop()
	p.requestReconcile()
	nextChores := time.Duration(0)
	for {
		select {
		case <-p.reconcileSoon:
			p.pause(ctx, reconcileLag) // let the other replicas take their epochs
		case <-tick.C:
			p.lookUp(ctx)
		case <-ctx.Done():
			return
		}
		if err := p.reconcile(ctx, p.isLeader()); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "reconcile interrupted; trying again", "err", err)
			p.requestReconcile()
		}
		if now := uptime(); now >= nextChores && p.isLeader() && ctx.Err() == nil {
			nextChores = now + choreEvery
			p.chores(ctx)
		}
	}
}

// lookUp beats once where this replica was asleep: who leads, it knows from then.
func (p *Pipeline) lookUp(ctx context.Context) {
	if !p.rest.is(asleep) {
		return
	}
	p.life.mu.Lock()
	alive := p.life.alive
	p.life.mu.Unlock()
	p.watch()
	patience := time.NewTimer(2 * beatTimeout)
	defer patience.Stop()
	select {
	case <-alive:
		p.beating.Lock()   // the beat looks around before it ends
		p.beating.Unlock() //nolint:gocritic // to wait for it is all that the lock is for
	case <-patience.C:
	case <-ctx.Done():
	}
}

// chores makes partitions ahead and deletes what is past its retention.
func (p *Pipeline) chores(ctx context.Context) {
	now := p.clock.Now()
	if err := p.store.MakePartitions(ctx, now, now.Add(partitionsAhead)); err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "make partitions ahead; accepting makes them on the way", "err", err)
	}
	for ctx.Err() == nil {
		if !p.clock.believed() {
			p.log.WarnContext(ctx, "retention waits: the database's clock was set ahead, or is not this machine's")
			return
		}
		call, cancel := context.WithTimeout(ctx, time.Minute)
		got, err := p.store.Retain(call, store.RetainParams{
			Now: p.clock.Now(), Retention: p.cfg.Retention, DeadRetention: p.cfg.DeadRetention,
			IdempotencyWindow: p.cfg.IdempotencyWindow, Limit: retainStep,
		})
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				p.log.WarnContext(ctx, "retention interrupted; it goes on in an hour", "err", err)
			}
			return
		}
		p.observeRetained(ctx, got)
		if !got.More {
			return
		}
		p.pause(ctx, retainRest)
	}
}

func (p *Pipeline) observeRetained(ctx context.Context, got store.Retained) {
	for what, n := range map[string]int{
		"partition": len(got.Partitions), "event": got.Events, "key": got.Keys, "dead": got.PurgedDead, "endpoint": got.Endpoints,
	} {
		p.metrics.Purged.WithLabelValues(what).Add(float64(n))
	}
	if len(got.Partitions) > 0 || got.PurgedDead > 0 {
		p.log.InfoContext(ctx, "retention", "partitions", got.Partitions, "events", got.Events, "purged_dead", got.PurgedDead)
	}
}
