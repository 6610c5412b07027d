package httpapi_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func now() time.Time { return time.Now() }

// deadDelivery makes an endpoint that answers 400 and waits until a delivery to
// it is dead.
func (s *server) deadDelivery(url string) (id string) {
	s.t.Helper()
	event := s.send("a", "x").want(202).text("id")
	s.until("dead", func() bool {
		page := s.get("/v1/deliveries?status=dead&event_id=" + event).want(200)
		if ids := page.ids(); len(ids) == 1 {
			id = ids[0]
		}
		return id != ""
	})
	return id
}

func TestDeliveryWithItsAttempts(t *testing.T) {
	s := start(t)
	var calls atomic.Int32
	url, _ := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "session=hush")
		w.Header().Set("X-Said", "yes")
		switch calls.Add(1) {
		case 1:
			w.WriteHeader(503)
			w.Write([]byte("later \xff"))
		default:
			w.Write([]byte("fine"))
		}
	})
	endpoint := s.endpoint(url, `,"retry":{"schedule":["1ms"]},"headers":{"X-A":"1"},"secret_headers":{"Authorization":"Bearer hush"}`).text("id")
	event := s.send("a.b", `{"n":1}`).want(202).text("id")
	s.until("delivered", func() bool { return len(s.get("/v1/deliveries?status=delivered").ids()) == 1 })
	listed := s.get("/v1/deliveries?event_id=" + event + "&endpoint_id=" + endpoint + "&type=a.b").want(200)
	if listed.at("data", 0, "attempts") != nil {
		t.Errorf("the list has attempts: %s", listed.body)
	}
	d := s.get("/v1/deliveries/" + listed.text("data", 0, "id")).want(200)
	for field, want := range map[string]any{
		"event_id": event, "endpoint_id": endpoint, "type": "a.b", "status": "delivered", "attempt_count": 2.0, "reason": nil, "next_attempt_at": nil,
	} {
		if d.at(field) != want {
			t.Errorf("%s is %v, want %v", field, d.at(field), want)
		}
	}
	for i, want := range []map[string]any{
		{"number": 1.0, "outcome": "transient", "cause": "status", "status_code": 503.0, "response_body": "bGF0ZXIg/w==", "response_body_encoding": "base64"},
		{"number": 2.0, "outcome": "delivered", "cause": nil, "status_code": 200.0, "response_body": "fine", "response_body_encoding": "text"},
	} {
		want["late"], want["url"], want["replica"] = false, url, "test"
		for field, value := range want {
			if got := d.at("attempts", i, field); got != value {
				t.Errorf("attempt %d: %s is %v, want %v", i+1, field, got, value)
			}
		}
		if total := d.at("attempts", i, "timings_ms", "total").(float64); total <= 0 || d.at("attempts", i, "duration_ms") != total {
			t.Errorf("attempt %d took %v", i+1, total)
		}
		headers := map[string]string{}
		for _, h := range d.at("attempts", i, "request_headers").([]any) {
			m := h.(map[string]any)
			headers[strings.ToLower(m["name"].(string))] = m["value"].(string)
		}
		if headers["webhook-id"] != event || headers["x-a"] != "1" || headers["posthaste-attempt"] != strconv.Itoa(i+1) || headers["webhook-signature"] == "" {
			t.Errorf("attempt %d sent %v", i+1, headers)
		}
		if !strings.Contains(string(d.body), `"X-Said"`) {
			t.Errorf("no response headers: %s", d.body)
		}
	}
	if strings.Contains(string(d.body), "hush") {
		t.Errorf("a credential is shown: %s", d.body)
	}
}

func TestReplay(t *testing.T) {
	s := start(t)
	var isGood atomic.Bool
	url, _ := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if !isGood.Load() {
			w.WriteHeader(400)
		}
	})
	endpoint := s.endpoint(url, "").text("id")
	id := s.deadDelivery(url)
	dead := s.get("/v1/deliveries/" + id)
	if dead.text("reason") != "permanent failure" || dead.text("finished_at") == "" || dead.at("attempt_count") != 1.0 {
		t.Errorf("%s", dead.body)
	}
	isGood.Store(true)
	var mu sync.Mutex
	statuses := map[int]int{}
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			r := s.post("/v1/deliveries/"+id+"/replay", "")
			if r.status == http.StatusConflict {
				r.problem(409, "not_dead")
			} else if r.text("status") != "pending" {
				t.Errorf("%s", r.body)
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[r.status]++
		})
	}
	clients.Wait()
	if statuses[200] != 1 || statuses[409] != 49 {
		t.Errorf("%v", statuses)
	}
	s.until("delivered", func() bool { return s.get("/v1/deliveries/"+id).text("status") == "delivered" })
	if d := s.get("/v1/deliveries/" + id); d.at("attempt_count") != 2.0 || d.at("attempts", 1, "number") != 2.0 {
		t.Errorf("%s", d.body)
	}

	isGood.Store(false)
	id = s.deadDelivery(url)
	s.post("/v1/deliveries/"+id+"/replay", `{"now":true}`).problem(422, "invalid", "now")
	s.post("/v1/deliveries/"+id+"/replay?x=1", "").problem(422, "invalid", "x")
	s.do("DELETE", "/v1/endpoints/"+endpoint, nil).want(204)
	s.post("/v1/deliveries/"+id+"/replay", "").problem(409, "endpoint_deleted")
	if d := s.get("/v1/deliveries/" + id).want(200); d.text("endpoint_id") != endpoint || d.text("attempts", 0, "url") != url {
		t.Errorf("the history of a deleted endpoint: %s", d.body)
	}
	if n := len(s.get("/v1/deliveries?endpoint_id=" + endpoint).ids()); n != 2 {
		t.Errorf("%d deliveries of the deleted endpoint", n)
	}
}

