package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Endpoints manages where events go. An id is one that the server gave, or "uid:"
// and the caller's own.
type Endpoints struct {
	c       *Client
	ifMatch string // header If-Match of all requests; "" for none
}

// NewEndpoint is an endpoint to create. Only URL is required; what is left out
// takes the server's default.
type NewEndpoint struct {
	URL         string            `json:"url"`
	UID         string            `json:"uid,omitempty"`      // the caller's own id, unique among the tenant's endpoints
	Metadata    map[string]string `json:"metadata,omitempty"` // the caller's own words
	Description string            `json:"description,omitempty"`
	EventTypes  []string          `json:"event_types,omitempty"` // default: ["*"]
	Sources     []string          `json:"sources,omitempty"`     // ids of sources, or "api". Default: wherever events came in
	Enabled     *bool             `json:"enabled,omitempty"`     // default: true
	Headers     map[string]string `json:"headers,omitempty"`     // sent with every delivery
	// SecretHeaders are sent with every delivery and never shown again.
	SecretHeaders map[string]string    `json:"secret_headers,omitempty"`
	Secret        string               `json:"secret,omitempty"` // default: made by the server, in the answer
	Signature     *posthaste.Signature `json:"signature,omitempty"`
	Retry         *Retry               `json:"retry,omitempty"`
	MaxInFlight   int                  `json:"max_in_flight,omitempty"` // attempts under way at once
	RateLimit     *posthaste.RateLimit `json:"rate_limit,omitempty"`    // default: no limit
	Ordered       posthaste.Ordering   `json:"ordered,omitempty"`       // default: Unordered
	Breaker       *Breaker             `json:"breaker,omitempty"`       // default: the server's; &Breaker{Off: true}: none
}

// Breaker is the part of a circuit breaker that differs from the server's default.
type Breaker struct {
	Off       bool // none at all: the endpoint is attempted however often it fails
	Threshold int  // transient failures in a row that open it
	Reset     posthaste.Duration
	ResetMax  posthaste.Duration
}

// MarshalJSON writes null for a breaker that is off.
func (b Breaker) MarshalJSON() ([]byte, error) {
	if b.Off {
		return []byte("null"), nil
	}
	return json.Marshal(struct {
		Threshold int                `json:"threshold,omitempty"`
		Reset     posthaste.Duration `json:"reset,omitzero"`
		ResetMax  posthaste.Duration `json:"reset_max,omitzero"`
	}{b.Threshold, b.Reset, b.ResetMax})
}

// Retry is the part of a retry policy that differs from the server's default.
type Retry struct {
	Schedule  []posthaste.Duration `json:"schedule,omitempty"`
	Jitter    *float64             `json:"jitter,omitempty"`
	Timeout   posthaste.Duration   `json:"timeout,omitzero"`
	Deadline  posthaste.Duration   `json:"deadline,omitzero"`
	Transient []string             `json:"transient,omitempty"`
	RPS       *float64             `json:"rps,omitempty"` // retries a second. Default: no limit of their own
}

// Endpoint is an endpoint as the server knows it.
type Endpoint struct {
	ID string `json:"id"`
	posthaste.Definition
	SecretHeaders map[string]SecretHeader `json:"secret_headers"`

	UID       string            `json:"uid"`
	Metadata  map[string]string `json:"metadata"`
	Enabled   bool              `json:"enabled"`
	Secret    string            `json:"secret,omitempty"` // only in the answer that made it
	Secrets   []SigningSecret   `json:"signing_secrets"`  // the newest first
	Gate      Gate              `json:"gate"`
	Version   int               `json:"version"`          // rises with every change
	Tenant    string            `json:"tenant,omitempty"` // only where all tenants are read
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
	DeletedAt time.Time         `json:"deleted_at,omitzero"`
}

// SecretHeader stands for the value of a header that the server never shows.
type SecretHeader struct {
	Set         bool   `json:"set"`
	Fingerprint string `json:"fingerprint"` // the same for the same value
}

// SigningSecret is a secret that deliveries are signed with, without the secret.
type SigningSecret struct {
	Number    int       `json:"number"`              // 1, 2, 3 … within the endpoint
	ExpiresAt time.Time `json:"expires_at,omitzero"` // from then on it signs no more; zero: it does not expire
}

// Gate says whether an endpoint may be attempted now.
type Gate struct {
	State               string    `json:"state"`                // one of the states below
	Reason              string    `json:"reason"`               // "" where there is nothing to say
	Until               time.Time `json:"until,omitzero"`       // when the next attempt may be made, where it has to wait
	ConsecutiveFailures int       `json:"consecutive_failures"` // transient ones, as far as the breaker counts them
}

// The states of a gate.
const (
	GateClosed   = "closed"    // attempts flow, as current does through a closed breaker; with Until, the endpoint asked for a rest
	GateOpen     = "open"      // the breaker stops attempts
	GateHalfOpen = "half_open" // one attempt is made, and decides
	GatePaused   = "paused"    // deliveries wait
	GateDisabled = "disabled"  // no new deliveries are made
)

