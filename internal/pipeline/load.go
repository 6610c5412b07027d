package pipeline

import "sync/atomic"

const (
	// maxUncommitted and maxUncommittedBytes bound what is admitted and not yet on
	// disk. Finished attempts whose outcome is not committed count too: they are
	// work that the database owes. Attempts under way do not, or receivers that
	// hang would answer 503 to everybody.
	maxUncommitted      = 4096
	maxUncommittedBytes = 64 << 20
	// MaxUnrecorded bounds the outcomes that wait for their commit. Beyond it
	// lanes take no work and nothing starts. With the attempts under way it is
	// the most that a crash can repeat.
	MaxUnrecorded = 2048
)

// load counts what the database owes us.
type load struct {
	uncommitted, uncommittedBytes, unrecorded atomic.Int64
}

// admit takes in n events of the given size together, unless that would be too much.
func (l *load) admit(n int, bytes int64) bool {
	events, size := l.uncommitted.Add(int64(n)), l.uncommittedBytes.Add(bytes)
	if events+l.unrecorded.Load() > maxUncommitted || size > maxUncommittedBytes {
		l.committed(n, bytes)
		return false
	}
	return true
}

func (l *load) committed(n int, bytes int64) {
	l.uncommitted.Add(-int64(n))
	l.uncommittedBytes.Add(-bytes)
}

// overburdened reports whether outcomes pile up, so that no more work should be leased.
func (l *load) overburdened() bool { return l.unrecorded.Load() >= MaxUnrecorded }
