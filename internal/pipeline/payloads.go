package pipeline

import (
	"time"

	"github.com/posthaste-dev/posthaste"
)

// payloads are the events of leased deliveries: each is in memory once, however many
// deliveries share it, and its bytes count once. Items that were leased without
// their event wait here until the loader brings it, endpoints in turn. The lanes' lock
// guards all of it.
type payloads struct {
	byID    map[posthaste.ID]*payload
	bytes   int           // of all events here
	turn    queue[*lane]  // lanes with items that wait for their event
	missing int           // items that wait for their event, those of the load under way included
	pace    time.Duration // moving average of the time to load one event
}

// payload is an event in memory.
type payload struct {
	event *posthaste.Event // nil until loaded
	holds int              // items that need it
}

// hold counts an item in, and shares the event with it that others have brought.
func (p *payloads) hold(it *item) {
	id := it.lease.Delivery.Event()
	held := p.byID[id]
	if held == nil {
		held = &payload{}
		p.byID[id] = held
	}
	held.holds++
	if held.event == nil && it.event != nil {
		p.arrived(held, it.event)
	}
	it.payload = held
	p.give(it)
}

func (p *payloads) arrived(held *payload, event *posthaste.Event) {
	held.event = event
	p.bytes += sizeOf(event)
}

// give hands an item its event, if it is here, and counts its bytes against the
// item's lane. It reports whether it is.
func (p *payloads) give(it *item) bool {
	if it.payload.event == nil {
		return false
	}
	if it.bytes == 0 {
		it.event, it.bytes = it.payload.event, sizeOf(it.payload.event)
		it.lane.bytes += it.bytes
	}
	return true
}

// release counts an item out. The last one takes the event along.
func (p *payloads) release(it *item) {
	it.lane.bytes -= it.bytes
	held := it.payload
	if held == nil {
		return
	}
	it.payload = nil
	if held.holds--; held.holds > 0 {
		return
	}
	delete(p.byID, it.lease.Delivery.Event())
	if held.event != nil {
		p.bytes -= sizeOf(held.event)
	}
}

// full reports whether no more events should come into memory.
func (p *payloads) full() bool { return p.bytes >= maxLaneBytes }

// wait lets an item wait for its event.
func (p *payloads) wait(it *item) {
	p.missing++
	it.lane.unloaded.push(it)
	p.queue(it.lane)
}

// queue puts a lane in turn where it has items to load and room for their bytes.
func (p *payloads) queue(l *lane) {
	if !l.toLoad && l.unloaded.len() > 0 && l.bytes < maxBytesPerLane {
		l.toLoad = true
		p.turn.push(l)
	}
}

// next takes items whose events are to be loaded, of most events at most, lanes in
// turn. Items whose event is here by now, and items that have waited too long, come back
// as ready.
func (p *payloads) next(now time.Duration, most int) (load, ready []*item) {
	events := map[*payload]struct{}{}
	for p.turn.len() > 0 && len(events) < most && !p.full() {
		l := p.turn.pop()
		l.toLoad = false
		if l.unloaded.len() == 0 {
			continue
		}
		it := l.unloaded.pop()
		switch {
		case p.give(it):
			p.missing--
			ready = append(ready, it)
		case now-it.queuedAt > maxLaneWait:
			p.missing--
			it.early = &verdict{why: "waited too long"}
			ready = append(ready, it)
		default:
			events[it.payload] = struct{}{}
			load = append(load, it)
		}
		p.queue(l)
	}
	return load, ready
}

// putBack lets items wait for the next load, before those that wait already.
func (p *payloads) putBack(items []*item) {
	byLane := map[*lane][]*item{}
	for _, it := range items {
		if it.left {
			p.missing--
			continue
		}
		byLane[it.lane] = append(byLane[it.lane], it)
	}
	for l, items := range byLane {
		l.unloaded.putBack(items)
		p.queue(l)
	}
}

// room returns how many more items may be leased without their event: what can be
// loaded within loadAhead.
func (p *payloads) room() int {
	n := claimTotal
	if p.pace > 0 {
		n = int(min(loadAhead/p.pace, claimTotal))
	}
	return max(0, max(n, minLoadAhead)-p.missing)
}

// loaded notes how long a load of n events took.
func (p *payloads) loaded(n int, took time.Duration) {
	each := took / time.Duration(n)
	if p.pace == 0 {
		p.pace = each
		return
	}
	p.pace += (each - p.pace) / 4
}
