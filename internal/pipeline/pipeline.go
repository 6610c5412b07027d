// Package pipeline is the life of an event, file by file in order: accept (with
// match), lane, claim, attempt, settle, sweep, beat, reclaim and reconcile; and
// beside it replay, chores (retention) and the changes of endpoints.
//
//	accept ─► COMMIT ─► lane ─► attempt ─► settle ─► COMMIT
//	             └► due ─► claim ─┘   ▲ sweep finds due work
//
// The database is the truth and the referee; everything here is disposable. What
// this package forgets, the low-water mark, reclaim and the reconciler find.
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/telemetry"
)

// Config is what a pipeline is made of. Store, Sender, Keyring and Replica are required.
type Config struct {
	Store   store.Store
	Sender  *deliver.Sender
	Keyring *keyring.Keyring

	// Replica is the name that attempts are recorded under.
	Replica string

	// Roles are what this replica does. Default: everything.
	Roles Roles

	// Log takes one wide line for each event accepted and each attempt.
	// Default: they are thrown away.
	Log *slog.Logger

	// Metrics are counted into. Default: new ones.
	Metrics *telemetry.Metrics

	// MaxInFlight is the number of attempts under way at once. Default: 4,096. Low limits
	// of open files or memory lower it: see [deliver.MaxAttempts].
	MaxInFlight int

	// Grace is how long attempts under way may take to end once Run's context has ended.
	// Run returns at most 4 s later: outcomes are recorded in that time. Default: 30s.
	Grace time.Duration

	// IdleSweep is the time between two walks of the reconciler. Default: 15m.
	IdleSweep time.Duration

	// Retention is how long events, deliveries and attempts are kept. Default: 720h.
	Retention time.Duration
	// DeadRetention is how long dead letters are kept. Default: 2160h.
	DeadRetention time.Duration
	// IdempotencyWindow is how long idempotency keys are kept. Default: Retention.
	IdempotencyWindow time.Duration

	// DisableAfter is how long an endpoint may fail without one success before it is
	// disabled; where it was not attempted for half of that, the time begins anew.
	// Default: 120h.
	DisableAfter time.Duration

	// Now is the wall clock. Default: time.Now.
	Now func() time.Time
}

// Roles are parts of the work that replicas on one PostgreSQL may share out.
type Roles struct {
	Accept  bool // takes events; without it [Pipeline.Accept] refuses
	Inbound bool // takes what providers send to sources
	Deliver bool // makes attempts; without it what is accepted is born due, for others
	Relay   bool // relays outboxes, which is the engine's to do: [Pipeline.AcceptWith] is open to it
}

