package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/postgres"
)

// onBoth runs a test on a new database of either kind.
func onBoth(t *testing.T, test func(t *testing.T, e *engine)) {
	t.Run("sqlite", func(t *testing.T) { test(t, startEngine(t, nil)) })
	t.Run("postgres", func(t *testing.T) {
		db, err := postgres.Open(t.Context(), postgres.Config{URL: testdb.Postgres(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, startEngine(t, func(c *Config) { c.Store.(*flaky).Store = db }))
	})
}

// family is a parent and n children that came through a source.
func (e *engine) family(key string, n int) (parent Submission, children []Submission) {
	one := func(eventType, key, payload string) Submission {
		return Submission{Tenant: e.tenant, Namespace: store.NamespaceSource, KeyScope: "src_1", Event: posthaste.Event{
			Type: eventType, Source: "src_1", IdempotencyKey: key, Payload: []byte(payload),
		}}
	}
	for i := range n {
		children = append(children, one("meta.message", fmt.Sprintf("m_%d", i), fmt.Sprintf(`{"n":%d}`, i)))
	}
	return one("meta.webhook", key, `{"entry":[]}`), children
}

func (e *engine) together(parent Submission, children []Submission) []Receipt {
	e.t.Helper()
	got, err := e.AcceptTogether(e.t.Context(), parent, children)
	if err != nil {
		e.t.Fatal(err)
	}
	return got
}

// children lists what is stored of a parent.
func (e *engine) children(parent posthaste.ID) (out []posthaste.Event) {
	e.t.Helper()
	for p := (store.ListEventsParams{Tenant: e.tenant.No, Parent: parent, Limit: 250}); ; {
		page, err := e.store.ListEvents(e.t.Context(), p)
		if err != nil {
			e.t.Fatal(err)
		}
		for _, row := range page.Events {
			out = append(out, row.Event)
		}
		if p.Before = page.Next; p.Before.IsZero() {
			return out
		}
	}
}

func (e *engine) events() int {
	e.t.Helper()
	page, err := e.store.ListEvents(e.t.Context(), store.ListEventsParams{Tenant: e.tenant.No, Limit: 250})
	if err != nil {
		e.t.Fatal(err)
	}
	return len(page.Events)
}

// A provider sends at most 1,000 items at once.
func TestOneCommitForAThousandItems(t *testing.T) {
	onBoth(t, func(t *testing.T, e *engine) {
		var largest atomic.Int64
		count := func(p store.AcceptParams, got store.Accepted, err error) (store.Accepted, error) {
			largest.Store(max(largest.Load(), int64(len(p.Events))))
			return got, err
		}
		e.flaky.accept.Store(&count)
		parent, children := e.family("d_1", 1000)
		got := e.together(parent, children)
		if len(got) != 1001 || largest.Load() != 1001 {
			t.Fatalf("%d receipts, %d events in the largest commit; want 1001 of both", len(got), largest.Load())
		}
		stored := e.children(got[0].ID)
		if len(stored) != 1000 {
			t.Fatalf("%d children are stored", len(stored))
		}
		for _, c := range stored {
			if c.Parent != got[0].ID || c.CorrelationID != got[0].ID || c.ID.Compare(got[0].ID) <= 0 {
				t.Fatalf("a child of %x: %+v", got[0].ID, c)
			}
		}
		again := e.together(parent, children)
		for i, r := range again {
			if !r.Duplicate || r.Differs || r.ID != got[i].ID {
				t.Fatalf("receipt %d of a repetition: %+v, first %+v", i, r, got[i])
			}
		}
		e.verified()
	})
}

func TestChildrenOfAKnownParent(t *testing.T) {
	onBoth(t, func(t *testing.T, e *engine) {
		parent, children := e.family("d_1", 3)
		first := e.together(parent, children[:2])
		parent.Event.Payload = []byte("others") // the same delivery with other bytes
		got := e.together(parent, children)
		if !got[0].Duplicate || !got[0].Differs || got[0].ID != first[0].ID {
			t.Errorf("the parent: %+v, first %+v", got[0], first[0])
		}
		if !got[1].Duplicate || !got[2].Duplicate || got[3].Duplicate {
			t.Errorf("the children: %+v", got[1:])
		}
		if stored := e.children(first[0].ID); len(stored) != 3 || stored[0].CorrelationID != first[0].ID {
			t.Errorf("children of the parent: %+v", stored)
		}
		// A delivery of its own, that repeats an item of the first one.
		other, _ := e.family("d_2", 0)
		if got := e.together(other, children[:1]); got[0].Duplicate || !got[1].Duplicate || got[1].ID != first[1].ID {
			t.Errorf("an item that came before: %+v", got)
		}
		e.verified()
	})
}

func TestSourcesShareNoKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, e *engine) {
		s, _ := e.family("d_1", 0)
		ids := map[posthaste.ID]bool{}
		for _, scope := range []string{"src_1", "src_2", ""} {
			s.KeyScope = scope
			for range 2 {
				r, err := e.Accept(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				ids[r.ID] = true
			}
		}
		s.Namespace, s.KeyScope = 0, "" // the API's
		r, err := e.Accept(t.Context(), s)
		if ids[r.ID] = true; err != nil || len(ids) != 4 {
			t.Errorf("%d events of one key in four scopes, %v", len(ids), err)
		}
	})
}

func TestConcurrentFamiliesAreStoredOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, e *engine) {
		var wg sync.WaitGroup
		parents := make([]posthaste.ID, 20)
		for i := range parents {
			wg.Go(func() {
				parent, children := e.family("d_1", 5)
				got, err := e.AcceptTogether(t.Context(), parent, children)
				if err != nil {
					t.Error(err)
					return
				}
				parents[i] = got[0].ID
			})
		}
		wg.Wait()
		if len(slices.Compact(parents)) != 1 || e.events() != 6 || len(e.children(parents[0])) != 5 {
			t.Errorf("parents %x, %d events, %d children", slices.Compact(parents), e.events(), len(e.children(parents[0])))
		}
		e.verified()
	})
}

func TestRefusedFamilyLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, e *engine) {
		hold, held := make(chan struct{}), make(chan struct{}, 100)
		refuse := func(p store.AcceptParams) error {
			held <- struct{}{}
			<-hold
			if slices.ContainsFunc(p.Events, func(e store.NewEvent) bool { return e.Type == "poison" }) {
				return errors.New("an event that no database takes")
			}
			return nil
		}
		e.flaky.refuse.Store(&refuse)
		parent, children := e.family("d_1", 10)
		children[7].Event.Type = "poison"
		var wg sync.WaitGroup
		send := func(n int, f func()) { // so many events have to wait before the next are sent
			wg.Go(f)
			e.eventually(5*time.Second, "events wait", func() bool { return e.load.uncommitted.Load() >= int64(n) })
		}
		single := func() { e.send("invoice.paid", "{}") }
		send(1, single)
		<-held // the committer is busy; what comes now is one batch
		send(2, single)
		send(13, func() {
			if got, err := e.AcceptTogether(t.Context(), parent, children); err == nil {
				t.Errorf("a family with a poison is answered %+v", got)
			}
		})
		send(14, single)
		close(hold)
		wg.Wait()
		if n := e.events(); n != 3 {
			t.Errorf("%d events are stored, want the three that stand alone", n)
		}
		children[7].Event.Type = "meta.message"
		if got := e.together(parent, children); got[0].Duplicate || e.events() != 14 {
			t.Errorf("the same without the poison: %+v, %d events", got[0], e.events())
		}
		e.verified()
	})
}

func TestFamilyWhoseAnswerWasLost(t *testing.T) {
	onBoth(t, func(t *testing.T, e *engine) {
		var lose atomic.Bool
		lose.Store(true)
		lost := func(_ store.AcceptParams, got store.Accepted, err error) (store.Accepted, error) {
			if lose.Swap(false) {
				return store.Accepted{}, store.ErrUnavailable
			}
			return got, err
		}
		e.flaky.accept.Store(&lost)
		for i, r := range e.together(e.family("d_1", 3)) {
			if r.Duplicate {
				t.Errorf("receipt %d: %+v", i, r)
			}
		}
		if lose.Load() || e.events() != 4 {
			t.Errorf("%d events are stored", e.events())
		}
		e.verified()
	})
}

func TestHalvesPartNoFamily(t *testing.T) {
	a, b := &together{}, &together{}
	batch := []*submission{{together: a}, {}, {together: b}, {together: a}, {}, {together: b}}
	first, rest := halve(batch)
	if len(first) != 3 || len(rest) != 3 || first[0].together != a || first[1].together != a || rest[0].together != b {
		t.Errorf("halves %v and %v", first, rest)
	}
	if first, rest := halve(batch[2:3]); len(first) != 0 || len(rest) != 1 {
		t.Errorf("one alone: %v and %v", first, rest)
	}
}

func TestRolesOfThoseWhoSend(t *testing.T) {
	e := startEngine(t, func(c *Config) { c.Roles = Roles{Inbound: true} })
	s, _ := e.family("d_1", 0)
	if _, err := e.Accept(t.Context(), s); err != nil {
		t.Errorf("with the role inbound, from a source: %v", err)
	}
	s.Namespace = store.NamespaceAPI
	if _, err := e.Accept(t.Context(), s); posthaste.CodeOf(err) != posthaste.CodeUnavailable {
		t.Errorf("with the role inbound, from the API: %v", err)
	}
	e = startEngine(t, func(c *Config) { c.Roles = Roles{Accept: true, Deliver: true} })
	if s.Namespace = store.NamespaceSource; s.Tenant.No != e.tenant.No {
		t.Fatal("another tenant")
	}
	if _, err := e.Accept(t.Context(), s); posthaste.CodeOf(err) != posthaste.CodeUnavailable {
		t.Errorf("without the role inbound, from a source: %v", err)
	}
}
