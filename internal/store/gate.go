package store

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
)

// ErrLocked says that somebody else holds a row for longer than is worth waiting
// for. Nothing was written.
var ErrLocked = errors.New("the row is locked by somebody else")

// Gates keep the state of each endpoint's gate, a row for each that is not as
// it would be without one. The table may be emptied at any time: every gate is open then.
//
// Functions that are given to these verbs run while the row is locked, perhaps more
// than once for a call: they must be quick and change nothing but their result.
type Gates interface {
	// Gates returns the gates of the named endpoints, in any order; those that
	// have no row are left out. It never waits for a lock.
	Gates(ctx context.Context, endpoints []EndpointNo) ([]Gate, error)

	// ShutGates returns the gates that are not closed, hold for a Retry-After after
	// now, closed less than a minute before it, or remember a failure: what an engine
	// that starts must know, and what a success there has to end.
	ShutGates(ctx context.Context, now time.Time) ([]Gate, error)

	// ChangeGate locks the gate of an endpoint, lets change make another of it and
	// stores that; ChangedAt moves unless only its slots changed. Nothing is written
	// where change changes nothing. ErrLocked if the lock does not come within 100 ms.
	ChangeGate(ctx context.Context, endpoint EndpointNo, change func(gate.State) gate.State) (Gate, error)

	// ClaimThrough leases due work of one endpoint through its gate, in one
	// transaction: the gate's row is locked first (made if there is none), Enter says how
	// much may be taken, and Take what the taken leases make of the gate. Leases are
	// those that Claim would take, in its order, of which no more than Retries have a
	// Number above 1: retries beyond are passed over, a bounded number of rows.
	//
	// Where Ordered is set, work is taken by its position: a run of successive due rows that
	// begins with the endpoint's first one. It ends before the first row that has an owner, whose
	// try_at has not come, or that is a retry beyond Retries. So while one delivery of a run is
	// owned, nothing behind it is leased. Two claims of an ordered endpoint exclude each other,
	// and acceptances of it, in the whole cluster.
	//
	// ErrFenced as for Claim; ErrLocked if the lock does not come within 250 ms.
	ClaimThrough(ctx context.Context, p ClaimThroughParams) (ClaimedThrough, error)
}

// Gate is the gate of an endpoint as stored.
type Gate struct {
	Endpoint EndpointNo
	gate.State
	ChangedAt time.Time // by the database's clock
}

// ClaimThroughParams are ClaimThrough's. Tenants as in BeatParams.
type ClaimThroughParams struct {
	Epoch    Epoch
	Now      time.Time
	Endpoint EndpointNo
	From     time.Time // as in ClaimWant
	Ordered  bool
	Tenants  []TenantVersion
	Enter    func(gate.State) gate.Pass
	Take     func(gate.State, []Lease) gate.State
}

// ClaimedThrough is what ClaimThrough took.
type ClaimedThrough struct {
	Gate   Gate // as it is afterwards
	Pass   gate.Pass
	Leases []Lease
	Newer  []TenantVersion
	// Examined is the due_at of the last row looked at; zero if there was none.
	Examined time.Time
	// More: the look ended before the endpoint's due rows did.
	More bool
	// HeadAt is when the first due row of an ordered endpoint may be tried, if it has
	// no owner and its time has not come; zero otherwise.
	HeadAt time.Time
}

// Skipping ends deliveries at somebody's word.
type Skipping interface {
	// Skip ends a pending delivery: dead, reason skipped. A living lease of it is
	// revoked: its number is recorded as lost. ErrNotFound; *posthaste.Error with
	// CodeNotPending.
	Skip(ctx context.Context, p SkipParams) (DeliveryRow, error)
}

// SkipParams are Skip's. Tenant 0 is all tenants.
type SkipParams struct {
	Tenant   TenantNo
	Delivery posthaste.ID
	Now      time.Time
}
