package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// ChangesKept is how long a reader may stay away and find all that it has
// missed. Rows are deleted an hour later than that, so that no difference of
// clocks counts.
const (
	ChangesKept       = 24 * time.Hour
	ChangesPurgeAfter = ChangesKept + time.Hour
)

// Changes is the record of what became of events, for the live stream. It is
// written by the transactions that make a change, and by them alone: so a change
// that is committed is recorded once, and one that isn't committed is not.
//
// Transactions commit in another order than they begin. What a reader has seen
// is therefore a set of transactions, a [Cursor], and a read returns what is
// committed and not in it: whatever the order of commits, every change comes once.
type Changes interface {
	// ChangesHead returns the cursor that has seen all that is committed.
	ChangesHead(ctx context.Context) (Cursor, error)

	// ReadChanges returns committed changes that p.After has not seen, in the order of
	// transactions, those that belong together in the order in which they were written.
	ReadChanges(ctx context.Context, p ReadChangesParams) (ChangePage, error)

	// AppendChange records a change that no other verb records, in a
	// transaction of its own.
	AppendChange(ctx context.Context, p AppendChangeParams) error
}

// ChangeKind is what happened. The numbers are stored.
type ChangeKind int16

// The kinds of changes.
const (
	ChangeAccepted  ChangeKind = 1 // an event was stored
	ChangeDelivered ChangeKind = 2 // a delivery ended
	ChangeDead      ChangeKind = 3 // a delivery ended
	ChangeGate      ChangeKind = 4 // an endpoint's gate opened or closed
)

// String returns the kind as the API calls it.
func (k ChangeKind) String() string {
	switch k {
	case ChangeAccepted:
		return "event.accepted"
	case ChangeDelivered:
		return "delivery.delivered"
	case ChangeDead:
		return "delivery.dead"
	case ChangeGate:
		return "endpoint.gate"
	}
	return fmt.Sprintf("change %d", int16(k))
}

// ParseChangeKind is String's inverse.
func ParseChangeKind(name string) (kind ChangeKind, ok bool) {
	for k := ChangeAccepted; k <= ChangeGate; k++ {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

// Change is one change. Event, Type and CorrelationID belong to events and
// deliveries, Delivery to deliveries, Endpoint to deliveries and gates, Detail to gates.
type Change struct {
	Kind          ChangeKind
	Tenant        TenantNo
	TenantName    string
	At            time.Time
	Event         posthaste.ID
	Delivery      posthaste.ID
	Endpoint      posthaste.ID
	Type          string
	CorrelationID posthaste.ID
	Detail        json.RawMessage
	Cursor        Cursor // has seen this change and all that came before it
}

// ReadChangesParams are the arguments of ReadChanges.
type ReadChangesParams struct {
	After   Cursor
	Until   Cursor       // the read leaves out what it has not seen; zero: the read takes all that is committed
	Tenants []TenantNo   // nil: all
	Kinds   []ChangeKind // nil: all
	Limit   int          // of rows, one or two of which a batch of the pipeline makes
}

// ChangePage is what ReadChanges returns.
type ChangePage struct {
	Changes []Change
	Next    Cursor // has seen all of p.After and the page, with what the page left out as not wanted
	More    bool   // there was more than the limit

	// Gap says that changes may be missing that p.After has not seen: the table was
	// emptied, or the database went back to an earlier state.
	Gap bool
}

// AppendChangeParams are the arguments of AppendChange.
type AppendChangeParams struct {
	Kind   ChangeKind
	Tenant TenantNo
	ID     posthaste.ID // of the event, the delivery or the endpoint, by the kind
	At     time.Time
	Detail json.RawMessage // nil: none
}
