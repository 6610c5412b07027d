//go:build unix

package deliver

import (
	"math"
	"syscall"
)

// openFileLimit returns the soft limit of open files, which the runtime has
// raised to the hard limit; math.MaxInt if there is none.
func openFileLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt
	}
	if soft := uint64(limit.Cur); soft < math.MaxInt32 { //nolint:unconvert // signed on some systems
		return int(soft)
	}
	return math.MaxInt
}
