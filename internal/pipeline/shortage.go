package pipeline

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/posthaste-dev/posthaste/internal/deliver"
)

// shortageOver is how long after the last attempt that failed for lack of something a
// shortage counts as over. It is longer than deliveries wait in between.
const shortageOver = 90 * time.Second

// shortage is what this server lacks for its attempts at the moment.
type shortage struct {
	counts *prometheus.CounterVec // by what was lacking

	mu    sync.Mutex
	of    deliver.Shortage
	since time.Duration // uptime of the first such failure
	last  time.Duration // and of the last one
}

// note takes in the result of an attempt that failed on this server, and returns for
// how long the shortage has lasted. An attempt that failed here for another reason,
// such as a secret that cannot be opened, is none.
func (s *shortage) note(r deliver.Result) time.Duration {
	if r.Shortage == "" {
		return time.Hour
	}
	now := uptime()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.WithLabelValues(string(r.Shortage)).Inc()
	if s.isOver(now) {
		s.since = now
	}
	s.of, s.last = r.Shortage, now
	return now - s.since
}

func (s *shortage) isOver(now time.Duration) bool { return s.of == "" || now-s.last > shortageOver }

// look returns what is lacking, in words, or "".
func (s *shortage) look() string {
	now := uptime()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOver(now) {
		return ""
	}
	return fmt.Sprintf("attempts fail for lack of %s on this server, for %s, the last one %s ago",
		s.of, (now - s.since).Round(time.Second), (now - s.last).Round(time.Second))
}

// Shortage returns what this server lacks for its attempts, in words, or "". It can
// accept events all the same.
func (p *Pipeline) Shortage() string { return p.shortage.look() }
