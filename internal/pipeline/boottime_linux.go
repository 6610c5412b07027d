package pipeline

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since the machine started, suspension included. Go's
// monotonic clock stands still while a machine sleeps, which would make an old
// heartbeat look fresh.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("clock_gettime(CLOCK_BOOTTIME): " + err.Error()) // in Linux since 2.6.39
	}
	return time.Duration(ts.Nano())
}
