package telemetry

import (
	"io"
	"sync"
	"time"
)

const (
	// lineDelay is how long a log line may wait for others. A crash loses that much of
	// the log, and nothing else: the database is the record.
	lineDelay = 50 * time.Millisecond
	// lineBytes is how much may wait.
	lineBytes = 64 << 10
)

// Lines gathers log lines and writes them together. At ten thousand events a
// second a write for each line costs more than making the line. Make it with
// [NewLines]; call Flush at the end. Safe for concurrent use.
type Lines struct {
	mu      sync.Mutex
	out     io.Writer
	waiting []byte
	timer   *time.Timer
	armed   bool
}

// NewLines returns lines that are written to out.
func NewLines(out io.Writer) *Lines {
	l := &Lines{out: out, waiting: make([]byte, 0, lineBytes)}
	l.timer = time.AfterFunc(time.Hour, l.Flush)
	l.timer.Stop()
	return l
}

// Write takes whole lines. It never fails: a log that can't be written must not
// stop what it tells of.
func (l *Lines) Write(p []byte) (int, error) {
	l.add(func(b []byte) ([]byte, bool) { return append(b, p...), true })
	return len(p), nil
}

// add lets write append a line to what waits, which stays as it was where write
// reports false.
func (l *Lines) add(write func([]byte) ([]byte, bool)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	longer, ok := write(l.waiting)
	if !ok {
		return false
	}
	l.waiting = longer
	switch {
	case len(l.waiting) >= lineBytes:
		l.flush()
	case !l.armed:
		l.armed = true
		l.timer.Reset(lineDelay)
	}
	return true
}

// Flush writes what waits.
func (l *Lines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	l.flush()
}

func (l *Lines) flush() {
	if len(l.waiting) > 0 {
		_, _ = l.out.Write(l.waiting)
		l.waiting = l.waiting[:0]
	}
}
