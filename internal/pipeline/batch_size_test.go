package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

func TestBatchSize(t *testing.T) {
	s := newBatchSize(4000)
	for _, step := range []struct {
		at       time.Duration
		timedOut int // 0: it succeeded
		want     int
	}{
		{0, 0, 4000},
		{0, 4000, 2000},
		{time.Second, 0, 2000}, // too early to grow
		{2 * time.Second, 300, 150},
		{3 * time.Second, 1000, 150},
		{62 * time.Second, 0, 150}, // the minute began with the last time limit
		{63 * time.Second, 0, 300},
		{63 * time.Second, 0, 600},
		{2 * time.Hour, 0, 1200},
		{2 * time.Hour, 0, 2400},
		{2 * time.Hour, 0, 4000},
		{2 * time.Hour, 1, 1},
		{2 * time.Hour, 1, 1},
		{3 * time.Hour, 0, 2},
	} {
		if step.timedOut > 0 {
			s.timedOut(step.timedOut, step.at)
		} else {
			s.succeeded(step.at)
		}
		if got := s.limit(); got != step.want {
			t.Fatalf("after %+v: %d", step, got)
		}
	}
}

func TestFit(t *testing.T) {
	fat := outcome{settlement: store.Settlement{Attempt: &posthaste.Attempt{ResponseBody: make([]byte, 10_000)}}}
	thin := outcome{}
	for _, c := range []struct {
		batch      []outcome
		limit      int
		n, outcome int
	}{
		{slices.Repeat([]outcome{thin}, 10), 5 * outcomeBytes, 5, 5 * outcomeBytes},
		{[]outcome{fat, thin}, 100, 1, 10_000 + outcomeBytes},
		{[]outcome{thin, fat, thin}, 10_000, 1, outcomeBytes},
		{[]outcome{thin, fat, thin}, 100_000, 3, 10_000 + 3*outcomeBytes},
	} {
		if n, size := fit(c.batch, c.limit); n != c.n || size != c.outcome {
			t.Errorf("%d outcomes, limit %d: %d of %d bytes, want %d of %d", len(c.batch), c.limit, n, size, c.n, c.outcome)
		}
	}
}

func TestCut(t *testing.T) {
	with := func(fanOut int, group *together) *submission {
		return &submission{targets: make([]*endpoint, fanOut), together: group}
	}
	group := &together{}
	for name, c := range map[string]struct {
		batch       []*submission
		first, rows int
	}{
		"all fit":                        {[]*submission{with(1, nil), with(2, nil)}, 2, 5},
		"as many as fit":                 {[]*submission{with(399, nil), with(399, nil), with(399, nil)}, 2, 800},
		"one that is too wide alone":     {[]*submission{with(950, nil), with(1, nil)}, 1, 951},
		"a group is not parted":          {[]*submission{with(600, group), with(1, nil), with(600, group)}, 2, 1202},
		"a very wide one stands alone":   {[]*submission{with(5000, nil), with(0, nil)}, 1, 5001},
		"and is not added to what comes": {[]*submission{with(0, nil), with(5000, nil), with(0, nil)}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			first, rest := cut(c.batch, 900, func(*submission) {})
			rows := rowsOf(first)
			if len(first) != c.first || len(first)+len(rest) != len(c.batch) || rows != c.rows {
				t.Errorf("%d and %d submissions, %d rows; want %d first with %d rows", len(first), len(rest), rows, c.first, c.rows)
			}
		})
	}
}

// sizes records the rows of statements, and lets those above a limit hang.
type sizes struct {
	mu   sync.Mutex
	hung []int
	most int
}

func (s *sizes) hangs(above int) *func(int) bool {
	f := func(rows int) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.most = max(s.most, rows)
		if rows > above {
			s.hung = append(s.hung, rows)
		}
		return rows > above
	}
	return &f
}

// check fails if a statement that met its time limit was repeated at its size.
func (s *sizes) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.hung) == 0 {
		t.Error("no statement was too large: the test shows nothing")
	}
	for i := 1; i < len(s.hung); i++ {
		if s.hung[i] > s.hung[i-1]/2 {
			t.Errorf("statements of %v rows met their time limit; each must be half of the one before", s.hung)
		}
	}
}

func TestASettlingStatementThatMetItsTimeLimitIsHalved(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, func(d *posthaste.Definition) { d.MaxInFlight = 100 })
	var in []Submission
	for i := range 60 {
		in = append(in, Submission{Tenant: e.tenant, Event: posthaste.Event{Type: "a", Source: "api", Payload: fmt.Append(nil, i)}})
	}
	var s sizes
	e.flaky.hangSettle.Store(s.hangs(4))
	var ids []posthaste.ID
	for _, result := range e.AcceptAll(t.Context(), in) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		ids = append(ids, result.Receipt.ID)
	}
	e.eventually(60*time.Second, "all outcomes are recorded", func() bool {
		return e.load.unrecorded.Load() == 0 && len(r.seen()) == len(ids)
	})
	s.check(t)
	for _, id := range ids {
		if d, attempts := e.ended(id, 1); d.State != posthaste.StateDelivered || len(attempts) != 1 {
			t.Errorf("%+v, %+v", d, attempts)
		}
	}
	if n := e.load.unrecordedBytes.Load(); n != 0 {
		t.Errorf("%d bytes of outcomes are still counted", n)
	}
	e.verified()
}

