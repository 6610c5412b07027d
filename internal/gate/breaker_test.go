package gate

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/posthaste-dev/posthaste"
)

func guarded(threshold int) Policy {
	return Policy{
		Breaker: &posthaste.Breaker{Threshold: threshold, Reset: posthaste.Duration(30 * time.Second), ResetMax: posthaste.Duration(5 * time.Minute)},
		Timeout: 15 * time.Second,
	}
}

var (
	ok        = Result{Outcome: posthaste.OutcomeDelivered, StatusCode: 200}
	broken    = Result{Outcome: posthaste.OutcomeTransient, StatusCode: 503, Cause: posthaste.CauseStatus}
	refused   = Result{Outcome: posthaste.OutcomePermanent, StatusCode: 400, Cause: posthaste.CauseStatus}
	busy      = Result{Outcome: posthaste.OutcomeTransient, StatusCode: 429, Cause: posthaste.CauseStatus}
	blocked   = Result{Outcome: posthaste.OutcomeTransient, Cause: posthaste.CauseBlockedAddress}
	vanished  = Result{Outcome: posthaste.OutcomeLost, Cause: posthaste.CauseLost}
	local     = Result{Outcome: posthaste.OutcomeTransient, Cause: posthaste.CauseLocal}
	unreached = Result{Outcome: posthaste.OutcomeTransient, Cause: posthaste.CauseRefused}
)

func TestWhatCounts(t *testing.T) {
	p := guarded(3)
	for _, test := range []struct {
		name     string
		results  []Result
		breaker  Breaker
		failures int
	}{
		{"three in a row open it", []Result{broken, unreached, broken}, Open, 3},
		{"a success begins anew", []Result{broken, broken, ok, broken, broken}, Closed, 2},
		{"a refusal neither counts nor begins anew", []Result{broken, refused, broken, refused}, Closed, 2},
		{"and two more open it", []Result{broken, refused, broken, refused, broken}, Open, 3},
		{"429 does not count", []Result{broken, busy, busy, busy, broken}, Closed, 2},
		{"nor does a blocked address", []Result{blocked, blocked, blocked}, Closed, 0},
		{"nor a failure of this server", []Result{broken, local, local, local}, Closed, 1},
		{"nor what was lost", []Result{vanished, vanished, vanished}, Closed, 0},
		{"nor what ends after it opened", []Result{broken, broken, broken, broken, ok, refused}, Open, 3},
	} {
		s, _ := State{}.Record(p, t0, test.results)
		if s.Breaker != test.breaker || s.Failures != test.failures {
			t.Errorf("%s: %s after %d failures, want %s after %d", test.name, s.Breaker, s.Failures, test.breaker, test.failures)
		}
	}
}

func TestProbe(t *testing.T) {
	p := guarded(1)
	s, moves := State{}.Record(p, t0, []Result{broken})
	if !s.Hold(p, t0).Equal(t0.Add(30*time.Second)) || len(moves) != 1 || moves[0] != (Transition{Closed, Open}) {
		t.Fatalf("%+v %v", s, moves)
	}
	if pass := s.Enter(p, t0.Add(29*time.Second), 10); pass.Attempts != 0 || !pass.Again.Equal(s.OpenUntil) {
		t.Errorf("an open breaker lets pass %+v", pass)
	}
	now := t0.Add(30 * time.Second)
	if pass := s.Enter(p, now, 10); pass.Attempts != 1 {
		t.Errorf("%+v: want one probe", pass)
	}
	probe := Attempt{Delivery: posthaste.ID{1}, Number: 4}
	if s.Plain(Policy{}, now) {
		t.Error("an open breaker that was taken away is taken for closed")
	}
	half, starts, moves := s.Take(p, now, []Taken{{Attempt: probe, Retry: true}})
	if half.Breaker != HalfOpen || len(moves) != 1 || !starts[0].Latest.Equal(now.Add(MaxProbeWait)) {
		t.Fatalf("%+v %v %v", half, moves, starts)
	}
	next := half.OpenUntil
	if next.Sub(now.Add(MaxProbeWait)) < p.Timeout {
		t.Errorf("the next probe may start %s after this one at the latest: less than its timeout", next.Sub(now.Add(MaxProbeWait)))
	}
	if pass := half.Enter(p, next.Add(-1), 10); pass.Attempts != 0 {
		t.Errorf("two probes at once: %+v", pass)
	}
	if pass := half.Enter(p, next, 10); pass.Attempts != 1 {
		t.Errorf("no probe after the holder of the first one vanished: %+v", pass)
	}
	other := ok
	other.Attempt = Attempt{Delivery: posthaste.ID{2}, Number: 1}
	if s, moves := half.Record(p, now, []Result{other, broken, busy}); s.Breaker != HalfOpen || len(moves) != 0 {
		t.Errorf("moved by what is not the probe: %+v %v", s, moves)
	}
	for _, test := range []struct {
		result Result
		to     Breaker
	}{{ok, Closed}, {refused, Closed}, {broken, Open}} {
		r := test.result
		r.Attempt = probe
		s, moves := half.Record(p, now, []Result{r})
		if s.Breaker != test.to || len(moves) != 1 {
			t.Errorf("%+v: %s, want %s", r, s.Breaker, test.to)
		}
		if test.to == Open && !s.OpenUntil.Equal(now.Add(time.Minute)) {
			t.Errorf("the second wait is %s, want 1m", s.OpenUntil.Sub(now))
		}
	}
}

