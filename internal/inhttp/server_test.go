package inhttp_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/inhttp"
	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/postgres"
	"github.com/posthaste-dev/posthaste/sqlite"
)

// database is what a server runs on: either kind.
type database interface {
	store.Store
	Migrate(ctx context.Context) error
}

func openSQLite(t *testing.T) database {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: testdb.SQLite(t), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	return db
}

func openPostgres(t *testing.T, url string) database {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	must(t, err)
	return db
}

// onBoth runs a test with a server on a new database of either kind.
func onBoth(t *testing.T, test func(t *testing.T, s *server)) {
	t.Run("sqlite", func(t *testing.T) { test(t, start(t, openSQLite(t))) })
	t.Run("postgres", func(t *testing.T) { test(t, start(t, openPostgres(t, testdb.Postgres(t)))) })
}

// server is a whole engine that takes deliveries behind a real listener.
type server struct {
	*pipeline.Pipeline
	t      *testing.T
	url    string
	tenant store.TenantRow
	log    *lines
}

var masterKey = keyring.Generate()

func start(t *testing.T, db database, changes ...func(*pipeline.Config, *inhttp.Config)) *server {
	t.Helper()
	must(t, db.Migrate(t.Context()))
	ring, err := keyring.New(masterKey)
	must(t, err)
	s := &server{t: t, log: &lines{}}
	sender := deliver.New(deliver.Config{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHTTP: deliver.HTTPNetworks})
	pc := pipeline.Config{
		Store: db, Sender: sender, Keyring: ring, Replica: t.Name() + fmt.Sprint(time.Now().UnixNano()), Grace: 5 * time.Second,
		Log: slog.New(slog.NewJSONHandler(s.log, nil)),
	}
	ic := inhttp.Config{Log: slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, change := range changes {
		change(&pc, &ic)
	}
	s.Pipeline, err = pipeline.New(pc)
	must(t, err)
	ic.Pipeline = s.Pipeline
	handler, err := inhttp.New(ic)
	must(t, err)
	web := httptest.NewServer(handler)
	s.url = web.URL
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		web.Close()
		stop()
		must(t, <-ran)
		sender.Close()
		_ = db.Close()
	})
	s.until("ready", func() bool { return s.Ready() == nil })
	s.tenant, err = s.Tenant(t.Context(), posthaste.TenantDefault)
	must(t, err)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *server) until(what string, isTrue func() bool) {
	s.t.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !isTrue() {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("not in time: %s", what)
		}
	}
}

const secret = "the secret of a test"

// source makes a source of a provider.
func (s *server) source(provider string) store.SourceRow {
	s.t.Helper()
	d := posthaste.DefaultSourceDefinition()
	d.Provider = provider
	row, err := s.CreateSource(s.t.Context(), s.tenant, posthaste.Source{SourceDefinition: d}, pipeline.SourceSecrets{Secrets: []string{secret}})
	must(s.t, err)
	return row
}

func (s *server) at(row store.SourceRow) string {
	return s.url + inhttp.PathPrefix + row.ID.Print(posthaste.KindSource)
}

// push is a delivery of GitHub's, signed.
func push(delivery string, body []byte) http.Header {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"push"}, "X-Github-Delivery": {delivery}, "User-Agent": {"GitHub-Hookshot/1"},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}, "Authorization": {"Bearer abc"}, "X-Forwarded-For": {"192.0.2.1"},
	}
}

// answer is an answer with its body read.
type answer struct {
	status int
	header http.Header
	body   string
}

func (s *server) do(method, url string, header http.Header, body io.Reader) answer {
	s.t.Helper()
	req, err := http.NewRequest(method, url, body)
	must(s.t, err)
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	must(s.t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	must(s.t, err)
	if !strings.HasPrefix(res.Header.Get("Posthaste-Request-Id"), "req_") {
		s.t.Errorf("%s %s: no request id", method, url)
	}
	return answer{res.StatusCode, res.Header, string(raw)}
}

func (s *server) push(row store.SourceRow, delivery, body string) answer {
	s.t.Helper()
	return s.do("POST", s.at(row), push(delivery, []byte(body)), strings.NewReader(body))
}

func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Errorf("answered %d %q, want %d", a.status, a.body, status)
	}
	return a
}

// events are all of the tenant's, newest first, with payload.
func (s *server) events() (out []posthaste.Event) {
	s.t.Helper()
	page, err := s.Store().ListEvents(s.t.Context(), store.ListEventsParams{Tenant: s.tenant.No, Limit: 250})
	must(s.t, err)
	for _, row := range page.Events {
		e, err := s.Store().Event(s.t.Context(), s.tenant.No, row.ID)
		must(s.t, err)
		out = append(out, e)
	}
	return out
}

func (s *server) rejections(row store.SourceRow) []posthaste.Rejection {
	s.t.Helper()
	got, err := s.Store().ListRejections(s.t.Context(), store.ListRejectionsParams{Source: row.No, Limit: 250})
	must(s.t, err)
	return got
}

// header returns the value of a header of an event or a rejection.
func header(headers []posthaste.Header, name string) string {
	for _, h := range headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// lines is a log in JSON.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// of returns the lines of a message.
func (l *lines) of(message string) (out []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == message {
			out = append(out, fields)
		}
	}
	return out
}

// last returns the newest line of a request. The answer may be read before it is written.
func (s *server) last(requests int) map[string]any {
	s.t.Helper()
	s.until(fmt.Sprintf("%d requests are logged", requests), func() bool { return len(s.log.of("source answered")) >= requests })
	all := s.log.of("source answered")
	return all[len(all)-1]
}
