package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/config"
	"github.com/posthaste-dev/posthaste/signature"
)

type quickstartCommand struct {
	Dir            string `default:"./run" placeholder:"DIR" help:"Folder of the database and its keys. Default: ${default}."`
	Listen         string `default:"127.0.0.1:8700" placeholder:"HOST:PORT" help:"Address of the server. Default: ${default}."`
	ReceiverListen string `default:"127.0.0.1:8701" placeholder:"HOST:PORT" help:"Address of the receiver. Default: ${default}."`
}

// Run runs an engine and a receiver in one process until ctx ends.
func (c *quickstartCommand) Run(ctx context.Context, s Streams) error {
	cfg, err := config.Flags{
		Listen: c.Listen, DB: filepath.Join(c.Dir, "posthaste.db"),
		AllowNetworks: []string{"127.0.0.0/8"}, AllowHTTP: "networks",
	}.ParseAlone()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder for the database: %w", err)
	}
	// Kept over restarts, so that endpoints of an earlier run verify too.
	secret, _, err := keepInFile(filepath.Join(c.Dir, "receiver-secret"), signature.NewSecret)
	if err != nil {
		return fmt.Errorf("keep the receiver's secret: %w", err)
	}
	r, err := newReceiver(receiverConfig{Secrets: []string{secret}, Out: s.Stdout})
	if err != nil {
		return err
	}
	listener, err := listen(ctx, c.ReceiverListen)
	if err != nil {
		return &posthaste.Error{
			Code: posthaste.CodeConflict, Message: "start the receiver", Err: err,
			Hint: "choose another address for it, with make run ARGS='--receiver-listen=127.0.0.1:8711', or stop what uses this one",
		}
	}
	log, flush := newLog(s.Stderr, "text", slog.LevelWarn)
	defer flush()
	sv := server{config: cfg, streams: s, log: log}
	sv.listening = func(address string, k keys) {
		c.introduce(s, address, listener.Addr().String(), secret, k.admin)
	}

	// Both end together, whichever ends first.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// The receiver outlives the engine's grace, or what is under way would fail.
	receiving, stopReceiving := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReceiving()
	received := make(chan error, 1)
	go func() {
		err := r.serve(receiving, listener)
		stop()
		received <- err
	}()
	err = sv.run(ctx)
	stopReceiving()
	return errors.Join(err, <-received)
}

// introduce prints what a newcomer needs: the commands work as they are printed.
func (c *quickstartCommand) introduce(s Streams, address, receiver, secret, key string) {
	_, _ = fmt.Fprintf(s.Stdout, `Posthaste listens at http://%[1]s, a receiver at http://%[2]s/.
The admin key is %[4]s

Paste these into another terminal, one after the other.

1. Make an endpoint: events go to the receiver.

curl -sS -X PUT http://%[1]s/v1/endpoints/uid:quickstart -H 'Authorization: Bearer %[4]s' -H 'Content-Type: application/json' -d '{"url":"http://%[2]s/","event_types":["*"],"secret":"%[3]s"}'

2. Send an event. It shows up below, its signature verified.

curl -sS http://%[1]s/v1/events -H 'Authorization: Bearer %[4]s' -H 'Posthaste-Event-Type: invoice.paid' -H 'Content-Type: application/json' -d '{"invoice":"inv_42","amount":4200}'

3. Look at its delivery.

curl -sS 'http://%[1]s/v1/deliveries?limit=1' -H 'Authorization: Bearer %[4]s'

Ctrl-C stops both. The receiver prints here what arrives:

`, address, receiver, secret, key)
}
