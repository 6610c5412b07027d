package pipeline

import "sync/atomic"

const (
	// maxUncommitted and maxUncommittedBytes bound what is admitted and not yet on
	// disk. The bytes are the bound that counts; that of events holds a dozen of the
	// largest batch requests.
	maxUncommitted      = 16384
	maxUncommittedBytes = 64 << 20
	// submissionBytes is what an event takes beside its payload and headers.
	submissionBytes = 1 << 10
	// MaxUnrecorded and maxUnrecordedBytes bound the outcomes that wait for their
	// commit, and what receivers have answered. Beyond them lanes take no work and
	// nothing starts. With the attempts under way it is the most that a crash can repeat.
	MaxUnrecorded      = 2048
	maxUnrecordedBytes = 32 << 20
	// answerLeft is what is kept of an answer that comes when so many bytes wait already,
	// from one of the attempts that were under way.
	answerLeft = 1 << 10
)

// load counts what waits for the database.
type load struct {
	uncommitted, uncommittedBytes atomic.Int64 // events that are admitted
	unrecorded, unrecordedBytes   atomic.Int64 // outcomes of attempts
}

// admit takes in n events of the given size together, unless that would be too much.
func (l *load) admit(n int, bytes int64) bool {
	events, size := l.uncommitted.Add(int64(n)), l.uncommittedBytes.Add(bytes)
	if events > maxUncommitted || size > maxUncommittedBytes {
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
func (l *load) overburdened() bool {
	return l.unrecorded.Load() >= MaxUnrecorded || l.unrecordedBytes.Load() >= maxUnrecordedBytes
}
