package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/client"
)

// handlerTransport answers requests by a handler, without a network, so that
// waiting runs on the synthetic clock of testing/synctest.
type handlerTransport func(w http.ResponseWriter, r *http.Request) error

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	if err := t(w, r); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func newClient(t *testing.T, handler handlerTransport) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{
		Server: "http://posthaste.example", Key: "key-of-the-test-0001", Tenant: "acme",
		HTTPClient: &http.Client{Transport: handler},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answerJSON(w http.ResponseWriter, status int, body string) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err := io.WriteString(w, body)
	return err
}

func TestSendCarriesBytesAndHeaders(t *testing.T) {
	payload := []byte("{ \"n\": 12345678901234567890,\t\"u\":\"\\u00e4\"}\x00\xff")
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if string(body) != string(payload) {
			t.Errorf("sent %q, want the very bytes %q", body, payload)
		}
		for name, want := range map[string]string{
			"Authorization": "Bearer key-of-the-test-0001", "Posthaste-Tenant": "acme",
			"Posthaste-Event-Type": "invoice.paid", "Content-Type": "text/x", "Idempotency-Key": "k 1",
			"Posthaste-Forward-X-Trace": "abc", "Posthaste-Order-Key": "o", "Traceparent": "00-1",
			"Posthaste-Endpoint": "ep_1|ep_2",
		} {
			if got := strings.Join(r.Header.Values(name), "|"); got != want {
				t.Errorf("%s: sent %q, want %q", name, got, want)
			}
		}
		return answerJSON(w, http.StatusAccepted, `{"id":"evt_1","type":"invoice.paid","deliveries":2,"duplicate":false,"later":1}`)
	})
	got, err := c.Events.Send(t.Context(), client.NewEvent{
		Type: "invoice.paid", Payload: payload, ContentType: "text/x", IdempotencyKey: "k 1", OrderKey: "o", Traceparent: "00-1",
		EndpointIDs: []string{"ep_1", "ep_2"}, Forward: map[string]string{"X-Trace": "abc"},
	})
	if want := (client.Receipt{ID: "evt_1", Type: "invoice.paid", Deliveries: 2}); err != nil || got != want {
		t.Fatalf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestErrorsAreDecoded(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Posthaste-Request-Id", "req_7")
		w.Header().Set("Retry-After", "3")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		return json.NewEncoder(w).Encode(map[string]any{
			"title": "The request is not valid", "detail": "two things are wrong", "code": "invalid", "hint": "correct them",
			"errors": []posthaste.Problem{{Field: "url", Message: "is missing", Hint: "give one"}, {Field: "retry.jitter", Message: "is above 1"}},
		})
	})
	_, err := c.Endpoints.Create(t.Context(), client.NewEndpoint{})
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		t.Fatalf("got %v, want a *client.Error", err)
	}
	if e.Status != 422 || e.Code != posthaste.CodeInvalid || e.Hint != "correct them" || e.RequestID != "req_7" ||
		e.RetryAfter != 3*time.Second || len(e.Problems) != 2 || e.Problems[1].Field != "retry.jitter" {
		t.Errorf("decoded %+v", e)
	}
	const want = "two things are wrong: url is missing (give one); retry.jitter is above 1 [422 invalid, request req_7]"
	if e.Error() != want {
		t.Errorf("says %q, want %q", e.Error(), want)
	}
}

func TestAnswersThatAreNotOurs(t *testing.T) {
	status, body := 0, ""
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) error { return answerJSON(w, status, body) })
	status, body = 502, "<html>"+strings.Repeat("x", 5000)
	_, err := c.Deliveries.Get(t.Context(), "dlv_1")
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 502 || e.Code != "" || len(e.Detail) > 300 {
		t.Errorf("a proxy's page: %v", err)
	}
	status, body = 200, "<html>welcome</html>"
	if _, err = c.Deliveries.Get(t.Context(), "dlv_1"); err == nil || !strings.Contains(err.Error(), "is this a Posthaste server?") {
		t.Errorf("another server: %v", err)
	}
}

