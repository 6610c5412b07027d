package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestBadGates: everything that is wrong with an endpoint's limits is told at once,
// by POST, PUT and PATCH alike, and each with a hint.
func TestBadGates(t *testing.T) {
	s := start(t)
	path := "/v1/endpoints/" + s.endpoint(anywhere, "").text("id")
	for members, fields := range map[string][]string{
		`"rate_limit":{"rps":0,"burst":0}`:                            {"rate_limit.rps", "rate_limit.burst"},
		`"rate_limit":{"rps":-1,"burst":-7}`:                          {"rate_limit.rps", "rate_limit.burst"},
		`"rate_limit":{"rps":0.0009,"burst":100001}`:                  {"rate_limit.rps", "rate_limit.burst"},
		`"rate_limit":{"rps":100001,"burst":1.5}`:                     {"rate_limit.burst", "rate_limit.rps"},
		`"rate_limit":{"rps":"NaN","burst":"many"}`:                   {"rate_limit.rps", "rate_limit.burst"},
		`"rate_limit":{"rps":1e400}`:                                  {"rate_limit.rps"},
		`"rate_limit":{"rps":NaN}`:                                    nil, // is not JSON
		`"rate_limit":{"burst":7}`:                                    {"rate_limit.rps"},
		`"rate_limit":{"rps":null}`:                                   {"rate_limit.rps"},
		`"rate_limit":{}`:                                             {"rate_limit.rps"},
		`"rate_limit":50`:                                             {"rate_limit"},
		`"rate_limit":{"rps":1,"per":"minute"}`:                       {"rate_limit.per"},
		`"retry":{"rps":0}`:                                           {"retry.rps"},
		`"retry":{"rps":-0.5,"timeout":"0s"}`:                         {"retry.timeout", "retry.rps"},
		`"retry":{"rps":1e9}`:                                         {"retry.rps"},
		`"ordered":true`:                                              {"ordered"},
		`"ordered":"key"`:                                             {"ordered"},
		`"breaker":{"threshold":0}`:                                   {"breaker.threshold"},
		`"breaker":{"threshold":10001}`:                               {"breaker.threshold"},
		`"breaker":{"threshold":-1,"reset":"99ms","reset_max":"25h"}`: {"breaker.threshold", "breaker.reset", "breaker.reset_max"},
		`"breaker":{"reset":"10m"}`:                                   {"breaker.reset_max"}, // the default is 5m
		`"breaker":{"reset":"25h","reset_max":"25h"}`:                 {"breaker.reset", "breaker.reset_max"},
		`"breaker":{"reset":30,"reset_max":"-5m"}`:                    {"breaker.reset", "breaker.reset_max"},
		`"breaker":{"reset":"9999999h"}`:                              {"breaker.reset"},
		`"breaker":false`:                                             {"breaker"},
		`"breaker":{"half_open":1}`:                                   {"breaker.half_open"},
		`"max_in_flight":-1`:                                          {"max_in_flight"},
		`"ordered":1,"rate_limit":{"rps":-1},"breaker":{"threshold":0},"typo":1`: {"ordered", "typo", "rate_limit.rps", "breaker.threshold"},
	} {
		body := fmt.Sprintf(`{"url":%q,%s}`, anywhere, members)
		for _, r := range []*reply{s.post("/v1/endpoints", body), s.patch(path, body), s.do("PUT", "/v1/endpoints/uid:x", strings.NewReader(body))} {
			if fields == nil {
				r.problem(400, "unreadable")
				continue
			}
			r.problem(422, "invalid", fields...)
		}
	}
	if n := len(s.get("/v1/endpoints").ids()); n != 1 {
		t.Errorf("%d endpoints", n)
	}
}

// settings compares what an endpoint's owner set with how the API shows it: each
// want is the JSON of one field.
func (r *reply) settings(wants ...string) *reply {
	r.t.Helper()
	for _, want := range wants {
		if !strings.Contains(string(r.body), want) {
			r.t.Errorf("%s: want %s in %s", r.what, want, r.body)
		}
	}
	return r
}

