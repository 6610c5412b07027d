package pipeline

import (
	"sync"
	"time"
)

// batchSize limits what one statement carries, in units of the caller's choice. A
// statement that met its time limit is never repeated at the same size: the limit
// falls to half of what it carried. It grows again a minute later, twofold with each
// statement that succeeds. Its methods are safe for concurrent use.
type batchSize struct {
	most int

	mu      sync.Mutex
	now     int
	growsAt time.Duration // uptime before which it does not grow
}

// growAfter is how long a smaller limit holds.
const growAfter = time.Minute

func newBatchSize(most int) *batchSize { return &batchSize{most: most, now: most} }

// limit returns how much the next statement may carry, at least 1.
func (s *batchSize) limit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// timedOut notes at an uptime that a statement of that size met its time limit.
func (s *batchSize) timedOut(size int, at time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = max(1, min(s.now, size/2))
	s.growsAt = at + growAfter
}

// succeeded notes at an uptime that a statement was answered.
func (s *batchSize) succeeded(at time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now < s.most && at >= s.growsAt {
		s.now = min(2*s.now, s.most)
	}
}
