package store

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Acceptance is the way in.
type Acceptance interface {
	// Accept stores a batch of events with their deliveries, durably: when it
	// returns without an error, the commit is on disk. All or nothing, except
	// that events whose idempotency key or id is already stored are left out and
	// answered with what is stored.
	//
	// It writes nothing and returns ErrFenced when the epoch has no fresh busy
	// row or one of the ids is below its low-water mark, or Accepted.Stale when the routing
	// of a tenant is at another version than the one that the batch was matched against,
	// later or earlier. A missing partition is
	// made on the way.
	//
	// Deliveries of ordered endpoints take positions in the order of the commits, in a
	// batch in that of the ids.
	//
	// It writes nothing and returns ErrParentKept where an event would be stored whose
	// Parent is an event of the batch that is left out, since its key is taken: the
	// batch does not know the id of the one that stands for it.
	//
	// After ErrUnavailable the same batch may be run again, by the same or a new
	// epoch: an event that the first run stored comes back with Stored false and
	// its own id, and with its living leases in Mine.
	Accept(ctx context.Context, p AcceptParams) (Accepted, error)

	// EventOfKey returns the stored event that an idempotency key stands for, or
	// ErrNotFound. It is a look and decides nothing: Accept does.
	EventOfKey(ctx context.Context, p KeyParams) (KeptEvent, error)
}

// ErrParentKept says that another event stands for the parent of an event.
var ErrParentKept = errors.New("another event stands for the parent")

// AcceptParams are Accept's. The caller sorts Events by (Tenant, Key), so that
// two replicas take the locks of overlapping keys in one order and never wait for
// each other in a circle.
type AcceptParams struct {
	Epoch   Epoch
	Now     time.Time
	Routing []TenantVersion // one for each tenant in Events, and of EveryTenant
	Events  []NewEvent
}

// NewEvent is an event on its way in.
type NewEvent struct {
	posthaste.Event
	Tenant     TenantNo
	Namespace  int16 // of the idempotency key: the API's, a source's, an outbox's
	Key        Hash  // of an IdempotencyKey the hash, of an outbox's row its random id; zero: none
	Sum        Hash  // hash of type and payload
	Deliveries []NewDelivery
}

// NewDelivery is a delivery of a new event; its number is its place, from 1.
type NewDelivery struct {
	Endpoint  EndpointNo
	Leased    bool      // born leased by the batch's epoch with number 1; else born due
	DueAt     time.Time // when it is due, if not born leased
	Ordered   bool      // its due_at is to be the endpoint's next position; DueAt does not count, and Leased is false
	ExpiresAt time.Time
}

// Accepted is the answer to a batch.
type Accepted struct {
	Stale  []TenantVersion // the current versions of tenants that moved on; nothing was written
	Events []AcceptedEvent // parallel to the batch
}

// AcceptedEvent is the answer to one event.
type AcceptedEvent struct {
	Stored bool         // this call stored it
	ID     posthaste.ID // the id that it is stored under: its own, or the earlier one's with its key
	FanOut int
	Sum    Hash
	// Mine are the living leases of a delivery of this event by the batch's
	// epoch, filled only where a re-run finds the event stored under its own id.
	Mine []Lease
}

// HasKey reports whether the event may be one that is stored already.
func (e *NewEvent) HasKey() bool { return e.Key != Hash{} }

// The namespaces of idempotency keys. Their numbers are stored; never renumber.
const (
	NamespaceAPI     int16 = 1
	NamespaceSource  int16 = 2 // keys hold the source's id, so that no two sources share one
	NamespaceOutbox  int16 = 3 // keys are the random uuids of the rows
	NamespaceHandler int16 = 4 // what a handler sends while it works on a delivery
)

// KeyParams name an idempotency key.
type KeyParams struct {
	Tenant    TenantNo
	Namespace int16
	Key       Hash
}

// KeptEvent is the event that stands for an idempotency key.
type KeptEvent struct {
	ID            posthaste.ID
	CorrelationID posthaste.ID
	FanOut        int
	Sum           Hash
}
