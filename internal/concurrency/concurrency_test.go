package concurrency_test

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/concurrency"
)

const ms = time.Millisecond

// rounds plays rounds in which as many attempts as the limit allows are under way.
// receiver returns the latency of one, and whether it fails, by how many there are.
func rounds(s concurrency.State, n, most int, receiver func(underWay, i int) (time.Duration, bool)) concurrency.State {
	i := 0
	for range n {
		for slots := s.Slots(most); slots > 0; slots-- {
			latency, failed := receiver(s.Slots(most), i)
			s = s.After(concurrency.Attempt{Latency: latency, Failed: failed, Limited: true}, most)
			i++
		}
	}
	return s
}

func TestLimits(t *testing.T) {
	steady := func(latency time.Duration) func(int, int) (time.Duration, bool) {
		return func(int, int) (time.Duration, bool) { return latency, false }
	}
	for _, c := range []struct {
		name     string
		rounds   int
		most     int
		receiver func(underWay, i int) (time.Duration, bool)
		min, max int
	}{
		{"begins small", 0, 256, nil, concurrency.Initial, concurrency.Initial},
		{"never exceeds what the endpoint allows", 0, 3, nil, 3, 3},
		{"takes one at least", 0, 0, nil, 1, 1},
		{"a steady receiver of 300 ms gets all within 5 rounds", 5, 256, steady(300 * ms), 256, 256},
		{"the same up to its bound", 20, 100, steady(300 * ms), 100, 100},
		{"a receiver with room for 40 gets about as many", 30, 256, func(underWay, _ int) (time.Duration, bool) {
			return 100 * ms * time.Duration(max(underWay, 40)) / 40, false
		}, 32, 180},
		{"a receiver that always fails gets one", 20, 256, func(int, int) (time.Duration, bool) { return ms, true }, 1, 1},
		{"a failure now and then changes little", 40, 256, func(_, i int) (time.Duration, bool) { return 100 * ms, i%100 == 99 }, 200, 256},
		{"one that refuses beyond 50 gets fewer", 60, 256, func(underWay, i int) (time.Duration, bool) {
			return 100 * ms, underWay > 50 && i%2 == 0
		}, 20, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := rounds(concurrency.State{}, c.rounds, c.most, c.receiver).Slots(c.most); got < c.min || got > c.max {
				t.Errorf("%d slots, want %d to %d", got, c.min, c.max)
			}
		})
	}
}

func TestALimitThatBoundsNothingStays(t *testing.T) {
	s := concurrency.State{}
	for range 1000 {
		s = s.After(concurrency.Attempt{Latency: ms}, 256)
	}
	if got := s.Slots(256); got != concurrency.Initial {
		t.Errorf("%d slots, want %d", got, concurrency.Initial)
	}
}

func TestAReceiverThatComesBackGetsItsSlotsBack(t *testing.T) {
	up := func(int, int) (time.Duration, bool) { return 100 * ms, false }
	s := rounds(concurrency.State{}, 10, 256, up)
	s = rounds(s, 20, 256, func(int, int) (time.Duration, bool) { return ms, true })
	if got := s.Slots(256); got != 1 {
		t.Fatalf("%d slots while it fails, want 1", got)
	}
	before := 1
	for range 40 {
		s = rounds(s, 1, 256, up)
		if got := s.Slots(256); got < before {
			t.Fatalf("%d slots after %d", got, before)
		} else {
			before = got
		}
	}
	if before < 100 {
		t.Errorf("%d slots 40 rounds after it came back, want 100 or more", before)
	}
}

// A receiver that becomes slower for good has a new base in the end.
func TestAReceiverThatStaysSlowerGrowsAgain(t *testing.T) {
	s := rounds(concurrency.State{}, 1, 64, func(int, int) (time.Duration, bool) { return 10 * ms, false })
	s = rounds(s, 1000, 64, func(int, int) (time.Duration, bool) { return 100 * ms, false })
	if got := s.Slots(64); got != 64 {
		t.Errorf("%d slots, want 64", got)
	}
}
