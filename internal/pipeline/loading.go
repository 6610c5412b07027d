package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// maxLoadEvents and maxLoadBytes bound one load of events.
	maxLoadEvents = 256
	maxLoadBytes  = 4 << 20
	// loadTimeout bounds a load of several events. The next one is half as large.
	loadTimeout = 10 * time.Second
	// loadOneTimeout bounds a load of one event, which can't be smaller.
	loadOneTimeout = 60 * time.Second
	// slowLoad and fastLoad are when loads get smaller and larger.
	slowLoad = time.Second
	fastLoad = 250 * time.Millisecond
	// loadAhead bounds what is leased and not loaded yet, as a time to load it:
	// the rest stays in the database, for replicas with a faster link.
	loadAhead    = 4 * time.Second
	minLoadAhead = 8 // items
	// loadPause is how long work waits that could not be loaded: it must not spin.
	loadPause = 5 * time.Second
)

// loader brings the events of leased deliveries into memory, one load at a time, on
// a connection that nothing else waits for. A load is as large as the link
// to the database brings within a second; one that met its time limit is repeated at
// half its size.
type loader struct {
	maxEvents int
	maxBytes  int
}

// runLoad loads events until ctx ends. What it could not load by then is still in
// the lanes, to be given back.
func (p *Pipeline) runLoad(ctx context.Context) {
	l := loader{maxEvents: maxLoadEvents, maxBytes: maxLoadBytes}
	for ctx.Err() == nil {
		items := p.lanes.takeToLoad(l.maxEvents)
		if len(items) == 0 {
			select {
			case <-p.lanes.toLoad: // an item without its event came, or bytes were freed
			case <-ctx.Done():
			}
			continue
		}
		if err := p.loadItems(ctx, &l, items); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "events could not be loaded", "events", l.maxEvents, "err", err)
			if !errors.Is(err, context.DeadlineExceeded) {
				p.pause(ctx, time.Second)
			}
		}
	}
}

// loadItems loads the events of items, as many as the loader's bytes allow; the other
// items wait for the next load.
func (p *Pipeline) loadItems(ctx context.Context, l *loader, items []*item) error {
	var keys []store.EventKey
	asked := map[posthaste.ID]bool{}
	for _, it := range items {
		if id := it.lease.Delivery.Event(); !asked[id] {
			asked[id] = true
			keys = append(keys, store.EventKey{Tenant: it.lease.Tenant, ID: id})
		}
	}
	limit := loadTimeout
	if len(keys) == 1 {
		limit = loadOneTimeout
	}
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := uptime()
	events, err := p.store.Load(call, store.LoadParams{Events: keys, MaxBytes: l.maxBytes})
	took := uptime() - began
	switch {
	case err == nil:
		l.judge(took, len(events))
		p.lanes.eventsLoaded(items, events, keys, took)
		return nil
	case ctx.Err() != nil:
		p.lanes.loadAgain(items)
		return err
	}
	if late := call.Err() != nil || errors.Is(err, context.DeadlineExceeded); late && len(keys) == 1 { // as small as it can be: others may have a better link
		p.lanes.endLoads(items, verdict{why: "event not loaded", wait: loadPause})
	} else {
		p.lanes.loadAgain(items)
	}
	l.maxEvents, l.maxBytes = max(1, min(l.maxEvents, len(keys))/2), max(1, l.maxBytes/2)
	return errors.Join(err, call.Err())
}

// judge sizes the next load by how long the last one took.
func (l *loader) judge(took time.Duration, events int) {
	switch {
	case took > slowLoad:
		l.maxEvents, l.maxBytes = max(1, events/2), max(1, l.maxBytes/2)
	case took < fastLoad:
		l.maxEvents, l.maxBytes = min(maxLoadEvents, 2*l.maxEvents), min(maxLoadBytes, 2*l.maxBytes)
	}
}

// takeToLoad takes the items that are loaded next, of most events at most, and queues
// those that need no load any more.
func (ls *lanes) takeToLoad(most int) []*item {
	now := uptime()
	ls.mu.Lock()
	if ls.stopped {
		ls.mu.Unlock()
		return nil
	}
	load, ready := ls.payloads.next(now, most)
	for _, it := range ready {
		ls.loaded(it, now)
	}
	ls.startAndUnlock()
	return load
}

// eventsLoaded queues the items whose events came. keys are those asked for, in order:
// an event that is missing before the last one that came is past its retention, and
// nothing is left to deliver. What is missing after it was too large for this load.
func (ls *lanes) eventsLoaded(items []*item, events []posthaste.Event, keys []store.EventKey, took time.Duration) {
	came := make(map[posthaste.ID]*posthaste.Event, len(events))
	for i := range events {
		came[events[i].ID] = &events[i]
	}
	answered := map[posthaste.ID]bool{}
	for i := len(keys) - 1; i >= 0; i-- {
		if len(answered) > 0 || len(events) == 0 || came[keys[i].ID] != nil {
			answered[keys[i].ID] = true
		}
	}
	now := uptime()
	ls.mu.Lock()
	if len(events) > 0 {
		ls.payloads.loaded(len(events), took)
	}
	var again []*item
	for _, it := range items {
		id := it.lease.Delivery.Event()
		switch event := came[id]; {
		case it.left:
			ls.payloads.missing--
			continue
		case event != nil && it.payload.event == nil:
			ls.payloads.arrived(it.payload, event)
		}
		switch {
		case ls.payloads.give(it):
		case answered[id]:
			it.early = &verdict{state: posthaste.StateDead, reason: posthaste.ReasonExpired}
		default:
			again = append(again, it)
			continue
		}
		ls.payloads.missing--
		ls.loaded(it, now)
	}
	ls.payloads.putBack(again)
	ls.startAndUnlock()
	poke(ls.freed) // more may be claimed
}

// loadAgain lets items wait for the next load.
func (ls *lanes) loadAgain(items []*item) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.payloads.putBack(items)
}

// endLoads queues items whose events do not come, to be given back.
func (ls *lanes) endLoads(items []*item, v verdict) {
	now := uptime()
	ls.mu.Lock()
	for _, it := range items {
		ls.payloads.missing--
		if !it.left {
			it.early = &v
			ls.loaded(it, now)
		}
	}
	ls.startAndUnlock()
}

// roomToLoad returns how many deliveries may be claimed without their event.
func (ls *lanes) roomToLoad() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.payloads.room()
}
