// Package concurrency decides how many attempts of one endpoint may be under way at
// once. It starts small, grows while the receiver keeps its latency, and gives way
// when attempts fail. All of it is pure: a [State] and what came of an attempt in, a State
// out.
package concurrency

import "time"

const (
	// Initial is the limit of an endpoint that nothing is known of.
	Initial = 16
	// step is what a round without trouble adds, once growth is no longer doubling. A
	// round is as many attempts as the limit.
	step = 4
	// tolerance and slack say when latency holds: below tolerance × the base + slack.
	tolerance = 2
	slack     = 10 * time.Millisecond
	// tooMany is the part of a round that must fail for the limit to be halved.
	tooMany = 0.1
	// smallRound is how many attempts a round has at least when failures are judged.
	smallRound = 8
)

// State is what is known of an endpoint's receiver. The zero State knows nothing.
type State struct {
	limit    float64       // 0: Initial
	steady   bool          // the limit has met resistance: it grows by step, and no longer doubles
	base     time.Duration // the latency of a receiver that has nothing to wait for
	latency  time.Duration // moving average
	attempts int           // of the present round
	failures int           // of these
}

// Attempt is what came of one attempt.
type Attempt struct {
	Latency time.Duration
	// Failed reports a failure that says the receiver has too much to do, or is not
	// there: a transient one, such as a status 503 or a timeout.
	Failed bool
	// Limited reports whether the limit, and not a lack of work, bounded how many were
	// under way. Otherwise the attempt is no reason to grow.
	Limited bool
}

// Slots returns how many attempts may be under way, from 1 to most.
func (s State) Slots(most int) int {
	limit := s.limit
	if limit == 0 {
		limit = Initial
	}
	return max(1, min(int(limit), most))
}

// After returns the state after an attempt of an endpoint that allows at most most at
// once.
func (s State) After(a Attempt, most int) State {
	if s.limit == 0 {
		s.limit = Initial
	}
	s.limit = min(s.limit, float64(max(most, 1)))
	s.attempts++
	if a.Failed {
		s.failures++
	} else {
		s.measure(a.Latency)
	}
	round := max(s.limit, smallRound)
	switch {
	case a.Failed && float64(s.failures) >= max(1, tooMany*round) && (s.failures > 1 || round <= smallRound):
		return s.halved()
	case float64(s.attempts) >= round:
		s.attempts, s.failures = 0, 0
	}
	if !a.Failed && a.Limited {
		s.grow(most)
	}
	return s
}

// halved gives way. What is under way still counts towards the next round, so one
// outage halves the limit once a round.
func (s State) halved() State {
	s.limit, s.steady = max(1, s.limit/2), true
	s.attempts, s.failures = 0, 0
	return s
}

// measure takes in the latency of an attempt that succeeded. The base follows it down
// at once, and up slowly: a receiver may become slower for good.
func (s *State) measure(latency time.Duration) {
	if s.latency == 0 {
		s.base, s.latency = latency, latency
		return
	}
	s.latency += (latency - s.latency) / 16
	if latency < s.base {
		s.base = latency
	} else {
		s.base += (latency - s.base) / 8192
	}
}

// holds reports whether latency is what it was with little to do.
func (s *State) holds() bool { return s.latency <= tolerance*s.base+slack }

// grow raises the limit: with each success by one, which doubles it each round, or by
// step a round.
func (s *State) grow(most int) {
	if !s.holds() {
		s.steady = true
		return
	}
	if s.steady {
		s.limit += step / s.limit
	} else {
		s.limit++
	}
	s.limit = min(s.limit, float64(max(most, 1)))
}
