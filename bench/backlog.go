//go:build linux

package main

import (
	"context"
	"fmt"
)

const (
	backlogEndpoints = 100
	backlogEach      = 5_000
	// backlogBudget is deliveries a second.
	backlogBudget = 12_000
)

// backlogDrain holds deliveries of a hundred endpoints back, resumes all, and measures
// how fast they arrive.
func backlogDrain(ctx context.Context, g *gated) error {
	var recs []*recorder
	defer func() {
		for _, rec := range recs {
			g.receiver.closeFlow(rec)
		}
	}()
	each := g.size(backlogEach)
	for i := range backlogEndpoints {
		name := fmt.Sprintf("bench.held%d", i)
		if _, err := g.addEndpoint(ctx, name, g.receiver.url, ""); err != nil {
			return err
		}
		if _, err := g.ask(ctx, "POST", "/v1/endpoints/uid:"+name+"/pause", ""); err != nil {
			return err
		}
		rec := g.flow(fmt.Sprintf("held%d", i), each)
		recs = append(recs, rec)
		if err := g.pile(ctx, name, rec); err != nil {
			return err
		}
	}
	res, err := g.observed(ctx, "drain", func(res *result) (int, error) {
		began := g.watch.now()
		for i := range backlogEndpoints {
			if _, err := g.ask(ctx, "POST", fmt.Sprintf("/v1/endpoints/uid:bench.held%d/resume", i), ""); err != nil {
				return 0, err
			}
		}
		last, n := began, 0
		for _, rec := range recs {
			if _, err := g.arrive(ctx, res, rec, began, 1); err != nil {
				return 0, err
			}
			last, n = max(last, rec.last.Load()), n+each
		}
		res.accepted, res.delivered, res.rate = n, n, perSecond(n, last-began)
		res.remark = fmt.Sprintf("%d held deliveries of %d endpoints", n, backlogEndpoints)
		return n, nil
	})
	if err != nil {
		return err
	}
	g.atLeast("deliveries/s", res.rate, backlogBudget)
	g.atMost("MB peak", float64(res.engineBytes)/(1<<20), flowBytes)
	return nil
}
