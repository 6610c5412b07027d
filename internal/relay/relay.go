// Package relay brings what an application has enqueued in an outbox to the engine: it
// claims rows, has their events accepted, and deletes the rows. The way in is that of
// every event, [pipeline.Pipeline.AcceptWith].
//
//	claim rows ─► accept their events ─► delete the rows, park what can't be accepted
//
// A crash between the last two leaves rows whose events are accepted: the random id
// of each row, in a namespace of its own, makes the next accept find them. When the
// engine's tables are in the same PostgreSQL database, the last two are one transaction.
//
// With nothing to do a relay leaves the database asleep until a NOTIFY comes.
package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/telemetry"
)

const (
	batchBytes = 4 << 20 // of payloads in one claim, except that the first row always fits
	minDelay   = 25 * time.Millisecond
	maxDelay   = 100 * time.Millisecond // between looks before the relay falls asleep
	quietFor   = time.Second            // without a row, before it falls asleep
	countEvery = 5 * time.Second
	stuckAfter = 30 * time.Second // of trouble, before readiness tells
	maxBackoff = 3 * time.Second
)

// Home is an engine's database that can accept in a transaction of another's making:
// postgres.DB, which this package may not know.
type Home interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	AcceptWithin(ctx context.Context, tx pgx.Tx, p store.AcceptParams) (store.Accepted, error)
}

// Config is what a relay is made of. Outbox, Pipeline, Metrics and Log are required.
type Config struct {
	// Outbox is the application's database: a postgres:// URL, straight to the server and not
	// through a transaction pooler, or the path of an SQLite file.
	Outbox string

	Pipeline *pipeline.Pipeline
	Metrics  *telemetry.Outbox
	Log      *slog.Logger

	// Home is the engine's database, where it is PostgreSQL. Default: none.
	Home Home

	// MaxPayloadBytes is the largest payload that the engine accepts. Default: 1 MiB.
	MaxPayloadBytes int

	// Poll is the longest time between looks, as long as a transaction may be under way
	// that began to enqueue before the relay fell asleep. Default: 10s.
	Poll time.Duration

	// Batch is how many rows are claimed at once; of rows with an order key, half as
	// many more. Default: 500.
	Batch int

	// Grace is how long the batch under way may take once Run's context has ended. Default: 2s.
	Grace time.Duration

	// IdleSweep is the time between looks at an outbox that is known to be empty. Default: 15m.
	IdleSweep time.Duration
}

// box is an outbox in some kind of database. Its methods are for one goroutine.
type box interface {
	// connect makes the outbox ready, anew after an error.
	connect(ctx context.Context) error
	// claim takes rows that no other relay has, in the order of their ids.
	claim(ctx context.Context, p claimParams) (claim, error)
	// park moves a row that is not claimed aside.
	park(ctx context.Context, v verdict) error
	count(ctx context.Context) (counts, error)
	// sleep has writers wake this relay from now on. awake takes it back.
	sleep(ctx context.Context) error
	awake(ctx context.Context) error
	// isSettled reports whether each writer that does not know of the sleep is done, so that
	// the next claim sees its rows.
	isSettled(ctx context.Context) (bool, error)
	// wait returns after d, at the end of ctx, or when a writer wakes the relay.
	wait(ctx context.Context, d time.Duration) (woken bool, err error)
	close(ctx context.Context)
}

type claimParams struct {
	rows  int     // without an order key; half as many with one
	bytes int64   // of payloads
	skip  []int64 // ids of rows that are left out
}

// claim is rows that one relay holds.
type claim interface {
	rows() []row
	// isJoint reports whether the rows are in the transaction that accepts their events.
	isJoint() bool
	accept(ctx context.Context, p store.AcceptParams) (store.Accepted, error)
	// finish deletes and parks rows, and commits.
	finish(ctx context.Context, done []int64, parked []verdict) error
	// release lets go of what is not finished.
	release()
}

type counts struct {
	waiting, parked int       // each up to maxCount
	oldestAt        time.Time // when the oldest that waits was enqueued; zero: none waits
}

