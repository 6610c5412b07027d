package store

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Endpoints are where events go. Each change raises the routing version of the
// tenant, stamps the endpoint with it, and keeps the definition as a version.
type Endpoints interface {
	// CreateEndpoint stores an endpoint (Version 1) with its sealed secrets.
	CreateEndpoint(ctx context.Context, p CreateEndpointParams) (EndpointRow, error)
	// UpdateEndpoint replaces definition, pause and disablement of an endpoint
	// that is at FromVersion; its version rises by one. ErrNotFound, also for a
	// deleted one; ErrConflict at another version.
	UpdateEndpoint(ctx context.Context, p UpdateEndpointParams) (EndpointRow, error)
	// DeleteEndpoint makes an endpoint a tombstone. ErrNotFound if there is none.
	DeleteEndpoint(ctx context.Context, tenant TenantNo, id posthaste.ID, now time.Time) error
	// Endpoint returns an endpoint, a deleted one too, or ErrNotFound.
	Endpoint(ctx context.Context, tenant TenantNo, id posthaste.ID) (EndpointRow, error)
	// EndpointByNo returns an endpoint by its number, a deleted one too, or ErrNotFound.
	EndpointByNo(ctx context.Context, no EndpointNo) (EndpointRow, error)
	// ListEndpoints returns endpoints that are not deleted, newest first, below Before (zero: all).
	ListEndpoints(ctx context.Context, p ListEndpointsParams) ([]EndpointRow, error)
	// Routing returns the routing version of a tenant and its endpoints that
	// changed after Since, deleted ones included, read in one snapshot.
	Routing(ctx context.Context, tenant TenantNo, since int64) (Routing, error)
	// Definition returns an endpoint's definition as it was at a version, or ErrNotFound.
	Definition(ctx context.Context, endpoint EndpointNo, version int) (posthaste.Definition, error)
}

// EndpointRow is a stored endpoint.
type EndpointRow struct {
	No     EndpointNo
	Tenant TenantNo
	posthaste.Endpoint
	Secrets []SealedSecret // by number, lowest first
}

// SealedSecret is a signing secret as it rests in the database.
type SealedSecret struct {
	No        int // 1, 2, 3 … within the endpoint
	Sealed    []byte
	KeyID     string    // names the master key that sealed it
	ExpiresAt time.Time // zero: it does not
}

// CreateEndpointParams are CreateEndpoint's.
type CreateEndpointParams struct {
	Tenant   TenantNo
	Endpoint posthaste.Endpoint // ID, Definition, Paused, Disabled, CreatedAt
	Secrets  []SealedSecret
}

// UpdateEndpointParams are UpdateEndpoint's.
type UpdateEndpointParams struct {
	Tenant      TenantNo
	Endpoint    posthaste.Endpoint // ID, Definition, Paused, Disabled, DisabledReason, UpdatedAt
	FromVersion int
}

// ListEndpointsParams are ListEndpoints'.
type ListEndpointsParams struct {
	Tenant TenantNo
	Before posthaste.ID
	Limit  int
}

// Routing is what of a tenant's endpoints changed.
type Routing struct {
	Version   int64
	Endpoints []EndpointRow
}
