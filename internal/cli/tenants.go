package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/client"
)

type tenantsCommand struct {
	List   tenantsList   `cmd:"" help:"List tenants, newest first."`
	Get    tenantsGet    `cmd:"" help:"Show a tenant."`
	Create tenantsCreate `cmd:"" help:"Create a tenant."`
	Put    tenantsPut    `cmd:"" help:"Create the tenant with a uid, or replace its metadata. Repeating the command changes nothing."`
	Update tenantsUpdate `cmd:"" help:"Update a tenant. Settings without a flag stay."`
	Delete tenantsDelete `cmd:"" help:"Delete a tenant. Its history stays readable."`
}

type tenantsList struct {
	remote
	listing
	Deleted bool `help:"Include deleted endpoints."`
}

// Run lists tenants.
func (c *tenantsList) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	paging, err := c.paging()
	if err != nil {
		return err
	}
	t := table[client.Tenant]{
		head: []string{"NAME", "UID", "CREATED"},
		row:  func(t client.Tenant) []string { return []string{t.Name, orDash(t.UID), showTime(t.CreatedAt)} },
		none: "no tenants",
	}
	return t.print(c.printer(s), api.Tenants.All(ctx, client.TenantFilter{Paging: paging, Deleted: c.Deleted}), c.Limit)
}

type tenantsGet struct {
	remote
	Name string `arg:"" help:"Name of the tenant, or uid: and your own id for it."`
}

// Run shows a tenant.
func (c *tenantsGet) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	t, err := api.Tenants.Get(ctx, c.Name)
	if err != nil {
		return err
	}
	return printTenant(c.printer(s), t)
}

func printTenant(p printer, t client.Tenant) error {
	return p.object(t, func() error {
		return fields(p.Stdout, "name", t.Name, "uid", t.UID, "metadata", showMetadata(t.Metadata),
			"created", showTime(t.CreatedAt), "updated", showTime(t.UpdatedAt), "deleted", showTime(t.DeletedAt))
	})
}

type tenantsCreate struct {
	remote
	label
	Name string `arg:"" help:"Name of the tenant."`
}

// Run makes a tenant.
func (c *tenantsCreate) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	t, err := api.Tenants.Create(ctx, client.NewTenant{Name: c.Name, UID: c.UID, Metadata: c.Metadata})
	if err != nil {
		return err
	}
	return printTenant(c.printer(s), t)
}

type tenantsPut struct {
	remote
	UID      string            `arg:"" name:"uid" help:"Your own id for the tenant."`
	Name     string            `arg:"" optional:"" help:"Name of the tenant; needed to make it."`
	Metadata map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Metadata; may be repeated."`
}

// Run makes or replaces a tenant.
func (c *tenantsPut) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	uid := strings.TrimPrefix(c.UID, posthaste.UIDPrefix)
	t, err := api.Tenants.Put(ctx, uid, client.NewTenant{Name: c.Name, Metadata: c.Metadata})
	if err != nil {
		return err
	}
	return printTenant(c.printer(s), t)
}

type tenantsUpdate struct {
	remote
	Name     string            `arg:"" help:"Name of the tenant, or uid: and your own id for it."`
	UID      *string           `name:"uid" placeholder:"ID" help:"Your own id for it; empty for none."`
	Metadata map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"One of your own words on it; can be given again."`
	Patch    string            `placeholder:"@FILE|-|JSON" help:"JSON Merge Patch with any fields, such as {\"metadata\":{\"plan\":null}}; null takes out."`
}

// Run changes a tenant.
func (c *tenantsUpdate) Run(ctx context.Context, s Streams) error {
	patch, err := readPatch(c.Patch, s)
	if err != nil {
		return err
	}
	if c.UID != nil {
		patch["uid"] = *c.UID
	}
	if c.Metadata != nil {
		if err := lay(patch, "metadata", c.Metadata); err != nil {
			return err
		}
	}
	if len(patch) == 0 {
		return usageError{"nothing is to be changed: name a field, or give a --patch"}
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	t, err := api.Tenants.Update(ctx, c.Name, patch)
	if err != nil {
		return err
	}
	return printTenant(c.printer(s), t)
}

type tenantsDelete struct {
	remote
	Name string `arg:"" help:"Name of the tenant, or uid: and your own id for it."`
}

// Run deletes a tenant.
func (c *tenantsDelete) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	if err := api.Tenants.Delete(ctx, c.Name); err != nil {
		return err
	}
	return c.printer(s).object(map[string]any{"name": c.Name, "deleted": true}, func() error {
		_, err := fmt.Fprintf(s.Stdout, "%s  deleted\n", printable(c.Name))
		return err
	})
}