// maxCount bounds how many rows are counted.
const maxCount = 100_000

// Relay relays one outbox. Make it with [New], start it with [Relay.Run].
type Relay struct {
	cfg      Config
	box      box
	name     string // in metrics, logs and readiness
	source   string // of events
	log      *slog.Logger
	pace     pace
	narrow   int // submit no more rows than this at once, to find one that is refused; 0: any number
	suspects []suspect

	countedAt time.Time
	uncounted bool // rows came or went since

	counts atomic.Pointer[telemetry.OutboxCounts]

	mu      sync.Mutex
	trouble error // of the last step; nil: it went well
	since   time.Time
}

// New makes a relay. It does not touch the database yet.
func New(cfg Config) (*Relay, error) {
	cfg.MaxPayloadBytes = cmp.Or(cfg.MaxPayloadBytes, 1<<20)
	cfg.Poll = cmp.Or(cfg.Poll, 10*time.Second)
	cfg.Batch = cmp.Or(cfg.Batch, 500)
	cfg.Grace = cmp.Or(cfg.Grace, 2*time.Second)
	cfg.IdleSweep = cmp.Or(cfg.IdleSweep, 15*time.Minute)
	box, name, err := open(cfg.Outbox, cfg.Home, storeAccept(cfg.Pipeline))
	if err != nil {
		return nil, err
	}
	return &Relay{cfg: cfg, box: box, name: name, source: "outbox:" + name, log: cfg.Log, pace: pace{most: cfg.Batch, now: cfg.Batch}, uncounted: true}, nil
}

type acceptFunc func(ctx context.Context, p store.AcceptParams) (store.Accepted, error)

func storeAccept(p *pipeline.Pipeline) acceptFunc { return p.Store().Accept }

func isPostgres(outbox string) bool {
	return strings.HasPrefix(outbox, "postgres://") || strings.HasPrefix(outbox, "postgresql://")
}

// Ready returns nil unless the relay is stuck: then since when, and why.
func (r *Relay) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trouble == nil || time.Since(r.since) < stuckAfter {
		return nil
	}
	return &posthaste.Error{
		Code:    posthaste.CodeUnavailable,
		Message: fmt.Sprintf("the relay of the outbox %s has been stuck for %s", r.name, time.Since(r.since).Round(time.Second)),
		Hint:    "see the log for the reason", Err: r.trouble,
	}
}

func (r *Relay) troubled(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.trouble == nil {
		r.since = time.Now()
	}
	r.trouble = err
}

// Run relays until ctx ends; the batch under way then is brought to its end. The
// pipeline has to run for longer.
func (r *Relay) Run(ctx context.Context) {
	r.log.InfoContext(ctx, "relaying an outbox", "outbox", r.name)
	var showing sync.WaitGroup
	showing.Go(func() { r.runGauges(ctx) })
	defer showing.Wait()
	backoff := minDelay
	for ctx.Err() == nil {
		err := r.connect(ctx)
		if err == nil {
			began := time.Now()
			if err = r.work(ctx); time.Since(began) > maxBackoff {
				backoff = minDelay // that it can be connected to does not say that it works
			}
		}
		if ctx.Err() != nil {
			break
		}
		r.troubled(err)
		r.log.WarnContext(ctx, "the outbox could not be relayed; trying again", "outbox", r.name, "err", err)
		pause(ctx, backoff)
		backoff = min(2*backoff, maxBackoff)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	r.box.close(end)
	r.log.InfoContext(end, "the outbox is not relayed any more", "outbox", r.name)
}

func (r *Relay) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return r.box.connect(ctx)
}

// runGauges lets the age of the oldest row grow while nobody counts.
func (r *Relay) runGauges(ctx context.Context) {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.show()
		case <-ctx.Done():
			return
		}
	}
}

// show sets the gauges to what was counted last.
func (r *Relay) show() {
	if c := r.counts.Load(); c != nil {
		r.cfg.Metrics.Count(r.name, *c)
	}
}

