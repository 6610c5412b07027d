package httpapi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

const stripeSource = `{"name":"shop","provider":"stripe","secrets":["whsec_one","whsec_two"],"settings":{"tolerance":"10m"}}`

func TestSources(t *testing.T) {
	s := start(t)
	made := s.post("/v1/sources", stripeSource).want(201)
	id := made.text("id")
	if !strings.HasPrefix(id, "src_") || made.text("url") != "/in/"+id || made.text("settings", "tolerance") != "10m" || made.at("secret_count") != 2.0 ||
		made.at("max_body_bytes") != 8388608.0 || made.header.Get("ETag") != `"1"` || made.header.Get("Location") != "/v1/sources/"+id || made.at("rejected_in_a_row") != 0.0 {
		t.Errorf("%s %v", made.body, made.header)
	}
	if strings.Contains(string(made.body), "whsec_") {
		t.Errorf("it shows a secret: %s", made.body)
	}
	path := "/v1/sources/" + id
	if got := s.get(path).want(200); string(got.body) != string(made.body) {
		t.Errorf("%s\n%s", got.body, made.body)
	}
	// What is left out of a patch stays, the secrets too; a change of nothing makes no version.
	if got := s.patch(path, `{"secrets":["whsec_one","whsec_two"],"settings":{"tolerance":"10m"}}`).want(200); got.at("version") != 1.0 {
		t.Errorf("a change of nothing: %s", got.body)
	}
	if got := s.patch(path, `{"name":"store","settings":{"tolerance":null}}`).want(200); got.at("version") != 2.0 || got.at("secret_count") != 2.0 || got.at("settings", "tolerance") != nil {
		t.Errorf("%s", got.body)
	}
	if got := s.patch(path, `{"secrets":["whsec_three"]}`).want(200); got.at("version") != 3.0 || got.at("secret_count") != 1.0 || got.text("name") != "store" {
		t.Errorf("%s", got.body)
	}
	s.patch(path, `{"secrets":null}`).problem(422, "invalid", "secrets")
	s.do("PATCH", path, strings.NewReader(`{"name":"x"}`), `If-Match: "2"`).problem(412, "precondition_failed")
	s.do("DELETE", path, nil, `If-Match: "2"`).problem(412, "precondition_failed")
	if page := s.get(path + "/rejections").want(200); len(page.at("data").([]any)) != 0 || page.at("next") != nil {
		t.Errorf("%s", page.body)
	}
	s.do("DELETE", path, nil, `If-Match: "3"`).want(204)
	for _, r := range []*reply{s.get(path), s.get(path + "/rejections"), s.patch(path, `{}`), s.do("DELETE", path, nil)} {
		r.problem(404, "not_found")
	}
}

func TestSourcesTellAllThatIsWrong(t *testing.T) {
	s := start(t)
	s.post("/v1/sources", `{}`).problem(422, "invalid", "provider")
	s.post("/v1/sources", `{"provider":"nobody"}`).problem(422, "invalid", "provider")
	s.post("/v1/sources", `{"provider":"stripe"}`).problem(422, "invalid", "secrets")
	s.post("/v1/sources", `{"provider":"stripe","secrets":["whsec_x",""],"nam":"x","max_body_bytes":0,"uid":"a b","settings":{"tolerance":"soon","x":"y"}}`).
		problem(422, "invalid", "nam", "max_body_bytes", "secrets[1]", "uid", "settings.tolerance", "settings.x")
	s.post("/v1/sources", `{"provider":"stripe","secrets":["whsec_x"],"name":"`+strings.Repeat("x", 129)+`"}`).problem(422, "invalid", "name")
	s.post("/v1/sources", `[]`).problem(422, "invalid", "", "provider")
	s.post("/v1/sources", `{`).problem(400, "unreadable")
	s.post("/v1/sources?x=1", stripeSource).problem(422, "invalid", "x")
	for _, bad := range []string{"src_1", "evt_" + none26, "src_" + none26, "uid:none", "uid:"} {
		s.get("/v1/sources/"+bad).problem(404, "not_found")
	}
	s.get("/v1/sources", "Posthaste-Tenant: *").problem(422, "invalid", "Posthaste-Tenant")
	if n := len(s.get("/v1/sources").ids()); n != 0 {
		t.Errorf("%d sources were made", n)
	}
}

