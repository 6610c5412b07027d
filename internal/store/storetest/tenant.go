package storetest

import (
	"fmt"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var tenantCases = []testCase{
	{name: "default and operator exist from the start", run: testTenantsFirst},
	{name: "a tenant is made once", run: testCreateTenant},
	{name: "of concurrent creations of a name one wins", run: testCreateTenantRace},
	{name: "tenants are listed newest first, in pages", run: testListTenants},
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
	made, err := f.Store.CreateTenant(t.Context(), "acme", f.now)
	if err != nil || made.Name != "acme" || made.No == 0 || !made.CreatedAt.Equal(f.now) {
		t.Fatalf("create tenant: %+v, %v", made, err)
	}
	got, err := f.Another(t).Tenant(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "tenant", got, made)
	_, err = f.Store.CreateTenant(t.Context(), "acme", f.now)
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
	concurrently(len(errs), func(i int) { _, errs[i] = stores[i%2].CreateTenant(t.Context(), "acme", f.now) })
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
