package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var endpointCases = []testCase{
	{name: "an endpoint is stored with its secrets", run: testCreateEndpoint},
	{name: "a change raises the version and keeps the old definition", run: testUpdateEndpoint},
	{name: "a change from another version is a conflict", run: testUpdateConflict},
	{name: "of concurrent changes from one version one wins", run: testUpdateRace},
	{name: "pause and disablement are part of a change", run: testPauseEndpoint},
	{name: "a deleted endpoint stays as a tombstone", run: testDeleteEndpoint},
	{name: "endpoints are listed newest first, in pages", run: testListEndpoints},
	{name: "other tenants see no endpoint", run: testEndpointTenants},
	{name: "an endpoint is found by its uid, which is unique among the tenant's living ones", run: testEndpointUID},
	{name: "of concurrent creations with a uid one wins", run: testEndpointUIDRace},
	{name: "a deletion from another version is a conflict", run: testDeleteConflict},
	{name: "one endpoint that can't be read is no error for the others", run: testUnusableEndpoint},
	{name: "all tenants' endpoints are listed, and deleted ones where asked for", run: testListAllEndpoints},
}

func (f *fixture) readEndpoint(t tester, id posthaste.ID) store.EndpointRow {
	t.Helper()
	row, err := f.Store.Endpoint(t.Context(), f.tenant, id)
	if err != nil {
		t.Fatalf("endpoint: %v", err)
	}
	return row
}

func testCreateEndpoint(t *testing.T, f *fixture) {
	before := f.version(t, f.tenant)
	want := posthaste.Endpoint{
		ID: f.minter.Mint(f.now), CreatedAt: f.now, Version: 1, Paused: true,
		Definition: posthaste.Definition{
			URL: "https://example.com/ü?a=b", Description: "die 'erste'\n", EventTypes: []string{"invoice.*", "order.paid"},
			Headers: map[string]string{"X-A": "1", "X-B": ""}, MaxInFlight: 3,
			Signature: posthaste.Signature{Scheme: posthaste.SchemeHex, Headers: posthaste.SignatureHeaders{Timestamp: "X-T", Signature: "X-S"}},
			Retry: posthaste.RetryPolicy{
				Schedule: []posthaste.Duration{posthaste.Duration(1500 * time.Millisecond)}, Jitter: 0.25,
				Timeout: posthaste.Duration(time.Second), Deadline: posthaste.Duration(time.Hour), Transient: []string{"5xx"},
			},
		},
	}
	secrets := []store.SealedSecret{
		{No: 1, Sealed: []byte{0, 0xff, 1}, KeyID: "k1", ExpiresAt: f.at(time.Hour)},
		{No: 2, Sealed: []byte("two"), KeyID: "k2"},
	}
	made, err := f.Store.CreateEndpoint(t.Context(), store.CreateEndpointParams{Tenant: f.tenant, Endpoint: want, Secrets: secrets})
	if err != nil {
		t.Fatal(err)
	}
	if made.No == 0 || made.Version != 1 || !made.DeletedAt.IsZero() {
		t.Errorf("made: %+v", made)
	}
	got := f.readEndpoint(t, want.ID)
	same(t, "what is read, against what was answered", got, made)
	want.UpdatedAt = got.UpdatedAt // the contract leaves open what it is before the first change
	same(t, "endpoint", got, store.EndpointRow{No: made.No, Tenant: f.tenant, Endpoint: want, Secrets: secrets})
	byNo, err := f.Another(t).EndpointByNo(t.Context(), made.No)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "endpoint by number", byNo, got)
	if after := f.version(t, f.tenant); after.Version <= before.Version {
		t.Errorf("routing version %d after %d", after.Version, before.Version)
	}
}

func updateOf(ep store.EndpointRow, url string, now time.Time) store.UpdateEndpointParams {
	p := store.UpdateEndpointParams{Tenant: ep.Tenant, Endpoint: ep.Endpoint, FromVersion: ep.Version}
	p.Endpoint.URL, p.Endpoint.UpdatedAt = url, now
	return p
}

