//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

// scenario is a situation in which a gate is to keep one endpoint from hurting
// others, or in which many wait for what comes in. What it is compared with is
// measured in the same run, by the same processes, so that the ratio says little of
// the machine.
type scenario struct {
	name     string
	replicas int  // processes on PostgreSQL; on SQLite there is one
	once     bool // takes long: one round, whatever is asked for
	play     func(context.Context, *gated) error
}

func scenarios() []scenario {
	return []scenario{
		{name: "slow-neighbour", replicas: 1, play: slowNeighbour},
		{name: "dead-neighbour", replicas: 1, play: deadNeighbour},
		{name: "limit-precision", replicas: 3, play: limitPrecision},
		{name: "limited-throughput", replicas: 1, play: limitedThroughput},
		{name: "ordered", replicas: 1, play: orderedThroughput},
		{name: "expiry", replicas: 1, once: true, play: expiry},
		{name: "deletion", replicas: 1, once: true, play: deletion},
		{name: "acknowledge", replicas: 1, play: acknowledge},
		{name: "fan-out", replicas: 1, play: fanOut},
		{name: "backlog-drain", replicas: 1, once: true, play: backlogDrain},
		{name: "slow-receivers", replicas: 1, play: slowReceivers},
		{name: "slow-receiver", replicas: 1, play: slowReceiver},
		{name: "types-apart", replicas: 1, play: typesApart},
		{name: "idle-streams", replicas: 1, once: true, play: idleStreams},
	}
}

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// allScenarios stands for the names of all.
const allScenarios = "all"

// gateSteps puts the runs of the named scenarios in order. The databases take turns.
func gateSteps(names []string, rounds int) ([]step, error) {
	if slices.Equal(names, []string{allScenarios}) {
		names = scenarioNames()
	}
	var out []step
	for _, name := range names {
		at := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == name })
		if at < 0 {
			return nil, fmt.Errorf("no scenario %q: want %s or %s", name, allScenarios, strings.Join(scenarioNames(), ", "))
		}
		s := scenarios()[at]
		for round := range rounds {
			if s.once && round > 0 {
				break
			}
			for _, engine := range []string{"posthaste-postgres", "posthaste-sqlite"} {
				d, err := loadDescription(engine)
				if err != nil {
					return nil, err
				}
				out = append(out, step{engine: d, scenario: &s, round: round + 1})
			}
		}
	}
	return out, nil
}

// gated is one run of a scenario, and what it measured.
type gated struct {
	*session
	step     step
	rows     []result
	measures []measure
}

// play runs a scenario. If it fails, the rows end with one that says why, and
// its figures count for nothing.
func (b *bench) play(ctx context.Context, s step) ([]result, []measure) {
	if s.engine.Database == "postgres" {
		s.engine = s.engine.replicated(s.scenario.replicas)
	}
	g := &gated{session: &session{bench: b, d: s.engine, watch: newStopwatch()}, step: s}
	failure := g.row("")
	err := errors.Join(g.perform(ctx), g.close())
	if ctx.Err() != nil {
		err = errors.Join(errors.New("interrupted"), err)
	}
	if err != nil {
		failure.err = err.Error()
		return append(g.rows, failure), nil
	}
	return g.rows, g.measures
}

func (g *gated) perform(ctx context.Context) error {
	var start result
	if err := g.open(ctx, &start); err != nil {
		return err
	}
	if err := g.warm(ctx); err != nil {
		return err
	}
	return g.step.scenario.play(ctx, g)
}

// replicated returns the description with so many replicas of its one process.
// Events are handed to the first; the others listen wherever there is room.
func (d description) replicated(replicas int) description {
	first := d.Start[0]
	d.Start = []command{first}
	for i := 1; i < replicas; i++ {
		env := maps.Clone(first.Env)
		env["POSTHASTE_LISTEN"] = "127.0.0.1:0"
		env["POSTHASTE_REPLICA"] = fmt.Sprintf("replica-%d", i)
		d.Start = append(d.Start, command{Cmd: first.Cmd, Env: env})
	}
	return d
}

// row begins the row of a part of the scenario.
func (g *gated) row(part string) result {
	return result{
		at: time.Now(), engine: g.step.engine.Name, round: g.step.round, hotShare: math.NaN(),
		phase: strings.TrimSuffix(g.step.scenario.name+": "+part, ": "),
	}
}

