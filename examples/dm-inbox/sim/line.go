package sim

import (
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

// Meta takes up to this many items into one request.
const maxBatch = 1000

// line is what waits to be sent, a queue for each kind of body. What failed, or
// is to be sent twice, comes back, and is packed anew with what it then meets.
type line struct {
	mu     sync.Mutex
	rand   *rand.Rand
	queues map[string][]item // by the object of the body
	out    int               // items that are on their way
}

// newLine puts the items in line, each up to a few hundred places early or late:
// an edit, a reaction or a read often comes before its message.
func newLine(p *Plan) *line {
	l := &line{rand: rand.New(rand.NewPCG(p.seed, 7)), queues: map[string][]item{}}
	type placed struct {
		item
		place int
	}
	items := make([]placed, len(p.items))
	for i, it := range p.items {
		items[i] = placed{it, i + l.jitter()}
	}
	slices.SortStableFunc(items, func(a, b placed) int { return a.place - b.place })
	for _, it := range items {
		l.queues[it.object] = append(l.queues[it.object], it.item)
	}
	return l
}

// jitter is small for three in four items and large for the others.
func (l *line) jitter() int {
	if l.rand.IntN(4) > 0 {
		return l.rand.IntN(5)
	}
	return l.rand.IntN(600)
}

// take returns the items of the next request: one mostly, a thousand at times.
// finished is true when all have arrived; without items and not finished, others
// are still on their way and may come back.
func (l *line) take() (batch []item, finished bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := 0
	for _, q := range l.queues {
		waiting += len(q)
	}
	if waiting == 0 {
		return nil, l.out == 0
	}
	n := l.rand.IntN(waiting) // each kind of body as often as it has items
	for _, object := range []string{instagram, page, whatsApp} {
		q := l.queues[object]
		if n -= len(q); n < 0 {
			size := min(l.batchSize(), len(q))
			batch, l.queues[object] = q[:size:size], q[size:]
			break
		}
	}
	l.out += len(batch)
	return batch, false
}

func (l *line) batchSize() int {
	switch n := l.rand.IntN(200); {
	case n < 110:
		return 1
	case n < 180:
		return 2 + l.rand.IntN(12)
	case n < 199:
		return 10 + l.rand.IntN(100)
	}
	return maxBatch
}

// failed puts the items of a request that was not taken back in line.
func (l *line) failed(batch []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out -= len(batch)
	object := batch[0].object
	l.queues[object] = append(l.queues[object], batch...)
}

// taken returns how many of the items of a request come again though they were taken:
// all of one in thirty, as if the answer was lost, and one in eight of the others,
// in whatever request they then get into.
func (l *line) taken(batch []item) (again int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out -= len(batch)
	object := batch[0].object
	all := l.rand.IntN(30) == 0
	for _, it := range batch {
		if all || l.rand.IntN(8) == 0 {
			l.queues[object] = append(l.queues[object], it)
			again++
		}
	}
	return again
}

// chance is true once in n times.
func (l *line) chance(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rand.IntN(n) == 0
}

// body packs items into entries, one for each account and list.
func body(batch []item) []byte {
	type place struct{ account, list string }
	grouped := map[place][]any{}
	var order []place
	for _, it := range batch {
		at := place{it.account, it.list}
		if grouped[at] == nil {
			order = append(order, at)
		}
		grouped[at] = append(grouped[at], it.json)
	}
	last := batch[len(batch)-1].at
	var entries []metatest.Entry
	for _, at := range order {
		switch at.list {
		case "changes":
			entries = append(entries, metatest.Changes(at.account, last, grouped[at]...))
		case "standby":
			entries = append(entries, metatest.Standby(at.account, last, grouped[at]...))
		default:
			entries = append(entries, metatest.Messaging(at.account, last, grouped[at]...))
		}
	}
	return metatest.Encode(batch[0].object, entries...)
}
