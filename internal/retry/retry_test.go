package retry_test

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/retry"
)

func parse(t testing.TB, list ...string) retry.StatusSet {
	t.Helper()
	set, err := retry.ParseStatuses(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestClassify(t *testing.T) {
	const (
		delivered = posthaste.OutcomeDelivered
		transient = posthaste.OutcomeTransient
		permanent = posthaste.OutcomePermanent
	)
	usual := posthaste.DefaultDefinition().Retry.Transient
	for _, c := range []struct {
		list   []string
		status int
		cause  posthaste.Cause
		want   posthaste.Outcome
	}{
		{usual, 200, posthaste.CauseNone, delivered},
		{usual, 204, posthaste.CauseNone, delivered},
		{usual, 299, posthaste.CauseNone, delivered},
		{usual, 300, posthaste.CauseStatus, transient},
		{usual, 302, posthaste.CauseStatus, transient},
		{usual, 400, posthaste.CauseStatus, permanent},
		{usual, 401, posthaste.CauseStatus, permanent},
		{usual, 404, posthaste.CauseStatus, permanent},
		{usual, 408, posthaste.CauseStatus, transient},
		{usual, 409, posthaste.CauseStatus, permanent},
		{usual, 410, posthaste.CauseStatus, permanent},
		{usual, 425, posthaste.CauseStatus, transient},
		{usual, 429, posthaste.CauseStatus, transient},
		{usual, 500, posthaste.CauseStatus, transient},
		{usual, 599, posthaste.CauseStatus, transient},
		{[]string{"4xx"}, 410, posthaste.CauseStatus, permanent},
		{[]string{"4xx"}, 404, posthaste.CauseStatus, transient},
		{[]string{"4xx"}, 500, posthaste.CauseStatus, permanent},
		{nil, 500, posthaste.CauseStatus, permanent},
		{nil, 302, posthaste.CauseStatus, permanent},
		{nil, 200, posthaste.CauseNone, delivered},
		{nil, 101, posthaste.CauseStatus, transient},
		{nil, 600, posthaste.CauseStatus, transient},
		{nil, 999, posthaste.CauseBadResponse, transient},
		{nil, 0, posthaste.CauseTooLarge, transient},
		{usual, 200, posthaste.CauseTooLarge, delivered},
		{usual, 404, posthaste.CauseTooLarge, permanent},
		{usual, 200, posthaste.CauseBodyTimeout, transient},
		{usual, 404, posthaste.CauseBodyTimeout, transient},
		{usual, 410, posthaste.CauseBodyTimeout, permanent},
		{usual, 200, posthaste.CauseBadResponse, transient},
		{nil, 0, posthaste.CauseDNS, transient},
		{nil, 0, posthaste.CauseBlockedAddress, transient},
		{nil, 0, posthaste.CauseRefused, transient},
		{nil, 0, posthaste.CauseConnectTimeout, transient},
		{nil, 0, posthaste.CauseTLS, transient},
		{nil, 0, posthaste.CauseWrite, transient},
		{nil, 0, posthaste.CauseHeaderTimeout, transient},
		{nil, 0, posthaste.CauseHandler, transient},
		{nil, 0, posthaste.CauseLost, posthaste.OutcomeLost},
		{nil, 0, posthaste.CauseLocal, transient},
		{usual, 404, posthaste.CauseLocal, transient},
	} {
		if got := retry.Classify(parse(t, c.list...), c.status, c.cause); got != c.want {
			t.Errorf("%v, %d, %s: %s, want %s", c.list, c.status, c.cause, got, c.want)
		}
	}
}

// Each status has exactly one class: delivered iff 2xx, transient iff listed or
// no real status, permanent otherwise.
func TestClassifyProperty(t *testing.T) {
	entry := rapid.OneOf(rapid.SampledFrom([]string{"3xx", "4xx", "5xx"}),
		rapid.Custom(func(t *rapid.T) string {
			return strconv.Itoa(rapid.IntRange(300, 599).Filter(func(n int) bool { return n != 410 }).Draw(t, "n"))
		}))
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOf(entry).Draw(rt, "list")
		status := rapid.IntRange(-1, 1100).Draw(rt, "status")
		set, err := retry.ParseStatuses(list)
		if err != nil {
			rt.Fatal(err)
		}
		text := strconv.Itoa(status)
		listed := slices.Contains(list, text) || len(text) == 3 && slices.Contains(list, text[:1]+"xx")
		want := posthaste.OutcomePermanent
		switch {
		case status >= 200 && status <= 299:
			want = posthaste.OutcomeDelivered
		case status != 410 && (listed || status < 200 || status > 599):
			want = posthaste.OutcomeTransient
		}
		if got := retry.Classify(set, status, posthaste.CauseStatus); got != want {
			rt.Fatalf("%v, %d: %s, want %s", list, status, got, want)
		}
	})
}

