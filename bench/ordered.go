//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
)

const (
	// orderedRate is how many deliveries a second ordered endpoints get, whose receiver
	// answers at once: each of them alone, and many together.
	orderedRate = 1000
	// orderedMemory is what the engine's memory may come to meanwhile, in MB.
	orderedMemory = 200
)

// orderedThroughput lets one ordered endpoint work off a backlog, and then 50 of them.
func orderedThroughput(ctx context.Context, g *gated) error {
	for _, endpoints := range []int{1, 50} {
		if err := g.inOrder(ctx, endpoints); err != nil {
			return err
		}
	}
	return nil
}

// inOrder hands a backlog over to ordered endpoints. One connection hands it over, so that the
// events' numbers are the order of their acceptance.
func (g *gated) inOrder(ctx context.Context, endpoints int) error {
	batches, err := loadDescription(g.d.Name + batchSuffix)
	if err != nil {
		return err
	}
	var templates []template
	for i := range endpoints {
		eventType := fmt.Sprintf("bench.ordered%d.%d", endpoints, i)
		if _, err := g.addEndpoint(ctx, eventType, g.receiver.url, `,"ordered":"endpoint"`); err != nil {
			return err
		}
		t, err := compileSend(batches, g.vars, eventType)
		if err != nil {
			return err
		}
		t.lines = batchLines
		templates = append(templates, t)
	}
	rec := g.flow("ordered", max(g.size(20_000), endpoints*batchLines))
	defer g.receiver.closeFlow(rec)
	what := fmt.Sprintf("%d endpoints", endpoints)
	res, err := g.observed(ctx, what, func(res *result) (int, error) {
		deadline := g.watch.now() + int64(g.bench.limit)
		generator{templates, rec, deadline}.closedLoop(ctx, 1)
		complete := awaitArrivals(ctx, rec, deadline, g.bench.idle)
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
	early := 0 // arrivals before that of an earlier event of the same endpoint
	latest := make([]int64, endpoints)
	for i, at := range arrivals {
		of := i / batchLines % endpoints
		if at < latest[of] {
			early++
		}
		latest[of] = max(latest[of], at)
	}
	slices.Sort(arrivals)
	g.atLeast(what+": delivered/s", perSecond(len(arrivals)-1, arrivals[len(arrivals)-1]-arrivals[0]), orderedRate)
	g.never(what+": arrivals before an earlier event of the same endpoint", float64(early), 0)
	g.atMost(what+": MB resident", float64(res.engineBytes)/(1<<20), orderedMemory)
	return nil
}