func (c Config) withDefaults() Config {
	if c.Roles == (Roles{}) {
		c.Roles = Roles{Accept: true, Inbound: true, Deliver: true, Relay: true}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = telemetry.NewMetrics()
	}
	if c.MaxInFlight <= 0 {
		c.MaxInFlight = 4096
	}
	c.MaxInFlight = min(c.MaxInFlight, deliver.MaxAttempts())
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&c.Grace, 30 * time.Second}, {&c.IdleSweep, 15 * time.Minute},
		{&c.Retention, 720 * time.Hour}, {&c.DeadRetention, 2160 * time.Hour},
		{&c.DisableAfter, 120 * time.Hour},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	if c.IdempotencyWindow <= 0 {
		c.IdempotencyWindow = c.Retention
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Pipeline is a running engine on one database. Make it with [New], start it with
// [Pipeline.Run].
type Pipeline struct {
	cfg     Config
	store   store.Store
	sender  *deliver.Sender
	keyring *keyring.Keyring
	log     *slog.Logger
	metrics *telemetry.Metrics

	clock  clock
	ids    posthaste.Minter // of endpoints; events are minted by the ledger
	ledger ledger
	load   load

	acceptSize *batchSize // of an accepting statement, in events and deliveries

	routing  *routing
	handlers *handlers
	sources  knownSources
	lanes    *lanes
	agenda   *agenda
	gates    *gatebook
	throughs *throughs
	shortage shortage
	runs     *runLengths
	recent   *recent
	waker    *waker
	basket   *outbasket
	refusals refusals
	life     *life
	rest     *rest
	beating  sync.Mutex

	submissions   chan []*submission
	announcements chan announcement
	rewound       []func()      // see OnRewind
	nameLost      chan error    // why it can't go on: another replica has its name
	acceptClosed  chan struct{} // closed when nothing is accepted any more
	closeAccept   sync.Once
	committerDone chan struct{} // closed when the accept committer has ended
	reconcileSoon chan struct{}
	auditSoon     chan struct{}
	lookSoon      chan struct{}
	graceEnds     atomic.Int64 // uptime at which Run has to return; 0 while nobody stops it
	claimsLost    atomic.Int64 // claims whose answer did not come, since the last audit began
	lookAfresh    atomic.Bool  // what is under looking is to be forgotten
	looking       sync.Mutex
	lookedAt      store.EndpointNo                // under looking: where the last look stopped
	hinted        map[store.EndpointNo]hint       // under looking: what was said to others who may attempt
	nextExpiry    map[store.EndpointNo]time.Time  // under looking: when a closed endpoint is walked next
	expiryWalks   map[store.EndpointNo]expiryWalk // under looking: walks that go on

	starting     context.Context //nolint:containedctx // ends when no attempt may start any more
	stopStarting context.CancelFunc
	attempting   context.Context //nolint:containedctx // ends when attempts under way are cut short
	stopAttempts context.CancelFunc
	graceOver    context.Context //nolint:containedctx // ends when Run has to return
	endGrace     context.CancelFunc
	tasks        sync.WaitGroup // short work beside the loops
}

var errStopping = &posthaste.Error{
	Code: posthaste.CodeUnavailable, Message: "the engine is stopping", Hint: "try again after the seconds in Retry-After",
}

// New makes a pipeline. It does not touch the database yet.
func New(cfg Config) (*Pipeline, error) {
	cfg = cfg.withDefaults()
	if cfg.Store == nil || cfg.Sender == nil || cfg.Keyring == nil || cfg.Replica == "" {
		return nil, errors.New("make a pipeline: Store, Sender, Keyring and Replica are required")
	}
	p := &Pipeline{
		cfg: cfg, store: cfg.Store, sender: cfg.Sender, keyring: cfg.Keyring, log: cfg.Log, metrics: cfg.Metrics,
		clock: clock{wall: cfg.Now}, acceptSize: newBatchSize(acceptBatchRows),
		waker: newWaker(), basket: newOutbasket(), life: newLife(), rest: newRest(), gates: newGatebook(), throughs: newThroughs(), runs: newRunLengths(), recent: newRecent(), announcements: make(chan announcement, maxAnnouncements),
		handlers: newHandlers(), hinted: map[store.EndpointNo]hint{},
		submissions: make(chan []*submission, maxUncommitted), nameLost: make(chan error, 1), acceptClosed: make(chan struct{}), committerDone: make(chan struct{}),
		reconcileSoon: make(chan struct{}, 1), auditSoon: make(chan struct{}, 1), lookSoon: make(chan struct{}, 1), nextExpiry: map[store.EndpointNo]time.Time{}, expiryWalks: map[store.EndpointNo]expiryWalk{},
	}
	p.shortage.counts = cfg.Metrics.LocalFailures
	p.waker.blind = func() bool { return p.rest.is(asleep) || !p.life.recent() }
	p.agenda = newAgenda(p.clock.Now)
	p.routing = newRouting(cfg.Store, cfg.Log, p.prepareEndpoint)
	p.routing.changed = p.routingChanged
	p.lanes = newLanes(cfg.MaxInFlight, p.work)
	p.lanes.burdened = p.load.overburdened
	p.lanes.fixed = func(no store.EndpointNo) bool { // a handler's calls use up what is in this process
		e := p.routing.current(no)
		return e != nil && e.isHandler()
	}
	p.starting, p.stopStarting = context.WithCancel(context.Background())
	p.attempting, p.stopAttempts = context.WithCancel(context.Background())
	p.routing.stopping, p.routing.spawn = p.starting, p.tasks.Go
	p.graceOver, p.endGrace = context.WithCancel(context.Background())
	return p, nil
}

// Store returns the database, for reading.
func (p *Pipeline) Store() store.Store { return p.store }

// Metrics returns what is counted into.
func (p *Pipeline) Metrics() *telemetry.Metrics { return p.metrics }

// Now returns the database's time, as far as it is known.
func (p *Pipeline) Now() time.Time { return p.clock.Now() }

// Ready returns nil when the engine can take and deliver events, else why not.
func (p *Pipeline) Ready() error {
	if err := p.running(); err != nil {
		return err
	}
	return p.refuses()
}

// TakesFromSources returns nil when what providers send to sources can be taken
// here now, else why not.
func (p *Pipeline) TakesFromSources() error { return p.acceptable(store.NamespaceSource) }

// acceptable returns why events of a namespace can't be taken at all, or nil.
func (p *Pipeline) acceptable(namespace int16) error {
	switch fromSource := namespace == store.NamespaceSource; {
	case fromSource && !p.cfg.Roles.Inbound:
		return errNoInbound
	case !fromSource && !p.cfg.Roles.Accept:
		return errNoAccept
	}
	return p.running()
}

var errNoAccept = &posthaste.Error{
	Code: posthaste.CodeUnavailable, Message: "this replica does not accept events", Hint: "send them to a replica with the role accept",
}

var errNoInbound = &posthaste.Error{
	Code: posthaste.CodeUnavailable, Message: "this replica takes nothing from sources", Hint: "send it to a replica with the role inbound",
}

// running returns why the engine can't work at the moment, or nil.
func (p *Pipeline) running() error {
	select {
	case <-p.acceptClosed:
		return errStopping
	default:
	}
	switch {
	case p.epoch() == 0:
		return &posthaste.Error{Code: posthaste.CodeUnavailable, Message: "the engine is starting", Hint: "try again after the seconds in Retry-After"}
	case p.clock.tooFarOff():
		return &posthaste.Error{
			Code: posthaste.CodeUnavailable, Message: "this machine's clock is more than an hour off the database's", Hint: "set the clock",
		}
	case !p.life.recent() && p.rest.is(working):
		return &posthaste.Error{
			Code: posthaste.CodeUnavailable, Message: "no fresh heartbeat: the database is away or slow",
			Hint: "try again after the seconds in Retry-After",
		}
	}
	return nil
}

// Run works until ctx ends, then shuts down within the grace: nothing is
// accepted any more, attempts under way end and are recorded, and what was leased and not
// started is given back. It returns an error only if it could not begin, or if
// another replica took its name.
func (p *Pipeline) Run(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	if p.epoch() == 0 { // asked to stop before it had begun
		return nil
	}
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	settle, stopSettle := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSettle()

	var committer, beat, loops sync.WaitGroup
	accept, stopAccept := context.WithCancel(work)
	defer stopAccept()
	committer.Go(func() { p.runAccept(accept) })
	go p.runSettle(settle)
	beats, stopBeats := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBeats()
	beat.Go(func() { p.runBeat(beats) })
	for _, loop := range []func(context.Context){
		p.runSweep, p.runLoad, p.runLook, p.runWaker, p.runListen, p.runUpkeep, p.runAudit, p.runGauges, p.runGates, p.runAnnounce,
	} {
		loops.Go(func() { loop(work) })
	}

	var lost error
	select {
	case <-ctx.Done():
	case lost = <-p.nameLost:
		p.log.Error("another replica goes by this one's name", "replica", p.cfg.Replica, "err", lost)
	}
	p.log.Info("stopping", "timeout", p.cfg.Grace)
	attemptsEnd := uptime() + p.cfg.Grace
	p.graceEnds.Store(int64(attemptsEnd + settleMargin))
	graceTimer := time.AfterFunc(p.cfg.Grace+settleMargin, p.endGrace)
	defer graceTimer.Stop()
	p.closeAccept.Do(func() { close(p.acceptClosed) })
	p.drainSubmissions()
	stopAccept()
	committer.Wait()
	close(p.committerDone)
	stopWork()
	loops.Wait()
	p.lanes.stop()
	p.throughs.tasks.Wait() // what they took is given back with the rest
	p.drainAttempts(attemptsEnd)
	stopSettle()
	<-p.basket.done
	stopBeats()
	beat.Wait()
	p.tasks.Wait()
	p.retire()
	return lost
}

// begin registers, waiting for the database until ctx ends. The rest of being
// ready is only hurried along here: the beat and the way in do it as well.
func (p *Pipeline) begin(ctx context.Context) error {
	for ctx.Err() == nil {
		p.rest.worked() // whoever starts an engine is about to use it
		call, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := p.register(call, false)
		if err == nil {
			now := p.clock.Now()
			err = errors.Join(p.store.MakePartitions(call, now, now.Add(partitionsAhead)), p.loadGates(call), p.renew(call))
		}
		cancel()
		switch {
		case p.epoch() != 0:
			if err != nil && ctx.Err() == nil {
				p.log.Warn("not ready at once", "err", err)
			}
			return nil
		case ctx.Err() == nil && (!errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrSystemic)):
			return fmt.Errorf("start: %w", err)
		}
		p.log.Warn("the database is not available; trying again", "err", err)
		p.pause(ctx, time.Second)
	}
	return nil
}

