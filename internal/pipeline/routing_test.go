package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// The index finds exactly what [posthaste.Definition.Matches] says, by number, while
// endpoints come, change and go.
func TestTheIndexFindsWhatMatches(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"a", "a.b", "a.bc", "a.b.c", "ab", "b", "b.c", "b.c.d.e"}
	patterns := []string{"*"}
	for _, w := range words {
		patterns = append(patterns, w, w+".*", w+"*")
	}
	pick := func(list []string, n int) (out []string) {
		for range random.IntN(n + 1) {
			out = append(out, list[random.IntN(len(list))])
		}
		return out
	}
	r, living := newRoutes(1, "x"), map[store.EndpointNo]*endpoint{}
	for step := range 2000 {
		no := store.EndpointNo(1 + random.IntN(40))
		e := &endpoint{row: store.EndpointRow{No: no, Endpoint: posthaste.Endpoint{
			ID: posthaste.ID{byte(no)}, Disabled: random.IntN(5) == 0,
			Definition: posthaste.Definition{EventTypes: pick(patterns, 4), Sources: pick([]string{"api", "other"}, 1)},
		}}}
		if living[no] = e; random.IntN(4) == 0 {
			e.row.DeletedAt = time.UnixMicro(1)
			delete(living, no)
		}
		r.put([]*endpoint{e})
		eventType := words[random.IntN(len(words))]
		var want []*endpoint
		for _, e := range living {
			if !e.row.Disabled && e.row.Matches(eventType, "api") {
				want = append(want, e)
			}
		}
		slices.SortFunc(want, byNo)
		got := r.match(noRoutes, Submission{Event: posthaste.Event{Type: eventType, Source: "api"}}).targets
		if !slices.Equal(got, want) {
			t.Fatalf("step %d, type %s: %d endpoints, want %d", step, eventType, len(got), len(want))
		}
	}
	for no := range living {
		r.put([]*endpoint{{row: store.EndpointRow{No: no, Endpoint: posthaste.Endpoint{ID: posthaste.ID{byte(no)}, DeletedAt: time.UnixMicro(1)}}}})
	}
	if x := &r.types; len(x.all)+len(x.exact)+len(x.prefix)+len(x.lengths)+len(x.count) != 0 {
		t.Errorf("left behind: %+v", x)
	}
}

// onRouting calls f before each page of endpoints that the engine reads.
func (e *engine) onRouting(f func(context.Context, store.RoutingParams) error) {
	e.flaky.routing.Store(&f)
}

