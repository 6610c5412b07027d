package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		http.DefaultClient.CloseIdleConnections()
		os.Exit(status)
	}))
}

// TestExactlyOnceSQLite and its like on PostgreSQL: clients that break off at
// random and come back with the last id they saw, at any replica, are told of
// everything once.
func TestExactlyOnceSQLite(t *testing.T) {
	db := openSQLite(t)
	s, url := serve(t, Config{Store: db})
	testExactlyOnce(t, []*producer{newProducer(t, s.Watch(db), "one", 1)}, []string{url})
}

func TestExactlyOncePostgres(t *testing.T) {
	address := testdb.Postgres(t)
	one, two := openPostgres(t, address), openPostgres(t, address)
	delayCommits(t, address)
	first, url1 := serve(t, Config{Store: one})
	second, url2 := serve(t, Config{Store: two})
	testExactlyOnce(t, []*producer{
		newProducer(t, first.Watch(one), "one", 1), newProducer(t, second.Watch(two), "two", 1),
	}, []string{url1, url2})
}

// delayCommits makes each transaction that tells of a change wait up to 30 ms
// before it commits, so that they overtake one another.
func delayCommits(t *testing.T, address string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	must(t, err)
	defer conn.Close(t.Context())
	for _, sql := range []string{
		`create function dawdle() returns trigger language plpgsql as $$ begin perform pg_sleep(random() * 0.03); return null; end $$`,
		`create constraint trigger dawdle after insert on changes deferrable initially deferred for each row execute function dawdle()`,
	} {
		_, err = conn.Exec(t.Context(), sql)
		must(t, err)
	}
}

func testExactlyOnce(t *testing.T, producers []*producer, urls []string) {
	const workers, rounds, clients = 4, 25, 6
	var mu sync.Mutex
	want := map[string]int{}
	readers := make([]*reader, clients)
	for i := range readers {
		readers[i] = dial(t, urls[i%len(urls)], "")
		if m, ok := readers[i].next(); !ok || m.comment != "connected" || m.id == "" {
			t.Fatalf("client %d is greeted with %+v", i, m)
		}
	}
	var producing sync.WaitGroup
	for i := range workers {
		producing.Go(func() {
			for range rounds {
				told := producers[i%len(producers)].batch(t, 1+rand.IntN(12))
				mu.Lock()
				for _, what := range told {
					want[what]++
				}
				mu.Unlock()
			}
		})
	}
	var done atomic.Bool
	go func() { producing.Wait(); done.Store(true) }()
	var reading sync.WaitGroup
	for i, r := range readers {
		reading.Go(func() {
			got, visits := map[string]int{}, 1
			lastID := ""
			deadline := time.Now().Add(time.Minute)
			for breakAt := rand.IntN(60); time.Now().Before(deadline); breakAt-- {
				mu.Lock()
				whole := done.Load() && len(got) >= len(want)
				mu.Unlock()
				if whole {
					break
				}
				if breakAt <= 0 && lastID != "" && i > 0 { // the first one stays
					r.close()
					visits, breakAt = visits+1, rand.IntN(60)
					r = dial(t, urls[rand.IntN(len(urls))], lastID)
				}
				m, ok := r.next()
				if !ok {
					t.Errorf("client %d: the stream has ended", i)
					return
				}
				if m.id != "" {
					lastID = m.id
				}
				if m.event != "" {
					got[m.about(t)]++
				}
			}
			r.close()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("client %d in %d visits (-want +got):\n%s", i, visits, diff)
			}
			t.Logf("client %d: %d changes in %d visits", i, len(got), visits)
		})
	}
	reading.Wait()
	producing.Wait()
}

func TestTenantsAndTypes(t *testing.T) {
	db := openSQLite(t)
	row, err := db.CreateTenant(t.Context(), posthaste.Tenant{Name: "acme", CreatedAt: time.Now()})
	must(t, err)
	s, url := serve(t, Config{Store: db})
	ours := newProducer(t, s.Watch(db), "one", 1)
	theirs := &producer{db: ours.db, epoch: ours.epoch, tenant: row.No, beatAt: time.Now()}
	theirs.endpoint = newEndpoint(t, db, row.No)

	mine, his, all := dial(t, url, ""), dial(t, fmt.Sprintf("%s?tenant=%d&types=delivery.dead", url, row.No), ""), dial(t, url+"?tenant=0", "")
	for _, r := range []*reader{mine, his, all} {
		r.next() // it has joined
	}
	a := ours.batch(t, 1)
	b := theirs.batch(t, 3)
	c := ours.batch(t, 1)
	for i, want := range append(a, c...) {
		if got := mine.event(t).about(t); got != want {
			t.Errorf("the client of the first tenant: %d is %s, want %s", i, got, want)
		}
	}
	m := his.event(t)
	if got := m.about(t); got != b[5] || !strings.Contains(m.data, `"tenant":"acme"`) || !strings.Contains(m.data, theirs.endpoint.ID.Print(posthaste.KindEndpoint)) {
		t.Errorf("the client of the second tenant: %s: %s, want %s", got, m.data, b[5])
	}
	seen := map[string]bool{}
	for range len(a) + len(b) + len(c) {
		seen[all.event(t).about(t)] = true
	}
	for _, want := range append(append(a, b...), c...) {
		if !seen[want] {
			t.Errorf("the client of all tenants was not told of %s", want)
		}
	}
	detail := `{"state":"closed"}`
	must(t, ours.db.AppendChange(t.Context(), store.AppendChangeParams{
		Kind: store.ChangeGate, Tenant: 1, ID: ours.endpoint.ID, At: time.Now(), Detail: json.RawMessage(detail),
	}))
	if m := mine.event(t); m.event != "endpoint.gate" || !strings.Contains(m.data, `"gate":`+detail) {
		t.Errorf("a gate: %+v", m)
	}
	// Another tenant's id shows nothing of it.
	stolen := dial(t, url, m.id)
	for _, want := range []string{c[0], c[1]} {
		if got := stolen.event(t).about(t); got != want {
			t.Errorf("with the id of another tenant's event: %s, want %s", got, want)
		}
	}
}

