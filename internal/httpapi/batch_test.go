package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// results are the answers to a batch's lines.
type results []struct {
	Status     int
	ID, Type   string
	Deliveries int
	Duplicate  bool
	Error      struct {
		Code, Detail, Hint string
		Status             int
		RequestID          string `json:"request_id"`
		Errors             []struct{ Field, Message, Hint, Code string }
	}
}

func (s *server) batch(body string, headers ...string) results {
	s.t.Helper()
	r := s.post("/v1/events/batch", body, headers...).want(200)
	var answer struct{ Results results }
	must(s.t, json.Unmarshal(r.body, &answer))
	for i, line := range answer.Results {
		if line.Status >= 400 && (line.Error.Status != line.Status || line.Error.Hint == "" || line.Error.RequestID != r.header.Get("Posthaste-Request-Id") || line.ID != "") {
			s.t.Errorf("result %d: %+v", i, line)
		}
	}
	return answer.Results
}

func TestBatchKeepsPayloadBytes(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	s.endpoint(url, "")
	for _, payload := range []string{
		`{ "a" :	1 , "a":  2 }`, `{"a":"\u00e9\ud83d\ude00é\/\\\""}`, `1e400`, `-0.0`, `9007199254740993`, `"\ud800"`, `null`, `true`, `""`, `[]`,
		`[ 1,	[ "]}" , {"\"]":"{["} ] ]`, "{\"a\":\r1}", `{"type":"not the line's","payload":0}`,
	} {
		for _, line := range []string{
			`{"type":"a","payload":` + payload + `}`, `{"payload":` + payload + `,"type":"a"}`, " { \"payload\" :\t" + payload + " \t,  \"\\u0074ype\":\"a\" } \r",
		} {
			if got := s.batch(line); len(got) != 1 || got[0].Status != 202 || got[0].Deliveries != 1 {
				t.Fatalf("%s: %+v", line, got)
			}
			if got := arrived(t, arrivals); string(got.body) != payload || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: arrived %q as %q", line, got.body, got.header.Get("Content-Type"))
			}
		}
	}
	binary := "\x00\xff\n{"
	for _, encoded := range []string{base64.StdEncoding.EncodeToString([]byte(binary)), `\u0041P8Kew==`} {
		got := s.batch(`{"type":"a","payload_base64":"` + encoded + `"}`)
		if a := arrived(t, arrivals); string(a.body) != binary || a.header.Get("Content-Type") != "application/octet-stream" || a.header.Get("Webhook-Id") != got[0].ID {
			t.Errorf("arrived %q as %q, %+v", a.body, a.header, got)
		}
	}
	s.batch(`{"type":"a","payload_base64":"","content_type":""}`)
	if a := arrived(t, arrivals); len(a.body) != 0 || a.header.Get("Content-Type") != "" {
		t.Errorf("arrived %q as %q", a.body, a.header.Get("Content-Type"))
	}
}

func TestWhatIsKeptWithALine(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	one := s.endpoint(url, `,"event_types":["nothing"]`).text("id")
	s.endpoint(url, "")
	const ofRequest, ofLine = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-11111111111111111111111111111111-2222222222222222-00"
	got := s.batch(`{"type":"a.b","payload":{},"content_type":"application/x+json","idempotency_key":"k","order_key":"o","traceparent":"`+ofLine+
		`","headers":{"x-trace":" abc "},"endpoints":["`+one+`","`+one+`"]}`, "Content-Type: application/x-ndjson", "traceparent: "+ofRequest)
	a := arrived(t, arrivals)
	if got[0].Deliveries != 1 || got[0].Type != "a.b" || a.header.Get("X-Trace") != "abc" || a.header.Get("Traceparent") != ofLine || a.header.Get("Posthaste-Event-Type") != "a.b" {
		t.Errorf("%+v arrived as %v", got, a.header)
	}
	event := s.get("/v1/events/" + got[0].ID).want(200)
	for field, want := range map[string]any{
		"content_type": "application/x+json", "idempotency_key": "k", "order_key": "o", "traceparent": ofLine, "source": "api", "payload_bytes": 2.0,
	} {
		if event.at(field) != want {
			t.Errorf("%s is %v, want %v", field, event.at(field), want)
		}
	}
	if event.text("headers", 0, "name") != "x-trace" || event.text("headers", 0, "value") != "abc" {
		t.Errorf("headers %v", event.at("headers"))
	}
	for given, want := range map[string]any{`null`: ofRequest, `"00-0"`: nil} {
		id := s.batch(`{"type":"a","payload":1,"traceparent":`+given+`,"headers":null,"endpoints":null,"idempotency_key":null}`, "traceparent: "+ofRequest)[0].ID
		if got := s.get("/v1/events/" + id).at("traceparent"); got != want {
			t.Errorf("traceparent %s is kept as %v, want %v", given, got, want)
		}
	}
}

