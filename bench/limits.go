//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// limitPrecision lets endpoints with a backlog run into their rate limits. The
// receiver's clock is the judge.
func limitPrecision(ctx context.Context, g *gated) error {
	if n := g.step.scenario.replicas; g.db.server != nil {
		err := g.until(ctx, fmt.Sprintf("%d replicas", n), sampleEvery, func() (bool, error) {
			there, err := g.db.count(ctx, "SELECT count(*) FROM replicas WHERE delivers")
			return there == int64(n), err
		})
		if err != nil {
			return err
		}
	}
	for _, limit := range []struct{ rps, burst int }{{50, 10}, {500, 50}} {
		if err := g.runIntoLimit(ctx, limit.rps, limit.burst); err != nil {
			return err
		}
	}
	return nil
}

// backlogSeconds is how long a limited endpoint has work waiting.
const backlogSeconds = 12

func (g *gated) runIntoLimit(ctx context.Context, rps, burst int) error {
	eventType := fmt.Sprintf("bench.limit%d", rps)
	settings := fmt.Sprintf(`,"max_in_flight":64,"rate_limit":{"rps":%d,"burst":%d}`, rps, burst)
	if _, err := g.addEndpoint(ctx, eventType, g.receiver.url, settings); err != nil {
		return err
	}
	rec := g.flow("limit", rps*backlogSeconds+burst) // not a share of them: a shorter time says less
	defer g.receiver.closeFlow(rec)
	what := fmt.Sprintf("%d a second, burst %d", rps, burst)
	_, err := g.observed(ctx, what, func(res *result) (int, error) {
		if err := g.pile(ctx, eventType, rec); err != nil {
			return 0, err
		}
		complete := awaitArrivals(ctx, rec, g.watch.now()+int64(g.bench.limit), g.bench.idle)
		res.tally(rec)
		return res.delivered, res.verdict(complete, len(rec.intended))
	})
	if err != nil {
		return err
	}
	arrivals := make([]int64, len(rec.arrived))
	for i := range rec.arrived {
		arrivals[i] = rec.arrived[i].Load()
	}
	slices.Sort(arrivals)
	g.atLeast(what+": attempts a second over the limit, after the first second", steadyRate(arrivals)/float64(rps), 0.95)
	g.never(what+": most attempts above the limit in any time", mostAbove(arrivals, float64(rps)), float64(burst))
	passedBy, err := g.metric(ctx, "posthaste_gates_passed_by_total", "")
	g.tell(what+": claims of the first replica so far that went round a locked gate", float64(passedBy))
	return err
}

// steadyRate is the arrivals a second after the first second, in which the burst is.
func steadyRate(arrivals []int64) float64 {
	from, _ := slices.BinarySearch(arrivals, arrivals[0]+int64(time.Second))
	if from >= len(arrivals)-1 {
		return math.NaN()
	}
	return perSecond(len(arrivals)-1-from, arrivals[len(arrivals)-1]-arrivals[from])
}

// mostAbove returns the most arrivals in any time t, both ends included, less
// rps × t. arrivals are in order, in nanoseconds.
func mostAbove(arrivals []int64, rps float64) float64 {
	// With ahead(i) = i - rps × time(i), arrivals i to j are 1 + ahead(j) -
	// ahead(i) above the limit: one pass keeps the lowest ahead so far.
	most, lowest := 0.0, math.Inf(1)
	for i, at := range arrivals {
		ahead := float64(i) - rps*float64(at-arrivals[0])/float64(time.Second)
		lowest = min(lowest, ahead)
		most = max(most, 1+ahead-lowest)
	}
	return most
}

// limitedThroughput loads an endpoint without a limit and with one that it never
// reaches, the other one first every other round.
func limitedThroughput(ctx context.Context, g *gated) error {
	if _, err := g.saturate(ctx, "warm-up", 20_000); err != nil {
		return err
	}
	order := []string{"unlimited", "limited"}
	if g.step.round%2 == 0 {
		slices.Reverse(order)
	}
	limits := map[string]string{"unlimited": "null", "limited": `{"rps":100000,"burst":100000}`}
	got := map[string]result{}
	for _, part := range order {
		_, err := g.ask(ctx, "PATCH", "/v1/endpoints/"+g.vars["endpoint"], `{"rate_limit":`+limits[part]+`}`)
		if err != nil {
			return err
		}
		if got[part], err = g.saturate(ctx, part, 50_000); err != nil {
			return err
		}
	}
	limited, unlimited := got["limited"], got["unlimited"]
	g.atLeast("delivered/s, limited over unlimited", limited.rate/unlimited.rate, 0.7)
	g.tell("µs CPU an event, engine and database, unlimited", float64(unlimited.perEvent.both())/float64(time.Microsecond))
	g.tell("µs CPU an event, engine and database, limited", float64(limited.perEvent.both())/float64(time.Microsecond))
	return nil
}
