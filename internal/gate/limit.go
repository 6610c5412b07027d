package gate

import (
	"time"

	"github.com/posthaste-dev/posthaste"
)

// limit is a rate limit by the generic cell rate algorithm (ITU-T I.371): a
// regular interval between attempts, and how far an attempt may run ahead of it.
//
// Slots are handed out with the work, before it starts, by whichever replica takes
// it; so each names the time at which it starts. Starting late is what makes
// crowds: what one replica starts late and another on time falls together. So a part
// of the burst is kept for lateness, and the interval is a little longer than the rate
// asks for, inside the twentieth that the promise leaves.
type limit struct {
	interval time.Duration
	ahead    time.Duration // by how much a start may be ahead of its regular time
	lateness time.Duration // by how much it may be behind the time it was given
}

// pace is the share of the rate that is handed out.
const pace = 0.975

// Ahead is how far in advance slots are taken.
const Ahead = 250 * time.Millisecond

// minLateness is how late an attempt may start at least: an engine under load does
// not keep time to the millisecond, and what is given back costs more than what it saves.
const minLateness = 100 * time.Millisecond

func limitOf(r posthaste.RateLimit) limit {
	return newLimit(r.RPS, r.Size())
}

// retryLimit allows no bursts: retries are spread evenly.
func retryLimit(p Policy) limit { return newLimit(p.RetryRPS, 1) }

func newLimit(rps float64, burst int) limit {
	kept := burst / 4
	interval := max(time.Microsecond, time.Duration(float64(time.Second)/(rps*pace)).Truncate(time.Microsecond))
	return limit{
		interval: interval,
		ahead:    time.Duration(burst-kept-1) * interval,
		lateness: max(minLateness, time.Duration(kept)*interval),
	}
}

// clockSlack is more than the clocks of two replicas differ by.
const clockSlack = time.Second

// next hands out one slot. A regular time that is further ahead than this limit can have
// put it comes from another limit, or from before a clock was set back: it counts as all
// of the burst used up, no more.
func (l limit) next(slot *time.Time, now time.Time) Start {
	if slot.Sub(now) > l.ahead+l.interval+2*Ahead+clockSlack {
		*slot = now.Add(l.ahead)
	}
	at := now
	if earliest := slot.Add(-l.ahead); earliest.After(at) {
		at = earliest
	}
	if slot.Before(at) {
		*slot = at
	}
	*slot = slot.Add(l.interval)
	return Start{At: at, Latest: at.Add(l.lateness)}
}

// fit returns how many of want would start within Ahead, and, if those are not
// all, when the next ones would come into reach.
func (l limit) fit(slot, now time.Time, want int) (int, time.Time) {
	for n := range want {
		start := l.next(&slot, now)
		if wait := start.At.Sub(now); wait > Ahead {
			return n, start.At.Add(-Ahead / 2)
		}
	}
	return want, time.Time{}
}

// Lateness returns by how much an attempt may start after its time under the policy's
// limits; 0 where there is none.
func (p Policy) Lateness() time.Duration {
	var most time.Duration
	if p.Limit != nil {
		most = limitOf(*p.Limit).lateness
	}
	if p.RetryRPS > 0 && (most == 0 || minLateness < most) {
		most = minLateness
	}
	return most
}
