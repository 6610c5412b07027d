package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// BenchmarkAcceptSettle is the way of an event through the database: accepted
// with a key and 1 KiB of payload, born leased, delivered at the first attempt,
// settled, in batches. Beside the time of one event it reports, where /proc is
// that of the server, the CPU of its sessions, and the WAL. Run it with
// -benchtime=100000x or more, past a checkpoint. Through a pooler every statement
// is parsed and planned anew, which is a price for each batch, not for each event.
func BenchmarkAcceptSettle(b *testing.B) {
	for _, size := range []int{32, 64, 256} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			db, _ := open(b)
			benchmarkAcceptSettle(b, db, size)
		})
		b.Run(fmt.Sprintf("batch=%d/pooler", size), func(b *testing.B) {
			benchmarkAcceptSettle(b, connectWith(b, throughPooler(b)), size)
		})
	}
}

func benchmarkAcceptSettle(b *testing.B, db *DB, size int) {
	days, err := strconv.Atoi(os.Getenv("BENCH_DAYS")) // more partitions, for their cost
	if err == nil {
		if err := db.MakePartitions(b.Context(), time.Now().AddDate(0, 0, -days), time.Now()); err != nil {
			b.Fatal(err)
		}
	}
	w := newWay(b, db, size)
	for range 20 { // plans and caches
		w.batch(b)
	}
	if db.hot.local == "" { // a pooler's sessions come and go
		w.pids = sessions(b, db)
	}
	w.accept, w.settle = 0, 0
	wal := walBytes(b, db)
	b.ResetTimer()
	for b.Loop() {
		w.batch(b)
	}
	b.StopTimer()
	events := float64(b.N * size)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/events, "us/event")
	b.ReportMetric(float64(w.accept.Microseconds())/events, "pg-accept-us/event")
	b.ReportMetric(float64(w.settle.Microseconds())/events, "pg-settle-us/event")
	b.ReportMetric(float64(walBytes(b, db)-wal)/events, "wal-B/event")
	b.ReportMetric(hotShare(b, db), "hot-share")
}

// way drives batches of events to their end.
type way struct {
	db       *DB
	minter   posthaste.Minter
	due      bool // born due, not leased
	epoch    store.Epoch
	beatAt   time.Time
	endpoint store.EndpointRow
	routing  []store.TenantVersion
	size     int
	payload  []byte
	key      uint64

	pids           []int         // of the server's sessions
	accept, settle time.Duration // their CPU time
}

func newWay(tb testing.TB, db *DB, size int) *way {
	tb.Helper()
	w := &way{db: db, size: size, payload: []byte(strings.Repeat("0123456789abcdef", 64))}
	w.endpoint = newEndpoint(tb, db)
	known, err := db.Routing(tb.Context(), store.RoutingParams{Tenant: 1, Limit: 1})
	if err != nil {
		tb.Fatal(err)
	}
	w.routing = []store.TenantVersion{{Tenant: 1, Version: known.Mark.Version}}
	reg, err := db.Register(tb.Context(), store.RegisterParams{Name: "bench"})
	if err != nil {
		tb.Fatal(err)
	}
	w.epoch, w.beatAt = reg.Epoch, time.Now()
	return w
}

func newEndpoint(tb testing.TB, db *DB) store.EndpointRow {
	tb.Helper()
	definition := posthaste.DefaultDefinition()
	definition.URL = "https://receiver.example/hook"
	row, err := db.CreateEndpoint(tb.Context(), store.CreateEndpointParams{
		Tenant:   1,
		Endpoint: posthaste.Endpoint{ID: new(posthaste.Minter).Mint(time.Now()), Definition: definition, CreatedAt: time.Now()},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return row
}

// events mints events with a key and one delivery each.
func (w *way) events(n int) []store.NewEvent {
	now := time.Now()
	events := make([]store.NewEvent, n)
	for i := range events {
		w.key++
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, w.key))
		id := w.minter.Mint(now)
		events[i] = store.NewEvent{
			Event: posthaste.Event{
				ID: id, Type: "invoice.paid", Source: "api", ContentType: "application/json", Payload: w.payload,
				IdempotencyKey: fmt.Sprintf("invoice_%d", w.key), CorrelationID: id,
			},
			Tenant: 1, Namespace: store.NamespaceAPI, Key: store.Hash(sum[:]), Sum: store.Hash(sum[16:]),
			Deliveries: []store.NewDelivery{{Endpoint: w.endpoint.No, Leased: !w.due, DueAt: now, ExpiresAt: now.Add(96 * time.Hour)}},
		}
	}
	return events
}

func (w *way) beat(tb testing.TB) {
	tb.Helper()
	if time.Since(w.beatAt) < time.Second {
		return
	}
	if _, err := w.db.Beat(tb.Context(), store.BeatParams{Epoch: w.epoch}); err != nil {
		tb.Fatal(err)
	}
	w.beatAt = time.Now()
}