func TestGateSettingsRoundTrip(t *testing.T) {
	s := start(t)
	const (
		defaultBreaker = `"breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}`
		all            = `"rate_limit":{"rps":0.5,"burst":100000},"ordered":"endpoint","breaker":{"threshold":10000,"reset":"100ms","reset_max":"24h"}`
	)
	s.endpoint(anywhere, "").settings(`"rate_limit":null,"ordered":false,`+defaultBreaker, `"rps":null`)
	made := s.endpoint(anywhere, `,`+all+`,"retry":{"rps":0.001}`).settings(all, `"rps":0.001`)
	path := "/v1/endpoints/" + made.text("id")
	s.get(path).settings(all, `"rps":0.001`)
	// What was read can be written as it is, and says the same.
	read := s.get(path).json()
	again := s.do("PUT", "/v1/endpoints/uid:again", strings.NewReader(fmt.Sprintf(`{"url":%q,%s,"retry":{"rps":%v}}`, anywhere, all, read["retry"].(map[string]any)["rps"])))
	again.want(201).settings(all, `"rps":0.001`)

	// The burst follows the rate until it is set, and is shown either way.
	s.endpoint(anywhere, `,"rate_limit":{"rps":0.2}`).settings(`"rate_limit":{"rps":0.2,"burst":1}`)
	limited := s.endpoint(anywhere, `,"rate_limit":{"rps":2.5}`).settings(`"rate_limit":{"rps":2.5,"burst":3}`)
	path = "/v1/endpoints/" + limited.text("id")
	for _, step := range []struct{ patch, want string }{
		{`{"rate_limit":{"rps":50}}`, `"rate_limit":{"rps":50,"burst":50}`},
		{`{"rate_limit":{"burst":7}}`, `"rate_limit":{"rps":50,"burst":7}`},
		{`{"rate_limit":{"rps":60}}`, `"rate_limit":{"rps":60,"burst":7}`},
		{`{"description":"d"}`, `"rate_limit":{"rps":60,"burst":7}`},
		{`{"rate_limit":{"burst":null}}`, `"rate_limit":{"rps":60,"burst":60}`},
		{`{"rate_limit":null}`, `"rate_limit":null`},
		{`{"retry":{"rps":3}}`, `"rps":3`},
		{`{"retry":{"timeout":"5s"}}`, `"rps":3`},
		{`{"retry":null}`, `"rps":null`},
		{`{"retry":{"rps":3}}`, `"rps":3`},
		{`{"retry":{"rps":null}}`, `"rps":null`},
		{`{"ordered":"endpoint"}`, `"ordered":"endpoint"`},
		{`{"description":"e"}`, `"ordered":"endpoint"`},
		{`{"ordered":null}`, `"ordered":false`},
		{`{"breaker":{"threshold":3}}`, `"breaker":{"threshold":3,"reset":"30s","reset_max":"5m"}`},
		{`{"breaker":{"reset":"1s"}}`, `"breaker":{"threshold":3,"reset":"1s","reset_max":"5m"}`},
		{`{"breaker":{"threshold":null}}`, `"breaker":{"threshold":10,"reset":"1s","reset_max":"5m"}`},
		{`{"breaker":null}`, `"breaker":null`},
		{`{"description":"f","rate_limit":{"rps":1}}`, `"breaker":null`},
		{`{"breaker":{"threshold":4}}`, `"breaker":{"threshold":4,"reset":"30s","reset_max":"5m"}`},
		{`{"breaker":null}`, `"breaker":null`},
		{`{"breaker":{}}`, defaultBreaker},
	} {
		s.patch(path, step.patch).want(200).settings(step.want)
		s.get(path).settings(step.want)
	}

	put := func(members string) *reply {
		return s.do("PUT", path, strings.NewReader(fmt.Sprintf(`{"url":%q%s}`, anywhere, members))).want(200)
	}
	put(`,"breaker":null`).settings(`"breaker":null`)
	put(``).settings(defaultBreaker, `"rate_limit":null`)
	put(`,"breaker":{"reset":"2s"},"rate_limit":{"rps":9}`).settings(`"breaker":{"threshold":10,"reset":"2s","reset_max":"5m"}`, `"rate_limit":{"rps":9,"burst":9}`)
}