// TestLinesStandAlone mixes every kind of bad line with good ones.
func TestLinesStandAlone(t *testing.T) {
	s := start(t)
	s.send("old", "1", "Idempotency-Key: taken").want(202)
	unknown := "ep_" + strings.Repeat("0", 26)
	const good = `{"type":"good","payload":1}`
	lines := []struct {
		line   string
		status int
		code   string
		fields string
	}{
		{`{"type":"a","payload":1`, 400, "unreadable", ""},
		{`{"type":"a","payload":{"a":1,}}`, 400, "unreadable", ""},
		{`{"type":"a","payload":1} {}`, 400, "unreadable", ""},
		{`{"type":"a","payload":"` + "\xff" + `"}`, 400, "unreadable", ""},
		{`{"type":"a","payload":01}`, 400, "unreadable", ""},
		{"{\"type\":\"a\",\"payload\":\"\t\"}", 400, "unreadable", ""},
		{strings.Repeat("[", 20000), 400, "unreadable", ""},
		{"\ufeff" + good, 400, "unreadable", ""},
		{`[]`, 422, "invalid", ""}, {`1`, 422, "invalid", ""}, {`null`, 422, "invalid", ""}, {`"{}"`, 422, "invalid", ""},
		{`{}`, 422, "invalid", "type payload"},
		{`{"type":"","payload":1}`, 422, "invalid", "type"},
		{`{"type":"a b","payload":1}`, 422, "invalid", "type"},
		{`{"type":7,"payload":1}`, 422, "invalid", "type"},
		{`{"type":null,"payload":1}`, 422, "invalid", "type"},
		{`{"Type":"a","payload":1}`, 422, "invalid", "Type type"},
		{`{"type":"a","type":"a","payload":1}`, 422, "invalid", "type"},
		{`{"type":"a","payload":1,"payload":2}`, 422, "invalid", "payload"},
		{`{"type":"a","payload":1,"data":2,"key":"x"}`, 422, "invalid", "data key"},
		{`{"type":"a","payload":1,"payload_base64":""}`, 422, "invalid", "payload_base64"},
		{`{"type":"a","payload_base64":"YQ"}`, 422, "invalid", "payload_base64"},
		{`{"type":"a","payload_base64":"YR=="}`, 422, "invalid", "payload_base64"},
		{`{"type":"a","payload_base64":{}}`, 422, "invalid", "payload_base64"},
		{`{"type":"a","payload":1,"content_type":1}`, 422, "invalid", "content_type"},
		{`{"type":"a","payload":1,"content_type":"a\nb"}`, 422, "invalid", "content_type"},
		{`{"type":"a","payload":1,"content_type":"` + strings.Repeat("x", 256) + `"}`, 422, "invalid", "content_type"},
		{`{"type":"a","payload":1,"idempotency_key":""}`, 422, "invalid", "idempotency_key"},
		{`{"type":"a","payload":1,"idempotency_key":"\ud800"}`, 422, "invalid", "idempotency_key"},
		{`{"type":"a","payload":1,"idempotency_key":"a\u0000"}`, 422, "invalid", "idempotency_key"},
		{`{"type":"a","payload":1,"idempotency_key":"` + strings.Repeat("x", 256) + `"}`, 422, "invalid", "idempotency_key"},
		{`{"type":"a","payload":1,"order_key":""}`, 422, "invalid", "order_key"},
		{`{"type":"a","payload":1,"traceparent":[]}`, 422, "invalid", "traceparent"},
		{`{"type":"a","payload":1,"deliver_at":"2030-01-01T00:00:00Z"}`, 422, "unsupported", "deliver_at"},
		{`{"type":"a","payload":1,"endpoints":[]}`, 422, "invalid", "endpoints"},
		{`{"type":"a","payload":1,"endpoints":"` + unknown + `"}`, 422, "invalid", "endpoints"},
		{`{"type":"a","payload":1,"endpoints":["x",7,"` + unknown + `"]}`, 422, "invalid", "endpoints[0] endpoints[1]"},
		{`{"type":"a","payload":1,"endpoints":["` + unknown + `"]}`, 422, "invalid", "endpoints"},
		{`{"type":"a","payload":1,"endpoints":[` + strings.Repeat(`"`+unknown+`",`, 1000) + `"` + unknown + `"]}`, 422, "invalid", "endpoints"},
		{`{"type":"new","payload":1,"idempotency_key":"taken"}`, 409, "idempotency_mismatch", ""},
		{`{"type":"old","payload":2,"idempotency_key":"taken"}`, 409, "idempotency_mismatch", ""},
		{`{"type":"old","payload":1,"idempotency_key":"taken"}`, 200, "", ""},
		{`{"type":"a","payload":"` + strings.Repeat("x", maxPayloadBytes) + `"}`, 413, "too_large", ""},
		{`{"type":"a b","payload":"` + strings.Repeat("x", maxPayloadBytes) + `"}`, 422, "invalid", "type payload"},
		{`{"type":"twice","payload":1,"idempotency_key":"in the batch"}`, 202, "", ""},
		{`{"type":"twice","payload":1,"idempotency_key":"in the batch"}`, 200, "", ""},
		{`{"type":"twice","payload":1.0,"idempotency_key":"in the batch"}`, 409, "idempotency_mismatch", ""},
	}
	var body strings.Builder
	accepted := 2 // "taken" and "in the batch"
	for i, l := range lines {
		body.WriteString(l.line + "\r\n" + good + "\n")
		if accepted++; i%10 == 0 {
			body.WriteString("\n \t\r\n")
		}
	}
	got := s.batch(body.String())
	if len(got) != 2*len(lines) {
		t.Fatalf("%d results, want %d", len(got), 2*len(lines))
	}
	for i, l := range lines {
		var fields []string
		for _, e := range got[2*i].Error.Errors {
			fields = append(fields, e.Field)
			if e.Message == "" || e.Hint == "" {
				t.Errorf("%.80s: %+v", l.line, e)
			}
		}
		if r := got[2*i]; r.Status != l.status || r.Error.Code != l.code || strings.Join(fields, " ") != l.fields {
			t.Errorf("%.80s: got %d %s %q, want %d %s %q (%s)", l.line, r.Status, r.Error.Code, fields, l.status, l.code, l.fields, r.Error.Detail)
		}
		if r := got[2*i+1]; r.Status != 202 || !strings.HasPrefix(r.ID, "evt_") {
			t.Errorf("the good line after %.80s: %+v", l.line, r)
		}
	}
	ids := map[string]bool{}
	for path := "/v1/events?limit=250"; path != ""; {
		r := s.get(path).want(200)
		for _, id := range r.ids() {
			ids[id] = true
		}
		if path = r.text("next"); path != "" {
			path = "/v1/events?limit=250&cursor=" + path
		}
	}
	if len(ids) != accepted {
		t.Errorf("%d events were stored, want %d", len(ids), accepted)
	}
}

