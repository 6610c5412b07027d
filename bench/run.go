//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"
)

// bench is what all runs share.
type bench struct {
	server   *server           // nil if no engine needs it
	binaries map[string]string // Go package -> binary
	folder   string            // of all runs' files
	warmup   int               // events before a phase that are not counted
	share    float64           // of a scenario's events
	limit    time.Duration     // longest that a phase may take
	idle     time.Duration     // longest wait for one more arrival
}

// session is one run: an engine that was started for it, on an empty database,
// and stopped after it.
type session struct {
	bench     *bench
	d         description
	phase     phase
	vars      variables
	db        database
	receiver  *receiver
	engine    children
	templates []template // of the load's events
	watch     stopwatch
}

// run measures one phase of one engine. A failure is in the result's err, with
// whatever was measured before it.
func (b *bench) run(ctx context.Context, d description, p phase, round int) result {
	res := result{at: time.Now(), engine: d.Name, phase: p.text, round: round, hotShare: math.NaN()}
	s := &session{bench: b, d: d, phase: p, watch: newStopwatch()}
	if err := errors.Join(s.measure(ctx, &res), s.close()); err != nil {
		res.err = err.Error()
	}
	if ctx.Err() != nil {
		res.err = "interrupted: " + res.err // says nothing about the engine
	}
	return res
}

func (s *session) measure(ctx context.Context, res *result) error {
	if err := s.open(ctx, res); err != nil {
		return err
	}
	if err := s.warm(ctx); err != nil {
		return err
	}
	// From here on the figures are kept even if something fails: a result that
	// is incomplete is still told apart by its error.
	if err := s.load(ctx, res); err != nil {
		return err
	}
	// PostgreSQL's counters are complete only when the engine's sessions have
	// ended, so it is stopped here and not in close.
	stopping := s.engine
	s.engine = nil
	if err := stopping.stop(); err != nil {
		return err
	}
	var err error
	res.hotShare, err = s.db.hotShare(ctx)
	return err
}

// open makes folder, database, receiver and engine, in this order.
func (s *session) open(ctx context.Context, res *result) error {
	dir, err := os.MkdirTemp(s.bench.folder, s.d.Name+"-")
	if err != nil {
		return fmt.Errorf("make the run's folder: %w", err)
	}
	// Fresh secrets: nothing that looks like a credential stands in a file.
	s.vars = variables{"dir": dir, "bin": s.bench.binaries[s.d.Build], "admin_key": "bench-" + rand.Text()}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	s.vars["master_key"] = base64.StdEncoding.EncodeToString(key)
	if s.vars["listen"], err = freeAddress(); err != nil {
		return err
	}
	if s.db, err = newDatabase(ctx, s.d.Database, s.bench.server, dir); err != nil {
		return err
	}
	s.vars["database"] = s.db.address
	if err := s.openOutbox(ctx); err != nil {
		return err
	}
	if s.receiver, err = startReceiver(); err != nil {
		return err
	}
	s.vars["receiver"] = s.receiver.url
	began := time.Now() // an empty database: the migration is part of the start
	if s.engine, err = startEngine(ctx, s.d, s.vars); err != nil {
		return err
	}
	res.ready = time.Since(began)
	res.idleBytes = residentBytes(processes(), s.engine.pids())
	t, err := registerReceiver(ctx, s.d, s.vars)
	s.templates = []template{t}
	return err
}

// close stops what is still there. Every file of the run goes with it.
func (s *session) close() error {
	err := s.engine.stop()
	if s.receiver != nil {
		err = errors.Join(err, s.receiver.close())
	}
	return errors.Join(err, os.RemoveAll(s.vars["dir"]))
}

// recorder makes one for n events, whose arrivals nobody counts.
func (s *session) recorder(name string, n int) *recorder {
	return newRecorder(name+strings.ToLower(rand.Text()[:10]), n, s.watch)
}

// flow makes a recorder for n events and lets their arrivals count. The caller
// closes the flow at the receiver.
func (s *session) flow(name string, n int) *recorder {
	rec := s.recorder(name, n)
	s.receiver.open(rec)
	return rec
}

// warm sends some events first: connections, caches and plans are then made.
func (s *session) warm(ctx context.Context) error {
	rec := s.flow("warm", s.bench.warmup)
	defer s.receiver.closeFlow(rec)
	deadline := s.watch.now() + int64(time.Minute)
	generator{s.templates, rec, deadline}.closedLoop(ctx, 8)
	arrived := awaitArrivals(ctx, rec, deadline, 20*time.Second)
	if failed := rec.failed.Load(); !arrived || failed > 0 {
		text := "none"
		if first := rec.firstErr.Load(); first != nil {
			text = *first
		}
		return fmt.Errorf("warm-up: %d of %d events delivered, %d not accepted; first error: %s",
			rec.distinct.Load(), s.bench.warmup, failed, text)
	}
	return nil
}

// load runs the phase and takes all figures that need the engine alive.
func (s *session) load(ctx context.Context, res *result) error {
	before, err := s.db.counts(ctx, s.d.Counts)
	if err != nil {
		return err
	}
	wal, err := s.db.walBytes(ctx)
	if err != nil {
		return err
	}
	rec := s.flow(string(s.phase.kind), s.phase.events)
	defer s.receiver.closeFlow(rec)
	g := generator{s.templates, rec, s.watch.now() + int64(s.bench.limit)}
	m := startMeter(s.engine.pids(), s.db.pids())
	switch s.phase.kind {
	case phaseSat:
		g.closedLoop(ctx, s.phase.conns)
	case phaseRate:
		g.openLoop(ctx, s.phase.perSecond, s.phase.conns)
	}
	complete := awaitArrivals(ctx, rec, g.deadline, s.bench.idle)
	// Before anything is counted, which costs the database time of its own.
	used := m.stop()
	walAfter, err := s.db.walBytes(ctx)
	if err != nil {
		return err
	}
	res.tally(rec)
	res.spend(used, walAfter-wal, res.delivered)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	res.settled, err = s.db.awaitCounts(ctx, s.d.Counts, before, int64(res.accepted))
	return errors.Join(res.verdict(complete, len(rec.intended)), err)
}

// verdict is an error if the figures are not those of a full, clean run of n events.
func (r *result) verdict(complete bool, n int) error {
	switch {
	case !complete:
		return fmt.Errorf("cut: %d accepted events had not arrived", r.lost)
	case r.failed > 0:
		return fmt.Errorf("%d events not accepted; first error: %s", r.failed, r.firstError)
	case r.accepted < n:
		return fmt.Errorf("cut: only %d of %d events were accepted", r.accepted, n)
	}
	return nil
}
