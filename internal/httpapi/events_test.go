package httpapi_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/httpapi"
)

func TestPayloadIsKeptByteForByte(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	s.endpoint(url, "")
	binary := make([]byte, maxPayloadBytes)
	rand.Read(binary) // never fails since Go 1.24
	for name, c := range map[string]struct {
		contentType string
		body        []byte
	}{
		"odd spacing":      {"application/json", []byte("{ \"a\" :\t1 ,\r\n\"a\":  2 }\n\n")},
		"unicode escapes":  {"application/json; charset=utf-8", []byte(`{"a":"\u00e9\ud83d\ude00é/\/"}`)},
		"big numbers":      {"application/json", []byte(`{"n":9007199254740993,"f":1.10,"e":1E400}`)},
		"not the JSON":     {"application/json", []byte(`{"n":`)},
		"empty":            {"text/plain", nil},
		"no content type":  {"", []byte("x")},
		"odd content type": {"This Is/Not A=Type;;", []byte("x")},
		"latin 1":          {"text/plain; charset=iso-8859-1", []byte("caf\xe9\x00")},
		"form":             {"application/x-www-form-urlencoded", []byte("a=b&c=%20+")},
		"1 MiB of binary":  {"application/octet-stream", binary},
	} {
		headers := []string{"Posthaste-Event-Type: bytes.test", "Content-Type:"}
		if c.contentType != "" {
			headers[1] = "Content-Type: " + c.contentType
		}
		sent := s.do("POST", "/v1/events", bytes.NewReader(c.body), headers...).want(202)
		got := arrived(t, arrivals)
		if !bytes.Equal(got.body, c.body) || got.header.Get("Content-Type") != c.contentType {
			t.Errorf("%s: %d bytes as %q arrived, want %d as %q", name, len(got.body), got.header.Get("Content-Type"), len(c.body), c.contentType)
		}
		if got.header.Get("Webhook-Id") != sent.text("id") {
			t.Errorf("%s: webhook-id %s", name, got.header.Get("Webhook-Id"))
		}
		kept := s.get("/v1/events/" + sent.text("id") + "/payload").want(200)
		wantType := c.contentType
		if wantType == "" {
			wantType = "application/octet-stream"
		}
		if !bytes.Equal(kept.body, c.body) || kept.header.Get("Content-Type") != wantType ||
			kept.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(kept.header.Get("Content-Security-Policy"), "sandbox") ||
			!strings.HasPrefix(kept.header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: kept %d bytes, headers %v", name, len(kept.body), kept.header)
		}
	}
}

func TestWhatIsKeptWithAnEvent(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	s.endpoint(url, "")
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	gz := "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	sent := s.post("/v1/events?type=a.b", gz, "Content-Encoding: gzip", "Content-Type: text/plain", "traceparent: "+trace,
		"Posthaste-Order-Key: customer-7", "Idempotency-Key: k/é 1", "Posthaste-Event-Type: a.b").want(202)
	got := arrived(t, arrivals)
	if string(got.body) != gz || got.header.Get("Content-Encoding") != "gzip" || got.header.Get("Traceparent") != trace || got.header.Get("Posthaste-Event-Type") != "a.b" {
		t.Errorf("arrived: %v", got.header)
	}
	event := s.get("/v1/events/" + sent.text("id")).want(200)
	for field, want := range map[string]any{
		"id": sent.text("id"), "type": "a.b", "source": "api", "content_encoding": "gzip", "content_type": "text/plain", "traceparent": trace,
		"order_key": "customer-7", "idempotency_key": "k/é 1", "payload_bytes": float64(len(gz)), "deliveries": 1.0, "parent": nil, "correlation_id": sent.text("id"),
	} {
		if event.at(field) != want {
			t.Errorf("%s is %v, want %v", field, event.at(field), want)
		}
	}
	payload := s.get("/v1/events/" + sent.text("id") + "/payload").want(200)
	if string(payload.body) != gz || payload.header.Get("Posthaste-Content-Encoding") != "gzip" {
		t.Errorf("payload %q, headers %v", payload.body, payload.header)
	}
	for _, bad := range []string{"00-0-0-0", strings.ToUpper(trace), strings.Replace(trace, "00-", "ff-", 1), trace + "0", trace + "-00",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"} {
		id := s.send("a", "", "traceparent: "+bad).want(202).text("id")
		if got := s.get("/v1/events/" + id).at("traceparent"); got != nil {
			t.Errorf("kept the traceparent %q", got)
		}
	}
	next := "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"
	if got := s.get("/v1/events/" + s.send("a", "", "traceparent: "+next).text("id")).at("traceparent"); got != next {
		t.Errorf("a traceparent of a later version became %v", got)
	}
}

