package cli

import (
	"context"
	"strconv"

	"github.com/posthaste-dev/posthaste/client"
)

type eventsCommand struct {
	List   eventsList   `cmd:"" help:"List events, newest first."`
	Get    eventsGet    `cmd:"" help:"Show an event, or its payload."`
	Resend eventsResend `cmd:"" help:"Resend an event to an endpoint."`
}

type eventsList struct {
	remote
	listing
	window
	Type   string `placeholder:"TYPE" help:"Filter by event type."`
	Source string `placeholder:"SOURCE" help:"Filter by source: id, or api."`
	Key    string `placeholder:"KEY" help:"Filter by idempotency key."`
	Parent string `placeholder:"ID" help:"Filter by parent event id."`
}

// Run lists events.
func (c *eventsList) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	paging, err := c.paging()
	if err != nil {
		return err
	}
	since, until, err := c.times()
	if err != nil {
		return err
	}
	t := table[client.Event]{
		head: []string{"ID", "TYPE", "DELIVERIES", "BYTES", "ACCEPTED"},
		row: func(e client.Event) []string {
			return []string{e.ID, e.Type, strconv.Itoa(e.Deliveries), strconv.Itoa(e.PayloadBytes), showTime(e.CreatedAt)}
		},
		none: "no events",
	}
	filter := client.EventFilter{
		Paging: paging, Type: c.Type, Source: c.Source, IdempotencyKey: c.Key, Parent: c.Parent, Since: since, Until: until,
	}
	return t.print(c.printer(s), api.Events.All(ctx, filter), c.Limit)
}

type eventsGet struct {
	remote
	ID      string `arg:"" help:"Id of the event."`
	Payload bool   `help:"Print the payload only."`
}

// Run shows an event.
func (c *eventsGet) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	if c.Payload {
		payload, err := api.Events.Payload(ctx, c.ID)
		if err != nil {
			return err
		}
		_, err = s.Stdout.Write(payload)
		return err
	}
	e, err := api.Events.Get(ctx, c.ID)
	if err != nil {
		return err
	}
	return c.printer(s).object(e, func() error {
		return fields(s.Stdout,
			"id", e.ID, "type", e.Type, "source", e.Source, "accepted", showTime(e.CreatedAt),
			"deliveries", strconv.Itoa(e.Deliveries), "content type", e.ContentType, "content encoding", e.ContentEncoding,
			"payload", strconv.Itoa(e.PayloadBytes)+" bytes", "idempotency key", e.IdempotencyKey,
			"order key", e.OrderKey, "parent", e.Parent, "traceparent", e.Traceparent)
	})
}

type eventsResend struct {
	remote
	ID       string `arg:"" help:"Id of the event."`
	Endpoint string `arg:"" help:"Endpoint id, or uid:ID with your own id."`
}

// Run makes a new delivery of an event.
func (c *eventsResend) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	d, err := api.Events.Resend(ctx, c.ID, c.Endpoint)
	if err != nil {
		return err
	}
	return printDelivery(c.printer(s), d)
}
