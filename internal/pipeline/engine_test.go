package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/sqlite"
)

// flaky is a real store whose calls a test can make fail, before or after they
// took effect.
type flaky struct {
	store.Store

	hints     atomic.Int64 // calls of Wake
	mute      atomic.Bool  // they fail
	mu        sync.Mutex
	told      []store.EndpointNo
	lookedFor bool                                                                                    // Wake was called without endpoints
	accept    atomic.Pointer[func(store.AcceptParams, store.Accepted, error) (store.Accepted, error)] // after
	refuse    atomic.Pointer[func(store.AcceptParams) error]                                          // before
	settle    atomic.Pointer[func(store.SettleParams) error]                                          // before
	halves    atomic.Int64                                                                            // so many batches are settled but for their last one, and fail
	beats     atomic.Int64

	// They report whether a statement of that many rows takes longer than its time limit.
	hangAccept, hangSettle atomic.Pointer[func(rows int) bool]

	claims     atomic.Int64
	throughs   atomic.Int64 // claims through gates
	loseClaims atomic.Int64 // so many claims take effect and their answer is lost
	failClaims atomic.Bool
	load       atomic.Pointer[func(context.Context, store.LoadParams) ([]posthaste.Event, error)] // instead
	lockGates  atomic.Bool                                                                        // as if somebody else held the rows of all gates
	hideGates  atomic.Bool                                                                        // the list of those that are shut can't be had

	hangSources atomic.Bool // a source can't be had before its caller's patience is over
	sources     atomic.Int64

	failEndings atomic.Bool                                                      // nothing of deleted or closed endpoints can be ended
	failRouting atomic.Int32                                                     // the endpoints of this tenant can't be had
	routing     atomic.Pointer[func(context.Context, store.RoutingParams) error] // before each page of endpoints

	claimedThrough atomic.Pointer[func()] // called after each claim through a gate that took something
	duringLook     atomic.Pointer[func()] // called with each look at the due table

	away atomic.Bool // beats and everything below fail
}

func (f *flaky) Accept(ctx context.Context, p store.AcceptParams) (store.Accepted, error) {
	if before := f.refuse.Load(); before != nil {
		if err := (*before)(p); err != nil {
			return store.Accepted{}, err
		}
	}
	if hangs := f.hangAccept.Load(); hangs != nil {
		rows := len(p.Events)
		for _, e := range p.Events {
			rows += len(e.Deliveries)
		}
		if (*hangs)(rows) {
			<-ctx.Done()
			return store.Accepted{}, fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
		}
	}
	got, err := f.Store.Accept(ctx, p)
	if after := f.accept.Load(); after != nil {
		return (*after)(p, got, err)
	}
	return got, err
}

func (f *flaky) Settle(ctx context.Context, p store.SettleParams) (store.Settled, error) {
	if before := f.settle.Load(); before != nil {
		if err := (*before)(p); err != nil {
			return store.Settled{}, err
		}
	}
	if hangs := f.hangSettle.Load(); hangs != nil && (*hangs)(len(p.Settlements)) {
		<-ctx.Done()
		return store.Settled{}, fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
	}
	if n := len(p.Settlements); n > 1 && f.halves.Add(-1) >= 0 {
		got, err := f.Store.Settle(ctx, store.SettleParams{Now: p.Now, Settlements: p.Settlements[:n-1]})
		got.Moved = append(got.Moved, false)
		return got, errors.Join(err, store.ErrUnavailable)
	}
	return f.Store.Settle(ctx, p)
}

func (f *flaky) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	f.claims.Add(1)
	if f.failClaims.Load() {
		return store.Claimed{}, store.ErrUnavailable
	}
	got, err := f.Store.Claim(ctx, p)
	if err == nil && len(got.Leases) > 0 && f.loseClaims.Add(-1) >= 0 {
		return store.Claimed{}, store.ErrUnavailable
	}
	return got, err
}

func (f *flaky) Load(ctx context.Context, p store.LoadParams) ([]posthaste.Event, error) {
	if instead := f.load.Load(); instead != nil {
		return (*instead)(ctx, p)
	}
	return f.Store.Load(ctx, p)
}

