package storetest

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var routingCases = []testCase{
	{name: "routing brings what changed since a mark", run: testRouting},
	{name: "a reader of the changes misses none", run: testRoutingRises},
	{name: "a whole load leaves tombstones out", run: testRoutingWithoutTombstones},
	{name: "pages bring each living endpoint once, while others change", run: testRoutingPages},
	{name: "pages of changes bring each changed endpoint", run: testRoutingChangedPages},
	{name: "a page may end among endpoints that one change stamped", run: testRoutingOneStamp},
	{name: "a mark that the database never had is unknown", run: testRoutingUnknownMark},
	{name: "a mark stays known when its endpoint changes again", run: testRoutingMarkIsHistory},
	{name: "versions that were lost are not given again", run: testRoutingVersionsDoNotRepeat},
	{name: "a caller that is ahead of the database is told", run: testRoutingAhead},
	{name: "a tenant that does not exist is told", run: testRoutingOfNobody},
	{name: "a beat brings the tenants that changed lately", run: testRoutingSince},
}

func testRouting(t *testing.T, f *fixture) {
	one, two := f.endpoint(t), f.endpoint(t)
	f.endpointOf(t, f.createTenant(t, "acme"))
	all := f.routing(t, f.tenant, store.RoutingMark{})
	if len(all.Endpoints) != 2 {
		t.Fatalf("routing from the start: %+v", all)
	}
	if again := f.routing(t, f.tenant, all.Mark); len(again.Endpoints) != 0 || again.Mark != all.Mark || again.Unknown {
		t.Errorf("routing without a change: %+v", again)
	}
	if _, err := f.Store.UpdateEndpoint(t.Context(), updateOf(one, "https://receiver.example/2", f.now)); err != nil {
		t.Fatal(err)
	}
	changed := f.routing(t, f.tenant, all.Mark)
	same(t, "changed", changed.Endpoints, []store.EndpointRow{f.readEndpoint(t, one.ID)})
	f.deleteEndpoint(t, two)
	deleted := f.routing(t, f.tenant, changed.Mark)
	if len(deleted.Endpoints) != 1 || deleted.Endpoints[0].ID != two.ID || deleted.Endpoints[0].DeletedAt.IsZero() || deleted.Mark.Version <= changed.Mark.Version {
		t.Errorf("routing after a deletion: %+v", deleted)
	}
	if row, err := f.Store.Tenant(t.Context(), posthaste.TenantDefault); err != nil || row.RoutingVersion != deleted.Mark.Version {
		t.Errorf("tenant %+v, %v; want version %d", row, err, deleted.Mark.Version)
	}
	_, err := f.Store.Routing(t.Context(), store.RoutingParams{Tenant: math.MaxInt32, Limit: 1})
	wantErr(t, "routing of no tenant", err, store.ErrNotFound)
}

// testRoutingRises follows the changes as a replica does, in steps from the last
// mark that it saw, while others change endpoints.
func testRoutingRises(t *testing.T, f *fixture) {
	const makers, each = 3, 15
	stores := []store.Store{f.Store, f.Another(t), f.Another(t)}
	var left atomic.Int32
	left.Store(makers)
	seen := map[posthaste.ID]bool{}
	concurrently(makers+1, func(i int) {
		if i < makers {
			defer left.Add(-1)
			for range each {
				_, err := stores[i].CreateEndpoint(t.Context(), store.CreateEndpointParams{
					Tenant:   f.tenant,
					Endpoint: posthaste.Endpoint{ID: f.minter.Mint(f.now), Definition: posthaste.DefaultDefinition(), CreatedAt: f.now},
				})
				if err != nil {
					t.Errorf("create endpoint: %v", err)
				}
			}
			return
		}
		for since, last := (store.RoutingMark{}), false; ; {
			got := f.routing(quiet{t}, f.tenant, since)
			if got.Mark.Version < since.Version || got.Unknown {
				t.Errorf("routing %+v after %+v", got, since)
			}
			for _, ep := range got.Endpoints {
				seen[ep.ID] = true
			}
			since = got.Mark
			if last {
				return
			}
			last = left.Load() == 0 // one more look after the last change
		}
	})
	if len(seen) != makers*each {
		t.Errorf("a reader of the changes saw %d endpoints, want %d", len(seen), makers*each)
	}
}

func testRoutingWithoutTombstones(t *testing.T, f *fixture) {
	gone, kept := f.endpoint(t), f.endpoint(t)
	f.deleteEndpoint(t, gone)
	got := f.routing(t, f.tenant, store.RoutingMark{})
	same(t, "endpoints", got.Endpoints, []store.EndpointRow{f.readEndpoint(t, kept.ID)})
	if got.Mark.Endpoint != gone.No {
		t.Errorf("mark %+v, want one of the deletion", got.Mark)
	}
	if again := f.routing(t, f.tenant, got.Mark); again.Unknown || len(again.Endpoints) != 0 {
		t.Errorf("since the deletion: %+v", again)
	}
}

