package pipeline

import (
	"sync"

	"github.com/posthaste-dev/posthaste"
)

const (
	// maxRecent and maxRecentBytes bound the events that are remembered for the
	// claim that follows soon.
	maxRecent      = 512
	maxRecentBytes = 2 << 20
)

// recent remembers events that were accepted here and born due, so that a claim which
// follows at once, as it does where a limit or an order is all that stood between,
// need not read them back. The oldest make room for the newest.
type recent struct {
	mu    sync.Mutex
	byID  map[posthaste.ID]*posthaste.Event
	order []*posthaste.Event // oldest first, from first on
	first int
	bytes int
}

func newRecent() *recent { return &recent{byID: map[posthaste.ID]*posthaste.Event{}} }

func (r *recent) add(e *posthaste.Event) {
	size := sizeOf(e)
	if size > maxRecentBytes/16 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[e.ID] != nil {
		return
	}
	for len(r.order)-r.first >= maxRecent || r.bytes+size > maxRecentBytes {
		r.drop()
	}
	kept := *e // e may be a part of something larger
	r.byID[e.ID] = &kept
	r.order = append(r.order, &kept)
	r.bytes += size
}

// sizeOf is what an event holds that others decide the size of.
func sizeOf(e *posthaste.Event) int {
	size := len(e.Payload)
	for _, headers := range [][]posthaste.Header{e.Headers, e.SourceHeaders} {
		for _, h := range headers {
			size += len(h.Name) + len(h.Value)
		}
	}
	return size
}

// drop forgets the oldest event.
func (r *recent) drop() {
	e := r.order[r.first]
	r.order[r.first] = nil
	r.first++
	r.bytes -= sizeOf(e)
	delete(r.byID, e.ID)
	if r.first > maxRecent {
		r.order = append(r.order[:0], r.order[r.first:]...)
		r.first = 0
	}
}

// find returns an event, or nil.
func (r *recent) find(id posthaste.ID) *posthaste.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}