func TestIdempotency(t *testing.T) {
	s := start(t)
	first := s.send("a", "body", "Idempotency-Key: k").want(202)
	again := s.send("a", "body", "Idempotency-Key: k").want(200)
	if first.at("duplicate") != false || again.at("duplicate") != true || again.text("id") != first.text("id") {
		t.Errorf("first %s, again %s", first.body, again.body)
	}
	s.send("a", "other", "Idempotency-Key: k").problem(409, "idempotency_mismatch")
	s.send("b", "body", "Idempotency-Key: k").problem(409, "idempotency_mismatch")
	s.send("a", "body", "Idempotency-Key: K").want(202)
	s.post("/v1/tenants", `{"name":"acme"}`).want(201)
	s.send("a", "other", "Idempotency-Key: k", "Posthaste-Tenant: acme").want(202)
	found := s.get("/v1/events?idempotency_key=k").want(200).ids()
	if len(found) != 1 || found[0] != first.text("id") {
		t.Errorf("found %v by the key", found)
	}
}

func TestFiftyIdenticalRequestsAreOneEvent(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	s.endpoint(url, "")
	var mu sync.Mutex
	statuses, ids := map[int]int{}, map[string]bool{}
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			r := s.send("a", `{"n":1}`, "Idempotency-Key: same")
			mu.Lock()
			defer mu.Unlock()
			statuses[r.status]++
			ids[r.text("id")] = true
		})
	}
	clients.Wait()
	if statuses[202] != 1 || statuses[200] != 49 || len(ids) != 1 {
		t.Errorf("statuses %v, ids %v", statuses, ids)
	}
	arrived(t, arrivals)
	if n := len(s.get("/v1/events").ids()); n != 1 {
		t.Errorf("%d events", n)
	}
	if n := len(s.get("/v1/deliveries").ids()); n != 1 {
		t.Errorf("%d deliveries", n)
	}
}

func TestUnmatchedEventIsKept(t *testing.T) {
	s := start(t)
	r := s.send("nobody.listens", "x").want(202)
	if r.at("deliveries") != 0.0 {
		t.Errorf("%s", r.body)
	}
	if ids := s.get("/v1/events?type=nobody.listens").ids(); len(ids) != 1 || ids[0] != r.text("id") {
		t.Errorf("listed %v", ids)
	}
}

func TestUnknownTenant(t *testing.T) {
	s := start(t)
	s.send("a", "x", "Posthaste-Tenant: acmee").problem(404, "not_found")
	s.send("a", "x", "Posthaste-Tenant: no/name").problem(404, "not_found")
	s.send("a", "x", "Posthaste-Tenant: *").problem(422, "invalid", "Posthaste-Tenant")
	s.send("a", "x", "Posthaste-Tenant: ").problem(422, "invalid", "Posthaste-Tenant")
	if n := len(s.get("/v1/events").ids()); n != 0 {
		t.Errorf("%d events were stored", n)
	}
}

func TestChosenEndpoints(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	one := s.endpoint(url, `,"event_types":["other"]`).text("id")
	two := s.endpoint(url, "").text("id")
	s.endpoint(url, "")
	for _, headers := range [][]string{
		{"Posthaste-Endpoint: " + one, "Posthaste-Endpoint: " + two},
		{"Posthaste-Endpoint: " + one + " , " + two},
		{"Posthaste-Endpoint: " + one, "Posthaste-Endpoint: " + one, "Posthaste-Endpoint: " + two},
	} {
		if r := s.send("a", "x", headers...).want(202); r.at("deliveries") != 2.0 {
			t.Errorf("%v: %s", headers, r.body)
		}
		arrived(t, arrivals)
		arrived(t, arrivals)
	}
	unknown := "ep_" + strings.Repeat("0", 26)
	s.send("a", "x", "Posthaste-Endpoint: "+one, "Posthaste-Endpoint: "+unknown).problem(422, "invalid", "Posthaste-Endpoint")
	s.send("a", "x", "Posthaste-Endpoint: evt_"+one[3:]).problem(422, "invalid", "Posthaste-Endpoint")
	s.send("a", "x", "Posthaste-Endpoint: ").problem(422, "invalid", "Posthaste-Endpoint")
	s.post("/v1/tenants", `{"name":"acme"}`).want(201)
	s.send("a", "x", "Posthaste-Tenant: acme", "Posthaste-Endpoint: "+one).problem(422, "invalid", "Posthaste-Endpoint")
}

