//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// finding is one budget and what was measured.
type finding struct {
	what   string // engine, phase, figure
	value  string
	budget string
	met    bool
}

// batchSuffix ends the names of descriptions that hand over many events a
// request; their baseline is the same engine with one.
const batchSuffix = "-batch"

// payloadBytes is about what a payload takes, for budgets that grow with it.
const payloadBytes = 1060

const (
	// acknowledgeBudget is how much longer a provider may wait for its answer, while
	// nothing can be delivered, than an application for that to its event.
	acknowledgeBudget = 1.5
	// streamClientBudget is the kB of the engine's memory that an idle client of the
	// stream may take: its connection with net/http's buffers and goroutines takes most.
	streamClientBudget = 40
)

// checkBudgets compares the groups of engines that have a baseline with the
// project's budgets. Rates and latencies are ratios against the bare minimum in
// the same rounds, so that a slow or busy machine changes them little; CPU, WAL
// and memory are absolute.
func checkBudgets(groups []*group) []finding {
	var out []finding
	for _, g := range groups {
		if g.baseline == "" || len(g.runs) == 0 {
			continue
		}
		p, err := parsePhase(g.phase)
		if err != nil {
			continue
		}
		c := checker{where: g.engine + " " + g.phase}
		c.atMost("MB resident, idle", float64(g.median.idleBytes)/(1<<20), 40)
		c.atMost("s from start to ready", g.median.ready.Seconds(), 1)
		switch {
		case strings.HasSuffix(g.engine, outboxSuffix), strings.HasSuffix(g.engine, apartSuffix):
			c.atLeast("delivered/s over 20 events a request", g.against.rate, 0.6)
		case strings.HasSuffix(g.engine, batchSuffix):
			c.atLeast("delivered/s over single events", g.against.rate, 1.6)
		case p.kind == phaseSat:
			c.saturation(g)
		default:
			// 3, 5 and 10 ms where the bare minimum does 1.8, 2.5 and 4.8.
			c.atMost("p50 over the baseline's", g.against.p50, 3/1.8)
			c.atMost("p95 over the baseline's", g.against.p95, 5/2.5)
			c.atMost("p99 over the baseline's", g.against.p99, 10/4.8)
		}
		out = append(out, c.found...)
	}
	return append(out, memoryGrowth(groups)...)
}

// noBudget stands in place of the budget of a figure that has none.
const noBudget = "–"

// measure is a figure of one run of a scenario.
type measure struct {
	where  string // engine and scenario
	what   string
	value  float64
	budget float64 // NaN: none
	floor  bool    // the value is to reach the budget; else it is not to pass it
	always bool    // in every round, the largest value counts: a promise, not a speed
}

// checkMeasures compares each figure with its budget, its median over the rounds
// or its largest value, in the order in which the figures first appear.
func checkMeasures(measures []measure) []finding {
	type key struct{ where, what string }
	values := map[key][]float64{}
	var order []measure
	for _, m := range measures {
		k := key{m.where, m.what}
		if values[k] == nil {
			order = append(order, m)
		}
		values[k] = append(values[k], m.value)
	}
	var out []finding
	for _, m := range order {
		all := values[key{m.where, m.what}]
		c, value := checker{where: m.where}, median(all)
		if m.always {
			value = slices.Max(all)
		}
		switch {
		case math.IsNaN(m.budget):
			c.add(m.what, value, noBudget, true)
		case m.floor:
			c.atLeast(m.what, value, m.budget)
		default:
			c.atMost(m.what, value, m.budget)
		}
		out = append(out, c.found...)
	}
	return out
}

// checker collects the findings of one group.
type checker struct {
	where string
	found []finding
}

func (c *checker) saturation(g *group) {
	c.atLeast("delivered/s over the baseline's (goal 1.2)", g.against.rate, 0.8)
	c.atMost("µs CPU an event, engine and database (goal 110)", float64(g.median.perEvent.both())/float64(time.Microsecond), 150)
	c.atMost("MB resident, flat out", float64(g.median.engineBytes)/(1<<20), 200)
	if g.median.perEvent.walBytes > 0 {
		// On PostgreSQL: its CPU is the steadiest of all figures here, and a share of
		// HOT updates below 1 means that an index holds a column that changes.
		c.atMost("µs CPU an event, PostgreSQL (goal 35)", float64(g.median.perEvent.database)/float64(time.Microsecond), 45)
		c.atMost("bytes of WAL an event", g.median.perEvent.walBytes, payloadBytes+1800)
		c.atLeast("HOT share of delivery updates", g.median.hotShare, 0.8)
	}
}

func (c *checker) atMost(what string, value, limit float64) {
	c.add(what, value, "≤ "+figure(limit), value <= limit)
}

func (c *checker) atLeast(what string, value, limit float64) {
	c.add(what, value, "≥ "+figure(limit), value >= limit)
}

func (c *checker) add(what string, value float64, budget string, met bool) {
	if math.IsNaN(value) {
		return // nothing to compare with in these runs
	}
	c.found = append(c.found, finding{c.where + ": " + what, figure(value), budget, met})
}

// figure prints three digits, or all of a larger whole number.
func figure(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// memoryGrowth compares the peak memory of an engine's longest run flat out with
// that of its shortest, over as many connections: what grows with the number of
// events is a leak.
func memoryGrowth(groups []*group) []finding {
	type key struct {
		engine string
		conns  int
	}
	type span struct{ short, long, shortEvents, longEvents int64 }
	spans := map[key]span{}
	var order []key
	for _, g := range groups {
		p, err := parsePhase(g.phase)
		if err != nil || p.kind != phaseSat || g.baseline == "" || len(g.runs) == 0 || strings.HasSuffix(g.engine, batchSuffix) {
			continue
		}
		k, n := key{g.engine, p.conns}, int64(p.events)
		s, seen := spans[k]
		if !seen {
			order = append(order, k)
			s = span{g.median.engineBytes, g.median.engineBytes, n, n}
		}
		if n < s.shortEvents {
			s.short, s.shortEvents = g.median.engineBytes, n
		}
		if n > s.longEvents {
			s.long, s.longEvents = g.median.engineBytes, n
		}
		spans[k] = s
	}
	var out []finding
	for _, k := range order {
		s := spans[k]
		if s.longEvents < 2*s.shortEvents || s.short == 0 {
			continue
		}
		c := checker{where: k.engine}
		c.atMost(fmt.Sprintf("memory at %d events over that at %d", s.longEvents, s.shortEvents), float64(s.long)/float64(s.short), 1.2)
		out = append(out, c.found...)
	}
	return out
}

// budgetTable lists the findings, and counts the missed ones.
func budgetTable(findings []finding) (table string, missed int) {
	var rows [][]string
	for _, f := range findings {
		verdict := "met"
		if f.budget == noBudget {
			verdict = ""
		} else if !f.met {
			verdict, missed = "**missed**", missed+1
		}
		rows = append(rows, []string{f.what, f.value, f.budget, verdict})
	}
	if rows == nil {
		return "", 0
	}
	return strings.TrimSuffix(markdownTable([]string{"budget", "measured", "limit", ""}, rows), "\n") + "\n", missed
}
