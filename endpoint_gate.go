package posthaste

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// What decides whether an endpoint may be attempted now, as its owner sets it.
// How it stands at the moment is the endpoint's gate.

// RateLimit bounds how often an endpoint is attempted, over all replicas: in any
// time t at most RPS × t + Burst attempts begin. Retries and replays count; what is
// over the limit waits.
type RateLimit struct {
	RPS   float64 `json:"rps" doc:"Attempts a second, 0.001 to 100000"`
	Burst *int    `json:"burst,omitempty" doc:"How many may begin at once after a pause, 1 to 100000. Left out, or null: rps, rounded up, also when rps changes"`
}

// Size returns the burst, by default the attempts of one second.
func (r RateLimit) Size() int {
	if r.Burst != nil {
		return *r.Burst
	}
	return max(1, int(math.Ceil(r.RPS)))
}

// Breaker stops attempts at an endpoint that fails: after Threshold transient
// failures in a row it opens, for Reset at first and twice as long after each
// failed probe, ResetMax at most.
type Breaker struct {
	Threshold int      `json:"threshold" doc:"Transient failures in a row that open it, 1 to 10000"`
	Reset     Duration `json:"reset" doc:"How long it stays open before one delivery is tried, 100ms to 24h"`
	ResetMax  Duration `json:"reset_max" doc:"The wait doubles with each failed probe up to this, 24h at most"`
}

// DefaultBreaker returns the breaker of an endpoint whose owner says nothing of it.
func DefaultBreaker() Breaker {
	return Breaker{Threshold: 10, Reset: Duration(30 * time.Second), ResetMax: Duration(5 * time.Minute)}
}

// Ordering says in which order deliveries are made. Its JSON form is false or
// "endpoint".
type Ordering string

// The orderings.
const (
	Unordered         Ordering = ""         // as many at once as there is room for
	OrderedByEndpoint Ordering = "endpoint" // one at a time, in the order in which the events were accepted
)

// MarshalJSON writes false or "endpoint".
func (o Ordering) MarshalJSON() ([]byte, error) {
	if o == Unordered {
		return []byte("false"), nil
	}
	return json.Marshal(string(o))
}

// UnmarshalJSON reads false or "endpoint".
func (o *Ordering) UnmarshalJSON(raw []byte) error {
	switch string(raw) {
	case "false":
		*o = Unordered
	case `"endpoint"`:
		*o = OrderedByEndpoint
	default:
		return fmt.Errorf(`want false or "endpoint"`)
	}
	return nil
}

// Limits of what an endpoint's owner may set its gate to.
const (
	MinRPS              = 0.001
	MaxRPS              = 100_000
	MaxBurst            = 100_000
	MaxBreakerThreshold = 10_000
	MinBreakerReset     = 100 * time.Millisecond
	MaxBreakerReset     = 24 * time.Hour
)

func (d Definition) validateGate() (problems []Problem) {
	if r := d.RateLimit; r != nil {
		problems = append(problems, validateRPS("rate_limit.rps", r.RPS, "set rate_limit to null for no limit")...)
		if r.Burst != nil && (*r.Burst < 1 || *r.Burst > MaxBurst) {
			problems = append(problems, Problem{
				Field: "rate_limit.burst", Message: fmt.Sprintf("is %d", *r.Burst),
				Hint: fmt.Sprintf("1 to %d; left out, it is rps rounded up", MaxBurst),
			})
		}
	}
	if d.Retry.RPS != nil {
		problems = append(problems, validateRPS("retry.rps", *d.Retry.RPS, "null for no limit")...)
	}
	if d.Ordered != Unordered && d.Ordered != OrderedByEndpoint {
		problems = append(problems, Problem{Field: "ordered", Message: "is no order", Hint: `false, or "endpoint"`})
	}
	b := d.Breaker
	if b == nil {
		return problems
	}
	if b.Threshold < 1 || b.Threshold > MaxBreakerThreshold {
		problems = append(problems, Problem{
			Field: "breaker.threshold", Message: fmt.Sprintf("is %d", b.Threshold), Hint: fmt.Sprintf("1 to %d; null turns the breaker off", MaxBreakerThreshold),
		})
	}
	problems = append(problems, within("breaker.reset", b.Reset, MinBreakerReset, MaxBreakerReset, "100ms to 24h")...)
	return append(problems, within("breaker.reset_max", b.ResetMax, max(time.Duration(b.Reset), MinBreakerReset), MaxBreakerReset, "not below reset, 24h at most")...)
}

func validateRPS(field string, rps float64, unlimited string) []Problem {
	if rps >= MinRPS && rps <= MaxRPS { // false for NaN too
		return nil
	}
	message := fmt.Sprintf("is %v", rps)
	if rps == 0 {
		message = "is 0, or missing"
	}
	return []Problem{{Field: field, Message: message, Hint: fmt.Sprintf("%v to %v; %s", MinRPS, MaxRPS, unlimited)}}
}
