package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/sqlite"
)

// withEngine runs an engine while use uses it. register is called before it starts.
func withEngine(register func(*engine.Engine) error, use func(context.Context, *engine.Engine) error) error {
	dir, err := os.MkdirTemp("", "posthaste-example-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "posthaste.db")})
	if err != nil {
		return err
	}
	if err := db.Migrate(ctx); err != nil {
		return err
	}
	e, err := engine.New(ctx, engine.Config{
		Store: db, MasterKey: "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if err := register(e); err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- e.Run(ctx) }()
	for tick := time.Tick(10 * time.Millisecond); e.Ready() != nil; {
		<-tick
	}
	err = use(ctx, e)
	stop()
	return errors.Join(err, <-stopped, db.Close())
}

func ExampleEngine_Handle() {
	done := make(chan struct{})
	err := withEngine(func(e *engine.Engine) error {
		return e.Handle("invoice.*", func(_ context.Context, d engine.Delivery) error {
			defer close(done)
			fmt.Printf("attempt %d at %s of %s: %s\n", d.Attempt, d.Type, d.Tenant, d.Payload)
			return nil
		})
	}, func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Send(ctx, posthaste.TenantDefault, engine.Event{Type: "invoice.paid", Payload: []byte("inv_42")})
		<-done
		return err
	})
	if err != nil {
		panic(err)
	}
	// Output: attempt 1 at invoice.paid of default: inv_42
}

func ExampleEngine_AddHandler() {
	done := make(chan struct{})
	err := withEngine(func(e *engine.Engine) error {
		return e.AddHandler(engine.Handler{
			Name:       "bookkeeping",
			EventTypes: []string{"invoice.paid", "refund.*"},
			Tenant:     posthaste.TenantDefault,
			Schedule:   []time.Duration{10 * time.Millisecond, time.Minute, time.Hour},
			Timeout:    5 * time.Second,
			Func: func(_ context.Context, d engine.Delivery) error {
				if d.Attempt == 1 {
					return errors.New("the ledger is locked")
				}
				defer close(done)
				fmt.Println("booked in attempt", d.Attempt)
				return nil
			},
		})
	}, func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Send(ctx, posthaste.TenantDefault, engine.Event{Type: "refund.made"})
		<-done
		return err
	})
	if err != nil {
		panic(err)
	}
	// Output: booked in attempt 2
}

func ExampleDelivery_Send() {
	done := make(chan struct{})
	err := withEngine(func(e *engine.Engine) error {
		return errors.Join(
			e.Handle("message", func(ctx context.Context, d engine.Delivery) error {
				_, err := d.Send(ctx, engine.Event{Type: "lead.created", IdempotencyKey: "lead", Payload: d.Payload})
				return err
			}),
			e.Handle("lead.created", func(_ context.Context, d engine.Delivery) error {
				defer close(done)
				fmt.Printf("%s: %s, caused by an event: %t\n", d.Type, d.Payload, !d.Parent.IsZero())
				return nil
			}))
	}, func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Send(ctx, posthaste.TenantDefault, engine.Event{Type: "message", Payload: []byte("hi")})
		<-done
		return err
	})
	if err != nil {
		panic(err)
	}
	// Output: lead.created: hi, caused by an event: true
}

func ExamplePermanent() {
	classify := func(err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return engine.Permanent(err) // dead at once: no retry makes the file appear
		}
		return engine.RetryAfter(err, time.Minute) // not before a minute has passed
	}
	fmt.Println(classify(os.ErrNotExist))
	fmt.Println(classify(os.ErrDeadlineExceeded))
	// Output:
	// file does not exist
	// i/o timeout
}