func newEndpoint(t *testing.T, db store.Store, tenant store.TenantNo) store.EndpointRow {
	t.Helper()
	d := posthaste.DefaultDefinition()
	d.URL = "https://receiver.example/hook"
	row, err := db.CreateEndpoint(t.Context(), store.CreateEndpointParams{
		Tenant: tenant, Endpoint: posthaste.Endpoint{ID: new(posthaste.Minter).Mint(time.Now()), Definition: d, CreatedAt: time.Now()},
	})
	must(t, err)
	return row
}

func TestReset(t *testing.T) {
	db := openSQLite(t)
	s, url := serve(t, Config{Store: db})
	p := newProducer(t, s.Watch(db), "one", 1)
	p.batch(t, 2)
	head, err := db.ChangesHead(t.Context())
	must(t, err)
	for what, id := range map[string]string{
		"unknown_id": "7-1842", "too_old": printID(head, time.Now().Add(-25*time.Hour)),
	} {
		testReset(t, p, url, what, id)
	}
	future := head
	future.Next += 1000
	testReset(t, p, url, "unknown_id", printID(future, time.Now()))
}

func testReset(t *testing.T, p *producer, url, what, id string) {
	t.Helper()
	r := dial(t, url, id)
	defer r.close()
	if m := r.event(t); m.event != "stream.reset" || m.data != `{"reason":"`+what+`"}` || m.id == "" {
		t.Errorf("with the id %q: %+v, want a reset for %s", id, m, what)
	}
	want := p.batch(t, 1)
	if got := r.event(t).about(t); got != want[0] {
		t.Errorf("after the reset: %s, want %s", got, want[0])
	}
}

// TestPing: a quiet client gets signs of life, and ids that it can come back with.
func TestPing(t *testing.T) {
	db := openSQLite(t)
	s, url := serve(t, Config{Store: db, PingEvery: 20 * time.Millisecond})
	p := newProducer(t, s.Watch(db), "one", 1)
	r := dial(t, url+"?types=endpoint.gate", "")
	r.next()
	p.batch(t, 3)
	head, err := db.ChangesHead(t.Context())
	must(t, err)
	id := ""
	for range 200 { // until the tailer has passed what the client does not want
		m, ok := r.next()
		if !ok || m.comment != "ping" {
			t.Fatalf("%+v, %v, want a ping", m, ok)
		}
		if c, _, err := parseID(m.id); err == nil && c.Covers(head) {
			id = m.id
			break
		}
	}
	r.close()
	want := p.batch(t, 1)
	if got := dial(t, url, id).event(t).about(t); got != want[0] {
		t.Errorf("after the id of a ping: %s, want %s", got, want[0])
	}
}

// TestSlowClient is disconnected, and can go on where it was.
func TestSlowClient(t *testing.T) {
	db := openSQLite(t)
	s, url := serve(t, Config{Store: db, QueueBytes: 32 << 10, WriteTimeout: 200 * time.Millisecond})
	p := newProducer(t, s.Watch(db), "one", 1)
	r := dial(t, url, "")
	first, _ := r.next()
	var want []string
	deadline := time.Now().Add(time.Minute)
	for s.Clients() > 0 && time.Now().Before(deadline) { // until the kernel's buffers are full, too
		want = append(want, p.batch(t, 500)...)
	}
	if s.Clients() > 0 {
		t.Fatal("a client that does not read stays")
	}
	lastID, got := first.id, map[string]int{}
	for {
		m, ok := r.next()
		if !ok {
			break
		}
		if m.event != "" {
			got[m.about(t)]++
			lastID = m.id
		}
	}
	t.Logf("it read %d of %d changes before it was disconnected", len(got), len(want))
	for r = dial(t, url, lastID); len(got) < len(want); {
		got[r.event(t).about(t)]++
	}
	for _, what := range want {
		if got[what] != 1 {
			t.Fatalf("%s was told %d times", what, got[what])
		}
	}
}