func (f *flaky) ClaimThrough(ctx context.Context, p store.ClaimThroughParams) (store.ClaimedThrough, error) {
	f.throughs.Add(1)
	if f.lockGates.Load() {
		return store.ClaimedThrough{}, store.ErrLocked
	}
	got, err := f.Store.ClaimThrough(ctx, p)
	if after := f.claimedThrough.Load(); after != nil && len(got.Leases) > 0 {
		(*after)()
	}
	return got, err
}

func (f *flaky) ShutGates(ctx context.Context, now time.Time) ([]store.Gate, error) {
	if f.hideGates.Load() {
		return nil, store.ErrUnavailable
	}
	return f.Store.ShutGates(ctx, now)
}

func (f *flaky) Source(ctx context.Context, tenant store.TenantNo, id posthaste.ID) (store.SourceRow, error) {
	if f.hangSources.Load() {
		f.sources.Add(1)
		<-ctx.Done()
		return store.SourceRow{}, store.ErrUnavailable
	}
	return f.Store.Source(ctx, tenant, id)
}

func (f *flaky) Routing(ctx context.Context, p store.RoutingParams) (store.Routing, error) {
	if p.Tenant != 0 && int32(p.Tenant) == f.failRouting.Load() {
		return store.Routing{}, store.ErrUnavailable
	}
	if before := f.routing.Load(); before != nil {
		if err := (*before)(ctx, p); err != nil {
			return store.Routing{}, err
		}
	}
	return f.Store.Routing(ctx, p)
}

func (f *flaky) EndDeleted(ctx context.Context, p store.EndDeletedParams) (int, error) {
	if f.failEndings.Load() {
		return 0, store.ErrUnavailable
	}
	return f.Store.EndDeleted(ctx, p)
}

func (f *flaky) EndExpired(ctx context.Context, p store.EndExpiredParams) (store.EndedExpired, error) {
	if f.failEndings.Load() {
		return store.EndedExpired{}, store.ErrUnavailable
	}
	return f.Store.EndExpired(ctx, p)
}

func (f *flaky) DueEndpoints(ctx context.Context) ([]store.EndpointDue, error) {
	got, err := f.Store.DueEndpoints(ctx)
	if during := f.duringLook.Load(); during != nil {
		(*during)()
	}
	return got, err
}

func (f *flaky) Wake(ctx context.Context, endpoints []store.EndpointNo) error {
	f.hints.Add(1)
	if f.mute.Load() {
		return store.ErrUnavailable
	}
	f.mu.Lock()
	f.told, f.lookedFor = append(f.told, endpoints...), f.lookedFor || len(endpoints) == 0
	f.mu.Unlock()
	return f.Store.Wake(ctx, endpoints)
}

func (f *flaky) Beat(ctx context.Context, p store.BeatParams) (store.Beat, error) {
	f.beats.Add(1)
	if f.away.Load() {
		return store.Beat{}, store.ErrUnavailable
	}
	return f.Store.Beat(ctx, p)
}

