package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/sqlite"
)

func Example() {
	dir, err := os.MkdirTemp("", "posthaste-example-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	ctx, stop := context.WithCancel(context.Background())
	db, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "posthaste.db")})
	if err != nil {
		panic(err)
	}
	if err := db.Migrate(ctx); err != nil {
		panic(err)
	}
	e, err := engine.New(ctx, engine.Config{
		Store:     db,
		MasterKey: "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", // yours: openssl rand -base64 32
		Log:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- e.Run(ctx) }()
	for tick := time.Tick(10 * time.Millisecond); e.Ready() != nil; {
		<-tick
	}

	receipt, err := e.Send(ctx, posthaste.TenantDefault, engine.Event{
		Type:    "invoice.paid",
		Payload: []byte(`{"invoice":"inv_42"}`),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("accepted, deliveries:", receipt.Deliveries)

	stop()
	if err := <-stopped; err != nil {
		panic(err)
	}
	if err := db.Close(); err != nil {
		panic(err)
	}
	// Output: accepted, deliveries: 0
}
