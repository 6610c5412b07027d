package store

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// MaxExamined is how many rows a list page looks at before it ends early.
const MaxExamined = 10_000

// Reading serves the API's looks at what happened. It never locks.
type Reading interface {
	// Event returns an event with its payload, or ErrNotFound.
	Event(ctx context.Context, tenant TenantNo, id posthaste.ID) (posthaste.Event, error)
	// ListEvents returns a page of events without payloads, newest first.
	ListEvents(ctx context.Context, p ListEventsParams) (EventPage, error)
	// Delivery returns a delivery, or ErrNotFound. Tenant 0 asks all tenants.
	Delivery(ctx context.Context, tenant TenantNo, id posthaste.ID) (DeliveryRow, error)
	// ListDeliveries returns a page of deliveries, newest first. Of all tenants
	// it walks the deliveries themselves, unless an event or an endpoint is named.
	ListDeliveries(ctx context.Context, p ListDeliveriesParams) (DeliveryPage, error)
	// Attempts returns the recorded attempts of a delivery by number.
	Attempts(ctx context.Context, delivery posthaste.ID) ([]posthaste.Attempt, error)
}

// ListEventsParams are ListEvents'. Empty filters do not filter.
type ListEventsParams struct {
	Tenant         TenantNo
	Type           string
	Source         string
	IdempotencyKey string
	Parent         posthaste.ID
	Since, Until   time.Time    // acceptance in [Since, Until)
	Before         posthaste.ID // the cursor: ids below it; zero: from the newest
	Limit          int
}

// EventPage is a page of events.
type EventPage struct {
	Events []EventRow
	Next   posthaste.ID // the next page's Before; zero at the end
}

// EventRow is a listed event: without payload, with its size.
type EventRow struct {
	posthaste.Event
	PayloadBytes int
}

// ListDeliveriesParams are ListDeliveries'. Status is pending (not leased),
// delivering, delivered, dead or "".
type ListDeliveriesParams struct {
	Tenant       TenantNo // 0: all
	Status       string
	Endpoint     EndpointNo // 0: all
	Event        posthaste.ID
	Type         string
	Since, Until time.Time // of the event's acceptance
	Before       posthaste.ID
	Limit        int
}

// DeliveryPage is a page of deliveries.
type DeliveryPage struct {
	Deliveries []DeliveryRow
	Next       posthaste.ID
}

// DeliveryRow is a stored delivery. LastError is of the highest attempt.
type DeliveryRow struct {
	posthaste.Delivery
	Tenant    TenantNo
	Endpoint  EndpointNo
	LastError string
}
