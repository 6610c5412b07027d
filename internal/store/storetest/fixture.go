package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// tester is what the fixture needs of a *testing.T; rapid's T has it too.
type tester interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// fixture is a database with one tenant to work in and the words that the
// cases are written in. Each word fails the test when the store does not do it.
type fixture struct {
	Database
	minter posthaste.Minter
	now    time.Time // the database's clock when the case began; cases count from it
	tenant store.TenantNo
	purged bool // retention has run, and may have deleted changes

	mu      sync.Mutex
	handles []store.Store // that have registered, each a process with a name of its own
}

func newFixture(t *testing.T, db Database) *fixture {
	t.Helper()
	f := &fixture{Database: db}
	row, err := db.Store.Tenant(t.Context(), posthaste.TenantDefault)
	if err != nil {
		t.Fatalf("tenant %q of a fresh database: %v", posthaste.TenantDefault, err)
	}
	f.tenant = row.No
	// Ids and times come from one clock, as in the engine, and it stands still:
	// a case says itself how much later something happens.
	f.now = time.Now().UTC().Truncate(time.Millisecond)
	return f
}

// at is the time of the case, that much later.
func (f *fixture) at(later time.Duration) time.Time { return f.now.Add(later) }

// replica is one epoch on one handle.
type replica struct {
	store.Store
	epoch  store.Epoch
	beatAt time.Time // by this process's clock, when it last beat
	mu     sync.Mutex
}

// replica registers an epoch on the case's own handle.
func (f *fixture) replica(t tester) *replica { return f.register(t, f.Store, posthaste.ID{}) }

// rival registers an epoch on another handle.
func (f *fixture) rival(t *testing.T) *replica {
	return f.register(t, f.Another(t), posthaste.ID{})
}

func (f *fixture) register(t tester, s store.Store, lowWater posthaste.ID) *replica {
	t.Helper()
	reg, err := s.Register(t.Context(), store.RegisterParams{Name: f.nameOf(s), LowWater: lowWater})
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	if reg.Epoch == 0 {
		t.Fatalf("register: epoch 0 means none")
	}
	return &replica{Store: s, epoch: reg.Epoch, beatAt: time.Now()}
}

// nameOf returns the name that a handle's replica goes by.
func (f *fixture) nameOf(s store.Store) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.handles, s)
	if i < 0 {
		i = len(f.handles)
		f.handles = append(f.handles, s)
	}
	return fmt.Sprintf("replica %d", i)
}

// fresh beats when a slow machine has let the last beat grow old, so that a
// case that is not about the fence never meets it.
func (r *replica) fresh(t tester) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.beatAt) < store.FreshBeat/5 {
		return
	}
	r.beat(t)
	r.beatAt = time.Now()
}

func (r *replica) beat(t tester, tenants ...store.TenantVersion) store.Beat {
	t.Helper()
	b, err := r.Beat(t.Context(), store.BeatParams{Epoch: r.epoch, Tenants: tenants})
	if err != nil {
		t.Fatalf("beat of epoch %d: %v", r.epoch, err)
	}
	return b
}

// row finds the replica's own row in what a beat brings back.
func (r *replica) row(t tester) store.Replica {
	t.Helper()
	for _, row := range r.beat(t).Replicas {
		if row.Epoch == r.epoch {
			return row
		}
	}
	t.Fatalf("beat: the replica's own row of epoch %d is missing", r.epoch)
	return store.Replica{}
}

// succeed ends the life of a replica as a crash does, and returns the epoch
// that took its work over: registering does it where one process owns the
// database, else another replica reclaims.
func (f *fixture) succeed(t *testing.T, dead *replica) (*replica, store.Reclaimed) {
	t.Helper()
	if f.SingleReplica {
		reg, err := f.Store.Register(t.Context(), store.RegisterParams{Name: "successor"})
		if err != nil {
			t.Fatalf("register: %v", err)
		}
		next := &replica{Store: f.Store, epoch: reg.Epoch, beatAt: time.Now()}
		return next, store.Reclaimed{Deliveries: reg.Reclaimed, Endpoints: reg.Endpoints}
	}
	seen := dead.row(t).BeatAt
	next := f.rival(t)
	got, err := next.Reclaim(t.Context(), store.ReclaimParams{Dead: dead.epoch, SeenBeatAt: seen, Now: f.now})
	if err != nil {
		t.Fatalf("reclaim of epoch %d: %v", dead.epoch, err)
	}
	return next, got
}

