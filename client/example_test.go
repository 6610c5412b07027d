package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/client"
)

// exampleServer stands for a running "posthaste serve".
func exampleServer() *httptest.Server {
	mux := http.NewServeMux()
	answer := func(route string, status int, body string) {
		mux.HandleFunc(route, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
	}
	answer("POST /v1/events", 202, `{"id":"evt_01kb8","type":"invoice.paid","deliveries":1,"duplicate":false}`)
	answer("GET /v1/deliveries", 200, `{"data":[{"id":"dlv_01kb8","type":"invoice.paid","status":"dead","reason":"retries exhausted"}],"next":null}`)
	answer("POST /v1/deliveries/dlv_01kb8/replay", 200, `{"status":"pending"}`)
	answer("POST /v1/endpoints", 422, `{"detail":"the request is not valid","code":"invalid","errors":[{"field":"url","message":"is missing"}]}`)
	return httptest.NewServer(mux)
}

func ExampleEvents_Send() {
	server := exampleServer()
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL, Key: "phk_…"})
	if err != nil {
		panic(err)
	}
	receipt, err := c.Events.Send(context.Background(), client.NewEvent{
		Type:           "invoice.paid",
		Payload:        []byte(`{"invoice":"inv_42","amount":4200}`),
		ContentType:    "application/json",
		IdempotencyKey: "inv_42_paid", // makes it safe to send again
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(receipt.ID, receipt.Deliveries)
	// Output: evt_01kb8 1
}

func ExampleDeliveries_All() {
	server := exampleServer()
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL, Key: "phk_…"})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	for d, err := range c.Deliveries.All(ctx, client.DeliveryFilter{Status: "dead"}) {
		if err != nil {
			panic(err)
		}
		if err := c.Deliveries.Replay(ctx, d.ID); err != nil {
			panic(err)
		}
		fmt.Println("replayed", d.ID, "which was dead:", d.Reason)
	}
	// Output: replayed dlv_01kb8 which was dead: retries exhausted
}

func ExampleError() {
	server := exampleServer()
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL, Key: "phk_…"})
	if err != nil {
		panic(err)
	}
	_, err = c.Endpoints.Create(context.Background(), client.NewEndpoint{})
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code == posthaste.CodeInvalid {
		for _, p := range e.Problems {
			fmt.Println(p.Field, p.Message)
		}
	}
	// Output: url is missing
}
