package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/outbox"
)

// changeLog is a receiver that records under which ids each change arrived.
type changeLog struct {
	*httptest.Server
	mu  sync.Mutex
	ids map[int]map[string]bool // change → webhook-ids
}

func newChangeLog(t *testing.T) *changeLog {
	c := &changeLog{ids: map[int]map[string]bool{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		n, err := strconv.Atoi(string(body))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ids[n] == nil {
			c.ids[n] = map[string]bool{}
		}
		c.ids[n][r.Header.Get("webhook-id")] = true
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *changeLog) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ids)
}

// shop is an application: it moves money between accounts and tells of it.
type shop struct {
	db                    string
	next                  atomic.Int64 // number of the last change that was tried
	committed, rolledBack atomic.Int64 // as far as the application knows
	unknown               atomic.Int64
}

const shopSchema = `create table accounts (id int primary key, balance int not null);
	insert into accounts select i, 1000 from generate_series(1, 50) i;
	create table movements (n int primary key, account int not null, amount int not null);` + watchGone

// watchGone records each version of a row that leaves the outbox.
const watchGone = `create table gone (row_id uuid, by xid8 default pg_current_xact_id());
	create function note() returns trigger language plpgsql as $$ begin insert into public.gone values (old.row_id); return null; end $$;
	create trigger note after delete on posthaste.outbox for each row execute function note()`

var errChangedMind = errors.New("changed my mind")

// work makes changes on one connection, again and again, until ctx ends.
func (s *shop) work(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := pgx.Connect(ctx, s.db)
		if err != nil {
			wait(ctx, 50*time.Millisecond)
			continue
		}
		for err == nil && ctx.Err() == nil {
			err = s.change(ctx, conn)
			switch {
			case err == nil:
				s.committed.Add(1)
			case errors.Is(err, errChangedMind):
				s.rolledBack.Add(1)
				err = nil
			default:
				s.unknown.Add(1)
			}
			wait(ctx, time.Duration(rand.IntN(8))*time.Millisecond)
		}
		_ = conn.Close(context.Background())
	}
}

// change updates a balance and enqueues the event of it in one transaction; now and then it
// also undoes an event by a savepoint, or all of it.
func (s *shop) change(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	n, account, amount := int(s.next.Add(1)), rand.IntN(50)+1, rand.IntN(21)-10
	e := outbox.Event{Type: "account.changed", Payload: []byte(strconv.Itoa(n))}
	if n%3 == 0 {
		e.OrderKey = fmt.Sprint("account-", account%5)
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `update accounts set balance = balance + $2 where id = $1`, account, amount); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `insert into movements values ($1, $2, $3)`, n, account, amount); err != nil {
			return err
		}
		if n%7 == 0 {
			err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
				_, err := outbox.Enqueue(ctx, savepoint, outbox.Event{Type: "account.changed", Payload: []byte(strconv.Itoa(-n))})
				return errors.Join(err, errChangedMind)
			})
			if !errors.Is(err, errChangedMind) {
				return err
			}
		}
		if _, err := outbox.Enqueue(ctx, tx, e); err != nil {
			return err
		}
		if n%10 == 0 {
			return errChangedMind
		}
		return nil
	})
}

