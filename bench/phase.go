//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"
)

// phaseKind is how a phase loads the engine.
type phaseKind string

// The kinds of phases.
const (
	// phaseSat keeps a number of connections busy until all events are accepted:
	// closed loop, the rate is the result.
	phaseSat phaseKind = "sat"
	// phaseRate sends at a fixed rate, whatever the answers: open loop, the
	// latency is the result.
	phaseRate phaseKind = "rate"
)

// phase is one load, and what it is written as: "sat:EVENTS:CONNECTIONS" or
// "rate:PER_SECOND:SECONDS".
type phase struct {
	kind      phaseKind
	events    int
	conns     int // sat: senders; rate: most connections at the same time
	perSecond int // rate only
	text      string
}

// Bounds of a phase. They keep a mistyped figure from filling the disk or from
// running all day.
const (
	maxEvents    = 3_000_000
	maxConns     = 1024
	maxPerSecond = 20_000
	maxSeconds   = 600
)

func parsePhase(text string) (phase, error) {
	p := phase{text: text}
	kind, rest, _ := strings.Cut(text, ":")
	first, second, ok := strings.Cut(rest, ":")
	a, errA := strconv.Atoi(first)
	b, errB := strconv.Atoi(second)
	if !ok || errA != nil || errB != nil || a < 1 || b < 1 {
		return p, fmt.Errorf("phase %q: want sat:EVENTS:CONNECTIONS or rate:PER_SECOND:SECONDS", text)
	}
	switch p.kind = phaseKind(kind); p.kind {
	case phaseSat:
		if a > maxEvents || b > maxConns {
			return p, fmt.Errorf("phase %q: at most %d events and %d connections", text, maxEvents, maxConns)
		}
		p.events, p.conns = a, b
	case phaseRate:
		if a > maxPerSecond || b > maxSeconds {
			return p, fmt.Errorf("phase %q: at most %d a second and %d seconds", text, maxPerSecond, maxSeconds)
		}
		p.events, p.conns, p.perSecond = a*b, maxConns/2, a
	default:
		return p, fmt.Errorf("phase %q: unknown kind %q, want sat or rate", text, kind)
	}
	return p, nil
}
