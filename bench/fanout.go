//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

const (
	fanOutEndpoints = 100
	fanOutEvents    = 2_000
	// fanOutBudget is deliveries a second.
	fanOutBudget = 15_000
	// flowBytes is the MB that the engine may take in these scenarios.
	flowBytes = 200
)

// fanOut sends events that each go to a hundred endpoints.
func fanOut(ctx context.Context, g *gated) error {
	var t template
	for i := range fanOutEndpoints {
		body := fmt.Sprintf(`{"uid":"bench.fan%d","url":%q,"event_types":["bench.fan"]}`, i, g.receiver.url)
		if _, err := g.ask(ctx, "POST", "/v1/endpoints", body); err != nil {
			return err
		}
	}
	t, err := compileSend(g.d, g.vars, "bench.fan")
	if err != nil {
		return err
	}
	rec := g.flow("fan", g.size(fanOutEvents))
	defer g.receiver.closeFlow(rec)
	res, err := g.observed(ctx, "1 to 100", func(res *result) (int, error) {
		began := g.watch.now()
		generator{[]template{t}, rec, began + int64(g.bench.limit)}.closedLoop(ctx, neighbourConns)
		return g.arrive(ctx, res, rec, began, fanOutEndpoints)
	})
	if err != nil {
		return err
	}
	g.atLeast("deliveries/s", res.rate, fanOutBudget)
	g.atMost("MB peak", float64(res.engineBytes)/(1<<20), flowBytes)
	return nil
}

// arrive waits until each event of a flow has arrived as many times as it has
// endpoints, and fills in the rate since began. It returns how many deliveries there are.
func (g *gated) arrive(ctx context.Context, res *result, rec *recorder, began int64, endpoints int) (int, error) {
	if failed := rec.failed.Load(); failed > 0 {
		return 0, fmt.Errorf("%d of %d events not accepted; first error: %s", failed, len(rec.intended), *rec.firstErr.Load())
	}
	n := len(rec.intended) * endpoints
	err := g.until(ctx, "arrival of all deliveries", 20*time.Millisecond, func() (bool, error) {
		arrived := 0
		for i := range rec.hits {
			arrived += min(endpoints, int(rec.hits[i].Load()))
		}
		return arrived == n, nil
	})
	for i := range rec.hits {
		res.duplicates += max(0, int(rec.hits[i].Load())-endpoints)
	}
	res.accepted, res.delivered, res.refused = len(rec.intended), n, rec.refused.Load()
	res.rate = perSecond(n, rec.last.Load()-began)
	res.remark = fmt.Sprintf("%d deliveries", n)
	return n, err
}
