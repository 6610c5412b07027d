package relay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/outbox"
)

func connect(t *testing.T, db string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Transactions that commit in another order than they enqueued in: the relay has long
// passed the id of the one that comes last.
func TestNoRowIsSkippedWhateverOrderTransactionsCommitIn(t *testing.T) {
	s, r := setting{testdb.Postgres(t), testdb.Postgres(t)}, newReceiver(t)
	s.install(t)
	s.start(t, r)
	const writers = 8
	var conns [writers]*pgx.Conn
	for i := range conns {
		conns[i] = connect(t, s.outboxDB)
		exec(t, conns[i], "begin")
		exec(t, conns[i], `select posthaste.enqueue('test.event', $1)`, []byte(strconv.Itoa(i)))
	}
	for n, i := range rand.Perm(writers) {
		exec(t, conns[i], "commit")
		eventually(t, "what is committed arrives", func() bool { return len(r.payloads()) == n+1 })
	}
	// One that stays open while much else goes by.
	exec(t, conns[0], "begin")
	exec(t, conns[0], `select posthaste.enqueue('test.event', 'late')`)
	for range 5 {
		exec(t, conns[1], `select posthaste.enqueue_all(array_fill('test.event'::text, array[1000]), array_fill('x'::bytea, array[1000]))`)
	}
	eventually(t, "the others have arrived", func() bool { return len(r.payloads()) == writers+5000 })
	exec(t, conns[0], "commit")
	eventually(t, "the late one arrives", func() bool { return strings.Contains(fmt.Sprint(r.payloads()), "late") })
}

// noteAccepts records in which order commits of events wrote: ids of several replicas don't
// tell, within a millisecond.
const noteAccepts = `create table accepts (event uuid, by xid8 default pg_current_xact_id(), seq bigint generated always as identity);
	create function note_accept() returns trigger language plpgsql as $$ begin insert into public.accepts (event) values (new.id); return null; end $$;
	create trigger note_accept after insert on events for each row execute function note_accept()`

// acceptedPayloads returns the payloads of events that have one, in the order of acceptance.
func acceptedPayloads(t *testing.T, db string) []string {
	t.Helper()
	rows, err := connect(t, db).Query(t.Context(), `select convert_from(e.payload, 'UTF8') from events e
		join (select event, min(seq) over (partition by by) as commit from accepts) a on a.event = e.id
		where e.type = 'test.event' order by a.commit, e.id`)
	if err != nil {
		t.Fatal(err)
	}
	payloads, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return payloads
}

// Eight writers on three keys, four relays: the events of a key are accepted in the order in
// which their transactions committed, which a counter in the same transaction tells.
func TestOrderKeysKeepTheOrderOfTheirTransactions(t *testing.T) {
	for name, s := range map[string]setting{
		"apart": {testdb.Postgres(t), testdb.Postgres(t)},
		"joint": func() setting { db := testdb.Postgres(t); return setting{db, db} }(),
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			admin := s.install(t)
			for range 4 {
				s.start(t, r, func(c *engine.Config) { c.OutboxBatch = 7 })
			}
			exec(t, connect(t, s.engineDB), noteAccepts)
			pool, err := pgxpool.New(t.Context(), s.outboxDB)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			if _, err := pool.Exec(t.Context(), `create table counter (key text, n int); insert into counter values ('a', 0), ('b', 0), ('c', 0)`); err != nil {
				t.Fatal(err)
			}
			const each = 60
			var writers sync.WaitGroup
			for w := range 8 {
				writers.Go(func() {
					for i := range each {
						key := string("abc"[rand.IntN(3)])
						err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
							// The first event takes the key's lock: the counter below needs no lock of its own.
							var n int
							if _, err := outbox.Enqueue(t.Context(), tx, outbox.Event{Type: "test.first", OrderKey: key}); err != nil {
								return err
							}
							if err := tx.QueryRow(t.Context(), `select n from counter where key = $1`, key).Scan(&n); err != nil {
								return err
							}
							if _, err := tx.Exec(t.Context(), `update counter set n = $2 where key = $1`, key, n+1); err != nil {
								return err
							}
							e := outbox.Event{Type: "test.event", OrderKey: key, Payload: fmt.Appendf(nil, "%s %d", key, n)}
							if w == 0 && i%10 == 0 {
								e.IdempotencyKey = string(e.Payload)
							}
							_, err := outbox.Enqueue(t.Context(), tx, e)
							return err
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			writers.Wait()
			eventually(t, "all have arrived", func() bool { return len(r.payloads()) == 2*8*each })
			next := map[string]int{}
			for _, payload := range acceptedPayloads(t, s.engineDB) {
				key, n, _ := strings.Cut(payload, " ")
				if n != strconv.Itoa(next[key]) {
					t.Fatalf("of key %s event %s comes before %d", key, n, next[key])
				}
				next[key]++
			}
			if status, err := admin.Status(t.Context()); err != nil || status.Waiting != 0 {
				t.Errorf("%+v, %v", status, err)
			}
		})
	}
}

// From the transactions' order to the order of arrival: with an ordered endpoint.
func TestOrderedEndpointGetsTheOrderOfTheTransactions(t *testing.T) {
	const adminKey = "an-admin-key-of-this-test"
	for name, s := range map[string]setting{
		"apart":     {testdb.Postgres(t), testdb.Postgres(t)},
		"joint":     func() setting { db := testdb.Postgres(t); return setting{db, db} }(),
		"on SQLite": {testdb.SQLite(t), testdb.SQLite(t)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			s.install(t)
			e := s.start(t, r, func(c *engine.Config) { c.AdminKey = adminKey })
			req := httptest.NewRequest(http.MethodPatch, "/v1/endpoints/uid:"+engine.EndpointUID, strings.NewReader(`{"ordered":"endpoint"}`))
			req.Header.Set("Authorization", "Bearer "+adminKey)
			w := httptest.NewRecorder()
			if e.HTTPHandler().ServeHTTP(w, req); w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			transact := s.transact(t)
			const transactions, each = 20, 5
			for i := range transactions {
				var events []outbox.Event
				for k := range each {
					e := event(strconv.Itoa(i*each + k))
					e.OrderKey = "k"
					events = append(events, e)
				}
				enqueue(t, transact, events...)
			}
			eventually(t, "all have arrived", func() bool { return len(r.payloads()) == transactions*each })
			r.mu.Lock()
			defer r.mu.Unlock()
			for i, a := range r.seen {
				if a.payload != strconv.Itoa(i) {
					t.Fatalf("arrival %d is event %s", i, a.payload)
				}
			}
		})
	}
}
