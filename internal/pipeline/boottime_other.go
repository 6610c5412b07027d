//go:build !linux

package pipeline

import "time"

var sinceStart = newElapsed(processStart)

// sinceBoot returns a time that never goes back and passes while the machine sleeps.
func sinceBoot() time.Duration { return sinceStart.at(time.Now()) }
