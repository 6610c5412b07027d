//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// group is all runs of one engine in one phase.
type group struct {
	engine, phase, baseline string
	runs                    []result // the clean ones
	all                     int
	median                  result // of each figure by itself, over the clean runs
	against                 ratios
}

// ratios are a group's figures over those of its baseline, each the median of
// the ratios within a round: what else the machine did changes from round to
// round and cancels out within one. NaN if there is no such pair.
type ratios struct {
	rate, p50, p95, p99, cpu float64
}

// summarize groups the results, in the order in which they first appear.
// baselines maps an engine to the one that it is compared with.
func summarize(results []result, baselines map[string]string) []*group {
	var groups []*group
	for _, r := range results {
		i := slices.IndexFunc(groups, func(g *group) bool { return g.engine == r.engine && g.phase == r.phase })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{engine: r.engine, phase: r.phase, baseline: baselines[r.engine]})
		}
		groups[i].all++
		if r.err == "" {
			groups[i].runs = append(groups[i].runs, r)
		}
	}
	for _, g := range groups {
		g.median = medians(g.runs)
		g.against = compare(g, groups)
	}
	return groups
}

func compare(g *group, groups []*group) ratios {
	none := math.NaN()
	at := slices.IndexFunc(groups, func(b *group) bool { return b.engine == g.baseline && b.phase == g.phase })
	if at < 0 {
		return ratios{none, none, none, none, none}
	}
	// Both runs of a pair must be clean: a failed one has no figures to trust.
	over := func(figure func(result) float64) float64 {
		var quotients []float64
		for _, mine := range g.runs {
			for _, base := range groups[at].runs {
				if mine.round == base.round && figure(base) > 0 {
					quotients = append(quotients, figure(mine)/figure(base))
				}
			}
		}
		return median(quotients)
	}
	return ratios{
		rate: over(func(r result) float64 { return r.rate }),
		p50:  over(func(r result) float64 { return float64(r.arriveIn.p50) }),
		p95:  over(func(r result) float64 { return float64(r.arriveIn.p95) }),
		p99:  over(func(r result) float64 { return float64(r.arriveIn.p99) }),
		cpu:  over(func(r result) float64 { return float64(r.perEvent.both()) }),
	}
}

// median of the values, the mean of the middle two if their number is even; NaN
// of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// medians is a result whose figures are the runs' medians, each by itself: no
// single run need have had them all. A median, as one round beside somebody
// else's compiler says nothing about the engine.
func medians(runs []result) result {
	if len(runs) == 0 {
		return result{hotShare: math.NaN()}
	}
	middle := func(figure func(result) float64) float64 {
		values := make([]float64, len(runs))
		for i, r := range runs {
			values[i] = figure(r)
		}
		return median(values)
	}
	duration := func(figure func(result) time.Duration) time.Duration {
		return time.Duration(middle(func(r result) float64 { return float64(figure(r)) }))
	}
	m := result{
		rate:       middle(func(r result) float64 { return r.rate }),
		acceptRate: middle(func(r result) float64 { return r.acceptRate }),
		ready:      duration(func(r result) time.Duration { return r.ready }),
		others:     middle(func(r result) float64 { return r.others }),
		hotShare:   middle(func(r result) float64 { return r.hotShare }),
		idleBytes:  int64(middle(func(r result) float64 { return float64(r.idleBytes) })),
		dbBytes:    int64(middle(func(r result) float64 { return float64(r.dbBytes) })),
	}
	m.engineBytes = int64(middle(func(r result) float64 { return float64(r.engineBytes) }))
	m.arriveIn.p50 = duration(func(r result) time.Duration { return r.arriveIn.p50 })
	m.arriveIn.p95 = duration(func(r result) time.Duration { return r.arriveIn.p95 })
	m.arriveIn.p99 = duration(func(r result) time.Duration { return r.arriveIn.p99 })
	m.perEvent.engine = duration(func(r result) time.Duration { return r.perEvent.engine })
	m.perEvent.database = duration(func(r result) time.Duration { return r.perEvent.database })
	m.perEvent.load = duration(func(r result) time.Duration { return r.perEvent.load })
	m.perEvent.walBytes = middle(func(r result) float64 { return r.perEvent.walBytes })
	return m
}

// summaryTable has a row a group: medians, and ratios against the baseline.
func summaryTable(groups []*group) string {
	titles := []string{"phase", "engine", "clean runs", "delivered/s", "× baseline", "to arrival, ms p50 / 95 / 99", "× baseline",
		"CPU µs an event: engine + database", "× baseline", "WAL B", "HOT", "MB idle", "MB peak", "other cores"}
	var rows [][]string
	for _, g := range groups {
		m := g.median
		row := []string{g.phase, g.engine, fmt.Sprintf("%d of %d", len(g.runs), g.all)}
		if len(g.runs) == 0 {
			rows = append(rows, append(row, slices.Repeat([]string{"–"}, len(titles)-len(row))...))
			continue
		}
		a := g.against
		rows = append(rows, append(row,
			fmt.Sprintf("%.0f", m.rate), ratio(a.rate),
			m.arriveIn.String(), ratio(a.p50)+" / "+ratio(a.p95)+" / "+ratio(a.p99),
			microseconds(m.perEvent.engine)+" + "+microseconds(m.perEvent.database), ratio(a.cpu),
			number("%.0f", unlessZero(m.perEvent.walBytes)),
			number("%.2f", m.hotShare),
			megabytes(m.idleBytes), megabytes(m.engineBytes), fmt.Sprintf("%.2f", m.others)))
	}
	return markdownTable(titles, rows)
}

func ratio(r float64) string { return number("%.2f", r) }