// endpoint makes an endpoint that takes every event.
func (f *fixture) endpoint(t tester) store.EndpointRow { return f.endpointOf(t, f.tenant) }

func (f *fixture) endpointOf(t tester, tenant store.TenantNo) store.EndpointRow {
	t.Helper()
	d := posthaste.DefaultDefinition()
	d.URL = "https://receiver.example/hook"
	row, err := f.Store.CreateEndpoint(t.Context(), store.CreateEndpointParams{
		Tenant:   tenant,
		Endpoint: posthaste.Endpoint{ID: f.minter.Mint(f.now), Definition: d, CreatedAt: f.now},
		Secrets:  []store.SealedSecret{{No: 1, Sealed: []byte("sealed"), KeyID: "k1"}},
	})
	if err != nil {
		t.Fatalf("create endpoint: %v", err)
	}
	return row
}

func (f *fixture) createTenant(t tester, name string) store.TenantNo {
	t.Helper()
	row, err := f.Store.CreateTenant(t.Context(), posthaste.Tenant{Name: name, CreatedAt: f.now})
	if err != nil {
		t.Fatalf("create tenant %q: %v", name, err)
	}
	return row.No
}

// version reads the routing version of a tenant, as a matcher does.
func (f *fixture) version(t tester, tenant store.TenantNo) store.TenantVersion {
	t.Helper()
	return store.TenantVersion{Tenant: tenant, Version: f.routing(t, tenant, store.RoutingMark{}).Mark.Version}
}

// routing reads the first 1,000 endpoints of a tenant, or its changes since a mark.
func (f *fixture) routing(t tester, tenant store.TenantNo, since store.RoutingMark) store.Routing {
	t.Helper()
	r, err := f.Store.Routing(t.Context(), store.RoutingParams{Tenant: tenant, Since: since, Limit: 1000})
	if err != nil {
		t.Fatalf("routing of tenant %d: %v", tenant, err)
	}
	return r
}

// event is a keyless event of the case's tenant with the given deliveries.
func (f *fixture) event(deliveries ...store.NewDelivery) store.NewEvent {
	return f.eventAt(f.now, deliveries...)
}

// eventAt is an event that was minted at another time.
func (f *fixture) eventAt(at time.Time, deliveries ...store.NewDelivery) store.NewEvent {
	id := f.minter.Mint(at)
	if at.Before(f.now) { // the minter never steps back
		id = new(posthaste.Minter).Mint(at)
	}
	e := posthaste.Event{
		ID: id, Type: "invoice.paid", Source: "api", ContentType: "application/json",
		Payload: []byte(`{"n":1}`), FanOut: len(deliveries), CorrelationID: id,
	}
	return store.NewEvent{Event: e, Tenant: f.tenant, Namespace: store.NamespaceAPI, Sum: store.Hash{1}, Deliveries: deliveries}
}

// keyed gives an event an idempotency key.
func keyed(e store.NewEvent, key string) store.NewEvent {
	e.IdempotencyKey = key
	sum := sha256.Sum256([]byte(key))
	copy(e.Key[:], sum[:])
	return e
}

// leased is a delivery that is born leased.
func (f *fixture) leased(ep store.EndpointRow) store.NewDelivery {
	return store.NewDelivery{Endpoint: ep.No, Leased: true, ExpiresAt: f.at(96 * time.Hour)}
}

// due is a delivery that is born due.
func (f *fixture) due(ep store.EndpointRow, at time.Time) store.NewDelivery {
	return store.NewDelivery{Endpoint: ep.No, DueAt: at, ExpiresAt: f.at(96 * time.Hour)}
}

// params are those of an accept by a replica with the present routing versions.
func (f *fixture) params(t tester, r *replica, events ...store.NewEvent) store.AcceptParams {
	t.Helper()
	p := store.AcceptParams{Epoch: r.epoch, Now: f.now, Events: events}
	for _, e := range events {
		if !slices.ContainsFunc(p.Routing, func(v store.TenantVersion) bool { return v.Tenant == e.Tenant }) {
			p.Routing = append(p.Routing, f.version(t, e.Tenant))
		}
	}
	p.Routing = append(p.Routing, f.version(t, store.EveryTenant))
	return p
}

// accept stores a batch and returns the answers.
func (f *fixture) accept(t tester, r *replica, events ...store.NewEvent) []store.AcceptedEvent {
	t.Helper()
	r.fresh(t)
	got, err := r.Accept(t.Context(), f.params(t, r, events...))
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	if len(got.Stale) != 0 || len(got.Events) != len(events) {
		t.Fatalf("accept: %d answers to %d events, stale %v", len(got.Events), len(events), got.Stale)
	}
	return got.Events
}

