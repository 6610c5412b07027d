package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// What the engine owes and does not hold in memory keeps it awake until it has
// been found again.

func TestALostClaimIsFoundThoughNothingElseHappens(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 503)
	e.endpoint(r.URL, nil)
	e.flaky.loseClaims.Store(1) // of the retry: committed, but the answer is lost
	got := e.send("a", "x")
	e.eventually(60*time.Second, "the retry has arrived", func() bool { return len(r.seen()) == 2 })
	d, attempts := e.ended(got.ID, 1)
	if d.State != posthaste.StateDelivered || len(attempts) != 3 || attempts[1].Outcome != posthaste.OutcomeLost {
		t.Errorf("%+v, %+v", d, attempts)
	}
	e.eventually(40*time.Second, "the engine may sleep again", func() bool { return e.claimsLost.Load() == 0 })
	e.verified()
}

func TestAnAdoptedEventHoldsTheLowWaterMark(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 503, 503, 503)
	e.endpoint(r.URL, func(d *posthaste.Definition) {
		d.Retry.Schedule = slices.Repeat([]posthaste.Duration{posthaste.Duration(time.Second)}, 10)
	})
	entry := e.ledger.mint(e.clock.Now())
	ev := posthaste.Event{ID: entry.id, Type: "a", Source: "api", CorrelationID: entry.id, Payload: []byte("x"), FanOut: 1}
	known := e.routing.of(e.tenant.No)
	row := known.living()[0].row
	now := e.clock.Now()
	_, err := e.store.Accept(t.Context(), store.AcceptParams{
		Epoch: e.epoch(), Now: now, Routing: []store.TenantVersion{{Tenant: e.tenant.No, Version: known.version()}},
		Events: []store.NewEvent{{Event: ev, Tenant: e.tenant.No, Namespace: store.NamespaceAPI, Deliveries: []store.NewDelivery{
			{Endpoint: row.No, Leased: true, ExpiresAt: now.Add(time.Hour)},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e.ledger.abandon(entry)
	e.ledger.mu.Lock()
	entry.abandonedAt -= abandonAfter
	e.ledger.mu.Unlock()
	for range 5 { // each beat sees it once more
		e.beating.Lock()
		low, err := e.verifiedLowWater(t.Context())
		e.beating.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if e.lanes.holds(ev.ID.Delivery(1)) && low.Compare(ev.ID) > 0 {
			t.Fatalf("the mark passed an event that is leased")
		}
	}
	if d, _ := e.ended(ev.ID, 1); d.State != posthaste.StateDelivered {
		t.Errorf("%+v", d)
	}
	e.eventually(5*time.Second, "the entry is resolved", func() bool { return !e.ledger.unresolved() })
	e.verified()
}

func TestAnEndpointYoungerThanTheSnapshotIsFound(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	known, err := e.routing.ensure(t.Context(), e.tenant.No)
	if err != nil {
		t.Fatal(err)
	}
	d := posthaste.DefaultDefinition()
	d.URL = r.URL
	sealed, err := e.keyring.Seal("x", []byte(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	// As another replica would: in the store, and not in this one's memory.
	now := e.clock.Now()
	row, err := e.store.CreateEndpoint(t.Context(), store.CreateEndpointParams{
		Tenant:   e.tenant.No,
		Endpoint: posthaste.Endpoint{ID: e.ids.Mint(now), Version: 1, Definition: d, CreatedAt: now, UpdatedAt: now},
		Secrets:  []store.SealedSecret{{No: 1, Sealed: sealed, KeyID: e.keyring.KeyID()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if known.byID[row.ID] != nil {
		t.Fatal("the snapshot knows it already: nothing is tested")
	}
	got, err := e.routing.endpoint(t.Context(), row.No)
	if err != nil || got == nil || got.row.ID != row.ID {
		t.Errorf("endpoint %d: %+v, %v", row.No, got, err)
	}
}

func TestAHintThatComesWhileFallingAsleepIsHeard(t *testing.T) {
	e := startEngine(t, nil)
	var heard atomic.Int32
	speak := func() { // during the last look before sleeping
		if heard.Add(1) == 1 {
			e.watch()
		}
	}
	e.flaky.duringLook.Store(&speak)
	e.eventually(15*time.Second, "it has looked again instead of sleeping", func() bool { return heard.Load() >= 2 })
}

func TestWhatIsNotedDuringAClaimIsNotForgotten(t *testing.T) {
	a := newAgenda(func() time.Time { return testNow })
	a.note(1, testNow, testNow)
	began := a.from(1)
	a.note(1, testNow, testNow) // committed after the claim's snapshot
	a.claimed(1, time.Time{}, began, true)
	if got := dueAt(t, a, testNow); !slices.Equal(got, []store.EndpointNo{1}) {
		t.Error("forgotten by the claim")
	}
	began = a.from(1)
	a.claimed(1, time.Time{}, began, true)
	if got := dueAt(t, a, testNow); len(got) != 0 {
		t.Error("ready for ever")
	}
	a.note(1, testNow, testNow)
	a.from(1)
	a.note(1, testNow, testNow) // opened while it was judged closed
	a.drop(1)
	if got := dueAt(t, a, testNow); len(got) != 1 {
		t.Error("forgotten by the drop")
	}
}

func TestAFailingClaimDoesNotSpin(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 503)
	e.endpoint(r.URL, nil)
	e.flaky.failClaims.Store(true)
	e.send("a", "x")
	e.eventually(5*time.Second, "a claim has failed", func() bool { return e.flaky.claims.Load() > 0 })
	before := e.flaky.claims.Load()
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	<-timer.C
	if n := e.flaky.claims.Load() - before; n > 4 {
		t.Errorf("%d claims in two seconds of failing", n)
	}
	e.flaky.failClaims.Store(false)
	e.eventually(10*time.Second, "the retry has arrived", func() bool { return len(r.seen()) == 2 })
}

func TestStoppingStaysWithinTheGraceWhileTheDatabaseIsAway(t *testing.T) {
	e, r := startEngine(t, func(c *Config) { c.Grace = 2 * time.Second }), newReceiver(t)
	e.endpoint(r.URL, nil)
	before := func(store.SettleParams) error { return store.ErrUnavailable }
	e.flaky.settle.Store(&before)
	for range 5 {
		e.send("a", "x")
	}
	e.eventually(5*time.Second, "they have arrived", func() bool { return len(r.seen()) == 5 })
	e.stop() // it has a bound of its own
	e.flaky.settle.Store(nil)
	left, err := e.store.Owned(context.Background(), store.OwnedParams{Epoch: e.epoch(), To: posthaste.FloorID(time.Now().Add(time.Hour))})
	if err != nil || len(left) != 0 {
		t.Errorf("%d leases are left behind, %v", len(left), err)
	}
	e.verified()
}

// Whoever waits for a look at a source that fails waits for that one, not for those of all
// who came before him.
func TestLooksAtASourceFailTogether(t *testing.T) {
	e := startEngine(t, nil)
	e.flaky.hangSources.Store(true)
	id := posthaste.NewSourceID()
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() {
			if _, err := e.Source(t.Context(), id); err == nil || errors.Is(err, store.ErrNotFound) {
				t.Errorf("found out without a look: %v", err)
			}
		})
	}
	waiting.Wait()
	if n := e.flaky.sources.Load(); n > 5 {
		t.Errorf("%d looks, of a second each, for 20 who came at once", n)
	}
}

// An endpoint behind which nothing waits any more has no time at which it is looked at
// next: the deliveries that come after have theirs.
func TestWhatComesRightAfterAnExpiryExpiresToo(t *testing.T) {
	e := startEngine(t, nil)
	row := e.endpoint("http://127.0.0.1:1", func(d *posthaste.Definition) { d.Retry.Deadline = posthaste.Duration(5 * time.Second) })
	if _, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, func(row *store.EndpointRow) error { row.Paused = true; return nil }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if d, _ := e.ended(e.send("a", "x").ID, 1); d.State != posthaste.StateDead || d.Reason != posthaste.ReasonExpired {
			t.Errorf("%+v", d)
		}
	}
	e.verified()
}

// A tenant whose endpoints can't be loaded holds up nobody else's work.
func TestATenantThatCannotBeLoadedHoldsUpNobody(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	other, err := e.CreateTenant(t.Context(), posthaste.Tenant{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	e.flaky.failRouting.Store(int32(other.No))
	now := e.clock.Now()
	theirs := posthaste.Endpoint{ID: e.ids.Mint(now), Version: 1, Definition: posthaste.DefaultDefinition(), CreatedAt: now, UpdatedAt: now}
	bad, err := e.store.CreateEndpoint(t.Context(), store.CreateEndpointParams{Tenant: other.No, Endpoint: theirs})
	if err != nil {
		t.Fatal(err)
	}
	good := e.endpoint(r.URL, nil) // with a higher number
	// Both have work that nobody here remembers.
	var ours posthaste.ID
	for tenant, row := range map[store.TenantNo]store.EndpointRow{other.No: bad, e.tenant.No: good} {
		known, err := e.flaky.Store.Routing(t.Context(), store.RoutingParams{Tenant: tenant, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		entry := e.ledger.mint(now)
		if tenant == e.tenant.No {
			ours = entry.id
		}
		_, err = e.store.Accept(t.Context(), store.AcceptParams{
			Epoch: e.epoch(), Now: now, Routing: []store.TenantVersion{{Tenant: tenant, Version: known.Mark.Version}},
			Events: []store.NewEvent{{
				Event:  posthaste.Event{ID: entry.id, Type: "a", Source: "api", CorrelationID: entry.id, Payload: []byte("x"), FanOut: 1},
				Tenant: tenant, Namespace: store.NamespaceAPI, Deliveries: []store.NewDelivery{{Endpoint: row.No, DueAt: now, ExpiresAt: now.Add(time.Hour)}},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		e.ledger.release(entry)
	}
	e.agenda.note(bad.No, now, now)
	if d, _ := e.ended(ours, 1); d.State != posthaste.StateDelivered {
		t.Errorf("%+v", d)
	}
}

// An accept was given up, and asked for in vain; then it reaches the database after all. Stored
// now, its delivery would wait for as long as this replica lives.
func TestAnAcceptThatComesTooLateIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, e *engine) {
		r := newReceiver(t)
		row := e.endpoint(r.URL, nil)
		entry := e.ledger.mint(e.clock.Now())
		known := e.routing.of(e.tenant.No)
		now := e.clock.Now()
		every, err := e.routing.ensure(t.Context(), store.EveryTenant)
		if err != nil {
			t.Fatal(err)
		}
		late := store.AcceptParams{
			Epoch: e.epoch(), Now: now,
			Routing: []store.TenantVersion{{Tenant: store.EveryTenant, Version: every.version()}, {Tenant: e.tenant.No, Version: known.version()}},
			Events: []store.NewEvent{{
				Event:  posthaste.Event{ID: entry.id, Type: "a", Source: "api", CorrelationID: entry.id, Payload: []byte("x"), FanOut: 1},
				Tenant: e.tenant.No, Namespace: store.NamespaceAPI,
				Deliveries: []store.NewDelivery{{Endpoint: row.No, Leased: true, ExpiresAt: now.Add(time.Hour)}},
			}},
		}
		e.ledger.abandon(entry)
		e.ledger.mu.Lock()
		entry.abandonedAt -= abandonAfter
		e.ledger.mu.Unlock()
		e.eventually(20*time.Second, "the fate of the accept is decided", func() bool {
			if err := e.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			return !e.ledger.unresolved()
		})
		if _, err := e.flaky.Store.Accept(t.Context(), late); !errors.Is(err, store.ErrFenced) {
			t.Errorf("the late accept: %v, want it fenced", err)
		}
		got := e.send("a", "again") // as its sender does, who was told 503
		if d, _ := e.ended(got.ID, 1); d.State != posthaste.StateDelivered {
			t.Errorf("%+v", d)
		}
		e.verified()
	})
}
