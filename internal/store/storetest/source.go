package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var sourceCases = []testCase{
	{name: "a source is stored with its secrets", run: testCreateSource},
	{name: "a change of a source raises its version", run: testUpdateSource},
	{name: "of concurrent changes of a source from one version one wins", run: testSourceRace},
	{name: "a source is found by its uid, which is unique among the tenant's", run: testSourceUID},
	{name: "sources are listed newest first, in pages", run: testListSources},
	{name: "a deleted source is gone, and its rejections with it", run: testDeleteSource},
	{name: "sources go with their tenant", run: testSourceTenantDeleted},
	{name: "the newest rejections of a source are kept", run: testRejections},
	{name: "rejections in a row are counted across replicas", run: testRejectionCount},
	{name: "the event of a key is found", run: testEventOfKey},
	{name: "keys of sources outlive a short window", run: testSourceKeysKept},
	{name: "the headers that a source received are read with the event", run: testSourceHeaders},
}

// newSource is what a caller stores for a source.
func (f *fixture) newSource(tenant store.TenantNo, uid string) store.CreateSourceParams {
	return store.CreateSourceParams{
		Tenant: tenant, Secrets: store.SealedSecret{Sealed: []byte{0, 0xff, 1}, KeyID: "k1"},
		Source: posthaste.Source{
			ID: posthaste.NewSourceID(), CreatedAt: f.now, UID: uid, Metadata: map[string]string{"k": "ü\n"},
			SourceDefinition: posthaste.SourceDefinition{
				Name: "die 'erste'", Provider: "stripe", Settings: map[string]string{"tolerance": "5m"}, MaxBodyBytes: 1 << 20,
			},
		},
	}
}

func (f *fixture) source(t tester) store.SourceRow {
	t.Helper()
	row, err := f.Store.CreateSource(t.Context(), f.newSource(f.tenant, ""))
	if err != nil {
		t.Fatalf("create source: %v", err)
	}
	return row
}

func (f *fixture) readSource(t tester, id posthaste.ID) store.SourceRow {
	t.Helper()
	row, err := f.Store.Source(t.Context(), f.tenant, id)
	if err != nil {
		t.Fatalf("source: %v", err)
	}
	return row
}