func testUpdateEndpoint(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	urls := []string{ep.URL}
	for v := 2; v <= 4; v++ {
		before := f.version(t, f.tenant)
		urls = append(urls, "https://receiver.example/"+string(rune('0'+v)))
		row, err := f.Store.UpdateEndpoint(t.Context(), updateOf(ep, urls[v-1], f.at(time.Duration(v)*time.Second)))
		if err != nil {
			t.Fatal(err)
		}
		if row.Version != v || row.URL != urls[v-1] || !row.UpdatedAt.Equal(f.at(time.Duration(v)*time.Second)) || !row.CreatedAt.Equal(f.now) {
			t.Errorf("version %d: %+v", v, row)
		}
		same(t, "endpoint", f.readEndpoint(t, ep.ID), row)
		if after := f.version(t, f.tenant); after.Version <= before.Version {
			t.Errorf("routing version %d after %d", after.Version, before.Version)
		}
		ep = row
	}
	if len(ep.Secrets) != 1 {
		t.Errorf("a change lost the secrets: %+v", ep.Secrets)
	}
	for v, url := range urls {
		d, err := f.Store.Definition(t.Context(), ep.No, v+1)
		want := ep.Definition
		want.URL = url
		same(t, "definition", d, want)
		if err != nil {
			t.Error(err)
		}
	}
	for _, v := range []int{0, 5} {
		_, err := f.Store.Definition(t.Context(), ep.No, v)
		wantErr(t, "a version that never was", err, store.ErrNotFound)
	}
}