func TestWaitsDoubleUpToTheMost(t *testing.T) {
	p := guarded(1)
	s, now := State{}, t0
	for i, want := range []int{30, 60, 120, 240, 300, 300} {
		probe := Attempt{Number: i + 1}
		r := broken
		r.Attempt = probe
		if s.Breaker != Closed {
			s, _, _ = s.Take(p, now, []Taken{{Attempt: probe}})
		}
		s, _ = s.Record(p, now, []Result{r})
		if got := s.OpenUntil.Sub(now); got != time.Duration(want)*time.Second {
			t.Errorf("wait %d: %s, want %ds", i+1, got, want)
		}
		now = s.OpenUntil
	}
}

func TestRetryAfterHoldsTheEndpoint(t *testing.T) {
	p := guarded(10)
	asks := busy
	asks.RetryAfter = 2 * time.Hour
	s, _ := State{}.Record(p, t0, []Result{asks})
	if s.Failures != 0 || !s.Hold(p, t0).Equal(t0.Add(time.Hour)) {
		t.Errorf("%+v: want it held for an hour", s)
	}
	less := busy
	less.RetryAfter = time.Minute
	if again, _ := s.Record(p, t0, []Result{less}); !again.RetryAfterUntil.Equal(s.RetryAfterUntil) {
		t.Errorf("a shorter wait took the place of a longer one")
	}
	if pass := s.Enter(Policy{}, t0, 5); pass.Attempts != 0 || !pass.Again.Equal(s.RetryAfterUntil) {
		t.Errorf("%+v: Retry-After holds without a breaker too", pass)
	}
}

func TestRamp(t *testing.T) {
	s := State{ClosedAt: t0}
	for i, want := range []int{1, 2, 4, 8, 16, 16} {
		if got := s.Share(16, t0.Add(time.Duration(i)*time.Second)); got != want {
			t.Errorf("after %d s %d slots, want %d", i, got, want)
		}
	}
	if (State{}).Share(16, t0) != 16 {
		t.Error("a breaker that never closed leaves all slots")
	}
}

func TestFailingSince(t *testing.T) {
	p := Policy{}
	s, _ := State{}.Record(p, t0, []Result{refused})
	s, _ = s.Record(p, t0.Add(time.Hour), []Result{broken, busy})
	if !s.FailingSince.Equal(t0) {
		t.Errorf("failing since %s, want %s", s.FailingSince, t0)
	}
	if s, _ = s.Record(p, t0.Add(time.Hour), []Result{ok}); s != (State{}) {
		t.Errorf("after a success %+v is left", s)
	}
}

// model is the breaker in a few words, to compare with.
type model struct {
	failures, openings int
	breaker            Breaker
	until              time.Time
	probe              Attempt
}