// A proxy that sends http to https makes a GET of a POST: the list of events is
// answered, and nothing is stored.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var followed atomic.Int32
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) error {
		if r.URL.Host == "elsewhere.example" {
			followed.Add(1)
			return answerJSON(w, http.StatusOK, `{"data":[],"next":null}`)
		}
		w.Header().Set("Location", "https://elsewhere.example"+r.URL.Path)
		w.WriteHeader(http.StatusMovedPermanently)
		return nil
	})
	_, sendErr := c.Events.Send(t.Context(), client.NewEvent{Type: "a"})
	for what, err := range map[string]error{"send": sendErr, "delete": c.Endpoints.Delete(t.Context(), "ep_1"), "ready": c.Ready(t.Context())} {
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Status != http.StatusMovedPermanently || !strings.Contains(e.Error(), "https://elsewhere.example/") || e.Hint == "" {
			t.Errorf("%s: got %v, want an error that names the other place", what, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // one that follows would go on for ever
	defer cancel()
	for _, err := range c.Stream(ctx, client.StreamOptions{}) {
		if _, ok := errors.AsType[*client.Error](err); !ok {
			t.Errorf("stream: got %v", err)
		}
		break
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// Send promises that the event is on disk.
func TestSendWantsAReceipt(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) error {
		return answerJSON(w, http.StatusOK, `{"status":"ok"}`)
	})
	if got, err := c.Events.Send(t.Context(), client.NewEvent{Type: "a"}); err == nil {
		t.Errorf("somebody else's answer is taken for the receipt %+v", got)
	}
}

// TestSendRepeats covers what decides on a repeat: the key, the status, the
// server's Retry-After and the caller's context.
func TestSendRepeats(t *testing.T) {
	away := errors.New("connection reset")
	for _, tt := range []struct {
		name       string
		key        string
		status     int // 0: no answer comes
		retryAfter string
		failures   int32 // before it succeeds
		patience   time.Duration
		wantCalls  int32
		wantErr    bool
		atLeast    time.Duration
	}{
		{name: "overloaded, with a key", key: "k", status: 503, failures: 2, wantCalls: 3},
		{name: "no answer, with a key", key: "k", failures: 2, wantCalls: 3},
		{name: "Retry-After is honoured", key: "k", status: 503, retryAfter: "4", failures: 1, wantCalls: 2, atLeast: 4 * time.Second},
		{name: "a long Retry-After is for the caller", key: "k", status: 503, retryAfter: "3600", failures: 1, wantCalls: 1, wantErr: true},
		{name: "no key, overloaded", status: 503, failures: 1, wantCalls: 1, wantErr: true},
		{name: "no key, no answer", failures: 1, wantCalls: 1, wantErr: true},
		{name: "refused for good", key: "k", status: 422, failures: 1, wantCalls: 1, wantErr: true},
		{name: "an error of the server's", key: "k", status: 500, failures: 1, wantCalls: 1, wantErr: true},
		{name: "it ends", key: "k", status: 503, failures: 1000, wantCalls: 6, wantErr: true},
		{name: "the caller's patience", key: "k", status: 503, retryAfter: "10", failures: 1000, patience: 15 * time.Second, wantCalls: 2, wantErr: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				c := newClient(t, func(w http.ResponseWriter, _ *http.Request) error {
					switch {
					case calls.Add(1) > tt.failures:
						return answerJSON(w, 202, `{"id":"evt_1","deliveries":1}`)
					case tt.status == 0:
						return away
					}
					w.Header().Set("Retry-After", tt.retryAfter)
					return answerJSON(w, tt.status, `{"detail":"not now"}`)
				})
				ctx := t.Context()
				if tt.patience > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.patience)
					defer cancel()
				}
				began := time.Now()
				_, err := c.Events.Send(ctx, client.NewEvent{Type: "a", IdempotencyKey: tt.key})
				if (err != nil) != tt.wantErr || calls.Load() != tt.wantCalls {
					t.Errorf("%d calls, %v; want %d calls, error %t", calls.Load(), err, tt.wantCalls, tt.wantErr)
				}
				if took := time.Since(began); took < tt.atLeast || took > time.Minute {
					t.Errorf("took %s, want at least %s and at most a minute", took, tt.atLeast)
				}
			})
		})
	}
}

func TestAllWalksPages(t *testing.T) {
	pages := map[string]string{
		"":   `{"data":[{"id":"dlv_5"},{"id":"dlv_4"}],"next":"c1"}`,
		"c1": `{"data":[],"next":"c2"}`, // a filtered page may be empty and yet not the last
		"c2": `{"data":[{"id":"dlv_1"}],"next":null}`,
	}
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) error {
		if got := r.URL.Query().Get("status") + r.URL.Query().Get("limit") + r.URL.Query().Get("since"); got != "dead22026-11-29T11:00:00.500Z" {
			t.Errorf("query %q", r.URL.RawQuery)
		}
		return answerJSON(w, 200, pages[r.URL.Query().Get("cursor")])
	})
	since := time.Date(2026, 11, 29, 12, 0, 0, 5e8, time.FixedZone("CET", 3600))
	all := c.Deliveries.All(t.Context(), client.DeliveryFilter{Status: "dead", Since: since, Paging: client.Paging{Limit: 2}})
	for range 2 { // a sequence can be walked again
		var got []string
		for d, err := range all {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, d.ID)
		}
		if strings.Join(got, " ") != "dlv_5 dlv_4 dlv_1" {
			t.Errorf("got %v", got)
		}
	}
	pages["c2"] = "{"
	n, failed := 0, 0
	for _, err := range all {
		n++
		if err != nil {
			failed++
		}
	}
	if n != 3 || failed != 1 {
		t.Errorf("with a broken page: %d items, %d errors; want 3 and 1", n, failed)
	}
}

