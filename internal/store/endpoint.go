package store

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Endpoints are where events go, of one tenant or of EveryTenant. Each change raises the routing version of the
// tenant, stamps the endpoint with it, and keeps the definition as a version. A new
// version is at least the database's clock in microseconds, so that versions that a
// failover lost are not given again.
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
	// Routing returns a page of a tenant's endpoints and the mark of its routing, read
	// in one snapshot. From a zero Since it returns the living endpoints by number,
	// else those that changed after Since, deleted ones included, in the order of
	// their changes. A whole load is consistent when it is followed by the changes
	// since the mark of its first page. Deleted tenants are known too; ErrNotFound
	// without the tenant.
	Routing(ctx context.Context, p RoutingParams) (Routing, error)
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

// RoutingMark names a state of a tenant's routing by the change that led to it, so
// that a database that was rewound is told apart from one that has moved on.
type RoutingMark struct {
	Version         int64
	Endpoint        EndpointNo // an endpoint that the change stamped; 0: none that is known
	EndpointVersion int        // its version then
}

// RoutingCursor is a place between two pages of Routing. The zero value is the start.
type RoutingCursor struct {
	Version  int64
	Endpoint EndpointNo
}

// RoutingParams are Routing's.
type RoutingParams struct {
	Tenant TenantNo
	Since  RoutingMark
	After  RoutingCursor // Next of the page before
	Limit  int           // endpoints
}

// Routing is a page of a tenant's endpoints.
type Routing struct {
	Mark      RoutingMark
	Name      string    // of the tenant: after a rewind a number may be another tenant's
	DeletedAt time.Time // of the tenant; zero while it lives
	Endpoints []EndpointRow
	Next      RoutingCursor // where the next page begins; zero after the last one

	// Unknown says that the database never had the state Since, or lost it in a
	// rewind. There are no endpoints then: only a load of all of them helps.
	Unknown bool
}
