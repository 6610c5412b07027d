package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/config"
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
	for _, v := range config.UnknownVariables(os.Environ()) {
		log.WarnContext(ctx, "a variable of the environment is not read", "variable", v.Name, "nearest", v.Nearest)
	}
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

// run opens the database, starts the engine, takes requests until ctx ends, and
// then lets go in the opposite order: no new requests, then the deliveries under
// way, then the database. All of it together stays within the grace.
func (s *server) run(ctx context.Context) error {
	tuneCollector()
	db, err := awaitDatabase(ctx, s.config.Database, s.config.Migrate, s.log)
	if err != nil && ctx.Err() != nil {
		s.log.InfoContext(ctx, "told to stop before the database was there")
		return nil
	}
	if err != nil {
		return err
	}
	// Before the engine is made: a new admin key is printed once, by a process that stays.
	listener, err := listen(ctx, s.config.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen for requests: %w", err), db.Close())
	}
	e, k, err := s.newEngine(ctx, db)
	if err != nil {
		return errors.Join(err, listener.Close(), db.Close())
	}
	s.announce(ctx, listener.Addr().String(), k)

	// The engine runs on when ctx ends: requests under way need it.
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	engineDone := make(chan error, 1)
	go func() {
		err := e.Run(engineCtx)
		stopServing() // an engine that cannot go on must not go on taking requests
		engineDone <- err
	}()
	httpServer := newHTTPServer(e.HTTPHandler(), s.log)
	httpServer.RegisterOnShutdown(e.CloseStreams)
	httpErr := serveHTTP(serving, httpServer, listener, httpGrace(s.config.Grace))
	s.log.InfoContext(ctx, "no more requests are taken; finishing what is under way")
	stopEngine()
	return errors.Join(httpErr, <-engineDone, db.Close())
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
		Replica: c.Replica, Grace: c.Grace - httpGrace(c.Grace), IdleSweep: c.IdleSweep,
		Outboxes: c.Outboxes, OutboxPoll: c.OutboxPoll, OutboxBatch: c.OutboxBatch,
		MetricsOpen: c.MetricsOpen, Log: s.log, Version: programVersion(),
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
