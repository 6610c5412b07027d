package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func (s *server) put(path, body string, headers ...string) *reply {
	s.t.Helper()
	return s.do("PUT", path, strings.NewReader(body), headers...)
}

const mine = "/v1/endpoints/uid:crm:42"

func TestPutEndpoint(t *testing.T) {
	s := start(t)
	body := `{"url":"` + anywhere + `","event_types":["a.*"],"metadata":{"plan":"gold"},"max_in_flight":3}`
	made := s.put(mine, body).want(201)
	id := made.text("id")
	if made.text("uid") != "crm:42" || made.text("metadata", "plan") != "gold" || made.text("secret") == "" || made.header.Get("ETag") != `"1"` ||
		made.header.Get("Location") != "/v1/endpoints/"+id || made.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s %v", made.body, made.header)
	}
	for range 2 { // the same again changes nothing
		if again := s.put(mine, body).want(200); again.text("id") != id || again.at("version") != 1.0 || again.at("secret") != nil {
			t.Errorf("%s", again.body)
		}
	}
	if again := s.put(mine, strings.Replace(body, `{"url"`, `{"uid":"crm:42","secret":"`+made.text("secret")+`","url"`, 1)).want(200); again.at("version") != 1.0 {
		t.Errorf("with the present secret: %s", again.body)
	}
	if r := s.get(mine).want(200); r.text("id") != id {
		t.Errorf("%s", r.body)
	}
	// What is left out goes back to its default, a pause and its secret stay.
	s.post(mine+"/pause", "").want(200)
	replaced := s.put(mine, `{"url":"https://example.com/other"}`).want(200)
	if replaced.text("id") != id || replaced.text("url") != "https://example.com/other" || replaced.text("event_types", 0) != "*" || replaced.at("metadata", "plan") != nil ||
		replaced.at("max_in_flight") != 256.0 || replaced.text("uid") != "crm:42" || replaced.text("gate", "state") != "paused" || replaced.at("version") != 3.0 {
		t.Errorf("%s", replaced.body)
	}
	s.put("/v1/endpoints/"+id, `{"url":"`+anywhere+`","uid":"crm:42"}`).want(200)

	s.put(mine, `{"url":"`+anywhere+`","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`).problem(422, "invalid", "secret")
	s.put(mine, `{"url":"`+anywhere+`","uid":"other"}`).problem(422, "invalid", "uid")
	s.put(mine, `{"event_types":[]}`).problem(422, "invalid", "url", "event_types")
	s.put("/v1/endpoints/uid:new", `{"url":"`+anywhere+`","secret":"x"}`).problem(422, "invalid", "secret")
	s.put("/v1/endpoints/uid:a%20b", `{"url":"`+anywhere+`"}`).problem(422, "invalid", "uid")
	s.put("/v1/endpoints/uid:", `{"url":"`+anywhere+`"}`).problem(422, "invalid", "uid")
	s.put("/v1/endpoints/ep_"+none26, `{"url":"`+anywhere+`"}`).problem(404, "not_found")
	s.put(mine, `{`).problem(400, "unreadable")
	s.put(mine+"?x=1", `{"url":"`+anywhere+`"}`).problem(422, "invalid", "x")
	if n := len(s.get("/v1/endpoints").ids()); n != 1 {
		t.Errorf("%d endpoints", n)
	}
}

// If-None-Match: * makes an object and never replaces one.
func TestPutOnlyToMake(t *testing.T) {
	s := start(t)
	s.post("/v1/tenants", `{"name":"acme","uid":"t"}`).want(201)
	for path, body := range map[string]string{
		mine: `{"url":"` + anywhere + `"}`, "/v1/sources/uid:s": `{"provider":"none"}`, "/v1/tenants/uid:new": `{"name":"new"}`,
	} {
		s.put(path, body, "If-None-Match: *").want(201)
		s.put(path, body, "If-None-Match: *").problem(412, "precondition_failed")
		s.put(path, body).want(200)
	}
	s.put("/v1/tenants/acme", `{}`, "If-None-Match: *").problem(412, "precondition_failed")
}

