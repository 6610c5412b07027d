package postgres

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// positionStep is how far apart positions are at least, in microseconds: a delivery
// that keeps its place moves up by one each time.
const positionStep = 1000

// endOfOrder is the next position at the ordered endpoint x.endpoint, whose lock is
// held, at the time c.now. Rows more than an hour ahead are retries from before it was ordered.
const endOfOrder = `greatest(c.now, 1000 + coalesce((
		select u.due_at from due u
		where u.endpoint = x.endpoint and u.due_at <= c.now + 3600000000
		order by u.endpoint desc, u.due_at desc, u.delivery desc limit 1), 0))`

// readClock is read once, though the clock goes on.
const readClock = `(select ` + clockSQL + ` as now offset 0) c`

// Locks on ordered endpoints, the first of the lock order. Locks of two keys never
// meet those of one, which the schema and the names of replicas have.
const (
	orderLockClass int32 = 0x706f7374 // "post"

	// In the order of the array.
	orderLockSQL = `select pg_advisory_xact_lock($1, x.endpoint) from unnest($2::int4[]) x (endpoint)`

	orderLockOfSQL = `select pg_advisory_xact_lock($1, d.endpoint) from deliveries d where d.id = $2`
)

// queueOrderLock locks ordered endpoints, sorted, until the transaction ends. What
// follows it in the batch sees all that was committed under these locks before.
func queueOrderLock(batch *pgx.Batch, endpoints ...store.EndpointNo) {
	column := int4Column(len(endpoints))
	for _, no := range endpoints {
		column.int4(int32(no))
	}
	batch.Queue(orderLockSQL, orderLockClass, column)
}

// ordering says which deliveries of a batch take positions. Where none does, it has
// no endpoints.
type ordering struct {
	endpoints []store.EndpointNo // sorted
	places    []int32            // by delivery: which of the endpoints, from 1; 0: it isn't ordered
	offsets   []int64            // by delivery: from the endpoint's next position
}

// orderingOf orders the deliveries of the events at the given places, those of an
// endpoint by their ids. The answer to an event that is not stored leaves a gap.
func orderingOf(p store.AcceptParams, places []int) ordering {
	type entry struct {
		store.DueKey
		nth int
	}
	var ordered []entry
	n := 0
	for _, i := range places {
		e := &p.Events[i]
		for j, d := range e.Deliveries {
			if d.Ordered {
				ordered = append(ordered, entry{store.DueKey{Endpoint: d.Endpoint, Delivery: e.ID.Delivery(uint32(j + 1))}, n})
			}
			n++
		}
	}
	if len(ordered) == 0 {
		return ordering{}
	}
	slices.SortFunc(ordered, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), a.Delivery.Compare(b.Delivery))
	})
	o := ordering{places: make([]int32, n), offsets: make([]int64, n)}
	var rank int64
	for _, e := range ordered {
		if rank++; len(o.endpoints) == 0 || o.endpoints[len(o.endpoints)-1] != e.Endpoint {
			o.endpoints, rank = append(o.endpoints, e.Endpoint), 0
		}
		o.places[e.nth], o.offsets[e.nth] = int32(len(o.endpoints)), rank*positionStep
	}
	return o
}

// args are the parameters that a batch with ordered deliveries has beside the others.
func (o ordering) args() []any {
	place, offset, endpoint := int4Column(len(o.places)), int8Column(len(o.places)), int4Column(len(o.endpoints))
	for i := range o.places {
		place.int4(o.places[i])
		offset.int8(o.offsets[i])
	}
	for _, no := range o.endpoints {
		endpoint.int4(int32(no))
	}
	return []any{place, offset, endpoint}
}
