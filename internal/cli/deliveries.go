package cli

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/posthaste-dev/posthaste/client"
)

type deliveriesCommand struct {
	List   deliveriesList   `cmd:"" help:"List deliveries, newest first."`
	Get    deliveriesGet    `cmd:"" help:"Show a delivery with its attempts."`
	Replay deliveriesReplay `cmd:"" help:"Bring dead deliveries back."`
}

type deliveriesList struct {
	remote
	listing
	Status   string `placeholder:"STATUS" help:"Only pending, delivering, delivered or dead ones."`
	Endpoint string `placeholder:"ID" help:"Only to this endpoint."`
	Event    string `placeholder:"ID" help:"Only of this event."`
	Type     string `placeholder:"TYPE" help:"Only of events of this type."`
}

// Run lists deliveries.
func (c *deliveriesList) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	paging, err := c.paging()
	if err != nil {
		return err
	}
	t := table[client.Delivery]{
		head: []string{"ID", "STATUS", "ATTEMPTS", "TYPE", "ENDPOINT", "ACCEPTED", "NOTE"},
		row: func(d client.Delivery) []string {
			return []string{d.ID, d.Status, strconv.Itoa(d.AttemptCount), d.Type, d.EndpointID, showTime(d.CreatedAt), note(d)}
		},
		none: "no deliveries",
	}
	filter := client.DeliveryFilter{Paging: paging, Status: c.Status, EndpointID: c.Endpoint, EventID: c.Event, Type: c.Type}
	return t.print(s, c.JSON, api.Deliveries.All(ctx, filter), c.Limit)
}

// note says the one thing that is worth knowing about a delivery.
func note(d client.Delivery) string {
	text := d.LastError
	switch {
	case d.Reason != "" && text != "":
		text = d.Reason + ": " + text
	case d.Reason != "":
		text = d.Reason
	case !d.NextAttemptAt.IsZero():
		text = "next " + showTime(d.NextAttemptAt) + "  " + text
	}
	return shorten(text, 80)
}

type deliveriesGet struct {
	remote
	ID string `arg:"" help:"Id of the delivery."`
}

// Run shows a delivery.
func (c *deliveriesGet) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	d, err := api.Deliveries.Get(ctx, c.ID)
	if err != nil {
		return err
	}
	return printDelivery(s, c.JSON, d)
}

func printDelivery(s Streams, asJSON bool, d client.Delivery) error {
	if asJSON {
		return printJSON(s.Stdout, d)
	}
	err := fields(s.Stdout,
		"id", d.ID, "status", d.Status, "reason", d.Reason, "type", d.Type, "event", d.EventID, "endpoint", d.EndpointID,
		"accepted", showTime(d.CreatedAt), "run began", showTime(d.RunAt), "next attempt", showTime(d.NextAttemptAt),
		"finished", showTime(d.FinishedAt), "last error", d.LastError)
	if err != nil || len(d.Attempts) == 0 {
		return err
	}
	tw := tabwriter.NewWriter(s.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "\nATTEMPT\tSTARTED\tTOOK\tOUTCOME\tSTATUS\tERROR")
	for _, a := range d.Attempts {
		outcome := a.Outcome
		if a.Late {
			outcome += " (late)"
		}
		status := ""
		if a.StatusCode != 0 {
			status = strconv.Itoa(a.StatusCode)
		}
		_, _ = fmt.Fprintf(tw, "%d\t%s\t%.0f ms\t%s\t%s\t%s\n",
			a.Number, showTime(a.StartedAt), a.DurationMS, outcome, status, shorten(a.Error, 80))
	}
	return tw.Flush()
}

type deliveriesReplay struct {
	remote
	IDs []string `arg:"" name:"id" help:"Ids of dead deliveries."`
}

// Run replays deliveries one by one and stops at the first that cannot be.
func (c *deliveriesReplay) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	for _, id := range c.IDs {
		if err := api.Deliveries.Replay(ctx, id); err != nil {
			return fmt.Errorf("replay %s: %w", id, err)
		}
		if c.JSON {
			err = printJSON(s.Stdout, map[string]string{"id": id, "status": "pending"})
		} else {
			_, err = fmt.Fprintf(s.Stdout, "%s  pending\n", id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
