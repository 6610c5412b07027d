package engine_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/sqlite"
)

func open(t *testing.T) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: testdb.SQLite(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

func config(db *sqlite.DB, masterKey string) engine.Config {
	return engine.Config{
		Store: db, MasterKey: masterKey, Replica: "test", ShutdownTimeout: 10 * time.Second,
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHTTP: engine.HTTPNetworks,
		Log: slog.New(slog.DiscardHandler),
	}
}

// start runs an engine until the test ends and waits until it is ready.
func start(t *testing.T, e *engine.Engine) {
	t.Helper()
	_ = run(t, e)
}

// run does the same, for a test that ends it itself, by stop.
func run(t *testing.T, e *engine.Engine) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	eventually(t, "the engine is ready", func() bool { return e.Ready() == nil })
	return stop
}

// receive runs a receiver that tells the types of the events that arrive, and
// returns its URL.
func receive(t *testing.T, arrived chan<- string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("Posthaste-Event-Type")
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func eventually(t *testing.T, what string, try func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !try() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it never came to be that %s", what)
		}
	}
}

// request asks the engine's HTTP API and returns status and body.
func request(t *testing.T, e *engine.Engine, key, route, body string) (int, string) {
	t.Helper()
	return ask(t, e, http.Header{"Authorization": {"Bearer " + key}}, route, body)
}

// ask is request with headers of the caller's.
func ask(t *testing.T, e *engine.Engine, header http.Header, route, body string) (int, string) {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	e.HTTPHandler().ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

func TestSendReachesAnEndpoint(t *testing.T) {
	arrived := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		arrived <- r.Header.Get("Posthaste-Event-Type") + " " + r.Header.Get("User-Agent") + " " + r.Header.Get("X-Trace") + " " + string(body)
	}))
	defer receiver.Close()
	e, err := engine.New(t.Context(), config(open(t), keyring.Generate()))
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := request(t, e, e.MadeAdminKey(), "GET /readyz", ""); code != http.StatusServiceUnavailable {
		t.Errorf("before Run /readyz answers %d", code)
	}
	start(t, e)
	if code, body := request(t, e, e.MadeAdminKey(), "POST /v1/endpoints", `{"url":"`+receiver.URL+`"}`); code != http.StatusCreated {
		t.Fatalf("make an endpoint: %d %s", code, body)
	}
	event := engine.Event{
		Type: "invoice.paid", Payload: []byte(`{ "n": 1 }`), IdempotencyKey: "k",
		Headers: []posthaste.Header{{Name: "X-Trace", Value: "abc"}},
	}
	first, err := e.Send(t.Context(), posthaste.TenantDefault, event)
	if err != nil || first.Deliveries != 1 || first.Duplicate || first.ID.IsZero() {
		t.Fatalf("Send: %+v, %v", first, err)
	}
	if got := <-arrived; got != `invoice.paid Posthaste/dev abc { "n": 1 }` {
		t.Errorf("arrived: %s", got)
	}
	again, err := e.Send(t.Context(), posthaste.TenantDefault, event)
	if err != nil || !again.Duplicate || again.ID != first.ID {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	eventually(t, "the delivery is recorded", func() bool {
		_, body := request(t, e, e.MadeAdminKey(), "GET /v1/deliveries", "")
		return strings.Contains(body, `"status":"delivered"`)
	})
}

func TestSendRefusesBadEvents(t *testing.T) {
	e, err := engine.New(t.Context(), config(open(t), keyring.Generate()))
	if err != nil {
		t.Fatal(err)
	}
	start(t, e)
	long := strings.Repeat("x", 300)
	for name, tt := range map[string]struct {
		tenant   string
		event    engine.Event
		want     posthaste.Code
		problems int
	}{
		"everything":     {"default", engine.Event{Type: "a b", IdempotencyKey: long, OrderKey: long, Headers: []posthaste.Header{{Name: "Host", Value: "x"}}}, posthaste.CodeInvalid, 4},
		"no type":        {"default", engine.Event{}, posthaste.CodeInvalid, 1},
		"no text":        {"default", engine.Event{Type: "a", IdempotencyKey: "\xff", OrderKey: "a\x00", Traceparent: "00-1"}, posthaste.CodeInvalid, 3},
		"too large":      {"default", engine.Event{Type: "a", Payload: make([]byte, 1<<20+1)}, posthaste.CodeTooLarge, 0},
		"unknown tenant": {"nobody", engine.Event{Type: "a"}, posthaste.CodeNotFound, 0},
	} {
		_, err := e.Send(t.Context(), tt.tenant, tt.event)
		if posthaste.CodeOf(err) != tt.want {
			t.Errorf("%s: %v, want the code %s", name, err, tt.want)
			continue
		}
		if got := len(err.(*posthaste.Error).Problems); got != tt.problems { //nolint:errorlint // CodeOf has found it; Send promises the type
			t.Errorf("%s: %d problems in %v, want %d", name, got, err, tt.problems)
		}
	}
	if _, err := e.Send(t.Context(), "default", engine.Event{Type: "a", Payload: make([]byte, 1<<20)}); err != nil {
		t.Errorf("a payload of just the limit: %v", err)
	}
}

func TestAdminKeyIsMadeOnce(t *testing.T) {
	db, master := open(t), keyring.Generate()
	first, err := engine.New(t.Context(), config(db, master))
	if err != nil {
		t.Fatal(err)
	}
	key := first.MadeAdminKey()
	if !strings.HasPrefix(key, "phk_") {
		t.Fatalf("made %q", key)
	}
	second, err := engine.New(t.Context(), config(db, master))
	if err != nil || second.MadeAdminKey() != "" {
		t.Fatalf("a second start made %q, %v", second.MadeAdminKey(), err)
	}
	start(t, second)
	if code, body := request(t, second, key, "GET /v1/tenants", ""); code != http.StatusOK {
		t.Errorf("the first key at the second engine: %d %s", code, body)
	}
	if code, _ := request(t, second, key+"x", "GET /v1/tenants", ""); code != http.StatusUnauthorized {
		t.Errorf("another key: %d", code)
	}
	given := config(db, master)
	given.AdminKey = "a-key-that-was-given"
	third, err := engine.New(t.Context(), given)
	if err != nil || third.MadeAdminKey() != "" {
		t.Fatalf("with a key given: %q, %v", third.MadeAdminKey(), err)
	}
}

func TestNewRefuses(t *testing.T) {
	db, master := open(t), keyring.Generate()
	if _, err := engine.New(t.Context(), config(db, master)); err != nil {
		t.Fatal(err)
	}
	unmigrated, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "posthaste.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unmigrated.Close() })
	for name, change := range map[string]func(*engine.Config){
		"Store is required":                  func(c *engine.Config) { c.Store = nil },
		"master key: it is empty":            func(c *engine.Config) { c.MasterKey = "" },
		"has to be migrated first":           func(c *engine.Config) { c.Store = unmigrated },
		"sealed with the key":                func(c *engine.Config) { c.MasterKey = keyring.Generate() },
		"admin key: check the key: it has 3": func(c *engine.Config) { c.AdminKey = "abc" },
	} {
		c := config(db, master)
		change(&c)
		if _, err := engine.New(t.Context(), c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q in it", err, name)
		}
	}
}
