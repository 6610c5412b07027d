package pipeline

import (
	"slices"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// What a gate holds back keeps nobody awake, and is not slept through.
func TestWhatAGateHoldsIsSleptOver(t *testing.T) {
	const far = 14 * time.Second
	one := 1
	for name, test := range map[string]struct {
		edit    func(*posthaste.Definition)
		answers []int
		asks    string // for Retry-After
		ends    posthaste.State
	}{
		"an open breaker": {
			edit: func(d *posthaste.Definition) { shortBreaker(1, far)(d) }, answers: []int{500}, ends: posthaste.StateDelivered,
		},
		"Retry-After": {answers: []int{429}, asks: "14", ends: posthaste.StateDelivered},
		"a rate limit": {
			edit: func(d *posthaste.Definition) { d.RateLimit = &posthaste.RateLimit{RPS: 1 / far.Seconds(), Burst: &one} }, ends: posthaste.StateDelivered,
		},
		"an ordered endpoint's head that failed": {
			edit: func(d *posthaste.Definition) {
				ordered(d)
				d.Retry.Schedule = []posthaste.Duration{posthaste.Duration(far)}
			},
			answers: []int{500}, ends: posthaste.StateDelivered,
		},
		"an open breaker, past the deadline": {
			edit: func(d *posthaste.Definition) {
				shortBreaker(1, time.Hour)(d)
				d.Retry.Deadline = posthaste.Duration(far)
				d.Breaker.ResetMax = d.Breaker.Reset
			},
			answers: slices.Repeat([]int{500}, 9), ends: posthaste.StateDead,
		},
		"a pause, past the deadline": {
			edit: func(d *posthaste.Definition) { d.Retry.Deadline = posthaste.Duration(far) }, ends: posthaste.StateDead,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, r := startEngine(t, nil), newReceiver(t, test.answers...)
			if test.asks != "" {
				r.header.Set("Retry-After", test.asks)
			}
			row := e.endpoint(r.URL, test.edit)
			if name == "a pause, past the deadline" {
				if _, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, func(row *store.EndpointRow) error { row.Paused = true; return nil }); err != nil {
					t.Fatal(err)
				}
			}
			first := e.send("a", "first")
			second := e.send("a", "second")
			e.eventually(far-time.Second, "it sleeps", func() bool { return e.rest.is(asleep) })
			waiting := 0
			for _, got := range []Receipt{first, second} {
				if e.delivery(got.ID, 1).State == posthaste.StatePending {
					waiting++
				}
			}
			if waiting == 0 {
				t.Error("nothing was held back")
			}
			for _, got := range []Receipt{first, second} {
				if d, _ := e.ended(got.ID, 1); d.State != test.ends {
					t.Errorf("%+v", d)
				}
			}
			e.verified()
		})
	}
}

// A breaker whose time has come lets a probe pass; where nothing is due for it, nobody
// looks again and again.
func TestAnOpenBreakerWithNothingDueIsQuiet(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 500)
	row := e.endpoint(r.URL, func(d *posthaste.Definition) {
		shortBreaker(1, 200*time.Millisecond)(d)
		d.Retry.Schedule = []posthaste.Duration{posthaste.Duration(time.Hour)}
	})
	got := e.send("a", "x")
	e.eventually(5*time.Second, "the breaker is open", func() bool { return e.gate(row.No).Breaker == gate.Open })
	if _, err := e.Skip(t.Context(), e.tenant, got.ID.Delivery(1)); err != nil {
		t.Fatal(err)
	}
	e.eventually(5*time.Second, "a probe is looked for", func() bool { return e.flaky.throughs.Load() > 0 })
	e.eventually(15*time.Second, "it sleeps", func() bool { return e.rest.is(asleep) })
	if n := e.flaky.throughs.Load(); n > 5 {
		t.Errorf("%d claims through a gate behind which nothing is due", n)
	}
}