// drainSubmissions waits until the committer has taken everything.
func (p *Pipeline) drainSubmissions() {
	for p.load.uncommitted.Load() > 0 && p.graceOver.Err() == nil {
		p.pause(p.graceOver, 5*time.Millisecond)
	}
}

// settleMargin is how long recording may take once the last attempt has ended.
const settleMargin = 3 * time.Second

// drainAttempts lets nothing start, gives back what waits, and lets what is
// under way end; what has not ended at the given uptime is cut short.
func (p *Pipeline) drainAttempts(until time.Duration) {
	p.lanes.stop()
	p.stopStarting()
	p.giveBack(p.lanes.recall(func(*item) bool { return true }), "shutdown")
	ended := make(chan struct{})
	go func() {
		p.lanes.workers.Wait()
		close(ended)
	}()
	patience := time.NewTimer(max(until-uptime(), 0))
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
		p.stopAttempts()
		<-ended
	}
}

// retire revokes what is still ours (attempts that were cut short, and what
// memory never learned of), tells the other replicas what waits, and deletes
// the replica's row last.
func (p *Pipeline) retire() {
	ctx, cancel := context.WithTimeout(context.Background(), settleMargin)
	defer cancel()
	epoch := p.epoch()
	left, err := p.leftBehind(ctx, epoch)
	if err == nil && len(left) > 0 {
		var n int
		n, err = p.store.Revoke(ctx, store.RevokeParams{Epoch: epoch, Leases: left, Now: p.clock.Now()})
		p.metrics.Lost.WithLabelValues("shutdown").Add(float64(n))
		p.log.Warn("attempts were cut short by the shutdown timeout", "attempts", n, "err", err)
	}
	if err == nil {
		err = p.tellOthers(ctx)
	}
	if err := errors.Join(err, p.store.Retire(ctx, epoch)); err != nil {
		p.log.Warn("the replica's row stays, for another replica to reclaim", "epoch", epoch, "err", err)
		return
	}
	p.log.Info("stopped", "epoch", epoch)
}