func TestParseStatusesRefuses(t *testing.T) {
	for _, entry := range []string{"", "2xx", "200", "1xx", "6xx", "xx", "5XX", "410", "0500", "+50", "299", "600", "50", "5000", "-500", "5x", " 500", "abc", "５00"} {
		if _, err := retry.ParseStatuses([]string{"5xx", entry}); err == nil {
			t.Errorf("%q was accepted", entry)
		}
	}
	if set := parse(t); set != (retry.StatusSet{}) {
		t.Error("no entries do not give the empty set")
	}
}

func policy(jitter float64, steps ...time.Duration) posthaste.RetryPolicy {
	p := posthaste.RetryPolicy{Jitter: jitter}
	for _, s := range steps {
		p.Schedule = append(p.Schedule, posthaste.Duration(s))
	}
	return p
}

func TestNext(t *testing.T) {
	p := policy(0.2, 5*time.Second, 5*time.Minute)
	for name, c := range map[string]struct {
		failures   int
		random     float64
		retryAfter time.Duration
		want       time.Duration
		ok         bool
	}{
		"first, middle":            {1, 0.5, 0, 5 * time.Second, true},
		"first, lowest":            {1, 0, 0, 4 * time.Second, true},
		"second, lowest":           {2, 0, 0, 4 * time.Minute, true},
		"exhausted":                {3, 0.5, 0, 0, false},
		"exhausted, Retry-After":   {3, 0.5, time.Minute, 0, false},
		"no failure counts as one": {0, 0.5, 0, 5 * time.Second, true},
		"Retry-After is larger":    {1, 0, 30 * time.Second, 30 * time.Second, true},
		"Retry-After is smaller":   {2, 0.5, 30 * time.Second, 5 * time.Minute, true},
		"never below Retry-After":  {2, 0, 5 * time.Minute, 5 * time.Minute, true},
		"Retry-After of a year":    {1, 0.5, 365 * 24 * time.Hour, time.Hour, true},
		"negative Retry-After":     {1, 0.5, -time.Hour, 5 * time.Second, true},
	} {
		if got, ok := retry.Next(p, c.failures, c.random, c.retryAfter); got != c.want || ok != c.ok {
			t.Errorf("%s: %s %t, want %s %t", name, got, ok, c.want, c.ok)
		}
	}
	if _, ok := retry.Next(policy(0.2), 1, 0.5, time.Minute); ok {
		t.Error("an empty schedule has a step")
	}
	if got, _ := retry.Next(policy(0.2, 2*time.Hour), 1, 0.5, 90*time.Minute); got != 2*time.Hour {
		t.Errorf("a step above the cap of Retry-After was cut to %s", got)
	}
}

func TestNextProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt64), 0, 12).Draw(rt, "steps")
		p := posthaste.RetryPolicy{Jitter: rapid.Float64Range(0, 1).Draw(rt, "jitter")}
		for _, s := range steps {
			p.Schedule = append(p.Schedule, posthaste.Duration(s))
		}
		failures := rapid.IntRange(1, 14).Draw(rt, "failures")
		random := rapid.Float64Range(0, 1).Draw(rt, "random")
		after := time.Duration(rapid.Int64().Draw(rt, "after"))
		got, ok := retry.Next(p, failures, random, after)
		if want := failures <= len(steps); ok != want {
			rt.Fatalf("ok is %t, want %t", ok, want)
		}
		if !ok {
			return
		}
		step, counted := float64(steps[failures-1]), max(0, min(after, time.Hour))
		const rounding = 2048 // of a float64 near the largest duration
		if got < counted {
			rt.Fatalf("%d is below Retry-After %d", got, counted)
		}
		if low := step * (1 - p.Jitter); float64(got) < low-rounding {
			rt.Fatalf("%d is below the spread step %f", got, low)
		}
		if high := max(step*(1+p.Jitter), float64(counted)); float64(got) > high+rounding {
			rt.Fatalf("%d is above %f", got, high)
		}
		if zero, _ := retry.Next(posthaste.RetryPolicy{Schedule: p.Schedule}, failures, random, 0); zero != time.Duration(steps[failures-1]) {
			rt.Fatalf("without jitter %d, want %d", zero, steps[failures-1])
		}
	})
}

