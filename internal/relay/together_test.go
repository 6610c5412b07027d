package relay_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/relay"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/outbox"
)

// watchRows keeps a record of the versions of rows that leave the outbox: each row, with
// the transaction that deleted it.
const watchRows = `create table gone (row_id uuid, by xid8 default pg_current_xact_id());
	create function note() returns trigger language plpgsql as $$ begin insert into gone values (old.row_id); return null; end $$;
	create trigger note after delete on posthaste.outbox for each row execute function note()`

func TestRelaysShareTheRows(t *testing.T) {
	for _, relays := range []int{2, 4} {
		for name, s := range map[string]setting{
			"apart": {testdb.Postgres(t), testdb.Postgres(t)},
			"joint": func() setting { db := testdb.Postgres(t); return setting{db, db} }(),
		} {
			t.Run(fmt.Sprintf("%d relays, %s", relays, name), func(t *testing.T) {
				r := newReceiver(t)
				s.install(t)
				app := connect(t, s.outboxDB)
				exec(t, app, watchRows)
				var stops []func()
				for range relays {
					_, stop := s.run(t, r, func(c *engine.Config) { c.OutboxBatch = 50 })
					stops = append(stops, stop)
				}
				const writers, each, rows = 4, 20, 25
				var writing sync.WaitGroup
				for w := range writers {
					conn := connect(t, s.outboxDB)
					writing.Go(func() {
						for i := range each {
							err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
								var events []outbox.Event
								for k := range rows {
									events = append(events, event(fmt.Sprint(w, i, k)))
								}
								_, err := outbox.EnqueueAll(t.Context(), tx, events)
								return err
							})
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
				writing.Wait()
				const total = writers * each * rows
				eventually(t, "all have arrived", func() bool { return len(r.payloads()) >= total })
				var gone, distinct, transactions int
				eventually(t, "all rows are gone", func() bool {
					err := app.QueryRow(t.Context(), `select count(*), count(distinct row_id), count(distinct by) from gone`).Scan(&gone, &distinct, &transactions)
					return err == nil && gone == total
				})
				for _, stop := range stops {
					stop()
				}
				got := r.payloads()
				slices.Sort(got)
				if n := len(slices.Compact(slices.Clone(got))); len(got) != total || n != total || distinct != total {
					t.Errorf("%d arrivals of %d events, %d rows left in %d versions; want %d of each", len(got), n, distinct, gone, total)
				}
				t.Logf("%d rows in %d transactions of %d relays, each once", total, transactions, relays)
			})
		}
	}
}

// In one database the row goes in the transaction that stores the event.
func TestOneTransactionInOneDatabase(t *testing.T) {
	db := testdb.Postgres(t)
	s, r := setting{db, db}, newReceiver(t)
	s.install(t)
	app := connect(t, db)
	exec(t, app, watchRows)
	enqueue(t, s.transact(t), event("1"))
	s.start(t, r)
	eventually(t, "it has arrived", func() bool { return len(r.payloads()) == 1 })
	var same bool
	if err := app.QueryRow(t.Context(), `select (select by from gone) = (select xmin::text::xid8 from events)`).Scan(&same); err != nil || !same {
		t.Errorf("the event and the row were not moved by one transaction (%v)", err)
	}
}

// A restored copy of the application's database, or a clone, holds rows that were sent
// already and numbers rows as its original did. The rows are not sent again; new rows are.
func TestCopiesNeitherRepeatNorCollide(t *testing.T) {
	engineDB := testdb.Postgres(t)
	original, clone := setting{engineDB, testdb.Postgres(t)}, setting{engineDB, testdb.Postgres(t)}
	r := newReceiver(t)
	original.install(t)
	clone.install(t)
	first, second := connect(t, original.outboxDB), connect(t, clone.outboxDB)
	exec(t, first, `select posthaste.enqueue('test.event', 'shared')`)
	var rowID string
	if err := first.QueryRow(t.Context(), `select row_id::text from posthaste.outbox`).Scan(&rowID); err != nil {
		t.Fatal(err)
	}
	exec(t, second, `insert into posthaste.outbox (row_id, type, payload) values ($1, 'test.event', 'shared')`, rowID)
	exec(t, second, `select posthaste.enqueue('test.event', 'new in the clone')`)
	exec(t, first, `select posthaste.enqueue('test.event', 'new in the original')`)
	s := setting{engineDB, original.outboxDB}
	s.start(t, r, func(c *engine.Config) { c.Outboxes = []string{original.outboxDB, clone.outboxDB} })
	// A relay that had died after the accept finds the row again, too.
	eventually(t, "all have arrived", func() bool { return len(r.payloads()) >= 3 })
	exec(t, first, `insert into posthaste.outbox (row_id, type, payload) values ($1, 'test.event', 'shared')`, rowID)
	exec(t, first, `select posthaste.enqueue('test.event', 'last')`)
	eventually(t, "the last one has arrived", func() bool { return strings.Contains(fmt.Sprint(r.payloads()), "last") })
	got := r.payloads()
	slices.Sort(got)
	if want := "[last new in the clone new in the original shared]"; fmt.Sprint(got) != want {
		t.Errorf("arrived: %v, want %s", got, want)
	}
	// A clone of the engine's database and the outbox in it is told apart from its original.
	for _, conn := range []*pgx.Conn{first, second} {
		var left int
		eventually(t, "nothing is left", func() bool {
			return conn.QueryRow(t.Context(), `select count(*) from posthaste.outbox`).Scan(&left) == nil && left == 0
		})
	}
}

func TestCallersKeyCountsWhicheverWayAnEventComes(t *testing.T) {
	s, r := setting{testdb.SQLite(t), testdb.Postgres(t)}, newReceiver(t)
	s.install(t)
	e := s.start(t, r)
	if _, err := e.Send(t.Context(), "default", engine.Event{Type: "test.event", Payload: []byte("1"), IdempotencyKey: "k"}); err != nil {
		t.Fatal(err)
	}
	keyed := event("1")
	keyed.IdempotencyKey = "k"
	fresh := event("2")
	fresh.IdempotencyKey = "k2"
	enqueue(t, s.transact(t), keyed, fresh, fresh, event("3"))
	eventually(t, "all have arrived", func() bool { return len(r.payloads()) == 3 })
	got, err := e.Send(t.Context(), "default", engine.Event{Type: "test.event", Payload: []byte("2"), IdempotencyKey: "k2"})
	if err != nil || !got.Duplicate {
		t.Errorf("%+v, %v", got, err)
	}
}

// A relay with nothing to do leaves the database asleep, and is woken by the next commit,
// also by that of a transaction that had enqueued before it fell asleep.
func TestIdleDatabaseIsLeftAsleep(t *testing.T) {
	for name, s := range map[string]setting{
		"apart": {testdb.SQLite(t), testdb.Postgres(t)},
		"joint": func() setting { db := testdb.Postgres(t); return setting{db, db} }(),
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			s.install(t)
			app := connect(t, s.outboxDB)
			open := connect(t, s.outboxDB)
			exec(t, open, `begin`)
			exec(t, open, `select posthaste.enqueue('test.event', 'was open')`)
			s.start(t, r)
			asleep := func() (is bool) {
				err := app.QueryRow(t.Context(), `select last_value = 2 from posthaste.outbox_asleep`).Scan(&is)
				return err == nil && is
			}
			eventually(t, "the relay falls asleep", asleep)
			exec(t, open, `commit`)
			eventually(t, "what was open arrives", func() bool { return len(r.payloads()) == 1 })
			eventually(t, "the relay falls asleep again", asleep)
			quiet := func() (for3s bool) {
				err := app.QueryRow(t.Context(), `select bool_and(state = 'idle' and state_change < clock_timestamp() - interval '3 s')
					from pg_stat_activity where datname = current_database() and application_name like 'posthaste%'`).Scan(&for3s)
				return err == nil && for3s
			}
			eventually(t, "no session of ours says anything for 3 s", quiet)
			began := time.Now()
			exec(t, app, `select posthaste.enqueue('test.event', 'wakes')`)
			eventually(t, "it arrives", func() bool { return len(r.payloads()) == 2 })
			t.Logf("woken and delivered within %v", time.Since(began).Round(time.Millisecond))
			eventually(t, "the relay has said that it is awake", func() bool { return !asleep() })
		})
	}
}

