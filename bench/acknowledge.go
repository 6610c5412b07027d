//go:build linux

package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	// acknowledgeRate is a busy provider, far from saturation: the latency is then
	// the engine's own and not that of a queue.
	acknowledgeRate = 500
	// acknowledgeTurn is how many events are sent before it is the other side's turn:
	// 200 ms of them, shorter than most of what disturbs a machine.
	acknowledgeTurn  = 100
	acknowledgeTurns = 50
	// failingSettings keep attempts coming however many fail, as a breaker would not.
	// The second attempt is a whole number of turns after the first, the third after
	// the run: so what fails loads the source's turns, and hardly the others.
	failingSettings = `,"breaker":null,"max_in_flight":64,"retry":{"timeout":"5s","schedule":["2s","1h"],"jitter":0}`
)

// acknowledge measures how fast a provider is answered while nothing that it sent
// can be delivered, beside how fast the engine accepts an application's own events,
// which arrive. The two take turns, so that what else the machine does falls on both.
func acknowledge(ctx context.Context, g *gated) error {
	source, secret, err := g.addSource(ctx)
	if err != nil {
		return err
	}
	if err := g.warmSource(ctx, source, secret); err != nil {
		return err
	}
	for _, failing := range []struct{ how, event, url string }{
		{"no answer", "push", g.receiver.hangURL}, {"503", "release", g.receiver.downURL},
	} {
		// Where a source is GitHub's, the type is that of the header.
		if _, err := g.addEndpoint(ctx, "github."+failing.event, failing.url, failingSettings); err != nil {
			return err
		}
		sent, err := g.compileSource(source, secret, failing.event)
		if err != nil {
			return err
		}
		if err := g.takeTurns(ctx, failing.how, sent); err != nil {
			return err
		}
	}
	return nil
}

// takeTurns sends some events to the API, then as many deliveries to the source, and
// so on, and compares how long the answers took.
func (g *gated) takeTurns(ctx context.Context, how string, toSource template) error {
	own := g.templates[0]
	turns := slices.Concat(slices.Repeat([]template{own}, acknowledgeTurn), slices.Repeat([]template{toSource}, acknowledgeTurn))
	rec := g.flow("turns", g.size(acknowledgeTurns)*len(turns))
	defer g.receiver.closeFlow(rec)
	sides := [2][]int64{} // of the API, of the source: what the answers took
	_, err := g.observed(ctx, "source, endpoint: "+how, func(res *result) (int, error) {
		generator{turns, rec, g.watch.now() + int64(g.bench.limit)}.openLoop(ctx, acknowledgeRate, maxConns/2)
		if failed := rec.failed.Load(); failed > 0 {
			return 0, fmt.Errorf("%d of %d events not accepted; first error: %s", failed, len(rec.intended), *rec.firstErr.Load())
		}
		for i := range rec.intended {
			side := i / acknowledgeTurn % 2
			sides[side] = append(sides[side], rec.acked[i].Load()-rec.intended[i])
		}
		err := g.until(ctx, "arrival of the events of the API", sampleEvery, func() (bool, error) {
			return rec.distinct.Load() == int64(len(rec.intended)/2), nil
		})
		res.tally(rec)
		res.lost, res.arriveIn = 0, latency{} // those of the source wait for their next attempt, as they are to
		res.remark = "half of them events of the API, which are delivered"
		return res.accepted, errors.Join(res.verdict(true, len(rec.intended)), err)
	})
	if err != nil {
		return err
	}
	api, answer := percentiles(sides[0]), percentiles(sides[1])
	for _, p := range []struct {
		name        string
		api, answer time.Duration
	}{{"p50", api.p50, answer.p50}, {"p95", api.p95, answer.p95}, {"p99", api.p99, answer.p99}} {
		g.tell(how+": ms to accept an event, "+p.name, float64(p.api)/float64(time.Millisecond))
		g.tell(how+": ms to answer the provider, "+p.name, float64(p.answer)/float64(time.Millisecond))
		g.atMost(how+": answer over accept, "+p.name, float64(p.answer)/float64(p.api), acknowledgeBudget)
	}
	return nil
}

// addSource makes a source of GitHub.
func (g *gated) addSource(ctx context.Context) (id, secret string, err error) {
	secret = rand.Text()
	answer, err := g.ask(ctx, http.MethodPost, "/v1/sources", fmt.Sprintf(`{"provider":"github","secrets":[%q]}`, secret))
	if err != nil {
		return "", "", err
	}
	if id, err = lookup(answer, "id"); err != nil {
		return "", "", fmt.Errorf("make a source: %w", err)
	}
	return id, secret, nil
}

// compileSource returns the template of what GitHub sends to a source. GitHub signs
// the body alone and names the delivery in a header: so one body, as long as an
// event of the API, and its signature do for all, and signing costs the machine
// nothing beside.
func (g *gated) compileSource(source, secret, event string) (template, error) {
	body := newRecorder("github", 1, g.watch).appendPayload(nil, 0)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body) // never fails
	return compile(request{
		Method: http.MethodPost, URL: "http://" + g.vars["listen"] + "/in/" + source, Body: string(body),
		Headers: map[string]string{
			"Content-Type": "application/json", "X-GitHub-Event": event, "X-GitHub-Delivery": "${id}",
			"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
		},
	})
}

// warmSource sends what no endpoint wants, so that what the first deliveries to a
// source make is there, as the events of the API found it.
func (g *gated) warmSource(ctx context.Context, source, secret string) error {
	t, err := g.compileSource(source, secret, "ping")
	if err != nil {
		return err
	}
	rec := g.recorder("ping", g.bench.warmup)
	generator{[]template{t}, rec, g.watch.now() + int64(g.bench.limit)}.closedLoop(ctx, 8)
	var res result
	res.tally(rec)
	if err := res.verdict(true, g.bench.warmup); err != nil {
		return fmt.Errorf("warm the source: %w", err)
	}
	return nil
}