// TestDocumentLetsSettingsBeOff: what null turns off, the document has as null, in
// requests and in answers, and nothing that never is.
func TestDocumentLetsSettingsBeOff(t *testing.T) {
	s := start(t)
	for name, wants := range map[string]map[string]bool{
		"Endpoint":              {"rate_limit": true, "breaker": true, "uid": true, "signature": false, "retry": false, "ordered": false, "event_types": false},
		"CreateEndpointRequest": {"rate_limit": true, "breaker": true, "uid": true, "signature": true, "retry": true, "ordered": true, "event_types": true, "url": false},
		"RetryPolicy":           {"rps": true, "timeout": false, "schedule": false},
	} {
		schema := s.spec.Components.Schemas[name]
		if schema == nil {
			t.Errorf("there is no schema %s", name)
			continue
		}
		for field, want := range wants {
			if got := len(s.spec.validate(schema.Properties[field], nil, field)) == 0; got != want {
				t.Errorf("%s: %s may be null: %t, want %t", name, field, got, want)
			}
		}
	}
	limit := s.spec.Components.Schemas["Endpoint"].Properties["rate_limit"]
	if len(s.spec.validate(limit, map[string]any{"rps": "many"}, "rate_limit")) == 0 {
		t.Error("the document lets a rate be a word")
	}
}

// gateOf reads the gate of an endpoint.
func (s *server) gateOf(id string) map[string]any {
	s.t.Helper()
	return s.get("/v1/endpoints/" + id).want(200).at("gate").(map[string]any)
}

func TestGateIsShown(t *testing.T) {
	s := start(t)
	var answer atomic.Int64
	answer.Store(500)
	probing := make(chan bool)
	url, arrivals := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		if answer.Load() == 0 {
			<-probing
			return
		}
		w.WriteHeader(int(answer.Load()))
	})
	id := s.endpoint(url, `,"retry":{"schedule":["1ms","1ms","1ms"],"jitter":0},"breaker":{"threshold":2,"reset":"100ms","reset_max":"100ms"}`).text("id")
	path := "/v1/endpoints/" + id
	if g := s.gateOf(id); g["state"] != "closed" || g["reason"] != nil || g["until"] != nil || g["consecutive_failures"] != 0.0 {
		t.Errorf("a new one: %v", g)
	}
	s.patch(path, `{"breaker":{"reset":"1h","reset_max":"1h"}}`).want(200)
	s.send("a", "x").want(202)
	s.until("open", func() bool { return s.gateOf(id)["state"] == "open" })
	g := s.gateOf(id)
	until, err := time.Parse(time.RFC3339, fmt.Sprint(g["until"]))
	if err != nil || g["consecutive_failures"] != 2.0 || !strings.Contains(fmt.Sprint(g["reason"]), "2 transient failures") || time.Until(until) < 59*time.Minute || time.Until(until) > time.Hour {
		t.Errorf("an open one: %v", g)
	}
	if r := s.get("/v1/endpoints").want(200); r.text("data", 0, "id") != id || fmt.Sprint(r.at("data", 0, "gate")) != fmt.Sprint(g) {
		t.Errorf("in the list: %s", r.body)
	}
	if r := s.patch(path, `{"description":"d"}`).want(200); r.text("gate", "state") != "open" || r.at("gate", "until") != g["until"] {
		t.Errorf("in the answer to PATCH: %s", r.body)
	}
	if r := s.post(path+"/pause", "").want(200); r.text("gate", "state") != "paused" {
		t.Errorf("a paused one: %s", r.body)
	}
	if r := s.post(path+"/resume", "").want(200); r.text("gate", "state") != "open" {
		t.Errorf("after a pause: %s", r.body)
	}
	if r := s.patch(path, `{"enabled":false}`).want(200); r.text("gate", "state") != "disabled" || r.text("gate", "reason") != "by request" {
		t.Errorf("a disabled one: %s", r.body)
	}
	if r := s.patch(path, `{"enabled":true,"breaker":null}`).want(200); r.text("gate", "state") != "closed" || r.at("gate", "until") != nil {
		t.Errorf("without a breaker: %s", r.body)
	}
	for range 3 { // the two that opened it, and at least one after
		arrived(t, arrivals)
	}

	// One probe at a time, whose answer decides.
	answer.Store(500)
	id = s.endpoint(url, `,"event_types":["b"],"retry":{"schedule":["1ms"`+strings.Repeat(`,"1ms"`, 40)+`],"jitter":0},"breaker":{"threshold":1,"reset":"100ms","reset_max":"100ms"}`).text("id")
	s.send("b", "x").want(202)
	s.until("open", func() bool { return s.gateOf(id)["state"] == "open" })
	answer.Store(0)
	s.until("half open", func() bool { return s.gateOf(id)["state"] == "half_open" })
	if g := s.gateOf(id); g["consecutive_failures"] == 0.0 || g["reason"] == nil {
		t.Errorf("a half open one: %v", g)
	}
	answer.Store(200)
	close(probing)
	s.until("closed", func() bool { return s.gateOf(id)["state"] == "closed" })
	if g := s.gateOf(id); g["consecutive_failures"] != 0.0 || g["reason"] != nil || g["until"] != nil {
		t.Errorf("closed again: %v", g)
	}
}

