package pipeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// versionsPerBeat bounds the tenants whose versions one heartbeat compares. It goes
	// round through all that are remembered; changes of the others come by their time.
	versionsPerBeat = 512
	// changedAgain is how far back each heartbeat asks for changes: longer than a change
	// takes from the moment that gives it its version to its commit.
	changedAgain = time.Minute
)

// rotation is a set of tenants that is gone through in turns.
type rotation struct {
	list  []store.TenantNo
	place map[store.TenantNo]int
	next  int
}

func newRotation() rotation { return rotation{place: map[store.TenantNo]int{}} }

func (r *rotation) add(no store.TenantNo) {
	if _, known := r.place[no]; !known {
		r.place[no] = len(r.list)
		r.list = append(r.list, no)
	}
}

func (r *rotation) remove(no store.TenantNo) {
	at, known := r.place[no]
	if !known {
		return
	}
	last := len(r.list) - 1
	r.list[at] = r.list[last]
	r.place[r.list[at]] = at
	r.list = r.list[:last]
	delete(r.place, no)
}

// take returns the next n, each once.
func (r *rotation) take(n int) []store.TenantNo {
	n = min(n, len(r.list))
	out := make([]store.TenantNo, 0, n)
	for range n {
		if r.next >= len(r.list) {
			r.next = 0
		}
		out = append(out, r.list[r.next])
		r.next++
	}
	return out
}

// versions returns what a heartbeat asks of the tenants: versions in memory to compare,
// of routes, and of tenants that are known by their names alone; and the version from
// which on changes of any tenant are of interest, 0 at the first heartbeat.
func (r *routing) versions() (compare []store.TenantVersion, since int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, no := range r.known.take(versionsPerBeat) {
		if t := r.tenants[no]; t != nil {
			compare = append(compare, store.TenantVersion{Tenant: no, Version: t.version()})
		} else if row := r.names[r.named[no]]; row.No == no {
			compare = append(compare, store.TenantVersion{Tenant: no, Version: row.RoutingVersion})
		}
	}
	if !r.beatNow.IsZero() {
		since = r.beatNow.Add(-changedAgain).UnixMicro()
	}
	return sortedVersions(compare), since
}

// beaten takes in what a heartbeat brought. Loads go on beside it: a tenant that can't
// be had must not end the beat.
func (r *routing) beaten(now time.Time, newer []store.TenantVersion) {
	r.mu.Lock()
	r.beatNow = now
	r.mu.Unlock()
	r.askAll(newer)
}

func sortedVersions(list []store.TenantVersion) []store.TenantVersion {
	slices.SortFunc(list, func(a, b store.TenantVersion) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return list
}