// size is the number of events of a part, as large as the run is to be.
func (g *gated) size(n int) int { return max(1, int(float64(n)*g.bench.share)) }

func (g *gated) atMost(what string, value, budget float64) {
	g.measures = append(g.measures, measure{where: g.where(), what: what, value: value, budget: budget})
}

// never is atMost in every round.
func (g *gated) never(what string, value, budget float64) {
	g.measures = append(g.measures, measure{where: g.where(), what: what, value: value, budget: budget, always: true})
}

func (g *gated) atLeast(what string, value, budget float64) {
	g.measures = append(g.measures, measure{where: g.where(), what: what, value: value, budget: budget, floor: true})
}

// tell notes a figure that has no budget.
func (g *gated) tell(what string, value float64) { g.atMost(what, value, math.NaN()) }

func (g *gated) where() string { return g.step.engine.Name + " " + g.step.scenario.name }

// neighbourConns is how many connections hand events over: what 64 attempts at a
// time keep up with, as in the comparison.
const neighbourConns = 64

// saturate hands over events as fast as they are taken, and keeps the row.
func (g *gated) saturate(ctx context.Context, part string, events int) (result, error) {
	n := g.size(events)
	g.phase = phase{kind: phaseSat, events: n, conns: neighbourConns}
	res := g.row(part)
	err := g.load(ctx, &res)
	if err != nil {
		return res, fmt.Errorf("%s: %w", part, err)
	}
	g.rows = append(g.rows, res)
	return res, nil
}

// observed measures what do costs and keeps the row that it fills in. do returns
// how many events the costs are divided by.
func (g *gated) observed(ctx context.Context, part string, do func(*result) (events int, err error)) (result, error) {
	res := g.row(part)
	wal, err := g.db.walBytes(ctx)
	if err != nil {
		return res, err
	}
	m := startMeter(g.engine.pids(), g.db.pids())
	n, err := do(&res)
	used := m.stop()
	if err != nil {
		return res, fmt.Errorf("%s: %w", part, err)
	}
	after, err := g.db.walBytes(ctx)
	if err != nil {
		return res, err
	}
	res.spend(used, after-wal, n)
	g.rows = append(g.rows, res)
	return res, nil
}

// ask sends a request to the engine as its administrator.
func (s *session) ask(ctx context.Context, method, path, body string) ([]byte, error) {
	client := &http.Client{Timeout: exchangeTimeout}
	defer client.CloseIdleConnections()
	answer, err := do(ctx, client, request{
		Method: method, URL: "http://" + s.vars["listen"] + path, Body: body,
		Headers: map[string]string{"Authorization": "Bearer " + s.vars["admin_key"], "Content-Type": contentTypeOf(method)},
	})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return answer, nil
}

func contentTypeOf(method string) string {
	if method == http.MethodPatch {
		return "application/merge-patch+json"
	}
	return "application/json"
}

// addEndpoint makes an endpoint for one type of events, of which it returns the
// template. settings are more members of its definition. Its uid is the type.
func (s *session) addEndpoint(ctx context.Context, eventType, url, settings string) (template, error) {
	body := fmt.Sprintf(`{"uid":%q,"url":%q,"event_types":[%q]%s}`, eventType, url, eventType, settings)
	if _, err := s.ask(ctx, http.MethodPost, "/v1/endpoints", body); err != nil {
		return template{}, err
	}
	return compileSend(s.d, s.vars, eventType)
}

// batchLines is how many events a batch holds: as many as an engine takes.
const batchLines = 1000

// pile hands the recorder's events over in batches, and does not wait for arrivals.
func (s *session) pile(ctx context.Context, eventType string, rec *recorder) error {
	d, err := loadDescription(s.d.Name + batchSuffix)
	if err != nil {
		return err
	}
	t, err := compileSend(d, s.vars, eventType)
	if err != nil {
		return err
	}
	t.lines = batchLines
	generator{[]template{t}, rec, s.watch.now() + int64(s.bench.limit)}.closedLoop(ctx, 4)
	if failed := rec.failed.Load(); failed > 0 {
		return fmt.Errorf("%d of %d events not accepted; first error: %s", failed, len(rec.intended), *rec.firstErr.Load())
	}
	return ctx.Err()
}

// until asks again and again until done says so, for as long as a phase may take.
func (s *session) until(ctx context.Context, what string, every time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.bench.limit, fmt.Errorf("%s: not within %s", what, s.bench.limit))
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if yes, err := done(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
