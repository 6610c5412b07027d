package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/config"
	"github.com/posthaste-dev/posthaste/internal/store"
)

type serveCommand struct {
	config.Flags
}

// Run serves until ctx ends, then drains.
func (c *serveCommand) Run(ctx context.Context, s Streams) error {
	cfg, err := c.Parse()
	if err != nil {
		return err
	}
	log, flush := newLog(s.Stderr, cfg.LogFormat, cfg.LogLevel)
	defer flush()
	sv := server{config: cfg, streams: s, log: log}
	return sv.run(ctx)
}

// server is one running engine with its HTTP API.
type server struct {
	config  config.Config
	streams Streams
	log     *slog.Logger

	// listening is told the address and the keys, when requests are taken. Default:
	// a new admin key is printed.
	listening func(address string, k keys)
}

// run takes requests until ctx ends. The listener comes up first, so that probes are
// answered while the database is away; then the database is opened and the engine
// started. The end goes in the opposite order: no new requests, then the deliveries
// under way, then the database.
func (s *server) run(ctx context.Context) error {
	tuneCollector()
	listener, err := listen(ctx, s.config.Listen)
	if err != nil {
		return fmt.Errorf("listen for requests: %w", err)
	}
	entry := newEntry()
	httpServer := newHTTPServer(entry, s.log)
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	starting, stopStarting := context.WithCancel(ctx)
	defer stopStarting()
	httpDone := make(chan error, 1)
	go func() {
		err := serveHTTP(serving, httpServer, listener, httpTimeout(s.config.ShutdownTimeout))
		stopStarting() // where it could not serve
		httpDone <- err
	}()
	db, e, k, err := s.start(starting, entry)
	if err != nil {
		stopServing()
		httpErr := <-httpDone
		if ctx.Err() != nil {
			s.log.InfoContext(ctx, "stopped before the database was there", "err", err)
			return httpErr
		}
		return errors.Join(httpErr, err)
	}
	httpServer.RegisterOnShutdown(e.CloseStreams)
	entry.open(e.HTTPHandler())
	s.announce(ctx, listener.Addr().String(), k)

	// The engine runs on when ctx ends: requests under way need it.
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	engineDone := make(chan error, 1)
	go func() {
		err := e.Run(engineCtx)
		stopServing() // an engine that cannot go on must not go on taking requests
		engineDone <- err
	}()
	httpErr := <-httpDone
	s.log.InfoContext(ctx, "no more requests are taken; finishing what is under way")
	stopEngine()
	return errors.Join(httpErr, <-engineDone, db.Close())
}

// start opens the database and makes the engine. After a power cut everything starts at
// once, and the database takes longest: start waits for it until ctx ends. Whatever
// waiting does not change is an error at once.
func (s *server) start(ctx context.Context, entry *entry) (database, *engine.Engine, keys, error) {
	const longest = 10 * time.Second
	for wait := 500 * time.Millisecond; ; wait = min(2*wait, longest) {
		db, e, k, err := s.tryStart(ctx)
		if err == nil || !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrForeignSchema) || errors.Is(err, store.ErrSystemic) || ctx.Err() != nil {
			return db, e, k, err
		}
		entry.waitFor("waiting for the database, which does not answer; the log has the reason")
		s.log.WarnContext(ctx, "the database is away, trying again", "err", err, "wait", wait.String())
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil, keys{}, err
		}
	}
}

// tryStart opens the database and makes the engine, once.
func (s *server) tryStart(ctx context.Context) (database, *engine.Engine, keys, error) {
	db, err := openWithSchema(ctx, s.config.Database, s.config.Migrate, s.log)
	if err != nil {
		return nil, nil, keys{}, err
	}
	e, k, err := s.newEngine(ctx, db)
	if err != nil {
		return nil, nil, keys{}, errors.Join(err, db.Close())
	}
	return db, e, k, nil
}

func (s *server) newEngine(ctx context.Context, db database) (*engine.Engine, keys, error) {
	k, err := serverKeys(ctx, s.config, db)
	if err != nil {
		return nil, keys{}, err
	}
	c := s.config
	e, err := engine.New(ctx, engine.Config{
		Store: db, MasterKey: k.master, AdminKey: k.admin, Roles: engine.Roles(c.Roles), Endpoint: engine.Endpoint(c.Endpoint),
		AllowNetworks: c.AllowNetworks, AllowHTTP: c.AllowHTTP,
		MaxInFlight: c.MaxInFlight, MaxPayloadBytes: c.MaxPayloadBytes,
		Retention: c.Retention, DeadRetention: c.DeadRetention, DisableAfter: c.DisableAfter, IdempotencyWindow: c.IdempotencyWindow,
		Replica: c.Replica, ShutdownTimeout: c.ShutdownTimeout, ReconcileInterval: c.ReconcileInterval,
		Outboxes: c.Outboxes, OutboxPoll: c.OutboxPoll, OutboxBatch: c.OutboxBatch,
		MetricsPublic: c.MetricsPublic, Log: s.log, Version: programVersion(),
	})
	if err != nil {
		return nil, keys{}, fmt.Errorf("start the engine: %w", err)
	}
	if made := e.MadeAdminKey(); made != "" {
		k.admin, k.adminIsNew = made, true
	}
	return e, k, nil
}

func (s *server) announce(ctx context.Context, address string, k keys) {
	s.log.InfoContext(ctx, "listening", "address", address, "version", programVersion(), "replica", s.config.Replica)
	if s.listening != nil {
		s.listening(address, k)
		return
	}
	if !k.adminIsNew {
		return
	}
	// To stdout, not to the log: logs are shipped to places that many can read.
	kept := "it is shown only now: keep it"
	if k.adminFile != "" {
		kept = "kept in " + k.adminFile
	}
	_, _ = fmt.Fprintf(s.streams.Stdout, "admin key: %s (%s)\n", k.admin, kept)
}