func TestListsPageAndStayStable(t *testing.T) {
	s := start(t)
	s.endpoint(anywhere, `,"enabled":true`)
	path := "/v1/endpoints/" + s.get("/v1/endpoints").ids()[0]
	s.post(path+"/pause", "").want(200)
	var events []string
	for range 7 {
		events = append([]string{s.send("a", "x").want(202).text("id")}, events...)
	}
	for _, list := range []string{"/v1/events", "/v1/deliveries"} {
		var got []string
		next := ""
		for range 10 {
			r := s.get(list + "?limit=3" + next).want(200)
			got = append(got, r.ids()...)
			s.send("a", "arrives meanwhile").want(202)
			cursor := r.text("next")
			if cursor == "" {
				break
			}
			next = "&cursor=" + cursor
		}
		if list == "/v1/deliveries" { // of which more had been made by the first loop
			got = got[len(got)-len(events):]
			for i, id := range got {
				got[i] = s.get("/v1/deliveries/" + id).text("event_id")
			}
		}
		if strings.Join(got, " ") != strings.Join(events, " ") {
			t.Errorf("%s: %v\nwant %v", list, got, events)
		}
	}
	newest := s.get("/v1/events?limit=1")
	since := newest.text("data", 0, "created_at")
	if n := len(s.get("/v1/events?since=" + since).ids()); n < 1 {
		t.Errorf("since %s: %d", since, n)
	}
	for _, id := range s.get("/v1/events?until=" + since).ids() {
		if id == newest.ids()[0] {
			t.Error("until includes its own moment")
		}
	}
	if n := len(s.get("/v1/events?since=2099-01-01T00:00:00%2B02:00").ids()); n != 0 {
		t.Errorf("%d events of the future", n)
	}
}

func TestBadQueries(t *testing.T) {
	s := start(t)
	endpoint := s.endpoint(anywhere, "").text("id")
	events := s.get("/v1/events?limit=1")
	_ = events
	s.send("a", "x").want(202)
	s.send("a", "x").want(202)
	cursor := s.get("/v1/events?limit=1").text("next")
	if cursor == "" {
		t.Fatal("no cursor")
	}
	for query, field := range map[string]string{
		"/v1/events?limit=0": "limit", "/v1/events?limit=251": "limit", "/v1/events?limit=x": "limit", "/v1/events?limit=1&limit=2": "limit",
		"/v1/events?cursor=garbage": "cursor", "/v1/events?cursor=%00": "cursor", "/v1/events?cursor=" + cursor + "A": "cursor",
		"/v1/deliveries?cursor=" + cursor: "cursor", "/v1/endpoints?cursor=" + cursor: "cursor", "/v1/tenants?cursor=" + cursor: "cursor",
		"/v1/events?type=a*": "type", "/v1/events?since=yesterday": "since", "/v1/events?since=2026-01-01": "since", "/v1/events?until=1764428000": "until",
		"/v1/events?until=0000-01-01T00:00:00Z": "until", "/v1/events?since=2026-01-01T00:00:00+01:00": "since",
		"/v1/events?parent=x": "parent", "/v1/events?source=" + strings.Repeat("s", 256): "source", "/v1/events?source=%00": "source",
		"/v1/events?idempotency_key=%ff": "idempotency_key", "/v1/events?statuz=dead": "statuz", "/v1/events?%zz": "",
		"/v1/deliveries?status=failed": "status", "/v1/deliveries?event_id=" + endpoint: "event_id", "/v1/deliveries?endpoint_id=1": "endpoint_id",
		"/v1/deliveries?endpoint_id=ep_" + strings.Repeat("0", 26): "endpoint_id", "/v1/deliveries?type=%20": "type",
		"/v1/endpoints?type=a": "type", "/v1/endpoints/" + endpoint + "?x=1": "x", "/v1/tenants?limit=-1": "limit", "/v1/tenants/default?x=1": "x",
		"/v1/deliveries?status=": "status", "/v1/deliveries?endpoint_id=": "endpoint_id", "/v1/events?since": "since", "/v1/stream?types=": "types",
	} {
		s.get(query).problem(422, "invalid", field)
	}
	s.get("/v1/events?cursor=").want(200) // the beginning
	s.get("/v1/deliveries?limit=x&status=y&type=%20&cursor=z").problem(422, "invalid", "status", "type", "cursor", "limit")
}
