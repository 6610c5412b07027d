package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/auth"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/httpapi"
	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/telemetry"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/sqlite"
)

// server is a whole engine on a database of its own, behind a real listener.
type server struct {
	t        *testing.T
	url, key string
	spec     *document
	log      *bytes.Buffer
}

const maxPayloadBytes = 1 << 20

func start(t *testing.T, changes ...func(*httpapi.Config)) *server {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	db, err := sqlite.Open(ctx, sqlite.Config{Path: testdb.SQLite(t), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, db.Migrate(ctx))
	ring, err := keyring.New(keyring.Generate())
	must(t, err)
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	sender := deliver.New(deliver.Config{AllowNetworks: loopback, AllowHTTP: deliver.HTTPNetworks})
	metrics := telemetry.NewMetrics()
	quiet := slog.New(slog.DiscardHandler)
	p, err := pipeline.New(pipeline.Config{
		Store: db, Sender: sender, Keyring: ring, Replica: "test", Log: quiet, Metrics: metrics, Grace: 5 * time.Second,
	})
	must(t, err)
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()

	s := &server{t: t, key: auth.NewKey(), log: &bytes.Buffer{}}
	cfg := httpapi.Config{
		Pipeline: p, Auth: auth.New(auth.HashKey(s.key)), Metrics: metrics, Log: quiet, Version: "1.2.3",
		MaxPayloadBytes: maxPayloadBytes, AllowNetworks: loopback, AllowHTTP: deliver.HTTPNetworks, Retention: 720 * time.Hour,
	}
	for _, change := range changes {
		change(&cfg)
	}
	api, err := httpapi.New(cfg)
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	web := &http.Server{Handler: api, ReadHeaderTimeout: 5 * time.Second}
	go web.Serve(listener) //nolint:errcheck // always http.ErrServerClosed
	s.url = "http://" + listener.Addr().String()
	t.Cleanup(func() {
		must(t, web.Close())
		stop()
		must(t, <-ran)
		sender.Close()
		must(t, db.Close())
	})
	s.spec = loadDocument(s)
	s.until("ready", func() bool { return p.Ready() == nil })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until asks again until something is true.
func (s *server) until(what string, isTrue func() bool) {
	s.t.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for !isTrue() {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("not in time: %s", what)
		}
	}
}

// reply is an answer with its body read.
type reply struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   []byte
}

// do sends a request with the key. headers are "Name: value"; one for
// Authorization replaces the key, and "Name:" alone removes a header.
func (s *server) do(method, path string, body io.Reader, headers ...string) *reply {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, body)
	must(s.t, err)
	req.Header.Set("Authorization", "Bearer "+s.key)
	seen := map[string]bool{}
	for _, h := range headers {
		name, value, hasValue := strings.Cut(h, ": ")
		name = http.CanonicalHeaderKey(strings.TrimSuffix(name, ":"))
		if !seen[name] {
			req.Header.Del(name)
		}
		seen[name] = true
		if hasValue {
			req.Header[name] = append(req.Header[name], value)
		}
	}
	answer, err := http.DefaultClient.Do(req)
	must(s.t, err)
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	must(s.t, err)
	r := &reply{t: s.t, what: method + " " + path, status: answer.StatusCode, header: answer.Header, body: raw}
	if !strings.HasPrefix(answer.Header.Get("Posthaste-Request-Id"), "req_") {
		s.t.Errorf("%s: no Posthaste-Request-Id", r.what)
	}
	if s.spec != nil {
		s.spec.check(s.t, method, strings.Split(path, "?")[0], r)
	}
	return r
}

func (s *server) get(path string, headers ...string) *reply {
	s.t.Helper()
	return s.do("GET", path, nil, headers...)
}

func (s *server) post(path, body string, headers ...string) *reply {
	s.t.Helper()
	return s.do("POST", path, strings.NewReader(body), headers...)
}

func (s *server) patch(path, body string) *reply {
	s.t.Helper()
	return s.do("PATCH", path, strings.NewReader(body))
}

