package store

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Repair brings deliveries back.
type Repair interface {
	// Replay starts a new run of a dead delivery: pending, due now, failures 0,
	// attempt numbers going on. Exactly one of several concurrent calls wins.
	// Errors: ErrNotFound; *posthaste.Error with CodeNotDead, CodeEndpointDeleted or
	// CodeExpiredEvent (at or below the horizon).
	Replay(ctx context.Context, p ReplayParams) error

	// Resend makes a further delivery of an event at an endpoint, born due, with
	// the highest number of the event plus one. The endpoint is the tenant's or
	// EveryTenant's. Errors as for Replay.
	Resend(ctx context.Context, p ResendParams) (posthaste.ID, error)
}

// ReplayParams are Replay's. ExpiresAt is the end of the new run.
type ReplayParams struct {
	Tenant    TenantNo
	Delivery  posthaste.ID
	Now       time.Time
	ExpiresAt time.Time
	Ordered   bool // its endpoint is ordered: it goes to the end
}

// ResendParams are Resend's.
type ResendParams struct {
	Tenant    TenantNo
	Event     posthaste.ID
	Endpoint  EndpointNo
	Now       time.Time
	ExpiresAt time.Time
	Ordered   bool // as in ReplayParams
}
