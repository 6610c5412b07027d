package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/client"
	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// The demo's accounts.
const (
	acmeInstagram   = "17841400000000001"
	acmePage        = "1000001"
	globexInstagram = "17841400000000002"
)

// onBoth runs a test on SQLite and on PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newRig(t, "", func(*Config) {})) })
	t.Run("postgres", func(t *testing.T) { test(t, newRig(t, testdb.Postgres(t), func(*Config) {})) })
}

// rig is the whole program, running.
type rig struct {
	*Inbox
	t    *testing.T
	url  string
	logs *lines
}

// lines are what the program logs, as JSON.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// with returns the lines that have a field of this value.
func (l *lines) with(t *testing.T, field, value string) (found []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.all.Bytes()) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if fields[field] == value {
			found = append(found, fields)
		}
	}
	return found
}

func newRig(t *testing.T, database string, set func(*Config)) *rig {
	t.Helper()
	logs := &lines{}
	c := Config{
		Address: "127.0.0.1:0", Data: t.TempDir(), Database: database, Graph: "demo", AppSecret: "an-app-secret-of-a-test", VerifyToken: "mine",
		Password: "demo", Classify: classifyByWords, Now: time.Now, Log: slog.New(slog.NewJSONHandler(logs, nil)),
	}
	set(&c)
	ctx, stop := context.WithCancel(t.Context())
	if err := readKeys(&c); err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Address)
	if err != nil {
		t.Fatal(err)
	}
	c.Address = listener.Addr().String()
	c.PublicURL = "http://" + c.Address
	db, err := openEngineStore(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	in, err := newInbox(ctx, c, db)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- in.serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, in.store.Close(), db.Close()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s", logs.all.Bytes()[max(0, logs.all.Len()-20000):])
		}
	})
	select {
	case <-in.ready:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	case <-time.After(30 * time.Second):
		t.Fatal("not ready after 30 s")
	}
	return &rig{Inbox: in, t: t, url: c.PublicURL, logs: logs}
}

// send sends items as Meta does, in one request.
func (r *rig) send(object string, entries ...metatest.Entry) {
	r.t.Helper()
	request, err := metatest.NewRequest(r.t.Context(), r.url+webhookPath, r.config.AppSecret, metatest.Encode(object, entries...))
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		r.t.Fatalf("answered %d", response.StatusCode)
	}
}

// items sends items of one account, each in a request of its own.
func (r *rig) items(object, account string, items ...any) {
	r.t.Helper()
	for _, item := range items {
		r.send(object, metatest.Messaging(account, time.Now(), item))
		r.settled()
	}
}

// settled waits until no delivery is pending, so that all that was sent has been handled, and what
// that caused too.
func (r *rig) settled() {
	r.t.Helper()
	before := -1
	r.eventually("all deliveries have ended", func() bool {
		count := 0
		for d, err := range r.clientOf("*").Deliveries.All(r.t.Context(), client.DeliveryFilter{}) {
			if err != nil {
				r.t.Fatal(err)
			}
			if d.Status != "delivered" && d.Status != "dead" {
				before = -1
				return false
			}
			count++
		}
		// While one look went from page to page, what it saw last may have caused more.
		isSame := count == before
		before = count
		return isSame
	})
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(2 * time.Minute) // a thousand messages took 18 s, on an idle machine
	for tick := time.Tick(10 * time.Millisecond); !ok(); {
		select {
		case <-tick:
		case <-deadline:
			r.t.Fatalf("not within 2 minutes: %s", what)
		}
	}
}

// table returns the rows of a query, each joined by "|", sorted.
func (r *rig) table(query string, args ...any) []string {
	r.t.Helper()
	rows, err := r.store.read.QueryContext(r.t.Context(), query, args...)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		r.t.Fatal(err)
	}
	all := []string{}
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			r.t.Fatal(err)
		}
		var row []string
		for _, value := range values {
			row = append(row, fmt.Sprint(*value.(*any)))
		}
		all = append(all, strings.Join(row, "|"))
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// expect compares a query's rows, in the order of their text.
func (r *rig) expect(query string, want ...string) {
	r.t.Helper()
	if got := r.table(query); !slices.Equal(got, want) {
		r.t.Errorf("%s\n got %q\nwant %q", query, got, want)
	}
}