// Settings from an older version's database must not turn into a hot loop.
func TestNextSurvivesNonsense(t *testing.T) {
	for _, jitter := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 7} {
		for _, random := range []float64{math.NaN(), math.Inf(1), -3, 3} {
			got, ok := retry.Next(policy(jitter, math.MaxInt64, -time.Hour), 1, random, 0)
			if !ok || got < 0 {
				t.Errorf("jitter %v, random %v: %s", jitter, random, got)
			}
		}
	}
	if got, _ := retry.Next(policy(0.5, -time.Hour), 1, 0.5, 0); got != 0 {
		t.Errorf("a negative step gives %s", got)
	}
}

var now = time.Date(2026, 11, 29, 15, 0, 0, 0, time.UTC)

func TestParseRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"120":                            2 * time.Minute,
		" 120\t":                         2 * time.Minute,
		"007":                            7 * time.Second,
		"9223372036":                     9223372036 * time.Second,
		"Sun, 29 Nov 2026 15:02:00 GMT":  2 * time.Minute,
		"Sunday, 29-Nov-26 15:02:00 GMT": 2 * time.Minute,
		"Sun Nov 29 15:02:00 2026":       2 * time.Minute,
		"Fri, 31 Dec 9999 23:59:59 GMT":  math.MaxInt64,
		// Nothing that can be waited for:
		"": 0, " ": 0, "0": 0, "-1": 0, "+5": 0, "1.5": 0, "1e3": 0, "5s": 0, "0x10": 0, "1_000": 0, "soon": 0, "１２": 0,
		"9223372037": 0, "99999999999999999999": 0,
		"Sun, 29 Nov 2026 15:00:00 GMT": 0, "Sat, 28 Nov 2026 15:00:00 GMT": 0,
		"Sun, 32 Nov 2026 15:02:00 GMT": 0, "2026-11-29T15:02:00Z": 0,
	} {
		if got, ok := retry.ParseRetryAfter(value, now); got != want || ok != (want > 0) {
			t.Errorf("%q: %s %t, want %s", value, got, ok, want)
		}
	}
}

func TestRetryAfterByStatus(t *testing.T) {
	for status, want := range map[int]time.Duration{
		429: time.Minute, 503: time.Minute,
		0: 0, 200: 0, 301: 0, 413: 0, 500: 0, 502: 0, 504: 0,
	} {
		if got := retry.RetryAfter(status, "60", now); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

// FuzzParseRetryAfter: no value panics or gives a wait that is not ahead, and
// what is taken for seconds or a date is one.
func FuzzParseRetryAfter(f *testing.F) {
	for _, v := range []string{"120", "-1", "9223372037", "Sun, 29 Nov 2026 15:02:00 GMT", "Sun Nov 29 15:02:00 2026", "\x00", " 5 "} {
		f.Add(v, now.Unix())
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		at := time.Unix(unix, 0)
		wait, ok := retry.ParseRetryAfter(value, at)
		if ok != (wait > 0) || wait < 0 {
			t.Fatalf("%q: %s %t", value, wait, ok)
		}
		if !ok {
			return
		}
		trimmed := value
		for len(trimmed) > 0 && (trimmed[0] == ' ' || trimmed[0] == '\t') {
			trimmed = trimmed[1:]
		}
		for n := len(trimmed); n > 0 && (trimmed[n-1] == ' ' || trimmed[n-1] == '\t'); n = len(trimmed) {
			trimmed = trimmed[:n-1]
		}
		if seconds, err := strconv.ParseUint(trimmed, 10, 63); err == nil {
			if wait != time.Duration(seconds)*time.Second || wait/time.Second != time.Duration(seconds) {
				t.Fatalf("%q: %s", value, wait)
			}
			return
		}
		if date, err := http.ParseTime(trimmed); err != nil || !date.After(at) {
			t.Fatalf("%q: taken for %s", value, wait)
		}
		if next, _ := retry.Next(policy(0, 0), 1, 0.5, wait); next > retry.MaxRetryAfter {
			t.Fatalf("%q counts for %s", value, next)
		}
	})
}
