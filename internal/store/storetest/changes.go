package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var changesCases = []testCase{
	{name: "every way to an end is told once", run: testChangesTold},
	{name: "what is run again is not told again", run: testChangesAgain},
	{name: "a reader can go on after every change", run: testChangesResume},
	{name: "a read keeps to tenants, kinds and its end", run: testChangesWanted},
	{name: "a change of its own keeps its detail", run: testChangesAppend},
	{name: "changes go a day and an hour later, the numbers go on", run: testChangesPurge},
	{name: "an emptied table and a cursor that is ahead are gaps", run: testChangesGap},
	{name: "two replicas commit, a reader sees every change once", run: testChangesRace},
}

// changesSince reads all that is new to a cursor, a few rows at a time.
func (f *fixture) changesSince(t tester, p store.ReadChangesParams) (all []store.Change, next store.Cursor) {
	t.Helper()
	return readChanges(t, t.Context(), f.Store, p)
}

func readChanges(t tester, ctx context.Context, s store.Store, p store.ReadChangesParams) (all []store.Change, next store.Cursor) { //nolint:revive // the context may be another than the test's
	t.Helper()
	for p.Limit = max(p.Limit, 1); ; {
		page, err := s.ReadChanges(ctx, p)
		if err != nil {
			t.Fatalf("read changes: %v", err)
		}
		all = append(all, page.Changes...)
		if !page.Next.Covers(p.After) {
			t.Fatalf("a read goes on at %+v, which does not cover where it began, %+v", page.Next, p.After)
		}
		p.After = page.Next
		if !page.More {
			return all, page.Next
		}
	}
}

// told prints a change by what it is about.
func told(c store.Change) string {
	switch {
	case !c.Delivery.IsZero():
		return fmt.Sprint(c.Kind, " ", c.Delivery.Print(posthaste.KindDelivery))
	case !c.Event.IsZero():
		return fmt.Sprint(c.Kind, " ", c.Event.Print(posthaste.KindEvent))
	default:
		return fmt.Sprint(c.Kind, " ", c.Endpoint.Print(posthaste.KindEndpoint))
	}
}

func toldAll(changes []store.Change) (all []string) {
	for _, c := range changes {
		all = append(all, told(c))
	}
	return all
}

