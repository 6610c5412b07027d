package store

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Tenants own endpoints and events. "default", "operator" and EveryTenant exist
// from the first migration.
type Tenants interface {
	// CreateTenant makes a tenant (Version 1) of a name, uid, metadata and
	// CreatedAt. ErrConflict if the name is taken, by a deleted one too; ErrTaken
	// if a living one has the uid.
	CreateTenant(ctx context.Context, t posthaste.Tenant) (TenantRow, error)
	// UpdateTenant replaces uid and metadata of a tenant that is at FromVersion;
	// its version rises by one. ErrNotFound, also for a deleted one; ErrConflict
	// at another version; ErrTaken.
	UpdateTenant(ctx context.Context, p UpdateTenantParams) (TenantRow, error)
	// DeleteTenant makes a tenant and each of its endpoints tombstones, in one
	// transaction, and raises the routing version: from then on nothing is accepted
	// for it and no endpoint is made. ErrNotFound if there is none that lives;
	// ErrConflict if it is not at FromVersion (0: any).
	DeleteTenant(ctx context.Context, p DeleteTenantParams) error
	// Tenant returns a tenant by name, a deleted one too, or ErrNotFound.
	Tenant(ctx context.Context, name string) (TenantRow, error)
	// TenantByUID returns the living tenant that has a uid, or ErrNotFound.
	TenantByUID(ctx context.Context, uid string) (TenantRow, error)
	// TenantByNo returns a tenant by its number, a deleted one too, or ErrNotFound.
	TenantByNo(ctx context.Context, no TenantNo) (TenantRow, error)
	// ListTenants returns tenants newest first, those with a number below Before (0: all), Limit at most.
	// EveryTenant is not among them.
	ListTenants(ctx context.Context, p ListTenantsParams) ([]TenantRow, error)
}

// TenantRow is a stored tenant.
type TenantRow struct {
	No             TenantNo
	RoutingVersion int64
	posthaste.Tenant
}

// UpdateTenantParams are UpdateTenant's.
type UpdateTenantParams struct {
	No          TenantNo
	FromVersion int
	UID         string
	Metadata    map[string]string
	Now         time.Time
}

// DeleteTenantParams are DeleteTenant's.
type DeleteTenantParams struct {
	No          TenantNo
	FromVersion int // 0: whatever it is
	Now         time.Time
}

// ListTenantsParams are ListTenants'.
type ListTenantsParams struct {
	Before  TenantNo
	Deleted bool // deleted ones too
	Limit   int
}
