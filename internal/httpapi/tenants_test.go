package httpapi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestTenantLife(t *testing.T) {
	s := start(t)
	made := s.post("/v1/tenants", `{"name":"acme","uid":"crm:1","metadata":{"plan":"gold"}}`).want(201)
	if made.text("uid") != "crm:1" || made.text("metadata", "plan") != "gold" || made.at("version") != 1.0 || made.header.Get("ETag") != `"1"` || made.at("deleted_at") != nil {
		t.Errorf("%s", made.body)
	}
	s.post("/v1/tenants", `{"name":"other","uid":"crm:1"}`).problem(409, "conflict")
	for body, fields := range map[string][]string{
		`{"name":"b","uid":"a b"}`: {"uid"}, `{"name":"b","metadata":{"":""}}`: {"metadata."}, `{"name":"b","metadata":7}`: {"metadata"},
	} {
		s.post("/v1/tenants", body).problem(422, "invalid", fields...)
	}
	for _, path := range []string{"/v1/tenants/acme", "/v1/tenants/uid:crm:1"} {
		if r := s.get(path).want(200); r.text("name") != "acme" || r.header.Get("ETag") != `"1"` {
			t.Errorf("%s", r.body)
		}
	}
	s.patch("/v1/tenants/acme", `{"name":"renamed","uid":" "}`).problem(422, "invalid", "name", "uid")
	s.do("PATCH", "/v1/tenants/acme", strings.NewReader(`{"metadata":{"a":"b"}}`), `If-Match: "2"`).problem(412, "precondition_failed")
	if r := s.do("PATCH", "/v1/tenants/uid:crm:1", strings.NewReader(`{"metadata":{"a":"b","plan":null}}`), `If-Match: "1"`).want(200); fmt.Sprint(r.at("metadata")) != "map[a:b]" || r.header.Get("ETag") != `"2"` {
		t.Errorf("%s", r.body)
	}
	if r := s.put("/v1/tenants/uid:crm:1", `{"name":"acme","metadata":{"a":"b"}}`).want(200); r.at("version") != 2.0 {
		t.Errorf("the same again made a version: %s", r.body)
	}
	if r := s.put("/v1/tenants/uid:crm:1", `{}`).want(200); fmt.Sprint(r.at("metadata")) != "map[]" || r.text("uid") != "crm:1" || r.at("version") != 3.0 {
		t.Errorf("%s", r.body)
	}
	s.put("/v1/tenants/uid:crm:1", `{"name":"other"}`).problem(422, "invalid", "name")
	s.put("/v1/tenants/uid:crm:2", `{}`).problem(422, "invalid", "name")
	s.put("/v1/tenants/uid:crm:2", `{"name":"acme"}`).problem(409, "conflict")
	s.put("/v1/tenants/uid:crm:2", `{"name":"b","uid":"x"}`).problem(422, "invalid", "uid")
	s.put("/v1/tenants/uid:crm:2", `{"name":"b"}`, `If-Match: *`).problem(412, "precondition_failed")
	s.put("/v1/tenants/none", `{}`).problem(404, "not_found")
	if r := s.put("/v1/tenants/acme", `{"uid":"crm:3"}`, `If-Match: "3"`).want(200); r.text("uid") != "crm:3" {
		t.Errorf("%s", r.body)
	}
	if r := s.put("/v1/tenants/uid:crm:2", `{"name":"b"}`).want(201); r.header.Get("Location") != "/v1/tenants/b" {
		t.Errorf("%v", r.header)
	}
	for _, path := range []string{"/v1/tenants/uid:", "/v1/tenants/uid:none", "/v1/tenants/a%20b"} {
		s.get(path).problem(404, "not_found")
		s.do("DELETE", path, nil).problem(404, "not_found")
		s.patch(path, "{}").problem(404, "not_found")
	}
}

func TestConcurrentPutsMakeOneTenant(t *testing.T) {
	s := start(t)
	var mu sync.Mutex
	statuses := map[int]int{}
	var puts sync.WaitGroup
	for range 20 {
		puts.Go(func() {
			r := s.put("/v1/tenants/uid:x", `{"name":"acme"}`)
			mu.Lock()
			statuses[r.status]++
			mu.Unlock()
		})
	}
	puts.Wait()
	if statuses[201] != 1 || statuses[200] != 19 {
		t.Errorf("statuses %v", statuses)
	}
}