// An endpoint's uid stands wherever its id does.
func TestUIDInThePlaceOfAnID(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	id := s.endpoint(url, `,"uid":"crm:42","event_types":["other"]`).text("id")
	s.endpoint(url, `,"uid":"second","event_types":["other"]`)
	event := s.send("a", "x", "Posthaste-Endpoint: uid:crm:42, uid:second, "+id, "Posthaste-Endpoint: uid:second").want(202)
	if event.at("deliveries") != 2.0 {
		t.Errorf("%s", event.body)
	}
	arrived(t, arrivals)
	arrived(t, arrivals)
	batch := s.post("/v1/events/batch", `{"type":"a","payload":1,"endpoints":["uid:crm:42"]}`+"\n"+
		`{"type":"a","payload":1,"endpoints":["uid:nobody"]}`+"\n"+`{"type":"a","payload":1,"endpoints":["uid:a b"]}`).want(200)
	if batch.at("results", 0, "deliveries") != 1.0 || batch.text("results", 1, "error", "errors", 0, "field") != "endpoints" ||
		batch.text("results", 2, "error", "errors", 0, "field") != "endpoints[0]" {
		t.Errorf("%s", batch.body)
	}
	arrived(t, arrivals)
	if again := s.post("/v1/events/"+event.text("id")+"/resend", `{"endpoint_id":"uid:crm:42"}`).want(201); again.text("endpoint_id") != id {
		t.Errorf("%s", again.body)
	}
	arrived(t, arrivals)
	if n := len(s.get("/v1/deliveries?endpoint_id=uid:crm:42").ids()); n != 3 {
		t.Errorf("%d deliveries", n)
	}

	s.send("a", "x", "Posthaste-Endpoint: uid:nobody").problem(422, "invalid", "Posthaste-Endpoint")
	s.send("a", "x", "Posthaste-Endpoint: uid:").problem(422, "invalid", "Posthaste-Endpoint")
	s.post("/v1/events/"+event.text("id")+"/resend", `{"endpoint_id":"uid:nobody"}`).problem(422, "invalid", "endpoint_id")
	s.get("/v1/deliveries?endpoint_id=uid:nobody&status=x").problem(422, "invalid", "status", "endpoint_id")
	s.get("/v1/deliveries?endpoint_id=uid:crm:42", "Posthaste-Tenant: *").problem(422, "invalid", "Posthaste-Tenant")
	// The uid of a deleted endpoint is another's from then on.
	s.do("DELETE", mine, nil).want(204)
	s.send("a", "x", "Posthaste-Endpoint: uid:crm:42").problem(422, "invalid", "Posthaste-Endpoint")
	next := s.endpoint(url, `,"uid":"crm:42","event_types":["other"]`).text("id")
	s.send("a", "x", "Posthaste-Endpoint: uid:crm:42").want(202)
	arrived(t, arrivals)
	if n := len(s.get("/v1/deliveries?endpoint_id=" + next).ids()); n != 1 {
		t.Errorf("%d deliveries of the new one", n)
	}
}

func TestPutLeavesADisabledEndpointDisabledUnlessToldOtherwise(t *testing.T) {
	s := start(t)
	s.put(mine, `{"url":"`+anywhere+`","enabled":false}`).want(201)
	if r := s.put(mine, `{"url":"`+anywhere+`"}`).want(200); r.at("enabled") != false || r.at("version") != 1.0 {
		t.Errorf("%s", r.body)
	}
	if r := s.put(mine, `{"url":"`+anywhere+`","enabled":true}`).want(200); r.at("enabled") != true {
		t.Errorf("%s", r.body)
	}
}

func TestConcurrentPutsMakeOneEndpoint(t *testing.T) {
	s := start(t)
	var mu sync.Mutex
	made, ids := 0, map[string]bool{}
	var puts sync.WaitGroup
	for range 50 {
		puts.Go(func() {
			r := s.put(mine, `{"url":"`+anywhere+`"}`)
			mu.Lock()
			defer mu.Unlock()
			if r.status == 201 {
				made++
			} else if r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
			ids[r.text("id")] = true
		})
	}
	puts.Wait()
	if r := s.get(mine).want(200); made != 1 || len(ids) != 1 || r.at("version") != 1.0 {
		t.Errorf("made %d, ids %v: %s", made, ids, r.body)
	}
}

