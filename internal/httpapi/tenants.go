package httpapi

import (
	"encoding/binary"
	"errors"
	"net/http"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

type tenantBody struct {
	Name      string `json:"name"`
	CreatedAt moment `json:"created_at"`
}

type tenantRequest struct {
	Name string `json:"name" doc:"1 to 64 of a-z A-Z 0-9 . _ -, beginning with a letter or a digit"`
}

func showTenant(row store.TenantRow) tenantBody {
	return tenantBody{Name: row.Name, CreatedAt: moment(row.CreatedAt)}
}

// laterOnTenant are the fields of the contract that are not built yet.
var laterOnTenant = map[string]laterField{
	"uid":      {[]string{`""`}, "leave it out, and choose a name of your own"},
	"metadata": {[]string{"{}"}, "leave it out"},
	"limits":   {[]string{"{}"}, "leave it out: a tenant has no limits"},
}

// createTenant is the only way to a new tenant: one that is merely named in a
// request is not made by it.
func (a *api) createTenant(c *call) error {
	var in tenantRequest
	if err := a.readJSON(c, &in, &tenantRequest{}, laterOnTenant); err != nil {
		return err
	}
	if err := posthaste.Invalid(posthaste.ValidateTenantName(in.Name)); err != nil {
		return err
	}
	row, err := a.Pipeline.CreateTenant(c.r.Context(), in.Name)
	if errors.Is(err, store.ErrConflict) {
		return &posthaste.Error{Code: posthaste.CodeConflict, Message: "there is a tenant of that name", Hint: "choose another name", Err: err}
	}
	if err != nil {
		return err
	}
	c.Header().Set("Location", "/v1/tenants/"+row.Name)
	c.write(http.StatusCreated, showTenant(row))
	return nil
}

func (a *api) readTenant(c *call) error {
	if err := newQuery(c).err(); err != nil {
		return err
	}
	name := c.r.PathValue("name")
	if len(posthaste.ValidateTenantName(name)) > 0 {
		return notFound("tenant")
	}
	row, err := a.Pipeline.Tenant(c.r.Context(), name)
	if errors.Is(err, store.ErrNotFound) {
		return notFound("tenant")
	}
	if err != nil {
		return err
	}
	c.write(http.StatusOK, showTenant(row))
	return nil
}

func (a *api) listTenants(c *call) error {
	q := newQuery(c, "limit", "cursor")
	// A tenant's cursor holds its number where others hold an id.
	cursor := q.cursor(tenantList)
	p := store.ListTenantsParams{Before: store.TenantNo(binary.BigEndian.Uint32(cursor[12:])), Limit: q.limit()} //nolint:gosec // checked below
	if p.Before < 0 {
		q.report("cursor", "is not a cursor of this list", `take it from "next" of the page before`)
	}
	if err := q.err(); err != nil {
		return err
	}
	rows, err := a.store.ListTenants(c.r.Context(), p)
	if err != nil {
		return err
	}
	var next posthaste.ID
	if len(rows) == p.Limit {
		binary.BigEndian.PutUint32(next[12:], uint32(rows[len(rows)-1].No)) //nolint:gosec // numbers are above zero
	}
	c.write(http.StatusOK, newPage(rows, showTenant, printCursor(tenantList, next)))
	return nil
}