// A batch request to many endpoints is stored in pieces, a piece that met its time
// limit is halved, and the event of another sender does not wait for all of them.
func TestAWideBatchIsStoredInPieces(t *testing.T) {
	e := startEngine(t, func(c *Config) { c.Roles = Roles{Accept: true} })
	for range 30 {
		e.endpoint("http://127.0.0.1:9/", func(d *posthaste.Definition) { d.EventTypes = []string{"wide"} })
	}
	var in []Submission
	for i := range 400 {
		in = append(in, Submission{Tenant: e.tenant, Event: posthaste.Event{
			Type: "wide", Source: "api", Payload: fmt.Append(nil, i), IdempotencyKey: fmt.Sprint(i),
		}})
	}
	var s sizes
	e.flaky.hangAccept.Store(s.hangs(3000))
	results := make(chan []Result, 1)
	go func() { results <- e.AcceptAll(t.Context(), in) }()
	e.eventually(10*time.Second, "the first piece hangs", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.hung) > 0 })
	e.eventually(30*time.Second, "the event of another sender is stored", func() bool {
		_, err := e.Accept(t.Context(), Submission{Tenant: e.tenant, Event: posthaste.Event{
			Type: "narrow", Source: "api", Payload: []byte("of another sender"), IdempotencyKey: "narrow",
		}})
		return err == nil // on a busy machine its patience may be over
	})
	if len(results) > 0 {
		t.Error("the other sender waited for the whole batch")
	}
	stored := 0
	for _, r := range <-results {
		if r.Err == nil {
			stored++
		}
	}
	s.check(t)
	if s.most > acceptBatchRows {
		t.Errorf("a statement had %d rows, at most %d are meant", s.most, acceptBatchRows)
	}
	e.flaky.hangAccept.Store(nil)
	e.eventually(60*time.Second, "what the sender's patience left out follows with the same keys", func() bool {
		return !slices.ContainsFunc(e.AcceptAll(t.Context(), in), func(r Result) bool { return r.Err != nil || r.Receipt.Deliveries != 30 })
	})
	t.Logf("%d of %d were stored by the first request", stored, len(in))
	e.verified()
}

// Where the database refuses whatever it is given, events are answered with
// "unavailable" and outcomes wait: none is called unrecordable.
func TestASystemicRefusalIsWaitedFor(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.endpoint(r.URL, nil)
	missing := fmt.Errorf("permission denied: %w: %w", store.ErrUnavailable, store.ErrSystemic)
	refuseSettle := func(store.SettleParams) error { return missing }
	e.flaky.settle.Store(&refuseSettle)
	first := e.send("a", "x")
	e.eventually(5*time.Second, "the engine is not ready", func() bool { return e.Ready() != nil })
	if err := e.Ready(); !errors.Is(err, store.ErrSystemic) {
		t.Errorf("Ready: %v, want the database's error in it", err)
	}
	e.flaky.settle.Store(nil)
	if d, attempts := e.ended(first.ID, 1); d.State != posthaste.StateDelivered || len(attempts) != 1 || attempts[0].Error != "" {
		t.Errorf("%+v, %+v", d, attempts)
	}
	e.eventually(5*time.Second, "the engine is ready again", func() bool { return e.Ready() == nil })

	refuseAccept := func(store.AcceptParams) error { return missing }
	e.flaky.refuse.Store(&refuseAccept)
	in := Submission{Tenant: e.tenant, Event: posthaste.Event{Type: "a", Source: "api", Payload: []byte("y"), IdempotencyKey: "k"}}
	if _, err := e.Accept(t.Context(), in); posthaste.CodeOf(err) != posthaste.CodeUnavailable {
		t.Errorf("accept: %v, want %s", err, posthaste.CodeUnavailable)
	}
	e.flaky.refuse.Store(nil)
	if _, err := e.Accept(t.Context(), in); err != nil {
		t.Errorf("accept after the repair: %v", err)
	}
	e.verified()
}

// An outcome that the database refuses in every form is set aside and tried again:
// it holds up no other one, and is not dropped.
func TestAnOutcomeThatIsRefusedInEveryFormIsKept(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	e.basket.setAside = 300 * time.Millisecond
	e.endpoint(r.URL, nil)
	var refused sync.Map
	refuse := func(p store.SettleParams) error {
		for _, s := range p.Settlements {
			if _, ok := refused.Load(s.Lease.Delivery.Event()); ok {
				return errors.New("the database refuses this")
			}
		}
		return nil
	}
	e.flaky.settle.Store(&refuse)
	payload := strings.Repeat("x", 10)
	accepted := func(p store.AcceptParams, got store.Accepted, err error) (store.Accepted, error) {
		for _, ev := range p.Events {
			if string(ev.Event.Payload) == payload {
				refused.Store(ev.Event.ID, true)
			}
		}
		return got, err
	}
	e.flaky.accept.Store(&accepted)
	bad := e.send("a", payload)
	for range 5 {
		if d, _ := e.ended(e.send("a", "good").ID, 1); d.State != posthaste.StateDelivered {
			t.Errorf("another one: %+v", d)
		}
	}
	if d := e.delivery(bad.ID, 1); d.State != posthaste.StatePending {
		t.Errorf("the refused one: %+v", d)
	}
	refused.Clear()
	if d, attempts := e.ended(bad.ID, 1); d.State != posthaste.StateDelivered || len(attempts) != 1 || attempts[0].Error != "" {
		t.Errorf("after the repair: %+v, %+v", d, attempts)
	}
	e.verified()
}