// TestClose ends streams at once.
func TestClose(t *testing.T) {
	db := openSQLite(t)
	s, url := serve(t, Config{Store: db})
	r := dial(t, url, "")
	r.next()
	s.Close()
	for {
		m, ok := r.next()
		if !ok {
			break
		}
		if !strings.HasPrefix(m.comment, "the server is stopping") {
			t.Errorf("at the end: %+v", m)
		}
	}
	if err := s.Serve(t.Context(), nil, Subscription{}); posthaste.CodeOf(err) != posthaste.CodeUnavailable {
		t.Errorf("after Close: %v", err)
	}
}

// counting counts the reads of a store.
type counting struct {
	store.Changes
	reads atomic.Int32
}

func (c *counting) ChangesHead(ctx context.Context) (store.Cursor, error) {
	c.reads.Add(1)
	return c.Changes.ChangesHead(ctx)
}

func (c *counting) ReadChanges(ctx context.Context, p store.ReadChangesParams) (store.ChangePage, error) {
	c.reads.Add(1)
	return c.Changes.ReadChanges(ctx, p)
}

// TestNobody: without clients the database isn't asked.
func TestNobody(t *testing.T) {
	db := openSQLite(t)
	counts := &counting{Changes: db}
	s, url := serve(t, Config{Store: counts})
	p := newProducer(t, s.Watch(db), "one", 1)
	p.batch(t, 1)
	if n := counts.reads.Load(); n != 0 {
		t.Errorf("%d reads before any client", n)
	}
	r := dial(t, url, "")
	r.next()
	r.close()
	s.tailing.Wait() // it ends by itself
	before := counts.reads.Load()
	p.batch(t, 1)
	if n := counts.reads.Load(); n != before || before == 0 {
		t.Errorf("%d reads, and %d after the last client had gone", before, n-before)
	}
}

// TestIdleClients shows what 500 clients cost that are told of nothing.
func TestIdleClients(t *testing.T) {
	const n = 500
	db := openSQLite(t)
	s, url := serve(t, Config{Store: db})
	p := newProducer(t, s.Watch(db), "one", 1)
	var before, after runtime.MemStats
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	runtime.GC()
	runtime.ReadMemStats(&before)
	readers := make([]*reader, n)
	var dialing sync.WaitGroup
	for i := range readers {
		dialing.Go(func() {
			readers[i] = dial(t, url, "")
			readers[i].next()
		})
	}
	dialing.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := float64(after.HeapInuse+after.StackInuse) - float64(before.HeapInuse+before.StackInuse)
	t.Logf("%d clients and their server: %d goroutines, %d descriptors, %.1f kB of memory each", n,
		runtime.NumGoroutine()-goroutines, openFiles(t)-files, used/n/1000)
	want := p.batch(t, 1)
	for i, r := range readers {
		if got := r.event(t).about(t); got != want[0] {
			t.Fatalf("client %d: %s, want %s", i, got, want[0])
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(files)
}

// TestEmptied: somebody empties the table of changes, or the database goes back to an
// earlier state. Clients that are there are told so, and of all that comes afterwards.
func TestEmptied(t *testing.T) {
	path, address := testdb.SQLite(t), testdb.Postgres(t)
	for name, c := range map[string]struct {
		open func() database
		lose func()
	}{
		"sqlite": {
			func() database { return openSQLiteAt(t, path) },
			func() {
				conn, err := sqlite.OpenConn(path)
				must(t, err)
				defer func() { must(t, conn.Close()) }()
				conn.SetBlockOnBusy()
				must(t, sqlitex.ExecuteScript(conn, `DELETE FROM changes; UPDATE sqlite_sequence SET seq = 0 WHERE name = 'changes'`, nil))
			},
		},
		"postgres": {
			func() database { return openPostgres(t, address) },
			func() {
				conn, err := pgx.Connect(t.Context(), address)
				must(t, err)
				defer conn.Close(t.Context())
				_, err = conn.Exec(t.Context(), `delete from changes`)
				must(t, err)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := c.open()
			s, url := serve(t, Config{Store: db})
			p := newProducer(t, s.Watch(db), "one", 1)
			r := dial(t, url, "")
			r.next() // it has joined
			for range p.batch(t, 50) {
				r.event(t)
			}
			c.lose()
			if m := r.event(t); m.event != "stream.reset" || m.data != `{"reason":"changes_missing"}` || m.id == "" {
				t.Fatalf("%+v, want a reset", m)
			}
			want := p.batch(t, 1)
			m := r.event(t)
			if got := m.about(t); got != want[0] {
				t.Errorf("after the reset: %s, want %s", got, want[0])
			}
			if m := dial(t, url, m.id).event(t); m.event == "stream.reset" || m.about(t) != want[1] {
				t.Errorf("a client that came back: %+v, want %s", m, want[1])
			}
		})
	}
}
