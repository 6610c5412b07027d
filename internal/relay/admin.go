package relay

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/outbox"
)

// adminTimeout bounds one command on an outbox.
const adminTimeout = 30 * time.Second

// chunk bounds the rows of one transaction of a command.
const chunk = 1000

// ParkedRow is a row that could not be accepted.
type ParkedRow struct {
	RowID        outbox.ID
	Tenant       string
	Type         string
	OrderKey     string // "" if it has none; else its key waits for it
	PayloadBytes int
	Code         posthaste.Code
	Reason       string
	EnqueuedAt   time.Time
	ParkedAt     time.Time
}

// Status is what is in an outbox. Rows are counted up to 100,000.
type Status struct {
	Waiting, Parked int
	OldestAt        time.Time // when the oldest that waits was enqueued; zero: none waits
}

// Grants are roles of an application's PostgreSQL database that get a role of the outbox.
type Grants struct {
	App, Relay []string
}

// Admin changes and looks at one outbox, beside whatever relays work on it.
type Admin interface {
	// Install makes the outbox, unless it is there.
	Install(ctx context.Context, g Grants) error
	// Parked lists parked rows, oldest first.
	Parked(ctx context.Context, limit int) ([]ParkedRow, error)
	// Retry puts parked rows back to where they were; without ids, all. It returns how many.
	Retry(ctx context.Context, ids []outbox.ID) (int, error)
	// Drop deletes parked rows; their events are never sent.
	Drop(ctx context.Context, ids []outbox.ID) (int, error)
	Status(ctx context.Context) (Status, error)
	Close(ctx context.Context)
}

// SchemaSQL returns the SQL that Install runs on the kind of database that a URL or a path
// names.
func SchemaSQL(database string) string {
	if isPostgres(database) {
		return outbox.PostgresSQL()
	}
	return outbox.SQLiteSQL()
}

// OpenAdmin opens the database of an outbox.
func OpenAdmin(ctx context.Context, database string) (Admin, error) {
	if isPostgres(database) {
		return openPostgresAdmin(ctx, database)
	}
	return openSQLiteAdmin(database)
}

// ParseID reads the id of a row, as outbox.ID prints it.
func ParseID(text string) (outbox.ID, error) {
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(raw) != len(outbox.ID{}) {
		return outbox.ID{}, fmt.Errorf("%q is not the id of a row", text)
	}
	return outbox.ID(raw), nil
}
