package store

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Tenants own endpoints and events. "default" and "operator" exist from the
// first migration.
type Tenants interface {
	// CreateTenant makes a tenant. ErrConflict if the name is taken.
	CreateTenant(ctx context.Context, name string, now time.Time) (TenantRow, error)
	// Tenant returns a tenant by name, or ErrNotFound.
	Tenant(ctx context.Context, name string) (TenantRow, error)
	// ListTenants returns tenants newest first, those with a number below Before (0: all), Limit at most.
	ListTenants(ctx context.Context, p ListTenantsParams) ([]TenantRow, error)
}

// TenantRow is a stored tenant.
type TenantRow struct {
	No             TenantNo
	RoutingVersion int64
	posthaste.Tenant
}

// ListTenantsParams are ListTenants'.
type ListTenantsParams struct {
	Before TenantNo
	Limit  int
}
