package httpapi_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

func TestStreamRequests(t *testing.T) {
	s := start(t)
	s.get("/v1/stream", "Authorization:").problem(401, "unauthorized")
	s.get("/v1/stream", "Posthaste-Tenant: nobody").problem(404, "not_found")
	r := s.get("/v1/stream?types=event.accepted,delivery.done&last=x").problem(422, "invalid")
	for _, want := range []string{`"delivery.done\"`, `"field":"last"`} {
		if !strings.Contains(string(r.body), want) {
			t.Errorf("%s, want %s", r.body, want)
		}
	}
	if r := s.do("HEAD", "/v1/stream", nil).want(200); r.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %v", r.header)
	}
}

// TestStream follows events over HTTP, as one tenant and as all, by the header and by
// the query.
func TestStream(t *testing.T) {
	s := start(t)
	s.post("/v1/tenants", `{"name":"acme"}`).want(201)
	ours, all := s.follow("/v1/stream?types=event.accepted"), s.follow("/v1/stream", "Posthaste-Tenant: *")
	s.post("/v1/events?type=a", "1", "Posthaste-Tenant: acme").want(202)
	s.post("/v1/events?type=b", "2").want(202)
	if got := ours(); !strings.Contains(got, `"tenant":"default"`) || !strings.Contains(got, `"type":"b"`) || !strings.Contains(got, "event: event.accepted\n") {
		t.Errorf("the tenant's own stream: %q", got)
	}
	first := all()
	if !strings.Contains(first, `"tenant":"acme"`) {
		t.Errorf("the stream of all: %q", first)
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(first, "id: "), "\n")
	for _, again := range []func() string{
		s.follow("/v1/stream?last_event_id="+id, "Posthaste-Tenant: *"), s.follow("/v1/stream", "Posthaste-Tenant: *", "Last-Event-ID: "+id),
	} {
		if got := again(); !strings.Contains(got, `"type":"b"`) {
			t.Errorf("after the first: %q", got)
		}
	}
}

// follow opens a stream and waits until it is connected. The function that it returns
// waits for the next event.
func (s *server) follow(path string, headers ...string) func() string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	must(s.t, err)
	req.Header.Set("Authorization", "Bearer "+s.key)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	must(s.t, err)
	if res.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s: %s", path, res.Status)
	}
	s.t.Cleanup(func() { _ = res.Body.Close() })
	lines := bufio.NewReader(res.Body)
	block := func() (text string) {
		for {
			line, err := lines.ReadString('\n')
			must(s.t, err)
			if line == "\n" {
				return text
			}
			text += line
		}
	}
	block() // the greeting
	return func() string {
		for {
			if text := block(); strings.Contains(text, "event: ") {
				return text
			}
		}
	}
}
