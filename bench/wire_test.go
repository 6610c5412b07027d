//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestReadAnswer(t *testing.T) {
	const next = "HTTP/1.1 204 No Content\r\n\r\n"
	tests := map[string]struct {
		in     string
		status int
		keep   bool
		body   string
		bad    bool
	}{
		"empty body":        {in: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", status: 200, keep: true},
		"skips the body":    {in: "HTTP/1.1 202 Accepted\r\ncontent-length:  5\r\n\r\nhello", status: 202, keep: true},
		"keeps a failure's": {in: "HTTP/1.1 503 No\r\nContent-Length: 5\r\n\r\nhello", status: 503, keep: true, body: "hello"},
		"no reason phrase":  {in: "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", status: 200, keep: true},
		"no content":        {in: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, keep: true},
		"closes":            {in: "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", status: 200},
		"chunks": {in: "HTTP/1.1 422 No\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
			status: 422, keep: true, body: "abc0123456789"},
		"chunks and a trailer": {in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n", status: 200, keep: true},
		"HTTP/1.0":             {in: "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", bad: true},
		"not a number":         {in: "HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n", bad: true},
		"no length":            {in: "HTTP/1.1 200 OK\r\n\r\n", bad: true},
		"negative length":      {in: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", bad: true},
		"too long":             {in: "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n", bad: true},
		"chunk size":           {in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", bad: true},
		"cut short":            {in: "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", bad: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := bufio.NewReader(strings.NewReader(tt.in + next))
			got, err := readAnswer(in)
			if tt.bad {
				if err == nil {
					t.Fatalf("read %+v, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.status != tt.status || got.keep != tt.keep || string(got.body) != tt.body {
				t.Errorf("read %d, keep %t, %q; want %d, keep %t, %q", got.status, got.keep, got.body, tt.status, tt.keep, tt.body)
			}
			if rest, _ := io.ReadAll(in); string(rest) != next {
				t.Errorf("left %q unread, want the next answer", rest)
			}
		})
	}
}

func TestAFailuresBodyIsCut(t *testing.T) {
	long := strings.Repeat("x", 3*keptAnswerBytes)
	in := bufio.NewReader(strings.NewReader("HTTP/1.1 500 No\r\nContent-Length: 600\r\n\r\n" + long))
	got, err := readAnswer(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.body) != keptAnswerBytes {
		t.Errorf("kept %d bytes, want %d", len(got.body), keptAnswerBytes)
	}
}

// sendTo makes a template and a recorder for n events at a test server.
func sendTo(t *testing.T, handler http.HandlerFunc, n int) (template, *recorder) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	tmpl, err := compile(request{Method: "POST", URL: server.URL + "/events", Body: "${body}",
		Headers: map[string]string{"Idempotency-Key": "${id}"}})
	if err != nil {
		t.Fatal(err)
	}
	return tmpl, newRecorder("flow", n, newStopwatch())
}

func TestWireKeepsItsConnection(t *testing.T) {
	var remotes atomic.Int64
	last := ""
	tmpl, rec := sendTo(t, func(w http.ResponseWriter, r *http.Request) {
		if r.RemoteAddr != last {
			remotes.Add(1)
			last = r.RemoteAddr
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "taken")
	}, 3)
	var w wire
	defer w.close()
	for seq := range 3 {
		if err := w.send(tmpl, rec, seq); err != nil {
			t.Fatal(err)
		}
	}
	if n := remotes.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestWireOpensANewConnectionAfterAClose(t *testing.T) {
	calls := 0
	tmpl, rec := sendTo(t, func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			panic(http.ErrAbortHandler) // cuts the connection without an answer
		}
	}, 2)
	var w wire
	defer w.close()
	if err := w.send(tmpl, rec, 0); err == nil {
		t.Error("a cut connection was no error")
	}
	if err := w.send(tmpl, rec, 1); err != nil {
		t.Errorf("the next send: %v", err)
	}
}

func TestWireReportsAStatus(t *testing.T) {
	tmpl, rec := sendTo(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such tenant", http.StatusNotFound)
	}, 1)
	var w wire
	defer w.close()
	var status *statusError
	if err := w.send(tmpl, rec, 0); !errors.As(err, &status) || status.status != 404 || status.body != "no such tenant\n" {
		t.Errorf("got %v, want status 404 with its text", err)
	}
}

func TestClosedLoopSendsAgainWhatWasRefused(t *testing.T) {
	const n = 200
	var calls, taken atomic.Int64
	keys := make([]atomic.Int32, n)
	tmpl, rec := sendTo(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, seq, ok := findID(body)
		if !ok || r.Header.Get("Idempotency-Key") != flowID(seq) {
			t.Errorf("key %q for event %d", r.Header.Get("Idempotency-Key"), seq)
		}
		if calls.Add(1)%5 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		keys[seq].Add(1)
		taken.Add(1)
		w.WriteHeader(http.StatusAccepted)
	}, n)
	generator{[]template{tmpl}, rec, rec.watch.now() + 1e11}.closedLoop(context.Background(), 8)
	if taken.Load() != n || rec.failed.Load() != 0 {
		t.Errorf("%d of %d taken, %d failed", taken.Load(), n, rec.failed.Load())
	}
	if refused := calls.Load() - n; rec.refused.Load() != refused || refused == 0 {
		t.Errorf("%d refused, want %d", rec.refused.Load(), refused)
	}
	for seq := range keys {
		if keys[seq].Load() != 1 || rec.acked[seq].Load() == 0 || rec.intended[seq] == 0 {
			t.Fatalf("event %d: taken %d times, acked at %d", seq, keys[seq].Load(), rec.acked[seq].Load())
		}
	}
}

// flowID is the id of an event of the flow that sendTo makes.
func flowID(seq int) string {
	return string(newRecorder("flow", 0, stopwatch{}).appendID(nil, seq))
}

func TestOpenLoopCountsFromTheIntendedTime(t *testing.T) {
	const n, perSecond = 50, 1000
	release := make(chan struct{})
	var waiting atomic.Int64
	tmpl, rec := sendTo(t, func(w http.ResponseWriter, r *http.Request) {
		// The server stalls until the last event is on its way: were the generator
		// to wait for answers, that would never come.
		if waiting.Add(1) == n {
			close(release)
		}
		<-release
	}, n)
	generator{[]template{tmpl}, rec, rec.watch.now() + 1e11}.openLoop(context.Background(), perSecond, n)
	for seq := range n {
		if gap := rec.intended[seq] - rec.intended[0]; gap != int64(seq)*1e9/perSecond {
			t.Fatalf("event %d was due %d ns after the first", seq, gap)
		}
		if rec.acked[seq].Load() < rec.intended[n-1] {
			t.Fatalf("event %d was answered before the stall ended", seq)
		}
	}
}
