package relay_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // database/sql's "sqlite"

	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/relay"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/outbox"
	"github.com/posthaste-dev/posthaste/postgres"
	"github.com/posthaste-dev/posthaste/sqlite"
)

const masterKey = "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="

// arrival is a request at the receiver.
type arrival struct{ id, payload string }

// receiver records what arrives.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	seen []arrival
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen = append(r.seen, arrival{req.Header.Get("webhook-id"), string(body)})
	}))
	t.Cleanup(r.Close)
	return r
}

// arrivals returns what arrived, in the order of acceptance.
func (r *receiver) arrivals() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Clone(r.seen)
	slices.SortFunc(out, func(a, b arrival) int { return cmp.Compare(a.id, b.id) })
	return out
}

func (r *receiver) payloads() []string {
	var out []string
	for _, a := range r.arrivals() {
		out = append(out, a.payload)
	}
	return out
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("it never came to be that %s", what)
		}
	}
}

// setting is where engine and outbox are.
type setting struct {
	engineDB, outboxDB string
}

// settings are the combinations of databases that there are.
func settings() map[string]func(t *testing.T) setting {
	return map[string]func(t *testing.T) setting{
		"one PostgreSQL database": func(t *testing.T) setting {
			db := testdb.Postgres(t)
			return setting{db, db}
		},
		"two PostgreSQL databases": func(t *testing.T) setting {
			return setting{testdb.Postgres(t), testdb.Postgres(t)}
		},
		"engine on SQLite": func(t *testing.T) setting { return setting{testdb.SQLite(t), testdb.Postgres(t)} },
		"outbox on SQLite": func(t *testing.T) setting { return setting{testdb.Postgres(t), testdb.SQLite(t)} },
		"both on SQLite":   func(t *testing.T) setting { return setting{testdb.SQLite(t), testdb.SQLite(t)} },
	}
}

func isPostgres(db string) bool { return strings.HasPrefix(db, "postgres") }

// install makes the outbox, and the file that it is in.
func (s setting) install(t *testing.T) relay.Admin {
	t.Helper()
	if !isPostgres(s.outboxDB) {
		if _, err := s.sql(t).ExecContext(t.Context(), `pragma journal_mode = wal`); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := relay.OpenAdmin(t.Context(), s.outboxDB)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close(context.Background()) })
	if err := admin.Install(t.Context(), relay.Grants{}); err != nil {
		t.Fatal(err)
	}
	return admin
}

func (s setting) sql(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", s.outboxDB+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// transact runs f in a transaction of the application.
func (s setting) transact(t *testing.T) func(f func(tx any) error) error {
	t.Helper()
	if isPostgres(s.outboxDB) {
		pool, err := pgxpool.New(t.Context(), s.outboxDB)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return func(f func(any) error) error {
			return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return f(tx) })
		}
	}
	db := s.sql(t)
	return func(f func(any) error) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		if err := f(tx); err != nil {
			_ = tx.Rollback()
			return err
		}
		return tx.Commit()
	}
}

type store interface {
	Migrate(ctx context.Context) error
	Close() error
}

// start runs an engine that relays the outbox until the test ends.
func (s setting) start(t *testing.T, r *receiver, change ...func(*engine.Config)) *engine.Engine {
	t.Helper()
	e, _ := s.run(t, r, change...)
	return e
}

func (s setting) run(t *testing.T, r *receiver, change ...func(*engine.Config)) (*engine.Engine, func()) {
	t.Helper()
	config := engine.Config{
		MasterKey: masterKey, Replica: fmt.Sprintf("test-%d", time.Now().UnixNano()), ShutdownTimeout: 10 * time.Second, Outboxes: []string{s.outboxDB},
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHTTP: engine.HTTPNetworks,
		Endpoint: engine.Endpoint{URL: r.URL}, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	var db store
	if isPostgres(s.engineDB) {
		pg, err := postgres.Open(t.Context(), postgres.Config{URL: s.engineDB})
		if err != nil {
			t.Fatal(err)
		}
		db, config.Store = pg, pg
	} else {
		lite, err := sqlite.Open(t.Context(), sqlite.Config{Path: s.engineDB})
		if err != nil {
			t.Fatal(err)
		}
		db, config.Store = lite, lite
	}
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(&config)
	}
	e, err := engine.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		_ = db.Close()
	})
	t.Cleanup(stop)
	eventually(t, "the engine is ready", func() bool { return e.Ready() == nil })
	return e, stop
}

func event(payload string) outbox.Event {
	return outbox.Event{Type: "test.event", Payload: []byte(payload)}
}