// TestBreakerAgainstModel drives the gate of an endpoint as replicas would: results
// of any attempt at any time, claims when they like, holders that vanish.
func TestBreakerAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := guarded(rapid.IntRange(1, 5).Draw(t, "threshold"))
		p.Timeout = time.Duration(rapid.IntRange(1, 60).Draw(t, "timeout")) * time.Second
		s, m, now, number := State{}, model{}, t0, 0
		var startedBy time.Time // when the probe that nothing was heard of had started at the latest
		kinds := []Result{ok, broken, refused, busy, blocked, vanished, unreached}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "pause")) * time.Second)
			if rapid.Bool().Draw(t, "claim") {
				want := rapid.IntRange(1, 20).Draw(t, "want")
				pass := s.Enter(p, now, want)
				switch open := m.breaker == Closed; {
				case open && pass.Attempts != want:
					t.Fatalf("closed, and %+v of %d pass", pass, want)
				case !open && now.Before(m.until) && (pass.Attempts != 0 || !pass.Again.Equal(m.until)):
					t.Fatalf("%s until %s, and %+v pass", m.breaker, m.until, pass)
				case !open && !now.Before(m.until) && pass.Attempts != 1:
					t.Fatalf("a probe is due, and %+v pass", pass)
				}
				if pass.Attempts == 0 || m.breaker == Closed {
					continue
				}
				number++
				m.breaker, m.probe, m.until = HalfOpen, Attempt{Number: number}, now.Add(p.Timeout+ProbeMargin)
				var starts []Start
				s, starts, _ = s.Take(p, now, []Taken{{Attempt: m.probe}})
				if !startedBy.IsZero() && now.Sub(startedBy) < p.Timeout {
					t.Fatalf("two probes may have started %s apart", now.Sub(startedBy))
				}
				startedBy = starts[0].Latest
				continue
			}
			r := rapid.SampledFrom(kinds).Draw(t, "result")
			if rapid.Bool().Draw(t, "of the probe") {
				r.Attempt = m.probe
			} else {
				r.Attempt = Attempt{Delivery: posthaste.ID{9}, Number: 1}
			}
			if m.record(p, now, r); m.breaker != HalfOpen {
				startedBy = time.Time{}
			}
			s, _ = s.Record(p, now, []Result{r})
			if s.Breaker != m.breaker || s.Breaker == Closed && s.Failures != m.failures || s.Breaker != Closed && !s.OpenUntil.Equal(m.until) {
				t.Fatalf("after %+v: %+v, the model says %+v", r, s, m)
			}
		}
	})
}

func (m *model) record(p Policy, now time.Time, r Result) {
	works := r.Outcome == posthaste.OutcomeDelivered
	answers := works || r.Outcome == posthaste.OutcomePermanent
	fails := r.Outcome == posthaste.OutcomeTransient && r.StatusCode != 429 && r.Cause != posthaste.CauseBlockedAddress
	open := func() {
		m.breaker, m.openings = Open, m.openings+1
		wait := 30 * time.Second << (m.openings - 1)
		if m.openings > 8 || wait > 5*time.Minute {
			wait = 5 * time.Minute
		}
		m.until = now.Add(wait)
	}
	switch {
	case m.breaker == HalfOpen && r.Attempt == m.probe && answers:
		*m = model{}
	case m.breaker == HalfOpen && r.Attempt == m.probe && fails:
		open()
	case m.breaker == Closed && works:
		m.failures = 0
	case m.breaker == Closed && fails:
		if m.failures++; m.failures >= p.Breaker.Threshold {
			open()
		}
	}
}

// An endpoint that is seldom sent to has not failed all the time between two failures.
func TestFailuresThatAreFarApart(t *testing.T) {
	const gap = 60 * time.Hour
	p := Policy{Gap: gap}
	failed := []Result{{Outcome: posthaste.OutcomePermanent, StatusCode: 400}}
	s, _ := State{}.Record(p, t0, failed)
	at := t0
	for range 40 { // each too soon for the time to begin anew
		at = at.Add(gap / 10)
		s, _ = s.Record(p, at, failed)
	}
	if !s.FailingSince.Equal(t0) {
		t.Errorf("failing since %s, want %s", s.FailingSince, t0)
	}
	again, _ := s.Record(p, at.Add(time.Minute), failed)
	if again != s {
		t.Errorf("a failure after a minute is written down: %+v, %+v", s, again)
	}
	at = at.Add(gap + time.Minute)
	if s, _ = s.Record(p, at, failed); !s.FailingSince.Equal(at) {
		t.Errorf("after a gap failing since %s, want %s", s.FailingSince, at)
	}
	if s, _ = s.Record(p, at, []Result{{Outcome: posthaste.OutcomeDelivered}}); s != (State{}) {
		t.Errorf("after a success: %+v", s)
	}
}