func TestBadEvents(t *testing.T) {
	s := start(t)
	long := func(n int) string { return strings.Repeat("k", n) }
	for _, c := range []struct {
		path    string
		headers []string
		code    string
		fields  []string
	}{
		{"/v1/events", nil, "invalid", []string{"Posthaste-Event-Type"}},
		{"/v1/events?type=", nil, "invalid", []string{"type"}},
		{"/v1/events?type=a&type=a", nil, "invalid", []string{"type"}},
		{"/v1/events?type=a%20b", nil, "invalid", []string{"type"}},
		{"/v1/events?type=a&typ=b", nil, "invalid", []string{"typ"}},
		{"/v1/events?type=%zz", []string{"Posthaste-Event-Type: a"}, "invalid", []string{""}},
		{"/v1/events?type=a", []string{"Posthaste-Event-Type: b"}, "invalid", []string{"type"}},
		{"/v1/events", []string{"Posthaste-Event-Type: "}, "invalid", []string{"Posthaste-Event-Type"}},
		{"/v1/events", []string{"Posthaste-Event-Type: a*"}, "invalid", []string{"Posthaste-Event-Type"}},
		{"/v1/events", []string{"Posthaste-Event-Type: é"}, "invalid", []string{"Posthaste-Event-Type"}},
		{"/v1/events", []string{"Posthaste-Event-Type: " + long(129)}, "invalid", []string{"Posthaste-Event-Type"}},
		{"/v1/events", []string{"Posthaste-Event-Type: a", "Posthaste-Event-Type: a"}, "invalid", []string{"Posthaste-Event-Type"}},
		{"/v1/events?type=a", []string{"Idempotency-Key: " + long(256)}, "invalid", []string{"Idempotency-Key"}},
		{"/v1/events?type=a", []string{"Idempotency-Key: "}, "invalid", []string{"Idempotency-Key"}},
		{"/v1/events?type=a", []string{"Idempotency-Key: a", "Idempotency-Key: b"}, "invalid", []string{"Idempotency-Key"}},
		{"/v1/events?type=a", []string{"Idempotency-Key: a\xff"}, "invalid", []string{"Idempotency-Key"}},
		{"/v1/events?type=a", []string{"Posthaste-Order-Key: " + long(256)}, "invalid", []string{"Posthaste-Order-Key"}},
		{"/v1/events?type=a", []string{"Posthaste-Order-Key: "}, "invalid", []string{"Posthaste-Order-Key"}},
		{"/v1/events?type=a", []string{"Content-Type: " + long(256)}, "invalid", []string{"Content-Type"}},
		{"/v1/events?type=a", []string{"Content-Type: text/\xe9"}, "invalid", []string{"Content-Type"}},
		{"/v1/events?type=a", []string{"Content-Type: a/b", "Content-Type: a/c"}, "invalid", []string{"Content-Type"}},
		{"/v1/events?type=a", []string{"Content-Encoding: " + long(256)}, "invalid", []string{"Content-Encoding"}},
		{"/v1/events?type=a", []string{"Posthaste-Evnt-Type: b"}, "invalid", []string{"Posthaste-Evnt-Type"}},
		{"/v1/events?type=a", []string{"Posthaste-Deliver-At: 2030-01-01T00:00:00Z"}, "unsupported", []string{"Posthaste-Deliver-At"}},
		{"/v1/events", []string{"Idempotency-Key: ", "Posthaste-Endpoint: x", "Posthaste-Forward-Host: h", "Posthaste-X: y"}, "invalid",
			[]string{"Idempotency-Key", "Posthaste-Endpoint", "Posthaste-Event-Type", "Posthaste-Forward-Host", "Posthaste-X"}},
	} {
		s.post(c.path, "x", c.headers...).problem(422, c.code, c.fields...)
	}
	s.post("/v1/events?type=a", "x", "Idempotency-Key: "+long(255), "Posthaste-Order-Key: "+long(255), "Content-Type: "+long(255)).want(202)
	s.post("/v1/events?type="+long(128), "x").want(202)
	if n := len(s.get("/v1/events").ids()); n != 2 {
		t.Errorf("%d events were stored", n)
	}
}

