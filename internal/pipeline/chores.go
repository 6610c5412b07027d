package pipeline

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// partitionsAhead is how far ahead daily partitions are made.
	partitionsAhead = 48 * time.Hour
	// choreEvery is how often the leader looks for what is past its retention.
	choreEvery = time.Hour
	// retainStep bounds one deleting statement, retainRest spaces them.
	retainStep = 500
	retainRest = 100 * time.Millisecond
)

// runChores makes partitions ahead and deletes what is past its retention, on
// the leader, at the start and every hour.
func (p *Pipeline) runChores(ctx context.Context) {
	tick := time.NewTicker(choreEvery)
	defer tick.Stop()
	for {
		if p.isLeader() {
			p.chores(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *Pipeline) chores(ctx context.Context) {
	now := p.clock.Now()
	if err := p.store.MakePartitions(ctx, now, now.Add(partitionsAhead)); err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "make partitions ahead; accepting makes them on the way", "err", err)
	}
	for ctx.Err() == nil {
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
		"partition": len(got.Partitions), "event": got.Events, "key": got.Keys, "dead": got.PurgedDead,
	} {
		p.metrics.Purged.WithLabelValues(what).Add(float64(n))
	}
	if len(got.Partitions) > 0 || got.PurgedDead > 0 {
		p.log.InfoContext(ctx, "retention", "partitions", got.Partitions, "events", got.Events, "purged_dead", got.PurgedDead)
	}
}
