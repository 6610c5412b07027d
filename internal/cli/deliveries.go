package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste/client"
)

type deliveriesCommand struct {
	List   deliveriesList   `cmd:"" help:"List deliveries, newest first."`
	Get    deliveriesGet    `cmd:"" help:"Show a delivery with its attempts."`
	Replay deliveriesReplay `cmd:"" help:"Replay dead deliveries."`
	Skip   deliveriesSkip   `cmd:"" help:"End pending deliveries without sending them."`
}

type deliveriesList struct {
	remote
	listing
	window
	Status   string `placeholder:"pending|delivering|delivered|dead" help:"Filter by status."`
	Endpoint string `placeholder:"ID" help:"Filter by endpoint: id, or uid:ID with your own id."`
	Event    string `placeholder:"ID" help:"Filter by event id."`
	Type     string `placeholder:"TYPE" help:"Filter by event type."`
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
	since, until, err := c.times()
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
	if c.Tenant == allTenants {
		t = withTenant(t, func(d client.Delivery) string { return d.Tenant })
	}
	filter := client.DeliveryFilter{
		Paging: paging, Status: c.Status, EndpointID: c.Endpoint, EventID: c.Event, Type: c.Type, Since: since, Until: until,
	}
	return t.print(c.printer(s), api.Deliveries.All(ctx, filter), c.Limit)
}

// note says the one thing that is worth knowing about a delivery.
func note(d client.Delivery) string {
	text := d.LastError
	switch {
	case d.Reason != "" && text != "":
		text = d.Reason + ": " + text
	case d.Reason != "":
		text = d.Reason
	case d.HeldBy != "" && !d.NextAttemptAt.IsZero():
		text = "held by " + d.HeldBy + " until " + showTime(d.NextAttemptAt) + "  " + text
	case d.HeldBy != "":
		text = d.HeldBy + "  " + text
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
	return printDelivery(c.printer(s), d)
}

func printDelivery(p printer, d client.Delivery) error {
	return p.object(d, func() error {
		err := fields(p.Stdout,
			"id", d.ID, "status", d.Status, "reason", d.Reason, "type", d.Type, "event", d.EventID, "endpoint", d.EndpointID,
			"accepted", showTime(d.CreatedAt), "run began", showTime(d.RunAt), "next attempt", showTime(d.NextAttemptAt),
			"finished", showTime(d.FinishedAt), "last error", d.LastError)
		if err != nil || len(d.Attempts) == 0 {
			return err
		}
		rows := [][]string{{}, {"ATTEMPT", "STARTED", "TOOK", "OUTCOME", "STATUS", "ERROR"}}
		for _, a := range d.Attempts {
			rows = append(rows, attemptRow(a))
		}
		if err := columns(p.Stdout, rows); err != nil {
			return err
		}
		return printResponse(p.Stdout, d.Attempts)
	})
}

// printResponse shows what the receiver answered to the latest attempt that was answered.
func printResponse(w io.Writer, attempts []client.Attempt) error {
	for _, a := range slices.Backward(attempts) {
		if a.StatusCode == 0 {
			continue
		}
		lines := []string{"", fmt.Sprintf("RESPONSE TO ATTEMPT %d: %d", a.Number, a.StatusCode)}
		for _, h := range a.ResponseHeaders {
			lines = append(lines, printable(h.Name)+": "+printable(h.Value))
		}
		switch {
		case a.ResponseBody == "":
		case a.ResponseBodyEncoding == "base64":
			lines = append(lines, "", "(not text; --json has it in base64)")
		default:
			lines = append(lines, "")
			for line := range strings.Lines(a.ResponseBody) {
				lines = append(lines, printable(strings.TrimRight(line, "\r\n")))
			}
		}
		_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
		return err
	}
	return nil
}

func attemptRow(a client.Attempt) []string {
	outcome, status := a.Outcome, ""
	if a.Late {
		outcome += " (late)"
	}
	if a.SentTwice {
		outcome += " (sent twice)"
	}
	if a.StatusCode != 0 {
		status = strconv.Itoa(a.StatusCode)
	}
	took := strconv.FormatFloat(a.DurationMS, 'f', 0, 64) + " ms"
	return []string{strconv.Itoa(a.Number), showTime(a.StartedAt), took, outcome, status, shorten(a.Error, 80)}
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
	return eachDelivery(c.printer(s), c.IDs, "pending", func(id string) error {
		if err := api.Deliveries.Replay(ctx, id); err != nil {
			return fmt.Errorf("replay %s: %w", id, err)
		}
		return nil
	})
}

type deliveriesSkip struct {
	remote
	IDs []string `arg:"" name:"id" help:"Ids of pending deliveries."`
}

// Run skips deliveries one by one and stops at the first that cannot be.
func (c *deliveriesSkip) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	return eachDelivery(c.printer(s), c.IDs, "dead", func(id string) error {
		if err := api.Deliveries.Skip(ctx, id); err != nil {
			return fmt.Errorf("skip %s: %w", id, err)
		}
		return nil
	})
}

// eachDelivery does something to deliveries in turn and prints the status that each
// has then.
func eachDelivery(p printer, ids []string, status string, do func(id string) error) error {
	for _, id := range ids {
		if err := do(id); err != nil {
			return err
		}
		err := p.object(map[string]string{"id": id, "status": status}, func() error {
			_, err := fmt.Fprintf(p.Stdout, "%s  %s\n", id, status)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