// A setting that is secret is sealed, shown as a mask, and kept where the mask is sent back.
func TestSecretSettings(t *testing.T) {
	s := start(t)
	const body = `{"provider":"meta","secrets":["0123456789abcdef0123456789abcdef"],"settings":{"verify_token":"my-own-token"}}`
	made := s.post("/v1/sources", body).want(201)
	path := "/v1/sources/" + made.text("id")
	if made.text("settings", "verify_token") != "********" || strings.Contains(string(made.body), "my-own-token") {
		t.Errorf("%s", made.body)
	}
	if got := s.patch(path, `{"settings":{"verify_token":"********"},"name":"x"}`).want(200); got.text("settings", "verify_token") != "********" || got.at("version") != 2.0 {
		t.Errorf("%s", got.body)
	}
	if got := s.put(path, body).want(200); got.at("version") != 3.0 || got.text("name") != "" {
		t.Errorf("%s", got.body)
	}
	if got := s.put(path, body).want(200); got.at("version") != 3.0 { // so the mask kept the token
		t.Errorf("the same again: %s", got.body)
	}
	if got := s.patch(path, `{"settings":{"verify_token":"another"}}`).want(200); got.at("version") != 4.0 {
		t.Errorf("%s", got.body)
	}
	s.patch(path, `{"settings":{"verify_token":null}}`).problem(422, "invalid", "settings.verify_token")
	s.post("/v1/sources", strings.Replace(body, "my-own-token", "********", 1)).problem(422, "invalid", "settings.verify_token")
}

func TestPutSource(t *testing.T) {
	s := start(t)
	const mine = "/v1/sources/uid:shop:1"
	made := s.put(mine, stripeSource).want(201)
	id := made.text("id")
	if made.text("uid") != "shop:1" || made.header.Get("Location") != "/v1/sources/"+id {
		t.Errorf("%s %v", made.body, made.header)
	}
	if again := s.put(mine, stripeSource).want(200); again.text("id") != id || again.at("version") != 1.0 {
		t.Errorf("the same again: %s", again.body)
	}
	if got := s.put(mine, `{"provider":"stripe","secrets":["whsec_one"]}`).want(200); got.text("uid") != "shop:1" || got.text("name") != "" || got.at("secret_count") != 1.0 || got.at("version") != 2.0 {
		t.Errorf("%s", got.body)
	}
	s.put(mine, strings.Replace(stripeSource, `{`, `{"uid":"other",`, 1)).problem(422, "invalid", "uid")
	s.put("/v1/sources/uid:new", strings.Replace(stripeSource, `{`, `{"uid":"other",`, 1)).problem(422, "invalid", "uid")
	s.put("/v1/sources/uid:a%20b", stripeSource).problem(422, "invalid", "uid")
	s.put("/v1/sources/src_"+none26, stripeSource).problem(404, "not_found")
	s.put(mine, stripeSource, `If-Match: "1"`).problem(412, "precondition_failed")
	s.put("/v1/sources/uid:new", stripeSource, `If-Match: *`).problem(412, "precondition_failed")
	s.post("/v1/sources", strings.Replace(stripeSource, `{`, `{"uid":"shop:1",`, 1)).problem(409, "conflict")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { s.put("/v1/sources/uid:many", stripeSource) })
	}
	wg.Wait()
	if n := len(s.get("/v1/sources").ids()); n != 2 {
		t.Errorf("%d sources", n)
	}
}

func TestListSources(t *testing.T) {
	s := start(t)
	s.post("/v1/tenants", `{"name":"acme"}`).want(201)
	other := s.post("/v1/sources", stripeSource, "Posthaste-Tenant: acme").want(201).text("id")
	var want []string
	for i := range 5 {
		want = append([]string{s.post("/v1/sources", strings.Replace(stripeSource, "shop", fmt.Sprint(i), 1)).want(201).text("id")}, want...)
	}
	var got []string
	for path := "/v1/sources?limit=2"; ; {
		page := s.get(path).want(200)
		got = append(got, page.ids()...)
		next, more := page.at("next").(string)
		if !more {
			break
		}
		path = "/v1/sources?limit=2&cursor=" + next
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("listed %v, want %v", got, want)
	}
	s.get("/v1/sources/"+other).problem(404, "not_found")
	s.do("DELETE", "/v1/tenants/acme", nil).want(204)
	s.get("/v1/sources/"+other, "Posthaste-Tenant: acme").problem(404, "not_found")
}
