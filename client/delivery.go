package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Deliveries looks at deliveries and brings dead ones back.
type Deliveries struct{ c *Client }

// Delivery is one event at one endpoint.
type Delivery struct {
	ID            string    `json:"id"`
	EventID       string    `json:"event_id"`
	EndpointID    string    `json:"endpoint_id"`
	Type          string    `json:"type"`
	Status        string    `json:"status"` // pending, delivering, delivered, dead
	AttemptCount  int       `json:"attempt_count"`
	CreatedAt     time.Time `json:"created_at"`
	RunAt         time.Time `json:"run_at"`     // when the present run began
	ExpiresAt     time.Time `json:"expires_at"` // when the present run ends
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	HeldBy        string    `json:"held_by,omitempty"` // what holds its endpoint: paused, disabled, breaker, retry_after
	FinishedAt    time.Time `json:"finished_at,omitzero"`
	Reason        string    `json:"reason,omitempty"` // why it is dead
	LastError     string    `json:"last_error,omitempty"`
	Tenant        string    `json:"tenant,omitempty"`   // only where all tenants are read
	Attempts      []Attempt `json:"attempts,omitempty"` // in the answer to Get only
}

// Attempt is one try of a delivery.
type Attempt struct {
	Number          int                `json:"number"`
	StartedAt       time.Time          `json:"started_at"`
	DurationMS      float64            `json:"duration_ms"`
	Outcome         string             `json:"outcome"` // delivered, transient, permanent, lost
	Late            bool               `json:"late"`
	SentTwice       bool               `json:"sent_twice"` // the request was sent again, over a new connection
	Cause           string             `json:"cause,omitempty"`
	StatusCode      int                `json:"status_code,omitempty"`
	Error           string             `json:"error,omitempty"`
	URL             string             `json:"url"`
	Replica         string             `json:"replica"`
	TimingsMS       TimingsMS          `json:"timings_ms"`
	RequestHeaders  []posthaste.Header `json:"request_headers"`
	ResponseHeaders []posthaste.Header `json:"response_headers"`
	ResponseBody    string             `json:"response_body,omitempty"` // the first 16 KiB

	// ResponseBodyEncoding is "base64" where the body is not UTF-8, else "text",
	// and "" where there was no response.
	ResponseBodyEncoding string `json:"response_body_encoding,omitempty"`
}

// TimingsMS are the parts of an attempt's duration, in milliseconds.
type TimingsMS struct {
	DNS       float64 `json:"dns"`
	Connect   float64 `json:"connect"`
	TLS       float64 `json:"tls"`
	FirstByte float64 `json:"first_byte"`
	Total     float64 `json:"total"`
}

// DeliveryFilter chooses deliveries. The zero value chooses all.
type DeliveryFilter struct {
	Paging
	Status, EndpointID, EventID, Type string
	Since, Until                      time.Time // of the event's acceptance, in [Since, Until)
}

func (f DeliveryFilter) query() url.Values {
	q := url.Values{}
	f.set(q)
	setText(q, "status", f.Status)
	setText(q, "endpoint_id", f.EndpointID)
	setText(q, "event_id", f.EventID)
	setText(q, "type", f.Type)
	setTime(q, "since", f.Since)
	setTime(q, "until", f.Until)
	return q
}

// Get returns a delivery with its attempts.
func (d *Deliveries) Get(ctx context.Context, id string) (Delivery, error) {
	return doJSON[Delivery](ctx, d.c, call{method: http.MethodGet, path: at("deliveries", id)}, nil)
}

// List returns a page of deliveries, newest first, without attempts.
func (d *Deliveries) List(ctx context.Context, filter DeliveryFilter) (Page[Delivery], error) {
	return list[Delivery](ctx, d.c, at("deliveries"), filter.query())
}

// All yields deliveries, newest first, page by page.
func (d *Deliveries) All(ctx context.Context, filter DeliveryFilter) iter.Seq2[Delivery, error] {
	return all[Delivery](ctx, d.c, at("deliveries"), filter.query())
}

// Skip ends a pending delivery unsent. An *[Error] with the code
// [posthaste.CodeNotPending] says that it is not pending any more.
func (d *Deliveries) Skip(ctx context.Context, id string) error {
	_, err := d.c.do(ctx, call{method: http.MethodPost, path: at("deliveries", id, "skip")})
	return err
}

// Replay starts a new run of a dead delivery. An *[Error] with the code
// [posthaste.CodeNotDead] says that it is not dead, or that somebody else's
// replay came first; other codes are [posthaste.CodeEndpointDeleted] and
// [posthaste.CodeExpiredEvent].
func (d *Deliveries) Replay(ctx context.Context, id string) error {
	_, err := d.c.do(ctx, call{method: http.MethodPost, path: at("deliveries", id, "replay")})
	return err
}
