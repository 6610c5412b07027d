package httpapi_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste/signature"
)

const anywhere = "https://example.com/hooks"

func TestEndpointLife(t *testing.T) {
	s := start(t)
	made := s.endpoint(anywhere, `,"description":"d","event_types":["invoice.*"],"headers":{"X-A":"1"}`)
	id, path := made.text("id"), "/v1/endpoints/"+made.text("id")
	if secret := made.text("secret"); signature.CheckStandard(secret) != nil || made.header.Get("Location") != path || made.header.Get("ETag") != `"1"` || made.header.Get("Cache-Control") != "no-store" {
		t.Errorf("secret %q, headers %v", secret, made.header)
	}
	read := s.get(path).want(200)
	for field, want := range map[string]any{"id": id, "url": anywhere, "description": "d", "enabled": true, "max_in_flight": 256.0, "version": 1.0, "secret": nil} {
		if read.at(field) != want {
			t.Errorf("%s is %v, want %v", field, read.at(field), want)
		}
	}
	if read.text("retry", "schedule", 1) != "5m" || read.text("signature", "scheme") != "standard" || read.text("headers", "X-A") != "1" || read.text("gate", "state") != "closed" {
		t.Errorf("%s", read.body)
	}
	if strings.Contains(string(read.body), "whsec_") {
		t.Error("the secret is shown again")
	}

	s.patch(path, `{"description":null,"headers":{"X-B":"2","X-A":null},"retry":{"jitter":0},"max_in_flight":1}`).want(200)
	changed := s.get(path).want(200)
	if changed.text("description") != "" || changed.at("headers", "X-A") != nil || changed.text("headers", "X-B") != "2" ||
		changed.at("retry", "jitter") != 0.0 || changed.text("retry", "timeout") != "15s" || changed.at("max_in_flight") != 1.0 ||
		changed.text("event_types", 0) != "invoice.*" || changed.header.Get("ETag") != `"2"` {
		t.Errorf("%s, ETag %s", changed.body, changed.header.Get("ETag"))
	}

	gate := func(want string) { // as the API tells it everywhere
		t.Helper()
		if got := s.get(path).text("gate", "state"); got != want {
			t.Errorf("the gate is %s, want %s", got, want)
		}
	}
	s.post(path+"/pause", "").want(200)
	gate("paused")
	s.patch(path, `{"enabled":false}`).want(200)
	gate("disabled")
	if r := s.get(path); r.at("enabled") != false || r.text("gate", "reason") != "by request" {
		t.Errorf("%s", r.body)
	}
	s.patch(path, `{"enabled":null}`).want(200)
	gate("paused")
	s.post(path+"/resume", "{}").want(200)
	gate("closed")

	if ids := s.get("/v1/endpoints").ids(); len(ids) != 1 || ids[0] != id {
		t.Errorf("listed %v", ids)
	}
	if r := s.do("DELETE", path, nil).want(204); len(r.body) != 0 {
		t.Errorf("%q", r.body)
	}
	s.do("DELETE", path, nil).problem(404, "not_found")
	if r := s.get(path).want(200); r.text("deleted_at") == "" || r.text("gate", "state") != "disabled" || r.text("gate", "reason") != "deleted" || r.header.Get("ETag") != `"7"` {
		t.Errorf("a deleted one: %s, ETag %s", r.body, r.header.Get("ETag"))
	}
	s.patch(path, `{}`).problem(404, "not_found")
	s.post(path+"/pause", "").problem(404, "not_found")
	s.post(path+"/test", "").problem(404, "not_found")
	s.do("PUT", path, strings.NewReader(`{"url":"`+anywhere+`"}`)).problem(404, "not_found")
	s.post(path+"/rotate-secret", "").problem(404, "not_found")
	if ids := s.get("/v1/endpoints").ids(); len(ids) != 0 {
		t.Errorf("listed %v", ids)
	}
	if ids := s.get("/v1/endpoints?deleted=true").ids(); len(ids) != 1 || ids[0] != id {
		t.Errorf("listed with deleted ones %v", ids)
	}
}

