package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-dev/posthaste/internal/auth"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/httpapi"
	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
)

const none26 = "00000000000000000000000000"

func TestKeys(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/v1/events", "/v1/endpoints", "/v1/deliveries", "/v1/tenants", "/metrics", "/v1/events/evt_" + none26} {
		for _, header := range []string{"Authorization:", "Authorization: Bearer " + auth.NewKey(), "Authorization: Basic eDp5"} {
			r := s.get(path, header).problem(401, "unauthorized")
			if !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s: headers %v", path, r.header)
			}
		}
	}
	s.post("/v1/events?type=a", "x", "Authorization:").problem(401, "unauthorized")
	for _, path := range []string{"/", "/livez", "/readyz", "/openapi.json", "/docs"} {
		s.get(path, "Authorization:").want(200)
	}
	if r := s.get("/metrics").want(200); !strings.Contains(string(r.body), "posthaste_http_request_seconds_count") {
		t.Errorf("%.200s", r.body)
	}
}

func TestMetricsPublic(t *testing.T) {
	s := start(t, func(c *httpapi.Config) { c.MetricsPublic = true })
	s.get("/metrics", "Authorization:").want(200)
}

func TestNotReady(t *testing.T) {
	s := start(t, func(c *httpapi.Config) { // an engine that has not begun to run
		ring, err := keyring.New(keyring.Generate())
		must(t, err)
		c.Pipeline, err = pipeline.New(pipeline.Config{
			Store: c.Pipeline.Store(), Sender: deliver.New(deliver.Config{}), Keyring: ring, Replica: "other", Log: slog.New(slog.DiscardHandler),
		})
		must(t, err)
	})
	s.get("/livez").want(200)
	for _, r := range []*reply{s.get("/readyz").problem(503, "unavailable"), s.send("a", "x").problem(503, "unavailable")} {
		if r.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", r.what)
		}
	}
}

func TestPathsAndMethods(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/v1", "/v1/", "/v1/event", "/v1/events/", "/v1/events/x/y/z", "/favicon.ico", "/v1/endpoints//pause", "/v2/events"} {
		s.get(path).problem(404, "not_found")
	}
	for path, allow := range map[string]string{
		"/v1/events": "GET, HEAD, OPTIONS, POST", "/v1/endpoints/ep_x": "DELETE, GET, HEAD, OPTIONS, PATCH, PUT", "/v1/endpoints/ep_x/pause": "OPTIONS, POST", "/livez": "GET, HEAD, OPTIONS",
	} {
		if r := s.do("BREW", path, nil).problem(405, "method_not_allowed"); r.header.Get("Allow") != allow {
			t.Errorf("%s: Allow %q", path, r.header.Get("Allow"))
		}
		if r := s.do("OPTIONS", path, nil, "Authorization:").want(204); r.header.Get("Allow") != allow {
			t.Errorf("%s: Allow %q", path, r.header.Get("Allow"))
		}
	}
	if r := s.do("HEAD", "/v1/events", nil).want(200); len(r.body) != 0 || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD: %q, %v", r.body, r.header)
	}
	for _, path := range []string{"/v1/events/", "/v1/deliveries/", "/v1/endpoints/"} {
		for _, id := range []string{"x", "evt_", "ep_" + none26, "dlv_" + none26, "evt_" + none26, "evt_8" + none26[1:], "evt_" + strings.Repeat("u", 26), "%00", strings.Repeat("x", 3000)} {
			s.get(path+id).problem(404, "not_found")
		}
	}
	for path, want := range map[string]string{ // an id of another kind, or a uid without uid:
		"/v1/deliveries/evt_" + none26: `"dlv_"`, "/v1/events/dlv_" + none26: `"evt_"`, "/v1/sources/github": `"src_"`, "/v1/endpoints/orders": `"uid:" and your own id`,
	} {
		if hint := s.get(path).problem(404, "not_found").text("hint"); !strings.Contains(hint, want) {
			t.Errorf("%s: hint %q; want %s", path, hint, want)
		}
	}
	s.get("/docs/", "Authorization:").want(200)
	s.post("/v1/deliveries/dlv_"+none26+"/replay", "").problem(404, "not_found")
	s.post("/v1/deliveries/x/replay", "").problem(404, "not_found")
	s.post("/v1/endpoints/x/test", "").problem(404, "not_found")
	s.do("DELETE", "/v1/endpoints/x", nil).problem(404, "not_found")
	s.get("/v1/events/evt_"+none26+"/payload").problem(404, "not_found")
}

