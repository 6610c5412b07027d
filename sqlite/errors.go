package sqlite

import (
	"context"
	"errors"
	"fmt"

	zs "zombiezen.com/go/sqlite"

	"github.com/posthaste-dev/posthaste/internal/store"
)

var (
	errClosed   = errors.New("the database is closed")
	errReadOnly = errors.New("the database was opened read-only")
)

// failed makes the error that a method returns: what was attempted, marked as
// [store.ErrUnavailable] where the same call may succeed another time.
func failed(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrUnavailable), !passes(err):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, store.ErrUnavailable, err)
}

// passes reports whether the cause of an error may be gone another time: a lock
// of another program, a full or failing disk, a deadline. Anything else (a
// constraint, a damaged file) would fail again.
func passes(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, errClosed) {
		return true
	}
	switch zs.ErrCode(err).ToPrimary() {
	case zs.ResultBusy, zs.ResultLocked, zs.ResultFull, zs.ResultIOErr, zs.ResultInterrupt,
		zs.ResultNoMem, zs.ResultCantOpen, zs.ResultProtocol, zs.ResultAbort, zs.ResultReadOnly:
		return true
	}
	return false
}