// batch accepts a batch and, unless it is born due, settles it.
func (w *way) batch(tb testing.TB) {
	tb.Helper()
	w.beat(tb)
	now := time.Now()
	events := w.events(w.size)
	before := cpuTime(tb, w.pids)
	accepted, err := w.db.Accept(tb.Context(), store.AcceptParams{Epoch: w.epoch, Now: now, Routing: w.routing, Events: events})
	if err != nil {
		tb.Fatal(err)
	}
	w.accept += cpuTime(tb, w.pids) - before
	leases := make([]store.Lease, w.size)
	for i := range leases {
		if !accepted.Events[i].Stored {
			tb.Fatalf("event %d is not stored", i)
		}
		leases[i] = store.Lease{Delivery: events[i].ID.Delivery(1), Tenant: 1, Endpoint: w.endpoint.No, Epoch: w.epoch, Number: 1}
	}
	if !w.due {
		w.deliver(tb, leases)
	}
}

// deliver settles leases as delivered.
func (w *way) deliver(tb testing.TB, leases []store.Lease) {
	tb.Helper()
	now := time.Now()
	settlements := make([]store.Settlement, len(leases))
	for i, lease := range leases {
		settlements[i] = store.Settlement{
			Lease: lease,
			State: posthaste.StateDelivered,
			Attempt: &posthaste.Attempt{
				Number: 1, StartedAt: now, Outcome: posthaste.OutcomeDelivered, StatusCode: 200, EndpointVersion: 1, Replica: "bench:8700",
				Timings: posthaste.Timings{FirstByte: time.Millisecond, Total: 2 * time.Millisecond},
				ResponseHeaders: []posthaste.Header{
					{Name: "Content-Length", Value: "2"}, {Name: "Content-Type", Value: "text/plain; charset=utf-8"},
					{Name: "Date", Value: "Sun, 29 Nov 2026 19:00:00 GMT"},
				},
				ResponseBody: []byte("ok"),
			},
		}
	}
	before := cpuTime(tb, w.pids)
	settled, err := w.db.Settle(tb.Context(), store.SettleParams{Now: now, Settlements: settlements})
	if err != nil {
		tb.Fatal(err)
	}
	w.settle += cpuTime(tb, w.pids) - before
	for i, moved := range settled.Moved {
		if !moved {
			tb.Fatalf("settlement %d did not move its delivery", i)
		}
	}
}

// BenchmarkDrain claims and settles, 64 at a time, what waits at one endpoint: a
// backlog of 64 for each round of the benchmark.
func BenchmarkDrain(b *testing.B) {
	db, _ := open(b)
	w := newWay(b, db, 64)
	w.due = true
	for range 320 {
		w.batch(b)
	}
	w.pids = sessions(b, db)
	var claim time.Duration
	var from time.Time
	n := 0
	b.ResetTimer()
	for range min(b.N, 320) {
		w.beat(b)
		before := cpuTime(b, w.pids)
		claimed, err := db.Claim(b.Context(), store.ClaimParams{
			Epoch: w.epoch, Now: time.Now(), Want: []store.ClaimWant{{Endpoint: w.endpoint.No, Cap: 64, From: from}},
		})
		if err != nil || len(claimed.Leases) != 64 {
			b.Fatalf("claimed %d: %v", len(claimed.Leases), err)
		}
		claim += cpuTime(b, w.pids) - before
		from = claimed.Leases[63].DueAt
		w.deliver(b, claimed.Leases)
		n += 64
	}
	b.StopTimer()
	b.ReportMetric(float64(claim.Microseconds())/float64(n), "pg-claim-us/event")
	b.ReportMetric(float64(w.settle.Microseconds())/float64(n), "pg-settle-us/event")
	b.ReportMetric(hotShare(b, db), "hot-share")
}

// sessions are the process ids of the server's sessions that are ours.
func sessions(tb testing.TB, db *DB) []int {
	tb.Helper()
	rows, err := db.side.Query(tb.Context(), "select pid from pg_stat_activity where application_name = 'posthaste' and datname = current_database()")
	if err != nil {
		tb.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		tb.Fatal(err)
	}
	return pids
}

// cpuTime is the time that processes were on a CPU; 0 for those of another machine.
func cpuTime(tb testing.TB, pids []int) time.Duration {
	tb.Helper()
	var sum time.Duration
	for _, pid := range pids {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.Fields(string(raw))[0], 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		sum += time.Duration(n)
	}
	return sum
}

func walBytes(tb testing.TB, db *DB) int64 {
	tb.Helper()
	var n int64
	if err := db.side.QueryRow(tb.Context(), "select (pg_current_wal_insert_lsn() - '0/0')::int8").Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// hotShare is the share of the updates of deliveries that touched no index.
func hotShare(tb testing.TB, db *DB) float64 {
	tb.Helper()
	var share float64
	if err := db.side.QueryRow(tb.Context(), `
		select coalesce(sum(n_tup_hot_upd)::float8 / nullif(sum(n_tup_upd), 0), 0) from pg_stat_user_tables
		where relname like 'deliveries_%'`).Scan(&share); err != nil {
		tb.Fatal(err)
	}
	return share
}
