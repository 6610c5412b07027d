package store

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Replicas are the living engines on one database.
type Replicas interface {
	// Register makes a new epoch, busy and fresh, and takes over what dead ones of the same
	// name held, as Reclaim does. The name belongs to one handle at a time, from its
	// Register until its epoch retires, it registers under another name, or its process
	// ends; the database knows. Under the name of a living one it returns ErrConflict. A
	// handle that lost its connection, and its name to another process meanwhile, is
	// fenced, and registering it anew returns ErrConflict too. On SQLite, where the lock
	// file proves that no other process lives, every other epoch is dead.
	Register(ctx context.Context, p RegisterParams) (Registered, error)

	// Beat renews the row of an epoch and raises its low-water mark (never
	// lowers it). ErrFenced if the row is gone. ErrRewound if the database is not the one
	// that the handle registered with, or has gone back in time: the server has another
	// identity, the row has another name, or its beat is older than BeatParams.Seen.
	// With either error nothing is written.
	Beat(ctx context.Context, p BeatParams) (Beat, error)

	// RaiseLowWater raises the low-water mark of an epoch from From to To, across ids of
	// accepts whose outcome is unknown. It waits for the accepts of the epoch that are
	// under way, lists what the epoch owns in [From, To), and raises the mark if known
	// returns true for the list. An accept that arrives later with an id below To is
	// fenced. ErrFenced if the row is gone. known must not call the store.
	RaiseLowWater(ctx context.Context, p RaiseLowWaterParams, known func(owned []Lease) bool) error

	// Owned lists the pending deliveries in [From, To) that the epoch owns, in
	// the order of their ids. The low-water mark may be raised to To when each
	// of them is known to the caller.
	Owned(ctx context.Context, p OwnedParams) ([]Lease, error)

	// OwnedDue lists the due rows that the epoch owns, a page in key order from
	// After (exclusive).
	OwnedDue(ctx context.Context, p OwnedDueParams) ([]DueKey, error)

	// Revoke takes the named leases away from the epoch, as far as it still
	// holds them: a delivery that the epoch has leased again since, from another due
	// row, is left alone. The number is recorded as lost, attempts advanced, the owner
	// cleared, the old due row removed, and a new one made, due now or, for a delivery
	// revoked several times in a row, after 1 s, 5 s, then 30 s. It returns how many it revoked.
	Revoke(ctx context.Context, p RevokeParams) (int, error)

	// Reclaim revokes every lease of a silent epoch and deletes its row, in one
	// transaction that first locks the row. ErrConflict if the row is gone or
	// has beaten since SeenBeatAt.
	Reclaim(ctx context.Context, p ReclaimParams) (Reclaimed, error)

	// Retire deletes the row of an epoch that owns nothing any more; with
	// something left it returns ErrConflict, and another replica will reclaim it.
	Retire(ctx context.Context, epoch Epoch) error

	// Wake tells the other replicas that these endpoints have due work; none: only
	// that this replica has begun to work. It is a hint: it may be lost. On SQLite
	// it does nothing.
	Wake(ctx context.Context, endpoints []EndpointNo) error

	// Listen calls woken for each hint of another replica until ctx ends, and once,
	// with none, when it has begun to listen. It returns when ctx ends or the
	// connection is lost, which may also be the one that holds the replica's name: the
	// next call takes it again. One call at a time for each handle. On SQLite it only
	// waits for ctx.
	Listen(ctx context.Context, woken func([]EndpointNo)) error
}

// RegisterParams are Register's. Name is not empty. LowWater must not be above any
// id that is minted and not yet resolved.
type RegisterParams struct {
	Name     string
	LowWater posthaste.ID
	Delivers bool  // it makes attempts
	Last     Epoch // the highest epoch that the caller has had; 0: none
}

// Registered is what Register made.
type Registered struct {
	Epoch     Epoch
	Now       time.Time    // the database's clock
	Rewound   bool         // the database has gone back to before RegisterParams.Last was given out
	Reclaimed int          // deliveries taken over from dead epochs
	Endpoints []EndpointNo // where they now wait, due; sorted
}

// BeatParams are Beat's. Tenants are those whose versions are compared with the
// database's. Idle says that the epoch holds nothing and will lease nothing until it has
// beaten without it: its row is not busy, its accepts and claims are fenced, and
// nobody need watch it.
type BeatParams struct {
	Epoch    Epoch
	LowWater posthaste.ID
	Tenants  []TenantVersion
	Idle     bool
	Delivers bool      // the replica makes attempts
	Seen     time.Time // BeatAt of the epoch's row as the caller read it last; zero: it has not

	// RoutingSince also asks for every tenant whose routing version is at least this; 0: none.
	RoutingSince int64

	Gates time.Time // zero: don't; else return the gates that changed after it
}

// Beat is what a heartbeat brings back.
type Beat struct {
	Now      time.Time       // the database's clock
	Replicas []Replica       // all rows, the caller's included, by epoch
	Newer    []TenantVersion // of Tenants those at another version, later or earlier; and those since RoutingSince
	Gates    []Gate          // changed after BeatParams.Gates, those changed up to 5 s before it again
}

// RaiseLowWaterParams are RaiseLowWater's.
type RaiseLowWaterParams struct {
	Epoch    Epoch
	From, To posthaste.ID
}

// Replica is a row of replicas.
type Replica struct {
	Epoch    Epoch
	Name     string
	Busy     bool
	Delivers bool
	BeatAt   time.Time
	LowWater posthaste.ID
}

// OwnedParams are Owned's.
type OwnedParams struct {
	Epoch    Epoch
	From, To posthaste.ID
}

// DueKey is the key of a row in due.
type DueKey struct {
	Endpoint EndpointNo
	DueAt    time.Time
	Delivery posthaste.ID
}

// OwnedDueParams are OwnedDue's.
type OwnedDueParams struct {
	Epoch Epoch
	After DueKey
	Limit int
}

// RevokeParams are Revoke's.
type RevokeParams struct {
	Epoch  Epoch
	Leases []HeldLease
	Now    time.Time
}

// HeldLease names one lease that an epoch took: no epoch leases a delivery twice from
// due rows of the same time. DueAt is that of [Lease].
type HeldLease struct {
	Delivery posthaste.ID
	DueAt    time.Time
}

// Held names the lease.
func (l Lease) Held() HeldLease { return HeldLease{Delivery: l.Delivery, DueAt: l.DueAt} }

// ReclaimParams are Reclaim's. Dead is the silent epoch.
type ReclaimParams struct {
	Dead       Epoch
	SeenBeatAt time.Time
	Now        time.Time
}

// Reclaimed is what Reclaim moved.
type Reclaimed struct {
	Deliveries int
	Endpoints  []EndpointNo // where due work now waits
}

// RevokeBackoff is how long a delivery waits that has been revoked the given
// number of times in a row: so a poison event can't hot-loop a process.
func RevokeBackoff(times int) time.Duration {
	switch {
	case times <= 1:
		return 0
	case times == 2:
		return time.Second
	case times == 3:
		return 5 * time.Second
	default:
		return 30 * time.Second
	}
}
