package pipeline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// claimCap is the most that one endpoint gets in one claim: a backlog of one
	// never crowds out another.
	claimCap = 64
	// claimEndpoints and claimTotal bound one statement.
	claimEndpoints = 128
	claimTotal     = 512
	claimTimeout   = 5 * time.Second
)

// want picks the endpoints to claim for: ready, open, with room reserved in their lanes.
func (p *Pipeline) want(ctx context.Context, ready []store.EndpointNo) (out []store.ClaimWant) {
	total, most := 0, min(claimTotal, p.lanes.roomToLoad())
	for _, no := range ready {
		if len(out) == claimEndpoints || total >= most {
			break
		}
		from := p.agenda.from(no) // before the endpoint is judged: what is noted after it counts
		e, err := p.routing.endpointSoon(ctx, no)
		switch {
		case errors.Is(err, errStillLoading):
			now := p.clock.Now()
			p.agenda.drop(no)
			p.agenda.note(no, now.Add(time.Second), now)
			continue
		case err != nil: // perhaps of this one alone: it must not hold up the others
			if ctx.Err() == nil {
				p.log.WarnContext(ctx, "an endpoint with due work could not be loaded", "endpoint", no, "err", err)
			}
			now := p.clock.Now()
			p.agenda.drop(no)
			p.agenda.note(no, now.Add(loadPause), now)
			return out
		case e == nil || e.deleted():
			p.endBeside(ctx, no, p.endDeleted)
			continue
		case !e.attemptable():
			p.endBeside(ctx, no, p.endExpired) // whoever opens it notes it again, and a handler is others' work
			continue
		}
		now := p.clock.Now()
		if until := p.heldUntil(e, now); !until.IsZero() {
			p.agenda.drop(no)
			p.agenda.note(no, until, now)
			continue
		}
		if !p.plain(e, now) {
			p.startThrough(ctx, e)
			continue
		}
		n := p.lanes.reserve(no, p.slotsFor(e), min(claimCap, most-total), kind{})
		if n == 0 {
			continue // looked at again when room is freed
		}
		total += n
		out = append(out, store.ClaimWant{Endpoint: no, Cap: n, From: from})
	}
	return out
}

// releaseWants gives back what a failed claim had reserved. Nobody is told: the
// sweep, which would be, is who failed.
func (p *Pipeline) releaseWants(wants []store.ClaimWant) {
	for _, w := range wants {
		p.lanes.release(w.Endpoint, w.Cap, kind{})
	}
}

// claim leases due work of the wanted endpoints and hands it to their lanes.
// Room for all of it is reserved.
func (p *Pipeline) claim(ctx context.Context, wants []store.ClaimWant) error {
	// Not cut short by a shutdown: a claim may commit all the same, and nobody
	// would know what it took.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	got, err := p.store.Claim(call, store.ClaimParams{Epoch: p.epoch(), Now: p.clock.Now(), Want: wants, Tenants: p.routing.versionsOf(wants)})
	cancel()
	if err != nil {
		p.releaseWants(wants)
		if errors.Is(err, store.ErrFenced) {
			return p.renew(ctx)
		}
		p.claimLost()
		return err
	}
	p.refreshBriefly(ctx, got.Newer)
	p.learnGates(got.Shut) // those gave nothing
	count, last := map[store.EndpointNo]int{}, map[store.EndpointNo]time.Time{}
	for _, l := range got.Leases {
		count[l.Endpoint]++
		if l.DueAt.After(last[l.Endpoint]) {
			last[l.Endpoint] = l.DueAt
		}
	}
	for _, w := range wants {
		n := count[w.Endpoint]
		p.lanes.unreserve(w.Endpoint, w.Cap-n, kind{})
		if w.IgnoreGate && n == 0 {
			p.agenda.drop(w.Endpoint)
			continue
		}
		if slices.ContainsFunc(got.Shut, func(g store.Gate) bool { return g.Endpoint == w.Endpoint }) {
			continue // the next look finds it held
		}
		p.agenda.claimed(w.Endpoint, last[w.Endpoint], w.From, n < w.Cap)
	}
	p.metrics.Claimed.Add(float64(len(got.Leases)))
	items := p.itemsOf(got.Leases)
	for _, it := range items {
		it.pastGate = slices.ContainsFunc(wants, func(w store.ClaimWant) bool { return w.IgnoreGate && w.Endpoint == it.lease.Endpoint })
	}
	p.lanes.push(items)
	return nil
}

// itemsOf makes items of leases, with those events that were accepted here lately. The
// loader brings the others.
func (p *Pipeline) itemsOf(leases []store.Lease) []*item {
	items := make([]*item, len(leases))
	for i, l := range leases {
		items[i] = &item{lease: l, event: p.recent.find(l.Delivery.Event())}
	}
	return items
}
