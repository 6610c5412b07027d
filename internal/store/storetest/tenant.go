package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var tenantCases = []testCase{
	{name: "default and operator exist from the start", run: testTenantsFirst},
	{name: "a tenant is made once", run: testCreateTenant},
	{name: "of concurrent creations of a name one wins", run: testCreateTenantRace},
	{name: "tenants are listed newest first, in pages", run: testListTenants},
	{name: "a tenant is found by its uid, which is unique among the living", run: testTenantUID},
	{name: "a change of a tenant raises its version", run: testUpdateTenant},
	{name: "a deleted tenant takes its endpoints with it and keeps its name", run: testDeleteTenant},
	{name: "no endpoint survives the deletion of its tenant", run: testDeleteTenantRace},
}

func testTenantsFirst(t *testing.T, f *fixture) {
	for _, name := range []string{posthaste.TenantDefault, posthaste.TenantOperator} {
		row, err := f.Store.Tenant(t.Context(), name)
		if err != nil || row.Name != name || row.No == 0 || row.CreatedAt.IsZero() {
			t.Errorf("tenant %q: %+v, %v", name, row, err)
		}
	}
	_, err := f.Store.Tenant(t.Context(), "defaul")
	wantErr(t, "a tenant with a typo", err, store.ErrNotFound)
}

func testCreateTenant(t *testing.T, f *fixture) {
	made, err := f.Store.CreateTenant(t.Context(), posthaste.Tenant{Name: "acme", CreatedAt: f.now})
	if err != nil || made.Name != "acme" || made.No == 0 || !made.CreatedAt.Equal(f.now) {
		t.Fatalf("create tenant: %+v, %v", made, err)
	}
	got, err := f.Another(t).Tenant(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "tenant", got, made)
	_, err = f.Store.CreateTenant(t.Context(), posthaste.Tenant{Name: "acme", CreatedAt: f.now})
	wantErr(t, "a second one of the name", err, store.ErrConflict)
	if v := f.version(t, made.No); v.Version != made.RoutingVersion {
		t.Errorf("routing version %d, made with %d", v.Version, made.RoutingVersion)
	}
	f.endpointOf(t, made.No)
	if got, err := f.Store.Tenant(t.Context(), "acme"); err != nil || got.RoutingVersion <= made.RoutingVersion {
		t.Errorf("routing version after a change: %+v, %v", got, err)
	}
}

func testCreateTenantRace(t *testing.T, f *fixture) {
	stores, errs := []store.Store{f.Store, f.Another(t)}, make([]error, 8)
	concurrently(len(errs), func(i int) {
		_, errs[i] = stores[i%2].CreateTenant(t.Context(), posthaste.Tenant{Name: "acme", CreatedAt: f.now})
	})
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			wantErr(t, "a creation that lost", err, store.ErrConflict)
		}
	}
	if won != 1 {
		t.Errorf("%d creations won, want 1", won)
	}
}

func testListTenants(t *testing.T, f *fixture) {
	for i := range 5 {
		f.createTenant(t, fmt.Sprint("tenant-", i))
	}
	var names []string
	for p := (store.ListTenantsParams{Limit: 2}); ; {
		page, err := f.Store.ListTenants(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		if len(page) > p.Limit {
			t.Fatalf("a page of %d", len(page))
		}
		for _, row := range page {
			names = append(names, row.Name)
		}
		p.Before = page[len(page)-1].No
	}
	if len(names) != 7 || names[5]+names[6] != "operatordefault" && names[5]+names[6] != "defaultoperator" {
		t.Fatalf("tenants %q, want the first two last", names)
	}
	same(t, "made later", names[:5], []string{"tenant-4", "tenant-3", "tenant-2", "tenant-1", "tenant-0"})
}

func testTenantUID(t *testing.T, f *fixture) {
	want := posthaste.Tenant{Name: "acme", UID: "crm:1", Metadata: map[string]string{"plan": "ü", "": "x"}, CreatedAt: f.now}
	made, err := f.Store.CreateTenant(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	want.Version, want.UpdatedAt = 1, f.now
	same(t, "made", made.Tenant, want)
	for _, find := range []func() (store.TenantRow, error){
		func() (store.TenantRow, error) { return f.Another(t).TenantByUID(t.Context(), "crm:1") },
		func() (store.TenantRow, error) { return f.Store.TenantByNo(t.Context(), made.No) },
	} {
		got, err := find()
		if err != nil {
			t.Fatal(err)
		}
		same(t, "found", got, made)
	}
	for _, uid := range []string{"", "crm:", "CRM:1"} {
		_, err := f.Store.TenantByUID(t.Context(), uid)
		wantErr(t, "uid "+uid, err, store.ErrNotFound)
	}
	_, err = f.Store.TenantByNo(t.Context(), 1<<30)
	wantErr(t, "a number that is not there", err, store.ErrNotFound)
	_, err = f.Store.CreateTenant(t.Context(), posthaste.Tenant{Name: "other", UID: "crm:1", CreatedAt: f.now})
	wantErr(t, "a second one of the uid", err, store.ErrTaken)
	_, err = f.Store.Tenant(t.Context(), "other")
	wantErr(t, "it was not made", err, store.ErrNotFound)
	stores, errs := []store.Store{f.Store, f.Another(t)}, make([]error, 8)
	concurrently(len(errs), func(i int) {
		_, errs[i] = stores[i%2].CreateTenant(t.Context(), posthaste.Tenant{Name: fmt.Sprint("t", i), UID: "crm:2", CreatedAt: f.now})
	})
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			wantErr(t, "a creation that lost", err, store.ErrTaken)
		}
	}
	if won != 1 {
		t.Errorf("%d creations won, want 1", won)
	}
}

