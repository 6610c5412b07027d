package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/client"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/posthastetest"
	"github.com/posthaste-dev/posthaste/sqlite"
)

// exampleServer stands for a running "posthaste serve": a whole engine in this
// process, on a file that goes away with it, and a receiver.
type exampleServer struct {
	URL, Key string
	receiver *posthastetest.Receiver
	close    func()
}

func startServer() *exampleServer {
	s := &exampleServer{Key: "the-key-of-the-example"}
	dir := must(os.MkdirTemp("", "posthaste-example-*"))
	ctx, cancel := context.WithCancel(context.Background())
	db := must(sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "posthaste.db")}))
	check(db.Migrate(ctx))
	e := must(engine.New(ctx, engine.Config{
		Store: db, MasterKey: "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", AdminKey: s.Key,
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHTTP: engine.HTTPNetworks,
		Log: slog.New(slog.DiscardHandler),
	}))
	stopped := make(chan error, 1)
	go func() { stopped <- e.Run(ctx) }()
	for tick := time.Tick(10 * time.Millisecond); e.Ready() != nil; {
		<-tick
	}
	server := httptest.NewServer(e.HTTPHandler())
	s.URL = server.URL
	s.receiver = must(posthastetest.Start(posthastetest.Config{}))
	s.close = func() {
		server.Close()
		cancel()
		check(<-stopped)
		check(db.Close())
		s.receiver.Close()
		check(os.RemoveAll(dir))
	}
	return s
}

// Close ends it all.
func (s *exampleServer) Close() { s.close() }

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// From nothing to an event that has arrived.
func Example() {
	server := startServer()
	defer server.Close()

	c, err := client.New(client.Config{Server: server.URL, Key: server.Key})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	endpoint, err := c.Endpoints.Create(ctx, client.NewEndpoint{
		URL:        server.receiver.URL,
		EventTypes: []string{"invoice.*"},
		Secret:     server.receiver.Secret, // left out, the server makes one: endpoint.Secret
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("endpoint:", endpoint.Gate.State, endpoint.EventTypes)

	receipt, err := c.Events.Send(ctx, client.NewEvent{
		Type: "invoice.paid", Payload: []byte(`{"invoice":"inv_42"}`), ContentType: "application/json",
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("accepted, deliveries:", receipt.Deliveries)

	arrived, err := server.receiver.Wait(ctx, 1)
	if err != nil {
		panic(err)
	}
	fmt.Println("arrived:", arrived[0].Type, string(arrived[0].Body))
	// Output:
	// endpoint: closed [invoice.*]
	// accepted, deliveries: 1
	// arrived: invoice.paid {"invoice":"inv_42"}
}

func ExampleEvents_Send() {
	server := startServer()
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL, Key: server.Key})
	if err != nil {
		panic(err)
	}
	event := client.NewEvent{
		Type:           "invoice.paid",
		Payload:        []byte(`{"invoice":"inv_42","amount":4200}`),
		ContentType:    "application/json",
		IdempotencyKey: "inv_42_paid", // makes it safe to send again
	}
	first, err := c.Events.Send(context.Background(), event)
	if err != nil {
		panic(err)
	}
	again, err := c.Events.Send(context.Background(), event)
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.HasPrefix(first.ID, "evt_"), again.ID == first.ID, again.Duplicate)
	// Output: true true true
}

// Dead deliveries are brought back once their receiver is well again.
func ExampleDeliveries_All() {
	server := startServer()
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL, Key: server.Key})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	server.leaveDead(ctx, c)

	for d, err := range c.Deliveries.All(ctx, client.DeliveryFilter{Status: "dead"}) {
		if err != nil {
			panic(err)
		}
		if err := c.Deliveries.Replay(ctx, d.ID); err != nil {
			panic(err)
		}
		fmt.Println("replayed", d.Type, "which was dead:", d.LastError)
	}
	arrived, err := server.receiver.Wait(ctx, 2)
	if err != nil {
		panic(err)
	}
	fmt.Println("attempt", arrived[1].Attempt, "of", arrived[1].Type)
	// Output:
	// replayed invoice.paid which was dead: the receiver answered 400
	// attempt 2 of invoice.paid
}

