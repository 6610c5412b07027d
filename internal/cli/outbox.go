package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/posthaste-dev/posthaste/internal/config"
	"github.com/posthaste-dev/posthaste/internal/relay"
	"github.com/posthaste-dev/posthaste/outbox"
)

type outboxCommand struct {
	Install outboxInstall `cmd:"" help:"Install the outbox in an application's database, or print its SQL."`
	Relay   outboxRelay   `cmd:"" help:"Run a server with the role relay only, which moves outbox rows to the server's database."`
	Status  outboxStatus  `cmd:"" help:"Count waiting and parked rows of an outbox."`
	Parked  outboxParked  `cmd:"" help:"List rows that were refused, with the reason."`
	Retry   outboxRetry   `cmd:"" help:"Retry parked rows."`
	Drop    outboxDrop    `cmd:"" help:"Delete parked rows. Their events are never sent."`
}

// outboxDatabase names the database that an outbox is in.
type outboxDatabase struct {
	Database string `required:"" env:"POSTHASTE_OUTBOX_DATABASE" placeholder:"URL|FILE" help:"The application's database: a postgres:// URL or an SQLite file."`
}

// with opens the outbox for f.
func (d outboxDatabase) with(ctx context.Context, f func(relay.Admin) error) error {
	if err := d.check(); err != nil {
		return err
	}
	admin, err := relay.OpenAdmin(ctx, d.Database)
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	return f(admin)
}

// check refuses what names no database.
func (d outboxDatabase) check() error {
	if err := config.CheckDatabase(d.Database); err != nil {
		return usageError{"--database (POSTHASTE_OUTBOX_DATABASE) " + err.Error()}
	}
	return nil
}

type outboxInstall struct {
	outboxDatabase
	Create     bool     `help:"Create the SQLite file if it does not exist."`
	Print      bool     `help:"Print the SQL without connecting, for your own migrations."`
	GrantApp   []string `placeholder:"ROLE" help:"Database role of an application, which may enqueue; may be repeated."`
	GrantRelay []string `placeholder:"ROLE" help:"Database role of a relay, which may move rows; may be repeated."`
}

// Run installs an outbox.
func (c *outboxInstall) Run(ctx context.Context, s Streams) error {
	if c.Print {
		if err := c.check(); err != nil {
			return err
		}
		_, err := io.WriteString(s.Stdout, relay.SchemaSQL(c.Database))
		return err
	}
	if c.Create {
		if err := c.check(); err != nil {
			return err
		}
		if err := relay.CreateSQLite(c.Database); err != nil {
			return err
		}
	}
	return c.with(ctx, func(admin relay.Admin) error {
		if err := admin.Install(ctx, relay.Grants{App: c.GrantApp, Relay: c.GrantRelay}); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.Stdout, "the database has the outbox, version %d\n", outbox.SchemaVersion)
		return err
	})
}

type outboxRelay struct {
	config.Flags
}

// Run relays until ctx ends. The address to listen on has /readyz and /metrics.
func (c *outboxRelay) Run(ctx context.Context, s Streams) error {
	flags := c.Flags
	flags.Roles = "relay"
	serve := serveCommand{flags}
	return serve.Run(ctx, s)
}

type outboxStatus struct {
	outboxDatabase
	JSON bool `name:"json" help:"Print JSON."`
}

// Run shows what is in an outbox.
func (c *outboxStatus) Run(ctx context.Context, s Streams) error {
	return c.with(ctx, func(admin relay.Admin) error {
		status, err := admin.Status(ctx)
		if err != nil {
			return err
		}
		age := time.Duration(0)
		if !status.OldestAt.IsZero() {
			age = time.Since(status.OldestAt)
		}
		shown := struct {
			Waiting       int     `json:"waiting"`
			OldestSeconds float64 `json:"oldest_seconds"`
			Parked        int     `json:"parked"`
		}{status.Waiting, age.Seconds(), status.Parked}
		return printer{s, c.JSON}.object(shown, func() error {
			return fields(s.Stdout, "waiting", strconv.Itoa(status.Waiting), "oldest", age.Round(time.Millisecond).String(), "parked", strconv.Itoa(status.Parked))
		})
	})
}

