package pipeline

import (
	"testing"
	"time"
)

func TestElapsed(t *testing.T) {
	e := newElapsed(time.Now())
	for _, step := range []struct {
		what            string
		monotonic, wall time.Duration
		want            time.Duration
	}{
		{"both clocks run", time.Second, time.Second, time.Second},
		{"the machine slept for an hour", time.Millisecond, time.Hour, time.Second + time.Hour},
		{"the wall clock was set back", time.Second, -time.Hour, 2*time.Second + time.Hour},
		{"both stand still", 0, 0, 2*time.Second + time.Hour},
		{"the wall clock was set ahead", time.Second, 24 * time.Hour, 2*time.Second + 25*time.Hour},
	} {
		if got := e.advance(step.monotonic, step.wall, time.Now()); got != step.want {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
	// With real readings it follows the monotonic clock.
	e = newElapsed(time.Now())
	before := time.Now()
	first := e.at(before)
	if d := e.at(before.Add(3*time.Second)) - first; d != 3*time.Second {
		t.Errorf("three seconds are %v", d)
	}
}