// send submits an event of the given type.
func (s *server) send(eventType, body string, headers ...string) *reply {
	s.t.Helper()
	return s.post("/v1/events", body, append([]string{"Posthaste-Event-Type: " + eventType}, headers...)...)
}

func (r *reply) want(status int) *reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: status %d, want %d: %s", r.what, r.status, status, r.body)
	}
	return r
}

// problem checks an error: its status, its code, and the fields it names.
func (r *reply) problem(status int, code string, fields ...string) *reply {
	r.t.Helper()
	var p struct {
		Type, Title, Detail, Code, Hint string
		Status                          int
		RequestID                       string `json:"request_id"`
		Errors                          []struct{ Field, Message, Hint, Code string }
	}
	if err := json.Unmarshal(r.body, &p); err != nil {
		r.t.Errorf("%s: status %d, not JSON: %.200s", r.what, r.status, r.body)
		return r
	}
	if r.status != status || p.Status != status || p.Code != code || p.Title == "" || p.Detail == "" || p.Hint == "" ||
		p.Type != "urn:posthaste:error:"+code || p.RequestID != r.header.Get("Posthaste-Request-Id") ||
		r.header.Get("Content-Type") != "application/problem+json" {
		r.t.Errorf("%s: want %d %s, got %d %s", r.what, status, code, r.status, r.body)
	}
	var got []string
	for _, e := range p.Errors {
		got = append(got, e.Field)
		if e.Message == "" || e.Hint == "" {
			r.t.Errorf("%s: an error without message or hint: %+v", r.what, e)
		}
	}
	if len(fields) > 0 && strings.Join(got, " ") != strings.Join(fields, " ") {
		r.t.Errorf("%s: problems with %q, want %q", r.what, got, fields)
	}
	return r
}

// json reads the answer into a tree.
func (r *reply) json() map[string]any {
	r.t.Helper()
	var v map[string]any
	if err := json.Unmarshal(r.body, &v); err != nil {
		r.t.Fatalf("%s: status %d, not a JSON object: %.200s", r.what, r.status, r.body)
	}
	return v
}

// at walks the tree: at("gate", "state"), at("attempts", 0, "number").
func (r *reply) at(path ...any) any {
	r.t.Helper()
	var v any = r.json()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				r.t.Fatalf("%s: no %v in %s", r.what, path, r.body)
			}
			v = m[step]
		case int:
			list, ok := v.([]any)
			if !ok || step >= len(list) {
				r.t.Fatalf("%s: no %v in %s", r.what, path, r.body)
			}
			v = list[step]
		}
	}
	return v
}

func (r *reply) text(path ...any) string {
	r.t.Helper()
	s, _ := r.at(path...).(string)
	return s
}

// ids lists the ids of a page.
func (r *reply) ids() (ids []string) {
	r.t.Helper()
	for _, row := range r.at("data").([]any) {
		ids = append(ids, row.(map[string]any)["id"].(string))
	}
	return ids
}

// arrival is a request that a receiver got.
type arrival struct {
	header http.Header
	body   []byte
}

// receiver answers as told and shows what arrives.
func receiver(t *testing.T, answer http.HandlerFunc) (url string, arrivals chan arrival) {
	t.Helper()
	arrivals = make(chan arrival, 1000)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read a delivery: %v", err)
		}
		arrivals <- arrival{r.Header, body}
		answer(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL, arrivals
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func arrived(t *testing.T, arrivals chan arrival) arrival {
	t.Helper()
	select {
	case a := <-arrivals:
		return a
	case <-time.After(20 * time.Second):
		t.Fatal("nothing arrived")
		panic("unreachable")
	}
}

// endpoint makes an endpoint; more is JSON members after the URL.
func (s *server) endpoint(url, more string) *reply {
	s.t.Helper()
	return s.post("/v1/endpoints", fmt.Sprintf(`{"url":%q%s}`, url, more)).want(201)
}