func TestBadEndpoints(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		body, code string
		fields     []string
	}{
		{`{}`, "invalid", []string{"url"}},
		{`{"url":null}`, "invalid", []string{"url"}},
		{`{"url":7}`, "invalid", []string{"url"}},
		{`{"url":"http://example.com/"}`, "", nil}, // may lie in an allowed network: judged when it is dialled
		{`{"url":"http://93.184.216.34/"}`, "invalid", []string{"url"}},
		{`{"url":"https://10.0.0.1/"}`, "invalid", []string{"url"}},
		{`{"url":"https://u:p@example.com/"}`, "invalid", []string{"url"}},
		{`{"url":"file:///etc/passwd"}`, "invalid", []string{"url"}},
		{`{"url":"https://bücher.example/"}`, "invalid", []string{"url"}},
		{`{"url":"https:///x"}`, "invalid", []string{"url"}},
		{`{"url":"https://example.com:0/"}`, "invalid", []string{"url"}},
		{`{"url":"` + anywhere + `","typo":1,"retry":{"schedul":[]}}`, "invalid", []string{"typo", "retry.schedul"}},
		{`{"url":"` + anywhere + `","url":"` + anywhere + `"}`, "invalid", []string{"url"}},
		{`{"url":"` + anywhere + `","description":"a\u0000b"}`, "invalid", []string{"description"}},
		{`{"url":"` + anywhere + `","event_types":[]}`, "invalid", []string{"event_types"}},
		{`{"url":"` + anywhere + `","event_types":["*.a",null,"b"]}`, "invalid", []string{"event_types[1]", "event_types[0]"}},
		{`{"url":"` + anywhere + `","headers":{"Host":"x","X":1,"Bad Name":"y","V":"a\nb"}}`, "invalid", []string{"headers.X", "headers.Bad Name", "headers.Host", "headers.V"}},
		{`{"url":"` + anywhere + `","retry":{"schedule":["soon","0s","721h"],"timeout":"6m","deadline":"720h","jitter":2,"transient":["200","5xx"]}}`, "invalid",
			[]string{"retry.schedule[0]", "retry.schedule[1]", "retry.schedule[2]", "retry.jitter", "retry.timeout", "retry.deadline", "retry.transient[0]"}},
		{`{"url":"` + anywhere + `","max_in_flight":0}`, "invalid", []string{"max_in_flight"}},
		{`{"url":"` + anywhere + `","signature":{"scheme":"md5"}}`, "invalid", []string{"signature.scheme"}},
		{`{"url":"` + anywhere + `","signature":{"scheme":"hex"}}`, "invalid", []string{"signature.headers.timestamp", "signature.headers.signature"}},
		{`{"url":"` + anywhere + `","signature":{"scheme":"standard-ed25519"}}`, "unsupported", []string{"signature.scheme"}},
		{`{"url":"` + anywhere + `","secret":""}`, "invalid", []string{"secret"}},
		{`{"url":"` + anywhere + `","secret":"whsec_short"}`, "invalid", []string{"secret"}},
		{`{"url":"` + anywhere + `","secret":"no prefix 0123456789012345"}`, "invalid", []string{"secret"}},
		{`{"url":"` + anywhere + `","secret":"fifteen bytes..","signature":{"scheme":"hex","headers":{"timestamp":"X-T","signature":"X-S"}}}`, "invalid", []string{"secret"}},
		{`{"url":"` + anywhere + `","filter":"payload.a > 1"}`, "unsupported", []string{"filter"}},
		{`{"url":"` + anywhere + `","uid":"a/b","metadata":{"":"x","a":"` + strings.Repeat("v", 513) + `"}}`, "invalid", []string{"uid", "metadata.", "metadata.a"}},
		{`{"url":"` + anywhere + `","uid":1,"metadata":{"a":1}}`, "invalid", []string{"uid", "metadata.a"}},
		{`{"url":"","filter":"x","max_in_flight":"many"}`, "invalid", []string{"filter", "max_in_flight", "url"}},
	} {
		r := s.post("/v1/endpoints", c.body)
		if c.code == "" {
			r.want(201)
			continue
		}
		r.problem(422, c.code, c.fields...)
		if strings.Contains(string(r.body), "u:p@") || strings.Contains(string(r.body), "0123456789012345") {
			t.Errorf("a secret is repeated: %s", r.body)
		}
	}
	for _, body := range []string{"", "{", "[1", "\xff", `{"url":"` + anywhere + `"}}`} {
		s.post("/v1/endpoints", body).problem(400, "unreadable")
	}
	for _, body := range []string{"[]", `"x"`, "null", "7"} {
		if r := s.post("/v1/endpoints", body); r.status != 422 {
			t.Errorf("%s: %d", body, r.status)
		}
	}
	s.post("/v1/endpoints?dry_run=1", `{"url":"`+anywhere+`"}`).problem(422, "invalid", "dry_run")
	// What asks for nothing is no request for something that is not built.
	s.endpoint(anywhere, `,"filter":"","rate_limit":null,"ordered":false,"breaker":null,"uid":"","metadata":{},"retry":{"rps":null}`)
}

