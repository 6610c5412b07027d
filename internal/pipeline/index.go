package pipeline

import (
	"cmp"
	"slices"
	"strings"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// typeIndex finds the endpoints that subscribe to an event type. Its cost is the
// number of endpoints found, and of different lengths of prefixes, not the number of
// endpoints. Every list is sorted by number.
type typeIndex struct {
	all     []*endpoint            // pattern "*"
	exact   map[string][]*endpoint // by type
	prefix  map[string][]*endpoint // by what stands before the "*"
	lengths []int                  // of the keys of prefix, sorted, each once
	count   map[int]int            // keys of prefix by length
}

// add enters an endpoint under each of its patterns.
func (x *typeIndex) add(e *endpoint) {
	for _, pattern := range e.row.EventTypes {
		if pattern == "*" {
			x.all = insertByNo(x.all, e)
			continue
		}
		stem, isPrefix := strings.CutSuffix(pattern, "*")
		if !isPrefix {
			put(&x.exact, stem, insertByNo(x.exact[stem], e))
			continue
		}
		if len(x.prefix[stem]) == 0 {
			x.countLength(len(stem), 1)
		}
		put(&x.prefix, stem, insertByNo(x.prefix[stem], e))
	}
}

// remove takes an endpoint out, by the patterns that it was added with.
func (x *typeIndex) remove(e *endpoint) {
	for _, pattern := range e.row.EventTypes {
		if pattern == "*" {
			x.all = removeByNo(x.all, e)
			continue
		}
		stem, isPrefix := strings.CutSuffix(pattern, "*")
		if !isPrefix {
			put(&x.exact, stem, removeByNo(x.exact[stem], e))
			continue
		}
		if before := len(x.prefix[stem]); before > 0 {
			put(&x.prefix, stem, removeByNo(x.prefix[stem], e))
			if len(x.prefix[stem]) == 0 {
				x.countLength(len(stem), -1)
			}
		}
	}
}

func (x *typeIndex) countLength(length, by int) {
	if x.count == nil {
		x.count = map[int]int{}
	}
	x.count[length] += by
	at, known := slices.BinarySearch(x.lengths, length)
	switch {
	case x.count[length] == 0:
		delete(x.count, length)
		x.lengths = slices.Delete(x.lengths, at, at+1)
	case !known:
		x.lengths = slices.Insert(x.lengths, at, length)
	}
}

// find appends the endpoints that subscribe to a type and a source, by number, each once.
func (x *typeIndex) find(out []*endpoint, eventType, source string) []*endpoint {
	begin, lists := len(out), 0
	collect := func(list []*endpoint) {
		before := len(out)
		for _, e := range list {
			if len(e.row.Sources) == 0 || slices.Contains(e.row.Sources, source) {
				out = append(out, e)
			}
		}
		if len(out) > before {
			lists++
		}
	}
	collect(x.all)
	for _, n := range x.lengths {
		if n >= len(eventType) { // a prefix covers what goes on after it
			break
		}
		collect(x.prefix[eventType[:n]])
	}
	collect(x.exact[eventType])
	if lists > 1 {
		slices.SortFunc(out[begin:], byNo)
		out = out[:begin+len(slices.Compact(out[begin:]))]
	}
	return out
}

func byNo(a, b *endpoint) int { return cmp.Compare(a.row.No, b.row.No) }

func put(lists *map[string][]*endpoint, key string, list []*endpoint) {
	switch {
	case len(list) == 0:
		delete(*lists, key)
	case *lists == nil:
		*lists = map[string][]*endpoint{key: list}
	default:
		(*lists)[key] = list
	}
}

func placeOf(list []*endpoint, no store.EndpointNo) (int, bool) {
	return slices.BinarySearchFunc(list, no, func(e *endpoint, no store.EndpointNo) int { return cmp.Compare(e.row.No, no) })
}

// insertByNo keeps a list sorted; an endpoint that names a pattern twice is in it once.
func insertByNo(list []*endpoint, e *endpoint) []*endpoint {
	if at, known := placeOf(list, e.row.No); !known {
		return slices.Insert(list, at, e)
	}
	return list
}

func removeByNo(list []*endpoint, e *endpoint) []*endpoint {
	if at, known := placeOf(list, e.row.No); known {
		return slices.Delete(list, at, at+1)
	}
	return list
}