// pause returns after d or at the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// work relays on one connection until ctx ends or the outbox's database fails. What the
// engine does not take is tried again here.
func (r *Relay) work(ctx context.Context) error {
	idle := idle{since: time.Now(), delay: minDelay}
	backoff := minDelay
	for ctx.Err() == nil {
		if err := r.settle(ctx, &idle); err != nil {
			return err
		}
		moved, err := r.step(ctx)
		switch refused, isRefusal := errors.AsType[*refusal](err); {
		case isRefusal:
			if r.refused(refused); refused.rows > 1 {
				continue // with fewer
			}
		case err != nil && !isEngines(err):
			return err
		}
		if err != nil {
			r.troubled(err)
			r.log.WarnContext(ctx, "rows of the outbox were not accepted; trying again", "outbox", r.name, "err", err)
			pause(ctx, backoff)
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		if r.suspects != nil && moved.gone == 0 {
			r.suspects = nil // nothing else is there to tell its fault from the engine's
			pause(ctx, backoff)
			continue
		}
		backoff = minDelay
		r.troubled(nil)
		if err := r.count(ctx, moved); err != nil {
			return err
		}
		if moved.gone > 0 {
			if err := r.wake(ctx, &idle); err != nil {
				return err
			}
			pause(ctx, r.pace.rest())
			continue
		}
		if err := r.rest(ctx, &idle); err != nil {
			return err
		}
	}
	return nil
}

// isEngines reports whether an error is the engine's own, which leaves the connection to the
// outbox as it is.
func isEngines(err error) bool {
	if _, ok := errors.AsType[*posthaste.Error](err); ok {
		return true
	}
	return errors.Is(err, store.ErrUnavailable)
}

// idle is how long there has been nothing to do, and what was made of it.
type idle struct {
	since   time.Time
	delay   time.Duration
	asleep  bool
	settled bool
}

// settle asks, once the relay is asleep, whether the look that follows may be the last one.
func (r *Relay) settle(ctx context.Context, i *idle) (err error) {
	if i.asleep && !i.settled {
		i.settled, err = r.box.isSettled(ctx)
	}
	return err
}

// rest waits for rows: at first for a moment; then asleep, so that writers notify, and
// looking less and less often, since a transaction that is under way may have enqueued
// before it could know; and when none can be, until it is woken.
func (r *Relay) rest(ctx context.Context, i *idle) error {
	if !i.asleep && time.Since(i.since) >= quietFor {
		if err := r.box.sleep(ctx); err != nil {
			return err
		}
		i.asleep, i.delay = true, minDelay
		return nil // and look once more
	}
	wait := i.delay
	if i.settled {
		wait = r.cfg.IdleSweep
		r.log.DebugContext(ctx, "nothing in the outbox: leaving its database asleep", "outbox", r.name)
	}
	woken, err := r.box.wait(ctx, wait)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if woken {
		return r.wake(ctx, i)
	}
	longest := maxDelay
	if i.asleep {
		longest = r.cfg.Poll
	}
	i.delay = min(2*i.delay, longest)
	return nil
}

func (r *Relay) wake(ctx context.Context, i *idle) error {
	wasAsleep := i.asleep
	r.uncounted = true
	*i = idle{since: time.Now(), delay: minDelay}
	if !wasAsleep {
		return nil
	}
	return r.box.awake(ctx)
}

// count brings the gauges up to date when rows came or went, and not too often.
func (r *Relay) count(ctx context.Context, m moved) error {
	r.uncounted = r.uncounted || m.claimed > 0
	if !r.uncounted || m.claimed > 0 && time.Since(r.countedAt) < countEvery {
		return nil
	}
	call, cancel := r.drained(ctx)
	defer cancel()
	c, err := r.box.count(call)
	if err != nil {
		return fmt.Errorf("count the rows of the outbox: %w", err)
	}
	r.counts.Store(&telemetry.OutboxCounts{Waiting: c.waiting, Parked: c.parked, OldestAt: c.oldestAt})
	r.show()
	r.countedAt, r.uncounted = time.Now(), m.claimed > 0
	return nil
}
