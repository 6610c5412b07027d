package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var secretCases = []testCase{
	{name: "a rotation adds a secret and lets the others expire", run: testRotateSecret},
	{name: "a rotation without overlap ends the others at once", run: testRotateAtOnce},
	{name: "a rotation from another version is a conflict", run: testRotateConflict},
	{name: "of concurrent rotations from one version one wins", run: testRotateRace},
	{name: "expired secrets are deleted", run: testDropSecrets},
}

func rotationOf(ep store.EndpointRow, now, expireAt time.Time) store.RotateSecretParams {
	no := ep.Secrets[len(ep.Secrets)-1].No + 1
	return store.RotateSecretParams{
		Tenant: ep.Tenant, ID: ep.ID, FromVersion: ep.Version, Now: now, ExpireAt: expireAt,
		Secret: store.SealedSecret{No: no, Sealed: fmt.Append(nil, "sealed ", no), KeyID: fmt.Sprint("k", no)},
	}
}

func (f *fixture) rotate(t tester, p store.RotateSecretParams) store.EndpointRow {
	t.Helper()
	row, err := f.Store.RotateSecret(t.Context(), p)
	if err != nil {
		t.Fatalf("rotate secret: %v", err)
	}
	return row
}

func testRotateSecret(t *testing.T, f *fixture) {
	ep, other := f.endpoint(t), f.endpoint(t)
	before := f.routing(t, f.tenant, store.RoutingMark{}).Mark
	row := f.rotate(t, rotationOf(ep, f.at(time.Minute), f.at(time.Hour)))
	first, second := ep.Secrets[0], store.SealedSecret{No: 2, Sealed: []byte("sealed 2"), KeyID: "k2"}
	first.ExpiresAt = f.at(time.Hour)
	want := ep
	want.Version, want.UpdatedAt, want.Secrets = 2, f.at(time.Minute), []store.SealedSecret{first, second}
	same(t, "after the first rotation", row, want)
	same(t, "what is read", f.readEndpoint(t, ep.ID), want)
	if after := f.version(t, f.tenant); after.Version <= before.Version {
		t.Errorf("routing version %d after %d", after.Version, before.Version)
	}
	same(t, "routing", f.routing(t, f.tenant, before).Endpoints, []store.EndpointRow{want})
	if d, err := f.Store.Definition(t.Context(), ep.No, 2); err != nil || d.URL != ep.URL {
		t.Errorf("the definition of the new version: %+v, %v", d, err)
	}

	// A longer overlap does not prolong what ends earlier.
	row = f.rotate(t, rotationOf(row, f.at(2*time.Minute), f.at(3*time.Hour)))
	second.ExpiresAt = f.at(3 * time.Hour)
	third := store.SealedSecret{No: 3, Sealed: []byte("sealed 3"), KeyID: "k3"}
	same(t, "after the second", row.Secrets, []store.SealedSecret{first, second, third})
	// A shorter one shortens, and what has expired goes.
	row = f.rotate(t, rotationOf(row, f.at(time.Hour), f.at(2*time.Hour)))
	second.ExpiresAt, third.ExpiresAt = f.at(2*time.Hour), f.at(2*time.Hour)
	same(t, "after the third", row.Secrets, []store.SealedSecret{second, third, {No: 4, Sealed: []byte("sealed 4"), KeyID: "k4"}})
	same(t, "another endpoint", f.readEndpoint(t, other.ID), other)
}

func testRotateAtOnce(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	row := f.rotate(t, rotationOf(ep, f.now, f.at(time.Hour)))
	row = f.rotate(t, rotationOf(row, f.at(time.Minute), f.at(time.Minute)))
	same(t, "secrets", row.Secrets, []store.SealedSecret{{No: 3, Sealed: []byte("sealed 3"), KeyID: "k3"}})
}

func testRotateConflict(t *testing.T, f *fixture) {
	ep, acme := f.endpoint(t), f.createTenant(t, "acme")
	before := f.version(t, f.tenant)
	p := rotationOf(ep, f.now, f.at(time.Hour))
	p.FromVersion = 2
	_, err := f.Store.RotateSecret(t.Context(), p)
	wantErr(t, "another version", err, store.ErrConflict)
	p.FromVersion, p.Tenant = 1, acme
	_, err = f.Store.RotateSecret(t.Context(), p)
	wantErr(t, "another tenant's", err, store.ErrNotFound)
	p.Tenant, p.ID = f.tenant, f.minter.Mint(f.now)
	_, err = f.Store.RotateSecret(t.Context(), p)
	wantErr(t, "none", err, store.ErrNotFound)
	same(t, "endpoint", f.readEndpoint(t, ep.ID), ep)
	same(t, "routing version", f.version(t, f.tenant), before)
	f.deleteEndpoint(t, ep)
	_, err = f.Store.RotateSecret(t.Context(), rotationOf(ep, f.now, f.at(time.Hour)))
	wantErr(t, "a deleted one", err, store.ErrNotFound)
}

func testRotateRace(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	stores := []store.Store{f.Store, f.Another(t)}
	var won atomic.Int32
	concurrently(8, func(i int) {
		_, err := stores[i%2].RotateSecret(t.Context(), rotationOf(ep, f.now, f.at(time.Hour)))
		if err == nil {
			won.Add(1)
		} else {
			wantErr(t, "a rotation that lost", err, store.ErrConflict)
		}
	})
	if got := f.readEndpoint(t, ep.ID); won.Load() != 1 || got.Version != 2 || len(got.Secrets) != 2 {
		t.Errorf("%d rotations won, now %+v", won.Load(), got)
	}
}

func testDropSecrets(t *testing.T, f *fixture) {
	retain := func(at time.Time, limit int) store.Retained {
		t.Helper()
		got, err := f.Store.Retain(t.Context(), store.RetainParams{
			Now: at, Retention: 720 * time.Hour, DeadRetention: 720 * time.Hour, IdempotencyWindow: 720 * time.Hour, Limit: limit,
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	var ids []posthaste.ID
	for i := range 3 {
		row := f.rotate(t, rotationOf(f.endpoint(t), f.now, f.at(time.Duration(i+1)*time.Minute)))
		ids = append(ids, row.ID)
	}
	before := f.version(t, f.tenant)
	if got := retain(f.at(time.Minute-time.Microsecond), 500); got.Secrets != 0 {
		t.Errorf("%d secrets deleted that have not expired", got.Secrets)
	}
	if got := retain(f.at(time.Minute), 500); got.Secrets != 1 || len(f.readEndpoint(t, ids[0]).Secrets) != 1 {
		t.Errorf("deleted at its very end: %+v", got)
	}
	if got := retain(f.at(time.Hour), 1); got.Secrets != 1 || !got.More {
		t.Errorf("with a limit of one: %+v", got)
	}
	if got := retain(f.at(time.Hour), 500); got.Secrets != 1 {
		t.Errorf("the rest: %+v", got)
	}
	for _, id := range ids {
		if row := f.readEndpoint(t, id); len(row.Secrets) != 1 || row.Secrets[0].No != 2 || row.Version != 2 {
			t.Errorf("left: %+v", row)
		}
	}
	same(t, "routing version", f.version(t, f.tenant), before)
}