func TestBadPatches(t *testing.T) {
	s := start(t)
	path := "/v1/endpoints/" + s.endpoint(anywhere, "").text("id")
	hex := "/v1/endpoints/" + s.endpoint(anywhere, `,"secret":"0123456789abcdef","signature":{"scheme":"hex","headers":{"timestamp":"X-T","signature":"X-S"}}`).text("id")
	s.patch(path, `{"url":"ftp://x/","max_in_flight":0,"typo":1,"filter":"x"}`).problem(422, "invalid", "typo", "filter", "url", "max_in_flight")
	s.patch(path, `{"secret":"whsec_"}`).problem(422, "invalid", "secret")
	s.patch(path, `{"uid":" ","metadata":[]}`).problem(422, "invalid", "metadata", "uid")
	s.patch(path, `{"url":null}`).problem(422, "invalid", "url")
	s.patch(path, `[]`).problem(422, "invalid", "")
	s.patch(path, `{`).problem(400, "unreadable")
	s.patch(path, ``).problem(400, "unreadable")
	s.patch(hex, `{"signature":null}`).problem(422, "invalid", "signature.scheme")
	s.patch(hex, `{"signature":{"headers":{"signature":null}}}`).problem(422, "invalid", "signature.headers.signature")
	s.patch(path, `{"signature":{"scheme":"hex","headers":{"timestamp":"X-T","signature":"X-S"}}}`).want(200)
	if r := s.get(path); r.header.Get("ETag") != `"2"` {
		t.Errorf("a refused change raised the version: %s", r.body)
	}
	s.post(path+"/pause", `{"for":"1h"}`).problem(422, "invalid", "for")
}

func TestPausedEndpointHoldsItsDeliveries(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	path := "/v1/endpoints/" + s.endpoint(url, "").text("id")
	s.post(path+"/pause", "").want(200)
	event := s.send("a", "x").want(202)
	if event.at("deliveries") != 1.0 {
		t.Errorf("%s", event.body)
	}
	waiting := s.get("/v1/deliveries?status=pending").want(200)
	if len(waiting.ids()) != 1 || len(arrivals) != 0 {
		t.Errorf("%s, %d arrived", waiting.body, len(arrivals))
	}
	s.post(path+"/resume", "").want(200)
	if got := arrived(t, arrivals); got.header.Get("Webhook-Id") != event.text("id") {
		t.Errorf("%v", got.header)
	}
}

func TestDisabledEndpointGetsNothingNew(t *testing.T) {
	s := start(t)
	id := s.endpoint(anywhere, `,"enabled":false`).text("id")
	if r := s.send("a", "x").want(202); r.at("deliveries") != 0.0 {
		t.Errorf("%s", r.body)
	}
	if r := s.send("a", "x", "Posthaste-Endpoint: "+id).want(202); r.at("deliveries") != 0.0 {
		t.Errorf("%s", r.body)
	}
}

func TestTestEvent(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	path := "/v1/endpoints/" + s.endpoint(url, `,"event_types":["invoice.*"]`).text("id") + "/test"
	s.endpoint(url, "") // subscribes to all, and gets none of these
	for _, c := range []struct{ body, eventType, payload string }{
		{"", "posthaste.test", `{"message":"A test event from Posthaste."}`},
		{"{}", "posthaste.test", `{"message":"A test event from Posthaste."}`},
		{`{"type":"a.b","payload": { "n" : 9007199254740993 } }`, "a.b", `{ "n" : 9007199254740993 }`},
		{`{"payload":"x"}`, "posthaste.test", `"x"`},
	} {
		if r := s.post(path, c.body).want(202); r.at("deliveries") != 1.0 || r.text("type") != c.eventType {
			t.Errorf("%s", r.body)
		}
		got := arrived(t, arrivals)
		if string(got.body) != c.payload || got.header.Get("Posthaste-Event-Type") != c.eventType || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%q arrived, %v", got.body, got.header)
		}
	}
	s.post(path, `{"type":"a b"}`).problem(422, "invalid", "type")
	s.post(path, `{"type":1,"data":{}}`).problem(422, "invalid", "type", "data")
	if len(arrivals) != 0 {
		t.Errorf("%d more arrived", len(arrivals))
	}
}

func TestSecretOfOnesOwnSigns(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a secret of thirty-two bytes ok!"))
	if r := s.endpoint(url, fmt.Sprintf(`,"secret":%q`, secret)); r.text("secret") != secret {
		t.Errorf("%s", r.body)
	}
	s.send("a", "x").want(202)
	verifier, err := signature.NewStandard(secret)
	must(t, err)
	got := arrived(t, arrivals)
	header := http.Header{}
	for name, values := range got.header {
		header[name] = values
	}
	if err := verifier.Verify(header, got.body, now()); err != nil {
		t.Error(err)
	}
}
