// Package gate decides whether an endpoint may be attempted now: its circuit
// breaker, its rate limits, and what it asked for by Retry-After. All of it is pure:
// states and times in, states out. The store keeps a [State] for each endpoint, under
// a lock while it changes, so that all replicas share it and a restart forgets nothing.
//
// A state is disposable. The zero State is an open way: whoever loses it attempts
// sooner than he might, and loses no work.
package gate

import (
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Breaker is how an endpoint's circuit breaker stands. The numbers are stored.
type Breaker int

// The positions of a breaker.
const (
	Closed   Breaker = iota // attempts flow
	Open                    // no attempt is made until State.OpenUntil
	HalfOpen                // one attempt is under way, the probe, and decides
)

func (b Breaker) String() string {
	switch b {
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	default:
		return "closed"
	}
}

// State is the gate of an endpoint. The zero value lets everything pass.
type State struct {
	Breaker   Breaker
	Failures  int       // transient failures in a row
	Openings  int       // times that the breaker opened since it was closed last
	OpenUntil time.Time // until when nothing is attempted: then one probe may be made
	Probe     Attempt   // of HalfOpen: the attempt whose outcome decides
	ClosedAt  time.Time // when the breaker closed last: attempts ramp up from there

	RetryAfterUntil time.Time // the endpoint asked to be left alone until then
	FailingSince    time.Time // when it failed first since it succeeded last, or since a gap
	FailedAt        time.Time // when it failed last since then, to an eighth of the gap

	Slot      time.Time // the next regular time of an attempt, under the rate limit
	RetrySlot time.Time // the same for retries
}

// Attempt names one attempt.
type Attempt struct {
	Delivery posthaste.ID
	Number   int
}

// Policy is what an endpoint's owner has set.
type Policy struct {
	Breaker  *posthaste.Breaker   // nil: none
	Limit    *posthaste.RateLimit // nil: none
	RetryRPS float64              // 0: no limit of their own
	Timeout  time.Duration        // of one attempt
	Gap      time.Duration        // with that long no failure, and no success, what failed before is forgotten; 0: never
}

// PolicyOf returns the policy in a definition.
func PolicyOf(d posthaste.Definition) Policy {
	p := Policy{Breaker: d.Breaker, Limit: d.RateLimit, Timeout: time.Duration(d.Retry.Timeout)}
	if d.Retry.RPS != nil {
		p.RetryRPS = *d.Retry.RPS
	}
	return p
}

// Limited reports whether attempts need a slot.
func (p Policy) Limited() bool { return p.Limit != nil || p.RetryRPS > 0 }

// Hold returns until when nothing may be attempted, zero if something may be now.
// Once an open breaker's time has come that is one probe; see [State.Probing].
//
// A time that is further away than anything that sets it was taken from a wrong clock,
// and does not count.
func (s State) Hold(p Policy, now time.Time) time.Time {
	var until time.Time
	if within(s.RetryAfterUntil, now, MaxRetryAfter) {
		until = s.RetryAfterUntil
	}
	if p.Breaker != nil && s.Breaker != Closed && s.OpenUntil.After(until) &&
		within(s.OpenUntil, now, max(time.Duration(p.Breaker.ResetMax), time.Duration(p.Breaker.Reset), p.Timeout+ProbeMargin)) {
		until = s.OpenUntil
	}
	return until
}

// HoldSlack is how far a hold may reach beyond the longest that is set.
const HoldSlack = time.Minute

// within reports whether a time is ahead, and no further than what can have set it.
func within(until, now time.Time, most time.Duration) bool {
	return until.After(now) && until.Sub(now) <= most+HoldSlack
}

// Asked reports whether the endpoint has asked to be left alone now.
func (s State) Asked(now time.Time) bool { return within(s.RetryAfterUntil, now, MaxRetryAfter) }

// Probing reports whether the next attempt has to be a probe.
func (s State) Probing(p Policy) bool { return p.Breaker != nil && s.Breaker != Closed }

// Plain reports whether attempts need not ask the gate at all. A breaker that was
// taken away while it was open is not plain until it is closed: the store, which knows
// no policies, lets nothing by.
func (s State) Plain(p Policy, now time.Time) bool {
	return !p.Limited() && s.Breaker == Closed && s.Hold(p, now).IsZero()
}

// Pass is what a gate lets through at one moment.
type Pass struct {
	Attempts int       // this many
	Retries  int       // of which so many may be retries
	Again    time.Time // when there will be more, if there is less now than was asked for
}

// Enter returns how much of want may be taken now; what is taken is to be told
// to [State.Take].
func (s State) Enter(p Policy, now time.Time, want int) Pass {
	if until := s.Hold(p, now); !until.IsZero() {
		return Pass{Again: until}
	}
	if s.Probing(p) {
		want = min(want, 1)
	}
	pass := Pass{Attempts: want, Retries: want}
	if p.Limit != nil {
		l := limitOf(*p.Limit)
		pass.Attempts, pass.Again = l.fit(s.Slot, now, want)
		pass.Retries = pass.Attempts
	}
	if p.RetryRPS > 0 {
		n, again := retryLimit(p).fit(s.RetrySlot, now, pass.Attempts)
		if pass.Retries = n; n < pass.Attempts && (pass.Again.IsZero() || again.Before(pass.Again)) {
			pass.Again = again
		}
	}
	return pass
}

// Taken is an attempt that was taken through the gate.
type Taken struct {
	Attempt
	Retry bool // not the delivery's first
}

// Start is when a taken attempt may begin, and until when it still may.
type Start struct {
	At     time.Time
	Latest time.Time // zero: whenever; beyond it, it would come in a crowd
}

// Take returns the state after attempts were taken, when each may start, and what
// it made of the breaker.
func (s State) Take(p Policy, now time.Time, taken []Taken) (State, []Start, []Transition) {
	var moves []Transition
	if s.Probing(p) && len(taken) > 0 {
		if s.Breaker != HalfOpen { // else the holder of the probe before it vanished
			moves = []Transition{{From: s.Breaker, To: HalfOpen}}
		}
		s.Breaker, s.Probe = HalfOpen, taken[0].Attempt
		s.OpenUntil = now.Add(p.Timeout + ProbeMargin)
	}
	starts := make([]Start, len(taken))
	for i, t := range taken {
		start, from := Start{}, now
		if p.RetryRPS > 0 && t.Retry {
			start = retryLimit(p).next(&s.RetrySlot, now)
			from = start.At // so that no slot below is used later than it says
		}
		if p.Limit != nil {
			start = laterOf(start, limitOf(*p.Limit).next(&s.Slot, from))
		}
		if s.Probing(p) {
			start.Latest = earlier(start.Latest, now.Add(MaxProbeWait))
		}
		starts[i] = start
	}
	return s, starts, moves
}

// laterOf returns the start that b allows after a, as late as each of them may be.
func laterOf(a, b Start) Start {
	if a.At.IsZero() {
		return b
	}
	return Start{At: b.At, Latest: b.At.Add(min(a.Latest.Sub(a.At), b.Latest.Sub(b.At)))}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