func enqueue(t *testing.T, transact func(func(any) error) error, events ...outbox.Event) {
	t.Helper()
	err := transact(func(tx any) error {
		_, err := outbox.EnqueueAll(t.Context(), tx, events)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCommittedIsSentOnceAndRolledBackNever(t *testing.T) {
	for name, make := range settings() {
		t.Run(name, func(t *testing.T) {
			s, r := make(t), newReceiver(t)
			admin := s.install(t)
			transact := s.transact(t)
			enqueue(t, transact, event("before the start"))
			_, stop := s.run(t, r)
			var want []string
			for i := range 700 { // more than a batch
				if i%2 == 0 {
					_ = transact(func(tx any) error {
						if _, err := outbox.Enqueue(t.Context(), tx, event("rolled back")); err != nil {
							t.Error(err)
						}
						return context.Canceled
					})
				}
				enqueue(t, transact, event(fmt.Sprint(i)))
				want = append(want, fmt.Sprint(i))
			}
			want = append(want, "before the start")
			eventually(t, "all have arrived", func() bool { return len(r.payloads()) >= len(want) })
			stop()
			got := r.payloads()
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%d arrived, want %d", len(got), len(want))
			}
			if status, err := admin.Status(t.Context()); err != nil || status != (relay.Status{}) {
				t.Errorf("left in the outbox: %+v, %v", status, err)
			}
		})
	}
}

func TestWhatCannotBeAcceptedIsParked(t *testing.T) {
	for name, make := range settings() {
		t.Run(name, func(t *testing.T) {
			s, r := make(t), newReceiver(t)
			admin := s.install(t)
			transact := s.transact(t)
			e := s.start(t, r, func(c *engine.Config) { c.MaxPayloadBytes = 100 })
			if _, err := e.Send(t.Context(), "default", engine.Event{Type: "test.event", Payload: []byte("by the API"), IdempotencyKey: "k1"}); err != nil {
				t.Fatal(err)
			}
			keyed := func(key, orderKey, payload string) outbox.Event {
				e := event(payload)
				e.IdempotencyKey, e.OrderKey = key, orderKey
				return e
			}
			enqueue(t, transact,
				outbox.Event{Type: "test.event", Tenant: "nobody", OrderKey: "o", Payload: []byte("unknown tenant")},
				keyed("", "o", "held 1"), event("free"), event(strings.Repeat("x", 101)),
				outbox.Event{Type: "test.event", Headers: map[string]string{"Host": "x"}},
				keyed("k1", "", "by the API"), keyed("k1", "p", "another"), keyed("", "p", "held 2"), keyed("k2", "q", "q1"), keyed("", "q", "q2"))
			eventually(t, "the good ones have arrived", func() bool { return len(r.payloads()) == 4 })
			var parked []relay.ParkedRow
			eventually(t, "the bad ones are parked", func() bool {
				var err error
				if parked, err = admin.Parked(t.Context(), 10); err != nil {
					t.Fatal(err)
				}
				return len(parked) == 4
			})
			var reasons []string
			for _, p := range parked {
				reasons = append(reasons, string(p.Code)+": "+p.Reason)
			}
			for i, want := range []string{
				`not_found: there is no tenant "nobody"`, "too_large: the payload has 101 bytes; --max-payload is 100",
				`invalid: header "Host" cannot be forwarded: it belongs to the connection, and each one has its own`, "idempotency_mismatch: the idempotency key was used for evt_",
			} {
				if !strings.HasPrefix(reasons[i], want) {
					t.Errorf("reason %d: %s, want %s", i, reasons[i], want)
				}
			}
			if got := fmt.Sprint(r.payloads()); got != "[by the API free q1 q2]" {
				t.Errorf("arrived: %s", got)
			}
			// Retried in vain it is parked again; dropped it lets its key go on.
			if n, err := admin.Retry(t.Context(), []outbox.ID{parked[0].RowID}); n != 1 || err != nil {
				t.Errorf("retry: %d, %v", n, err)
			}
			eventually(t, "it is parked again", func() bool {
				again, err := admin.Parked(t.Context(), 1)
				return err == nil && len(again) == 1 && again[0].RowID == parked[0].RowID && again[0].ParkedAt.After(parked[0].ParkedAt)
			})
			if n, err := admin.Drop(t.Context(), nil); n != 4 || err != nil {
				t.Errorf("drop: %d, %v", n, err)
			}
			eventually(t, "those that waited have arrived", func() bool { return len(r.payloads()) == 6 })
			if status, err := admin.Status(t.Context()); err != nil || status.Parked != 0 {
				t.Errorf("%+v, %v", status, err)
			}
		})
	}
}
