package pipeline

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// whims are what the owner of an endpoint does to it, over and over.
var whims = []func(*store.EndpointRow){
	func(row *store.EndpointRow) { row.Ordered = posthaste.OrderedByEndpoint },
	func(row *store.EndpointRow) { row.Paused = true },
	func(row *store.EndpointRow) { row.Paused = false },
	func(row *store.EndpointRow) { row.Ordered = posthaste.Unordered },
	func(row *store.EndpointRow) { row.RateLimit = &posthaste.RateLimit{RPS: 200} },
	func(row *store.EndpointRow) { row.RateLimit = nil },
}

// An endpoint is ordered, paused and limited and all of that undone, its deliveries are
// skipped and replayed, and its breaker opens, while events come in: each ends once.
func TestWhateverItsOwnerDoesAllEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, e *engine) {
		r, attempts := newClockwork(t), 0
		r.answer = func(string, string) int {
			switch attempts++; {
			case attempts%7 == 0:
				return http.StatusInternalServerError
			case attempts%31 == 0:
				return http.StatusBadRequest
			}
			return http.StatusOK
		}
		row := e.endpoint(r.URL, func(d *posthaste.Definition) {
			shortBreaker(2, 100*time.Millisecond)(d)
			d.Retry.Schedule = slices.Repeat([]posthaste.Duration{posthaste.Duration(10 * time.Millisecond)}, 20)
		})
		change := func(edit func(*store.EndpointRow)) {
			if _, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, func(row *store.EndpointRow) error { edit(row); return nil }); err != nil {
				t.Error(err)
			}
		}
		const each = 100
		sent := make([][each]posthaste.ID, 4)
		var senders sync.WaitGroup
		for w := range sent {
			senders.Go(func() {
				for i := range each {
					sent[w][i] = e.send("a", fmt.Sprint(w, " ", i)).ID
				}
			})
		}
		early := e.send("a", "early").ID.Delivery(1)
		for i := range 20 * len(whims) {
			change(whims[i%len(whims)])
			_, _ = e.Skip(t.Context(), e.tenant, early) // whichever of the two it is ready for
			_ = e.Replay(t.Context(), e.tenant, early)
			e.pause(t.Context(), 10*time.Millisecond)
		}
		senders.Wait()
		for _, of := range sent {
			for _, id := range of {
				e.ended(id, 1)
			}
		}
		e.ended(early.Event(), 1)
		e.verified()
	})
}
