package deliver

import "math"

const (
	// descriptorsPerAttempt is how many file descriptors one attempt holds at most:
	// two sockets to the resolver, then two connects of a race between IPv6 and IPv4.
	descriptorsPerAttempt = 2
	// minAttempts is the least that MaxAttempts returns, whatever the limit.
	minAttempts = 4
)

// MaxAttempts returns how many attempts this process can have under way at once
// within its limit of open files (RLIMIT_NOFILE; the Go runtime raises the soft
// limit to the hard one at start) and of memory (GOMEMLIMIT and the cgroup's). A
// reserve is left to listeners, requests to the API and the database. It is at least
// 4, and has no upper bound where the system sets no limit.
func MaxAttempts() int {
	byFiles := descriptorsFor(openFileLimit()) / descriptorsPerAttempt
	return max(minAttempts, min(byFiles, attemptsWithin(memoryLimit())))
}

// descriptorsFor returns how many file descriptors attempts and idle connections
// may hold together under a limit of open files: the limit without the reserve,
// which is a quarter and 64, and 1,088 at most.
func descriptorsFor(limit int) int {
	if limit == math.MaxInt {
		return limit
	}
	reserve := min(64+limit/4, 1088)
	return max(descriptorsPerAttempt*minAttempts, limit-reserve)
}
