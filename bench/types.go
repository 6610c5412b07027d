//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

const (
	// manyTypes is the number of endpoints, each of which subscribes to a type of its own.
	manyTypes = 10_000
	// manyTypesRate and manyTypesMemory are the budgets: events a second, and MB at most.
	manyTypesRate   = 15_000
	manyTypesMemory = 200
	typeLines       = 20 // events a request
	typeMakers      = 8  // connections that make the endpoints
)

// typesApart loads a tenant with many endpoints, of which each event concerns one: what
// an event costs must not grow with the others.
func typesApart(ctx context.Context, g *gated) error {
	batch, err := loadDescription(g.d.Name + batchSuffix)
	if err != nil {
		return err
	}
	counts := g.d.Counts
	g.d.Send, g.d.Lines = batch.Send, typeLines
	n := g.size(manyTypes)
	g.templates = make([]template, n)
	errs := make([]error, typeMakers)
	var makers sync.WaitGroup
	for m := range typeMakers {
		makers.Go(func() {
			for i := m; i < n && errs[m] == nil && ctx.Err() == nil; i += typeMakers {
				g.templates[i], errs[m] = g.addEndpoint(ctx, fmt.Sprintf("bench.type%d", i), g.receiver.url, "")
			}
		})
	}
	makers.Wait()
	if err := errors.Join(errors.Join(errs...), context.Cause(ctx)); err != nil {
		return err
	}
	g.d.Counts = nil
	if _, err := g.saturate(ctx, "warm-up", 20_000); err != nil {
		return err
	}
	g.d.Counts = counts
	res, err := g.saturate(ctx, fmt.Sprintf("%d endpoints, a type each", n), 60_000)
	if err != nil {
		return err
	}
	g.atLeast("delivered/s", res.rate, manyTypesRate)
	g.atMost("MB resident, peak", float64(res.engineBytes)/(1<<20), manyTypesMemory)
	return nil
}
