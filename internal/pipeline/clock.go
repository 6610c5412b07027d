package pipeline

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
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

// sinceBoot is the time since the machine started, suspension included. Go's
// monotonic clock stands still while a machine sleeps, which would make an old
// heartbeat look fresh.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("clock_gettime(CLOCK_BOOTTIME): " + err.Error()) // in Linux since 2.6.39
	}
	return time.Duration(ts.Nano())
}