func TestBatchLimits(t *testing.T) {
	s := start(t)
	if got := s.batch(""); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if got := s.batch("\n\r\n \n"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "{\"type\":\"a\",\"payload\":%d,\"idempotency_key\":\"%d\"}\n", i, i)
	}
	got := s.batch(lines.String() + "\n\n")
	for i, r := range got {
		if r.Status != 202 || i > 0 && r.ID <= got[i-1].ID {
			t.Fatalf("result %d: %+v", i, r)
		}
	}
	if len(got) != 1000 {
		t.Fatalf("%d results", len(got))
	}
	again := s.batch(lines.String())
	for i, r := range again {
		if r.Status != 200 || !r.Duplicate || r.ID != got[i].ID {
			t.Fatalf("result %d is %+v, was %+v", i, r, got[i])
		}
	}
	const more = `{"type":"more","payload":1}`
	s.post("/v1/events/batch", lines.String()+more).problem(413, "too_large")
	// A batch of 8 MiB whose lines are all within the limit of one event.
	line := `{"type":"a","payload":"` + strings.Repeat("x", 1<<20-26) + "\"}\n"
	full := strings.Repeat(line, 8)
	for i, r := range s.batch(full) {
		if r.Status != 202 {
			t.Errorf("line %d of %d bytes: %+v", i, len(line), r)
		}
	}
	s.post("/v1/events/batch", full+"\n").problem(413, "too_large")
	s.do("POST", "/v1/events/batch", chunks{strings.NewReader(full + "\n")}).problem(413, "too_large")
	if ids := s.get("/v1/events?type=more").ids(); len(ids) != 0 {
		t.Errorf("stored %v", ids)
	}
}

func TestBatchHeaders(t *testing.T) {
	s := start(t)
	const line = `{"type":"a","payload":1}`
	for _, c := range []struct {
		path, header, code, field string
	}{
		{"", "Posthaste-Event-Type: a", "invalid", "Posthaste-Event-Type"},
		{"", "Idempotency-Key: k", "invalid", "Idempotency-Key"},
		{"", "Posthaste-Forward-X-A: k", "invalid", "Posthaste-Forward-X-A"},
		{"", "Ce-Id: k", "invalid", "Ce-Id"},
		{"", "Content-Encoding: gzip", "unsupported", "Content-Encoding"},
		{"", "Content-Type: application/cloudevents+json", "unsupported", "Content-Type"},
		{"?type=a", "X: y", "invalid", "type"},
	} {
		s.post("/v1/events/batch"+c.path, line, c.header).problem(422, c.code, c.field)
	}
	for _, contentType := range []string{"application/x-ndjson", "application/jsonl; charset=utf-8", "application/x-www-form-urlencoded", ""} {
		if got := s.batch(line, "Content-Type: "+contentType, "Content-Encoding: identity"); len(got) != 1 || got[0].Status != 202 {
			t.Errorf("%s: %+v", contentType, got)
		}
	}
	s.post("/v1/tenants", `{"name":"acme"}`).want(201)
	id := s.batch(line, "Posthaste-Tenant: acme")[0].ID
	s.get("/v1/events/"+id, "Posthaste-Tenant: acme").want(200)
	s.get("/v1/events/"+id).problem(404, "not_found")
	s.post("/v1/events/batch", line, "Posthaste-Tenant: acmee").problem(404, "not_found")
	s.post("/v1/events/batch", line, "Authorization: Bearer nobody").problem(401, "unauthorized")
	if r := s.get("/v1/events/batch"); r.status != http.StatusMethodNotAllowed {
		t.Errorf("GET is answered with %d", r.status)
	}
}