// IfVersion returns the same, with changes that are made only if the endpoint is
// at this version; else they fail with [posthaste.CodePreconditionFailed]. So what
// was read can be changed without undoing what somebody else changed meanwhile.
func (e *Endpoints) IfVersion(version int) *Endpoints {
	return &Endpoints{c: e.c, ifMatch: strconv.Quote(strconv.Itoa(version))}
}

// call prepares a request to an endpoint, or to the list of them.
func (e *Endpoints) call(method string, path ...string) call {
	q := call{method: method, path: at(append([]string{"endpoints"}, path...)...), header: http.Header{}}
	if e.ifMatch != "" {
		q.header.Set("If-Match", e.ifMatch)
	}
	return q
}

// Create makes an endpoint. Its Secret is in the answer this once.
func (e *Endpoints) Create(ctx context.Context, endpoint NewEndpoint) (Endpoint, error) {
	return doJSON[Endpoint](ctx, e.c, e.call(http.MethodPost), endpoint)
}

// Put makes the endpoint of a uid, or replaces it: the same call again changes
// nothing. What is left out is set back to its default, but for Enabled, and for the
// secret, which only RotateSecret replaces. A Secret is in the answer if the endpoint
// was made.
func (e *Endpoints) Put(ctx context.Context, uid string, endpoint NewEndpoint) (Endpoint, error) {
	if uid == "" {
		return Endpoint{}, errors.New("put an endpoint: the uid is missing")
	}
	return doJSON[Endpoint](ctx, e.c, e.call(http.MethodPut, posthaste.UIDPrefix+uid), endpoint)
}

// Get returns an endpoint. One that was deleted can be read by its id.
func (e *Endpoints) Get(ctx context.Context, id string) (Endpoint, error) {
	return doJSON[Endpoint](ctx, e.c, e.call(http.MethodGet, id), nil)
}

// EndpointFilter chooses endpoints. The zero value chooses all that live.
type EndpointFilter struct {
	Paging
	Deleted bool // deleted ones too
}

func (f EndpointFilter) query() url.Values {
	q := url.Values{}
	f.set(q)
	if f.Deleted {
		q.Set("deleted", "true")
	}
	return q
}

// List returns a page of endpoints, newest first.
func (e *Endpoints) List(ctx context.Context, filter EndpointFilter) (Page[Endpoint], error) {
	return list[Endpoint](ctx, e.c, at("endpoints"), filter.query())
}

// All yields endpoints, newest first, page by page.
func (e *Endpoints) All(ctx context.Context, filter EndpointFilter) iter.Seq2[Endpoint, error] {
	return all[Endpoint](ctx, e.c, at("endpoints"), filter.query())
}

// Update changes the fields that patch names: a JSON Merge Patch (RFC 7396), in
// which null sets a field back to its default, and turns rate_limit, breaker and
// retry.rps off.
//
//	c.Endpoints.Update(ctx, id, map[string]any{"description": "billing", "retry": map[string]any{"timeout": "5s"}})
func (e *Endpoints) Update(ctx context.Context, id string, patch map[string]any) (Endpoint, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return Endpoint{}, err
	}
	q := e.call(http.MethodPatch, id)
	q.body = body
	q.header.Set("Content-Type", "application/merge-patch+json")
	return doJSON[Endpoint](ctx, e.c, q, nil)
}

// Delete removes an endpoint. Its waiting deliveries end dead; history stays readable.
func (e *Endpoints) Delete(ctx context.Context, id string) error {
	_, err := e.c.do(ctx, e.call(http.MethodDelete, id))
	return err
}

// Pause stops attempts; deliveries are still made and wait.
func (e *Endpoints) Pause(ctx context.Context, id string) (Endpoint, error) {
	return doJSON[Endpoint](ctx, e.c, e.call(http.MethodPost, id, "pause"), nil)
}

// Resume ends a pause.
func (e *Endpoints) Resume(ctx context.Context, id string) (Endpoint, error) {
	return doJSON[Endpoint](ctx, e.c, e.call(http.MethodPost, id, "resume"), nil)
}

// TestEvent is what Test sends. Zero fields take the server's defaults.
type TestEvent struct {
	Type    string          `json:"type,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// Test sends an event to this endpoint only, whatever it subscribes to.
func (e *Endpoints) Test(ctx context.Context, id string, event TestEvent) (Receipt, error) {
	return doJSON[Receipt](ctx, e.c, e.call(http.MethodPost, id, "test"), event)
}

// Rotation replaces a secret. Zero fields take the server's defaults.
type Rotation struct {
	Secret  string              `json:"secret,omitempty"`  // default: made by the server, in the answer
	Overlap *posthaste.Duration `json:"overlap,omitempty"` // how long the present one goes on signing. Default: 24h
}

// RotateSecret gives an endpoint another secret, which is in the answer this once.
// The present one goes on signing beside it until the overlap ends.
func (e *Endpoints) RotateSecret(ctx context.Context, id string, rotation Rotation) (Endpoint, error) {
	return doJSON[Endpoint](ctx, e.c, e.call(http.MethodPost, id, "rotate-secret"), rotation)
}
