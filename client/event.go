package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Events sends events and looks at what was accepted.
type Events struct{ c *Client }

// NewEvent is an event to send.
type NewEvent struct {
	// Type is required: 1 to 128 of a-z A-Z 0-9 . _ - / :
	Type string
	// Payload is delivered byte for byte as it stands here. It may be empty.
	Payload []byte
	// ContentType and ContentEncoding are sent on to receivers. Default: none.
	ContentType, ContentEncoding string
	// IdempotencyKey makes sending safe to repeat: with the same key, type and
	// payload an event is stored once. At most 255 bytes. Default: none, and then
	// Send does not repeat a request whose outcome it does not know.
	IdempotencyKey string
	// EndpointIDs limits the event to these endpoints. Default: all whose
	// subscription covers the type.
	EndpointIDs []string
	// Forward are headers that are sent on with each delivery, by name: 20 and
	// 4 KiB at most, and none that belongs to the connection, to the payload
	// (Content-…) or to Posthaste, and no credentials. Default: none.
	Forward map[string]string
	// OrderKey is kept with the event. At most 255 bytes. Default: none.
	OrderKey string
	// Traceparent is kept and sent on (W3C Trace Context). One that is not valid
	// is ignored. Default: none.
	Traceparent string
}

// Receipt is the server's promise: the event is on disk.
type Receipt struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	Deliveries int    `json:"deliveries"` // made at acceptance; 0 if no endpoint matched
	Duplicate  bool   `json:"duplicate"`  // stored earlier, under the same idempotency key
}

// Event is an accepted event, without its payload.
type Event struct {
	ID              string             `json:"id"`
	Type            string             `json:"type"`
	Source          string             `json:"source"`
	ContentType     string             `json:"content_type"`
	ContentEncoding string             `json:"content_encoding"`
	PayloadBytes    int                `json:"payload_bytes"`
	Headers         []posthaste.Header `json:"headers"`                  // forwarded with each delivery
	SourceHeaders   []posthaste.Header `json:"source_headers,omitempty"` // as a source received them; with a single event only
	Deliveries      int                `json:"deliveries"`
	IdempotencyKey  string             `json:"idempotency_key"`
	Parent          string             `json:"parent"`
	CorrelationID   string             `json:"correlation_id"`
	OrderKey        string             `json:"order_key"`
	Traceparent     string             `json:"traceparent"`
	CreatedAt       time.Time          `json:"created_at"`
}

// EventFilter chooses events. The zero value chooses all.
type EventFilter struct {
	Paging
	Type, Source, IdempotencyKey, Parent string
	Since, Until                         time.Time // of acceptance, in [Since, Until)
}

func (f EventFilter) query() url.Values {
	q := url.Values{}
	f.set(q)
	setText(q, "type", f.Type)
	setText(q, "source", f.Source)
	setText(q, "idempotency_key", f.IdempotencyKey)
	setText(q, "parent", f.Parent)
	setTime(q, "since", f.Since)
	setTime(q, "until", f.Until)
	return q
}

// Send has an event accepted. When it returns without an error, the event is on
// disk. With an idempotency key it tries a few times more when the server
// is overloaded, away, or did not answer; without one it never repeats, since
// the event might then be stored twice.
//
// A key that was used for another event is an *[Error] with the code
// [posthaste.CodeIdempotencyMismatch].
func (e *Events) Send(ctx context.Context, event NewEvent) (Receipt, error) {
	q := call{method: http.MethodPost, path: at("events"), header: event.header(), body: event.Payload}
	do := e.c.do
	if event.IdempotencyKey != "" {
		do = e.c.doRepeatedly
	}
	res, err := do(ctx, q)
	var receipt Receipt
	if err != nil {
		return receipt, err
	}
	if err := json.Unmarshal(res.body, &receipt); err != nil {
		return receipt, fmt.Errorf("read the answer to an event of type %s: %w (is this a Posthaste server?)", event.Type, err)
	}
	if receipt.ID == "" { // somebody else's 200: nothing says that the event is stored
		return receipt, fmt.Errorf("read the answer to an event of type %s: it has no id (is this a Posthaste server?)", event.Type)
	}
	return receipt, nil
}

func (event NewEvent) header() http.Header {
	h := http.Header{}
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	h.Set("Posthaste-Event-Type", event.Type)
	set("Content-Type", event.ContentType)
	set("Content-Encoding", event.ContentEncoding)
	set("Idempotency-Key", event.IdempotencyKey)
	set("Posthaste-Order-Key", event.OrderKey)
	set("Traceparent", event.Traceparent)
	for _, id := range event.EndpointIDs {
		h.Add("Posthaste-Endpoint", id)
	}
	for name, value := range event.Forward {
		h.Add("Posthaste-Forward-"+name, value)
	}
	return h
}

// Get returns an event.
func (e *Events) Get(ctx context.Context, id string) (Event, error) {
	return doJSON[Event](ctx, e.c, call{method: http.MethodGet, path: at("events", id)}, nil)
}

// Payload returns the bytes of an event as they were accepted.
func (e *Events) Payload(ctx context.Context, id string) ([]byte, error) {
	res, err := e.c.do(ctx, call{method: http.MethodGet, path: at("events", id, "payload")})
	return res.body, err
}

// List returns a page of events, newest first.
func (e *Events) List(ctx context.Context, filter EventFilter) (Page[Event], error) {
	return list[Event](ctx, e.c, at("events"), filter.query())
}

// All yields events, newest first, page by page.
func (e *Events) All(ctx context.Context, filter EventFilter) iter.Seq2[Event, error] {
	return all[Event](ctx, e.c, at("events"), filter.query())
}

// Resend makes a new delivery of an event at an endpoint, with the same
// webhook-id, also where an earlier one was delivered.
func (e *Events) Resend(ctx context.Context, id, endpointID string) (Delivery, error) {
	in := map[string]string{"endpoint_id": endpointID}
	return doJSON[Delivery](ctx, e.c, call{method: http.MethodPost, path: at("events", id, "resend")}, in)
}
