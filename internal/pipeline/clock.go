package pipeline

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxClockOffset is how far this machine's clock may be from the database's.
// Beyond it ids would fall outside the partitions, so the replica is not ready.
const maxClockOffset = time.Hour

// clock tells the database's time: this machine's, corrected by the offset that
// each heartbeat measures.
type clock struct {
	wall   func() time.Time
	offset atomic.Int64 // nanoseconds

	mu       sync.Mutex
	last     time.Time     // what the database said last
	lastAt   time.Duration // sinceBoot then
	jumpedAt time.Duration // sinceBoot of the last jump ahead; 0: none
}

const (
	// maxClockStep is how far the database's clock may be from where the time that has passed
	// since the last look puts it. Beyond it the clock was set.
	maxClockStep = 10 * time.Second
	// clockDoubt is how long a clock that was set ahead is not believed where it ends
	// or deletes something: it may be set back at once.
	clockDoubt = 15 * time.Minute
)

// Now returns the database's time in whole microseconds.
func (c *clock) Now() time.Time {
	return c.wall().Add(time.Duration(c.offset.Load())).UTC().Truncate(time.Microsecond)
}

// observe notes that the database said now somewhere between asked and answered. It
// returns by how much its clock was set since the last time, 0 if it was not.
func (c *clock) observe(now, asked, answered time.Time) (step time.Duration) {
	middle := asked.Add(answered.Sub(asked) / 2)
	c.offset.Store(int64(now.Sub(middle)))
	c.mu.Lock()
	defer c.mu.Unlock()
	at := sinceBoot()
	if !c.last.IsZero() {
		step = now.Sub(c.last) - (at - c.lastAt)
	}
	c.last, c.lastAt = now, at
	if step.Abs() <= maxClockStep {
		return 0
	}
	if step > 0 {
		c.jumpedAt = at
	}
	return step
}

// believed reports whether what expires by the clock may be ended or deleted: the clock
// was not set ahead lately, and the database's is not another one than this machine's.
func (c *clock) believed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.tooFarOff() && (c.jumpedAt == 0 || sinceBoot()-c.jumpedAt > clockDoubt)
}

func (c *clock) tooFarOff() bool {
	off := time.Duration(c.offset.Load())
	return off > maxClockOffset || off < -maxClockOffset
}

// processStart is the zero of uptime.
var processStart = time.Now()

// uptime is a monotonic time that is cheap to read: for waits and averages. It
// stands still while the machine sleeps; the beat's age needs sinceBoot.
func uptime() time.Duration { return time.Since(processStart) }