func TestIDsCannotReachOtherRoutes(t *testing.T) {
	var path string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) error {
		path = r.URL.EscapedPath()
		return answerJSON(w, 200, `{}`)
	})
	if _, err := c.Deliveries.Get(t.Context(), "../events?x#y"); err != nil || path != "/v1/deliveries/..%2Fevents%3Fx%23y" {
		t.Errorf("asked for %s, %v", path, err)
	}
	path = ""
	for _, id := range []string{"", ".", ".."} {
		if err := c.Endpoints.Delete(t.Context(), id); err == nil || path != "" {
			t.Errorf("Delete(%q) asked for %q, %v; want an error before anything is sent", id, path, err)
		}
	}
}

func TestBadServers(t *testing.T) {
	for _, server := range []string{"127.0.0.1:8700", "ftp://x", "http://", "http://user:pass@host", "user:pass@host:8700", "http://h?x=1", "::"} {
		_, err := client.New(client.Config{Server: server})
		switch {
		case err == nil:
			t.Errorf("New with %q succeeds", server)
		case !strings.Contains(err.Error(), "http://host:port"):
			t.Errorf("the error does not say what a server's URL looks like: %v", err)
		case strings.Contains(err.Error(), "pass@"):
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// TestEndpointsBySomebodysOwnID covers what names an endpoint by a uid, and what
// is asked only of a version.
func TestEndpointsBySomebodysOwnID(t *testing.T) {
	var got string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.EscapedPath() + " " + r.Header.Get("If-Match") + " " + string(body)
		if err != nil {
			return err
		}
		return answerJSON(w, 200, `{"id":"ep_1","uid":"a/b","metadata":{"k":"v"},"secret":"s","version":3,"deleted_at":null,
			"signing_secrets":[{"number":2,"expires_at":null},{"number":1,"expires_at":"2026-11-29T12:00:00.000Z"}]}`)
	})
	ctx, none := t.Context(), posthaste.Duration(0)
	for want, call := range map[string]func() (client.Endpoint, error){
		`PUT /v1/endpoints/uid:a%2Fb  {"url":"https://x/","metadata":{"k":"v"}}`: func() (client.Endpoint, error) {
			return c.Endpoints.Put(ctx, "a/b", client.NewEndpoint{URL: "https://x/", Metadata: map[string]string{"k": "v"}})
		},
		`POST /v1/endpoints/ep_1/rotate-secret  {}`: func() (client.Endpoint, error) {
			return c.Endpoints.RotateSecret(ctx, "ep_1", client.Rotation{})
		},
		`POST /v1/endpoints/ep_1/rotate-secret "3" {"secret":"s","overlap":"0s"}`: func() (client.Endpoint, error) {
			return c.Endpoints.IfVersion(3).RotateSecret(ctx, "ep_1", client.Rotation{Secret: "s", Overlap: &none})
		},
		`PATCH /v1/endpoints/ep_1 "3" {"url":null}`: func() (client.Endpoint, error) {
			return c.Endpoints.IfVersion(3).Update(ctx, "ep_1", map[string]any{"url": nil})
		},
		`POST /v1/endpoints/ep_1/pause "4" `: func() (client.Endpoint, error) { return c.Endpoints.IfVersion(4).Pause(ctx, "ep_1") },
		`POST /v1/endpoints  {"url":"https://x/","rate_limit":{"rps":2},"ordered":"endpoint","breaker":null}`: func() (client.Endpoint, error) {
			return c.Endpoints.Create(ctx, client.NewEndpoint{
				URL: "https://x/", RateLimit: &posthaste.RateLimit{RPS: 2}, Ordered: posthaste.OrderedByEndpoint, Breaker: &client.Breaker{Off: true},
			})
		},
		`PUT /v1/endpoints/uid:b  {"url":"https://x/","breaker":{"threshold":3,"reset":"1m"}}`: func() (client.Endpoint, error) {
			return c.Endpoints.Put(ctx, "b", client.NewEndpoint{URL: "https://x/", Breaker: &client.Breaker{Threshold: 3, Reset: posthaste.Duration(time.Minute)}})
		},
		`GET /v1/endpoints/uid:mine  `: func() (client.Endpoint, error) { return c.Endpoints.Get(ctx, "uid:mine") },
	} {
		e, err := call()
		if err != nil || got != want {
			t.Errorf("asked %q, %v; want %q", got, err, want)
		}
		if e.UID != "a/b" || e.Metadata["k"] != "v" || len(e.Secrets) != 2 || !e.Secrets[0].ExpiresAt.IsZero() || e.Secrets[1].ExpiresAt.IsZero() || !e.DeletedAt.IsZero() {
			t.Errorf("read %+v", e)
		}
	}
	for _, err := range []error{c.Endpoints.IfVersion(5).Delete(ctx, "ep_1"), c.Tenants.Delete(ctx, "uid:7")} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Endpoints.Put(ctx, "", client.NewEndpoint{}); err == nil || got != "DELETE /v1/tenants/uid:7  " {
		t.Errorf("without a uid asked %q, %v", got, err)
	}
	if _, err := c.Tenants.Put(ctx, "7", client.NewTenant{Name: "acme"}); err != nil || got != `PUT /v1/tenants/uid:7  {"name":"acme"}` {
		t.Errorf("asked %q, %v", got, err)
	}
}
