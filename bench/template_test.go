//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestTemplateMakesARequestThatNetHTTPReads(t *testing.T) {
	tmpl, err := compile(request{
		Method:  "PUT",
		URL:     "http://127.0.0.1:8080/v1/${id}?x=1",
		Headers: map[string]string{"content-type": "text/plain", "Idempotency-Key": "k-${id}"},
		Body:    `{"id":"${id}","again":"${id}","payload":${body}}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	if tmpl.addr != "127.0.0.1:8080" {
		t.Errorf("sends to %q", tmpl.addr)
	}
	body := tmpl.appendBody(nil, []byte("flow-7"), []byte("[1, 2]"))
	raw := tmpl.appendRequest([]byte("junk")[:0], []byte("flow-7"), body)
	in := bufio.NewReader(bytes.NewReader(raw))
	req, err := http.ReadRequest(in)
	if err != nil {
		t.Fatalf("%v in %q", err, raw)
	}
	got, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"id":"flow-7","again":"flow-7","payload":[1, 2]}`; string(got) != want {
		t.Errorf("body %s, want %s", got, want)
	}
	if req.Method != "PUT" || req.RequestURI != "/v1/flow-7?x=1" || req.Host != "127.0.0.1:8080" ||
		req.Header.Get("Content-Type") != "text/plain" || req.Header.Get("Idempotency-Key") != "k-flow-7" {
		t.Errorf("request %s %s to %s with %v", req.Method, req.RequestURI, req.Host, req.Header)
	}
	if rest, _ := io.ReadAll(in); len(rest) > 0 {
		t.Errorf("%d bytes after the request", len(rest))
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, r := range map[string]request{
		"another host": {URL: "http://example.com:80/"},
		"no port":      {URL: "http://127.0.0.1/"},
		"TLS":          {URL: "https://127.0.0.1:443/"},
		"line break":   {URL: "http://127.0.0.1:80/", Headers: map[string]string{"X": "a\r\nY: b"}},
		"not a URL":    {URL: "http://127.0.0.1:80:80/"},
	} {
		if _, err := compile(r); err == nil {
			t.Errorf("%s: compiled %+v", name, r)
		}
	}
}

func TestPayloadIsJSONThatNamesItsEvent(t *testing.T) {
	rec := newRecorder("flow", 10, newStopwatch())
	payload := rec.appendPayload(nil, 8)
	if !json.Valid(payload) {
		t.Fatalf("not JSON: %s", payload)
	}
	if n := len(payload); n < 1000 || n > payloadBytes {
		t.Errorf("%d bytes, want about 1 KiB and at most the %d of the budgets", n, payloadBytes)
	}
	tag, seq, ok := findID(payload)
	if tag != "flow" || seq != 8 || !ok {
		t.Errorf("found %q, %d, %t", tag, seq, ok)
	}
	wrapped := `{"data":` + string(payload) + `}`
	if tag, seq, ok := findID([]byte(wrapped)); tag != "flow" || seq != 8 || !ok {
		t.Errorf("in an envelope: found %q, %d, %t", tag, seq, ok)
	}
}

func TestFindIDRefuses(t *testing.T) {
	for _, payload := range []string{
		"", "{}", `{"bench_id":"`, `{"bench_id":"flow-1`, `{"bench_id":"flow"}`, `{"bench_id":"flow-x"}`, `{"bench_id":"flow--1"}`,
	} {
		if tag, seq, ok := findID([]byte(payload)); ok {
			t.Errorf("%s: found %q, %d", payload, tag, seq)
		}
	}
}

func TestBuiltInDescriptions(t *testing.T) {
	names := builtInNames()
	for _, want := range []string{"direct", "posthaste-postgres", "posthaste-sqlite", "reference-postgres", "reference-sqlite"} {
		if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+want+" ") {
			t.Errorf("no %s among %v", want, names)
		}
	}
	for _, name := range names {
		d, err := loadDescription(name)
		if err != nil {
			t.Fatal(err)
		}
		if d.Name != name {
			t.Errorf("%s calls itself %q", name, d.Name)
		}
		if d.Baseline != "" {
			if _, err := loadDescription(d.Baseline); err != nil {
				t.Errorf("%s: baseline: %v", name, err)
			}
		}
		checkVariables(t, d)
	}
}

// checkVariables fails the test if a string of the description names a variable
// that nothing gives.
func checkVariables(t *testing.T, d description) {
	t.Helper()
	vars := variables{"bin": "b", "listen": "127.0.0.1:1", "database": "d", "dir": "d", "admin_key": "k",
		"master_key": "m", "receiver": "http://127.0.0.1:2/hook", "outbox": "o", "type": mainType,
		"id": "${id}", "body": "${body}"}
	for _, c := range d.Start {
		for _, arg := range c.Cmd {
			if _, err := vars.expand(arg); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
		}
		if _, err := vars.expandMap(c.Env); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	requests := d.Setup
	if d.Outbox == 0 { // else rows take the place of a request
		requests = append(requests, d.Send)
	}
	for _, r := range requests {
		expanded, err := vars.expandRequest(r)
		if err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
		if _, err := compile(expanded); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
		for name := range r.Capture {
			vars[name] = "captured"
		}
	}
	if _, err := vars.expand(d.Ready); err != nil {
		t.Errorf("%s: %v", d.Name, err)
	}
}

func TestExpandNamesWhatIsUnknown(t *testing.T) {
	vars := variables{"a": "1", "b": "${a}"}
	got, err := vars.expand("${a}-${b}-$a-${}")
	if want := "1-${a}-$a-${}"; got != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if _, err := vars.expand("${a}${c}"); err == nil || !strings.Contains(err.Error(), "${c}") {
		t.Errorf("got %v, want an error that names ${c}", err)
	}
}

func TestLookup(t *testing.T) {
	doc := []byte(`{"data":[{"id":"one"},{"id":2}],"name":"x"}`)
	if got, err := lookup(doc, "data.0.id"); got != "one" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, path := range []string{"data.2.id", "data.-1.id", "data.1.id", "name.x", "missing", "data"} {
		if got, err := lookup(doc, path); err == nil {
			t.Errorf("%s: got %q", path, got)
		}
	}
}

func TestParsePhase(t *testing.T) {
	p, err := parsePhase("sat:5000:64")
	if want := (phase{kind: phaseSat, events: 5000, conns: 64, text: "sat:5000:64"}); p != want || err != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	p, err = parsePhase("rate:83:10")
	if p.kind != phaseRate || p.events != 830 || p.perSecond != 83 || p.conns < 1 || err != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, text := range []string{"", "sat", "sat:1", "sat:x:1", "sat:0:1", "sat:1:0", "sat:-1:1", "sat:1:1:1", "sat:9000000:1",
		"sat:1:5000", "rate:1:3600", "rate:50000:1", "crash:1:1"} {
		if p, err := parsePhase(text); err == nil {
			t.Errorf("%q: got %+v", text, p)
		}
	}
}