func testCreateSource(t *testing.T, f *fixture) {
	p := f.newSource(f.tenant, "crm:1")
	made, err := f.Store.CreateSource(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	want := store.SourceRow{No: made.No, Tenant: f.tenant, Source: p.Source, Secrets: p.Secrets}
	want.Version, want.UpdatedAt = 1, made.UpdatedAt
	same(t, "made", made, want)
	if made.No == 0 {
		t.Error("it has no number")
	}
	for _, tenant := range []store.TenantNo{f.tenant, 0} {
		got, err := f.Another(t).Source(t.Context(), tenant, p.Source.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "what is read", got, want)
	}
	_, err = f.Store.CreateSource(t.Context(), store.CreateSourceParams{Tenant: f.tenant, Source: posthaste.Source{ID: p.Source.ID}, Secrets: p.Secrets})
	wantErr(t, "a second one of the id", err, store.ErrConflict)
	_, err = f.Store.Source(t.Context(), f.tenant, posthaste.NewSourceID())
	wantErr(t, "one that is not there", err, store.ErrNotFound)
	_, err = f.Store.Source(t.Context(), f.createTenant(t, "acme"), p.Source.ID)
	wantErr(t, "another tenant's", err, store.ErrNotFound)
}

func updateOfSource(row store.SourceRow, name string, now time.Time) store.UpdateSourceParams {
	p := store.UpdateSourceParams{Tenant: row.Tenant, Source: row.Source, Secrets: row.Secrets, FromVersion: row.Version}
	p.Source.Name, p.Source.UpdatedAt = name, now
	return p
}

func testUpdateSource(t *testing.T, f *fixture) {
	made := f.source(t)
	p := updateOfSource(made, "zwei", f.at(time.Minute))
	p.Secrets = store.SealedSecret{Sealed: []byte("others"), KeyID: "k2"}
	p.Source.Metadata, p.Source.UID, p.Source.Settings = map[string]string{"a": "b"}, "u", map[string]string{}
	got, err := f.Store.UpdateSource(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	want := made
	want.Source, want.Secrets, want.Version = p.Source, p.Secrets, 2
	same(t, "changed", got, want)
	same(t, "what is read", f.readSource(t, made.ID), want)
	for _, from := range []int{0, 1, 3} {
		p.FromVersion = from
		_, err := f.Store.UpdateSource(t.Context(), p)
		wantErr(t, "a change from another version", err, store.ErrConflict)
	}
	p.FromVersion, p.Tenant = 2, f.createTenant(t, "acme")
	_, err = f.Store.UpdateSource(t.Context(), p)
	wantErr(t, "a change of another tenant's", err, store.ErrNotFound)
	p.Tenant, p.Source.ID = f.tenant, posthaste.NewSourceID()
	_, err = f.Store.UpdateSource(t.Context(), p)
	wantErr(t, "a change of nothing", err, store.ErrNotFound)
	same(t, "untouched", f.readSource(t, made.ID), want)
}

func testSourceRace(t *testing.T, f *fixture) {
	made := f.source(t)
	stores := []store.Store{f.Store, f.Another(t)}
	var won atomic.Int32
	concurrently(8, func(i int) {
		_, err := stores[i%2].UpdateSource(t.Context(), updateOfSource(made, fmt.Sprint(i), f.now))
		if err == nil {
			won.Add(1)
		} else {
			wantErr(t, "a change that lost", err, store.ErrConflict)
		}
	})
	if got := f.readSource(t, made.ID); won.Load() != 1 || got.Version != 2 {
		t.Errorf("%d changes won, now at version %d; want 1 and 2", won.Load(), got.Version)
	}
}

func testSourceUID(t *testing.T, f *fixture) {
	acme := f.createTenant(t, "acme")
	f.source(t) // without uid: of those there may be many
	plain := f.source(t)
	rows := map[store.TenantNo]store.SourceRow{}
	for _, tenant := range []store.TenantNo{f.tenant, acme} {
		row, err := f.Store.CreateSource(t.Context(), f.newSource(tenant, "crm:1"))
		if err != nil {
			t.Fatal(err)
		}
		rows[tenant] = row
	}
	_, err := f.Store.CreateSource(t.Context(), f.newSource(f.tenant, "crm:1"))
	wantErr(t, "a second one of the uid", err, store.ErrTaken)
	p := updateOfSource(plain, plain.Name, f.now)
	p.Source.UID = "crm:1"
	_, err = f.Store.UpdateSource(t.Context(), p)
	wantErr(t, "a change to a uid that is taken", err, store.ErrTaken)
	for tenant, want := range rows {
		got, err := f.Another(t).SourceByUID(t.Context(), tenant, "crm:1")
		if err != nil {
			t.Fatal(err)
		}
		same(t, "by uid", got, want)
	}
	for _, uid := range []string{"", "crm:", "CRM:1"} {
		_, err := f.Store.SourceByUID(t.Context(), f.tenant, uid)
		wantErr(t, "uid "+uid, err, store.ErrNotFound)
	}
	if err := f.Store.DeleteSource(t.Context(), store.DeleteSourceParams{Tenant: f.tenant, ID: rows[f.tenant].ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Store.UpdateSource(t.Context(), p); err != nil {
		t.Errorf("a uid that is free again: %v", err)
	}
}

func testListSources(t *testing.T, f *fixture) {
	var want, got []posthaste.ID
	for range 7 {
		want = append([]posthaste.ID{f.source(t).ID}, want...)
	}
	if _, err := f.Store.CreateSource(t.Context(), f.newSource(f.createTenant(t, "acme"), "")); err != nil {
		t.Fatal(err)
	}
	for p := (store.ListSourcesParams{Tenant: f.tenant, Limit: 3}); ; {
		page, err := f.Store.ListSources(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, row := range page {
			same(t, "listed source", row, f.readSource(t, row.ID))
			got = append(got, row.ID)
		}
		p.Before = page[len(page)-1].No
	}
	same(t, "sources", got, want)
}

func (f *fixture) reject(t tester, s store.Store, source store.SourceNo, n int) int {
	t.Helper()
	count, err := s.AddRejection(t.Context(), store.AddRejectionParams{Source: source, Count: n, Keep: 3, Rejection: posthaste.Rejection{
		ID: f.minter.Mint(f.now), Reason: "wrong_secret", Method: "POST",
	}})
	if err != nil {
		t.Fatalf("add rejection: %v", err)
	}
	return count
}

func testDeleteSource(t *testing.T, f *fixture) {
	made := f.source(t)
	f.reject(t, f.Store, made.No, 1)
	p := store.DeleteSourceParams{Tenant: f.createTenant(t, "acme"), ID: made.ID}
	wantErr(t, "a deletion by another tenant", f.Store.DeleteSource(t.Context(), p), store.ErrNotFound)
	p.Tenant, p.FromVersion = f.tenant, 2
	wantErr(t, "a deletion from another version", f.Store.DeleteSource(t.Context(), p), store.ErrConflict)
	p.FromVersion = 1
	if err := f.Store.DeleteSource(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p.FromVersion = 0
	wantErr(t, "a second deletion", f.Store.DeleteSource(t.Context(), p), store.ErrNotFound)
	f.wantNoSource(t, made)
}

// wantNoSource checks that nothing is left of a source.
func (f *fixture) wantNoSource(t *testing.T, gone store.SourceRow) {
	t.Helper()
	_, err := f.Store.Source(t.Context(), 0, gone.ID)
	wantErr(t, "a source that is gone", err, store.ErrNotFound)
	left, err := f.Store.ListRejections(t.Context(), store.ListRejectionsParams{Source: gone.No, Limit: 10})
	if err != nil || len(left) != 0 {
		t.Errorf("its rejections: %v, %v", left, err)
	}
	_, err = f.Store.AddRejection(t.Context(), store.AddRejectionParams{Source: gone.No, Count: 1, Keep: 3, Rejection: posthaste.Rejection{ID: f.minter.Mint(f.now)}})
	wantErr(t, "a rejection by a source that is gone", err, store.ErrNotFound)
	if err := f.Store.EndRejections(t.Context(), gone.No); err != nil {
		t.Errorf("end its rejections: %v", err)
	}
}

func testSourceTenantDeleted(t *testing.T, f *fixture) {
	acme, kept := f.createTenant(t, "acme"), f.source(t)
	made, err := f.Store.CreateSource(t.Context(), f.newSource(acme, "u"))
	if err != nil {
		t.Fatal(err)
	}
	f.reject(t, f.Store, made.No, 1)
	f.reject(t, f.Store, kept.No, 1)
	if err := f.Store.DeleteTenant(t.Context(), store.DeleteTenantParams{No: acme, Now: f.now}); err != nil {
		t.Fatal(err)
	}
	f.wantNoSource(t, made)
	_, err = f.Store.CreateSource(t.Context(), f.newSource(acme, ""))
	wantErr(t, "a source of a deleted tenant", err, store.ErrNotFound)
	if left, err := f.Store.ListRejections(t.Context(), store.ListRejectionsParams{Source: f.readSource(t, kept.ID).No, Limit: 10}); err != nil || len(left) != 1 {
		t.Errorf("another tenant's: %v, %v", left, err)
	}
}

func testRejections(t *testing.T, f *fixture) {
	made, other := f.source(t), f.source(t)
	var want []posthaste.Rejection
	for i := range 5 {
		r := posthaste.Rejection{
			ID: f.minter.Mint(f.at(time.Duration(i) * time.Second)), Reason: "stale", Detail: "10 minutes\x00 \xff old", Hint: "set the clock", Method: "P\x00ST",
			Headers: []posthaste.Header{{Name: "X-Sig", Value: "a\xff"}, {Name: "X-Sig", Value: ""}}, Body: bytes.Repeat([]byte{0, 0xfe}, i), BodyBytes: 100 * i,
		}
		if _, err := f.Store.AddRejection(t.Context(), store.AddRejectionParams{Source: made.No, Rejection: r, Count: 1, Keep: 3}); err != nil {
			t.Fatal(err)
		}
		want = append([]posthaste.Rejection{r}, want...)
	}
	f.reject(t, f.Store, other.No, 1)
	got, err := f.Another(t).ListRejections(t.Context(), store.ListRejectionsParams{Source: made.No, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "rejections", got, want[:3])
	page, err := f.Store.ListRejections(t.Context(), store.ListRejectionsParams{Source: made.No, Before: want[0].ID, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "a page", page, want[1:2])
}

func testRejectionCount(t *testing.T, f *fixture) {
	made := f.source(t)
	stores := []store.Store{f.Store, f.Another(t)}
	told := make([]int, 8)
	concurrently(len(told), func(i int) { told[i] = f.reject(t, stores[i%2], made.No, 2) })
	slices.Sort(told)
	same(t, "counts that were told", told, []int{2, 4, 6, 8, 10, 12, 14, 16})
	if got := f.readSource(t, made.ID); got.Rejected != 16 || got.Version != 1 {
		t.Errorf("8 times 2 rejections: %d, version %d; want 16 and 1", got.Rejected, got.Version)
	}
	if err := f.Store.EndRejections(t.Context(), made.No); err != nil {
		t.Fatal(err)
	}
	if got := f.readSource(t, made.ID); got.Rejected != 0 {
		t.Errorf("%d rejections in a row after their end", got.Rejected)
	}
	if n := f.reject(t, f.Store, made.No, 1); n != 1 {
		t.Errorf("the first one again is number %d", n)
	}
}

// fromSource is an event that came through a source.
func (f *fixture) fromSource(key string) store.NewEvent {
	e := keyed(f.event(), key)
	e.Namespace, e.Source = store.NamespaceSource, "src_0"
	return e
}

func testEventOfKey(t *testing.T, f *fixture) {
	r := f.replica(t)
	one, two := f.fromSource("a"), keyed(f.event(f.due(f.endpoint(t), f.now)), "a") // one key, two namespaces
	one.Sum, two.Sum = store.Hash{2}, store.Hash{3}
	two.CorrelationID, two.Parent = one.ID, one.ID
	for _, got := range f.accept(t, r, one, two) {
		if !got.Stored {
			t.Fatal("a key of another namespace counted")
		}
	}
	for _, e := range []store.NewEvent{one, two} {
		got, err := f.Another(t).EventOfKey(t.Context(), store.KeyParams{Tenant: e.Tenant, Namespace: e.Namespace, Key: e.Key})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "event of the key", got, store.KeptEvent{ID: e.ID, CorrelationID: e.CorrelationID, FanOut: len(e.Deliveries), Sum: e.Sum})
	}
	_, err := f.Store.EventOfKey(t.Context(), store.KeyParams{Tenant: f.createTenant(t, "acme"), Namespace: one.Namespace, Key: one.Key})
	wantErr(t, "another tenant's", err, store.ErrNotFound)
}

func testSourceKeysKept(t *testing.T, f *fixture) {
	r := f.replica(t)
	source, plain := f.fromSource("a"), keyed(f.event(), "a")
	f.accept(t, r, source, plain)
	key := func(e store.NewEvent) error {
		_, err := f.Store.EventOfKey(t.Context(), store.KeyParams{Tenant: e.Tenant, Namespace: e.Namespace, Key: e.Key})
		return err
	}
	retain := func(age time.Duration) {
		for more := true; more; {
			got, err := f.Store.Retain(t.Context(), store.RetainParams{
				Now: f.at(age), Retention: 720 * time.Hour, DeadRetention: 2160 * time.Hour, IdempotencyWindow: time.Hour, Limit: 100,
			})
			if err != nil {
				t.Fatal(err)
			}
			more = got.More
		}
	}
	retain(store.MinSourceWindow - time.Minute)
	if err := key(source); err != nil {
		t.Errorf("a source's key within 8 days: %v", err)
	}
	wantErr(t, "another key past its window", key(plain), store.ErrNotFound)
	retain(store.MinSourceWindow + time.Minute)
	wantErr(t, "a source's key after 8 days", key(source), store.ErrNotFound)
}

func testSourceHeaders(t *testing.T, f *fixture) {
	r, e := f.replica(t), f.fromSource("a")
	e.Headers = []posthaste.Header{{Name: "X-Github-Event", Value: "push"}}
	e.SourceHeaders = []posthaste.Header{{Name: "X-Github-Event", Value: "push"}, {Name: "User-Agent", Value: "a\xff"}}
	f.accept(t, r, e, f.event())
	got, err := f.Store.Event(t.Context(), f.tenant, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "event", got, e.Event)
	loaded, err := f.Store.Load(t.Context(), store.LoadParams{Events: []store.EventKey{{Tenant: f.tenant, ID: e.ID}}, MaxBytes: 1 << 20})
	if err != nil || len(loaded) != 1 || len(loaded[0].SourceHeaders) != 0 || len(loaded[0].Headers) != 1 {
		t.Errorf("loaded for a delivery: %+v, %v", loaded, err)
	}
}