// leaveDead sends an event whose receiver refuses it.
func (s *exampleServer) leaveDead(ctx context.Context, c *client.Client) {
	s.receiver.Fail(400)
	must(c.Endpoints.Create(ctx, client.NewEndpoint{URL: s.receiver.URL, Secret: s.receiver.Secret}))
	must(c.Events.Send(ctx, client.NewEvent{Type: "invoice.paid", Payload: []byte("{}")}))
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		if page := must(c.Deliveries.List(ctx, client.DeliveryFilter{Status: "dead"})); len(page.Data) > 0 {
			return
		}
	}
}

func ExampleError() {
	server := startServer()
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL, Key: server.Key})
	if err != nil {
		panic(err)
	}
	_, err = c.Endpoints.Create(context.Background(), client.NewEndpoint{URL: "ftp://example.com", EventTypes: []string{"a b"}})
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code == posthaste.CodeInvalid {
		for _, p := range e.Problems {
			fmt.Println(p.Field)
		}
	}
	// Output:
	// url
	// event_types[0]
}

func ExampleEndpoints_Update() {
	server := startServer()
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL, Key: server.Key})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	endpoint, err := c.Endpoints.Create(ctx, client.NewEndpoint{URL: server.receiver.URL, Description: "billing"})
	if err != nil {
		panic(err)
	}
	endpoint, err = c.Endpoints.Update(ctx, endpoint.ID, map[string]any{
		"event_types": []string{"invoice.*"},
		"retry":       map[string]any{"timeout": "5s"},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(endpoint.Description, endpoint.EventTypes, endpoint.Retry.Timeout)
	// Output: billing [invoice.*] 5s
}

// An endpoint with limits of its own: five attempts a second, and a breaker that
// opens after three failures. What is not said of it is the server's default.
func ExampleNewEndpoint() {
	server := startServer()
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL, Key: server.Key})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	endpoint, err := c.Endpoints.Create(ctx, client.NewEndpoint{
		URL:       server.receiver.URL,
		RateLimit: &posthaste.RateLimit{RPS: 5},
		Breaker:   &client.Breaker{Threshold: 3},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("burst:", *endpoint.RateLimit.Burst, "opens for", endpoint.Breaker.Reset, "gate:", endpoint.Gate.State)

	endpoint, err = c.Endpoints.Update(ctx, endpoint.ID, map[string]any{"breaker": nil, "rate_limit": map[string]any{"burst": 20}})
	if err != nil {
		panic(err)
	}
	fmt.Println("burst:", *endpoint.RateLimit.Burst, "breaker:", endpoint.Breaker)
	// Output:
	// burst: 5 opens for 30s gate: closed
	// burst: 20 breaker: <nil>
}

// An ordered endpoint is held up by a delivery that fails. Skipping it lets the next
// one go.
func ExampleDeliveries_Skip() {
	server := startServer()
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL, Key: server.Key})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	endpoint, err := c.Endpoints.Create(ctx, client.NewEndpoint{URL: server.receiver.URL, Ordered: posthaste.OrderedByEndpoint})
	if err != nil {
		panic(err)
	}
	if _, err = c.Endpoints.Pause(ctx, endpoint.ID); err != nil {
		panic(err)
	}
	if _, err = c.Events.Send(ctx, client.NewEvent{Type: "invoice.paid", Payload: []byte(`{}`)}); err != nil {
		panic(err)
	}
	for d, err := range c.Deliveries.All(ctx, client.DeliveryFilter{Status: "pending"}) {
		if err == nil {
			err = c.Deliveries.Skip(ctx, d.ID)
		}
		if err != nil {
			panic(err)
		}
		skipped, err := c.Deliveries.Get(ctx, d.ID)
		if err != nil {
			panic(err)
		}
		fmt.Println(skipped.Status, skipped.Reason)
	}
	// Output: dead skipped
}
