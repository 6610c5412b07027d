package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestForwardedHeaders(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	s.endpoint(url, `,"headers":{"X-Own":"endpoint's"}`)
	sent := s.send("a", "x", "Posthaste-Forward-X-Trace: abc", "Posthaste-Forward-x-many: 2", "Posthaste-Forward-X-Many: 1",
		"Posthaste-Forward-X-Own: event's", "Posthaste-Forward-X-Empty: ", "Posthaste-Forward-User-Agent: é/1").want(202)
	got := arrived(t, arrivals)
	for name, want := range map[string][]string{
		"X-Trace": {"abc"}, "X-Many": {"2", "1"}, "X-Own": {"endpoint's"}, "X-Empty": {""}, "User-Agent": {"é/1"}, "Posthaste-Forward-X-Trace": nil,
	} {
		if !slices.Equal(got.header.Values(name), want) {
			t.Errorf("%s arrived as %q, want %q", name, got.header.Values(name), want)
		}
	}
	shown, _ := json.Marshal(s.get("/v1/events/" + sent.text("id")).want(200).at("headers"))
	const want = `[{"name":"User-Agent","value":"é/1"},{"name":"X-Empty","value":""},{"name":"X-Many","value":"2"},{"name":"X-Many","value":"1"},` +
		`{"name":"X-Own","value":"event's"},{"name":"X-Trace","value":"abc"}]`
	if string(shown) != want {
		t.Errorf("shown %s\nwant  %s", shown, want)
	}
}

func TestHeadersThatAreNotForwarded(t *testing.T) {
	s := start(t)
	names := []string{
		"Host", "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
		"Expect", "Content-Length", "Content-Type", "content-encoding", "Content-Md5", "Authorization", "Cookie", "Set-Cookie",
		"Webhook-Id", "webhook-signature", "Webhook-New", "Posthaste-Attempt", "posthaste-x", "Ce-Id", "HTTP2-Settings",
	}
	for _, name := range names {
		field := "Posthaste-Forward-" + name
		for i := range len(field) { // net/http's canonical form
			if i > 0 && field[i-1] == '-' {
				field = field[:i] + strings.ToUpper(field[i:i+1]) + strings.ToLower(field[i+1:])
			}
		}
		s.send("a", "x", "Posthaste-Forward-"+name+": x").problem(422, "invalid", field)
		line := s.post("/v1/events/batch", `{"type":"a","payload":1,"headers":{"`+name+`":"x"}}`).want(200)
		if line.at("results", 0, "status") != 422.0 || line.text("results", 0, "error", "errors", 0, "field") != "headers."+name {
			t.Errorf("%s in a line: %s", name, line.body)
		}
	}
	s.send("a", "x", "Posthaste-Forward-: x").problem(422, "invalid", "Posthaste-Forward-")
	s.send("a", "x", "Posthaste-Forward-X-A: caf\xe9").problem(422, "invalid", "Posthaste-Forward-X-A")
	for _, headers := range []string{`{"X A":"1"}`, `{"":"1"}`, `{"é":"1"}`, `{"X-A":"a\nb"}`, `{"X-A":"\u0000"}`, `{"X-A":1}`, `{"X-A":["1"]}`, `{"X-A":"\ud800"}`, `{"X-A":"1","X-A":"1"}`, `[]`, `"x"`} {
		line := s.post("/v1/events/batch", `{"type":"a","payload":1,"headers":`+headers+`}`).want(200)
		if field := line.text("results", 0, "error", "errors", 0, "field"); line.at("results", 0, "status") != 422.0 || !strings.HasPrefix(field, "headers") {
			t.Errorf("%s: %s", headers, line.body)
		}
	}
	if n := len(s.get("/v1/events").ids()); n != 0 {
		t.Errorf("%d events were stored", n)
	}
}

func TestHowMuchIsForwarded(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	s.endpoint(url, "")
	var headers []string
	object := map[string]string{}
	for i := range 20 {
		headers = append(headers, fmt.Sprintf("Posthaste-Forward-X-%02d: %d", i, i))
		object[fmt.Sprintf("X-%02d", i)] = "x"
	}
	s.send("a", "x", headers...).want(202)
	if got := arrived(t, arrivals); got.header.Get("X-00") != "0" || got.header.Get("X-19") != "19" {
		t.Errorf("arrived: %v", got.header)
	}
	s.send("a", "x", append(headers, "Posthaste-Forward-X-20: x")...).problem(422, "invalid", "Posthaste-Forward-*")
	most := strings.Repeat("x", 4096-len("X-A"))
	s.send("a", "x", "Posthaste-Forward-X-A: "+most).want(202)
	if got := arrived(t, arrivals); got.header.Get("X-A") != most {
		t.Errorf("%d bytes arrived, want %d", len(got.header.Get("X-A")), len(most))
	}
	s.send("a", "x", "Posthaste-Forward-X-A: "+most+"x").problem(422, "invalid", "Posthaste-Forward-*")
	object["X-20"] = "x"
	tooMany, err := json.Marshal(object)
	must(t, err)
	for _, headers := range []string{string(tooMany), `{"X-A":"` + most + `x"}`} {
		line := s.post("/v1/events/batch", `{"type":"a","payload":1,"headers":`+headers+`}`).want(200)
		if line.at("results", 0, "status") != 422.0 || line.text("results", 0, "error", "errors", 0, "field") != "headers" {
			t.Errorf("%s", line.body)
		}
	}
}

// TestGzipPassesUntouched: the engine neither opens what is compressed nor
// compresses it again, and a receiver opens what the sender closed.
func TestGzipPassesUntouched(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	s.endpoint(url, "")
	var closed bytes.Buffer
	zip := gzip.NewWriter(&closed)
	_, err := zip.Write([]byte(strings.Repeat(`{"n":1}`, 1000)))
	must(t, err)
	must(t, zip.Close())
	line, err := json.Marshal(map[string]any{"type": "a", "payload_base64": closed.Bytes(), "content_type": "application/json", "content_encoding": "gzip"})
	must(t, err)
	s.send("a", closed.String(), "Content-Encoding: gzip", "Content-Type: application/json").want(202)
	if r := s.post("/v1/events/batch", string(line)).want(200); r.at("results", 0, "status") != 202.0 {
		t.Fatalf("%s", r.body)
	}
	for range 2 {
		got := arrived(t, arrivals)
		if !bytes.Equal(got.body, closed.Bytes()) || got.header.Get("Content-Encoding") != "gzip" || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%d bytes arrived, want %d; headers %v", len(got.body), closed.Len(), got.header)
		}
		if _, err := gzip.NewReader(bytes.NewReader(got.body)); err != nil {
			t.Error(err)
		}
	}
}
