package storetest

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// An endpoint of every tenant is one row. Deliveries to it are of the event's tenant.
var everyTenantCases = []testCase{
	{name: "every tenant has its number, and is in no list", run: testEveryTenantRow},
	{name: "an accept that does not know its newest endpoint is stale", run: testEveryTenantRouting},
	{name: "deliveries to its endpoints are the event's tenant's", run: testEveryTenantDeliveries},
	{name: "a deletion of a tenant leaves its endpoints alone", run: testEveryTenantOutlives},
}

func testEveryTenantRow(t *testing.T, f *fixture) {
	row, err := f.Store.Tenant(t.Context(), posthaste.TenantAll)
	if err != nil || row.No != store.EveryTenant {
		t.Errorf("%+v, %v; want number %d", row, err, store.EveryTenant)
	}
	for _, deleted := range []bool{false, true} {
		list, err := f.Store.ListTenants(t.Context(), store.ListTenantsParams{Deleted: deleted, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range list {
			if row.No == store.EveryTenant {
				t.Error("it is listed")
			}
		}
	}
	_, err = f.Store.CreateTenant(t.Context(), posthaste.Tenant{Name: posthaste.TenantAll, CreatedAt: f.now})
	wantErr(t, "a second one", err, store.ErrConflict)
}

func testEveryTenantRouting(t *testing.T, f *fixture) {
	r := f.replica(t)
	e := f.event()
	p := f.params(t, r, e)
	known := p.Routing[1]
	f.endpointOf(t, store.EveryTenant)
	got, err := r.Accept(t.Context(), p)
	if err != nil || len(got.Stale) != 1 || got.Stale[0].Tenant != known.Tenant || got.Stale[0].Version <= known.Version {
		t.Fatalf("accept: %+v, %v; want it stale", got, err)
	}
	_, err = f.Store.Event(t.Context(), f.tenant, e.ID)
	wantErr(t, "the event of a stale accept", err, store.ErrNotFound)
	if beat := r.beat(t, known); len(beat.Newer) != 1 || beat.Newer[0] != got.Stale[0] {
		t.Errorf("the beat brings %+v, want %+v", beat.Newer, got.Stale)
	}
	f.accept(t, r, e)
}

func testEveryTenantDeliveries(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpointOf(t, store.EveryTenant)
	other := f.createTenant(t, "other")
	mine, theirs := f.event(f.due(ep, f.now)), f.event(f.due(ep, f.now))
	theirs.Tenant = other
	f.accept(t, r, mine, theirs)
	leases := f.claim(t, r, f.at(time.Second), ep)
	if len(leases) != 2 {
		t.Fatalf("claimed %+v", leases)
	}
	for _, l := range leases {
		if want := map[posthaste.ID]store.TenantNo{mine.ID: f.tenant, theirs.ID: other}[l.Delivery.Event()]; l.Tenant != want {
			t.Errorf("a lease of tenant %d, want %d", l.Tenant, want)
		}
		f.settleMoved(t, r, f.permanent(l))
	}
	// Each tenant sees its own, by endpoint and by status, and all see both.
	for tenant, want := range map[store.TenantNo]int{f.tenant: 1, other: 1, store.EveryTenant: 0, 0: 2} {
		for _, status := range []string{"", "dead"} {
			page, err := f.Store.ListDeliveries(t.Context(), store.ListDeliveriesParams{Tenant: tenant, Endpoint: ep.No, Status: status, Limit: 10})
			if err != nil || len(page.Deliveries) != want {
				t.Errorf("tenant %d lists %d of status %q, want %d (%v)", tenant, len(page.Deliveries), status, want, err)
			}
		}
	}
	if d, err := f.Store.Delivery(t.Context(), other, theirs.ID.Delivery(1)); err != nil || d.EndpointID != ep.ID {
		t.Errorf("the delivery: %+v, %v", d, err)
	}
	err := f.Store.Replay(t.Context(), store.ReplayParams{Tenant: f.tenant, Delivery: theirs.ID.Delivery(1), Now: f.now, ExpiresAt: f.at(time.Hour)})
	wantErr(t, "a replay of another tenant's", err, store.ErrNotFound)
	if err := f.Store.Replay(t.Context(), store.ReplayParams{Tenant: other, Delivery: theirs.ID.Delivery(1), Now: f.now, ExpiresAt: f.at(time.Hour)}); err != nil {
		t.Errorf("replay: %v", err)
	}
	resent, err := f.Store.Resend(t.Context(), store.ResendParams{Tenant: other, Event: theirs.ID, Endpoint: ep.No, Now: f.now, ExpiresAt: f.at(time.Hour)})
	if err != nil || resent != theirs.ID.Delivery(2) {
		t.Errorf("resend: %v, %v", resent, err)
	}
	if err := f.Store.DeleteEndpoint(t.Context(), store.DeleteEndpointParams{Tenant: store.EveryTenant, ID: ep.ID, Now: f.now}); err != nil {
		t.Fatal(err)
	}
	n, err := f.Store.EndDeleted(t.Context(), store.EndDeletedParams{Endpoints: []store.EndpointNo{ep.No}, Now: f.now, Limit: 10})
	if err != nil || n != 2 {
		t.Errorf("ended %d after the deletion, %v; want 2", n, err)
	}
	_, err = f.Store.Resend(t.Context(), store.ResendParams{Tenant: other, Event: theirs.ID, Endpoint: ep.No, Now: f.now, ExpiresAt: f.at(time.Hour)})
	wantCode(t, "a resend after the deletion", err, posthaste.CodeEndpointDeleted)
	err = f.Store.Replay(t.Context(), store.ReplayParams{Tenant: f.tenant, Delivery: mine.ID.Delivery(1), Now: f.now, ExpiresAt: f.at(time.Hour)})
	wantCode(t, "a replay after the deletion", err, posthaste.CodeEndpointDeleted)
}

func testEveryTenantOutlives(t *testing.T, f *fixture) {
	ep := f.endpointOf(t, store.EveryTenant)
	other := f.createTenant(t, "other")
	if err := f.Store.DeleteTenant(t.Context(), store.DeleteTenantParams{No: other, Now: f.now}); err != nil {
		t.Fatal(err)
	}
	if row, err := f.Store.EndpointByNo(t.Context(), ep.No); err != nil || !row.DeletedAt.IsZero() {
		t.Errorf("the endpoint: %+v, %v", row, err)
	}
}