func TestDeletedTenant(t *testing.T) {
	s := start(t)
	const acme = "Posthaste-Tenant: acme"
	s.post("/v1/tenants", `{"name":"acme","uid":"u"}`).want(201)
	url, _ := receiver(t, status(400))
	endpoint := s.post("/v1/endpoints", fmt.Sprintf(`{"url":%q,"uid":"e"}`, url), acme).want(201).text("id")
	event := s.send("a", "x", acme).want(202).text("id")
	var dead string
	s.until("dead", func() bool {
		ids := s.get("/v1/deliveries?status=dead", acme).ids()
		if len(ids) == 1 {
			dead = ids[0]
		}
		return dead != ""
	})
	s.post("/v1/endpoints/"+endpoint+"/pause", "", acme).want(200)
	s.send("a", "y", acme).want(202)

	s.do("DELETE", "/v1/tenants/default", nil).problem(409, "conflict")
	s.do("DELETE", "/v1/tenants/operator", nil).problem(409, "conflict")
	s.do("DELETE", "/v1/tenants/acme", nil, `If-Match: "2"`).problem(412, "precondition_failed")
	s.do("DELETE", "/v1/tenants/uid:u", nil, `If-Match: "1"`).want(204)
	s.do("DELETE", "/v1/tenants/acme", nil).problem(404, "not_found")
	s.patch("/v1/tenants/acme", `{}`).problem(404, "not_found")
	s.get("/v1/tenants/uid:u").problem(404, "not_found")
	if r := s.get("/v1/tenants/acme").want(200); r.text("deleted_at") == "" || r.header.Get("ETag") != `"2"` {
		t.Errorf("%s", r.body)
	}

	s.send("a", "x", acme).problem(404, "not_found")
	s.post("/v1/endpoints", `{"url":"`+anywhere+`"}`, acme).problem(404, "not_found")
	s.put("/v1/endpoints/uid:e", `{"url":"`+anywhere+`"}`, acme).problem(404, "not_found")
	s.post("/v1/deliveries/"+dead+"/replay", "", acme).problem(404, "not_found")

	s.until("what waited has ended", func() bool { return len(s.get("/v1/deliveries?status=dead", acme).ids()) == 2 })
	if r := s.get("/v1/deliveries?status=dead", acme); r.text("data", 0, "reason") != "endpoint deleted" {
		t.Errorf("%s", r.body)
	}
	s.get("/v1/events/"+event, acme).want(200)
	s.get("/v1/events/"+event+"/payload", acme).want(200)
	if r := s.get("/v1/deliveries/"+dead, acme).want(200); r.text("attempts", 0, "url") != url {
		t.Errorf("%s", r.body)
	}
	if r := s.get("/v1/endpoints/"+endpoint, acme).want(200); r.text("deleted_at") == "" {
		t.Errorf("%s", r.body)
	}

	if r := s.post("/v1/tenants", `{"name":"acme"}`).problem(409, "conflict"); !strings.Contains(r.text("detail"), "was") {
		t.Errorf("%s", r.body)
	}
	s.put("/v1/tenants/uid:u", `{"name":"acme"}`).problem(409, "conflict")
	s.post("/v1/tenants", `{"name":"acme2","uid":"u"}`).want(201)
	names := func(path string) (out []string) {
		for _, row := range s.get(path).want(200).at("data").([]any) {
			out = append(out, row.(map[string]any)["name"].(string))
		}
		return out
	}
	if got := fmt.Sprint(names("/v1/tenants"), names("/v1/tenants?deleted=true")); got != "[acme2 operator default] [acme2 acme operator default]" {
		t.Error(got)
	}
	s.get("/v1/tenants?deleted=maybe").problem(422, "invalid", "deleted")
}

func TestAllTenants(t *testing.T) {
	s := start(t)
	const all = "Posthaste-Tenant: *"
	url, _ := receiver(t, status(400))
	var endpoints, deliveries []string
	for i := range 4 {
		tenant := "Posthaste-Tenant: default"
		if i%2 == 1 {
			tenant = "Posthaste-Tenant: acme"
		}
		if i == 1 {
			s.post("/v1/tenants", `{"name":"acme"}`).want(201)
		}
		if i < 2 {
			endpoints = append([]string{s.post("/v1/endpoints", fmt.Sprintf(`{"url":%q,"uid":"e"}`, url), tenant).want(201).text("id")}, endpoints...)
		}
		event := s.send("a", "x", tenant).want(202).text("id")
		deliveries = append([]string{s.get("/v1/deliveries?event_id="+event, tenant).ids()[0]}, deliveries...)
	}
	for path, want := range map[string][]string{
		"/v1/endpoints": endpoints, "/v1/deliveries": deliveries, "/v1/deliveries?endpoint_id=" + endpoints[0]: {deliveries[0], deliveries[2]},
	} {
		var got []string
		sep, next := "?", ""
		if strings.Contains(path, "?") {
			sep = "&"
		}
		for {
			r := s.get(path+sep+"limit=1"+next, all).want(200)
			for i, id := range r.ids() {
				got = append(got, id)
				tenant := r.text("data", i, "tenant")
				if one := s.get(strings.Split(path, "?")[0]+"/"+id, all).want(200); one.text("tenant") != tenant || one.text("id") != id {
					t.Errorf("%s: %s", tenant, one.body)
				}
				own := s.get(strings.Split(path, "?")[0]+"/"+id, "Posthaste-Tenant: "+tenant).want(200)
				if own.at("tenant") != nil {
					t.Errorf("a tenant's own answer names it: %s", own.body)
				}
			}
			if r.text("next") == "" {
				break
			}
			next = "&cursor=" + r.text("next")
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	s.until("dead", func() bool { return len(s.get("/v1/deliveries?status=dead", all).ids()) == 4 })
	if r := s.get("/v1/deliveries/"+deliveries[0], all).want(200); r.text("tenant") != "acme" || r.text("attempts", 0, "url") != url {
		t.Errorf("%s", r.body)
	}
	s.get("/v1/endpoints/uid:e", all).problem(422, "invalid", "Posthaste-Tenant")
	for _, r := range []*reply{
		s.get("/v1/events", all), s.send("a", "x", all), s.post("/v1/endpoints", `{"url":"`+anywhere+`"}`, all),
		s.put(mine, `{"url":"`+anywhere+`"}`, all), s.do("PATCH", "/v1/endpoints/"+endpoints[0], strings.NewReader(`{}`), all),
		s.do("DELETE", "/v1/endpoints/"+endpoints[0], nil, all), s.post("/v1/endpoints/"+endpoints[0]+"/pause", "", all),
		s.post("/v1/endpoints/"+endpoints[0]+"/rotate-secret", "", all), s.post("/v1/deliveries/"+deliveries[0]+"/replay", "", all),
	} {
		r.problem(422, "invalid", "Posthaste-Tenant")
	}
	s.get("/v1/deliveries", all, "Posthaste-Tenant: acme").problem(422, "invalid", "Posthaste-Tenant")
}
