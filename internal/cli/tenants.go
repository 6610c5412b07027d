package cli

import (
	"context"

	"github.com/posthaste-dev/posthaste/client"
)

type tenantsCommand struct {
	List   tenantsList   `cmd:"" help:"List tenants, newest first."`
	Create tenantsCreate `cmd:"" help:"Make a tenant."`
}

type tenantsList struct {
	remote
	listing
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
		head: []string{"NAME", "CREATED"},
		row:  func(t client.Tenant) []string { return []string{t.Name, showTime(t.CreatedAt)} },
		none: "no tenants",
	}
	return t.print(c.printer(s), api.Tenants.All(ctx, paging), c.Limit)
}

type tenantsCreate struct {
	remote
	Name string `arg:"" help:"Name of the tenant."`
}

// Run makes a tenant.
func (c *tenantsCreate) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	t, err := api.Tenants.Create(ctx, c.Name)
	if err != nil {
		return err
	}
	return c.printer(s).object(t, func() error {
		return fields(s.Stdout, "name", t.Name, "created", showTime(t.CreatedAt))
	})
}
