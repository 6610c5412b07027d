package pipeline

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Bodies of rejections are kept whole within their bound, unless one source would have
// too many bytes written in a second.
func TestBytesOfRejections(t *testing.T) {
	const whole = posthaste.MaxRejectionBodyBytes
	var tally rejectionTally
	now := time.Hour
	for i, want := range []int{whole, whole, posthaste.MaxShownBodyBytes, posthaste.MaxShownBodyBytes, posthaste.MaxShownBodyBytes} {
		if _, kept, keep := tally.take(now, whole); !keep || kept != want {
			t.Errorf("rejection %d: %v, %d bytes are kept, want %d", i+1, keep, kept, want)
		}
	}
	if _, _, keep := tally.take(now, 1); keep || tally.keeps(now) {
		t.Error("a sixth rejection in a second is kept")
	}
	now += time.Second
	if !tally.keeps(now) {
		t.Error("a second later none is kept")
	}
	for _, c := range []struct{ bytes, want int }{{whole + 1, posthaste.MaxShownBodyBytes}, {0, 0}, {10, 10}, {whole, whole}} {
		if _, kept, _ := tally.take(now, c.bytes); kept != c.want {
			t.Errorf("of %d bytes %d are kept, want %d", c.bytes, kept, c.want)
		}
	}
}