func TestTenantsAreApart(t *testing.T) {
	s := start(t)
	made := s.post("/v1/tenants", `{"name":"acme"}`).want(201)
	if made.text("name") != "acme" || made.text("created_at") == "" || made.header.Get("Location") != "/v1/tenants/acme" {
		t.Errorf("%s", made.body)
	}
	s.post("/v1/tenants", `{"name":"acme"}`).problem(409, "conflict")
	s.get("/v1/tenants/acme").want(200)
	s.get("/v1/tenants/acmee").problem(404, "not_found")
	s.get("/v1/tenants/%20").problem(404, "not_found")
	for body, field := range map[string]string{`{}`: "name", `{"name":""}`: "name", `{"name":"-a"}`: "name", `{"name":"a b"}`: "name", `{"name":null}`: "name", `{"name":1}`: "name",
		`{"name":"` + strings.Repeat("a", 65) + `"}`: "name", `{"name":"b","nam":"c"}`: "nam"} {
		s.post("/v1/tenants", body).problem(422, "invalid", field)
	}
	s.post("/v1/tenants", `{"name":"b","limits":{"rps":1}}`).problem(422, "unsupported", "limits")
	s.post("/v1/tenants", `x`).problem(400, "unreadable")

	var names []string
	next := ""
	for range 5 {
		r := s.get("/v1/tenants?limit=2" + next).want(200)
		for _, row := range r.at("data").([]any) {
			names = append(names, row.(map[string]any)["name"].(string))
		}
		if r.text("next") == "" {
			break
		}
		next = "&cursor=" + r.text("next")
	}
	if len(names) != 3 || names[0] != "acme" {
		t.Errorf("tenants %v", names)
	}

	url, arrivals := receiver(t, status(200))
	endpoint := s.post("/v1/endpoints", fmt.Sprintf(`{"url":%q}`, url), "Posthaste-Tenant: acme").want(201).text("id")
	if r := s.send("a", "x").want(202); r.at("deliveries") != 0.0 {
		t.Errorf("another tenant's endpoint gets it: %s", r.body)
	}
	event := s.send("a", "x", "Posthaste-Tenant: acme").want(202)
	arrived(t, arrivals)
	delivery := s.get("/v1/deliveries", "Posthaste-Tenant: acme").ids()[0]
	for _, path := range []string{"/v1/events/" + event.text("id"), "/v1/events/" + event.text("id") + "/payload", "/v1/endpoints/" + endpoint, "/v1/deliveries/" + delivery} {
		s.get(path, "Posthaste-Tenant: acme").want(200)
		s.get(path).problem(404, "not_found")
		s.get(path, "Posthaste-Tenant: operator").problem(404, "not_found")
	}
	s.do("DELETE", "/v1/endpoints/"+endpoint, nil).problem(404, "not_found")
	s.patch("/v1/endpoints/"+endpoint, `{}`).problem(404, "not_found")
	s.post("/v1/deliveries/"+delivery+"/replay", "").problem(404, "not_found")
	s.post("/v1/endpoints/"+endpoint+"/test", "").problem(404, "not_found")
	own := s.endpoint(url, "").text("id")
	s.post("/v1/events/"+event.text("id")+"/resend", `{"endpoint_id":"`+own+`"}`).problem(404, "not_found")
	s.get("/v1/deliveries?endpoint_id="+endpoint).problem(422, "invalid", "endpoint_id")

	s.get("/v1/events", "Posthaste-Tenat: acme").problem(422, "invalid", "Posthaste-Tenat")
	s.post("/v1/endpoints", `{"url":"https://example.com/"}`, "Posthaste-Tenat: acme").problem(422, "invalid", "Posthaste-Tenat")
}

// lines keeps what is logged.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) contains(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		found := true
		for _, p := range parts {
			found = found && strings.Contains(line, p)
		}
		if found {
			return true
		}
	}
	return false
}

func TestRequestsAreLogged(t *testing.T) {
	var log lines
	s := start(t, func(c *httpapi.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	r := s.get("/v1/events?limit=0", "Posthaste-Tenant: operator")
	id := r.header.Get("Posthaste-Request-Id")
	s.until("logged", func() bool {
		return log.contains("request_id="+id, "method=GET", "path=/v1/events", "status=422", "tenant=operator", "limit")
	})
	if log.contains(s.key) {
		t.Error("the key is in the log")
	}
}

// What no client of net/http would send.
func TestRawRequests(t *testing.T) {
	s := start(t)
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"two lengths":     {"POST /v1/events?type=a HTTP/1.1\r\nHost: x\r\n%sContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400},
		"bad chunk":       {"POST /v1/events?type=a HTTP/1.1\r\nHost: x\r\n%sTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
		"NUL in a header": {"POST /v1/events?type=a HTTP/1.1\r\nHost: x\r\n%sIdempotency-Key: a\x00b\r\nContent-Length: 0\r\n\r\n", 400},
		"HTTP/1.0":        {"GET /livez HTTP/1.0\r\n%s\r\n", 200},
		"odd method":      {"BREW /v1/events HTTP/1.1\r\nHost: x\r\n%s\r\n", 405},
		"dots":            {"GET /v1/../v1/events/x HTTP/1.1\r\nHost: x\r\n%sConnection: close\r\n\r\n", 307},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		must(t, err)
		fmt.Fprintf(conn, c.request, "Authorization: Bearer "+s.key+"\r\n")
		must(t, conn.(*net.TCPConn).CloseWrite())
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			conn.Close()
			continue
		}
		io.Copy(io.Discard, answer.Body) // only the status matters
		conn.Close()
		if answer.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", name, answer.StatusCode, c.status)
		}
	}
	if n := len(s.get("/v1/events").ids()); n != 0 {
		t.Errorf("%d events were stored", n)
	}
}