// wantTold checks that all that ended, in whatever case, was told of, and told
// once. Retention deletes what it told as well.
func (f *fixture) wantTold(t *testing.T) {
	t.Helper()
	if f.purged {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	count := map[string]int{}
	changes, _ := readChanges(t, ctx, f.Store, store.ReadChangesParams{Limit: 1000})
	for _, c := range changes {
		count[told(c)]++
	}
	for p := (store.ListDeliveriesParams{Limit: 250}); ; {
		page, err := f.Store.ListDeliveries(ctx, p)
		if err != nil {
			t.Fatalf("list deliveries: %v", err)
		}
		for _, d := range page.Deliveries {
			accepted := count[told(store.Change{Kind: store.ChangeAccepted, Event: d.EventID()})]
			delivered := count[told(store.Change{Kind: store.ChangeDelivered, Delivery: d.ID})]
			dead := count[told(store.Change{Kind: store.ChangeDead, Delivery: d.ID})]
			if accepted != 1 || (d.Status() == "delivered") != (delivered == 1) || delivered > 1 || d.Status() == "dead" && dead == 0 {
				t.Errorf("delivery %s is %s; its event was told %d times to be accepted, it %d times to be delivered and %d to be dead",
					d.ID.Print(posthaste.KindDelivery), d.Status(), accepted, delivered, dead)
			}
		}
		if p.Before = page.Next; p.Before.IsZero() {
			return
		}
	}
}

func testChangesTold(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	r := f.replica(t)
	start, err := f.Store.ChangesHead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	parent := f.event(f.leased(ep))
	child := f.event(f.leased(ep))
	child.CorrelationID = parent.ID
	alone := f.event() // for nobody
	f.accept(t, r, parent, child, alone)
	delivered, dead := bornLease(r, parent, 1), bornLease(r, child, 1)
	pending := f.acceptLeased(t, r, ep)
	f.settleMoved(t, r, f.delivered(delivered), f.permanent(dead), f.transient(pending, f.at(time.Minute)))

	expired := f.acceptDue(t, r, ep)
	got, err := f.Store.EndExpired(t.Context(), store.EndExpiredParams{Endpoint: ep.No, Now: f.at(100 * time.Hour), Limit: 100})
	if err != nil || got.Ended != 2 {
		t.Fatalf("end expired: %+v, %v; want 2 to end", got, err)
	}
	orphan := f.acceptDue(t, r, ep)
	f.deleteEndpoint(t, ep)
	if n := f.endDeleted(t, 100, ep.No); n != 1 {
		t.Fatalf("%d deliveries of a deleted endpoint ended, want 1", n)
	}
	f.wantStatus(t, expired, "dead", 0)

	changes, _ := f.changesSince(t, store.ReadChangesParams{After: start})
	slices.SortStableFunc(changes[:3], func(a, b store.Change) int { return a.Event.Compare(b.Event) })
	ended := []posthaste.ID{pending.Delivery, expired}
	slices.SortFunc(ended, posthaste.ID.Compare)
	if i := slices.IndexFunc(changes, func(c store.Change) bool { return c.Delivery == ended[1] }); i > 0 && changes[i-1].Delivery != ended[0] && i+1 < len(changes) {
		changes[i], changes[i+1] = changes[i+1], changes[i]
	}
	same(t, "what was told", toldAll(changes), toldAll([]store.Change{
		{Kind: store.ChangeAccepted, Event: parent.ID}, {Kind: store.ChangeAccepted, Event: child.ID}, {Kind: store.ChangeAccepted, Event: alone.ID},
		{Kind: store.ChangeAccepted, Event: pending.Delivery.Event()},
		{Kind: store.ChangeDelivered, Delivery: delivered.Delivery}, {Kind: store.ChangeDead, Delivery: dead.Delivery},
		{Kind: store.ChangeAccepted, Event: expired.Event()},
		{Kind: store.ChangeDead, Delivery: ended[0]}, {Kind: store.ChangeDead, Delivery: ended[1]},
		{Kind: store.ChangeAccepted, Event: orphan.Event()},
		{Kind: store.ChangeDead, Delivery: orphan},
	}))
	c := changes[5]
	c.Cursor = store.Cursor{}
	same(t, "a change", c, store.Change{
		Kind: store.ChangeDead, Tenant: f.tenant, TenantName: posthaste.TenantDefault, At: f.now.Truncate(time.Microsecond),
		Event: child.ID, Delivery: dead.Delivery, Endpoint: ep.ID, Type: "invoice.paid", CorrelationID: parent.ID,
	})
}

func testChangesAgain(t *testing.T, f *fixture) {
	ep, r := f.endpoint(t), f.replica(t)
	first, second := keyed(f.event(f.leased(ep)), "a"), keyed(f.event(f.leased(ep)), "a")
	f.accept(t, r, first)
	f.accept(t, r, first, second)
	l := bornLease(r, first, 1)
	f.settle(t, r, f.delivered(l))
	f.settle(t, r, f.delivered(l))
	changes, _ := f.changesSince(t, store.ReadChangesParams{})
	same(t, "what was told", toldAll(changes), toldAll([]store.Change{
		{Kind: store.ChangeAccepted, Event: first.ID}, {Kind: store.ChangeDelivered, Delivery: l.Delivery},
	}))
}

func testChangesResume(t *testing.T, f *fixture) {
	ep, r := f.endpoint(t), f.replica(t)
	for i := range 40 {
		var events []store.NewEvent
		var results []store.Settlement
		for j := range 1 + i%3 {
			e := f.event(f.leased(ep))
			events = append(events, e)
			if l := bornLease(r, e, 1); j == 1 {
				results = append(results, f.permanent(l))
			} else {
				results = append(results, f.delivered(l))
			}
		}
		f.accept(t, r, events...)
		f.settleMoved(t, r, results...)
	}
	all, head := f.changesSince(t, store.ReadChangesParams{})
	if len(all) != 158 {
		t.Fatalf("%d changes, want 158", len(all))
	}
	for i, c := range all {
		if !head.Covers(c.Cursor) || c.Cursor.Covers(head) && i+1 < len(all) {
			t.Fatalf("the head %+v does not cover change %d at %+v, or the other way round", head, i, c.Cursor)
		}
		rest, next := f.changesSince(t, store.ReadChangesParams{After: c.Cursor, Limit: 1000})
		if !slices.Equal(toldAll(rest), toldAll(all[i+1:])) {
			t.Fatalf("after change %d at %+v: %d changes %v, want the last %d", i, c.Cursor, len(rest), toldAll(rest), len(all)-i-1)
		}
		if again, _ := f.changesSince(t, store.ReadChangesParams{After: next}); len(again) != 0 {
			t.Fatalf("%d changes after the last one", len(again))
		}
		if i%20 == 0 { // with a limit that cuts
			if rest, _ = f.changesSince(t, store.ReadChangesParams{After: c.Cursor}); !slices.Equal(toldAll(rest), toldAll(all[i+1:])) {
				t.Fatalf("after change %d, in small pages: %d changes, want %d", i, len(rest), len(all)-i-1)
			}
		}
	}
}

func testChangesWanted(t *testing.T, f *fixture) {
	other := f.createTenant(t, "acme")
	ours, theirs := f.endpoint(t), f.endpointOf(t, other)
	r := f.replica(t)
	mine, his := f.event(f.leased(ours)), f.event(f.leased(theirs))
	his.Tenant = other
	f.accept(t, r, mine, his)
	middle, err := f.Store.ChangesHead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.settleMoved(t, r, f.delivered(bornLease(r, mine, 1)), f.delivered(bornLease(r, his, 1)))
	for _, c := range []struct {
		what   string
		params store.ReadChangesParams
		want   []store.Change
	}{
		{"of one tenant", store.ReadChangesParams{Tenants: []store.TenantNo{other}}, []store.Change{
			{Kind: store.ChangeAccepted, Event: his.ID}, {Kind: store.ChangeDelivered, Delivery: his.ID.Delivery(1)},
		}},
		{"of one kind", store.ReadChangesParams{Tenants: []store.TenantNo{f.tenant}, Kinds: []store.ChangeKind{store.ChangeDelivered, store.ChangeDead}}, []store.Change{
			{Kind: store.ChangeDelivered, Delivery: mine.ID.Delivery(1)},
		}},
		{"up to an end", store.ReadChangesParams{Tenants: []store.TenantNo{f.tenant}, Until: middle}, []store.Change{
			{Kind: store.ChangeAccepted, Event: mine.ID},
		}},
		{"of no tenant", store.ReadChangesParams{Tenants: []store.TenantNo{}}, nil},
	} {
		got, next := f.changesSince(t, c.params)
		same(t, c.what, toldAll(got), toldAll(c.want))
		if c.params.Until.Next != 0 {
			same(t, "where it ends", next, middle)
		}
	}
}

func testChangesAppend(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	detail := []byte(`{"state":"closed"}`)
	err := f.Store.AppendChange(t.Context(), store.AppendChangeParams{Kind: store.ChangeGate, Tenant: f.tenant, ID: ep.ID, At: f.now, Detail: detail})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := f.changesSince(t, store.ReadChangesParams{})
	if len(got) != 1 {
		t.Fatalf("%d changes, want 1", len(got))
	}
	got[0].Cursor = store.Cursor{}
	same(t, "the change", got[0], store.Change{
		Kind: store.ChangeGate, Tenant: f.tenant, TenantName: posthaste.TenantDefault, At: f.now, Endpoint: ep.ID, Detail: detail,
	})
}

func testChangesPurge(t *testing.T, f *fixture) {
	ep, r := f.endpoint(t), f.replica(t)
	for range 5 {
		f.acceptLeased(t, r, ep)
	}
	head, err := f.Store.ChangesHead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.purged = true
	f.retain(t, retention(f.at(store.ChangesKept), 2))
	if got, _ := f.changesSince(t, store.ReadChangesParams{}); len(got) != 5 {
		t.Errorf("%d changes after a day, want 5", len(got))
	}
	if sum := f.retain(t, retention(f.at(store.ChangesPurgeAfter+time.Second), 2)); sum.Changes < 4 {
		t.Errorf("%d rows of changes went, want 4 at least", sum.Changes)
	}
	next := f.acceptLeased(t, r, ep)
	got, _ := f.changesSince(t, store.ReadChangesParams{After: head})
	same(t, "what was told since", toldAll(got), []string{told(store.Change{Kind: store.ChangeAccepted, Event: next.Delivery.Event()})})
}

// testChangesGap: a reader is told that it may have missed changes, and not told again.
func testChangesGap(t *testing.T, f *fixture) {
	ep, r := f.endpoint(t), f.replica(t)
	read := func(after store.Cursor) store.ChangePage {
		page, err := f.Store.ReadChanges(t.Context(), store.ReadChangesParams{After: after, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	f.acceptLeased(t, r, ep)
	seen, err := f.Store.ChangesHead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if page := read(seen); page.Gap || len(page.Changes) > 0 {
		t.Errorf("nothing is missing: %+v", page)
	}
	f.acceptLeased(t, r, ep)
	f.Wipe(t, "changes")
	f.purged = true
	if !read(seen).Gap {
		t.Error("an emptied table is no gap to a reader that had not seen all of it")
	}
	f.acceptLeased(t, r, ep)
	if !read(seen).Gap {
		t.Error("an emptied table is no gap to a second reader")
	}
	head, err := f.Store.ChangesHead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := f.acceptLeased(t, r, ep)
	page := read(head)
	if page.Gap {
		t.Error("a gap to a reader that begins after it")
	}
	same(t, "what was told since", toldAll(page.Changes), []string{told(store.Change{Kind: store.ChangeAccepted, Event: last.Delivery.Event()})})
	ahead := page.Next
	ahead.Next += 1000
	if !read(ahead).Gap {
		t.Error("a cursor that is ahead of the database is no gap")
	}
}

// testChangesRace: commits overtake each other all the time, and the reader goes
// on from a cursor in the middle of what it has read.
func testChangesRace(t *testing.T, f *fixture) {
	ep := f.endpoint(t)
	workers := f.workers(t, 4)
	const rounds, size = 15, 5
	var running sync.WaitGroup
	var mu sync.Mutex
	want := map[string]int{}
	for _, r := range workers {
		running.Go(func() {
			for range rounds {
				var events []store.NewEvent
				var results []store.Settlement
				mu.Lock()
				for range size {
					e := f.event(f.leased(ep))
					events, results = append(events, e), append(results, f.delivered(bornLease(r, e, 1)))
					want[told(store.Change{Kind: store.ChangeAccepted, Event: e.ID})]++
					want[told(store.Change{Kind: store.ChangeDelivered, Delivery: e.ID.Delivery(1)})]++
				}
				mu.Unlock()
				f.accept(t, r, events...)
				f.settleMoved(t, r, results...)
			}
		})
	}
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	got := map[string]int{}
	after := store.Cursor{}
	for last := false; ; {
		page, err := f.Store.ReadChanges(t.Context(), store.ReadChangesParams{After: after, Limit: 20})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range page.Changes {
			got[told(c)]++
			if after = page.Next; i == 7 && len(page.Changes) > 8 { // it drops the rest
				after, page.More = c.Cursor, true
				break
			}
		}
		if len(page.Changes) == 0 {
			after = page.Next
		}
		if last && !page.More {
			break
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
	same(t, "what was told", got, want)
}
