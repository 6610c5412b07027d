package store

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Upkeep is what a leader does now and then. Every verb is bounded by its Limit
// and harmless when two replicas run it at once.
type Upkeep interface {
	// DueEndpoints lists the endpoints that have unowned due rows, each with the
	// time of its earliest one, by endpoint.
	DueEndpoints(ctx context.Context) ([]EndpointDue, error)

	// EndDeleted ends unowned due deliveries of endpoints that this very
	// statement finds deleted or absent: dead, reason endpoint deleted. It looks
	// only at the endpoints named, and ends at most Limit deliveries.
	EndDeleted(ctx context.Context, p EndDeletedParams) (int, error)

	// EndExpired walks the unowned due rows of one endpoint from After in key
	// order, Limit rows a call, and ends those whose run has expired: dead,
	// reason expired.
	EndExpired(ctx context.Context, p EndExpiredParams) (EndedExpired, error)

	// FindStranded walks deliveries from From (inclusive), Limit rows a call, and
	// returns the pending ones that have neither an unowned due row nor a living
	// owner, and, marked as such, those that a living epoch owns. What was born leased below
	// the low-water mark of its owner has no living owner: nobody knows of it. It also gives each dead delivery in the range its row in dead.
	FindStranded(ctx context.Context, p FindStrandedParams) (Stranded, error)

	// RepairStranded gives each of these deliveries a due row, where it still
	// stands as found: by revoking, where an epoch owned it, else at its old
	// due_at, or now. It returns how many it repaired.
	RepairStranded(ctx context.Context, p RepairStrandedParams) (int, error)

	// PullBack makes unowned due rows due from Now on, in their order, that are due later
	// than their endpoint ever lets work wait: a clock was ahead when they were made. Their runs end at
	// ExpiresAt at the latest. It moves at most Limit rows, and returns how many it moved.
	PullBack(ctx context.Context, p PullBackParams) (int, error)

	// MakePartitions makes the daily partitions that cover [From, To]. On SQLite it does nothing.
	MakePartitions(ctx context.Context, from, to time.Time) error

	// Retain deletes what is past its retention: whole days of events,
	// deliveries and attempts on PostgreSQL, bounded deletes on SQLite;
	// never what is pending or dead and younger than DeadRetention. It raises the horizon first,
	// in a transaction of its own. Idempotency keys go after their window,
	// signing secrets when they have expired, changes ChangesPurgeAfter, gates when
	// their endpoint is deleted, and deleted endpoints after Retention, once no delivery
	// names them.
	Retain(ctx context.Context, p RetainParams) (Retained, error)

	// Verify looks for violations of the promise from From on, Limit deliveries
	// a call: holes in attempt numbers, terminal deliveries without their
	// attempt or reason, events without their deliveries 1 … FanOut, pending
	// deliveries that nothing would find.
	Verify(ctx context.Context, p VerifyParams) (Verified, error)

	// Setting returns a stored setting, or ErrNotFound.
	Setting(ctx context.Context, name string) ([]byte, error)
	// KeepSetting stores a setting unless it exists, and returns what is stored.
	KeepSetting(ctx context.Context, name string, value []byte) ([]byte, error)
}

// EndpointDue is an endpoint with waiting work.
type EndpointDue struct {
	Endpoint EndpointNo
	NextAt   time.Time // when its first unowned row is due and may be tried
	// TryAt is when that row may be tried, whatever its due_at is: that of an ordered
	// endpoint is a place in its order, and may be ahead of the clock. Zero: at any time.
	TryAt time.Time
}

// EndDeletedParams are EndDeleted's.
type EndDeletedParams struct {
	Endpoints []EndpointNo
	Now       time.Time
	Limit     int
}

// EndExpiredParams are EndExpired's.
type EndExpiredParams struct {
	Endpoint EndpointNo
	After    DueKey
	Now      time.Time
	Limit    int
}

// EndedExpired says how far EndExpired came.
type EndedExpired struct {
	Ended int
	Next  DueKey // where to go on; zero at the end
	// NextExpiry is the earliest end of a run among the rows looked at that still wait; zero if none.
	NextExpiry time.Time
}

// FindStrandedParams are FindStranded's.
type FindStrandedParams struct {
	From  posthaste.ID
	To    posthaste.ID // exclusive; keep it some seconds behind the clock
	Limit int
}

// Stranded is a page of what FindStranded found.
type Stranded struct {
	Deliveries []StrandedDelivery
	Dead       int          // rows of dead that were missing
	Next       posthaste.ID // where to go on; zero at the end
}

// StrandedDelivery is a pending delivery that nothing would find. Those owned
// by an epoch that lives are returned too, marked Living, for the owner to
// compare with its memory.
type StrandedDelivery struct {
	Delivery posthaste.ID
	Endpoint EndpointNo
	Owner    Epoch // 0: nobody
	Living   bool
	DueAt    time.Time
}

// RepairStrandedParams are RepairStranded's.
type RepairStrandedParams struct {
	Deliveries []StrandedDelivery
	Now        time.Time
}

// PullBackParams are PullBack's.
type PullBackParams struct {
	Endpoints []LongestWait
	Now       time.Time
	Limit     int
}

// LongestWait bounds the times of an endpoint's waiting work.
type LongestWait struct {
	Endpoint  EndpointNo
	Latest    time.Time // nothing is due later, nor is to be tried later
	ExpiresAt time.Time // of a run that begins now
}

// RetainParams are Retain's.
type RetainParams struct {
	Now               time.Time
	Retention         time.Duration
	DeadRetention     time.Duration
	IdempotencyWindow time.Duration // of NamespaceSource MinSourceWindow, if that is longer
	Limit             int           // rows a step, for what isn't dropped by the day
}

// KeyCuts returns the ids from which on idempotency keys are kept: those of
// NamespaceSource, and all others.
func (p RetainParams) KeyCuts() (source, other posthaste.ID) {
	return posthaste.FloorID(p.Now.Add(-max(p.IdempotencyWindow, MinSourceWindow))), posthaste.FloorID(p.Now.Add(-p.IdempotencyWindow))
}

// Retained says what Retain deleted.
type Retained struct {
	Partitions []string // names of the days dropped, such as "2026-10-30"
	Events     int      // rows deleted one by one (SQLite)
	Keys       int
	Secrets    int  // signing secrets
	Changes    int  // rows
	Gates      int  // of deleted endpoints
	Endpoints  int  // deleted ones that nothing names any more
	PurgedDead int  // dead letters that went
	More       bool // there is more to do now
}

// VerifyParams are Verify's.
type VerifyParams struct {
	From  posthaste.ID
	Limit int
}

// Verified is a page of what Verify found.
type Verified struct {
	Events, Deliveries, Attempts int // looked at
	Findings                     []Finding
	Next                         posthaste.ID // where to go on; zero at the end
}

// Finding is a violation of the promise.
type Finding struct {
	Delivery posthaste.ID // or event
	What     string
}
