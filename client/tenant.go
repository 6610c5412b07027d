package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Tenants manages the operator's customers. It needs an admin key. A name in a call
// is a tenant's name, or "uid:" and the operator's own id for it.
type Tenants struct {
	c       *Client
	ifMatch string // header If-Match of all requests; "" for none
}

// IfVersion returns the same, with changes that are made only if the tenant is at
// this version; see [Endpoints.IfVersion].
func (t *Tenants) IfVersion(version int) *Tenants {
	return &Tenants{c: t.c, ifMatch: strconv.Quote(strconv.Itoa(version))}
}

// call prepares a request to one tenant.
func (t *Tenants) call(method, name string) call {
	q := call{method: method, path: at("tenants", name), header: http.Header{}}
	if t.ifMatch != "" {
		q.header.Set("If-Match", t.ifMatch)
	}
	return q
}

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
	return doJSON[Tenant](ctx, t.c, t.call(http.MethodPut, posthaste.UIDPrefix+uid), tenant)
}

// Get returns a tenant. One that was deleted can be read by its name.
func (t *Tenants) Get(ctx context.Context, name string) (Tenant, error) {
	return doJSON[Tenant](ctx, t.c, t.call(http.MethodGet, name), nil)
}

// Update changes the uid and the metadata as patch says: a JSON Merge Patch (RFC 7396).
func (t *Tenants) Update(ctx context.Context, name string, patch map[string]any) (Tenant, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return Tenant{}, err
	}
	q := t.call(http.MethodPatch, name)
	q.body = body
	q.header.Set("Content-Type", "application/merge-patch+json")
	return doJSON[Tenant](ctx, t.c, q, nil)
}

// Delete removes a tenant; its history can still be read.
func (t *Tenants) Delete(ctx context.Context, name string) error {
	_, err := t.c.do(ctx, t.call(http.MethodDelete, name))
	return err
}

// TenantFilter chooses tenants. The zero value chooses all that live.
type TenantFilter struct {
	Paging
	Deleted bool // deleted ones too
}

func (f TenantFilter) query() url.Values {
	q := url.Values{}
	f.set(q)
	if f.Deleted {
		q.Set("deleted", "true")
	}
	return q
}

// List returns a page of tenants, newest first.
func (t *Tenants) List(ctx context.Context, filter TenantFilter) (Page[Tenant], error) {
	return list[Tenant](ctx, t.c, at("tenants"), filter.query())
}

// All yields tenants, newest first, page by page.
func (t *Tenants) All(ctx context.Context, filter TenantFilter) iter.Seq2[Tenant, error] {
	return all[Tenant](ctx, t.c, at("tenants"), filter.query())
}
