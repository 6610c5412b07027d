package pipeline

import (
	"sync/atomic"

	"github.com/posthaste-dev/posthaste"
)

const (
	// maxUncommitted and maxUncommittedBytes bound what is admitted and not yet on
	// disk. The bytes are the bound that counts; that of events holds a dozen of the
	// largest batch requests.
	maxUncommitted      = 16384
	maxUncommittedBytes = 64 << 20
	// MaxUnrecorded and maxUnrecordedBytes bound the outcomes that wait for their
	// commit, and what receivers have answered. Beyond them lanes take no work and
	// nothing starts. With the attempts under way it is the most that a crash can repeat.
	MaxUnrecorded      = 2048
	maxUnrecordedBytes = 32 << 20
)

// load counts what waits for the database.
type load struct {
	uncommitted, uncommittedBytes atomic.Int64 // events that are admitted
	unrecorded, unrecordedBytes   atomic.Int64 // outcomes of attempts
	refusal                       atomic.Pointer[error]
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

// refused notes that the database refuses to store, whatever it is given. stored ends that.
func (l *load) refused(err error) { l.refusal.Store(&err) }

func (l *load) stored() {
	if l.refusal.Load() != nil {
		l.refusal.Store(nil)
	}
}

// refusing returns why the engine is not ready while the database refuses to store, or nil.
func (l *load) refusing() error {
	err := l.refusal.Load()
	if err == nil {
		return nil
	}
	return &posthaste.Error{
		Code: posthaste.CodeUnavailable, Message: "the database answers and refuses to store events or outcomes",
		Hint: "see the log for its error; a missing right, a full disk or a damaged index are typical causes", Err: *err,
	}
}
