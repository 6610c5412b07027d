package inhttp

import (
	"sync"
	"time"
)

// What the diagnoses of rejected requests may cost. Beyond it a rejection says only
// what the verification found.
const (
	diagnosedBytesPerSecond = 256 << 10
	diagnosedBytesAtOnce    = 512 << 10
	minDiagnosedBytes       = 8 << 10 // what the shortest body counts for
)

// allowance bounds how many bytes of bodies are diagnosed. The zero value is full.
type allowance struct {
	mu    sync.Mutex
	spent float64 // bytes, which decrease with time
	at    time.Time
}

// take reports whether a body of so many bytes may be diagnosed.
func (a *allowance) take(bytes int, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spent = max(0, a.spent-now.Sub(a.at).Seconds()*diagnosedBytesPerSecond)
	a.at = now
	cost := float64(max(bytes, minDiagnosedBytes))
	if a.spent+cost > diagnosedBytesAtOnce {
		return false
	}
	a.spent += cost
	return true
}
