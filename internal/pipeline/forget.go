package pipeline

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// OnRewind has f called whenever the database turns out to be another one, or to have
// gone back in time: what was read from it before counts no more. It is called under the
// lock of the heartbeat and must return at once. Call OnRewind before [Pipeline.Run].
func (p *Pipeline) OnRewind(f func()) { p.rewound = append(p.rewound, f) }

// forget drops everything that memory knows of the database. Numbers of tenants and
// endpoints may mean others now, versions and times that were seen may come again. What is
// under way goes on; its outcome counts as far as the database knows of its lease.
func (p *Pipeline) forget(ctx context.Context) {
	p.routing.forgetAll()
	p.sources.forgetAll()
	p.recent.forget()
	p.gates.forget()
	p.throughs.forget()
	p.agenda.forget()
	p.lookAfresh.Store(true)
	p.life.mu.Lock()
	p.life.others, p.life.strays = map[store.Epoch]*sighting{}, map[posthaste.ID]time.Duration{}
	p.life.mu.Unlock()
	for _, f := range p.rewound {
		f()
	}
	p.metrics.Rewinds.Inc()
	p.log.WarnContext(ctx, "forgot what was read from the database before")
	poke(p.lookSoon)
}

// forgetAll drops all routes and names. A load that is under way may still bring
// some back: their mark tells whether the database knows them.
func (r *routing) forgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.tenants)
	clear(r.byNo)
	clear(r.names)
	clear(r.named)
	clear(r.partial)
	r.gone, r.known, r.beatNow = nil, newRotation(), time.Time{}
}

func (k *knownSources) forgetAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.byID)
}

func (r *recent) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID, r.order, r.first, r.bytes = map[posthaste.ID]*posthaste.Event{}, nil, 0, 0
}

// forget empties the book: the next heartbeat reads the gates again, and until then
// claims ask the database.
func (g *gatebook) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.news = map[store.EndpointNo]gate.State{}, map[store.EndpointNo]*gateNews{}
	clear(g.failing)
	clear(g.locked)
	clear(g.missed)
	g.since = time.Time{}
	g.count()
}

func (t *throughs) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.slots)
}

func (a *agenda) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.buckets)
	a.order = nil
	clear(a.ready)
	a.readyCount.Store(0)
}

// lookAgain drops what the looks before have noted of endpoints, if it is to be forgotten.
// Needs p.looking.
func (p *Pipeline) lookAgain() {
	if p.lookAfresh.Swap(false) {
		clear(p.hinted)
		clear(p.nextExpiry)
		clear(p.expiryWalks)
	}
}
