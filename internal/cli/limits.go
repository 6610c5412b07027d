package cli

import (
	"fmt"
	"math"
	"strconv"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/client"
)

// limits are the flags for what protects an endpoint. What is not given is left as it
// is, or to the server's default.
type limits struct {
	MaxInFlight *int   `placeholder:"N" help:"Attempts under way at once at most, over all replicas. New endpoints: 256."`
	Rate        string `placeholder:"RPS|none" help:"Attempts a second, over all replicas. New endpoints: none, no limit."`
	Burst       *int   `placeholder:"N" help:"Attempts that may begin at once under --rate. Never set: --rate, rounded up."`
	RetryRate   string `placeholder:"RPS|none" help:"Retries a second. New endpoints: none, no limit of their own."`
	Ordered     *bool  `negatable:"" help:"One delivery at a time, in the order of acceptance."`
	Breaker     string `placeholder:"FAILURES|on|off" help:"Transient failures in a row after which attempts stop for a while. New endpoints: on, 10."`
}

// The words that stand for no number.
const (
	limitNone  = "none"
	breakerOn  = "on"
	breakerOff = "off"
)

// given are the flags, read. Zero is what was not given.
type given struct {
	rate, retryRate *rate
	breaker         *client.Breaker
}

// rate is a number a second, or none.
type rate struct{ rps *float64 }

func (l limits) read() (g given, err error) {
	if l.MaxInFlight != nil && *l.MaxInFlight < 1 {
		return g, usageError{fmt.Sprintf("--max-in-flight is %d; want 1 or more", *l.MaxInFlight)}
	}
	if g.rate, err = readRate("rate", l.Rate); err != nil {
		return g, err
	}
	if g.retryRate, err = readRate("retry-rate", l.RetryRate); err != nil {
		return g, err
	}
	switch l.Breaker {
	case "":
	case breakerOn:
		g.breaker = &client.Breaker{}
	case breakerOff:
		g.breaker = &client.Breaker{Off: true}
	default:
		n, err := strconv.Atoi(l.Breaker)
		if err != nil || n < 1 {
			return g, usageError{fmt.Sprintf("--breaker is %q; want a number of failures such as 10, %s or %s", l.Breaker, breakerOn, breakerOff)}
		}
		g.breaker = &client.Breaker{Threshold: n}
	}
	return g, nil
}

func readRate(flag, value string) (*rate, error) {
	switch value {
	case "":
		return nil, nil //nolint:nilnil // not given
	case limitNone:
		return &rate{}, nil
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return nil, usageError{fmt.Sprintf("--%s is %q; want a number such as 50, or %s", flag, value, limitNone)}
	}
	return &rate{&n}, nil
}

// apply adds the flags to an endpoint that is to be made.
func (l limits) apply(e *client.NewEndpoint) error {
	g, err := l.read()
	if err != nil {
		return err
	}
	if g.rate != nil && g.rate.rps != nil {
		e.RateLimit = &posthaste.RateLimit{RPS: *g.rate.rps, Burst: l.Burst}
	} else if l.Burst != nil {
		return usageError{"--burst goes with --rate"}
	}
	if g.retryRate != nil {
		e.Retry = &client.Retry{RPS: g.retryRate.rps}
	}
	if l.MaxInFlight != nil {
		e.MaxInFlight = *l.MaxInFlight
	}
	if l.Ordered != nil && *l.Ordered {
		e.Ordered = posthaste.OrderedByEndpoint
	}
	e.Breaker = g.breaker
	return nil
}

// patch adds the flags to a JSON Merge Patch.
func (l limits) patch(patch map[string]any) error {
	g, err := l.read()
	if err != nil {
		return err
	}
	limit := map[string]any{}
	if l.Burst != nil {
		limit["burst"] = *l.Burst
	}
	switch {
	case g.rate == nil:
	case g.rate.rps != nil:
		limit["rps"] = *g.rate.rps
	case l.Burst != nil:
		return usageError{"--burst goes with a --rate"}
	default:
		patch["rate_limit"] = nil
	}
	if len(limit) > 0 {
		if err := lay(patch, "rate_limit", limit); err != nil {
			return err
		}
	}
	if g.retryRate != nil {
		if err := lay(patch, "retry", map[string]any{"rps": g.retryRate.rps}); err != nil {
			return err
		}
	}
	if l.MaxInFlight != nil {
		patch["max_in_flight"] = *l.MaxInFlight
	}
	if l.Ordered != nil {
		patch["ordered"] = posthaste.Unordered
		if *l.Ordered {
			patch["ordered"] = posthaste.OrderedByEndpoint
		}
	}
	switch {
	case g.breaker == nil:
	case g.breaker.Threshold > 0:
		return lay(patch, "breaker", map[string]any{"threshold": g.breaker.Threshold})
	default:
		patch["breaker"] = *g.breaker
	}
	return nil
}

// gateWord says in a word how a gate stands. That an electrician's closed circuit is
// the one through which current flows is not for everybody to know.
func gateWord(g client.Gate) string {
	switch {
	case g.State == client.GateClosed && !g.Until.IsZero():
		return "held"
	case g.State == client.GateClosed:
		return "healthy"
	case g.State == client.GateHalfOpen:
		return "probing"
	}
	return g.State
}

// showGate says in words how a gate stands, until when, and why.
func showGate(g client.Gate) string {
	text := gateWord(g)
	switch {
	case text == "open":
		text = "open: no attempts"
	case text == "healthy" && g.ConsecutiveFailures > 0:
		text = fmt.Sprintf("healthy, %d transient failures in a row", g.ConsecutiveFailures)
	}
	if !g.Until.IsZero() && text != "probing" {
		text += " until " + showTime(g.Until)
	}
	if g.Reason != "" {
		text += " (" + printable(g.Reason) + ")"
	}
	return text
}

func showRateLimit(limit *posthaste.RateLimit) string {
	if limit == nil {
		return ""
	}
	return fmt.Sprintf("%s a second, burst %d", showNumber(limit.RPS), limit.Size())
}

func showRetryRate(rps *float64) string {
	if rps == nil {
		return ""
	}
	return showNumber(*rps)
}

func showNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func showOrder(o posthaste.Ordering) string {
	if o == posthaste.OrderedByEndpoint {
		return "one at a time, as accepted"
	}
	return ""
}

func showBreaker(b *posthaste.Breaker) string {
	if b == nil {
		return breakerOff
	}
	return fmt.Sprintf("after %d failures, for %s to %s", b.Threshold, b.Reset, b.ResetMax)
}