func TestUIDs(t *testing.T) {
	s := start(t)
	s.post("/v1/tenants", `{"name":"acme"}`).want(201)
	one := s.endpoint(anywhere, `,"uid":"one"`).text("id")
	s.post("/v1/endpoints", `{"url":"`+anywhere+`","uid":"one"}`).problem(409, "conflict")
	s.post("/v1/endpoints", `{"url":"`+anywhere+`","uid":"one"}`, "Posthaste-Tenant: acme").want(201)
	two := s.endpoint(anywhere, "").text("id")
	s.patch("/v1/endpoints/"+two, `{"uid":"one"}`).problem(409, "conflict")
	s.patch("/v1/endpoints/"+two, `{"uid":"two","metadata":{"a":"1","b":"2"}}`).want(200)
	if r := s.patch("/v1/endpoints/uid:two", `{"metadata":{"a":null,"c":"3"}}`).want(200); r.text("id") != two || fmt.Sprint(r.at("metadata")) != "map[b:2 c:3]" {
		t.Errorf("%s", r.body)
	}
	if r := s.patch("/v1/endpoints/uid:two", `{"metadata":{"b":"2"}}`).want(200); r.at("version") != 3.0 {
		t.Errorf("a change of nothing makes a version: %s", r.body)
	}
	if r := s.patch("/v1/endpoints/uid:two", `{"uid":null,"metadata":null}`).want(200); r.at("uid") != nil || fmt.Sprint(r.at("metadata")) != "map[]" {
		t.Errorf("%s", r.body)
	}
	s.get("/v1/endpoints/uid:two").problem(404, "not_found")
	for _, path := range []string{"uid:", "uid:none", "uid:%00", "uid:a%2fb", "uid:" + strings.Repeat("x", 200)} {
		s.get("/v1/endpoints/"+path).problem(404, "not_found")
		s.do("DELETE", "/v1/endpoints/"+path, nil).problem(404, "not_found")
	}
	s.post("/v1/endpoints/uid:one/pause", "").want(200)
	s.post("/v1/endpoints/uid:one/resume", "").want(200)
	s.post("/v1/endpoints/uid:one/test", "").want(202)
	s.do("DELETE", "/v1/endpoints/uid:one", nil).want(204)
	s.get("/v1/endpoints/uid:one").problem(404, "not_found")
	if r := s.get("/v1/endpoints/" + one).want(200); r.text("deleted_at") == "" || r.text("uid") != "one" {
		t.Errorf("%s", r.body)
	}
	if r := s.put("/v1/endpoints/uid:one", `{"url":"`+anywhere+`"}`).want(201); r.text("id") == one {
		t.Errorf("a deleted endpoint came back: %s", r.body)
	}
}

func TestPreconditions(t *testing.T) {
	s := start(t)
	path := "/v1/endpoints/" + s.endpoint(anywhere, `,"uid":"crm:42"`).text("id")
	for _, r := range []*reply{
		s.do("PATCH", path, strings.NewReader(`{"description":"lost"}`), `If-Match: "2"`),
		s.do("PATCH", path, strings.NewReader(`{"description":"lost"}`), `If-Match: W/"1"`),
		s.do("PATCH", path, strings.NewReader(`{}`), `If-Match: "0"`), // also where nothing would change
		s.put(mine, `{"url":"https://example.com/lost"}`, `If-Match: "2"`),
		s.put("/v1/endpoints/uid:none", `{"url":"https://example.com/lost"}`, `If-Match: *`),
		s.post(path+"/pause", "", `If-Match: "2"`),
		s.post(path+"/resume", "", `If-Match: "2"`),
		s.post(path+"/rotate-secret", "", `If-Match: "2"`),
		s.post(path+"/test", "", `If-Match: "2"`),
		s.do("DELETE", path, nil, `If-Match: "2"`),
		s.get(path, `If-Match: "2"`),
	} {
		r.problem(412, "precondition_failed")
	}
	if r := s.get(path, `If-Match: "1"`).want(200); r.at("version") != 1.0 || r.text("description") != "" || len(s.get("/v1/endpoints").ids()) != 1 {
		t.Errorf("%s", r.body)
	}
	s.do("PATCH", path, strings.NewReader(`{}`), `If-Match: 1`).problem(422, "invalid", "If-Match")
	s.do("PATCH", "/v1/endpoints/ep_"+none26, strings.NewReader(`{}`), `If-Match: *`).problem(404, "not_found")
	for i, change := range []func(ifMatch string) *reply{
		func(m string) *reply { return s.do("PATCH", path, strings.NewReader(`{"description":"a"}`), m) },
		func(m string) *reply { return s.put(mine, `{"url":"`+anywhere+`"}`, m) },
		func(m string) *reply { return s.post(mine+"/pause", "", m) },
		func(m string) *reply { return s.post(path+"/resume", "", m) },
		func(m string) *reply { return s.post(mine+"/rotate-secret", "", m) },
	} {
		r := change(fmt.Sprintf(`If-Match: "%d"`, i+1)).want(200)
		if want := fmt.Sprintf(`"%d"`, i+2); r.header.Get("ETag") != want {
			t.Errorf("%s: ETag %s, want %s", r.what, r.header.Get("ETag"), want)
		}
	}
	var mu sync.Mutex
	statuses := map[int]int{}
	var patches sync.WaitGroup
	for i := range 8 { // of those that saw the same version one wins
		patches.Go(func() {
			r := s.do("PATCH", path, strings.NewReader(fmt.Sprintf(`{"description":"%d"}`, i)), `If-Match: "6"`)
			mu.Lock()
			statuses[r.status]++
			mu.Unlock()
		})
	}
	patches.Wait()
	if statuses[http.StatusOK] != 1 || statuses[http.StatusPreconditionFailed] != 7 {
		t.Errorf("statuses %v", statuses)
	}
	s.do("DELETE", path, nil, `If-Match: "7"`).want(204)
}
