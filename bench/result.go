//go:build linux

package main

import (
	"math"
	"slices"
	"time"
)

// result is what one run measured.
type result struct {
	at     time.Time // when it began
	engine string
	phase  string
	round  int
	err    string // why it failed, or what is wrong with its figures; "" if nothing

	accepted, delivered  int // events; delivered of the accepted
	lost                 int // accepted, not delivered within the wait
	duplicates           int
	unacknowledged       int // delivered although the generator got no 2xx
	refused, failed      int64
	acceptRate, rate     float64 // accepted and delivered events a second
	acceptTime, arriveIn latency // from the intended send to the 2xx, and to the arrival
	ready                time.Duration
	settled              time.Duration // from the quiet time's end until the counts were right
	perEvent             costs
	others               float64
	idleBytes            int64 // resident before the first event
	engineBytes, dbBytes int64 // peak resident
	hotShare             float64
	firstError           string
	remark               string // what no column says
}

// costs are what one delivered event took.
type costs struct {
	engine, database, load time.Duration // CPU time; load: generator and receiver
	walBytes               float64
}

// both is the CPU time of what is measured.
func (c costs) both() time.Duration { return c.engine + c.database }

// latency holds percentiles.
type latency struct {
	p50, p95, p99, max time.Duration
}

// percentiles sorts the samples, in nanoseconds, and picks the nearest rank: the
// smallest sample with at least that share of all at or below it. They are
// exact; a benchmark keeps every sample anyway.
func percentiles(samples []int64) latency {
	if len(samples) == 0 {
		return latency{}
	}
	slices.Sort(samples)
	at := func(share float64) time.Duration {
		rank := int(math.Ceil(share * float64(len(samples))))
		return time.Duration(samples[max(0, rank-1)])
	}
	return latency{p50: at(0.50), p95: at(0.95), p99: at(0.99), max: at(1)}
}

// tally derives the figures of a finished flow. An accepted event that has not
// arrived enters the percentiles with its age, so that losing events never makes
// an engine look faster.
func (r *result) tally(rec *recorder) {
	end := rec.watch.now()
	var accepts, arrivals []int64
	first, lastAck := int64(math.MaxInt64), int64(0)
	for i := range rec.intended {
		hits := int(rec.hits[i].Load())
		r.duplicates += max(0, hits-1)
		acked := rec.acked[i].Load()
		if acked == 0 {
			r.unacknowledged += min(1, hits)
			continue
		}
		first, lastAck = min(first, rec.intended[i]), max(lastAck, acked)
		accepts = append(accepts, acked-rec.intended[i])
		arrived := rec.arrived[i].Load()
		if hits == 0 {
			r.lost++
			arrived = end
		}
		arrivals = append(arrivals, arrived-rec.intended[i])
	}
	r.accepted, r.delivered = len(accepts), len(accepts)-r.lost
	r.refused, r.failed = rec.refused.Load(), rec.failed.Load()
	if text := rec.firstErr.Load(); text != nil {
		r.firstError = *text
	}
	if r.accepted > 0 {
		r.acceptRate = perSecond(r.accepted, lastAck-first)
	}
	if r.delivered > 0 {
		r.rate = perSecond(r.delivered, rec.last.Load()-first)
	}
	r.acceptTime, r.arriveIn = percentiles(accepts), percentiles(arrivals)
}

func perSecond(n int, nanoseconds int64) float64 {
	return float64(n) / (float64(max(1, nanoseconds)) / float64(time.Second))
}

// spend divides what a phase used by the number of its events.
func (r *result) spend(u usage, walBytes int64, events int) {
	r.others, r.engineBytes, r.dbBytes = u.others, u.engineBytes, u.dbBytes
	if n := time.Duration(events); n > 0 {
		r.perEvent = costs{
			engine:   u.cpu.engine / n,
			database: u.cpu.database / n,
			load:     u.cpu.self / n,
			walBytes: float64(walBytes) / float64(n),
		}
	}
}
