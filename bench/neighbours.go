//go:build linux

package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	healthyEndpoints = 99
	// neighbourRate is what one of a hundred endpoints gets at full load.
	neighbourRate = 100
	// hangSettings let an endpoint hang all through the run: a breaker would end that.
	hangSettings = `,"breaker":null,"retry":{"timeout":"5s"}`
	hangTimeout  = 5 * time.Second
)

// slowNeighbour loads 99 endpoints beside one that is as well as they are, then
// beside one that hangs until the attempt's timeout, and then as at first.
func slowNeighbour(ctx context.Context, g *gated) error {
	well, err := g.addEndpoint(ctx, "bench.well", g.receiver.url, hangSettings)
	if err != nil {
		return err
	}
	hangs, err := g.addEndpoint(ctx, "bench.hangs", g.receiver.hangURL, hangSettings)
	if err != nil {
		return err
	}
	g.templates = nil
	for i := range healthyEndpoints {
		t, err := g.addEndpoint(ctx, fmt.Sprintf("bench.e%d", i), g.receiver.url, "")
		if err != nil {
			return err
		}
		g.templates = append(g.templates, t)
	}
	g.d.Counts = nil // the neighbour's events would count too
	if _, err := g.beside(ctx, "warm-up", well, 20_000); err != nil {
		return err
	}
	var c contrast
	if c.before, err = g.beside(ctx, "99 beside a good one, before", well, 40_000); err != nil {
		return err
	}
	if c.with, err = g.beside(ctx, "99 beside one that hangs", hangs, 40_000); err != nil {
		return err
	}
	if _, err := g.ask(ctx, "POST", "/v1/endpoints/uid:bench.hangs/pause", ""); err != nil {
		return err
	}
	select { // the last of its attempts
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(hangTimeout + time.Second):
	}
	if c.after, err = g.beside(ctx, "99 beside a good one, after", well, 40_000); err != nil {
		return err
	}
	g.atMost("p95 to arrival of the other 99, with over without", c.over(func(r result) float64 { return float64(r.arriveIn.p95) }), 1.2)
	g.tell("delivered/s to the other 99, with over without", c.over(func(r result) float64 { return r.rate }))
	g.tell("CPU an event, with over without", c.over(func(r result) float64 { return float64(r.perEvent.both()) }))
	return nil
}

// contrast is the same load before, beside and after a bad neighbour.
type contrast struct{ before, with, after result }

// over is a figure beside the neighbour over the mean of those before and after it:
// what changes steadily on the machine cancels out.
func (c contrast) over(figure func(result) float64) float64 {
	return 2 * figure(c.with) / (figure(c.before) + figure(c.after))
}

// beside is saturate while a neighbour gets its events at a steady rate.
func (g *gated) beside(ctx context.Context, part string, neighbour template, events int) (result, error) {
	side, stop := context.WithCancel(ctx)
	var sender sync.WaitGroup
	sender.Go(func() {
		rec := g.recorder("side", int(g.bench.limit.Seconds())*neighbourRate)
		generator{[]template{neighbour}, rec, g.watch.now() + int64(g.bench.limit)}.openLoop(side, neighbourRate, neighbourConns)
	})
	res, err := g.saturate(ctx, part, events)
	stop()
	sender.Wait()
	return res, err
}

// deadSettings let one failure shut the endpoint for longer than a run takes.
const deadSettings = `,"breaker":{"threshold":1,"reset":"1h","reset_max":"1h"}`