func testUpdateConflict(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	p := updateOf(ep, "https://receiver.example/2", f.now)
	if _, err := f.Store.UpdateEndpoint(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	before, want := f.version(t, f.tenant), f.readEndpoint(t, ep.ID)
	for _, from := range []int{0, 1, 3} {
		p.FromVersion, p.Endpoint.URL = from, "https://receiver.example/lost"
		_, err := f.Store.UpdateEndpoint(t.Context(), p)
		wantErr(t, "a change from another version", err, store.ErrConflict)
	}
	same(t, "endpoint", f.readEndpoint(t, ep.ID), want)
	same(t, "routing version", f.version(t, f.tenant), before)

	p.Endpoint.ID = f.minter.Mint(f.now)
	_, err := f.Store.UpdateEndpoint(t.Context(), p)
	wantErr(t, "a change of nothing", err, store.ErrNotFound)
}

func testUpdateRace(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	stores := []store.Store{f.Store, f.Another(t)}
	var won atomic.Int32
	concurrently(8, func(i int) {
		_, err := stores[i%2].UpdateEndpoint(t.Context(), updateOf(ep, "https://receiver.example/"+string(rune('a'+i)), f.now))
		if err == nil {
			won.Add(1)
		} else {
			wantErr(t, "a change that lost", err, store.ErrConflict)
		}
	})
	if got := f.readEndpoint(t, ep.ID); won.Load() != 1 || got.Version != 2 {
		t.Errorf("%d changes won, now at version %d; want 1 and 2", won.Load(), got.Version)
	}
}

func testPauseEndpoint(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	p := updateOf(ep, ep.URL, f.now)
	p.Endpoint.Paused, p.Endpoint.Disabled, p.Endpoint.DisabledReason = true, true, "answered 410"
	if _, err := f.Store.UpdateEndpoint(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	got := f.readEndpoint(t, ep.ID)
	if !got.Paused || !got.Disabled || got.DisabledReason != "answered 410" {
		t.Errorf("paused and disabled: %+v", got)
	}
	if _, err := f.Store.UpdateEndpoint(t.Context(), updateOf(got, ep.URL, f.now)); err != nil {
		t.Fatal(err)
	}
	p.Endpoint.Paused, p.Endpoint.Disabled, p.Endpoint.DisabledReason, p.FromVersion = false, false, "", 3
	if got, err := f.Store.UpdateEndpoint(t.Context(), p); err != nil || got.Paused || got.Disabled || got.DisabledReason != "" || got.Version != 4 {
		t.Errorf("opened again: %+v, %v", got, err)
	}
}

func testDeleteEndpoint(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	id := f.die(t, r, ep)
	before := f.version(t, f.tenant)
	if err := f.Store.DeleteEndpoint(t.Context(), store.DeleteEndpointParams{Tenant: f.tenant, ID: ep.ID, Now: f.at(time.Second)}); err != nil {
		t.Fatal(err)
	}
	got := f.readEndpoint(t, ep.ID)
	if !got.DeletedAt.Equal(f.at(time.Second)) || got.URL != ep.URL || got.No != ep.No || got.Version != ep.Version+1 {
		t.Errorf("tombstone: %+v", got)
	}
	if byNo, err := f.Store.EndpointByNo(t.Context(), ep.No); err != nil || byNo.DeletedAt.IsZero() {
		t.Errorf("tombstone by number: %+v, %v", byNo, err)
	}
	if after := f.version(t, f.tenant); after.Version <= before.Version {
		t.Errorf("routing version %d after %d", after.Version, before.Version)
	}
	wantErr(t, "a second deletion", f.Store.DeleteEndpoint(t.Context(), store.DeleteEndpointParams{Tenant: f.tenant, ID: ep.ID, Now: f.now}), store.ErrNotFound)
	_, err := f.Store.UpdateEndpoint(t.Context(), updateOf(got, ep.URL, f.now))
	wantErr(t, "a change of a deleted one", err, store.ErrNotFound)
	rows, err := f.Store.ListEndpoints(t.Context(), store.ListEndpointsParams{Tenant: f.tenant, Limit: 10})
	if err != nil || len(rows) != 0 {
		t.Errorf("listed: %v, %v", rows, err)
	}
	// History stays readable.
	if d := f.wantStatus(t, id, "dead", 1); d.EndpointID != ep.ID {
		t.Errorf("a delivery of a deleted endpoint: %+v", d)
	}
	if d, err := f.Store.Definition(t.Context(), ep.No, 1); err != nil || d.URL != ep.URL {
		t.Errorf("its definition: %+v, %v", d, err)
	}
}

func testListEndpoints(t *testing.T, f *fixture) {
	var want []posthaste.ID
	for range 7 {
		want = append([]posthaste.ID{f.endpoint(t).ID}, want...)
	}
	gone := f.endpoint(t)
	f.deleteEndpoint(t, gone)
	f.endpointOf(t, f.createTenant(t, "acme"))
	var got []posthaste.ID
	for p := (store.ListEndpointsParams{Tenant: f.tenant, Limit: 3}); ; {
		page, err := f.Store.ListEndpoints(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, row := range page {
			same(t, "listed endpoint", row, f.readEndpoint(t, row.ID))
			got = append(got, row.ID)
		}
		p.Before = got[len(got)-1]
		if len(got) == 3 {
			f.endpoint(t) // one that is newer than the page: it must not move the next one
		}
	}
	same(t, "endpoints", got, want)
}

func testEndpointTenants(t *testing.T, f *fixture) {
	ep, acme := f.endpoint(t), f.createTenant(t, "acme")
	_, err := f.Store.Endpoint(t.Context(), acme, ep.ID)
	wantErr(t, "reading another's endpoint", err, store.ErrNotFound)
	p := updateOf(ep, "https://evil.example", f.now)
	p.Tenant = acme
	_, err = f.Store.UpdateEndpoint(t.Context(), p)
	wantErr(t, "changing another's endpoint", err, store.ErrNotFound)
	wantErr(t, "deleting another's endpoint", f.Store.DeleteEndpoint(t.Context(), store.DeleteEndpointParams{Tenant: acme, ID: ep.ID, Now: f.now}), store.ErrNotFound)
	same(t, "endpoint", f.readEndpoint(t, ep.ID), ep)
	_, err = f.Store.EndpointByNo(t.Context(), 1<<30)
	wantErr(t, "a number that is not there", err, store.ErrNotFound)
}

func (f *fixture) uidParams(tenant store.TenantNo, uid string) store.CreateEndpointParams {
	return store.CreateEndpointParams{Tenant: tenant, Endpoint: posthaste.Endpoint{
		ID: f.minter.Mint(f.now), Definition: posthaste.DefaultDefinition(), CreatedAt: f.now, UID: uid, Metadata: map[string]string{"k": "ü\n"},
	}}
}

func testEndpointUID(t *testing.T, f *fixture) {
	acme := f.createTenant(t, "acme")
	f.endpoint(t) // without uid: of those there may be many
	plain := f.endpoint(t)
	made, err := f.Store.CreateEndpoint(t.Context(), f.uidParams(f.tenant, "crm:1"))
	if err != nil {
		t.Fatal(err)
	}
	if made.UID != "crm:1" || made.Metadata["k"] != "ü\n" || len(made.Metadata) != 1 {
		t.Errorf("made: %+v", made)
	}
	_, err = f.Store.CreateEndpoint(t.Context(), f.uidParams(f.tenant, "crm:1"))
	wantErr(t, "a second one of the uid", err, store.ErrTaken)
	other, err := f.Store.CreateEndpoint(t.Context(), f.uidParams(acme, "crm:1"))
	if err != nil {
		t.Fatalf("another tenant's of the uid: %v", err)
	}
	for tenant, want := range map[store.TenantNo]store.EndpointRow{f.tenant: made, acme: other} {
		got, err := f.Another(t).EndpointByUID(t.Context(), tenant, "crm:1")
		if err != nil {
			t.Fatal(err)
		}
		same(t, "by uid", got, want)
	}
	for _, uid := range []string{"", "crm:", "CRM:1"} {
		_, err := f.Store.EndpointByUID(t.Context(), f.tenant, uid)
		wantErr(t, "uid "+uid, err, store.ErrNotFound)
	}
	p := updateOf(plain, plain.URL, f.now)
	p.Endpoint.UID = "crm:1"
	_, err = f.Store.UpdateEndpoint(t.Context(), p)
	wantErr(t, "the uid of another", err, store.ErrTaken)
	same(t, "untouched", f.readEndpoint(t, plain.ID), plain)
	p = updateOf(made, made.URL, f.now)
	p.Endpoint.Metadata = map[string]string{"a": "b"}
	changed, err := f.Store.UpdateEndpoint(t.Context(), p)
	if err != nil || changed.UID != "crm:1" || changed.Metadata["a"] != "b" || len(changed.Metadata) != 1 {
		t.Errorf("a change that keeps the uid: %+v, %v", changed, err)
	}
	f.deleteEndpoint(t, made)
	_, err = f.Store.EndpointByUID(t.Context(), f.tenant, "crm:1")
	wantErr(t, "a deleted one by its uid", err, store.ErrNotFound)
	if got := f.readEndpoint(t, made.ID); got.UID != "crm:1" {
		t.Errorf("a tombstone lost its uid: %+v", got)
	}
	if _, err := f.Store.CreateEndpoint(t.Context(), f.uidParams(f.tenant, "crm:1")); err != nil {
		t.Errorf("the uid is free again: %v", err)
	}
}

func testEndpointUIDRace(t *testing.T, f *fixture) {
	stores := []store.Store{f.Store, f.Another(t)}
	var won atomic.Int32
	concurrently(50, func(i int) {
		_, err := stores[i%2].CreateEndpoint(t.Context(), f.uidParams(f.tenant, "one"))
		if err == nil {
			won.Add(1)
		} else {
			wantErr(t, "a creation that lost", err, store.ErrTaken)
		}
	})
	if won.Load() != 1 {
		t.Errorf("%d creations won, want 1", won.Load())
	}
	if got := f.routing(t, f.tenant, store.RoutingMark{}); len(got.Endpoints) != 1 || got.Mark.Endpoint != got.Endpoints[0].No {
		t.Errorf("routing %+v: a creation that lost left a trace", got)
	}
}

func testDeleteConflict(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	p := store.DeleteEndpointParams{Tenant: f.tenant, ID: ep.ID, FromVersion: 2, Now: f.now}
	wantErr(t, "another version", f.Store.DeleteEndpoint(t.Context(), p), store.ErrConflict)
	same(t, "endpoint", f.readEndpoint(t, ep.ID), ep)
	p.FromVersion = 1
	wantErr(t, "its version", f.Store.DeleteEndpoint(t.Context(), p), nil)
	p.Tenant = 0
	wantErr(t, "no tenant", f.Store.DeleteEndpoint(t.Context(), p), store.ErrNotFound)
}

func testListAllEndpoints(t *testing.T, f *fixture) {
	acme := f.createTenant(t, "acme")
	var living, all, own []posthaste.ID
	for i := range 9 {
		ep := f.endpointOf(t, []store.TenantNo{f.tenant, acme}[i%2])
		all = append([]posthaste.ID{ep.ID}, all...)
		if i%2 == 0 {
			own = append([]posthaste.ID{ep.ID}, own...)
		}
		if i%3 == 0 {
			f.deleteEndpoint(t, ep)
		} else {
			living = append([]posthaste.ID{ep.ID}, living...)
		}
	}
	for _, c := range []struct {
		p    store.ListEndpointsParams
		want []posthaste.ID
	}{
		{store.ListEndpointsParams{}, living},
		{store.ListEndpointsParams{Deleted: true}, all},
		{store.ListEndpointsParams{Tenant: f.tenant, Deleted: true}, own},
	} {
		var got []posthaste.ID
		for c.p.Limit = 2; ; c.p.Before = got[len(got)-1] {
			page, err := f.Store.ListEndpoints(t.Context(), c.p)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range page {
				got = append(got, row.ID)
				byAnyone, err := f.Store.Endpoint(t.Context(), 0, row.ID)
				if err != nil {
					t.Fatal(err)
				}
				same(t, "listed endpoint", row, byAnyone)
			}
			if len(page) < c.p.Limit {
				break
			}
		}
		same(t, "endpoints", got, c.want)
	}
	p := updateOf(f.endpoint(t), "https://receiver.example/", f.now)
	p.Tenant = 0
	_, err := f.Store.UpdateEndpoint(t.Context(), p)
	wantErr(t, "all tenants are for reading only", err, store.ErrNotFound)
}

// The definition says what no program understands, as that of a later version might.
func testUnusableEndpoint(t *testing.T, f *fixture) {
	good := f.endpoint(t)
	bad := f.endpoint(t)
	bad.Ordered = "by the moon"
	_, err := f.Store.UpdateEndpoint(t.Context(), store.UpdateEndpointParams{Tenant: f.tenant, Endpoint: bad.Endpoint, FromVersion: bad.Version})
	if err != nil {
		t.Fatal(err)
	}
	routing, err := f.Store.Routing(t.Context(), store.RoutingParams{Tenant: f.tenant, Limit: 10})
	if err != nil || len(routing.Endpoints) != 2 {
		t.Fatalf("%+v, %v", routing, err)
	}
	for _, row := range routing.Endpoints {
		if unusable := row.Unusable != nil; unusable != (row.No == bad.No) || row.ID.IsZero() || (row.No == good.No) != (row.URL == good.URL) {
			t.Errorf("in the routing: %+v", row)
		}
	}
	if row, err := f.Store.EndpointByNo(t.Context(), bad.No); err != nil || row.Unusable == nil || row.Tenant != f.tenant {
		t.Errorf("by its number: %+v, %v", row, err)
	}
	if row, err := f.Store.Endpoint(t.Context(), f.tenant, bad.ID); err == nil {
		t.Errorf("by its id: %+v", row)
	}
}
