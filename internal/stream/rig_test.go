package stream

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/postgres"
	"github.com/posthaste-dev/posthaste/sqlite"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type database interface {
	store.Store
	Migrate(ctx context.Context) error
}

func openSQLite(t *testing.T) database { return openSQLiteAt(t, testdb.SQLite(t)) }

func openSQLiteAt(t *testing.T, path string) database {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, db.Migrate(t.Context()))
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

func openPostgres(t *testing.T, url string) database {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	must(t, err)
	must(t, db.Migrate(t.Context()))
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// serve starts a stream on a store behind a listener; ?tenant= stands for the key.
func serve(t *testing.T, cfg Config) (s *Stream, url string) {
	t.Helper()
	s = New(cfg)
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant, err := strconv.Atoi(r.URL.Query().Get("tenant"))
		if err != nil {
			tenant = 1
		}
		sub := Subscription{Tenant: store.TenantNo(tenant), LastID: r.Header.Get("Last-Event-ID")}
		for name := range strings.SplitSeq(r.URL.Query().Get("types"), ",") {
			if kind, ok := store.ParseChangeKind(name); ok {
				sub.Kinds = append(sub.Kinds, kind)
			}
		}
		if err := s.Serve(r.Context(), w, sub); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	web.Config.WriteTimeout = 50 * time.Millisecond // the engine's server has one, which must not end a stream
	web.Start()
	t.Cleanup(func() {
		s.Close()
		web.Close()
	})
	return s, web.URL
}

// message is one block of an event stream.
type message struct {
	id, event, data, comment string
}

func (m message) about(t *testing.T) string {
	t.Helper()
	var d data
	if err := json.Unmarshal([]byte(m.data), &d); err != nil {
		t.Errorf("data %q: %v", m.data, err)
	}
	if d.DeliveryID != "" {
		return m.event + " " + d.DeliveryID
	}
	return m.event + " " + d.EventID
}

// reader is a client that reads an event stream.
type reader struct {
	body   io.ReadCloser
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

func dial(t *testing.T, url, lastID string) *reader {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	must(t, err)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("GET %s: %s, %v", url, res.Status, res.Header)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	r := &reader{body: res.Body, lines: lines, cancel: cancel}
	t.Cleanup(r.close)
	return r
}

func (r *reader) close() {
	r.cancel()
	_ = r.body.Close()
}

// next returns the next block, or false at the end.
func (r *reader) next() (m message, ok bool) {
	for r.lines.Scan() {
		line := r.lines.Text()
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "":
			if line == "" {
				return m, true
			}
			m.comment = value
		case "id":
			m.id = value
		case "event":
			m.event = value
		case "data":
			m.data = value
		}
	}
	return m, false
}

// event returns the next block that is an event.
func (r *reader) event(t *testing.T) message {
	t.Helper()
	for {
		m, ok := r.next()
		if !ok {
			t.Fatal("the stream has ended")
		}
		if m.event != "" {
			return m
		}
	}
}

// producer makes changes by one epoch of one handle.
type producer struct {
	db       store.Store
	epoch    store.Epoch
	tenant   store.TenantNo
	endpoint store.EndpointRow
	mu       sync.Mutex
	minter   posthaste.Minter
	beatAt   time.Time
}

func newProducer(t *testing.T, db store.Store, name string, tenant store.TenantNo) *producer {
	t.Helper()
	reg, err := db.Register(t.Context(), store.RegisterParams{Name: name})
	must(t, err)
	p := &producer{db: db, epoch: reg.Epoch, tenant: tenant, beatAt: time.Now()}
	d := posthaste.DefaultDefinition()
	d.URL = "https://receiver.example/hook"
	p.endpoint, err = db.CreateEndpoint(t.Context(), store.CreateEndpointParams{
		Tenant: tenant, Endpoint: posthaste.Endpoint{ID: p.minter.Mint(time.Now()), Definition: d, CreatedAt: time.Now()},
	})
	must(t, err)
	return p
}

// batch accepts events, ends every third of their deliveries dead and the others
// delivered, and returns what a stream has to tell of them.
func (p *producer) batch(t *testing.T, n int) (told []string) {
	t.Helper()
	now := time.Now()
	p.mu.Lock()
	if now.Sub(p.beatAt) > time.Second {
		_, err := p.db.Beat(t.Context(), store.BeatParams{Epoch: p.epoch})
		must(t, err)
		p.beatAt = now
	}
	events := make([]store.NewEvent, n)
	for i := range events {
		id := p.minter.Mint(now)
		events[i] = store.NewEvent{
			Event:  posthaste.Event{ID: id, Type: "invoice.paid", Source: "api", CorrelationID: id, Payload: []byte("{}")},
			Tenant: p.tenant, Namespace: store.NamespaceAPI,
			Deliveries: []store.NewDelivery{{Endpoint: p.endpoint.No, Leased: true, ExpiresAt: now.Add(time.Hour)}},
		}
	}
	p.mu.Unlock()
	known, err := p.db.Routing(t.Context(), store.RoutingParams{Tenant: p.tenant, Limit: 1})
	must(t, err)
	routing := []store.TenantVersion{{Tenant: p.tenant, Version: known.Mark.Version}}
	accepted, err := p.db.Accept(t.Context(), store.AcceptParams{Epoch: p.epoch, Now: now, Routing: routing, Events: events})
	must(t, err)
	if accepted.Stale != nil {
		t.Fatalf("accept: stale %v", accepted.Stale)
	}
	settle := store.SettleParams{Now: now}
	for i, e := range events {
		delivery := e.ID.Delivery(1)
		s := store.Settlement{
			Lease:   store.Lease{Delivery: delivery, Tenant: p.tenant, Endpoint: p.endpoint.No, Epoch: p.epoch, Number: 1, ExpiresAt: e.Deliveries[0].ExpiresAt},
			Attempt: &posthaste.Attempt{Number: 1, StartedAt: now, Outcome: posthaste.OutcomeDelivered}, State: posthaste.StateDelivered,
		}
		if i%3 == 2 {
			s.State, s.Reason, s.Attempt.Outcome = posthaste.StateDead, posthaste.ReasonPermanent, posthaste.OutcomePermanent
		}
		settle.Settlements = append(settle.Settlements, s)
		told = append(told, "event.accepted "+e.ID.Print(posthaste.KindEvent), "delivery."+s.State.String()+" "+delivery.Print(posthaste.KindDelivery))
	}
	settled, err := p.db.Settle(t.Context(), settle)
	must(t, err)
	for _, moved := range settled.Moved {
		if !moved {
			t.Fatal("a delivery did not move")
		}
	}
	return told
}