func TestMetricsAndShutdown(t *testing.T) {
	s, r := setting{testdb.SQLite(t), testdb.Postgres(t)}, newReceiver(t)
	s.install(t)
	e, stop := s.run(t, r, func(c *engine.Config) { c.MetricsPublic = true })
	bad := event("x")
	bad.Tenant, bad.OrderKey = "nobody", "k"
	held := event("y")
	held.OrderKey = "k"
	enqueue(t, s.transact(t), event("1"), bad, held)
	metrics := func() string {
		w := httptest.NewRecorder()
		e.HTTPHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	for _, want := range []string{"rows_relayed_total", "rows_parked_total", "rows_parked", "rows_waiting"} {
		eventually(t, want+" is 1", func() bool {
			for line := range strings.Lines(metrics()) {
				if strings.HasPrefix(line, "posthaste_outbox_"+want+"{") && strings.HasSuffix(line, " 1\n") {
					return true
				}
			}
			return false
		})
	}
	if m := metrics(); !strings.Contains(m, "posthaste_outbox_oldest_row_seconds{outbox=") || strings.Contains(m, "password") {
		t.Errorf("no age of the oldest row")
	}
	stop()
	app := connect(t, s.outboxDB)
	var left int
	if err := app.QueryRow(t.Context(), `select count(*) from posthaste.outbox_relay`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d relays are left behind (%v)", left, err)
	}
}

// A relay that died asleep would have writers notify for ever: the next one clears it away.
func TestDeadSleepersAreClearedAway(t *testing.T) {
	s, r := setting{testdb.SQLite(t), testdb.Postgres(t)}, newReceiver(t)
	s.install(t)
	app := connect(t, s.outboxDB)
	exec(t, app, `insert into posthaste.outbox_relay values (1, true); select setval('posthaste.outbox_asleep', 2)`)
	s.start(t, r)
	var asleep bool
	eventually(t, "nobody is said to sleep while rows come", func() bool {
		exec(t, app, `select posthaste.enqueue('test.event', '')`)
		err := app.QueryRow(t.Context(), `select last_value = 2 or exists (select from posthaste.outbox_relay where no = 1) from posthaste.outbox_asleep`).Scan(&asleep)
		return err == nil && !asleep
	})
}

// Roles that have been granted no more than those of the outbox are enough.
func TestLeastPrivilege(t *testing.T) {
	s, r := setting{testdb.SQLite(t), testdb.Postgres(t)}, newReceiver(t)
	admin := s.install(t)
	name := "relay_" + strings.ToLower(rand.Text())
	conn := connect(t, s.outboxDB)
	exec(t, conn, `create role `+name+` login password 'secret'`)
	t.Cleanup(func() {
		if c, err := pgx.Connect(context.Background(), s.outboxDB); err == nil {
			_, _ = c.Exec(context.Background(), `drop role `+name)
			_ = c.Close(context.Background())
		}
	})
	if err := admin.Install(t.Context(), relay.Grants{Relay: []string{name}}); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(s.outboxDB)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "secret")
	_, stop := s.run(t, r, func(c *engine.Config) { c.Outboxes = []string{u.String()} })
	bad := event("parked")
	bad.Tenant = "nobody"
	ordered := event("2")
	ordered.OrderKey = "k"
	enqueue(t, s.transact(t), event("1"), ordered, bad)
	eventually(t, "the good ones have arrived", func() bool { return len(r.payloads()) == 2 })
	var asleep bool
	eventually(t, "the relay falls asleep", func() bool {
		return conn.QueryRow(t.Context(), `select last_value = 2 from posthaste.outbox_asleep`).Scan(&asleep) == nil && asleep
	})
	asRelay, err := relay.OpenAdmin(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := asRelay.Retry(t.Context(), nil); n != 1 || err != nil {
		t.Errorf("retry: %d, %v", n, err)
	}
	if _, err := asRelay.Drop(t.Context(), nil); err != nil {
		t.Error(err)
	}
	asRelay.Close(t.Context())
	stop()
}