// chunks hides the length of a body, so that it is sent in chunks.
type chunks struct{ io.Reader }

func TestTooLarge(t *testing.T) {
	s := start(t)
	body := strings.Repeat("x", maxPayloadBytes)
	s.send("a", body).want(202)
	s.do("POST", "/v1/events?type=a", chunks{strings.NewReader(body)}).want(202)
	s.send("a", body+"x").problem(413, "too_large")
	s.do("POST", "/v1/events?type=a", chunks{strings.NewReader(body + "x")}).problem(413, "too_large")
	s.post("/v1/endpoints", `{"description":"`+strings.Repeat("x", 300<<10)+`"}`).problem(413, "too_large")
}

func TestBodyThatDoesNotArrive(t *testing.T) {
	s := start(t, func(c *httpapi.Config) { c.BodyTimeout = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	must(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/events?type=a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 10\r\n\r\nhalf", s.key)
	must(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	raw, err := io.ReadAll(answer.Body)
	must(t, err)
	(&reply{t: t, what: "half a body", status: answer.StatusCode, header: answer.Header, body: raw}).problem(400, "unreadable")
	if !answer.Close {
		t.Error("the connection is kept")
	}
	if n := len(s.get("/v1/events").ids()); n != 0 {
		t.Errorf("%d events were stored", n)
	}
}

// A request that is refused before its body is read is a connection that nobody has
// to have a key for.
func TestBodyThatNobodyReads(t *testing.T) {
	s := start(t, func(c *httpapi.Config) { c.BodyTimeout = 50 * time.Millisecond })
	for _, line := range []string{"POST /v1/events?type=a", "POST /nowhere", "GET /livez", "DELETE /v1/events", "OPTIONS /v1/events"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		must(t, err)
		defer conn.Close()
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf", line)
		must(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("%s: the connection is still open: %v", line, err)
		}
	}
}

func TestResend(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	endpoint := s.endpoint(url, `,"event_types":["a"]`).text("id")
	event := s.send("a", "x").want(202).text("id")
	first := arrived(t, arrivals)
	r := s.post("/v1/events/"+event+"/resend", `{"endpoint_id":"`+endpoint+`"}`).want(201)
	second := arrived(t, arrivals)
	if second.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") || second.header.Get("Posthaste-Delivery-Id") != r.text("id") || string(second.body) != "x" {
		t.Errorf("first %v, second %v", first.header, second.header)
	}
	if r.header.Get("Location") != "/v1/deliveries/"+r.text("id") || r.text("event_id") != event || r.text("endpoint_id") != endpoint {
		t.Errorf("%s", r.body)
	}
	if n := len(s.get("/v1/deliveries?event_id=" + event).ids()); n != 2 {
		t.Errorf("%d deliveries", n)
	}
	nobody := "/v1/events/evt_" + strings.Repeat("0", 26) + "/resend"
	s.post(nobody, `{"endpoint_id":"`+endpoint+`"}`).problem(404, "not_found")
	for body, field := range map[string]string{`{}`: "endpoint_id", `{"endpoint_id":7}`: "endpoint_id", `{"endpoint_id":"x"}`: "endpoint_id", `{"endpoint":"x"}`: "endpoint",
		`{"endpoint_id":"ep_` + strings.Repeat("0", 26) + `"}`: "endpoint_id"} {
		s.post("/v1/events/"+event+"/resend", body).problem(422, "invalid", field)
	}
	s.post("/v1/events/"+event+"/resend", "").problem(400, "unreadable")
}
