package pipeline

import (
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// maxRun is the most deliveries of an ordered endpoint that one claim leases.
	maxRun = 128
	// runTime is how long a run may take at the endpoint's pace: a skip, a pause and the
	// failure of a replica concern all that is leased.
	runTime = time.Second
)

// runLengths are the lengths of the next runs of ordered endpoints. A run has one delivery at
// first. It doubles with each run that came to its end, and starts again at one after a run
// that did not: so an endpoint that fails costs no leases that are given back unused.
type runLengths struct {
	mu   sync.Mutex
	byNo map[store.EndpointNo]runLength
}

type runLength struct {
	most int           // 2 at least; an endpoint that is not in the map has 1
	pace time.Duration // moving average of an attempt's duration
}

func newRunLengths() *runLengths { return &runLengths{byNo: map[store.EndpointNo]runLength{}} }

// next returns how many deliveries the endpoint's next run may have, so that it takes no
// longer than within.
func (r *runLengths) next(no store.EndpointNo, within time.Duration) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byNo[no]
	n := max(1, l.most)
	if l.pace > 0 {
		n = min(n, max(1, int(within/l.pace)))
	}
	return n
}

// ended notes a run that came to its end, whose last attempt took so long.
func (r *runLengths) ended(no store.EndpointNo, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byNo[no]
	if l.pace == 0 {
		l.pace = took
	}
	l.pace += (took - l.pace) / 8
	l.most = min(maxRun, 2*max(1, l.most))
	r.byNo[no] = l
}

// cut notes a run that did not come to its end.
func (r *runLengths) cut(no store.EndpointNo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byNo, no)
}

// conclude hands on what became of an item. The next item of its run follows if this one
// has reached its terminal state by a success, or without an attempt. Otherwise the rest of the
// run is given back unsent. Outcomes are settled in the order of this call, so what a
// crash leaves unsettled of a run is always its end.
func (p *Pipeline) conclude(o outcome) {
	r, no := o.item.run, o.item.lease.Endpoint
	if r == nil {
		p.settle(o)
		return
	}
	state, attempt := o.settlement.State, o.settlement.Attempt
	if state == posthaste.StateDelivered || state == posthaste.StateDead && attempt == nil {
		last := p.lanes.isLast(r)
		o.silent = !last
		p.settle(o)
		if !last {
			return
		}
		if attempt != nil {
			p.runs.ended(no, attempt.Timings.Total)
		}
	} else {
		p.settle(o)
		for _, it := range p.lanes.cut(r) {
			rest := p.unstarted(it, verdict{why: "run cut"})
			rest.silent = state == posthaste.StatePending // the next attempt is this one's again
			p.settle(rest)
		}
		p.runs.cut(no)
	}
	poke(p.basket.full) // the next run waits for it
}