func TestRetryAfterIsShown(t *testing.T) {
	s := start(t)
	url, _ := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(429)
	})
	id := s.endpoint(url, "").text("id")
	s.send("a", "x").want(202)
	s.until("held", func() bool { return s.gateOf(id)["until"] != nil })
	g := s.gateOf(id)
	until, err := time.Parse(time.RFC3339, fmt.Sprint(g["until"]))
	if err != nil || g["state"] != "closed" || g["consecutive_failures"] != 0.0 || !strings.Contains(fmt.Sprint(g["reason"]), "Retry-After") || time.Until(until) < 9*time.Minute || time.Until(until) > 10*time.Minute {
		t.Errorf("%v", g)
	}
	s.send("a", "behind it").want(202)
	for _, d := range s.get("/v1/deliveries?status=pending").ids() {
		if r := s.get("/v1/deliveries/" + d); r.at("held_by") != "retry_after" || r.at("next_attempt_at") == nil {
			t.Errorf("what holds it is not shown: %s", r.body)
		}
	}
	s.post("/v1/endpoints/"+id+"/pause", "").want(200)
	waiting := s.get("/v1/deliveries?status=pending").ids()
	if r := s.get("/v1/deliveries/" + waiting[0]); r.at("held_by") != "paused" || r.at("next_attempt_at") != nil || len(waiting) != 2 {
		t.Errorf("%d wait; paused: %s", len(waiting), r.body)
	}
	s.post("/v1/endpoints/"+id+"/resume", "").want(200)
	if r := s.patch("/v1/endpoints/"+id, `{"url":"`+anywhere+`"}`).want(200); r.at("gate", "until") != nil {
		t.Errorf("another URL is held too: %s", r.body)
	}
}

func TestSkip(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	endpoint := s.endpoint(url, `,"ordered":"endpoint"`).text("id")
	s.post("/v1/endpoints/"+endpoint+"/pause", "").want(200)
	s.send("a", "skipped").want(202)
	id := s.get("/v1/deliveries").ids()[0]
	path := "/v1/deliveries/" + id + "/skip"
	second := s.send("a", "delivered").want(202).text("id")

	s.post("/v1/tenants", `{"name":"acme"}`).want(201)
	s.post(path, "", "Posthaste-Tenant: acme").problem(404, "not_found")
	s.post("/v1/deliveries/dlv_00000000000000000000000000/skip", "").problem(404, "not_found")
	s.post("/v1/deliveries/"+endpoint+"/skip", "").problem(404, "not_found")
	s.post(path, `{"now":true}`).problem(422, "invalid", "now")
	s.post(path, `[]`).problem(422, "invalid", "")
	s.post(path, `{`).problem(400, "unreadable")
	s.post(path+"?x=1", "").problem(422, "invalid", "x")
	if d := s.get("/v1/deliveries/" + id); d.text("status") != "pending" {
		t.Errorf("what was refused had an effect: %s", d.body)
	}

	if r := s.post(path, "{}").want(200); r.text("status") != "dead" || r.text("reason") != "skipped" {
		t.Errorf("%s", r.body)
	}
	if d := s.get("/v1/deliveries/" + id); d.text("status") != "dead" || d.text("reason") != "skipped" || d.at("attempt_count") != 0.0 || d.text("finished_at") == "" {
		t.Errorf("%s", d.body)
	}
	s.post(path, "").problem(409, "not_pending")
	s.post("/v1/endpoints/"+endpoint+"/resume", "").want(200)
	if got := arrived(t, arrivals); string(got.body) != "delivered" || got.header.Get("Webhook-Id") != second {
		t.Errorf("%q of %s arrived", got.body, got.header.Get("Webhook-Id"))
	}
	s.until("delivered", func() bool { return len(s.get("/v1/deliveries?status=delivered").ids()) == 1 })
	s.post("/v1/deliveries/"+s.get("/v1/deliveries?status=delivered").ids()[0]+"/skip", "").problem(409, "not_pending")
	s.post("/v1/deliveries/"+id+"/replay", "").want(200) // what was skipped can be brought back
	if got := arrived(t, arrivals); string(got.body) != "skipped" {
		t.Errorf("%q arrived", got.body)
	}
}