type outboxParked struct {
	outboxDatabase
	Limit int  `default:"50" help:"Maximum number of rows, oldest first."`
	JSON  bool `name:"json" help:"Print a JSON object for each, one a line."`
}

// parkedRow is a parked row as it is printed.
type parkedRow struct {
	ID           string    `json:"id"`
	Tenant       string    `json:"tenant"`
	Type         string    `json:"type"`
	OrderKey     string    `json:"order_key,omitempty"`
	PayloadBytes int       `json:"payload_bytes"`
	Code         string    `json:"code"`
	Reason       string    `json:"reason"`
	EnqueuedAt   time.Time `json:"enqueued_at"`
	ParkedAt     time.Time `json:"parked_at"`
}

// Run lists parked rows.
func (c *outboxParked) Run(ctx context.Context, s Streams) error {
	if c.Limit < 1 {
		return usageError{"--limit must be at least 1"}
	}
	t := table[parkedRow]{
		head: []string{"ROW", "TENANT", "TYPE", "ORDER KEY", "PARKED", "REASON"},
		row: func(r parkedRow) []string {
			return []string{r.ID, printable(r.Tenant), printable(r.Type), orDash(r.OrderKey), showTime(r.ParkedAt), printable(r.Reason)}
		},
		none: "nothing is parked",
	}
	return c.with(ctx, func(admin relay.Admin) error {
		parked, err := admin.Parked(ctx, c.Limit)
		if err != nil {
			return err
		}
		rows := func(yield func(parkedRow, error) bool) {
			for _, p := range parked {
				if !yield(parkedRow{
					p.RowID.String(), p.Tenant, p.Type, p.OrderKey, p.PayloadBytes, string(p.Code), p.Reason, p.EnqueuedAt.UTC(), p.ParkedAt.UTC(),
				}, nil) {
					return
				}
			}
		}
		return t.print(printer{s, c.JSON}, rows, c.Limit)
	})
}

// parkedRows names parked rows.
type parkedRows struct {
	outboxDatabase
	Rows []string `arg:"" optional:"" help:"Ids of rows, as outbox parked prints them."`
	All  bool     `help:"Select all parked rows."`
	JSON bool     `name:"json" help:"Print JSON."`
}

// ids returns the rows that are meant; none for all.
func (c *parkedRows) ids() (ids []outbox.ID, err error) {
	if c.All == (len(c.Rows) > 0) {
		return nil, usageError{"name rows, or --all for all that are parked"}
	}
	for _, text := range c.Rows {
		id, err := relay.ParseID(text)
		if err != nil {
			return nil, usageError{err.Error()}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// change runs a change on the rows and says of how many it was.
func (c *parkedRows) change(ctx context.Context, s Streams, word string, do func(relay.Admin, []outbox.ID) (int, error)) error {
	ids, err := c.ids()
	if err != nil {
		return err
	}
	return c.with(ctx, func(admin relay.Admin) error {
		n, err := do(admin, ids)
		if err != nil {
			return err
		}
		return printer{s, c.JSON}.object(map[string]int{word: n}, func() error {
			_, err := fmt.Fprintf(s.Stdout, "%d %s\n", n, word)
			return err
		})
	})
}

type outboxRetry struct{ parkedRows }

// Run puts parked rows back.
func (c *outboxRetry) Run(ctx context.Context, s Streams) error {
	return c.change(ctx, s, "retried", func(a relay.Admin, ids []outbox.ID) (int, error) { return a.Retry(ctx, ids) })
}

type outboxDrop struct{ parkedRows }

// Run deletes parked rows.
func (c *outboxDrop) Run(ctx context.Context, s Streams) error {
	return c.change(ctx, s, "dropped", func(a relay.Admin, ids []outbox.ID) (int, error) { return a.Drop(ctx, ids) })
}
