//go:build linux

package main

import (
	"bytes"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// stopwatch tells the time since it was made, in nanoseconds. All times of a run
// are of one stopwatch: they never jump and fit an atomic.
type stopwatch struct{ zero time.Time }

func newStopwatch() stopwatch { return stopwatch{time.Now()} }

func (s stopwatch) now() int64 { return int64(time.Since(s.zero)) }

// recorder keeps what became of the events of one flow, by sequence number.
// Every event has its own slots, so sender and receiver never wait for each other.
type recorder struct {
	tag      string
	watch    stopwatch
	intended []int64        // when the event was due to be sent
	acked    []atomic.Int64 // when the engine answered 2xx, 0 if it did not
	arrived  []atomic.Int64 // first arrival
	hits     []atomic.Int32 // arrivals
	last     atomic.Int64   // latest arrival of all
	distinct atomic.Int64   // events that arrived
	refused  atomic.Int64   // answers 503, each followed by another try
	failed   atomic.Int64   // events given up
	firstErr atomic.Pointer[string]
}

// newRecorder makes one for n events. The tag must not hold "-" and must differ
// from that of every other flow of the run.
func newRecorder(tag string, n int, watch stopwatch) *recorder {
	return &recorder{
		tag:      tag,
		watch:    watch,
		intended: make([]int64, n),
		acked:    make([]atomic.Int64, n),
		arrived:  make([]atomic.Int64, n),
		hits:     make([]atomic.Int32, n),
	}
}

// noteError keeps the first error for the report.
func (r *recorder) noteError(err error) {
	text := err.Error()
	r.firstErr.CompareAndSwap(nil, &text)
}

// missing counts the events that were accepted and have not arrived.
func (r *recorder) missing() (n int) {
	for i := range r.acked {
		if r.acked[i].Load() != 0 && r.hits[i].Load() == 0 {
			n++
		}
	}
	return n
}

// idKey comes before the id in a payload; an id ends at the next quote.
const idKey = `"bench_id":"`

// payloadFiller makes a payload about 1 KiB long.
var payloadFiller = strings.Repeat("lorem ipsum dolor sit amet, ", 30)

// appendID appends the event's id: the tag, "-", its number.
func (r *recorder) appendID(dst []byte, seq int) []byte {
	dst = append(dst, r.tag...)
	dst = append(dst, '-')
	return strconv.AppendInt(dst, int64(seq), 10)
}

// appendPayload appends the event itself: JSON, about 1 KiB.
func (r *recorder) appendPayload(dst []byte, seq int) []byte {
	dst = append(dst, "{"+idKey...)
	dst = r.appendID(dst, seq)
	dst = append(dst, `","type":"bench.event","created_at":"2026-01-01T00:00:00Z","data":{"order":`...)
	dst = strconv.AppendInt(dst, int64(seq), 10)
	dst = append(dst, `,"amount":1999,"currency":"EUR","customer":{"name":"Ada Lovelace","email":"ada@example.com"},"note":"`...)
	dst = append(dst, payloadFiller...)
	return append(dst, `"}}`...)
}

// findID returns tag and number of the event in a payload.
func findID(payload []byte) (tag string, seq int, ok bool) {
	_, rest, found := bytes.Cut(payload, []byte(idKey))
	if !found {
		return "", 0, false
	}
	id, _, closed := bytes.Cut(rest, []byte(`"`))
	name, number, found := bytes.Cut(id, []byte("-"))
	seq, err := strconv.Atoi(string(number))
	return string(name), seq, closed && found && err == nil && seq >= 0
}
