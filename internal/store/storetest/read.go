package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var readCases = []testCase{
	{name: "events are listed newest first, in pages", run: testListEvents},
	{name: "events are filtered", run: testFilterEvents},
	{name: "deliveries are listed newest first, in pages", run: testListDeliveries},
	{name: "deliveries are filtered", run: testFilterDeliveries},
	{name: "pages stay stable while rows arrive", run: testStablePages},
	{name: "a filtered page looks at a bounded number of rows", run: testMaxExamined},
	{name: "other tenants see nothing", run: testReadTenants},
	{name: "all tenants' deliveries are listed newest first", run: testReadAllTenants},
	{name: "a delivery shows the error of its highest attempt", run: testLastError},
	{name: "what is not there is not found", run: testReadNothing},
}

// events reads every page of a list.
func (f *fixture) events(t tester, p store.ListEventsParams) (ids []posthaste.ID) {
	t.Helper()
	if p.Tenant == 0 {
		p.Tenant = f.tenant
	}
	if p.Limit == 0 {
		p.Limit = 3
	}
	for {
		page, err := f.Store.ListEvents(t.Context(), p)
		if err != nil {
			t.Fatalf("list events: %v", err)
		}
		if len(page.Events) > p.Limit {
			t.Fatalf("list events: a page of %d, limit %d", len(page.Events), p.Limit)
		}
		for _, e := range page.Events {
			ids = append(ids, e.ID)
		}
		if p.Before = page.Next; page.Next.IsZero() {
			return ids
		}
	}
}

// deliveries reads every page of a list.
func (f *fixture) deliveries(t tester, p store.ListDeliveriesParams) (ids []posthaste.ID) {
	t.Helper()
	if p.Tenant == 0 {
		p.Tenant = f.tenant
	}
	if p.Limit == 0 {
		p.Limit = 3
	}
	for {
		page, err := f.Store.ListDeliveries(t.Context(), p)
		if err != nil {
			t.Fatalf("list deliveries: %v", err)
		}
		if len(page.Deliveries) > p.Limit {
			t.Fatalf("list deliveries: a page of %d, limit %d", len(page.Deliveries), p.Limit)
		}
		for _, d := range page.Deliveries {
			ids = append(ids, d.ID)
		}
		if p.Before = page.Next; page.Next.IsZero() {
			return ids
		}
	}
}

// wantListed checks all pages of a list of deliveries.
func (f *fixture) wantListed(t tester, p store.ListDeliveriesParams, want ...posthaste.ID) {
	t.Helper()
	same(t, fmt.Sprintf("deliveries of %+v", p), f.deliveries(t, p), want)
}

// newestFirst are the ids of events, as a list has them.
func newestFirst(events ...store.NewEvent) (ids []posthaste.ID) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	slices.SortFunc(ids, func(a, b posthaste.ID) int { return b.Compare(a) })
	return ids
}

func testListEvents(t *testing.T, f *fixture) {
	r := f.replica(t)
	var batch []store.NewEvent
	for i := range 10 {
		e := f.event()
		e.Payload = make([]byte, i)
		batch = append(batch, e)
	}
	f.accept(t, r, batch...)
	want := newestFirst(batch...)
	for _, limit := range []int{1, 3, 5, 10, 11} {
		same(t, fmt.Sprint("events in pages of ", limit), f.events(t, store.ListEventsParams{Limit: limit}), want)
	}
	page, err := f.Store.ListEvents(t.Context(), store.ListEventsParams{Tenant: f.tenant, Limit: 1})
	if err != nil || len(page.Events) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	e := batch[9].Event
	e.Payload = nil
	same(t, "listed event", page.Events[0], store.EventRow{Event: e, PayloadBytes: 9})
}