// leftBehind lists what the epoch still owns in the database.
func (p *Pipeline) leftBehind(ctx context.Context, epoch store.Epoch) ([]store.HeldLease, error) {
	p.life.mu.Lock()
	from := p.life.lowWater
	p.life.mu.Unlock()
	owned, err := p.store.Owned(ctx, store.OwnedParams{Epoch: epoch, From: from, To: posthaste.MaxID})
	if err != nil {
		return nil, err
	}
	left := p.lanes.remaining()
	for _, l := range owned {
		left = append(left, l.Held())
	}
	claimed, err := p.unknownDue(ctx, epoch)
	for _, k := range claimed {
		left = append(left, store.HeldLease{Delivery: k.Delivery, DueAt: k.DueAt})
	}
	slices.SortFunc(left, func(a, b store.HeldLease) int {
		return cmp.Or(a.Delivery.Compare(b.Delivery), a.DueAt.Compare(b.DueAt))
	})
	return slices.CompactFunc(left, func(a, b store.HeldLease) bool { return a.Delivery == b.Delivery && a.DueAt.Equal(b.DueAt) }), err
}

// pastGrace reports whether a shutdown has used up its time.
func (p *Pipeline) pastGrace(ctx context.Context) bool {
	return ctx.Err() != nil && p.graceOver.Err() != nil
}

// withinGrace bounds a call that has to end with the grace once the engine stops.
func (p *Pipeline) withinGrace(ctx context.Context, longest time.Duration) (context.Context, context.CancelFunc) {
	if ends := time.Duration(p.graceEnds.Load()); ends != 0 {
		longest = max(min(longest, ends-uptime()), 100*time.Millisecond)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), longest)
}

// poke leaves a token for whoever waits on c, unless one lies there.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits, or returns early when ctx ends.
func (p *Pipeline) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// runGauges keeps the gauges up to date.
func (p *Pipeline) runGauges(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		running, waiting := p.lanes.counts()
		p.metrics.InFlight.Set(float64(running))
		p.metrics.Waiting.Set(float64(waiting))
		p.metrics.Uncommitted.Set(float64(p.load.uncommitted.Load()))
		p.metrics.Unrecorded.Set(float64(p.load.unrecorded.Load()))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
