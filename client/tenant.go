package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Tenants manages the operator's customers. It needs an admin key.
type Tenants struct{ c *Client }

// Tenant owns endpoints and events.
type Tenant struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// Create makes a tenant.
func (t *Tenants) Create(ctx context.Context, name string) (Tenant, error) {
	return doJSON[Tenant](ctx, t.c, call{method: http.MethodPost, path: at("tenants")}, map[string]string{"name": name})
}

// List returns a page of tenants, newest first.
func (t *Tenants) List(ctx context.Context, paging Paging) (Page[Tenant], error) {
	return list[Tenant](ctx, t.c, at("tenants"), paging.query())
}

// All yields tenants, newest first, page by page.
func (t *Tenants) All(ctx context.Context, paging Paging) iter.Seq2[Tenant, error] {
	return all[Tenant](ctx, t.c, at("tenants"), paging.query())
}
