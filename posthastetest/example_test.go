package posthastetest_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/client"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/posthastetest"
	"github.com/posthaste-dev/posthaste/sqlite"
)

// startEngine runs a whole Posthaste in this process, on a file that goes away
// with it, and returns a client of it.
func startEngine() (c *client.Client, stop func()) {
	const key = "the-key-of-the-example"
	dir := must(os.MkdirTemp("", "posthaste-example-*"))
	ctx, cancel := context.WithCancel(context.Background())
	db := must(sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "posthaste.db")}))
	check(db.Migrate(ctx))
	e := must(engine.New(ctx, engine.Config{
		Store: db, MasterKey: "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", AdminKey: key,
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHTTP: engine.HTTPNetworks,
		Log: slog.New(slog.DiscardHandler),
	}))
	stopped := make(chan error, 1)
	go func() { stopped <- e.Run(ctx) }()
	for tick := time.Tick(10 * time.Millisecond); e.Ready() != nil; {
		<-tick
	}
	server := httptest.NewServer(e.HTTPHandler())
	return must(client.New(client.Config{Server: server.URL, Key: key})), func() {
		server.Close()
		cancel()
		check(<-stopped)
		check(db.Close())
		check(os.RemoveAll(dir))
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A receiver that fails at first shows that the event comes again, with the same
// id, until it is taken. In a test NewReceiver(t, …) starts and closes it.
func Example() {
	c, stop := startEngine()
	defer stop()
	receiver, err := posthastetest.Start(posthastetest.Config{})
	if err != nil {
		panic(err)
	}
	defer receiver.Close()
	receiver.Fail(503, 503)

	ctx := context.Background()
	_, err = c.Endpoints.Create(ctx, client.NewEndpoint{
		URL: receiver.URL, Secret: receiver.Secret,
		Retry: &client.Retry{Schedule: []posthaste.Duration{
			posthaste.Duration(10 * time.Millisecond), posthaste.Duration(10 * time.Millisecond),
		}},
	})
	if err != nil {
		panic(err)
	}
	_, err = c.Events.Send(ctx, client.NewEvent{Type: "invoice.paid", Payload: []byte(`{"invoice":"inv_42"}`)})
	if err != nil {
		panic(err)
	}
	arrived, err := receiver.Wait(ctx, 3)
	if err != nil {
		panic(err)
	}
	for _, a := range arrived {
		fmt.Println(a.Type, a.Attempt, string(a.Body), a.EventID == arrived[0].EventID)
	}
	// Output:
	// invoice.paid 1 {"invoice":"inv_42"} true
	// invoice.paid 2 {"invoice":"inv_42"} true
	// invoice.paid 3 {"invoice":"inv_42"} true
}

// A receiver can decide by what arrives.
func ExampleConfig_answer() {
	c, stop := startEngine()
	defer stop()
	receiver, err := posthastetest.Start(posthastetest.Config{
		Answer: func(a posthastetest.Arrival) posthastetest.Answer {
			if a.Type == "invoice.voided" {
				return posthastetest.Answer{Status: 400, Body: "no such invoice"}
			}
			return posthastetest.Answer{}
		},
	})
	if err != nil {
		panic(err)
	}
	defer receiver.Close()

	ctx := context.Background()
	if _, err := c.Endpoints.Create(ctx, client.NewEndpoint{URL: receiver.URL, Secret: receiver.Secret}); err != nil {
		panic(err)
	}
	if _, err := c.Events.Send(ctx, client.NewEvent{Type: "invoice.voided", Payload: []byte("{}")}); err != nil {
		panic(err)
	}
	// Its state is known a moment after the answer.
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		page, err := c.Deliveries.List(ctx, client.DeliveryFilter{Status: "dead"})
		if err != nil {
			panic(err)
		}
		if len(page.Data) == 0 {
			continue
		}
		d, err := c.Deliveries.Get(ctx, page.Data[0].ID)
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Status, d.Attempts[0].StatusCode, d.Attempts[0].ResponseBody)
		break
	}
	// Output: dead 400 no such invoice
}
