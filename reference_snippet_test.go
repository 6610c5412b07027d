package posthaste_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/signature"
)

// The snippets of docs/reference/headers.md are run as they stand there, each with
// requests that it has to take and requests that it has to refuse.

// snippet returns the one block of a language on the page.
func snippet(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile(reference + "headers.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(page, -1)
	if len(found) != 1 {
		t.Fatalf("%d snippets in %s, want one", len(found), language)
	}
	return string(found[0][1])
}

// request is a delivery as a receiver sees it.
type request struct {
	Name    string            `json:"name"`
	Scheme  string            `json:"scheme"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Good    bool              `json:"good"`
}

// requestsToJudge makes requests of both schemes: good ones, those of a rotation,
// and forged, altered, old and bare ones.
func requestsToJudge(t *testing.T) (all []request) {
	t.Helper()
	standard := func(body string, at time.Time, secrets ...string) map[string]string {
		signer, err := signature.NewStandard(secrets...)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{
			"webhook-id": "evt_1", "webhook-timestamp": strconv.FormatInt(at.Unix(), 10),
			"webhook-signature": string(signer.Append(nil, "evt_1", at, []byte(body))),
		}
	}
	hex := func(body string, at time.Time, secrets ...string) map[string]string {
		signer, err := signature.NewHex(secrets...)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{
			"x-acme-timestamp": strconv.FormatInt(at.Unix(), 10), "x-acme-signature": string(signer.Append(nil, at, []byte(body))),
		}
	}
	now, old, other := time.Now(), time.Now().Add(-time.Hour), signature.NewSecret()
	for scheme, sign := range map[string]func(string, time.Time, ...string) map[string]string{"standard": standard, "hex": hex} {
		secret := map[string]string{"standard": exampleSecret, "hex": hexSecret}[scheme]
		all = append(all,
			request{"good", scheme, sign(exampleBody, now, secret), exampleBody, true},
			request{"empty body", scheme, sign("", now, secret), "", true},
			request{"rotation", scheme, sign(exampleBody, now, other, secret), exampleBody, true},
			request{"another secret", scheme, sign(exampleBody, now, other), exampleBody, false},
			request{"altered body", scheme, sign(exampleBody, now, secret), exampleBody + " ", false},
			request{"old", scheme, sign(exampleBody, old, secret), exampleBody, false},
			request{"bare", scheme, map[string]string{}, exampleBody, false})
	}
	return all
}

// judged runs a program that reads requests as JSON on its standard input and
// writes a list of verdicts.
func judged(t *testing.T, requests []request, program ...string) {
	t.Helper()
	in, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, &errOut)
	}
	var verdicts []bool
	if err := json.Unmarshal(out.Bytes(), &verdicts); err != nil || len(verdicts) != len(requests) {
		t.Fatalf("%s wrote %q: %v", program, &out, err)
	}
	for i, r := range requests {
		if verdicts[i] != r.Good {
			t.Errorf("%s, %s: judged %t", r.Scheme, r.Name, verdicts[i])
		}
	}
}

func keep(t *testing.T, dir, name, text string) string {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const goHarness = `package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
)

func main() {
	var requests []struct {
		Scheme, Body string
		Headers      map[string]string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&requests); err != nil {
		panic(err)
	}
	hooks := map[string]http.HandlerFunc{}
	for scheme, hook := range map[string]func(string) (http.HandlerFunc, error){"standard": standardHook, "hex": hexHook} {
		h, err := hook(map[string]string{"standard": os.Args[1], "hex": os.Args[2]}[scheme])
		if err != nil {
			panic(err)
		}
		hooks[scheme] = h
	}
	verdicts := []bool{}
	for _, r := range requests {
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(r.Body))
		for name, value := range r.Headers {
			req.Header.Set(name, value)
		}
		answer := httptest.NewRecorder()
		hooks[r.Scheme](answer, req)
		verdicts = append(verdicts, answer.Code == http.StatusNoContent)
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		panic(err)
	}
}
`

const nodeHarness = `
import { readFileSync } from "node:fs";
import { verifyStandard, verifyHex } from "./snippet.mjs";

const [standardSecret, hexSecret] = process.argv.slice(2);
const requests = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(requests.map((r) => r.scheme === "hex"
  ? verifyHex(hexSecret, r.headers, Buffer.from(r.body))
  : verifyStandard(standardSecret, r.headers, Buffer.from(r.body)))));
`

func TestReferenceSnippetGo(t *testing.T) {
	dir := t.TempDir()
	files := []string{keep(t, dir, "main.go", snippet(t, "go")), keep(t, dir, "harness.go", goHarness)}
	judged(t, requestsToJudge(t), "go", "run", files[0], files[1], exampleSecret, hexSecret)
}

func TestReferenceSnippetNode(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, "snippet.mjs", snippet(t, "js"))
	judged(t, requestsToJudge(t), "node", keep(t, dir, "harness.mjs", nodeHarness), exampleSecret, hexSecret)
}

func TestReferenceSnippetShell(t *testing.T) {
	script := snippet(t, "sh")
	for _, r := range requestsToJudge(t) {
		if r.Scheme != "hex" {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
		cmd.Dir = t.TempDir()
		keep(t, cmd.Dir, "body", r.Body)
		cmd.Env = append(os.Environ(), "SECRET="+hexSecret, "TIMESTAMP="+r.Headers["x-acme-timestamp"], "SIGNATURE="+r.Headers["x-acme-signature"])
		out, err := cmd.CombinedOutput()
		// It says so itself that it does not look at the age.
		if want := r.Good || r.Name == "old"; (err == nil) != want || strings.Contains(string(out), "not match") == want {
			t.Errorf("%s: %v, %s", r.Name, err, out)
		}
	}
}
