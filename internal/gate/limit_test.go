package gate

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/posthaste-dev/posthaste"
)

var t0 = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func limited(rps float64, burst int) Policy {
	return Policy{Limit: &posthaste.RateLimit{RPS: rps, Burst: &burst}, Timeout: time.Second}
}

// takeAll takes up to want through the gate at now and returns when each starts.
func takeAll(s *State, p Policy, now time.Time, want int) []Start {
	pass := s.Enter(p, now, want)
	next, starts, _ := s.Take(p, now, make([]Taken, pass.Attempts))
	*s = next
	return starts
}

// TestLimitInAnyWindow takes at random moments, in random amounts, as several
// replicas would, and starts each attempt as late as it may: no window of time has
// more than rps × its length + burst starts.
func TestLimitInAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rps := rapid.Float64Range(0.5, 5000).Draw(t, "rps")
		burst := rapid.IntRange(1, 200).Draw(t, "burst")
		p, s, now := limited(rps, burst), State{}, t0
		kept := time.Duration(burst/4) * limitOf(*p.Limit).interval
		var starts []time.Time
		for range rapid.IntRange(1, 40).Draw(t, "claims") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(400*time.Millisecond)).Draw(t, "pause")))
			for _, start := range takeAll(&s, p, now, rapid.IntRange(0, 64).Draw(t, "want")) {
				if start.At.Before(now) || start.At.After(now.Add(Ahead)) {
					t.Fatalf("a start %s from now", start.At.Sub(now))
				}
				late := time.Duration(rapid.Int64Range(0, int64(kept)).Draw(t, "late"))
				if start.At.Add(late).After(start.Latest) {
					t.Fatalf("late by %s, more than allowed", late)
				}
				starts = append(starts, start.At.Add(late))
			}
		}
		slices.SortFunc(starts, time.Time.Compare)
		for i := range starts {
			for j := i; j < len(starts); j++ {
				window := starts[j].Sub(starts[i]).Seconds()
				if n, most := float64(j-i+1), rps*window+float64(burst); n > most+1e-6 {
					t.Fatalf("%v starts in %v s, at most %v allowed (rps %v, burst %d)", n, window, most, rps, burst)
				}
			}
		}
	})
}

// TestLimitIsReached takes whenever the gate says that there is more: over a long
// time at least 0.95 of the rate passes.
func TestLimitIsReached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rps := rapid.Float64Range(0.5, 2000).Draw(t, "rps")
		burst := rapid.IntRange(1, 50).Draw(t, "burst")
		p, s, now, taken := limited(rps, burst), State{}, t0, 0
		length := time.Duration(math.Max(20, 200/rps) * float64(time.Second))
		for now.Before(t0.Add(length)) {
			pass := s.Enter(p, now, 64)
			var starts []Start
			s, starts, _ = s.Take(p, now, make([]Taken, pass.Attempts))
			taken += len(starts)
			switch {
			case !pass.Again.IsZero() && !pass.Again.After(now):
				t.Fatalf("told to come again at %s, which has passed", pass.Again)
			case !pass.Again.IsZero():
				now = pass.Again
			default:
				now = now.Add(time.Millisecond)
			}
		}
		if least := 0.95 * rps * length.Seconds(); float64(taken) < least-1 && rps <= 64*1000 {
			t.Fatalf("%d in %s, want at least %v (rps %v)", taken, length, least, rps)
		}
	})
}

func TestRetriesHaveALimitOfTheirOwn(t *testing.T) {
	p := Policy{RetryRPS: 10, Timeout: time.Second}
	s := State{}
	pass := s.Enter(p, t0, 64)
	if pass.Attempts != 64 || pass.Retries < 1 || pass.Retries > 4 {
		t.Fatalf("%+v: want 64 attempts, of which those retries that start within %s", pass, Ahead)
	}
	taken := make([]Taken, 10)
	for i := range pass.Retries {
		taken[3*i].Retry = true
	}
	s, starts, _ := s.Take(p, t0, taken)
	for i, start := range starts {
		if !taken[i].Retry && !start.At.IsZero() {
			t.Errorf("a first attempt waits until %s", start.At)
		}
	}
	if again := s.Enter(p, t0, 64); again.Attempts != 64 || again.Retries != 0 || !again.Again.After(t0) {
		t.Errorf("%+v: want no further retries now, and when there are", again)
	}
}

func TestBothLimitsHold(t *testing.T) {
	p := limited(100, 1)
	p.RetryRPS = 10
	s := State{}
	var retries []time.Time
	for now := t0; now.Before(t0.Add(3 * time.Second)); now = now.Add(20 * time.Millisecond) {
		pass := s.Enter(p, now, 64)
		taken := make([]Taken, pass.Attempts)
		for i := range min(pass.Retries, len(taken)) {
			taken[i].Retry = true
		}
		var starts []Start
		s, starts, _ = s.Take(p, now, taken)
		for i, start := range starts {
			if taken[i].Retry {
				retries = append(retries, start.At)
			}
			if start.Latest.Before(start.At) {
				t.Fatalf("may start from %s until %s", start.At, start.Latest)
			}
		}
	}
	if n := len(retries); n < 28 || n > 33 {
		t.Errorf("%d retries in 3 s at 10 a second", n)
	}
}

// Slots that were handed out under another limit do not outlast it: whoever asks for
// less of a burst, or for more a second, does not stop the endpoint.
func TestAChangedLimitDoesNotWaitForSlotsOfTheOneBefore(t *testing.T) {
	policy := func(rps float64, burst int) Policy {
		return Policy{Limit: &posthaste.RateLimit{RPS: rps, Burst: &burst}, RetryRPS: rps}
	}
	now := time.Unix(1_000_000, 0)
	for name, limits := range map[string][2]Policy{
		"a smaller burst": {policy(1, 3600), policy(1, 10)},
		"a higher rate":   {policy(0.01, 1), policy(100, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			before, after := limits[0], limits[1]
			pass := s.Enter(before, now, 10_000)
			s, _, _ = s.Take(before, now, make([]Taken, pass.Attempts))
			s, _, _ = s.Take(before, now, []Taken{{Retry: true}})
			later := now.Add(3 * time.Second)
			pass = s.Enter(after, later, 10)
			if pass.Attempts == 0 || pass.Retries == 0 {
				t.Fatalf("after three seconds under the new limit: %+v, more comes after %s", pass, pass.Again.Sub(later))
			}
			s, starts, _ := s.Take(after, later, []Taken{{}, {}, {}})
			for i, start := range starts {
				if wait, most := start.At.Sub(later).Seconds(), 0.001+float64(i)/(after.Limit.RPS*pace); wait > most {
					t.Errorf("attempt %d starts after %v s", i, wait)
				}
				if i > 0 && start.At.Sub(starts[i-1].At).Seconds() < 1/after.Limit.RPS {
					t.Error("the burst begins anew")
				}
			}
			if _, starts, _ = s.Take(after, later, []Taken{{Retry: true}}); starts[0].At.Sub(later) > 5*time.Second {
				t.Errorf("a retry starts after %s", starts[0].At.Sub(later))
			}
		})
	}
}
