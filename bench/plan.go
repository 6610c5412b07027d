//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// step is one run to make: of a phase, or of a scenario if there is one.
type step struct {
	engine   description
	phase    phase
	scenario *scenario
	round    int
}

// block is a part of a plan: every engine in every phase, over and over.
type block struct {
	engines []string
	phases  []string
	rounds  int
}

// comparison is what runs when no engine is named: flat out, then 20 events a
// request against one, then rows of an outbox against those, then at two steady rates, against the baselines; then
// memory over six times as many events.
//
// 64 connections are what one endpoint's 64 attempts at a time can keep up with.
// 83 a second is 5,000 a minute, an ordinary customer; 500 a second is a busy
// one, still far from saturation, so that latency is the engine's own and not
// that of a queue. 300,000 events are long enough for a leak of 100 bytes an
// event to show.
func comparison(rounds int) []block {
	all := []string{"reference-postgres", "posthaste-postgres", "reference-sqlite", "posthaste-sqlite"}
	ours := []string{"posthaste-postgres", "posthaste-sqlite"}
	outboxes := []string{"posthaste-postgres-batch", "posthaste-postgres-outbox", "posthaste-postgres-outbox-apart"}
	batches := []string{"posthaste-postgres", "posthaste-postgres-batch", "posthaste-sqlite", "posthaste-sqlite-batch"}
	return []block{
		{all, []string{"sat:50000:64"}, rounds},
		{batches, []string{"sat:100000:16"}, rounds},
		{outboxes, []string{"sat:100000:4"}, rounds},
		{all, []string{"rate:83:12", "rate:500:10"}, rounds},
		{ours, []string{"sat:300000:64"}, 1},
	}
}

// maxSteps bounds a plan.
const maxSteps = 400

// steps puts the runs in order. Engines take turns within a round, so that what
// changes on the machine over minutes falls on all of them.
func steps(blocks []block) ([]step, error) {
	var out []step
	for _, b := range blocks {
		for round := range b.rounds {
			for _, text := range b.phases {
				p, err := parsePhase(text)
				if err != nil {
					return nil, err
				}
				for _, name := range b.engines {
					d, err := loadDescription(name)
					if err != nil {
						return nil, err
					}
					out = append(out, step{engine: d, phase: p, round: round + 1})
				}
			}
		}
	}
	if len(out) == 0 || len(out) > maxSteps {
		return nil, fmt.Errorf("%d runs: want 1 to %d", len(out), maxSteps)
	}
	return out, nil
}

// options are what the command line says.
type options struct {
	blocks   []block
	gates    []string // scenarios, in place of the blocks
	rounds   int
	share    float64
	out      string
	binaries map[string]string // Go package -> binary that is not to be built
	warmup   int
	limit    time.Duration
	idle     time.Duration
}

// plan returns the runs to make.
func (o options) plan() ([]step, error) {
	if o.gates != nil {
		return gateSteps(o.gates, o.rounds)
	}
	return steps(o.blocks)
}

// execute makes all runs of the plan and reports them. The error says how many
// failed and how many budgets were missed.
func execute(ctx context.Context, o options, command []string) error {
	plan, err := o.plan()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "posthaste-bench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	b := &bench{folder: folder, binaries: o.binaries, warmup: o.warmup, share: o.share, limit: o.limit, idle: o.idle}
	err = b.prepare(ctx, plan)
	if err == nil {
		err = b.runAll(ctx, plan, o.out, command)
	}
	if b.server != nil {
		err = errors.Join(err, b.server.Close())
	}
	return errors.Join(err, os.RemoveAll(folder))
}

// prepare builds the binaries and starts PostgreSQL, as far as the plan needs them.
func (b *bench) prepare(ctx context.Context, plan []step) error {
	for _, s := range plan {
		if s.engine.Database == "postgres" && b.server == nil {
			var err error
			if b.server, err = startServer(ctx); err != nil {
				return err
			}
		}
		if err := b.build(ctx, s.engine.Build); err != nil {
			return err
		}
	}
	return nil
}

// build builds a package once. What is measured is the tree as it is.
func (b *bench) build(ctx context.Context, pkg string) error {
	if pkg == "" || b.binaries[pkg] != "" {
		return nil
	}
	file := filepath.Join(b.folder, filepath.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", file, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", pkg, err, out)
	}
	b.binaries[pkg] = file
	return nil
}

func (b *bench) runAll(ctx context.Context, plan []step, out string, command []string) error {
	m, err := describeMachine(b.folder, b.server)
	if err != nil {
		return err
	}
	r, err := openReport(os.Stdout, out)
	if err != nil {
		return err
	}
	err = b.report(ctx, r, plan, m, command)
	return errors.Join(err, r.close())
}

func (b *bench) report(ctx context.Context, r *report, plan []step, m machine, command []string) error {
	if err := r.begin(time.Now(), command, m); err != nil {
		return err
	}
	var results []result
	var measures []measure
	baselines := map[string]string{}
	withOutbox, made := false, 0
	for _, s := range plan {
		withOutbox = withOutbox || s.engine.Outbox > 0
		if ctx.Err() != nil {
			break // interrupted: what was measured is summed up all the same
		}
		var rows []result
		if s.scenario != nil {
			var found []measure
			rows, found = b.play(ctx, s)
			measures = append(measures, found...)
		} else {
			baselines[s.engine.Name] = s.engine.Baseline
			rows = []result{b.run(ctx, s.engine, s.phase, s.round)}
		}
		for _, res := range rows {
			if err := r.run(res); err != nil {
				return err
			}
		}
		results = append(results, rows...)
		made++
	}
	groups := summarize(results, baselines)
	missed, err := r.end(groups, append(checkBudgets(groups), checkMeasures(measures)...))
	if err != nil {
		return err
	}
	if withOutbox && ctx.Err() == nil {
		text, over, err := b.measureEnqueue(ctx, results)
		if err := errors.Join(err, r.both(text)); err != nil {
			return err
		}
		missed += over
	}
	failed := 0
	for _, res := range results {
		if res.err != "" {
			failed++
		}
	}
	if failed+missed > 0 || made < len(plan) {
		return fmt.Errorf("%d of %d runs made, %d of them failed; %d budgets missed", made, len(plan), failed, missed)
	}
	return nil
}

// list splits a flag's value at commas.
func list(s string) []string {
	return slices.DeleteFunc(strings.Split(s, ","), func(part string) bool { return part == "" })
}