// behind makes an endpoint as another replica would: in the database alone.
func (e *engine) behind(tenant store.TenantNo, url string) store.EndpointRow {
	e.t.Helper()
	d := posthaste.DefaultDefinition()
	d.URL = url
	now := e.clock.Now()
	id := e.ids.Mint(now)
	sealed, err := e.keyring.Seal(secretContext(id, 1), []byte(testSecret))
	if err != nil {
		e.t.Fatal(err)
	}
	row, err := e.store.CreateEndpoint(e.t.Context(), store.CreateEndpointParams{
		Tenant: tenant, Endpoint: posthaste.Endpoint{ID: id, Definition: d, CreatedAt: now},
		Secrets: []store.SealedSecret{{No: 1, Sealed: sealed, KeyID: e.keyring.KeyID()}},
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return row
}

// A page that meets its time limit is asked for with fewer endpoints, never again at
// the same size, and what was read before it is not read again.
func TestAPageThatMeetsItsLimitIsAskedSmaller(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	big, err := e.CreateTenant(t.Context(), posthaste.Tenant{Name: "big"})
	if err != nil {
		t.Fatal(err)
	}
	const endpoints = 300
	for range endpoints {
		e.behind(big.No, r.URL)
	}
	e.routing.timeout = 500 * time.Millisecond
	var mu sync.Mutex
	var failed []int
	starts := map[store.RoutingCursor]int{}
	e.onRouting(func(ctx context.Context, p store.RoutingParams) error {
		if p.Tenant != big.No {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if p.Limit > 20 {
			failed = append(failed, p.Limit)
			<-ctx.Done()
			return store.ErrUnavailable
		}
		starts[p.After]++
		return nil
	})
	row, err := e.Tenant(t.Context(), "big")
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Accept(t.Context(), Submission{Tenant: row, Event: posthaste.Event{Type: "a", Source: "api", Payload: []byte("x")}})
	if err != nil || got.Deliveries != endpoints {
		t.Fatalf("%+v, %v", got, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(failed) < 2 || failed[0] <= failed[1] {
		t.Errorf("sizes of the pages that failed: %v", failed)
	}
	for at, n := range starts {
		if n > 1 && at != (store.RoutingCursor{}) {
			t.Errorf("the page from %+v was read %d times", at, n)
		}
	}
}

// While a tenant's changes are being loaded its events wait, and nobody else's.
func TestNobodyElseWaitsForALoad(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	if _, err := e.CreateTenant(t.Context(), posthaste.Tenant{Name: "slow"}); err != nil {
		t.Fatal(err)
	}
	slow, err := e.Tenant(t.Context(), "slow")
	if err != nil {
		t.Fatal(err)
	}
	event := Submission{Tenant: slow, Event: posthaste.Event{Type: "a", Source: "api", Payload: []byte("x")}}
	if _, err := e.Accept(t.Context(), event); err != nil { // its routes are in memory
		t.Fatal(err)
	}
	release, reached := make(chan struct{}), make(chan struct{}, 100)
	e.onRouting(func(ctx context.Context, p store.RoutingParams) error {
		if p.Tenant == slow.No {
			reached <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
				return store.ErrUnavailable
			}
		}
		return nil
	})
	e.behind(slow.No, r.URL)
	type answer struct {
		Receipt
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		got, err := e.Accept(context.Background(), event)
		answered <- answer{got, err}
	}()
	<-reached
	for range 50 {
		e.send("a", "x") // fails the test where it has to wait for the load
	}
	select {
	case got := <-answered:
		t.Fatalf("the event of the slow tenant was answered before its endpoint was known: %+v", got)
	default:
	}
	close(release)
	if got := <-answered; got.err != nil || got.Deliveries != 1 {
		t.Errorf("the event of the slow tenant: %+v", got)
	}
	e.verified()
}

// A heartbeat succeeds though a tenant that changed can't be loaded.
func TestABeatGoesOnWithoutATenantThatCannotBeLoaded(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	row := e.endpoint(r.URL, nil)
	e.flaky.failRouting.Store(int32(e.tenant.No))
	e.behind(e.tenant.No, r.URL)
	for range 3 {
		if err := e.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if e.routing.current(row.No) == nil {
		t.Error("what was known is lost")
	}
	e.flaky.failRouting.Store(0)
	if got := e.send("a", "x"); got.Deliveries != 2 {
		t.Errorf("%+v", got)
	}
}

// A standby that lacks the last changes took over: memory is ahead of the database, or
// beside it once the database has moved on. Endpoints made since get every event, and
// those that were lost get none.
func TestMemoryThatIsAheadOfTheDatabase(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "beside": -time.Microsecond} {
		t.Run(name, func(t *testing.T) {
			e, r := startEngine(t, nil), newReceiver(t)
			kept := e.endpoint(r.URL, nil)
			known := e.routing.of(e.tenant.No)
			// As if another endpoint had been made, and lost with its change.
			ghost := kept
			ghost.No, ghost.ID = kept.No+1000, e.ids.Mint(e.clock.Now())
			lost := e.prepareEndpoint(ghost)
			known.put([]*endpoint{lost})
			e.routing.publish([]*endpoint{lost})
			mark, _ := known.state()
			known.reach(store.RoutingMark{Version: mark.Version + ahead.Microseconds(), Endpoint: ghost.No, EndpointVersion: 1}, time.Time{})
			made := e.behind(e.tenant.No, r.URL)
			got := e.send("a", "x")
			var to []store.EndpointNo
			for n := range got.Deliveries {
				to = append(to, e.delivery(got.ID, uint32(n+1)).Endpoint)
			}
			if !slices.Equal(to, []store.EndpointNo{kept.No, made.No}) {
				t.Errorf("delivered to %v, want %v and %v", to, kept.No, made.No)
			}
			if e := e.routing.current(ghost.No); e != nil && !e.deleted() {
				t.Error("the lost endpoint lives on in memory")
			}
			e.verified()
		})
	}
}

// The database was rewound, and the number of a tenant that was lost is another one's.
func TestANumberThatIsAnotherTenantsNow(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	lost := e.tenant
	lost.Name = "lost"
	_, err := e.Accept(t.Context(), Submission{Tenant: lost, Event: posthaste.Event{Type: "a", Source: "api"}})
	if posthaste.CodeOf(err) != posthaste.CodeUnavailable {
		t.Errorf("%v: an event of one tenant was matched against another's endpoints", err)
	}
	lost.No = 4711
	_, err = e.Accept(t.Context(), Submission{Tenant: lost, Event: posthaste.Event{Type: "a", Source: "api"}})
	if err == nil {
		t.Error("an event was taken for a tenant that does not exist")
	}
}

// A heartbeat compares a bounded number of tenants, and each of them in its turn.
func TestABeatAsksForTenantsInTurns(t *testing.T) {
	r := newRouting(nil, nil, nil)
	const tenants = 3*versionsPerBeat + 100
	for i := range tenants {
		r.remember(store.TenantRow{No: store.TenantNo(i + 1), RoutingVersion: 1, Tenant: posthaste.Tenant{Name: fmt.Sprint(i)}})
	}
	r.forgetName(5)
	seen := map[store.TenantNo]bool{}
	for range 4 {
		compare, _ := r.versions()
		if len(compare) > versionsPerBeat {
			t.Fatalf("a beat compares %d tenants", len(compare))
		}
		for _, v := range compare {
			seen[v.Tenant] = true
		}
	}
	if len(seen) != tenants-1 || seen[5] {
		t.Errorf("%d tenants were asked for, want %d", len(seen), tenants-1)
	}
}

func TestALookGoesOnWhereItStopped(t *testing.T) {
	due := []store.EndpointDue{{Endpoint: 2}, {Endpoint: 5}, {Endpoint: 9}}
	for last, want := range map[store.EndpointNo][]store.EndpointNo{0: {2, 5, 9}, 2: {5, 9, 2}, 4: {5, 9, 2}, 9: {2, 5, 9}, 10: {2, 5, 9}} {
		var got []store.EndpointNo
		for _, d := range after(due, last) {
			got = append(got, d.Endpoint)
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %d: %v, want %v", last, got, want)
		}
	}
}
