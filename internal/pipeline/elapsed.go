package pipeline

import (
	"sync"
	"time"
)

// elapsed measures time that passes also while the machine sleeps, where the
// system has no clock for it. Between two readings it advances by what the
// monotonic clock or the wall clock says, whichever is more: the monotonic clock
// may stand still during a sleep, and the wall clock may be set back. A wall clock
// that is set ahead makes a heartbeat look older than it is, which is safe.
type elapsed struct {
	mu   sync.Mutex
	last time.Time // with its monotonic reading
	sum  time.Duration
}

func newElapsed(start time.Time) *elapsed { return &elapsed{last: start} }

// at returns the time elapsed until now, which must be a later reading of the clock.
func (e *elapsed) at(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.advance(now.Sub(e.last), now.Round(0).Sub(e.last.Round(0)), now)
}

// advance adds the larger of what the two clocks say has passed.
func (e *elapsed) advance(monotonic, wall time.Duration, now time.Time) time.Duration {
	e.sum += max(monotonic, wall, 0)
	e.last = now
	return e.sum
}