func testFilterEvents(t *testing.T, f *fixture) {
	r := f.replica(t)
	parent := f.event()
	other, inbound, hour := f.event(), keyed(f.event(), "k1"), keyed(f.eventAt(f.at(time.Hour)), "k2")
	other.Type, inbound.Source, hour.Parent = "order.paid", "src_1", parent.ID
	f.accept(t, r, parent, other, inbound, hour)
	for _, c := range []struct {
		what string
		p    store.ListEventsParams
		want []posthaste.ID
	}{
		{"of a type", store.ListEventsParams{Type: "order.paid"}, newestFirst(other)},
		{"of a source", store.ListEventsParams{Source: "src_1"}, newestFirst(inbound)},
		{"with a key", store.ListEventsParams{IdempotencyKey: "k2"}, newestFirst(hour)},
		{"of a parent", store.ListEventsParams{Parent: parent.ID}, newestFirst(hour)},
		{"since", store.ListEventsParams{Since: f.at(time.Hour)}, newestFirst(hour)},
		{"since just after", store.ListEventsParams{Since: f.at(time.Hour + time.Millisecond)}, nil},
		{"until", store.ListEventsParams{Until: f.at(time.Hour)}, newestFirst(parent, other, inbound)},
		{"in a span", store.ListEventsParams{Since: f.now, Until: f.at(2 * time.Hour)}, newestFirst(parent, other, inbound, hour)},
		{"of type and source", store.ListEventsParams{Type: "invoice.paid", Source: "api"}, newestFirst(parent, hour)},
		{"of nothing", store.ListEventsParams{Type: "invoice"}, nil},
		{"with half a key", store.ListEventsParams{IdempotencyKey: "k"}, nil},
		{"with a key and another type", store.ListEventsParams{IdempotencyKey: "k2", Type: "order.paid"}, nil},
		{"before a cursor", store.ListEventsParams{Before: other.ID}, newestFirst(parent)},
	} {
		same(t, "events "+c.what, f.events(t, c.p), c.want)
	}
}