// acceptLeased stores one event with one delivery, born leased, and returns the lease.
func (f *fixture) acceptLeased(t tester, r *replica, ep store.EndpointRow) store.Lease {
	t.Helper()
	e := f.event(f.leased(ep))
	f.accept(t, r, e)
	return bornLease(r, e, 1)
}

// acceptDue stores one event with one delivery, due now, and returns its id.
func (f *fixture) acceptDue(t tester, r *replica, ep store.EndpointRow) posthaste.ID {
	t.Helper()
	e := f.event(f.due(ep, f.now))
	f.accept(t, r, e)
	return e.ID.Delivery(1)
}

// bornLease is the lease of an event's n-th delivery that was born leased.
func bornLease(r *replica, e store.NewEvent, n uint32) store.Lease {
	d := e.Deliveries[n-1]
	return store.Lease{
		Delivery: e.ID.Delivery(n), Tenant: e.Tenant, Endpoint: d.Endpoint,
		Epoch: r.epoch, Number: 1, ExpiresAt: d.ExpiresAt,
	}
}

// claim takes up to 100 rows of each endpoint at a time.
func (f *fixture) claim(t tester, r *replica, now time.Time, endpoints ...store.EndpointRow) []store.Lease {
	t.Helper()
	r.fresh(t)
	p := store.ClaimParams{Epoch: r.epoch, Now: now}
	for _, ep := range endpoints {
		p.Want = append(p.Want, store.ClaimWant{Endpoint: ep.No, Cap: 100})
	}
	got, err := r.Claim(t.Context(), p)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return got.Leases
}

// claimOne claims what must be exactly one delivery.
func (f *fixture) claimOne(t tester, r *replica, now time.Time, ep store.EndpointRow) store.Lease {
	t.Helper()
	got := f.claim(t, r, now, ep)
	if len(got) != 1 {
		t.Fatalf("claim: %d leases, want 1: %v", len(got), got)
	}
	return got[0]
}

// settle records settlements and returns what the store says of them.
func (f *fixture) settle(t tester, s store.Store, settlements ...store.Settlement) store.Settled {
	t.Helper()
	return f.settleAt(t, s, f.now, settlements...)
}

func (f *fixture) settleAt(t tester, s store.Store, now time.Time, settlements ...store.Settlement) store.Settled {
	t.Helper()
	got, err := s.Settle(t.Context(), store.SettleParams{Now: now, Settlements: settlements})
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	if len(got.Moved) != len(settlements) {
		t.Fatalf("settle: %d answers to %d settlements", len(got.Moved), len(settlements))
	}
	return got
}

// settleMoved is settle where each settlement must move its delivery.
func (f *fixture) settleMoved(t tester, s store.Store, settlements ...store.Settlement) {
	t.Helper()
	got := f.settle(t, s, settlements...)
	for i, moved := range got.Moved {
		if !moved {
			t.Fatalf("settle: settlement %d (%+v) did not move its delivery", i, settlements[i].Lease)
		}
	}
}

// die makes a delivery dead by a permanent failure and returns its id.
func (f *fixture) die(t tester, r *replica, ep store.EndpointRow) posthaste.ID {
	t.Helper()
	l := f.acceptLeased(t, r, ep)
	f.settleMoved(t, r, f.permanent(l))
	return l.Delivery
}

func (f *fixture) attempt(l store.Lease, o posthaste.Outcome, status int) *posthaste.Attempt {
	a := &posthaste.Attempt{
		Number: l.Number, StartedAt: f.now, Outcome: o, StatusCode: status, EndpointVersion: 1, Replica: "case",
		Timings: posthaste.Timings{Total: 12 * time.Millisecond},
	}
	if o != posthaste.OutcomeDelivered {
		a.Cause, a.Error = posthaste.CauseStatus, fmt.Sprintf("answered %d", status)
	}
	return a
}

// delivered, transient and permanent are the settlements of an attempt.
func (f *fixture) delivered(l store.Lease) store.Settlement {
	return store.Settlement{
		Lease: l, Attempt: f.attempt(l, posthaste.OutcomeDelivered, 200),
		State: posthaste.StateDelivered, Failures: l.Failures,
	}
}

