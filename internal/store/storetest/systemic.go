package storetest

import (
	"errors"
	"testing"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// systemicCases are about refusals that are no row's fault.
var systemicCases = []testCase{
	{name: "a unique key that is not ours is systemic", run: testForeignKeySystemic},
	{name: "a table that is missing is systemic", run: testMissingTableSystemic},
	{name: "a check that refuses some rows is not systemic", run: testCheckNotSystemic},
}

func wantSystemic(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrSystemic) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%s: %v, want ErrSystemic", what, err)
	}
}

func testForeignKeySystemic(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	first, second := f.acceptLeased(t, r, ep), f.acceptLeased(t, r, ep)
	f.settleMoved(t, r, f.delivered(first))
	f.Exec(t, "delete from changes where kind = 1")
	f.Exec(t, "create unique index stray on changes (kind)")
	settling := store.SettleParams{Now: f.now, Settlements: []store.Settlement{f.delivered(second)}}
	_, err := r.Settle(t.Context(), settling)
	wantSystemic(t, "settle", err)
	accepting := f.params(t, r, f.event(f.leased(ep)))
	if _, err = r.Accept(t.Context(), accepting); err != nil {
		t.Fatal(err)
	}
	again := f.params(t, r, f.event(f.leased(ep)))
	_, err = r.Accept(t.Context(), again)
	wantSystemic(t, "accept", err)
	f.Exec(t, "drop index stray")
	if _, err = r.Accept(t.Context(), again); err != nil {
		t.Errorf("accept, mended: %v", err)
	}
	f.settleMoved(t, r, settling.Settlements...)
	f.purged = true // of changes
}

func testMissingTableSystemic(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	p := f.params(t, r, f.event(f.leased(ep)))
	f.Exec(t, "alter table changes rename to elsewhere")
	_, err := r.Accept(t.Context(), p)
	wantSystemic(t, "accept", err)
	f.Exec(t, "alter table elsewhere rename to changes")
	got, err := r.Accept(t.Context(), p)
	if err != nil || !got.Events[0].Stored {
		t.Errorf("accept, mended: %+v, %v", got, err)
	}
}

func testCheckNotSystemic(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	bad, good := f.event(f.leased(ep)), f.event(f.leased(ep))
	bad.Type = "refused"
	f.Refuse(t, "refused")
	_, err := r.Accept(t.Context(), f.params(t, r, bad))
	if err == nil || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("accept: %v, want a refusal", err)
	}
	f.accept(t, r, good)
}