func testListDeliveries(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	var want []posthaste.ID
	for range 4 {
		e := f.event(f.due(ep, f.now), f.leased(ep), f.due(ep, f.now))
		f.accept(t, r, e, f.event())
		want = append([]posthaste.ID{e.ID.Delivery(3), e.ID.Delivery(2), e.ID.Delivery(1)}, want...)
	}
	for _, limit := range []int{1, 2, 5, 12, 13} { // pages also end within an event
		f.wantListed(t, store.ListDeliveriesParams{Limit: limit}, want...)
		f.wantListed(t, store.ListDeliveriesParams{Limit: limit, Endpoint: ep.No}, want...)
	}
	page, err := f.Store.ListDeliveries(t.Context(), store.ListDeliveriesParams{Tenant: f.tenant, Limit: 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range page.Deliveries {
		same(t, "listed delivery", d, f.delivery(t, d.ID))
	}
}

func testFilterDeliveries(t *testing.T, f *fixture) {
	r, one, two := f.replica(t), f.endpoint(t), f.endpoint(t)
	e := f.estate(t, r, one)
	late := f.eventAt(f.at(time.Hour), f.due(two, f.now), f.leased(one))
	late.Type = "order.paid"
	f.accept(t, r, late)
	first, second := late.ID.Delivery(1), late.ID.Delivery(2)
	for _, c := range []struct {
		p    store.ListDeliveriesParams
		want []posthaste.ID
	}{
		{store.ListDeliveriesParams{Status: "pending"}, []posthaste.ID{first, e.retries, e.waits}},
		{store.ListDeliveriesParams{Status: "delivering"}, []posthaste.ID{second, e.born, e.claimed}},
		{store.ListDeliveriesParams{Status: "delivered"}, []posthaste.ID{e.delivered}},
		{store.ListDeliveriesParams{Status: "dead"}, []posthaste.ID{e.dead}},
		{store.ListDeliveriesParams{Endpoint: two.No}, []posthaste.ID{first}},
		{store.ListDeliveriesParams{Endpoint: two.No, Status: "dead"}, nil},
		{store.ListDeliveriesParams{Endpoint: one.No, Status: "dead"}, []posthaste.ID{e.dead}},
		{store.ListDeliveriesParams{Event: late.ID}, []posthaste.ID{second, first}},
		{store.ListDeliveriesParams{Event: late.ID, Status: "delivering"}, []posthaste.ID{second}},
		{store.ListDeliveriesParams{Event: late.ID, Endpoint: two.No}, []posthaste.ID{first}},
		{store.ListDeliveriesParams{Type: "order.paid"}, []posthaste.ID{second, first}},
		{store.ListDeliveriesParams{Type: "order.paid", Status: "pending"}, []posthaste.ID{first}},
		{store.ListDeliveriesParams{Since: f.at(time.Hour)}, []posthaste.ID{second, first}},
		{store.ListDeliveriesParams{Until: f.at(time.Hour), Status: "dead"}, []posthaste.ID{e.dead}},
		{store.ListDeliveriesParams{Since: f.at(time.Hour), Status: "dead"}, nil},
		{store.ListDeliveriesParams{Since: f.at(time.Hour), Until: f.at(2 * time.Hour), Endpoint: one.No}, []posthaste.ID{second}},
		{store.ListDeliveriesParams{Until: f.now}, nil},
	} {
		f.wantListed(t, c.p, c.want...)
	}
}

func testStablePages(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	var events, deliveries []posthaste.ID
	for range 9 {
		e := f.event(f.due(ep, f.now))
		f.accept(t, r, e)
		events = append([]posthaste.ID{e.ID}, events...)
		deliveries = append([]posthaste.ID{e.ID.Delivery(1)}, deliveries...)
	}
	pe, pd := store.ListEventsParams{Tenant: f.tenant, Limit: 2}, store.ListDeliveriesParams{Tenant: f.tenant, Limit: 2}
	var gotEvents, gotDeliveries []posthaste.ID
	for {
		events, err := f.Store.ListEvents(t.Context(), pe)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Events {
			gotEvents = append(gotEvents, e.ID)
		}
		deliveries, err := f.Store.ListDeliveries(t.Context(), pd)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range deliveries.Deliveries {
			gotDeliveries = append(gotDeliveries, d.ID)
		}
		if pe.Before, pd.Before = events.Next, deliveries.Next; pe.Before.IsZero() || pd.Before.IsZero() {
			break
		}
		f.accept(t, r, f.event(f.leased(ep)), f.event(f.due(ep, f.now))) // newer than every page
		for _, l := range f.claim(t, r, f.now, ep) {                     // and what is listed moves on
			f.settleMoved(t, r, f.delivered(l))
		}
	}
	same(t, "events", gotEvents, events)
	same(t, "deliveries", gotDeliveries, deliveries)
}

func testMaxExamined(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	rare := f.event(f.leased(ep))
	rare.Type = "rare"
	f.accept(t, r, rare)
	f.settleMoved(t, r, f.delivered(bornLease(r, rare, 1)))
	for left := store.MaxExamined + 500; left > 0; left -= 500 {
		batch := make([]store.NewEvent, 500)
		for i := range batch {
			batch[i] = f.event(f.due(ep, f.at(time.Hour)))
		}
		f.accept(t, r, batch...)
	}
	events, err := f.Store.ListEvents(t.Context(), store.ListEventsParams{Tenant: f.tenant, Type: "rare", Limit: 5})
	if err != nil || len(events.Events) != 0 || events.Next.IsZero() {
		t.Errorf("the first page of a rare type: %d events, next %x, %v; want it short, with more to come", len(events.Events), events.Next, err)
	}
	same(t, "events of the rare type", f.events(t, store.ListEventsParams{Type: "rare"}), newestFirst(rare))
	p := store.ListDeliveriesParams{Tenant: f.tenant, Status: "delivered", Limit: 5}
	deliveries, err := f.Store.ListDeliveries(t.Context(), p)
	if err != nil || len(deliveries.Deliveries) != 0 || deliveries.Next.IsZero() {
		t.Errorf("the first page of a rare status: %d deliveries, next %x, %v; want it short, with more to come",
			len(deliveries.Deliveries), deliveries.Next, err)
	}
	f.wantListed(t, store.ListDeliveriesParams{Status: "delivered"}, rare.ID.Delivery(1))
	f.wantListed(t, store.ListDeliveriesParams{Status: "delivered", Endpoint: ep.No}, rare.ID.Delivery(1))
	f.wantListed(t, store.ListDeliveriesParams{Type: "rare"}, rare.ID.Delivery(1))
}

func testReadTenants(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	acme := f.createTenant(t, "acme")
	e := keyed(f.event(f.leased(ep)), "k")
	f.accept(t, r, e)
	f.settleMoved(t, r, f.permanent(bornLease(r, e, 1)))
	_, err := f.Store.Event(t.Context(), acme, e.ID)
	wantErr(t, "another's event", err, store.ErrNotFound)
	_, err = f.Store.Delivery(t.Context(), acme, e.ID.Delivery(1))
	wantErr(t, "another's delivery", err, store.ErrNotFound)
	for _, p := range []store.ListEventsParams{{}, {IdempotencyKey: "k"}, {Type: e.Type}, {Since: f.now}} {
		p.Tenant = acme
		if got := f.events(t, p); len(got) != 0 {
			t.Errorf("events of another tenant: %v", got)
		}
	}
	for _, p := range []store.ListDeliveriesParams{{}, {Event: e.ID}, {Status: "dead"}, {Endpoint: ep.No}, {Endpoint: ep.No, Status: "dead"}} {
		p.Tenant = acme
		f.wantListed(t, p)
	}
}

func testReadAllTenants(t *testing.T, f *fixture) {
	r, home, acme := f.replica(t), f.tenant, f.createTenant(t, "acme")
	var all, dead []posthaste.ID
	endpoints := map[store.TenantNo]store.EndpointRow{home: f.endpointOf(t, home), acme: f.endpointOf(t, acme)}
	for i := range 8 {
		f.tenant = []store.TenantNo{home, acme}[i%2]
		ep := endpoints[f.tenant]
		e := f.event(f.leased(ep), f.due(ep, f.at(time.Hour)))
		e.Type = fmt.Sprint("type.", i%2)
		f.accept(t, r, e)
		all = append([]posthaste.ID{e.ID.Delivery(2), e.ID.Delivery(1)}, all...)
		if i > 3 {
			f.settleMoved(t, r, f.permanent(bornLease(r, e, 1)))
			dead = append([]posthaste.ID{e.ID.Delivery(1)}, dead...)
		}
	}
	f.tenant = 0 // all, from here on
	for _, limit := range []int{1, 3, 16, 17} {
		f.wantListed(t, store.ListDeliveriesParams{Limit: limit}, all...)
		f.wantListed(t, store.ListDeliveriesParams{Limit: limit, Status: "dead"}, dead...)
	}
	f.wantListed(t, store.ListDeliveriesParams{Event: all[5].Event()}, all[4], all[5])
	f.wantListed(t, store.ListDeliveriesParams{Endpoint: endpoints[acme].No, Status: "dead"}, dead[0], dead[2])
	f.wantListed(t, store.ListDeliveriesParams{Endpoint: endpoints[acme].No}, all[0], all[1], all[4], all[5], all[8], all[9], all[12], all[13])
	f.wantListed(t, store.ListDeliveriesParams{Type: "type.1", Status: "dead"}, dead[0], dead[2])
	f.wantListed(t, store.ListDeliveriesParams{Until: f.now})
	page, err := f.Store.ListDeliveries(t.Context(), store.ListDeliveriesParams{Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[store.TenantNo]int{}
	for _, d := range page.Deliveries {
		seen[d.Tenant]++
		got, err := f.Store.Delivery(t.Context(), d.Tenant, d.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "listed", d, got)
		byAnyone, err := f.Store.Delivery(t.Context(), 0, d.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "read by whoever may read all", byAnyone, got)
	}
	same(t, "deliveries by tenant", seen, map[store.TenantNo]int{home: 8, acme: 8})
}

func testLastError(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	l := f.acceptLeased(t, r, ep)
	for i, want := range []string{"first", "second"} {
		s := f.transient(l, f.at(time.Duration(i+1)*time.Second))
		s.Attempt.Error = want
		f.settleMoved(t, r, s)
		if d := f.delivery(t, l.Delivery); d.LastError != want {
			t.Errorf("last error %q, want %q", d.LastError, want)
		}
		l = f.claimOne(t, r, f.at(time.Duration(i+1)*time.Second), ep)
	}
	f.settleMoved(t, r, f.delivered(l))
	if d := f.delivery(t, l.Delivery); d.LastError != "" {
		t.Errorf("last error %q of a delivered one, want none", d.LastError)
	}
}

func testReadNothing(t *testing.T, f *fixture) {
	id := f.event().ID
	_, err := f.Store.Event(t.Context(), f.tenant, id)
	wantErr(t, "event", err, store.ErrNotFound)
	_, err = f.Store.Delivery(t.Context(), f.tenant, id.Delivery(1))
	wantErr(t, "delivery", err, store.ErrNotFound)
	f.wantAttempts(t, id.Delivery(1))
	f.wantListed(t, store.ListDeliveriesParams{})
	f.wantListed(t, store.ListDeliveriesParams{Event: id})
	same(t, "events", f.events(t, store.ListEventsParams{}), []posthaste.ID{})
}