// allRouting reads page by page, and calls between after each page.
func (f *fixture) allRouting(t *testing.T, since store.RoutingMark, limit int, between func(page int)) (rows []store.EndpointRow, first store.RoutingMark) {
	t.Helper()
	p := store.RoutingParams{Tenant: f.tenant, Since: since, Limit: limit}
	for page := 0; ; page++ {
		got, err := f.Store.Routing(t.Context(), p)
		if err != nil || got.Unknown || len(got.Endpoints) > limit {
			t.Fatalf("page %d: %+v, %v", page, got, err)
		}
		if page == 0 {
			first = got.Mark
		}
		rows = append(rows, got.Endpoints...)
		if got.Next == (store.RoutingCursor{}) {
			return rows, first
		}
		p.After = got.Next
		between(page)
	}
}

func testRoutingPages(t *testing.T, f *fixture) {
	var made []store.EndpointRow
	for range 7 {
		made = append(made, f.endpoint(t))
	}
	seen := map[store.EndpointNo]store.EndpointRow{}
	rows, mark := f.allRouting(t, store.RoutingMark{}, 2, func(page int) {
		switch page {
		case 0: // one that was read, one that was not, and one that is new
			f.deleteEndpoint(t, made[0])
			f.deleteEndpoint(t, made[5])
			made = append(made, f.endpoint(t))
		case 1:
			if _, err := f.Store.UpdateEndpoint(t.Context(), updateOf(made[1], "https://receiver.example/2", f.now)); err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, row := range rows {
		if _, twice := seen[row.No]; twice {
			t.Errorf("endpoint %d came twice", row.No)
		}
		seen[row.No] = row
	}
	changed, _ := f.allRouting(t, mark, 2, func(int) {})
	for _, row := range changed {
		seen[row.No] = row
	}
	for _, row := range made {
		want := f.readEndpoint(t, row.ID)
		if got, ok := seen[row.No]; ok || want.DeletedAt.IsZero() {
			same(t, "endpoint", got, want)
		}
	}
}

func testRoutingChangedPages(t *testing.T, f *fixture) {
	f.endpoint(t)
	mark := f.routing(t, f.tenant, store.RoutingMark{}).Mark
	want := map[store.EndpointNo]bool{}
	for range 5 {
		want[f.endpoint(t).No] = true
	}
	again := f.endpoint(t)
	want[again.No] = true
	rows, _ := f.allRouting(t, mark, 2, func(page int) {
		if page == 0 {
			f.deleteEndpoint(t, again)
			want[f.endpoint(t).No] = true
		}
	})
	got := map[store.EndpointNo]bool{}
	for _, row := range rows {
		if got[row.No] = true; row.No == again.No && row.DeletedAt.IsZero() {
			t.Errorf("endpoint %d came as it was before its deletion", row.No)
		}
	}
	same(t, "endpoints", got, want)
}

func testRoutingOneStamp(t *testing.T, f *fixture) {
	row, err := f.Store.CreateTenant(t.Context(), posthaste.Tenant{Name: "acme", CreatedAt: f.now})
	if err != nil {
		t.Fatal(err)
	}
	f.tenant = row.No
	for range 5 {
		f.endpoint(t)
	}
	mark := f.routing(t, f.tenant, store.RoutingMark{}).Mark
	if err := f.Store.DeleteTenant(t.Context(), store.DeleteTenantParams{No: f.tenant, Now: f.at(time.Second)}); err != nil {
		t.Fatal(err)
	}
	rows, _ := f.allRouting(t, mark, 2, func(int) {})
	seen := map[store.EndpointNo]bool{}
	for _, row := range rows {
		seen[row.No] = !row.DeletedAt.IsZero()
	}
	if len(rows) != 5 || len(seen) != 5 {
		t.Errorf("pages brought %d rows of %d endpoints, want 5", len(rows), len(seen))
	}
}

// After a failover to a standby that lacks the last changes, or a restore, memory
// names a state that the database does not have, behind or beside its own.
func testRoutingUnknownMark(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	mark := f.routing(t, f.tenant, store.RoutingMark{}).Mark
	for name, lost := range map[string]store.RoutingMark{
		"ahead":            {Version: mark.Version + 1_000_000, Endpoint: ep.No, EndpointVersion: 2},
		"another endpoint": {Version: mark.Version - 10, Endpoint: ep.No + 1, EndpointVersion: 1},
		"another change":   {Version: mark.Version - 10, Endpoint: ep.No, EndpointVersion: 1},
		"of no endpoint":   {Version: mark.Version - 10},
	} {
		if got := f.routing(t, f.tenant, lost); !got.Unknown || len(got.Endpoints) != 0 || got.Mark != mark {
			t.Errorf("%s: %+v, want it unknown", name, got)
		}
	}
}

func testRoutingMarkIsHistory(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	made := f.routing(t, f.tenant, store.RoutingMark{}).Mark
	row, err := f.Store.UpdateEndpoint(t.Context(), updateOf(ep, "https://receiver.example/2", f.now))
	if err != nil {
		t.Fatal(err)
	}
	updated := f.routing(t, f.tenant, made).Mark
	row = f.rotate(t, rotationOf(row, f.now, f.at(time.Hour)))
	rotated := f.routing(t, f.tenant, updated).Mark
	f.deleteEndpoint(t, row)
	for _, mark := range []store.RoutingMark{made, updated, rotated} {
		if got := f.routing(t, f.tenant, mark); got.Unknown || len(got.Endpoints) != 1 || got.Endpoints[0].DeletedAt.IsZero() {
			t.Errorf("since %+v: %+v", mark, got)
		}
	}
}

func testRoutingVersionsDoNotRepeat(t *testing.T, f *fixture) {
	r := f.replica(t)
	ep := f.endpoint(t)
	changes := map[string]func(){
		"create": func() { f.endpoint(t) },
		"update": func() {
			row, err := f.Store.UpdateEndpoint(t.Context(), updateOf(ep, "https://receiver.example/2", f.now))
			if err != nil {
				t.Fatal(err)
			}
			ep = row
		},
		"rotate": func() { ep = f.rotate(t, rotationOf(ep, f.now, f.at(time.Hour))) },
		"delete": func() { f.deleteEndpoint(t, f.endpoint(t)) },
	}
	for name, change := range changes {
		clock := r.beat(t).Now
		change()
		if v := f.version(t, f.tenant).Version; v < clock.UnixMicro() {
			t.Errorf("%s: version %d, below the clock %d: an earlier failover may have lost the same", name, v, clock.UnixMicro())
		}
	}
	acme := f.createTenant(t, "acme")
	clock := r.beat(t).Now
	if err := f.Store.DeleteTenant(t.Context(), store.DeleteTenantParams{No: acme, Now: f.now}); err != nil {
		t.Fatal(err)
	}
	if v := f.version(t, acme).Version; v < clock.UnixMicro() {
		t.Errorf("deletion of a tenant: version %d, below the clock %d", v, clock.UnixMicro())
	}
}

func testRoutingAhead(t *testing.T, f *fixture) {
	r := f.replica(t)
	ep := f.endpoint(t)
	now := f.version(t, f.tenant)
	ahead := store.TenantVersion{Tenant: f.tenant, Version: now.Version + 1_000_000}
	same(t, "a beat", r.beat(t, ahead).Newer, []store.TenantVersion{now})
	claimed, err := r.Claim(t.Context(), store.ClaimParams{
		Epoch: r.epoch, Now: f.now, Want: []store.ClaimWant{{Endpoint: ep.No, Cap: 1}}, Tenants: []store.TenantVersion{ahead},
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "a claim", claimed.Newer, []store.TenantVersion{now})
	through := f.through(r, ep, 1, 1)
	through.Tenants = []store.TenantVersion{ahead}
	same(t, "a claim through a gate", f.claimThrough(t, r, through).Newer, []store.TenantVersion{now})
	for name, e := range map[string]store.NewEvent{
		"plain":   f.event(f.leased(ep)),
		"keyed":   keyed(f.event(f.leased(ep)), "k"),
		"ordered": f.event(store.NewDelivery{Endpoint: ep.No, Ordered: true, ExpiresAt: f.at(time.Hour)}),
	} {
		p := f.params(t, r, e)
		p.Routing[0] = ahead
		r.fresh(t)
		got, err := r.Accept(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "stale of an accept, "+name, got.Stale, []store.TenantVersion{now})
	}
}

// The tenant may have been lost in a rewind. Nothing is stored for its number.
func testRoutingOfNobody(t *testing.T, f *fixture) {
	r := f.replica(t)
	nobody := store.TenantVersion{Tenant: math.MaxInt32, Version: 7}
	want := []store.TenantVersion{{Tenant: math.MaxInt32, Version: store.NoVersion}}
	same(t, "a beat", r.beat(t, nobody).Newer, want)
	e := f.event()
	p := f.params(t, r, e)
	p.Events[0].Tenant, p.Routing[0] = nobody.Tenant, nobody
	r.fresh(t)
	got, err := r.Accept(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "stale of an accept", got.Stale, want)
}

func testRoutingSince(t *testing.T, f *fixture) {
	r := f.replica(t)
	acme := f.createTenant(t, "acme")
	f.endpointOf(t, f.createTenant(t, "earlier"))
	beat := func(since int64, known ...store.TenantVersion) []store.TenantVersion {
		t.Helper()
		got, err := r.Beat(t.Context(), store.BeatParams{Epoch: r.epoch, Tenants: known, RoutingSince: since})
		if err != nil {
			t.Fatal(err)
		}
		return got.Newer
	}
	f.endpoint(t)
	f.endpointOf(t, acme)
	mine, theirs := f.version(t, f.tenant), f.version(t, acme)
	same(t, "since the first of two changes", beat(mine.Version), []store.TenantVersion{mine, theirs})
	same(t, "since the second", beat(theirs.Version), []store.TenantVersion{theirs})
	if got := beat(0); len(got) != 0 {
		t.Errorf("without a start: %v", got)
	}
	if got := beat(theirs.Version+1, mine); len(got) != 0 {
		t.Errorf("without a change: %v", got)
	}
}
