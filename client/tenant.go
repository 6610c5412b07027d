package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Tenants manages the operator's customers. It needs an admin key. A name in a call
// is a tenant's name, or "uid:" and the operator's own id for it.
type Tenants struct{ c *Client }

// Tenant owns endpoints and events.
type Tenant struct {
	Name      string            `json:"name"`
	UID       string            `json:"uid"`
	Metadata  map[string]string `json:"metadata"`
	Version   int               `json:"version"` // rises with every change
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
	DeletedAt time.Time         `json:"deleted_at,omitzero"`
}

// NewTenant is a tenant to create. Only Name is required.
type NewTenant struct {
	Name     string            `json:"name,omitempty"`     // never changes, and is never given to another
	UID      string            `json:"uid,omitempty"`      // the operator's own id, unique among tenants
	Metadata map[string]string `json:"metadata,omitempty"` // the operator's own words
}

// Create makes a tenant.
func (t *Tenants) Create(ctx context.Context, tenant NewTenant) (Tenant, error) {
	return doJSON[Tenant](ctx, t.c, call{method: http.MethodPost, path: at("tenants")}, tenant)
}

// Put makes the tenant of a uid, or replaces what of it can change: the same call
// again changes nothing.
func (t *Tenants) Put(ctx context.Context, uid string, tenant NewTenant) (Tenant, error) {
	if uid == "" {
		return Tenant{}, errors.New("put a tenant: the uid is missing")
	}
	return doJSON[Tenant](ctx, t.c, call{method: http.MethodPut, path: at("tenants", posthaste.UIDPrefix+uid)}, tenant)
}

// Get returns a tenant. One that was deleted can be read by its name.
func (t *Tenants) Get(ctx context.Context, name string) (Tenant, error) {
	return doJSON[Tenant](ctx, t.c, call{method: http.MethodGet, path: at("tenants", name)}, nil)
}

// Delete removes a tenant; its history can still be read.
func (t *Tenants) Delete(ctx context.Context, name string) error {
	_, err := t.c.do(ctx, call{method: http.MethodDelete, path: at("tenants", name)})
	return err
}

// List returns a page of tenants, newest first.
func (t *Tenants) List(ctx context.Context, paging Paging) (Page[Tenant], error) {
	return list[Tenant](ctx, t.c, at("tenants"), paging.query())
}

// All yields tenants, newest first, page by page.
func (t *Tenants) All(ctx context.Context, paging Paging) iter.Seq2[Tenant, error] {
	return all[Tenant](ctx, t.c, at("tenants"), paging.query())
}
