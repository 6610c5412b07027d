package deliver

import (
	"math"
	"testing"
)

func TestAttemptsFollowTheMemory(t *testing.T) {
	for text, want := range map[string]int{"max\n": math.MaxInt64 / 4 / attemptBytes, "": math.MaxInt64 / 4 / attemptBytes, "268435456\n": 2048, "1048576\n": 8} {
		if got := attemptsWithin(parseMemory(text)); got != want {
			t.Errorf("memory.max %q: %d attempts, want %d", text, got, want)
		}
	}
}
