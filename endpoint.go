package posthaste

import (
	"slices"
	"time"
)

// Endpoint is where events of a tenant go: a URL, or a Go function in-process,
// with its subscription, its secrets and its delivery policy.
type Endpoint struct {
	ID      ID
	Version int // rises with every change; attempts name the version they used
	Definition
	UID            string            // its owner's own id for it, unique among the tenant's living ones; "" for none
	Metadata       map[string]string // its owner's own words on it; Posthaste reads none of them
	Paused         bool
	Disabled       bool
	DisabledReason string // "" unless disabled
	CreatedAt      time.Time
	UpdatedAt      time.Time
	DeletedAt      time.Time // zero unless deleted; a tombstone stays while history names it
}

// Definition is the part of an endpoint that its owner writes. Its JSON form is
// what the API takes and gives, and what is stored for each version.
type Definition struct {
	URL         string            `json:"url" doc:"Where events are POSTed: https, without credentials in it. func:NAME is a handler, which a program that embeds the engine makes"`
	Description string            `json:"description" doc:"Free text, 1,024 bytes at most"`
	EventTypes  []string          `json:"event_types" doc:"Patterns: an exact type, a prefix such as invoice.*, or *. Of sources of Meta, * and meta.* bring each message twice: as meta.message, and inside of the request meta.webhook"`
	Sources     []string          `json:"sources" doc:"Only events that came in there: ids of sources, or api; empty: wherever they came in"`
	Headers     map[string]string `json:"headers" doc:"Sent with every delivery, and shown to everybody who reads the endpoint: credentials belong into secret_headers"`
	// SecretHeaders are sent as Headers are. Values come in as they are to be sent; from
	// the pipeline on each is the text of a [SealedHeader].
	SecretHeaders map[string]string `json:"secret_headers,omitempty" doc:"Sent with every delivery, such as Authorization. Write-only: sealed at rest, and never shown again"`
	Signature     Signature         `json:"signature"`
	Retry         RetryPolicy       `json:"retry"`
	MaxInFlight   int               `json:"max_in_flight" doc:"Attempts under way at once at most, over all replicas and one at least in each, 1 to 1000. How many there are adapts to the receiver"`
	RateLimit     *RateLimit        `json:"rate_limit" null:"off" doc:"Attempts a second, over all replicas; null: no limit"`
	Ordered       Ordering          `json:"ordered" doc:"\"endpoint\": one delivery at a time, in the order in which the events were accepted; false: as many at once as max_in_flight"`
	Breaker       *Breaker          `json:"breaker" null:"off" doc:"Stops attempts at an endpoint that fails; null: never"`
}

// Signature says how deliveries are signed.
type Signature struct {
	Scheme  string           `json:"scheme" enum:"standard,hex" doc:"standard: Standard Webhooks v1; hex: sha256=HEX over timestamp.body in headers of your own"`
	Headers SignatureHeaders `json:"headers" doc:"Names of the headers, for scheme hex only"`
}

// SignatureHeaders names the headers of scheme hex. An empty name means that
// the header is not sent; Timestamp and Signature are required.
type SignatureHeaders struct {
	ID         string `json:"id,omitempty"`
	DeliveryID string `json:"delivery_id,omitempty"`
	Timestamp  string `json:"timestamp,omitempty"`
	Event      string `json:"event,omitempty"`
	Signature  string `json:"signature,omitempty"`
}

// The signature schemes.
const (
	SchemeStandard = "standard"
	SchemeHex      = "hex"
)

// RetryPolicy says when a delivery is tried again and when it is given up.
type RetryPolicy struct {
	Schedule  []Duration `json:"schedule" doc:"Waits after the first, second, … failure; after the last one the delivery is dead"`
	Jitter    float64    `json:"jitter" doc:"Each wait is spread by ± this share, 0 to 1"`
	Timeout   Duration   `json:"timeout" doc:"For one attempt: connect, headers and body together"`
	Deadline  Duration   `json:"deadline" doc:"A delivery that is still pending this long after its run began is dead"`
	Transient []string   `json:"transient" doc:"Statuses worth a retry: numbers, or classes such as 5xx"`
	RPS       *float64   `json:"rps" null:"off" doc:"Retries a second, over all replicas, 0.001 to 100000; null: no limit of their own"`
}

// DefaultDefinition returns the definition that the fields of a request are laid over.
func DefaultDefinition() Definition {
	breaker := DefaultBreaker()
	return Definition{
		EventTypes: []string{"*"},
		Sources:    []string{},
		Headers:    map[string]string{},
		Signature:  Signature{Scheme: SchemeStandard},
		Retry: RetryPolicy{
			Schedule: durations(5*time.Second, 5*time.Minute, 30*time.Minute, 2*time.Hour, 5*time.Hour,
				10*time.Hour, 14*time.Hour, 20*time.Hour, 24*time.Hour),
			Jitter:    0.2,
			Timeout:   Duration(15 * time.Second),
			Deadline:  Duration(96 * time.Hour),
			Transient: []string{"3xx", "408", "425", "429", "5xx"},
		},
		MaxInFlight: 256,
		Breaker:     &breaker,
	}
}

func durations(list ...time.Duration) (out []Duration) {
	for _, d := range list {
		out = append(out, Duration(d))
	}
	return out
}

// Matches reports whether the endpoint subscribes to events of the given type
// from the given source.
func (d Definition) Matches(eventType, source string) bool {
	return (len(d.Sources) == 0 || slices.Contains(d.Sources, source)) &&
		slices.ContainsFunc(d.EventTypes, func(p string) bool { return MatchType(p, eventType) })
}