func testUpdateTenant(t *testing.T, f *fixture) {
	f.createTenant(t, "b")
	made, err := f.Store.CreateTenant(t.Context(), posthaste.Tenant{Name: "acme", CreatedAt: f.now})
	if err != nil {
		t.Fatal(err)
	}
	p := store.UpdateTenantParams{No: made.No, FromVersion: 1, UID: "u", Metadata: map[string]string{"a": "b"}, Now: f.at(time.Second)}
	got, err := f.Store.UpdateTenant(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	want := made
	want.UID, want.Metadata, want.Version, want.UpdatedAt = "u", p.Metadata, 2, f.at(time.Second)
	same(t, "changed", got, want)
	_, err = f.Store.UpdateTenant(t.Context(), p)
	wantErr(t, "a change from another version", err, store.ErrConflict)
	p.FromVersion = 2
	if got, err = f.Store.UpdateTenant(t.Context(), p); err != nil || got.UID != "u" || got.Version != 3 {
		t.Errorf("its own uid is not taken: %+v, %v", got, err)
	}
	other, err := f.Store.Tenant(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	p.No, p.FromVersion = other.No, other.Version
	_, err = f.Store.UpdateTenant(t.Context(), p)
	wantErr(t, "the uid of another", err, store.ErrTaken)
	p.No = 1 << 30
	_, err = f.Store.UpdateTenant(t.Context(), p)
	wantErr(t, "a change of nothing", err, store.ErrNotFound)
}

func testDeleteTenant(t *testing.T, f *fixture) {
	r := f.replica(t)
	made, err := f.Store.CreateTenant(t.Context(), posthaste.Tenant{Name: "acme", UID: "u", CreatedAt: f.now})
	if err != nil {
		t.Fatal(err)
	}
	home, kept := f.tenant, f.endpoint(t)
	f.tenant = made.No
	ep := f.endpoint(t)
	gone := f.endpoint(t)
	f.deleteEndpoint(t, gone)
	goneRow := f.readEndpoint(t, gone.ID)
	id := f.die(t, r, ep)
	stale := f.params(t, r, f.event(f.leased(ep)))
	mark := f.routing(t, made.No, store.RoutingMark{}).Mark

	err = f.Store.DeleteTenant(t.Context(), store.DeleteTenantParams{No: made.No, FromVersion: 7, Now: f.at(time.Second)})
	wantErr(t, "deleting it at another version", err, store.ErrConflict)
	if row := f.readEndpoint(t, ep.ID); !row.DeletedAt.IsZero() {
		t.Errorf("a refused deletion left %+v", row)
	}
	if err := f.Store.DeleteTenant(t.Context(), store.DeleteTenantParams{No: made.No, FromVersion: 1, Now: f.at(time.Second)}); err != nil {
		t.Fatal(err)
	}
	routing := f.routing(t, made.No, mark)
	if !routing.DeletedAt.Equal(f.at(time.Second)) || routing.Mark.Version <= stale.Routing[0].Version || len(routing.Endpoints) != 1 || routing.Endpoints[0].ID != ep.ID {
		t.Errorf("routing: %+v", routing)
	}
	if row := f.readEndpoint(t, ep.ID); !row.DeletedAt.Equal(f.at(time.Second)) {
		t.Errorf("its endpoint: %+v", row)
	}
	same(t, "an endpoint that was deleted before", f.readEndpoint(t, gone.ID), goneRow)
	r.fresh(t)
	if got, err := r.Accept(t.Context(), stale); err != nil || len(got.Stale) != 1 {
		t.Errorf("an event that was matched before: %+v, %v; want it stale", got, err)
	}
	_, err = f.Store.CreateEndpoint(t.Context(), store.CreateEndpointParams{
		Tenant: made.No, Endpoint: posthaste.Endpoint{ID: f.minter.Mint(f.now), Definition: posthaste.DefaultDefinition(), CreatedAt: f.now},
	})
	wantErr(t, "a new endpoint", err, store.ErrNotFound)
	row, err := f.Store.Tenant(t.Context(), "acme")
	if err != nil || !row.DeletedAt.Equal(f.at(time.Second)) || row.No != made.No || row.Version != 2 {
		t.Errorf("tombstone: %+v, %v", row, err)
	}
	f.wantStatus(t, id, "dead", 1) // history stays readable

	_, err = f.Store.CreateTenant(t.Context(), posthaste.Tenant{Name: "acme", CreatedAt: f.now})
	wantErr(t, "another one of the name", err, store.ErrConflict)
	_, err = f.Store.TenantByUID(t.Context(), "u")
	wantErr(t, "its uid", err, store.ErrNotFound)
	if _, err := f.Store.CreateTenant(t.Context(), posthaste.Tenant{Name: "acme2", UID: "u", CreatedAt: f.now}); err != nil {
		t.Errorf("its uid is free again: %v", err)
	}
	wantErr(t, "a second deletion", f.Store.DeleteTenant(t.Context(), store.DeleteTenantParams{No: made.No, Now: f.now}), store.ErrNotFound)
	_, err = f.Store.UpdateTenant(t.Context(), store.UpdateTenantParams{No: made.No, FromVersion: 2, Now: f.now})
	wantErr(t, "a change of a deleted one", err, store.ErrNotFound)
	for deleted, want := range map[bool]int{false: 3, true: 4} {
		page, err := f.Store.ListTenants(t.Context(), store.ListTenantsParams{Limit: 10, Deleted: deleted})
		if err != nil || len(page) != want {
			t.Errorf("listed, deleted %t: %d, %v; want %d", deleted, len(page), err, want)
		}
	}
	f.tenant = home
	same(t, "another tenant's endpoint", f.readEndpoint(t, kept.ID), kept)
}

func testDeleteTenantRace(t *testing.T, f *fixture) {
	acme := f.createTenant(t, "acme")
	first := f.endpointOf(t, acme)
	stores := []store.Store{f.Store, f.Another(t), f.Another(t)}
	concurrently(6, func(i int) {
		s := stores[i%3]
		if i == 0 {
			for { // a change of an endpoint may have been in its way
				err := s.DeleteTenant(t.Context(), store.DeleteTenantParams{No: acme, Now: f.now})
				if err == nil || !errors.Is(err, store.ErrUnavailable) {
					wantErr(t, "delete tenant", err, nil)
					return
				}
			}
		}
		for n := range 20 {
			e := posthaste.Endpoint{ID: f.minter.Mint(f.now), Definition: posthaste.DefaultDefinition(), CreatedAt: f.now}
			_, err := s.CreateEndpoint(t.Context(), store.CreateEndpointParams{Tenant: acme, Endpoint: e})
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("create endpoint: %v", err)
			}
			p := updateOf(first, "https://receiver.example/", f.now)
			p.FromVersion = n + 1
			_, err = s.UpdateEndpoint(t.Context(), p)
			if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("update endpoint: %v", err)
			}
		}
	})
	if rows, err := f.Store.ListEndpoints(t.Context(), store.ListEndpointsParams{Tenant: acme, Limit: 200}); err != nil || len(rows) != 0 {
		t.Errorf("%d endpoints live on, %v", len(rows), err)
	}
	if r := f.routing(t, acme, store.RoutingMark{}); r.DeletedAt.IsZero() || len(r.Endpoints) != 0 {
		t.Errorf("routing: %+v", r)
	}
}
