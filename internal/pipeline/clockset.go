package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/posthaste-dev/posthaste/internal/retry"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// mintedAhead is how far ids may be ahead of the clock before they are minted from
	// the clock again, under a new epoch.
	mintedAhead = time.Minute
	// waitSlack is added to the longest wait of an endpoint before its work counts as waiting
	// for a wrong time.
	waitSlack = time.Minute
	// orderedAhead is how far ahead of the clock a position of an ordered endpoint may be.
	orderedAhead = time.Hour
	// pullBackEndpoints and pullBackStep bound one statement that pulls back.
	pullBackEndpoints = 500
	pullBackStep      = 1000
)

// clockWasSet is called when the database's clock was set. Times that memory holds were
// taken from the clock before. Where it was set back, rows may wait for a time that is
// far away, and ids go on from there: the minter begins anew, which takes a new
// epoch, since ids of the old one may not be below its low-water mark.
func (p *Pipeline) clockWasSet(ctx context.Context, step time.Duration) error {
	p.log.WarnContext(ctx, "the database's clock was set", "by", step.Round(time.Second))
	p.gates.forget()
	p.throughs.forget()
	p.agenda.forget()
	p.lookAfresh.Store(true)
	poke(p.lookSoon)
	if step > 0 {
		return nil
	}
	p.requestReconcile()
	if now := p.clock.Now(); p.ledger.ahead(now) > mintedAhead {
		p.ledger.setBack()
		return p.register(ctx, false)
	}
	return nil
}

// longestWait returns what bounds the times of an endpoint's waiting work.
func (e *endpoint) longestWait(now time.Time) store.LongestWait {
	wait := retry.Longest(e.row.Retry)
	if e.ordered() {
		wait = max(wait, orderedAhead)
	}
	return store.LongestWait{Endpoint: e.row.No, Latest: now.Add(wait + waitSlack), ExpiresAt: e.deadlineOf(now)}
}

// pullBack makes due what waits for a time that a wrong clock gave it.
func (p *Pipeline) pullBack(ctx context.Context) error {
	due, err := p.store.DueEndpoints(ctx)
	if err != nil {
		return fmt.Errorf("look for work that waits too long: %w", err)
	}
	for len(due) > 0 {
		n := min(len(due), pullBackEndpoints)
		if err := p.pullBackOf(ctx, due[:n]); err != nil {
			return err
		}
		due = due[n:]
	}
	return nil
}

func (p *Pipeline) pullBackOf(ctx context.Context, due []store.EndpointDue) error {
	now := p.clock.Now()
	waits := make([]store.LongestWait, 0, len(due))
	for _, d := range due {
		e, err := p.routing.endpointSoon(ctx, d.Endpoint)
		if err != nil || e == nil || e.deleted() { // the next walk comes by again
			continue
		}
		waits = append(waits, e.longestWait(now))
	}
	for len(waits) > 0 && ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		n, err := p.store.PullBack(call, store.PullBackParams{Endpoints: waits, Now: p.clock.Now(), Limit: pullBackStep})
		cancel()
		if err != nil {
			return fmt.Errorf("pull back work that waits too long: %w", err)
		}
		if n > 0 {
			p.metrics.PulledBack.Add(float64(n))
			p.log.WarnContext(ctx, "work waited for a time that a wrong clock gave it: it is due now", "deliveries", n)
			poke(p.lookSoon)
		}
		if n < pullBackStep {
			return nil
		}
		p.pause(ctx, reconcileRest)
	}
	return nil
}