// changes returns the changes that are in the database.
func (s *shop) changes(t *testing.T) map[int]bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(t.Context(), `select n from movements`)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]bool{}
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&n}, func() error {
		all[n] = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// The proof of the outbox: eight writers, and relay, engine and PostgreSQL killed at random.
// At the end the changes that are in the database are exactly the events at the receiver.
func TestOutboxProof(t *testing.T) {
	for _, where := range []string{"on two servers", "in one database"} {
		t.Run(where, func(t *testing.T) {
			servers := []*testdb.Cluster{testdb.NewCluster(t)}
			engineDB := servers[0].Postgres()
			s := &shop{db: engineDB}
			if where == "on two servers" {
				servers = append(servers, testdb.NewCluster(t))
				s.db = servers[1].Postgres()
			}
			proof := newChangeLog(t)
			front := newReplica(t, engineDB, map[string]string{"POSTHASTE_ROLES": "accept,deliver"})
			relays := []*replica{
				newReplica(t, engineDB, map[string]string{"POSTHASTE_ROLES": "relay", "POSTHASTE_OUTBOX": s.db}),
				newReplica(t, engineDB, map[string]string{"POSTHASTE_ROLES": "relay,deliver", "POSTHASTE_OUTBOX": s.db}),
			}
			runWith(t, "", front.binary, "outbox", "install", "--database", s.db)
			execute(t, s.db, shopSchema)
			front.start()
			front.endpoint(proof.URL)
			for _, r := range relays {
				r.start()
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var writers sync.WaitGroup
			for range 8 {
				writers.Go(func() { s.work(ctx) })
			}
			kills := killAtRandom(t, servers, front, relays)
			stop()
			writers.Wait()

			changes := s.changes(t)
			eventually(t, 90*time.Second, "every change has arrived", func() bool { return proof.count() >= len(changes) })
			eventually(t, 30*time.Second, "the outbox is empty", func() bool { return count(t, s.db, `select count(*) from posthaste.outbox`) == 0 })
			settledEverywhere(t, front, 60*time.Second)
			s.compare(t, proof, changes)
			events := count(t, engineDB, `select count(*) from events where type = 'account.changed'`)
			gone := count(t, s.db, `select count(*) from gone`)
			if twice := gone - count(t, s.db, `select count(distinct row_id) from gone`); twice != 0 || gone != len(changes) || events != len(changes) {
				t.Errorf("%d events, %d rows left the outbox, %d of them twice; want %d, %d, 0", events, gone, twice, len(changes), len(changes))
			}
			t.Logf("%d kills of relays, %d of the engine, %d of PostgreSQL", kills["relay"], kills["engine"], kills["PostgreSQL"])
			t.Logf("%d changes committed (the application knows of %d; of %d it never learned), %d rolled back",
				len(changes), s.committed.Load(), s.unknown.Load(), s.rolledBack.Load())
			t.Logf("%d events accepted, %d changes at the receiver, 0 missing, 0 without a change, 0 twice", events, proof.count())
			verify(t, engineDB)
		})
	}
}

// compare fails unless the events are those of the changes, each accepted once.
func (s *shop) compare(t *testing.T, proof *changeLog, changes map[int]bool) {
	t.Helper()
	proof.mu.Lock()
	defer proof.mu.Unlock()
	for n, ids := range proof.ids {
		if !changes[n] {
			t.Errorf("event %d has no change", n)
		}
		if len(ids) != 1 {
			t.Errorf("change %d was accepted %d times", n, len(ids))
		}
	}
	for n := range changes {
		if proof.ids[n] == nil {
			t.Errorf("change %d has no event", n)
		}
	}
}

// killAtRandom kills one thing after the other, a while apart, and starts each again.
func killAtRandom(t *testing.T, servers []*testdb.Cluster, front *replica, relays []*replica) map[string]int {
	t.Helper()
	kills := map[string]int{}
	order := []string{"relay", "engine", "PostgreSQL", "relay", "relay", "engine", "relay", "PostgreSQL", "engine", "relay", "PostgreSQL", "relay"}
	rand.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	for _, what := range order {
		wait(t.Context(), time.Duration(300+rand.IntN(1200))*time.Millisecond)
		kills[what]++
		switch what {
		case "PostgreSQL":
			server := servers[kills[what]%len(servers)] // each in turn
			server.Kill()
			wait(t.Context(), time.Duration(rand.IntN(1000))*time.Millisecond)
			server.Start()
		default:
			victim := front
			if what == "relay" {
				victim = relays[rand.IntN(len(relays))]
			}
			victim.kill()
			wait(t.Context(), time.Duration(rand.IntN(500))*time.Millisecond)
			victim.launch()
		}
	}
	wait(t.Context(), 2*time.Second)
	return kills
}
