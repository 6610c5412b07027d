package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/config"
	"github.com/posthaste-dev/posthaste/internal/store"
)

type verifyCommand struct {
	config.DatabaseFlags
	Repair bool `help:"First queue deliveries that no replica would find."`
	JSON   bool `name:"json" help:"Print JSON, one object a line."`
}

// verifyPage is how many deliveries are looked at in one call.
const verifyPage = 1000

// maxShown is how many findings are printed for people; JSON has them all.
const maxShown = 50

// Run checks the database. Findings are a failure.
func (c *verifyCommand) Run(ctx context.Context, s Streams) error {
	d, err := c.Parse()
	if err != nil {
		return err
	}
	var db database
	if c.Repair {
		db, err = openWithSchema(ctx, d, config.MigrateCheck, nil)
	} else {
		db, err = openToLook(ctx, d)
	}
	if err != nil {
		return err
	}
	findings, err := c.run(ctx, s, db)
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if findings > 0 {
		return fmt.Errorf("verify found %d violations of the promise", findings)
	}
	return nil
}

func (c *verifyCommand) run(ctx context.Context, s Streams, db store.Store) (int, error) {
	if c.Repair {
		repaired, err := repair(ctx, db)
		if err != nil {
			return 0, fmt.Errorf("repair: %w", err)
		}
		_, _ = fmt.Fprintf(s.Stderr, "repaired %d deliveries\n", repaired)
	}
	total, err := c.verify(ctx, s, db)
	if err != nil {
		return 0, fmt.Errorf("verify: %w", err)
	}
	if c.JSON {
		return total.Findings, printJSON(s.Stdout, total)
	}
	_, err = fmt.Fprintf(s.Stdout, "%d events, %d deliveries, %d attempts, %d findings\n",
		total.Events, total.Deliveries, total.Attempts, total.Findings)
	return total.Findings, err
}

// verified are the counts of a whole database.
type verified struct {
	Events     int `json:"events"`
	Deliveries int `json:"deliveries"`
	Attempts   int `json:"attempts"`
	Findings   int `json:"findings"`
}

// found is a finding as it is printed.
type found struct {
	ID   string `json:"id"`
	What string `json:"what"`
}

func (c *verifyCommand) verify(ctx context.Context, s Streams, db store.Store) (verified, error) {
	var total verified
	var from posthaste.ID
	for {
		page, err := db.Verify(ctx, store.VerifyParams{From: from, Limit: verifyPage})
		if err != nil {
			return total, err
		}
		total.Events += page.Events
		total.Deliveries += page.Deliveries
		total.Attempts += page.Attempts
		for _, f := range page.Findings {
			total.Findings++
			if err := c.show(s, f, total.Findings); err != nil {
				return total, err
			}
		}
		if page.Next.IsZero() {
			return total, nil
		}
		from = page.Next
	}
}

// show prints the n-th finding.
func (c *verifyCommand) show(s Streams, f store.Finding, n int) error {
	kind := posthaste.KindDelivery
	if f.Delivery.Number() == 0 {
		kind = posthaste.KindEvent
	}
	shown := found{ID: f.Delivery.Print(kind), What: f.What}
	if c.JSON {
		return printJSON(s.Stdout, shown)
	}
	switch {
	case n <= maxShown:
		_, err := fmt.Fprintf(s.Stdout, "%s  %s\n", shown.ID, printable(shown.What))
		return err
	case n == maxShown+1:
		_, err := fmt.Fprintln(s.Stdout, "… (--json prints all)")
		return err
	}
	return nil
}

// repair gives every delivery that nothing would find a due row. What a living
// replica owns is its own to look after.
func repair(ctx context.Context, db store.Store) (int, error) {
	// Rows of the last seconds may belong to a commit that is being answered.
	const settling = 10 * time.Second
	now := time.Now()
	repaired := 0
	var from posthaste.ID
	for {
		page, err := db.FindStranded(ctx, store.FindStrandedParams{
			From: from, To: posthaste.FloorID(now.Add(-settling)), Limit: verifyPage,
		})
		if err != nil {
			return repaired, err
		}
		var stranded []store.StrandedDelivery
		for _, d := range page.Deliveries {
			if !d.Living {
				stranded = append(stranded, d)
			}
		}
		if len(stranded) > 0 {
			n, err := db.RepairStranded(ctx, store.RepairStrandedParams{Deliveries: stranded, Now: time.Now().Truncate(time.Microsecond)})
			if err != nil {
				return repaired, err
			}
			repaired += n
		}
		if page.Next.IsZero() {
			return repaired, nil
		}
		from = page.Next
	}
}
