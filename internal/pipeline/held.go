package pipeline

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// What holds the work of an endpoint.
const (
	HeldByPause      = "paused"
	HeldByDisabling  = "disabled"
	HeldByBreaker    = "breaker"
	HeldByRetryAfter = "retry_after"
)

// Held says what holds the work of an endpoint; By is "" where nothing does.
type Held struct {
	By    string
	Until time.Time // zero: until somebody undoes it
}

// HeldBy returns what holds the work of each of the endpoints, as far as this replica
// knows: a gate of another one's, a second late.
func (p *Pipeline) HeldBy(ctx context.Context, endpoints []store.EndpointNo) map[store.EndpointNo]Held {
	now := p.clock.Now()
	out := make(map[store.EndpointNo]Held, len(endpoints))
	for _, no := range endpoints {
		if _, known := out[no]; known {
			continue
		}
		e, err := p.routing.endpoint(ctx, no)
		if err != nil || e == nil || e.deleted() {
			out[no] = Held{} // unknown; a deleted one's work is about to end
			continue
		}
		out[no] = heldBy(e, p.gates.state(no), now)
	}
	return out
}

// heldBy puts first what has to be undone first.
func heldBy(e *endpoint, s gate.State, now time.Time) Held {
	until := s.Hold(e.policy, now)
	switch {
	case e.row.Disabled:
		return Held{By: HeldByDisabling}
	case e.row.Paused:
		return Held{By: HeldByPause}
	case until.IsZero():
		return Held{}
	case s.RetryAfterUntil.Equal(until):
		return Held{By: HeldByRetryAfter, Until: until}
	}
	return Held{By: HeldByBreaker, Until: until}
}
