package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// SQLSTATEs that the driver acts on
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	stateCheckViolation      = "23514" // also: no partition for the row
	stateUniqueViolation     = "23505"
	stateForeignKeyViolation = "23503"
	stateExclusionViolation  = "23P01"
	stateStackDepth          = "54001"
	stateUndefinedTable      = "42P01"
	stateNotPermitted        = "42501"
	stateDuplicateTable      = "42P07"
	stateLockTimeout         = "55P03"
	stateDivisionByZero      = "22012"
	stateProtocol            = "08P01" // of PgBouncer: whatever it does not like
)

// fail says what was attempted, and wraps [store.ErrUnavailable] where the
// outcome of the call is unknown or may be another one next time, and
// [store.ErrSystemic] where that takes a person.
func fail(what string, err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("%s: %w", what, err)
	}
	switch faultOf(err) {
	case faultPassing:
		return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, err)
	case faultSystemic:
		return fmt.Errorf("%s: %w: %w: %w", what, store.ErrUnavailable, store.ErrSystemic, err)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// fault says what an error is due to.
type fault int

const (
	faultOfCall   fault = iota // the values of the call, or an answer of the contract
	faultPassing               // the database is away, slow or hindered
	faultSystemic              // the database refuses whatever the values are
)

// isUnavailable reports whether the same call may have another outcome next time.
func isUnavailable(err error) bool { return faultOf(err) != faultOfCall }

// faultOf sorts an error. Whatever isn't an answer of the server (a broken or
// refused connection, a deadline) leaves open whether the statement was
// committed, so everything passes that isn't known to be an answer. Of the
// answers only those about data, checks and limits of size, and those that a trigger
// raises, concern the values of the call. The driver handles conflicts of its own
// keys before it comes here: any other key is not Posthaste's.
func faultOf(err error) fault {
	for _, verdict := range []error{pgx.ErrNoRows, store.ErrFenced, store.ErrRewound, store.ErrNotFound, store.ErrConflict, store.ErrTaken, store.ErrForeignSchema, store.ErrLocked, store.ErrParentKept} {
		if errors.Is(err, verdict) {
			return faultOfCall
		}
	}
	if _, ok := errors.AsType[*posthaste.Error](err); ok {
		return faultOfCall
	}
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || answer.Severity == "FATAL" || answer.Severity == "PANIC" { // the session is over
		return faultPassing
	}
	return faultOfState(answer.Code)
}

// faultOfState sorts a SQLSTATE.
func faultOfState(state string) fault {
	switch state {
	case "25006", // read-only: a standby, until the failover is complete
		"25P03",          // idle in transaction for too long
		"40001", "40P01", // serialization, deadlock
		"55006", stateLockTimeout, // object in use, lock not available
		"57014": // statement timeout
		return faultPassing
	case stateUniqueViolation, stateForeignKeyViolation, stateExclusionViolation, stateStackDepth:
		return faultSystemic
	}
	if len(state) < 2 {
		return faultSystemic
	}
	switch state[:2] {
	case "08", "57": // connection; shutdown, crash recovery, not started yet
		return faultPassing
	case "21", "22", "23", "44", "54", "P0": // cardinality, data, constraints, check options, limits of size, triggers
		return faultOfCall
	}
	return faultSystemic // also 53 and 58: resources and the system, such as a full disk
}

// undecodable is the error for something stored that can't be read: asking
// again would not help, so it isn't taken for an unavailable database.
func undecodable(what string, err error) error {
	return &posthaste.Error{
		Code: posthaste.CodeInternal, Message: "decode " + what,
		Hint: "was it changed by hand?", Err: err,
	}
}

// hasState reports whether the server answered with the given SQLSTATE.
func hasState(err error, state string) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && answer.Code == state
}

// isMissingPartition reports whether a row found no partition of its day.
func isMissingPartition(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && answer.Code == stateCheckViolation && answer.ConstraintName == ""
}

// orPooler explains what PgBouncer says to a session's settings where it was not
// expected. It is no passing trouble, though PgBouncer calls every error fatal.
func orPooler(err error) error {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || answer.Code != stateProtocol || !strings.Contains(answer.Message, "startup parameter") {
		return err
	}
	return &posthaste.Error{
		Code: posthaste.CodeInternal, Message: "a pooler refuses the session: " + answer.Message,
		Hint: "give the URL of the server itself as --db-direct, and in --db no parameters that the pooler doesn't know", Err: err,
	}
}

// bounded gives ctx a deadline if it has none: no call may hang for ever on a
// connection whose other end is gone.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}
