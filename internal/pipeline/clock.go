package pipeline

import (
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
}

// Now returns the database's time in whole microseconds.
func (c *clock) Now() time.Time {
	return c.wall().Add(time.Duration(c.offset.Load())).UTC().Truncate(time.Microsecond)
}

// observe notes that the database said now somewhere between asked and answered.
func (c *clock) observe(now, asked, answered time.Time) {
	middle := asked.Add(answered.Sub(asked) / 2)
	c.offset.Store(int64(now.Sub(middle)))
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
