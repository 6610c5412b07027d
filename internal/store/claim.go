package store

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Delivery is the way out.
type Delivery interface {
	// Claim leases due work: for each endpoint wanted, up to Cap of its unowned due
	// rows with From ≤ due_at ≤ Now in the order of their keys, skipping rows that another
	// transaction holds. Two claimers never get the same row. A due row whose
	// delivery is gone, not pending, or names another due_at is deleted. Rows
	// whose run has expired are claimed too: the caller ends them. ErrFenced as
	// for Accept.
	Claim(ctx context.Context, p ClaimParams) (Claimed, error)

	// Load returns the events with the given keys, those that exist, payload
	// included, in the order asked for, until their payloads exceed MaxBytes (at
	// least one is returned).
	Load(ctx context.Context, p LoadParams) ([]posthaste.Event, error)

	// Settle records what became of leases, durably, each of them whole or not at all.
	//
	// A delivery moves only where it is pending, owned by the lease's epoch, at
	// attempts = Number - 1 and at the lease's due time (work that was given back
	// keeps its number, and the same epoch may hold it again); then attempts becomes Number (if an attempt was
	// made), the owner is cleared, the lease's due row is removed, and a new due
	// row or dead row is made as State says. The attempt's record is inserted in
	// any case; where that number is already recorded as lost, the record is
	// completed and marked late; where it is recorded otherwise, it stays. So
	// settling twice is settling once.
	//
	// A late success (the delivery did not move) ends a delivery that is still
	// pending: its due row is removed, and if another epoch holds the next
	// number, that number is recorded as lost. A driver may do this in a transaction
	// of its own: what a crash leaves undone in between is attempted once more.
	Settle(ctx context.Context, p SettleParams) (Settled, error)
}

// ClaimParams are Claim's. Tenants as in BeatParams.
type ClaimParams struct {
	Epoch   Epoch
	Now     time.Time
	Want    []ClaimWant
	Tenants []TenantVersion
}

// ClaimWant asks for work of one endpoint.
type ClaimWant struct {
	Endpoint EndpointNo
	Cap      int
	From     time.Time // where to begin: dead index entries before it need not be walked again
	// IgnoreGate claims whatever the endpoint's gate says. Else an endpoint whose breaker is
	// not closed, or which holds for a Retry-After, gives nothing and is named in Shut.
	IgnoreGate bool
}

// Claimed is the work that a claim leased.
type Claimed struct {
	Leases []Lease
	Newer  []TenantVersion
	Shut   []Gate // of endpoints wanted
}

// LoadParams are Load's.
type LoadParams struct {
	Events   []EventKey
	MaxBytes int
}

// EventKey is the key of an event.
type EventKey struct {
	Tenant TenantNo
	ID     posthaste.ID
}

// SettleParams are Settle's.
type SettleParams struct {
	Now         time.Time
	Settlements []Settlement
}

// Settlement is what became of one lease.
type Settlement struct {
	Lease Lease
	// Attempt is what was tried; nil for work given back or ended unstarted,
	// whose number is then free again.
	Attempt  *posthaste.Attempt
	State    posthaste.State
	Failures int              // of the run, this attempt included
	DueAt    time.Time        // when it is due again, if pending; after Lease.DueAt
	TryAt    time.Time        // of an ordered endpoint, whose DueAt is a position: when it may be tried again
	Reason   posthaste.Reason // why, if dead
}

// Settled says which settlements moved their delivery. Beside an error: which had done so for
// good when the rest failed.
type Settled struct {
	Moved []bool // parallel to the settlements; beside an error nil where none did
	Late  int    // deliveries that a late success ended
}
