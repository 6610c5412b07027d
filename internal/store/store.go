// Package store is the storage contract: the verbs of the state machine, each
// with its promise. Two drivers fulfil it, sqlite and postgres, and one suite,
// storetest, holds both to it.
//
// The tables events, deliveries and attempts are the truth. due and dead are
// indexes that can be rebuilt from it, and replicas and gates can be emptied: nothing is
// lost by it. Every state change is one conditional update whose row count is
// the answer; no lock in the program decides between replicas.
//
// # Leases
//
// A lease is (delivery, attempt number n), held by an epoch: deliveries.owner is
// the epoch and n is deliveries.attempts + 1. Fresh work is born leased. Other
// work has a row in due, and is claimed by setting owner on the due row and on
// the delivery in one transaction, due_at untouched. A settlement moves the
// delivery only where it is pending, attempts = n - 1 and owner = the epoch. Whoever revokes
// a living lease records n as lost and advances attempts in the same
// transaction, so that a number is never used twice.
//
// deliveries.due_at names the delivery's own due row (zero: none), and every
// transition removes exactly that one. The delivery is the truth and the due
// row a hint: a claim drops due rows whose delivery is gone, is not pending, or
// names another time.
//
// # Order
//
// For an endpoint whose definition says "ordered", due_at is a position, no time: the
// larger of the database's clock in microseconds and 1,000 above the endpoint's
// highest one (those further than an hour ahead don't count: they are retries from before
// it was ordered). Positions are given under a lock of the endpoint's that is held to
// the commit, so their order is that of the commits. A transition that keeps a place in
// the order sets due_at one higher, so that no two leases of a delivery are taken for
// one another, and says in due.try_at when it may be tried. Revoking does so too.
//
// # Lock order
//
// gates, the lock of an ordered endpoint, replicas, due, deliveries, each by key.
//
// # Errors
//
// Every method may fail with [ErrUnavailable]: the database is away, too slow,
// or gave up a transaction for a reason that passes (deadlock, full disk); what
// was asked for may or may not have been committed. Where the database answers
// and refuses for a reason that is not in the values of the call (a missing
// right, a missing table, a damaged index, a trigger), the error wraps
// [ErrSystemic] too: the same call works once somebody has repaired the cause.
// Any other error means that nothing was written, and that the same call would
// fail again.
//
// Times are whole microseconds, UTC. The zero time means "none". A method that takes
// Now is given the engine's estimate of the database's clock.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-dev/posthaste"
)

var (
	// ErrUnavailable says that the database could not be asked, or did not
	// answer; the outcome of a change is unknown.
	ErrUnavailable = errors.New("the database is not available")
	// ErrSystemic says that the database answers and refuses for a reason that is
	// not in the values of the call. Such an error wraps ErrUnavailable as well.
	ErrSystemic = errors.New("the database refuses for a reason that a person has to repair")
	// ErrFenced says that the epoch of the call has no fresh row in replicas:
	// nothing was written. Beat, or register anew, and try again.
	ErrFenced = errors.New("the replica's lease on its epoch has ended")
	// ErrRewound says that the database is another one than the caller knows, or has
	// gone back in time: a standby without the last commits was promoted, or a backup was
	// restored. Nothing was written. What memory has verified counts no more: register
	// anew, and forget the rest.
	ErrRewound = errors.New("the database is another one, or has gone back in time")
	// ErrNotFound says that no such object exists (for this tenant).
	ErrNotFound = errors.New("not found")
	// ErrConflict says that the object exists, or is no longer at the version
	// that the call names.
	ErrConflict = errors.New("conflict")
	// ErrTaken says that another living object of the tenant has that uid.
	ErrTaken = errors.New("the uid is taken")
	// ErrForeignSchema says that the database was made by another version of
	// this program. The driver's error adds what to do.
	ErrForeignSchema = errors.New("the database has another schema")
)

// Store is a database that Posthaste runs on. Its methods are safe for
// concurrent use.
type Store interface {
	Replicas
	Acceptance
	Delivery
	Gates
	Skipping
	Repair
	Upkeep
	Tenants
	Endpoints
	Sources
	Reading
	Changes

	// Ping reports whether the database answers.
	Ping(ctx context.Context) error
	// Close releases the connections. It waits for calls under way.
	Close() error
}

// TenantNo is the small number that rows carry instead of a tenant's name. It is
// local to one database and never leaves it. 0 is none.
type TenantNo int32

// EveryTenant is the number of [posthaste.TenantAll], in every database: its
// endpoints are matched with those of the tenant that an event is of, so its
// routing version goes along wherever theirs does.
const EveryTenant TenantNo = 3

// EndpointNo is the same for an endpoint.
type EndpointNo int32

// Epoch names one life of a replica; it is never used again. 0 is none. Drivers that
// several replicas share take it from the clock where the clock is ahead of the sequence, so
// that it is not used again either after the database has gone back in time.
type Epoch int32

// Hash is 16 bytes of a SHA-256.
type Hash [16]byte

// FreshBeat is how old a replica's beat may be for an accept or a claim to
// pass the fence.
const FreshBeat = 5 * time.Second

// TenantVersion is a state of a tenant's routing: it rises with every change of
// one of its endpoints, in commit order. A database that was restored, or a standby
// that was promoted, may be at an earlier one than a replica remembers: versions are
// compared for equality, never for order.
type TenantVersion struct {
	Tenant  TenantNo
	Version int64
}

// NoVersion is the version that is answered for a tenant that does not exist.
const NoVersion = -1

// Lease is the right to make attempt Number of a delivery.
type Lease struct {
	Delivery  posthaste.ID
	Tenant    TenantNo
	Endpoint  EndpointNo
	Epoch     Epoch
	Number    int       // what the receiver sees as posthaste-attempt
	Failures  int       // transient failures of this run so far
	DueAt     time.Time // of the due row it was claimed from; zero for work born leased
	ExpiresAt time.Time // the end of the run
}
