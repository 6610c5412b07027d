//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	heldType = "bench.held"
	// loadPace is how long a held delivery may take to load.
	loadPace = 120 * time.Microsecond
	// deadlineEvery is after how many events the deadline is set anew.
	deadlineEvery = 20_000
	// acceptRate is how many events a second are accepted while a backlog ends.
	acceptRate = 200
)

// Why deliveries die, as the engine's metrics say it.
const (
	reasonExpired = "expired"
	reasonDeleted = "endpoint deleted"
)

// expiry lets the deliveries that a paused endpoint holds reach their deadline
// all at once.
func expiry(ctx context.Context, g *gated) error {
	n := g.size(1_000_000)
	if err := g.pauseEndpoint(ctx); err != nil {
		return err
	}
	at := time.Now().Add(time.Duration(n)*loadPace + 5*time.Second)
	_, err := g.observed(ctx, "load", func(res *result) (int, error) {
		began := time.Now()
		for left := n; left > 0; left -= deadlineEvery {
			// A deadline counts from the acceptance: it shrinks as time passes, so that
			// all of them end at the same time.
			deadline := max(2*time.Second, time.Until(at).Round(time.Millisecond))
			patch := fmt.Sprintf(`{"retry":{"deadline":%q}}`, deadline)
			if _, err := g.ask(ctx, "PATCH", "/v1/endpoints/uid:"+heldType, patch); err != nil {
				return 0, err
			}
			if err := g.pile(ctx, heldType, g.recorder("held", min(left, deadlineEvery))); err != nil {
				return 0, err
			}
		}
		res.accepted, res.acceptRate = n, perSecond(n, int64(time.Since(began)))
		return n, nil
	})
	if err != nil {
		return err
	}
	late := -time.Until(at)
	if late > 0 {
		return fmt.Errorf("loading took %s too long: some deliveries have expired already", late.Round(time.Second))
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(-late):
	}
	return g.ending(ctx, reasonExpired, n)
}

// deletion deletes an endpoint that has a backlog.
func deletion(ctx context.Context, g *gated) error {
	n := g.size(200_000)
	if err := g.pauseEndpoint(ctx); err != nil {
		return err
	}
	_, err := g.observed(ctx, "load", func(res *result) (int, error) {
		rec := g.recorder("held", n)
		err := g.pile(ctx, heldType, rec)
		res.tally(rec)
		res.lost = 0 // they are held, as they are to be
		return n, err
	})
	if err != nil {
		return err
	}
	if _, err := g.ask(ctx, "DELETE", "/v1/endpoints/uid:"+heldType, ""); err != nil {
		return err
	}
	return g.ending(ctx, reasonDeleted, n)
}

func (g *gated) pauseEndpoint(ctx context.Context) error {
	if _, err := g.addEndpoint(ctx, heldType, g.receiver.url, `,"retry":{"timeout":"1s"}`); err != nil {
		return err
	}
	_, err := g.ask(ctx, "POST", "/v1/endpoints/uid:"+heldType+"/pause", "")
	return err
}

// ending accepts and delivers events of other endpoints until n deliveries have
// died of the reason. Every other event is for an endpoint with a limit that it
// does not reach: its deliveries are claimed, so that it shows whether claims wait.
func (g *gated) ending(ctx context.Context, reason string, n int) error {
	claimed, err := g.addEndpoint(ctx, "bench.claimed", g.receiver.url, `,"max_in_flight":64,"rate_limit":{"rps":10000,"burst":10000}`)
	if err != nil {
		return err
	}
	var took time.Duration
	res, err := g.observed(ctx, reason, func(res *result) (int, error) {
		rec := g.flow("beside", int(g.bench.limit.Seconds())*acceptRate)
		defer g.receiver.closeFlow(rec)
		deadline := g.watch.now() + int64(g.bench.limit)
		side, stop := context.WithCancel(ctx)
		var sender sync.WaitGroup
		sender.Go(func() {
			generator{append(g.templates, claimed), rec, deadline}.openLoop(side, acceptRate, neighbourConns)
		})
		began := time.Now()
		err := g.until(ctx, fmt.Sprintf("%d deliveries %s", n, reason), sampleEvery, func() (bool, error) {
			dead, err := g.finished(ctx, reason)
			return dead >= n, err
		})
		took = time.Since(began)
		stop()
		sender.Wait()
		complete := awaitArrivals(ctx, rec, deadline, g.bench.idle)
		res.tally(rec)
		res.remark = fmt.Sprintf("%d dead in %.1f s; slowest accept %s ms; costs are for each of them", n, took.Seconds(), milliseconds(res.acceptTime.max))
		if err == nil && (!complete || res.failed > 0) {
			err = fmt.Errorf("%d events not accepted, %d lost; first error: %s", res.failed, res.lost, res.firstError)
		}
		return n, err
	})
	if err != nil {
		return err
	}
	dead, err := g.db.count(ctx, "SELECT count(*) FROM dead")
	if err != nil {
		return err
	}
	if dead != int64(n) {
		return fmt.Errorf("%d deliveries are dead, want %d", dead, n)
	}
	g.tell(fmt.Sprintf("s until %d are dead", n), took.Seconds())
	g.atMost("s, slowest accept meanwhile", res.acceptTime.max.Seconds(), 1)
	g.tell("s to arrival at other endpoints meanwhile, slowest", res.arriveIn.max.Seconds())
	g.atMost("MB resident", float64(res.engineBytes)/(1<<20), 250)
	if g.db.server != nil {
		g.tell("bytes of WAL for each", res.perEvent.walBytes)
	}
	return nil
}

// finished returns how many deliveries have died of the reason, by the engine's
// own count: asking the database would cost it more than the ending does.
func (g *gated) finished(ctx context.Context, reason string) (int, error) {
	return g.metric(ctx, "posthaste_deliveries_finished_total", `reason="`+reason+`"`)
}

// metric returns the first replica's value of a series whose labels hold the text;
// 0 if there is none yet.
func (s *session) metric(ctx context.Context, name, labels string) (int, error) {
	answer, err := s.ask(ctx, "GET", "/metrics", "")
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(bytes.NewReader(answer))
	for lines.Scan() {
		line := lines.Text()
		series, value := line[:strings.LastIndexByte(line, ' ')+1], line[strings.LastIndexByte(line, ' ')+1:]
		if strings.HasPrefix(series, name) && strings.Contains(series, labels) {
			n, err := strconv.ParseFloat(value, 64)
			return int(n), err
		}
	}
	return 0, lines.Err()
}
