package pipeline

import (
	"slices"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// lane returns the lane of an endpoint, made if needed. slots is how many attempts
// the endpoint allows at once.
func (ls *lanes) lane(endpoint store.EndpointNo, slots int) *lane {
	l := ls.byNo[endpoint]
	if l == nil {
		l = &lane{endpoint: endpoint, limit: ls.limits[endpoint], fixed: ls.fixed(endpoint)}
		delete(ls.limits, endpoint)
		ls.byNo[endpoint] = l
	}
	l.allow(slots)
	return l
}

// resizeStep bounds the lanes that are resized under one hold of the lock.
const resizeStep = 256

// resize gives the lanes the slots that their endpoints have now. With many lanes it
// takes a while, and everything under way needs the lock.
func (ls *lanes) resize(slotsOf func(store.EndpointNo) int) {
	more := false
	ls.mu.Lock()
	all := make([]store.EndpointNo, 0, len(ls.byNo))
	for no := range ls.byNo {
		all = append(all, no)
	}
	ls.mu.Unlock()
	slots := make([]int, resizeStep)
	for step := range slices.Chunk(all, resizeStep) {
		for i, no := range step {
			slots[i] = slotsOf(no)
		}
		ls.mu.Lock()
		for i, no := range step {
			if l := ls.byNo[no]; l != nil {
				more = l.allow(slots[i]) || more
				ls.take(l)
			}
		}
		ls.startAndUnlock()
	}
	if more {
		poke(ls.freed)
	}
}
