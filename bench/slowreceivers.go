//go:build linux

package main

import (
	"context"
	"fmt"
)

const (
	slowEndpoints = 100
	slowEvents    = 60_000
	slowBudget    = 5_000 // deliveries a second to all
	// oneSlowEvents go to one endpoint.
	oneSlowEvents = 10_000
	oneSlowBudget = 500
)

// slowReceivers sends to a hundred endpoints of 300 ms, with default settings.
func slowReceivers(ctx context.Context, g *gated) error {
	return g.slow(ctx, slowEndpoints, slowEvents, slowBudget)
}

// slowReceiver sends to one endpoint of 300 ms, with default settings.
func slowReceiver(ctx context.Context, g *gated) error {
	return g.slow(ctx, 1, oneSlowEvents, oneSlowBudget)
}

func (g *gated) slow(ctx context.Context, endpoints, events int, budget float64) error {
	var templates []template
	for i := range endpoints {
		t, err := g.addEndpoint(ctx, fmt.Sprintf("bench.slow%d", i), g.receiver.slowURL, "")
		if err != nil {
			return err
		}
		templates = append(templates, t)
	}
	rec := g.flow("slow", g.size(events))
	defer g.receiver.closeFlow(rec)
	res, err := g.observed(ctx, fmt.Sprintf("%d of %s", endpoints, slowAnswer), func(res *result) (int, error) {
		began := g.watch.now()
		generator{templates, rec, began + int64(g.bench.limit)}.closedLoop(ctx, neighbourConns)
		return g.arrive(ctx, res, rec, began, 1)
	})
	if err != nil {
		return err
	}
	g.atLeast("deliveries/s", res.rate, budget)
	g.atMost("MB peak", float64(res.engineBytes)/(1<<20), flowBytes)
	return nil
}
