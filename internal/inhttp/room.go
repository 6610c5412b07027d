package inhttp

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// What bodies of requests to sources may take of the memory. The bounds are dynamic:
// the fuller the room, the less one sender gets, so a newcomer always finds some.
const (
	// maxRoomBytes bounds all bodies together, counted as they arrive.
	maxRoomBytes = 128 << 20
	// One source may hold half of what is free besides: 42 MiB if no other source
	// receives anything.
	freePerSource = 2
	// One address may hold seven times what is free besides: 112 MiB. The bound is
	// loose, since all requests come from one address behind a proxy.
	addressTimesFree = 7
	// roomPatience is how long a body waits for room before its sender gets 503.
	roomPatience = 2 * time.Second
)

// room counts the memory that bodies hold. The zero value is ready.
type room struct {
	mu        sync.Mutex
	taken     int64
	bySource  map[posthaste.ID]int64
	byAddress map[netip.Prefix]int64
	released  chan struct{} // closed at the next release; nil while nobody waits
}

// share is the room that one request holds.
type share struct {
	room    *room
	source  posthaste.ID
	address netip.Prefix
	held    int64
}

// share begins the share of a request, with nothing in it.
func (r *room) share(source posthaste.ID, remote string) *share {
	return &share{room: r, source: source, address: network(remote)}
}

// network is what counts as one address: of IPv6 the /64 that one host usually has.
func network(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := at.Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// grow takes n more bytes, and waits a while for others to release theirs. It reports
// whether it has them, and for how long it waited.
func (s *share) grow(ctx context.Context, n int64) (waited time.Duration, ok bool) {
	if freed := s.take(n); freed == nil {
		return 0, true
	}
	began := time.Now()
	patience := time.NewTimer(roomPatience)
	defer patience.Stop()
	for {
		freed := s.take(n)
		if freed == nil {
			return time.Since(began), true
		}
		select {
		case <-freed:
		case <-patience.C:
			return time.Since(began), false
		case <-ctx.Done():
			return time.Since(began), false
		}
	}
}

// take takes n more bytes at once and returns nil, or returns what is closed when it
// is worth trying again.
func (s *share) take(n int64) (freed <-chan struct{}) {
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bySource == nil {
		r.bySource, r.byAddress = map[posthaste.ID]int64{}, map[netip.Prefix]int64{}
	}
	free := maxRoomBytes - r.taken - n
	if free < 0 || r.bySource[s.source]+n > free/freePerSource || r.byAddress[s.address]+n > free*addressTimesFree {
		if r.released == nil {
			r.released = make(chan struct{})
		}
		return r.released
	}
	s.add(n)
	return nil
}

// add changes the counts. The caller holds the lock.
func (s *share) add(n int64) {
	r := s.room
	s.held += n
	r.taken += n
	if r.bySource[s.source] += n; r.bySource[s.source] == 0 {
		delete(r.bySource, s.source)
	}
	if r.byAddress[s.address] += n; r.byAddress[s.address] == 0 {
		delete(r.byAddress, s.address)
	}
}

// release gives everything back.
func (s *share) release() {
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.held == 0 {
		return
	}
	s.add(-s.held)
	if r.released != nil {
		close(r.released)
		r.released = nil
	}
}
