package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// endStep bounds one statement that ends deliveries, and endSteps how many of them
// follow one another: the next endpoint gets its turn after 100,000 rows.
const (
	endStep  = 1000
	endSteps = 100
)

// endBeside ends what is to end of an endpoint that the sweep came upon, beside the
// sweep. While a look is under way, which may be past this endpoint, it is put off.
func (p *Pipeline) endBeside(ctx context.Context, no store.EndpointNo, end func(context.Context, store.EndpointNo) error) {
	p.agenda.drop(no)
	if !p.looking.TryLock() {
		now := p.clock.Now()
		p.agenda.note(no, now.Add(time.Second), now)
		return
	}
	p.tasks.Go(func() {
		defer p.looking.Unlock()
		if err := end(ctx, no); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "deliveries were not ended; the next look goes on", "endpoint", no, "err", err)
		}
	})
}

// endDeleted ends waiting deliveries of an endpoint that is gone. Whether it is
// gone the statement itself finds out: never judged from memory.
func (p *Pipeline) endDeleted(ctx context.Context, no store.EndpointNo) error {
	for range endSteps {
		n, err := p.store.EndDeleted(ctx, store.EndDeletedParams{Endpoints: []store.EndpointNo{no}, Now: p.clock.Now(), Limit: endStep})
		if err != nil {
			return fmt.Errorf("end the deliveries of a deleted endpoint: %w", err)
		}
		if n > 0 {
			p.metrics.Finished.WithLabelValues(posthaste.StateDead.String(), posthaste.ReasonEndpointDeleted.String()).Add(float64(n))
		}
		if n < endStep {
			p.agenda.drop(no)
			return nil
		}
	}
	now := p.clock.Now()
	p.agenda.note(no, now, now) // there is more
	return nil
}

// expiryWalk is how far a walk through the due rows of a closed endpoint has come,
// which takes several looks if they are many.
type expiryWalk struct {
	after    store.DueKey
	earliest time.Time // of the ends that it passed by
}

// endExpired ends what has expired among the due rows of a closed endpoint; an
// open endpoint's are found when they are claimed.
func (p *Pipeline) endExpired(ctx context.Context, no store.EndpointNo) error {
	now := p.clock.Now()
	if until, ok := p.nextExpiry[no]; ok && now.Before(until) || !p.clock.believed() {
		return nil
	}
	walk := p.expiryWalks[no]
	for range endSteps {
		got, err := p.store.EndExpired(ctx, store.EndExpiredParams{Endpoint: no, After: walk.after, Now: now, Limit: endStep})
		if err != nil {
			return fmt.Errorf("end expired deliveries of a closed endpoint: %w", err)
		}
		p.metrics.Finished.WithLabelValues(posthaste.StateDead.String(), posthaste.ReasonExpired.String()).Add(float64(got.Ended))
		walk.earliest = soonest(walk.earliest, got.NextExpiry)
		if walk.after = got.Next; walk.after == (store.DueKey{}) {
			// New rows have a later end than old ones, except after a change of the deadline.
			delete(p.expiryWalks, no)
			delete(p.nextExpiry, no) // what comes next may come at once
			if !walk.earliest.IsZero() {
				p.nextExpiry[no] = soonest(walk.earliest, now.Add(time.Minute))
				p.agenda.note(no, walk.earliest, now) // so that an engine with nothing else to do wakes for it
			}
			return nil
		}
		p.expiryWalks[no] = walk
	}
	p.agenda.note(no, now, now) // there is more
	return nil
}

// soonest returns the earlier of two times; a zero one is none.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
