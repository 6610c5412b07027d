package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-dev/posthaste/internal/store"
)

func TestErrorsAreSortedByTheirState(t *testing.T) {
	for state, want := range map[string]fault{
		"08006": faultPassing, "57014": faultPassing, "57P01": faultPassing, "40P01": faultPassing, "25006": faultPassing, "55P03": faultPassing,
		"53100": faultSystemic, "53200": faultSystemic, "58030": faultSystemic, // disk, memory, reading a file
		"42501": faultSystemic, "42P01": faultSystemic, "42703": faultSystemic, // a right, a table, a column
		"XX000": faultSystemic, "XX002": faultSystemic, "0A000": faultSystemic, "": faultSystemic,
		"23505": faultSystemic, "23503": faultSystemic, "23P01": faultSystemic, // keys that are not ours
		"22021": faultOfCall, "22P05": faultOfCall, "23502": faultOfCall, "23514": faultOfCall, "54000": faultOfCall, "P0001": faultOfCall,
	} {
		err := fail("settle", &pgconn.PgError{Severity: "ERROR", Code: state})
		if got := faultOfState(state); got != want {
			t.Errorf("%q is sorted as %d, want %d", state, got, want)
		}
		if got := errors.Is(err, store.ErrUnavailable); got != (want != faultOfCall) {
			t.Errorf("%q is unavailable: %v", state, got)
		}
		if got := errors.Is(err, store.ErrSystemic); got != (want == faultSystemic) {
			t.Errorf("%q is systemic: %v", state, got)
		}
	}
	if err := fail("settle", &pgconn.PgError{Severity: "FATAL", Code: "42501"}); errors.Is(err, store.ErrSystemic) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the end of a session is sorted as %v", err)
	}
}
