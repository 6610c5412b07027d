package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste/client"
)

type endpointsCommand struct {
	List   endpointsList   `cmd:"" help:"List endpoints, newest first."`
	Get    endpointsGet    `cmd:"" help:"Show an endpoint."`
	Create endpointsCreate `cmd:"" help:"Create an endpoint and print its secret. The secret is not shown again."`
	Put    endpointsPut    `cmd:"" help:"Create or replace the endpoint with a uid. Repeating the command changes nothing."`
	Update endpointsUpdate `cmd:"" help:"Update an endpoint. Settings without a flag stay."`
	Delete endpointsDelete `cmd:"" help:"Delete an endpoint. Its waiting deliveries end dead."`
	Pause  endpointsPause  `cmd:"" help:"Pause an endpoint. Its deliveries wait."`
	Resume endpointsResume `cmd:"" help:"Resume a paused endpoint."`
	Test   endpointsTest   `cmd:"" help:"Send a test event to an endpoint, whatever it subscribes to."`

	RotateSecret endpointsRotate `cmd:"" help:"Rotate an endpoint's secret and print the new one. It is not shown again."`
}

type endpointsList struct {
	remote
	listing
	Deleted bool `help:"Include deleted endpoints."`
}

// Run lists endpoints.
func (c *endpointsList) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	paging, err := c.paging()
	if err != nil {
		return err
	}
	t := table[client.Endpoint]{
		head: []string{"ID", "UID", "GATE", "TYPES", "URL", "DESCRIPTION"},
		row: func(e client.Endpoint) []string {
			return []string{e.ID, orDash(e.UID), gateWord(e.Gate), strings.Join(e.EventTypes, ","), printable(e.URL), shorten(e.Description, 40)}
		},
		none: "no endpoints",
	}
	if c.Tenant == allTenants {
		t = withTenant(t, func(e client.Endpoint) string { return e.Tenant })
	}
	return t.print(c.printer(s), api.Endpoints.All(ctx, client.EndpointFilter{Paging: paging, Deleted: c.Deleted}), c.Limit)
}

type endpointsGet struct {
	remote
	ID string `arg:"" help:"Endpoint id, or uid:ID with your own id."`
}

// Run shows an endpoint.
func (c *endpointsGet) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	e, err := api.Endpoints.Get(ctx, c.ID)
	if err != nil {
		return err
	}
	return printEndpoint(c.printer(s), e)
}

func printEndpoint(p printer, e client.Endpoint) error {
	return p.object(e, func() error {
		schedule := make([]string, 0, len(e.Retry.Schedule))
		for _, step := range e.Retry.Schedule {
			schedule = append(schedule, step.String())
		}
		return fields(p.Stdout,
			"id", e.ID, "uid", e.UID, "metadata", showMetadata(e.Metadata), "tenant", e.Tenant, "url", e.URL, "description", e.Description, "event types", strings.Join(e.EventTypes, ", "), "sources", strings.Join(e.Sources, ", "),
			"gate", showGate(e.Gate), "secret", e.Secret, "signing secrets", showSecrets(e.Secrets), "signature", e.Signature.Scheme, "max in flight", strconv.Itoa(e.MaxInFlight),
			"rate limit", showRateLimit(e.RateLimit), "order", showOrder(e.Ordered), "breaker", showBreaker(e.Breaker),
			"retries after", strings.Join(schedule, ", "), "retries a second", showRetryRate(e.Retry.RPS), "timeout", e.Retry.Timeout.String(), "deadline", e.Retry.Deadline.String(),
			"created", showTime(e.CreatedAt), "updated", showTime(e.UpdatedAt), "deleted", showTime(e.DeletedAt))
	})
}

// showSecrets names the secrets that sign, where a rotation is under way.
func showSecrets(secrets []client.SigningSecret) string {
	if len(secrets) < 2 {
		return ""
	}
	var all []string
	for _, s := range secrets {
		one := "number " + strconv.Itoa(s.Number)
		if !s.ExpiresAt.IsZero() {
			one += " until " + showTime(s.ExpiresAt)
		}
		all = append(all, one)
	}
	return strings.Join(all, ", ")
}

type endpointsCreate struct {
	remote
	label
	written
	limits
	URL string `arg:"" help:"URL that events are sent to."`
}

// written are the flags for what is written of a new endpoint.
type written struct {
	Types       []string `placeholder:"PATTERN" help:"Event types: exact, a prefix such as invoice.*, or *. Default: *."`
	Sources     []string `placeholder:"ID" help:"Origins of events: ids of sources, or api. Default: all."`
	Description string   `placeholder:"TEXT" help:"Description."`
	Secret      string   `env:"POSTHASTE_NEW_SECRET" placeholder:"whsec_…" help:"Signing secret. Default: generated."`
}

// Run makes an endpoint.
func (c *endpointsCreate) Run(ctx context.Context, s Streams) error {
	endpoint := client.NewEndpoint{
		URL: c.URL, UID: c.UID, Metadata: c.Metadata, EventTypes: c.Types, Sources: c.Sources, Description: c.Description, Secret: c.Secret,
	}
	if err := c.limits.apply(&endpoint); err != nil {
		return err
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	e, err := api.Endpoints.Create(ctx, endpoint)
	if err != nil {
		return err
	}
	return printEndpoint(c.printer(s), e)
}

type endpointsDelete struct {
	remote
	ID string `arg:"" help:"Endpoint id, or uid:ID with your own id."`
}

// Run deletes an endpoint.
func (c *endpointsDelete) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	if err := api.Endpoints.Delete(ctx, c.ID); err != nil {
		return err
	}
	return c.printer(s).object(map[string]any{"id": c.ID, "deleted": true}, func() error {
		_, err := fmt.Fprintf(s.Stdout, "%s  deleted\n", c.ID)
		return err
	})
}
