package gate

import (
	"time"

	"github.com/posthaste-dev/posthaste"
)

const (
	// MaxProbeWait is how long a probe may wait between being taken and being
	// started. ProbeMargin is that and what recording its outcome may take: with the
	// attempt's timeout it is how long the next probe waits for this one's outcome. So
	// the starts of two probes are at least the timeout apart, also when the
	// first one's holder dies.
	MaxProbeWait = 5 * time.Second
	ProbeMargin  = MaxProbeWait + 5*time.Second

	// rampStep is how long an endpoint whose breaker has closed keeps each share of
	// its slots: 1, 2, 4 …
	rampStep = time.Second
)

// Transition is a move of a breaker.
type Transition struct {
	From, To Breaker
}

// Result is what became of an attempt.
type Result struct {
	Attempt
	Outcome    posthaste.Outcome
	Cause      posthaste.Cause
	StatusCode int
	RetryAfter time.Duration // what the answer asked for; 0: nothing
}

// kind is what a result says of its endpoint.
type kind int

const (
	silent  kind = iota // nothing: nobody knows whether the endpoint was reached, or it is only busy
	success             // it works
	refusal             // it answers: this delivery is at fault
	failure             // it does not work
)

const statusTooManyRequests = 429

func (r Result) kind() kind {
	switch {
	case r.Outcome == posthaste.OutcomeDelivered:
		return success
	case r.Outcome == posthaste.OutcomePermanent:
		return refusal
	case r.Outcome != posthaste.OutcomeTransient, r.StatusCode == statusTooManyRequests,
		r.Cause.Fault() == posthaste.FaultPolicy, r.Cause.Fault() == posthaste.FaultLocal:
		return silent
	default:
		return failure
	}
}

// Record returns the state after results that became known at now, in their
// order, and the breaker's moves.
//
// Failures in a row open a closed breaker. An open one is moved by nothing but
// time, a half-open one by its probe alone: what was sent before it opened says
// nothing about now.
func (s State) Record(p Policy, now time.Time, results []Result) (State, []Transition) {
	var moves []Transition
	move := func(to Breaker) {
		if s.Breaker != to {
			moves = append(moves, Transition{From: s.Breaker, To: to})
		}
		s.Breaker = to
	}
	if p.Breaker == nil && s.Breaker != Closed { // taken away meanwhile
		move(Closed)
		s = s.closed(now)
	}
	for _, r := range results {
		k := r.kind()
		isProbe := s.Breaker == HalfOpen && r.Attempt == s.Probe
		if until := now.Add(min(r.RetryAfter, MaxRetryAfter)); r.RetryAfter > 0 && (until.After(s.RetryAfterUntil) || !s.Asked(now)) {
			s.RetryAfterUntil = until
		}
		switch {
		case k == success:
			s.FailingSince, s.FailedAt = time.Time{}, time.Time{}
		case k != silent:
			s = s.failed(p, now)
		}
		switch {
		case isProbe && (k == success || k == refusal):
			move(Closed)
			s = s.closed(now)
		case isProbe && k == failure:
			s.Failures++
			move(Open)
			s = s.opened(*p.Breaker, now)
		case s.Breaker != Closed:
		case k == success:
			s.Failures = 0
		case k == failure && p.Breaker != nil:
			if s.Failures++; s.Failures >= p.Breaker.Threshold {
				move(Open)
				s = s.opened(*p.Breaker, now)
			}
		}
	}
	return s, moves
}

// failed notes a failure at now. Two failures with nothing between them, of an endpoint
// that is seldom sent to, do not make it one that has failed all the time.
func (s State) failed(p Policy, now time.Time) State {
	since := now.Sub(s.FailedAt)
	switch {
	case s.FailingSince.IsZero(), s.FailingSince.Sub(now) > HoldSlack, p.Gap > 0 && !s.FailedAt.IsZero() && since > p.Gap:
		s.FailingSince, s.FailedAt = now, now
	case p.Gap > 0 && since >= p.Gap/8: // not with each failure, since a change is a write
		s.FailedAt = now
	}
	return s
}

// MaxRetryAfter is the most that Retry-After counts for.
const MaxRetryAfter = time.Hour

func (s State) closed(now time.Time) State {
	s.Failures, s.Openings, s.OpenUntil, s.Probe, s.ClosedAt = 0, 0, time.Time{}, Attempt{}, now
	return s
}

func (s State) opened(b posthaste.Breaker, now time.Time) State {
	wait, most := time.Duration(b.Reset), time.Duration(b.ResetMax)
	for range s.Openings {
		if wait *= 2; wait >= most {
			break
		}
	}
	s.Openings++
	s.OpenUntil, s.Probe = now.Add(min(wait, most)), Attempt{}
	return s
}

// Reset returns the state of an endpoint that has moved elsewhere: what its old
// place did counts no more. Its limits stay.
func (s State) Reset() State {
	return State{Slot: s.Slot, RetrySlot: s.RetrySlot}
}

// Share returns how many of an endpoint's slots may be used at now: after its
// breaker has closed they come back one by one, then in twos, in fours.
func (s State) Share(slots int, now time.Time) int {
	if s.ClosedAt.IsZero() || now.Before(s.ClosedAt) {
		return slots
	}
	steps := now.Sub(s.ClosedAt) / rampStep
	if steps > 20 {
		return slots
	}
	return min(slots, 1<<steps)
}

// Ramping reports whether Share is still below the slots.
func (s State) Ramping(slots int, now time.Time) bool { return s.Share(slots, now) < slots }
