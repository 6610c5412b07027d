package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/relay"
	"github.com/posthaste-dev/posthaste/internal/telemetry"
	"github.com/posthaste-dev/posthaste/postgres"
)

// relayGrace is how long a relay's last batch may take at shutdown. Attempts go on
// meanwhile; their own time begins after it.
func relayGrace(c Config) time.Duration { return min(c.ShutdownTimeout/5, 2*time.Second) }

func (e *Engine) newRelays(m *telemetry.Metrics) ([]*relay.Relay, error) {
	metrics := telemetry.NewOutbox(m)
	if e.config.Roles != (pipeline.Roles{}) && !e.config.Roles.Relay {
		return nil, nil
	}
	var home relay.Home
	if db, is := e.config.Store.(*postgres.DB); is {
		home = db
	}
	var relays []*relay.Relay
	for _, outbox := range e.config.Outboxes {
		r, err := relay.New(relay.Config{
			Outbox: outbox, Pipeline: e.pipeline, Metrics: metrics, Log: e.config.Log, Home: home, MaxPayloadBytes: e.config.MaxPayloadBytes,
			Poll: e.config.OutboxPoll, Batch: e.config.OutboxBatch, IdleSweep: e.config.ReconcileInterval, Grace: relayGrace(e.config),
		})
		if err != nil {
			return nil, fmt.Errorf("make an engine: %w", err)
		}
		relays = append(relays, r)
	}
	return relays, nil
}

func (e *Engine) relaysReady() error {
	for _, r := range e.relays {
		if err := r.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// runAll runs the pipeline, and the relays as long as ctx lasts: each brings the batch that
// it is at to its end while the pipeline still accepts.
func (e *Engine) runAll(ctx context.Context) error {
	if len(e.relays) == 0 {
		return e.pipeline.Run(ctx)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	relaying, stopRelays := context.WithCancel(ctx)
	defer stopRelays()
	var relays sync.WaitGroup
	for _, r := range e.relays {
		relays.Go(func() { r.Run(relaying) })
	}
	go func() {
		relays.Wait()
		stop()
	}()
	err := e.pipeline.Run(running)
	stopRelays() // a pipeline that cannot go on
	relays.Wait()
	return err
}
