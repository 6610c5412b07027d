package deliver

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// attemptBytes is the memory of one attempt: its goroutine, its connection, and what
// it reads. Attempts may take a quarter of the memory.
const attemptBytes = 32 << 10

// attemptsWithin returns how many attempts fit into a limit of memory, in bytes.
func attemptsWithin(limit int64) int { return int(limit / 4 / attemptBytes) }

// memoryLimit returns the bytes of memory that this process may use by GOMEMLIMIT and,
// on Linux, its cgroup; math.MaxInt64 without a limit.
func memoryLimit() int64 {
	limit := debug.SetMemoryLimit(-1)
	raw, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return limit
	}
	return min(limit, parseMemory(string(raw)))
}

// parseMemory reads a cgroup's memory.max: bytes, or "max".
func parseMemory(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n <= 0 {
		return math.MaxInt64
	}
	return n
}
