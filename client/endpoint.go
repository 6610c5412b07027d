package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Endpoints manages where events go.
type Endpoints struct{ c *Client }

// NewEndpoint is an endpoint to create. Only URL is required; what is left out
// takes the server's default.
type NewEndpoint struct {
	URL         string               `json:"url"`
	Description string               `json:"description,omitempty"`
	EventTypes  []string             `json:"event_types,omitempty"` // default: ["*"]
	Enabled     *bool                `json:"enabled,omitempty"`     // default: true
	Headers     map[string]string    `json:"headers,omitempty"`     // sent with every delivery
	Secret      string               `json:"secret,omitempty"`      // default: made by the server, in the answer
	Signature   *posthaste.Signature `json:"signature,omitempty"`
	Retry       *Retry               `json:"retry,omitempty"`
	MaxInFlight int                  `json:"max_in_flight,omitempty"`
}

// Retry is the part of a retry policy that differs from the server's default.
type Retry struct {
	Schedule  []posthaste.Duration `json:"schedule,omitempty"`
	Jitter    *float64             `json:"jitter,omitempty"`
	Timeout   posthaste.Duration   `json:"timeout,omitzero"`
	Deadline  posthaste.Duration   `json:"deadline,omitzero"`
	Transient []string             `json:"transient,omitempty"`
}

// Endpoint is an endpoint as the server knows it.
type Endpoint struct {
	ID string `json:"id"`
	posthaste.Definition
	Enabled   bool      `json:"enabled"`
	Secret    string    `json:"secret,omitempty"` // only in the answer to Create
	Gate      Gate      `json:"gate"`
	Version   int       `json:"version"` // rises with every change
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Gate says whether an endpoint may be attempted now.
type Gate struct {
	State               string    `json:"state"` // closed (all is well), open, half_open, paused, disabled
	Reason              string    `json:"reason"`
	Until               time.Time `json:"until,omitzero"`
	ConsecutiveFailures int       `json:"consecutive_failures"`
}

// Create makes an endpoint. Its Secret is in the answer this once.
func (e *Endpoints) Create(ctx context.Context, endpoint NewEndpoint) (Endpoint, error) {
	return doJSON[Endpoint](ctx, e.c, call{method: http.MethodPost, path: at("endpoints")}, endpoint)
}

// Get returns an endpoint.
func (e *Endpoints) Get(ctx context.Context, id string) (Endpoint, error) {
	return doJSON[Endpoint](ctx, e.c, call{method: http.MethodGet, path: at("endpoints", id)}, nil)
}

// List returns a page of endpoints, newest first.
func (e *Endpoints) List(ctx context.Context, paging Paging) (Page[Endpoint], error) {
	return list[Endpoint](ctx, e.c, at("endpoints"), paging.query())
}

// All yields endpoints, newest first, page by page.
func (e *Endpoints) All(ctx context.Context, paging Paging) iter.Seq2[Endpoint, error] {
	return all[Endpoint](ctx, e.c, at("endpoints"), paging.query())
}

func (p Paging) query() url.Values {
	q := url.Values{}
	p.set(q)
	return q
}

// Update changes the fields that patch names: a JSON Merge Patch (RFC 7396), in
// which null sets a field back to its default.
//
//	c.Endpoints.Update(ctx, id, map[string]any{"description": "billing", "retry": map[string]any{"timeout": "5s"}})
func (e *Endpoints) Update(ctx context.Context, id string, patch map[string]any) (Endpoint, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return Endpoint{}, err
	}
	q := call{method: http.MethodPatch, path: at("endpoints", id), body: body}
	q.header = http.Header{"Content-Type": {"application/merge-patch+json"}}
	return doJSON[Endpoint](ctx, e.c, q, nil)
}

// Delete removes an endpoint. Its waiting deliveries end dead; history stays readable.
func (e *Endpoints) Delete(ctx context.Context, id string) error {
	_, err := e.c.do(ctx, call{method: http.MethodDelete, path: at("endpoints", id)})
	return err
}

// Pause stops attempts; deliveries are still made and wait.
func (e *Endpoints) Pause(ctx context.Context, id string) (Endpoint, error) {
	return doJSON[Endpoint](ctx, e.c, call{method: http.MethodPost, path: at("endpoints", id, "pause")}, nil)
}

// Resume ends a pause.
func (e *Endpoints) Resume(ctx context.Context, id string) (Endpoint, error) {
	return doJSON[Endpoint](ctx, e.c, call{method: http.MethodPost, path: at("endpoints", id, "resume")}, nil)
}

// TestEvent is what Test sends. Zero fields take the server's defaults.
type TestEvent struct {
	Type    string          `json:"type,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// Test sends an event to this endpoint only, whatever it subscribes to.
func (e *Endpoints) Test(ctx context.Context, id string, event TestEvent) (Receipt, error) {
	return doJSON[Receipt](ctx, e.c, call{method: http.MethodPost, path: at("endpoints", id, "test")}, event)
}