func (f *fixture) transient(l store.Lease, dueAt time.Time) store.Settlement {
	return store.Settlement{
		Lease: l, Attempt: f.attempt(l, posthaste.OutcomeTransient, 503),
		State: posthaste.StatePending, Failures: l.Failures + 1, DueAt: dueAt,
	}
}

func (f *fixture) permanent(l store.Lease) store.Settlement {
	return store.Settlement{
		Lease: l, Attempt: f.attempt(l, posthaste.OutcomePermanent, 400),
		State: posthaste.StateDead, Failures: l.Failures, Reason: posthaste.ReasonPermanent,
	}
}

// unstarted gives a lease back without an attempt.
func unstarted(l store.Lease, dueAt time.Time) store.Settlement {
	return store.Settlement{Lease: l, State: posthaste.StatePending, Failures: l.Failures, DueAt: dueAt}
}

// delivery reads a delivery of the case's tenant.
func (f *fixture) delivery(t tester, id posthaste.ID) store.DeliveryRow {
	t.Helper()
	d, err := f.Store.Delivery(t.Context(), f.tenant, id)
	if err != nil {
		t.Fatalf("delivery %s: %v", id.Print(posthaste.KindDelivery), err)
	}
	return d
}

func (f *fixture) attempts(t tester, id posthaste.ID) []posthaste.Attempt {
	t.Helper()
	got, err := f.Store.Attempts(t.Context(), id)
	if err != nil {
		t.Fatalf("attempts of %s: %v", id.Print(posthaste.KindDelivery), err)
	}
	return got
}

// wantAttempts checks the records of a delivery: "1 lost", "2 delivered late" …
func (f *fixture) wantAttempts(t tester, id posthaste.ID, want ...string) {
	t.Helper()
	var got []string
	for _, a := range f.attempts(t, id) {
		s := fmt.Sprint(a.Number, " ", a.Outcome)
		if a.Late {
			s += " late"
		}
		got = append(got, s)
	}
	if !slices.Equal(got, want) {
		t.Errorf("attempts of %s: %q, want %q", id.Print(posthaste.KindDelivery), got, want)
	}
}

// wantStatus checks the status and the number of attempts of a delivery.
func (f *fixture) wantStatus(t tester, id posthaste.ID, status string, attempts int) store.DeliveryRow {
	t.Helper()
	d := f.delivery(t, id)
	if d.Status() != status || d.Attempts != attempts {
		t.Errorf("delivery %s is %s after %d attempts, want %s after %d",
			id.Print(posthaste.KindDelivery), d.Status(), d.Attempts, status, attempts)
	}
	return d
}

// wantDue checks the number of rows that a delivery has in due.
func (f *fixture) wantDue(t *testing.T, id posthaste.ID, want int) {
	t.Helper()
	if got := f.DueRows(t)[id]; got != want {
		t.Errorf("delivery %s has %d due rows, want %d", id.Print(posthaste.KindDelivery), got, want)
	}
}

// wantClean runs Verify over the whole database, in pages.
func (f *fixture) wantClean(t *testing.T) {
	t.Helper()
	if findings := f.verify(t, 500).Findings; len(findings) > 0 {
		t.Errorf("verify found %d violations: %v", len(findings), findings)
	}
}

// verify adds the pages of Verify up. It has a context of its own, since it
// also runs when that of the test has ended.
func (f *fixture) verify(t *testing.T, limit int) store.Verified {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	var sum store.Verified
	for p := (store.VerifyParams{Limit: limit}); ; p.From = sum.Next {
		v, err := f.Store.Verify(ctx, p)
		if err != nil {
			t.Fatalf("verify from %x: %v", p.From, err)
		}
		sum.Events, sum.Deliveries, sum.Attempts = sum.Events+v.Events, sum.Deliveries+v.Deliveries, sum.Attempts+v.Attempts
		sum.Findings, sum.Next = append(sum.Findings, v.Findings...), v.Next
		if v.Next.IsZero() {
			return sum
		}
		if v.Next.Compare(p.From) <= 0 {
			t.Fatalf("verify from %x goes on at %x: it does not advance", p.From, v.Next)
		}
	}
}

func wantErr(t tester, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}

func wantCode(t tester, what string, err error, want posthaste.Code) {
	t.Helper()
	if got := posthaste.CodeOf(err); got != want {
		t.Errorf("%s: code %q (error %v), want %q", what, got, err, want)
	}
}

// same compares values; nil and empty are the same, and so are equal instants.
func same(t tester, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
