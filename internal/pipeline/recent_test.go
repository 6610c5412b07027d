package pipeline

import (
	"testing"

	"github.com/posthaste-dev/posthaste"
)

func TestRecentIsBounded(t *testing.T) {
	var minter posthaste.Minter
	r := newRecent()
	var events []*posthaste.Event
	for i := range 3 * maxRecent {
		e := &posthaste.Event{ID: minter.Mint(testNow), Payload: make([]byte, 1+i%9000)}
		events = append(events, e)
		r.add(e)
		r.add(e) // again: once is enough
		if len(r.byID) > maxRecent || len(r.order)-r.first != len(r.byID) || r.bytes > maxRecentBytes {
			t.Fatalf("%d events, %d in order, %d bytes", len(r.byID), len(r.order)-r.first, r.bytes)
		}
	}
	newest := events[len(events)-1]
	if got := r.find(newest.ID); got == nil || len(got.Payload) != len(newest.Payload) || r.find(events[0].ID) != nil {
		t.Error("the newest is to be found, the oldest is not")
	}
	for len(r.byID) > 0 {
		r.drop()
	}
	if r.bytes != 0 {
		t.Errorf("empty, with %d bytes", r.bytes)
	}
	r.add(&posthaste.Event{ID: minter.Mint(testNow), Payload: make([]byte, maxRecentBytes/16+1)})
	if len(r.byID) != 0 {
		t.Error("a large event took the place of many")
	}
}

// An event is part of what was submitted, with all the endpoints that it matched: that is not to
// be kept for its sake.
func TestRecentKeepsTheEventAlone(t *testing.T) {
	r := newRecent()
	s := &submission{event: posthaste.Event{ID: posthaste.ID{1}, SourceHeaders: []posthaste.Header{{Name: "a", Value: "12345"}}}}
	r.add(&s.event)
	if r.find(s.event.ID) == &s.event {
		t.Error("the whole submission is kept")
	}
	if r.bytes < 6 {
		t.Errorf("%d bytes are counted", r.bytes)
	}
}
