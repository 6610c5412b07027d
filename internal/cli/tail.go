package cli

import (
	"context"
	"fmt"

	"github.com/posthaste-dev/posthaste/client"
)

type tailCommand struct {
	remote
	Types  []string `placeholder:"NAME,…" help:"Changes to print: event.accepted, delivery.delivered, delivery.dead, endpoint.gate. Default: all."`
	LastID string   `name:"last-id" placeholder:"ID" help:"Resume after this id, which --json prints, up to 24 hours back."`
}

// Run prints changes until ctx ends. A lost connection is made again.
func (c *tailCommand) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	// Once it has begun it comes back through every outage; a wrong address should be told at once.
	if err := api.Ready(ctx); err != nil {
		return err
	}
	for change, err := range api.Stream(ctx, client.StreamOptions{Names: c.Types, LastID: c.LastID}) {
		if ctx.Err() != nil {
			return nil // told to stop: the usual end
		}
		if err != nil {
			return err
		}
		if err := c.printer(s).object(change, func() error { return printChange(s, change) }); err != nil {
			return err
		}
	}
	return nil
}

func printChange(s Streams, c client.Change) error {
	if c.Name == client.StreamReset {
		_, err := fmt.Fprintln(s.Stderr, "posthaste: some changes may be missing: the last id is too old or unknown")
		return err
	}
	id := c.DeliveryID
	if id == "" {
		id = c.EventID
	}
	if id == "" {
		id = c.EndpointID
	}
	tenant := ""
	if c.Tenant != "default" {
		tenant = "  " + c.Tenant
	}
	detail := printable(c.Type)
	if len(c.Gate) > 0 {
		detail = printable(string(c.Gate))
	}
	_, err := fmt.Fprintf(s.Stdout, "%s  %-18s  %s  %s%s\n", c.At.UTC().Format(clock), printable(c.Name), printable(id), detail, printable(tenant))
	return err
}
