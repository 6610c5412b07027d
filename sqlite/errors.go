package sqlite

import (
	"context"
	"errors"
	"fmt"

	zs "zombiezen.com/go/sqlite"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var (
	errClosed   = errors.New("the database is closed")
	errReadOnly = errors.New("the database was opened read-only")
)

// failed makes the error that a method returns: what was attempted, marked as
// [store.ErrUnavailable] where the same call may succeed another time, and as
// [store.ErrSystemic] where that takes a person.
func failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	switch faultOf(err) {
	case faultPassing:
		return fmt.Errorf("%s: %w: %w", doing, store.ErrUnavailable, err)
	case faultSystemic:
		return fmt.Errorf("%s: %w: %w: %w", doing, store.ErrUnavailable, store.ErrSystemic, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// fault says what an error is due to.
type fault int

const (
	faultOfCall   fault = iota // the values of the call, or an answer of the contract
	faultPassing               // a lock of another program, a deadline
	faultSystemic              // the file, the disk or the schema, whatever the values are
)

// faultOf sorts an error. The driver handles conflicts of its own keys before it comes
// here: any other key is not Posthaste's. What is neither an answer of the contract nor a known
// code of SQLite (a missing table is one, a trigger's refusal another) is
// systemic: the same statement works with other databases.
func faultOf(err error) fault {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, errClosed) {
		return faultPassing
	}
	for _, verdict := range []error{store.ErrFenced, store.ErrRewound, store.ErrNotFound, store.ErrConflict, store.ErrTaken, store.ErrForeignSchema, store.ErrLocked, store.ErrParentKept} {
		if errors.Is(err, verdict) {
			return faultOfCall
		}
	}
	if _, ok := errors.AsType[*posthaste.Error](err); ok || errors.Is(err, errReadOnly) || errors.Is(err, errHeaders) {
		return faultOfCall
	}
	code := zs.ErrCode(err)
	switch code {
	case zs.ResultConstraintUnique, zs.ResultConstraintPrimaryKey, zs.ResultConstraintRowID, zs.ResultConstraintForeignKey:
		return faultSystemic
	}
	switch code.ToPrimary() {
	case zs.ResultBusy, zs.ResultLocked, zs.ResultInterrupt, zs.ResultProtocol, zs.ResultAbort, zs.ResultNoMem:
		return faultPassing
	case zs.ResultConstraint, zs.ResultTooBig, zs.ResultMismatch, zs.ResultRange:
		return faultOfCall
	default: // a full or failing disk, a damaged file, a read-only file
		return faultSystemic
	}
}
