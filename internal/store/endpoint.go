package store

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Endpoints are where events go, of one tenant or of EveryTenant. Each change raises the routing version of the
// tenant, stamps the endpoint with it, and keeps the definition as a version.
type Endpoints interface {
	Secrets

	// CreateEndpoint stores an endpoint (Version 1) with its sealed secrets.
	// ErrTaken if a living one of the tenant has its uid; ErrNotFound if the tenant
	// is deleted.
	CreateEndpoint(ctx context.Context, p CreateEndpointParams) (EndpointRow, error)
	// UpdateEndpoint replaces definition, uid, metadata, pause and disablement of
	// an endpoint that is at FromVersion; its version rises by one. ErrNotFound,
	// also for a deleted one; ErrConflict at another version; ErrTaken.
	UpdateEndpoint(ctx context.Context, p UpdateEndpointParams) (EndpointRow, error)
	// DeleteEndpoint makes an endpoint a tombstone; its uid is free again. Its
	// version rises by one, which has no definition of its own.
	// ErrNotFound if there is none; ErrConflict if it is not at FromVersion (0: any).
	DeleteEndpoint(ctx context.Context, p DeleteEndpointParams) error
	// Endpoint returns an endpoint, a deleted one too, or ErrNotFound. Tenant 0 asks all tenants.
	Endpoint(ctx context.Context, tenant TenantNo, id posthaste.ID) (EndpointRow, error)
	// EndpointByUID returns the living endpoint of a tenant that has a uid, or ErrNotFound.
	EndpointByUID(ctx context.Context, tenant TenantNo, uid string) (EndpointRow, error)
	// EndpointByNo returns an endpoint by its number, a deleted one too, or ErrNotFound.
	// As in Routing, what of it can't be read is no error: it is Unusable.
	EndpointByNo(ctx context.Context, no EndpointNo) (EndpointRow, error)
	// ListEndpoints returns endpoints, newest first, below Before (zero: all).
	ListEndpoints(ctx context.Context, p ListEndpointsParams) ([]EndpointRow, error)
	// Routing returns the routing version of a tenant and its endpoints that
	// changed after Since, deleted ones included, read in one snapshot. It knows
	// deleted tenants too.
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

	// Unusable says why what is stored of it can't be read, such as a definition that
	// another version of the program wrote: Definition and Metadata are empty then. Nil
	// as a rule, and wherever one such endpoint must not stand in the way of the others the
	// only way to learn of it.
	Unusable error
}

// CreateEndpointParams are CreateEndpoint's.
type CreateEndpointParams struct {
	Tenant   TenantNo
	Endpoint posthaste.Endpoint // ID, Definition, UID, Metadata, Paused, Disabled, CreatedAt
	Secrets  []SealedSecret
}

// UpdateEndpointParams are UpdateEndpoint's.
type UpdateEndpointParams struct {
	Tenant      TenantNo
	Endpoint    posthaste.Endpoint // ID, Definition, UID, Metadata, Paused, Disabled, DisabledReason, UpdatedAt
	FromVersion int
}

// DeleteEndpointParams are DeleteEndpoint's.
type DeleteEndpointParams struct {
	Tenant      TenantNo
	ID          posthaste.ID
	FromVersion int // 0: whatever it is
	Now         time.Time
}

// ListEndpointsParams are ListEndpoints'.
type ListEndpointsParams struct {
	Tenant  TenantNo // 0: all
	Before  posthaste.ID
	Deleted bool // deleted ones too
	Limit   int
}

// Routing is what of a tenant's endpoints changed.
type Routing struct {
	Version   int64
	DeletedAt time.Time // of the tenant; zero while it lives
	Endpoints []EndpointRow
}
