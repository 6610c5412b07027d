package pipeline

import (
	"container/heap"
	"time"
)

// later holds items whose time has not come, the next one first, and one timer
// for it. Its owner's lock guards it; ripe is called without.
type later struct {
	items startHeap
	timer *time.Timer
	ripe  func()
}

func (w *later) add(it *item) {
	heap.Push(&w.items, it)
	if w.items[0] == it {
		w.wind()
	}
}

// due removes the items that may start at now.
func (w *later) due(now time.Duration) (items []*item) {
	for len(w.items) > 0 && w.items[0].startAt <= now {
		items = append(items, heap.Pop(&w.items).(*item))
	}
	w.wind()
	return items
}

// take removes the items that the test picks.
func (w *later) take(pick func(*item) bool) (taken []*item) {
	keep := w.items[:0]
	for _, it := range w.items {
		if pick(it) {
			taken = append(taken, it)
		} else {
			keep = append(keep, it)
		}
	}
	clear(w.items[len(keep):])
	w.items = keep
	heap.Init(&w.items)
	w.wind()
	return taken
}

// wind sets the timer to the next item.
func (w *later) wind() {
	switch {
	case len(w.items) == 0:
		if w.timer != nil {
			w.timer.Stop()
		}
	case w.timer == nil:
		w.timer = time.AfterFunc(w.items[0].startAt-uptime(), w.ripe)
	default:
		w.timer.Reset(w.items[0].startAt - uptime())
	}
}

type startHeap []*item

func (h startHeap) Len() int           { return len(h) }
func (h startHeap) Less(i, j int) bool { return h[i].startAt < h[j].startAt }
func (h startHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *startHeap) Push(x any)        { *h = append(*h, x.(*item)) }
func (h *startHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
