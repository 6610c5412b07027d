package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/postgres"
)

const adminKey = "the-key-of-the-test"

// onBoth runs a test on each database.
func onBoth(t *testing.T, test func(t *testing.T, db store.Store)) {
	t.Run("sqlite", func(t *testing.T) { test(t, open(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, connect(t, testdb.Postgres(t))) })
}

// connect opens a handle on a PostgreSQL database, with connections of its own.
func connect(t *testing.T, url string) store.Store {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
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

// lines is a log that tests look into.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

var testMasterKey = keyring.Generate()

// program is an engine as a program embeds it, with the handlers that it registers.
type program struct {
	*engine.Engine
	t   *testing.T
	db  store.Store
	log *lines
}

// newProgram makes one that does not run yet.
func newProgram(t *testing.T, db store.Store, name string, list ...engine.Handler) *program {
	t.Helper()
	return newProgramOf(t, db, func(c *engine.Config) { c.Replica = name }, list...)
}

func newProgramOf(t *testing.T, db store.Store, edit func(*engine.Config), list ...engine.Handler) *program {
	t.Helper()
	p := &program{t: t, db: db, log: &lines{}}
	config := engine.Config{
		Store: db, MasterKey: testMasterKey, AdminKey: adminKey, Replica: "test", ShutdownTimeout: 5 * time.Second,
		Log: slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	edit(&config)
	e, err := engine.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range list {
		if err := e.AddHandler(h); err != nil {
			t.Fatal(err)
		}
	}
	p.Engine = e
	return p
}

func (p *program) api(route, body string, want int) map[string]any {
	p.t.Helper()
	code, raw := request(p.t, p.Engine, adminKey, route, body)
	if code != want {
		p.t.Fatalf("%s: %d %s, want %d", route, code, raw, want)
	}
	var out map[string]any
	if raw != "" {
		if err := json.Unmarshal([]byte(raw), &out); err != nil {
			p.t.Fatal(err)
		}
	}
	return out
}

func (p *program) send(tenant string, e engine.Event) engine.Receipt {
	p.t.Helper()
	got, err := p.Send(p.t.Context(), tenant, e)
	if err != nil {
		p.t.Fatalf("send: %v", err)
	}
	return got
}

// ended waits until the first delivery of an event is terminal.
func (p *program) ended(event posthaste.ID) (store.DeliveryRow, []posthaste.Attempt) {
	p.t.Helper()
	var d store.DeliveryRow
	eventually(p.t, "the delivery is terminal", func() bool {
		var err error
		if d, err = p.db.Delivery(p.t.Context(), 0, event.Delivery(1)); err != nil {
			p.t.Fatal(err)
		}
		return d.State != posthaste.StatePending
	})
	attempts, err := p.db.Attempts(p.t.Context(), d.ID)
	if err != nil {
		p.t.Fatal(err)
	}
	return d, attempts
}

func verified(t *testing.T, db store.Store) {
	t.Helper()
	got, err := db.Verify(context.Background(), store.VerifyParams{Limit: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got.Findings {
		t.Errorf("verify: %s: %s", f.Delivery.Print(posthaste.KindDelivery), f.What)
	}
}

// quick is a schedule for tests.
func quick(steps int) []time.Duration {
	return slices.Repeat([]time.Duration{10 * time.Millisecond}, steps)
}

func TestHandlerGetsTheEvent(t *testing.T) {
	onBoth(t, func(t *testing.T, db store.Store) {
		arrived := make(chan engine.Delivery, 2)
		p := newProgram(t, db, "test", engine.Handler{
			EventTypes: []string{"meta.*"}, Schedule: quick(1),
			Func: func(ctx context.Context, d engine.Delivery) error {
				if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 15*time.Second {
					t.Errorf("the context ends at %v", deadline)
				}
				arrived <- d
				d.Payload[0], d.Headers[0].Value = 'X', "Y" // its own copy
				if d.Attempt == 1 {
					return errors.New("not\x00yet")
				}
				return nil
			},
		})
		stop := run(t, p.Engine)
		sent := p.send("default", engine.Event{
			Type: "meta.message", Payload: []byte("hello"), ContentType: "text/plain",
			Headers: []posthaste.Header{{Name: "X-Trace", Value: "abc"}},
		})
		if sent.Deliveries != 1 {
			t.Errorf("receipt %+v", sent)
		}
		for n := 1; n <= 2; n++ {
			d := <-arrived
			if d.ID != sent.ID || d.DeliveryID != sent.ID.Delivery(1) || d.Type != "meta.message" || d.Tenant != "default" || d.Attempt != n ||
				d.ContentType != "text/plain" || d.CorrelationID != sent.ID || !d.Parent.IsZero() {
				t.Errorf("attempt %d: %+v", n, d)
			}
		}
		d, attempts := p.ended(sent.ID)
		if d.State != posthaste.StateDelivered || len(attempts) != 2 || attempts[0].Outcome != posthaste.OutcomeTransient ||
			attempts[0].Cause != posthaste.CauseHandler || attempts[0].Error != "not.yet" || attempts[1].Outcome != posthaste.OutcomeDelivered {
			t.Errorf("delivery %+v, attempts %+v", d, attempts)
		}
		if e, err := db.Event(t.Context(), d.Tenant, sent.ID); err != nil || string(e.Payload) != "hello" || e.Headers[0].Value != "abc" {
			t.Errorf("the event is now %+v, %v", e, err)
		}
		one := p.api("GET /v1/deliveries/"+d.ID.Print(posthaste.KindDelivery), "", 200)
		first := one["attempts"].([]any)[0].(map[string]any)
		if first["url"] != "func:meta.all" || first["cause"] != "handler" || first["status_code"] != nil {
			t.Errorf("the API shows the attempt as %v", first)
		}
		if !p.log.has(`msg="attempt settled"`) {
			t.Error("no line for the attempt")
		}
		stop()
		verified(t, db)
	})
}

// TestHandlerOutcomes: how a handler ends is how its delivery goes on, and one
// that misbehaves holds up no other event.
func TestHandlerOutcomes(t *testing.T) {
	onBoth(t, func(t *testing.T, db store.Store) {
		let := make(chan struct{})
		p := newProgram(t, db, "test", engine.Handler{
			EventTypes: []string{"*"}, Name: "judge", Schedule: quick(1), Timeout: 100 * time.Millisecond, MaxInFlight: 2,
			Func: func(ctx context.Context, d engine.Delivery) error {
				switch d.Type {
				case "permanent":
					return fmt.Errorf("wrapped: %w", engine.Permanent(errors.New("no")))
				case "panic":
					panic("poison")
				case "wait":
					return engine.RetryAfter(errors.New("rate limit"), 300*time.Millisecond)
				case "slow":
					<-ctx.Done()
					return ctx.Err()
				case "deaf":
					<-let
				}
				return errors.Join(engine.Permanent(nil), engine.RetryAfter(nil, time.Second))
			},
		})
		stop := run(t, p.Engine)
		events := map[string]posthaste.ID{}
		for _, kind := range []string{"deaf", "panic", "slow", "permanent", "wait", "good"} {
			events[kind] = p.send("default", engine.Event{Type: kind}).ID
		}
		for kind, want := range map[string]struct {
			state    posthaste.State
			reason   posthaste.Reason
			attempts int
			text     string
		}{
			"good":      {posthaste.StateDelivered, posthaste.ReasonNone, 1, ""},
			"permanent": {posthaste.StateDead, posthaste.ReasonPermanent, 1, "wrapped: no"},
			"panic":     {posthaste.StateDead, posthaste.ReasonExhausted, 2, "the handler panicked: poison"},
			"slow":      {posthaste.StateDead, posthaste.ReasonExhausted, 2, "context deadline exceeded"},
			"wait":      {posthaste.StateDead, posthaste.ReasonExhausted, 2, "rate limit"},
			"deaf":      {posthaste.StateDead, posthaste.ReasonExhausted, 2, "did not return within 1s"},
		} {
			d, attempts := p.ended(events[kind])
			if d.State != want.state || d.Reason != want.reason || len(attempts) != want.attempts || !strings.Contains(attempts[0].Error, want.text) {
				t.Errorf("%s: %+v, %+v", kind, d, attempts)
			}
			if kind == "wait" && len(attempts) == 2 && attempts[1].StartedAt.Sub(attempts[0].StartedAt) < 300*time.Millisecond {
				t.Errorf("tried again after %s", attempts[1].StartedAt.Sub(attempts[0].StartedAt))
			}
		}
		if !p.log.has("a handler panicked") || !p.log.has("handler_test.go") {
			t.Error("the log has no stack of the panic")
		}
		gauge := func() string {
			_, text := request(t, p.Engine, adminKey, "GET /metrics", "")
			_, value, _ := strings.Cut(text, "\nposthaste_handlers_abandoned ")
			value, _, _ = strings.Cut(value, "\n")
			return value
		}
		if got := gauge(); got != "2" {
			t.Errorf("left behind: %s, want 2", got)
		}
		close(let)
		eventually(t, "those left behind have returned", func() bool { return gauge() == "0" })
		stop()
		verified(t, db)
	})
}

// TestHandlerOfEveryTenant gets the events of tenants that are made later, and
// is found wherever their deliveries name it; one of a tenant gets that tenant's only.
func TestHandlerOfEveryTenant(t *testing.T) {
	onBoth(t, func(t *testing.T, db store.Store) {
		var all, own atomic.Int64
		fail := func(n *atomic.Int64) engine.HandlerFunc {
			return func(context.Context, engine.Delivery) error { n.Add(1); return engine.Permanent(errors.New("dead")) }
		}
		p := newProgram(t, db, "test",
			engine.Handler{EventTypes: []string{"a"}, Func: fail(&all)},
			engine.Handler{EventTypes: []string{"a"}, Name: "own", Tenant: "default", Func: fail(&own)})
		stop := run(t, p.Engine)
		p.api("POST /v1/tenants", `{"name":"later"}`, 201)
		sent := p.send("later", engine.Event{Type: "a"})
		d, _ := p.ended(sent.ID)
		if sent.Deliveries != 1 || d.State != posthaste.StateDead || all.Load() != 1 || own.Load() != 0 {
			t.Errorf("%+v, %+v; %d of all, %d of one", sent, d, all.Load(), own.Load())
		}
		if both := p.send("default", engine.Event{Type: "a"}); both.Deliveries != 2 {
			t.Errorf("an event of the default tenant makes %d deliveries, want 2", both.Deliveries)
		}

		as := func(tenant, route, body string, want int) string {
			t.Helper()
			code, raw := ask(t, p.Engine, http.Header{"Authorization": {"Bearer " + adminKey}, "Posthaste-Tenant": {tenant}}, route, body)
			if code != want {
				t.Fatalf("%s as %s: %d %s, want %d", route, tenant, code, raw, want)
			}
			return raw
		}
		id, dlv := d.EndpointID.Print(posthaste.KindEndpoint), d.ID.Print(posthaste.KindDelivery)
		for _, tenant := range []string{"later", "*"} {
			if got := as(tenant, "GET /v1/endpoints/"+id, "", 200); !strings.Contains(got, `"url":"func:a"`) || !strings.Contains(got, `"tenant":"*"`) {
				t.Errorf("as %s it is %s", tenant, got)
			}
			if got := as(tenant, "GET /v1/endpoints", "", 200); strings.Count(got, `"url":"func:a"`) != 1 || strings.Contains(got, "func:own") == (tenant == "later") {
				t.Errorf("as %s the list is %s", tenant, got)
			}
		}
		as("later", "GET /v1/endpoints/uid:func:a", "", 200)
		if got := as("later", "GET /v1/deliveries?status=dead&endpoint_id="+id, "", 200); strings.Count(got, `"dlv_`) != 1 {
			t.Errorf("its deliveries of the tenant: %s", got)
		}
		as("later", "POST /v1/deliveries/"+dlv+"/replay", "", 200)
		eventually(t, "the replay ran", func() bool { return all.Load() >= 3 })
		as("later", "POST /v1/events/"+sent.ID.Print(posthaste.KindEvent)+"/resend", `{"endpoint_id":"`+id+`"}`, 201)
		eventually(t, "the resend ran", func() bool { return all.Load() == 4 })
		as("*", "POST /v1/events?type=a", "", 422)
		if _, err := p.Send(t.Context(), "*", engine.Event{Type: "a"}); posthaste.CodeOf(err) != posthaste.CodeNotFound {
			t.Errorf("an event for every tenant: %v", err)
		}
		for _, name := range []string{"*", "%2A"} {
			as("default", "GET /v1/tenants/"+name, "", 404)
			as("default", "DELETE /v1/tenants/"+name, "", 404)
		}

		// What waits for it ends with its tenant.
		as("later", "POST /v1/endpoints/"+id+"/pause", "", 200)
		waits := p.send("later", engine.Event{Type: "a"})
		as("default", "DELETE /v1/tenants/later", "", 204)
		as("default", "POST /v1/endpoints/"+id+"/resume", "", 200)
		if d, _ := p.ended(waits.ID); d.Reason != posthaste.ReasonEndpointDeleted || all.Load() != 4 {
			t.Errorf("after its tenant was deleted: %+v", d)
		}
		stop()
		verified(t, db)
	})
}

// TestHandlerThroughTheAPI can be stopped and let go on, and nothing else.
func TestHandlerThroughTheAPI(t *testing.T) {
	db := open(t)
	var ran atomic.Int64
	p := newProgram(t, db, "test", engine.Handler{
		EventTypes: []string{"a"}, Func: func(context.Context, engine.Delivery) error { ran.Add(1); return nil },
	})
	run(t, p.Engine)
	const path = " /v1/endpoints/uid:func:a"
	for _, refused := range []struct{ route, body, field string }{
		{"POST /v1/endpoints", `{"url":"func:b"}`, "url"},
		{"POST /v1/endpoints", `{"url":"https://example.com/","uid":"func:b"}`, "uid"},
		{"PUT /v1/endpoints/uid:func:a", `{"url":"https://example.com/"}`, "uid"},
		{"PUT /v1/endpoints/uid:func:b", `{"url":"https://example.com/"}`, "uid"},
		{"PUT" + " /v1/endpoints/" + keptForAll(t, db, "func:a").ID.Print(posthaste.KindEndpoint), `{"url":"https://example.com/"}`, "id"},
		{"PATCH" + path, `{"url":"https://example.com/"}`, "url"},
		{"PATCH" + path, `{"enabled":"x"}`, "enabled"},
		{"PATCH" + path, `{"enabled":false,"retry":null}`, "retry"},
		{"POST" + path + "/rotate-secret", ``, "id"},
	} {
		code, raw := request(t, p.Engine, adminKey, refused.route, refused.body)
		if code != http.StatusUnprocessableEntity || !strings.Contains(raw, `"field":"`+refused.field+`"`) {
			t.Errorf("%s %s: %d %s", refused.route, refused.body, code, raw)
		}
	}
	if got := p.api("POST"+path+"/pause", "", 200); got["gate"].(map[string]any)["state"] != "paused" {
		t.Errorf("paused: %v", got)
	}
	waits := p.send("default", engine.Event{Type: "a"})
	p.api("POST"+path+"/resume", "", 200)
	p.ended(waits.ID)
	p.api("PATCH"+path, `{"enabled":false}`, 200)
	if got := p.send("default", engine.Event{Type: "a"}); got.Deliveries != 0 {
		t.Errorf("a disabled handler gets %d deliveries", got.Deliveries)
	}
	p.api("PATCH"+path, `{"enabled":null}`, 200) // a merge patch: back to the default
	p.ended(p.send("default", engine.Event{Type: "a"}).ID)
	p.api("POST"+path+"/test", `{"type":"a"}`, 202)
	eventually(t, "the test event came", func() bool { return ran.Load() == 3 })
	if code, raw := request(t, p.Engine, adminKey, "DELETE"+path, ""); code != http.StatusNoContent {
		t.Errorf("deleted: %d %s", code, raw)
	}
}

// keptForAll returns the endpoint of every tenant that has a uid, as it is stored.
func keptForAll(t *testing.T, db store.Store, uid string) store.EndpointRow {
	t.Helper()
	row, err := db.EndpointByUID(t.Context(), store.EveryTenant, uid)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func TestHandlerIsKept(t *testing.T) {
	onBoth(t, func(t *testing.T, db store.Store) {
		nothing := func(context.Context, engine.Delivery) error { return nil }
		first := engine.Handler{EventTypes: []string{"a"}, Func: nothing, Description: "one"}
		stop := run(t, newProgram(t, db, "one", first).Engine)
		row := keptForAll(t, db, "func:a")
		steps := []posthaste.Duration{1e9, 5e9, 30e9, 300e9}
		if !slices.Equal(row.Retry.Schedule, steps) || row.Version != 1 || len(row.Secrets) != 0 || time.Duration(row.Retry.Timeout) != 15*time.Second {
			t.Errorf("made %+v", row)
		}
		stop()
		// The same again changes nothing; another version of the program changes it; a pause stays.
		p := newProgram(t, db, "one", first)
		stop = run(t, p.Engine)
		if got := keptForAll(t, db, "func:a"); got.Version != 1 {
			t.Errorf("the same again is version %d", got.Version)
		}
		p.api("POST /v1/endpoints/uid:func:a/pause", "", 200)
		stop()
		p = newProgram(t, db, "one", engine.Handler{EventTypes: []string{"a", "b"}, Name: "a", Func: nothing, Schedule: []time.Duration{}})
		stop = run(t, p.Engine)
		if got := keptForAll(t, db, "func:a"); got.ID != row.ID || got.Version != 3 || !got.Paused || !got.Matches("b", "api") || len(got.Retry.Schedule) != 0 {
			t.Errorf("the next version made it %+v", got)
		}
		if !p.log.has("paused or disabled, and stays so") {
			t.Error("nothing is said of the pause")
		}
		stop()
	})
}

func TestHandlersOfManyReplicas(t *testing.T) {
	url := testdb.Postgres(t)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var replicas []*program
	for i := range 4 {
		replicas = append(replicas, newProgram(t, connect(t, url), fmt.Sprint("replica-", i),
			engine.Handler{EventTypes: []string{"a"}, Func: func(context.Context, engine.Delivery) error { return nil }}))
	}
	for _, p := range replicas {
		all.Go(func() {
			if err := p.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "all are ready", func() bool {
		return !slices.ContainsFunc(replicas, func(p *program) bool { return p.Ready() != nil })
	})
	stop()
	all.Wait()
	if row := keptForAll(t, connect(t, url), "func:a"); row.Version != 1 {
		t.Errorf("version %d", row.Version)
	}
}

func TestHandlerIsChecked(t *testing.T) {
	p := newProgram(t, open(t), "test")
	nothing := func(context.Context, engine.Delivery) error { return nil }
	for want, h := range map[string]engine.Handler{
		"event_types":      {Func: nothing, Name: "x"},
		"event_types[0]":   {Func: nothing, EventTypes: []string{"a.*.b"}},
		"Func is missing":  {EventTypes: []string{"a"}},
		"name has a":       {Func: nothing, EventTypes: []string{"a"}, Name: "a b"},
		"name is too":      {Func: nothing, EventTypes: []string{"a"}, Name: strings.Repeat("a", 124)},
		"retry.timeout":    {Func: nothing, EventTypes: []string{"a"}, Timeout: time.Hour},
		"max_in_flight":    {Func: nothing, EventTypes: []string{"a"}, MaxInFlight: -1},
		"retry.schedule[0": {Func: nothing, EventTypes: []string{"a"}, Schedule: []time.Duration{0}},
	} {
		if err := p.AddHandler(h); posthaste.CodeOf(err) != posthaste.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, pattern := range []string{"*", "a/b:c", "meta.*", "all.x"} {
		if err := p.Handle(pattern, nothing); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	if err := p.Handle("*", nothing); posthaste.CodeOf(err) != posthaste.CodeInvalid {
		t.Errorf("a second one of the name: %v", err)
	}
	start(t, p.Engine)
	if err := p.Handle("late", nothing); posthaste.CodeOf(err) != posthaste.CodeConflict {
		t.Errorf("while it runs: %v", err)
	}
	if err := newProgram(t, open(t), "test", engine.Handler{EventTypes: []string{"a"}, Tenant: "nobody", Func: nothing}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("a tenant that does not exist: %v", err)
	}
	if _, err := (engine.Delivery{}).Send(t.Context(), engine.Event{Type: "a"}); err == nil {
		t.Error("a delivery that nobody made sends")
	}
}