// deadNeighbour loads an endpoint alone, then beside one that has a backlog behind
// an open breaker, and alone once more when that has been deleted.
func deadNeighbour(ctx context.Context, g *gated) error {
	dead, err := g.addEndpoint(ctx, "bench.dead", g.receiver.downURL, deadSettings)
	if err != nil {
		return err
	}
	if _, err := g.saturate(ctx, "warm-up", 20_000); err != nil {
		return err
	}
	var c contrast
	if c.before, err = g.saturate(ctx, "alone, before", 50_000); err != nil {
		return err
	}
	if err := g.breakDown(ctx, dead); err != nil {
		return err
	}
	backlog := g.recorder("backlog", g.size(100_000))
	_, err = g.observed(ctx, "the backlog", func(res *result) (int, error) {
		err := g.pile(ctx, "bench.dead", backlog)
		res.tally(backlog)
		res.lost = 0 // they are held, as they are to be
		return res.accepted, err
	})
	if err != nil {
		return err
	}
	marked, err := g.markRows(ctx)
	if err != nil {
		return err
	}
	if c.with, err = g.saturate(ctx, "beside the backlog", 50_000); err != nil {
		return err
	}
	if err := marked.compare(ctx); err != nil {
		return err
	}
	if err := g.removeBacklog(ctx, len(backlog.intended)); err != nil {
		return err
	}
	if c.after, err = g.saturate(ctx, "alone, after", 50_000); err != nil {
		return err
	}
	g.atMost("accepted/s, without over with", 1/c.over(func(r result) float64 { return r.acceptRate }), 1.1)
	g.atMost("delivered/s, without over with", 1/c.over(func(r result) float64 { return r.rate }), 1.1)
	g.tell("CPU an event, with over without", c.over(func(r result) float64 { return float64(r.perEvent.both()) }))
	return nil
}

// removeBacklog deletes the dead endpoint and waits for the end of its deliveries.
func (g *gated) removeBacklog(ctx context.Context, n int) error {
	if _, err := g.ask(ctx, "DELETE", "/v1/endpoints/uid:bench.dead", ""); err != nil {
		return err
	}
	return g.until(ctx, "end of the backlog", sampleEvery, func() (bool, error) {
		ended, err := g.finished(ctx, reasonDeleted)
		return ended >= n, err
	})
}

// breakDown lets one delivery fail and waits until the breaker is open.
func (g *gated) breakDown(ctx context.Context, t template) error {
	rec := g.recorder("fails", 1)
	generator{[]template{t}, rec, g.watch.now() + int64(g.bench.limit)}.closedLoop(ctx, 1)
	return g.until(ctx, "open breaker", sampleEvery, func() (bool, error) {
		answer, err := g.ask(ctx, "GET", "/v1/endpoints/uid:bench.dead", "")
		if err != nil {
			return false, err
		}
		state, err := lookup(answer, "gate.state")
		return state == "open", err
	})
}

// rowMark tells which rows of the dead endpoint were there before a moment.
type rowMark struct {
	g      *gated
	sql    string
	before int64
}

// markRows notes the dead endpoint's rows as they are. PostgreSQL writes a new
// version of a row for each update, which names its transaction: rows whose
// version is older than the mark were neither rewritten nor deleted. SQLite
// keeps no such trace.
func (g *gated) markRows(ctx context.Context) (rowMark, error) {
	m := rowMark{g: g}
	if g.db.server == nil {
		return m, nil
	}
	next, err := g.db.count(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
	if err != nil {
		return m, err
	}
	const older = "(SELECT count(*) FROM %s WHERE endpoint = (SELECT no FROM endpoints WHERE uid = 'bench.dead') AND xmin::text::bigint < %d)"
	m.sql = "SELECT " + fmt.Sprintf(older, "deliveries", next) + " + " + fmt.Sprintf(older, "due", next)
	m.before, err = g.db.count(ctx, m.sql)
	return m, err
}

func (m rowMark) compare(ctx context.Context) error {
	if m.sql == "" {
		return nil
	}
	after, err := m.g.db.count(ctx, m.sql)
	if err != nil {
		return err
	}
	m.g.tell("rows of the dead endpoint in deliveries and due", float64(m.before))
	m.g.never("of them rewritten", float64(m.before-after), 0)
	return nil
}
