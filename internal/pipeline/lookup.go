package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// What a tenant sees of endpoints: its own, and those of every tenant, since its
// deliveries name them. Which of the two it is says EndpointRow.Tenant.

// Endpoint returns an endpoint that events of the tenant can be for, a deleted one
// too, or [store.ErrNotFound]. Tenant 0 asks all tenants.
func (p *Pipeline) Endpoint(ctx context.Context, tenant store.TenantNo, id posthaste.ID) (store.EndpointRow, error) {
	row, err := p.store.Endpoint(ctx, tenant, id)
	if tenant != 0 && errors.Is(err, store.ErrNotFound) {
		return p.store.Endpoint(ctx, store.EveryTenant, id)
	}
	return row, err
}

// EndpointByUID is Endpoint by the endpoint's uid, for living ones.
func (p *Pipeline) EndpointByUID(ctx context.Context, tenant store.TenantNo, uid string) (store.EndpointRow, error) {
	row, err := p.store.EndpointByUID(ctx, tenant, uid)
	if errors.Is(err, store.ErrNotFound) {
		return p.store.EndpointByUID(ctx, store.EveryTenant, uid)
	}
	return row, err
}

// ListEndpoints returns a page of endpoints that events of the tenant can be for.
func (p *Pipeline) ListEndpoints(ctx context.Context, params store.ListEndpointsParams) ([]store.EndpointRow, error) {
	rows, err := p.store.ListEndpoints(ctx, params)
	if err != nil || params.Tenant == 0 {
		return rows, err
	}
	params.Tenant = store.EveryTenant
	every, err := p.store.ListEndpoints(ctx, params)
	if err != nil || len(every) == 0 {
		return rows, err
	}
	rows = append(rows, every...)
	slices.SortFunc(rows, func(a, b store.EndpointRow) int { return b.ID.Compare(a.ID) })
	return rows[:min(len(rows), params.Limit)], nil
}