// engine is a pipeline that runs on a database of its own.
type engine struct {
	*Pipeline
	t      *testing.T
	flaky  *flaky
	tenant store.TenantRow
	stop   func()
}

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func startEngine(t *testing.T, edit func(*Config)) *engine {
	t.Helper()
	ctx := t.Context()
	db, err := sqlite.Open(ctx, sqlite.Config{Path: testdb.SQLite(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	keys, err := keyring.New(keyring.Generate())
	if err != nil {
		t.Fatal(err)
	}
	f := &flaky{Store: db}
	cfg := Config{
		Store: f, Keyring: keys, Replica: "test", Grace: 5 * time.Second,
		Sender: deliver.New(deliver.Config{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHTTP: deliver.HTTPNetworks}),
		Log:    slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if edit != nil {
		edit(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runCtx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(runCtx) }()
	e := &engine{Pipeline: p, t: t, flaky: f, stop: sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})}
	t.Cleanup(e.stop)
	e.eventually(5*time.Second, "ready", func() bool { return p.Ready() == nil })
	if e.tenant, err = p.Tenant(ctx, posthaste.TenantDefault); err != nil {
		t.Fatal(err)
	}
	return e
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func (e *engine) eventually(limit time.Duration, what string, done func() bool) {
	e.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !done(); <-tick.C {
		if time.Now().After(end) {
			e.t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func (e *engine) endpoint(url string, edit func(*posthaste.Definition)) store.EndpointRow {
	e.t.Helper()
	d := posthaste.DefaultDefinition()
	d.URL = url
	d.Retry.Schedule = []posthaste.Duration{posthaste.Duration(20 * time.Millisecond), posthaste.Duration(20 * time.Millisecond)}
	d.Retry.Jitter = 0
	d.Retry.Timeout = posthaste.Duration(2 * time.Second)
	if edit != nil {
		edit(&d)
	}
	row, err := e.CreateEndpoint(e.t.Context(), e.tenant, posthaste.Endpoint{Definition: d}, testSecret)
	if err != nil {
		e.t.Fatal(err)
	}
	return row
}

func (e *engine) send(eventType, payload string) Receipt {
	e.t.Helper()
	r, err := e.Accept(e.t.Context(), Submission{Tenant: e.tenant, Event: posthaste.Event{
		Type: eventType, Source: "api", ContentType: "application/json", Payload: []byte(payload),
	}})
	if err != nil {
		e.t.Fatalf("accept: %v", err)
	}
	return r
}

func (e *engine) delivery(event posthaste.ID, n uint32) store.DeliveryRow {
	e.t.Helper()
	d, err := e.store.Delivery(e.t.Context(), e.tenant.No, event.Delivery(n))
	if err != nil {
		e.t.Fatalf("delivery: %v", err)
	}
	return d
}

// ended waits until a delivery is terminal and returns it with its attempts.
func (e *engine) ended(event posthaste.ID, n uint32) (store.DeliveryRow, []posthaste.Attempt) {
	e.t.Helper()
	var d store.DeliveryRow
	e.eventually(15*time.Second, "the delivery is terminal", func() bool {
		d = e.delivery(event, n)
		return d.State != posthaste.StatePending
	})
	attempts, err := e.store.Attempts(e.t.Context(), d.ID)
	if err != nil {
		e.t.Fatal(err)
	}
	return d, attempts
}

// verified stops the engine and checks that the database keeps the promise.
func (e *engine) verified() {
	e.t.Helper()
	e.stop()
	got, err := e.store.Verify(context.Background(), store.VerifyParams{Limit: 100_000})
	if err != nil {
		e.t.Fatal(err)
	}
	for _, f := range got.Findings {
		e.t.Errorf("verify: %s: %s", f.Delivery.Print(posthaste.KindDelivery), f.What)
	}
}

// receiver answers with the statuses given, then with 200, and remembers what came.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	answers []int
	bodies  []string
	numbers []string
	header  http.Header // sent with every answer
}

func newReceiver(t *testing.T, answers ...int) *receiver {
	r := &receiver{answers: answers, header: http.Header{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bodies = append(r.bodies, string(body))
		r.numbers = append(r.numbers, req.Header.Get("posthaste-attempt"))
		for k, v := range r.header {
			w.Header()[k] = v
		}
		status := http.StatusOK
		if len(r.answers) > 0 {
			status, r.answers = r.answers[0], r.answers[1:]
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bodies)
}

func TestAnEventArrivesAndIsRecorded(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	payload := `{ "n": 12345678901234567890, "s":"\u00e9" }`
	got := e.send("invoice.paid", payload)
	if got.Deliveries != 1 || got.Duplicate {
		t.Errorf("receipt %+v", got)
	}
	d, attempts := e.ended(got.ID, 1)
	if d.State != posthaste.StateDelivered || d.Attempts != 1 || len(attempts) != 1 || attempts[0].StatusCode != 200 || attempts[0].Replica != "test" {
		t.Errorf("delivery %+v, attempts %+v", d, attempts)
	}
	if seen := r.seen(); !slices.Equal(seen, []string{payload}) {
		t.Errorf("the receiver saw %q", seen)
	}
	e.verified()
}

func TestTransientAnswersAreTriedAgain(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 503, 302)
	e.endpoint(r.URL, nil)
	got := e.send("a", "x")
	d, attempts := e.ended(got.ID, 1)
	if d.State != posthaste.StateDelivered || d.Attempts != 3 || len(attempts) != 3 {
		t.Fatalf("delivery %+v, attempts %+v", d, attempts)
	}
	if !slices.Equal(r.numbers, []string{"1", "2", "3"}) {
		t.Errorf("the receiver saw the numbers %v", r.numbers)
	}
	e.verified()
}

func TestADeadDeliveryIsReplayedWithAFreshScheduleAndNumbersThatGoOn(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 500, 500, 500, 500)
	e.endpoint(r.URL, nil)
	got := e.send("a", "x")
	d, _ := e.ended(got.ID, 1)
	if d.State != posthaste.StateDead || d.Reason != posthaste.ReasonExhausted || d.Attempts != 3 {
		t.Fatalf("delivery %+v", d)
	}
	results := make(chan error, 50)
	for range 50 {
		go func() { results <- e.Replay(t.Context(), e.tenant, d.ID) }()
	}
	counts := map[posthaste.Code]int{}
	for range 50 {
		counts[posthaste.CodeOf(<-results)]++
	}
	if counts[""] != 1 || counts[posthaste.CodeNotDead] != 49 {
		t.Errorf("50 replays at once: %v", counts)
	}
	d, attempts := e.ended(got.ID, 1)
	if d.State != posthaste.StateDelivered || d.Attempts != 5 || len(attempts) != 5 {
		t.Errorf("after the replay: %+v with %d attempts", d, len(attempts))
	}
	e.verified()
}

func TestPermanentAnswersEndAtOnceAnd410DisablesTheEndpoint(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 400, 410)
	row := e.endpoint(r.URL, nil)
	d, _ := e.ended(e.send("a", "x").ID, 1)
	if d.State != posthaste.StateDead || d.Reason != posthaste.ReasonPermanent || d.Attempts != 1 {
		t.Errorf("after 400: %+v", d)
	}
	d, _ = e.ended(e.send("a", "x").ID, 1)
	if d.State != posthaste.StateDead || d.Reason != posthaste.ReasonGone {
		t.Errorf("after 410: %+v", d)
	}
	e.eventually(5*time.Second, "the endpoint is disabled", func() bool {
		got, err := e.store.Endpoint(t.Context(), e.tenant.No, row.ID)
		return err == nil && got.Disabled && strings.Contains(got.DisabledReason, "410")
	})
	if got := e.send("a", "x"); got.Deliveries != 0 {
		t.Errorf("a disabled endpoint got a delivery: %+v", got)
	}
	e.verified()
}

func TestMoreThanALaneHoldsGoesThroughDue(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, func(d *posthaste.Definition) { d.MaxInFlight = 1 })
	const n = 300
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { e.send("a", fmt.Sprint(i)) })
	}
	wg.Wait()
	e.eventually(20*time.Second, "all have arrived", func() bool { return len(r.seen()) == n })
	seen := r.seen()
	slices.Sort(seen)
	if distinct := len(slices.Compact(seen)); distinct != n {
		t.Errorf("%d distinct events of %d", distinct, n)
	}
	e.verified()
}

func TestAnUnknownCommitIsRunAgainAndAnsweredAsNew(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	var failed atomic.Int32
	after := func(_ store.AcceptParams, got store.Accepted, err error) (store.Accepted, error) {
		if failed.Add(1) == 1 {
			return store.Accepted{}, store.ErrUnavailable // committed, but the answer is lost
		}
		return got, err
	}
	e.flaky.accept.Store(&after)
	for _, key := range []string{"", "k"} {
		failed.Store(0)
		got, err := e.Accept(t.Context(), Submission{Tenant: e.tenant, Event: posthaste.Event{Type: "a", Payload: []byte("x"), IdempotencyKey: key}})
		if err != nil || got.Duplicate || got.Deliveries != 1 {
			t.Fatalf("key %q: %+v, %v", key, got, err)
		}
		if d, _ := e.ended(got.ID, 1); d.State != posthaste.StateDelivered || d.Attempts != 1 {
			t.Errorf("key %q: %+v", key, d)
		}
	}
	if n := len(r.seen()); n != 2 {
		t.Errorf("arrived %d times, want 2", n)
	}
	e.verified()
}

func TestACommitThatWasGivenUpIsFoundAndDelivered(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	after := func(store.AcceptParams, store.Accepted, error) (store.Accepted, error) {
		return store.Accepted{}, store.ErrUnavailable
	}
	e.flaky.accept.Store(&after)
	_, err := e.Accept(t.Context(), Submission{Tenant: e.tenant, Event: posthaste.Event{Type: "a", Payload: []byte("x")}})
	if posthaste.CodeOf(err) != posthaste.CodeUnavailable {
		t.Fatalf("accept: %v", err)
	}
	e.flaky.accept.Store(nil)
	e.ledger.mu.Lock() // the statement can't be under way any more
	for _, entry := range e.ledger.open[e.ledger.head:] {
		entry.abandonedAt -= abandonAfter
	}
	e.ledger.mu.Unlock()
	e.eventually(10*time.Second, "the event has arrived", func() bool { return len(r.seen()) == 1 })
	e.verified()
}

func TestAnOutcomeThatTheDatabaseRefusesDoesNotStopTheOthers(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	bad := errors.New("the database refuses this")
	before := func(p store.SettleParams) error {
		for _, s := range p.Settlements {
			if s.Attempt != nil && len(s.Attempt.ResponseHeaders) > 0 && s.Lease.Delivery.Time().UnixMilli()%2 == 0 {
				return bad
			}
		}
		return nil
	}
	e.flaky.settle.Store(&before)
	var ids []posthaste.ID
	for i := range 40 {
		ids = append(ids, e.send("a", fmt.Sprint(i)).ID)
	}
	for _, id := range ids {
		d, attempts := e.ended(id, 1)
		if d.State != posthaste.StateDelivered || len(attempts) != 1 {
			t.Fatalf("%+v, %+v", d, attempts)
		}
		refused := id.Time().UnixMilli()%2 == 0
		if got := strings.HasPrefix(attempts[0].Error, "unrecordable: "); got != refused {
			t.Errorf("refused %v, recorded %+v", refused, attempts[0])
		}
	}
	e.verified()
}

func TestAReplicaThatWasReclaimedTakesANewEpochAndLosesNothing(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	e.send("a", "before")
	old := e.epoch()
	e.beating.Lock() // its own beat must not come between
	beat, err := e.store.Beat(t.Context(), store.BeatParams{Epoch: old})
	if err == nil {
		_, err = e.store.Reclaim(t.Context(), store.ReclaimParams{Dead: old, SeenBeatAt: beat.Replicas[0].BeatAt, Now: beat.Now})
	}
	e.beating.Unlock()
	if err != nil {
		t.Fatalf("reclaim: %v", err)
	}
	e.send("a", "after") // its accept is fenced, and runs again under the new epoch
	if e.epoch() == old {
		t.Error("still the old epoch")
	}
	e.eventually(10*time.Second, "both have arrived", func() bool {
		seen := r.seen()
		return slices.Contains(seen, "before") && slices.Contains(seen, "after")
	})
	e.eventually(10*time.Second, "nothing is leased", func() bool { return len(e.lanes.remaining()) == 0 })
	e.verified()
}

func TestWithoutAFreshBeatNothingStartsAndNothingIsTaken(t *testing.T) {
	e := startEngine(t, nil)
	epoch := e.epoch()
	e.flaky.away.Store(true)
	e.beating.Lock() // no beat is under way that would be fresh after all
	e.life.mu.Lock()
	e.life.beatAt = sinceBoot() - store.FreshBeat // as if the last beat was that long ago
	e.life.beatSeen = uptime() - store.FreshBeat
	e.life.mu.Unlock()
	e.beating.Unlock()
	if _, err := e.Accept(t.Context(), Submission{Tenant: e.tenant, Event: posthaste.Event{Type: "a"}}); posthaste.CodeOf(err) != posthaste.CodeUnavailable {
		t.Errorf("accept without a fresh beat: %v", err)
	}
	if e.Ready() == nil {
		t.Error("ready without a fresh beat")
	}
	started := make(chan bool, 1)
	go func() { started <- e.awaitFresh(epoch) }()
	select {
	case <-started:
		t.Fatal("an attempt started without a fresh beat")
	case <-time.After(1500 * time.Millisecond): // longer than the pause between two beats
	}
	e.flaky.away.Store(false)
	e.eventually(5*time.Second, "awake", func() bool { return e.awake(t.Context()) == nil }) // it had nothing to do, and may have gone to sleep
	if !<-started {
		t.Error("an attempt of the living epoch was turned away")
	}
	if e.awaitFresh(epoch + 1) {
		t.Error("an attempt of another epoch may start")
	}
}

func TestPausedWaitsResumedGoesDeletedDies(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	row := e.endpoint(r.URL, nil)
	set := func(paused bool) {
		t.Helper()
		if _, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, func(ep *store.EndpointRow) error { ep.Paused = paused; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	set(true)
	first := e.send("a", "first")
	if first.Deliveries != 1 || len(r.seen()) != 0 {
		t.Errorf("paused: %+v, arrived %v", first, r.seen())
	}
	set(false)
	if d, _ := e.ended(first.ID, 1); d.State != posthaste.StateDelivered {
		t.Errorf("resumed: %+v", d)
	}
	set(true)
	second := e.send("a", "second")
	if err := e.DeleteEndpoint(t.Context(), e.tenant, row.ID, 0); err != nil {
		t.Fatal(err)
	}
	if d, _ := e.ended(second.ID, 1); d.State != posthaste.StateDead || d.Reason != posthaste.ReasonEndpointDeleted {
		t.Errorf("deleted: %+v", d)
	}
	if err := e.Replay(t.Context(), e.tenant, second.ID.Delivery(1)); posthaste.CodeOf(err) != posthaste.CodeEndpointDeleted {
		t.Errorf("replay at a deleted endpoint: %v", err)
	}
	e.verified()
}

func TestRetryAfterIsHonoured(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 503)
	r.header.Set("Retry-After", "1")
	e.endpoint(r.URL, nil)
	began := time.Now()
	got := e.send("a", "x")
	if d, _ := e.ended(got.ID, 1); d.State != posthaste.StateDelivered {
		t.Fatalf("%+v", d)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("tried again after %v, Retry-After was 1 s", took)
	}
	e.verified()
}

func TestARunEndsAtItsDeadline(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t, 500, 500, 500, 500)
	e.endpoint(r.URL, func(d *posthaste.Definition) {
		d.Retry.Schedule = []posthaste.Duration{posthaste.Duration(time.Hour)}
		d.Retry.Deadline = posthaste.Duration(300 * time.Millisecond)
	})
	d, attempts := e.ended(e.send("a", "x").ID, 1)
	if d.State != posthaste.StateDead || d.Reason != posthaste.ReasonExpired || len(attempts) != 1 {
		t.Errorf("%+v with %d attempts", d, len(attempts))
	}
	e.verified()
}

func TestStoppingGivesBackWhatHasNotStarted(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(slow.Close)
	e := startEngine(t, nil)
	e.endpoint(slow.URL, func(d *posthaste.Definition) { d.MaxInFlight = 2 })
	var ids []posthaste.ID
	for i := range 8 {
		ids = append(ids, e.send("a", fmt.Sprint(i)).ID)
	}
	e.eventually(5*time.Second, "two are under way", func() bool { running, _ := e.lanes.counts(); return running == 2 })
	go func() { <-e.starting.Done(); close(release) }()
	e.stop()
	delivered, waiting := 0, 0
	for _, id := range ids {
		switch d := e.delivery(id, 1); {
		case d.State == posthaste.StateDelivered && d.Attempts == 1:
			delivered++
		case d.State == posthaste.StatePending && !d.Leased && d.Attempts == 0:
			waiting++
		default:
			t.Errorf("neither delivered nor given back: %+v", d)
		}
	}
	if delivered != 2 || waiting != 6 {
		t.Errorf("delivered %d, given back %d; want 2 and 6", delivered, waiting)
	}
	e.verified()
}

func TestOneSlowEndpointDoesNotDelayAnother(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(release) })
	e, r := startEngine(t, func(c *Config) { c.MaxInFlight = 32; c.Grace = time.Second }), newReceiver(t)
	e.endpoint(slow.URL, func(d *posthaste.Definition) { d.EventTypes = []string{"slow"} })
	e.endpoint(r.URL, func(d *posthaste.Definition) { d.EventTypes = []string{"fast"} })
	for range 200 {
		e.send("slow", "x")
	}
	began := time.Now()
	for range 20 {
		e.send("fast", "y")
	}
	e.eventually(5*time.Second, "the fast ones have arrived", func() bool { return len(r.seen()) == 20 })
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("20 events beside a hanging endpoint took %v", took)
	}
}
