package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/signature"
)

// signed returns a delivery as a receiver sees it.
func signed(t *testing.T, secret string, body []byte) *http.Request {
	t.Helper()
	signer, err := signature.NewStandard(secret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	req := httptest.NewRequest(http.MethodPost, "/hook", bytes.NewReader(body))
	req.Header.Set(signature.HeaderID, "evt_1")
	req.Header.Set(signature.HeaderTimestamp, jsonNumber(now.Unix()))
	req.Header.Set(signature.HeaderSignature, string(signer.Append(nil, "evt_1", now, body)))
	req.Header.Set("Posthaste-Event-Type", "invoice.paid")
	req.Header.Set("Posthaste-Delivery-Id", "dlv_1")
	req.Header.Set("Posthaste-Attempt", "3")
	return req
}

func jsonNumber(n int64) string {
	raw, _ := json.Marshal(n)
	return string(raw)
}

func TestReceiverVerifies(t *testing.T) {
	secret, body := signature.NewSecret(), []byte(`{"a":1}`)
	for _, tt := range []struct {
		name    string
		secrets []string
		change  func(*http.Request)
		want    string
	}{
		{"good", []string{secret}, func(*http.Request) {}, "ok"},
		{"no secret", nil, func(*http.Request) {}, "not checked"},
		{"one of several", []string{signature.NewSecret(), secret}, func(*http.Request) {}, "ok"},
		{"another secret", []string{signature.NewSecret()}, func(*http.Request) {}, signature.ErrMismatch.Error()},
		{"unsigned", []string{secret}, func(r *http.Request) { r.Header.Del(signature.HeaderSignature) }, signature.ErrHeader.Error()},
		{"another id", []string{secret}, func(r *http.Request) { r.Header.Set(signature.HeaderID, "evt_2") }, signature.ErrMismatch.Error()},
		{"old", []string{secret}, func(r *http.Request) { r.Header.Set(signature.HeaderTimestamp, "1700000000") }, signature.ErrTimestamp.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			r, err := newReceiver(receiverConfig{Secrets: tt.secrets, Pattern: pattern{Status: 204}, JSON: true, Out: &out})
			if err != nil {
				t.Fatal(err)
			}
			req := signed(t, secret, body)
			tt.change(req)
			w := httptest.NewRecorder()
			r.ServeHTTP(w, req)
			var got arrival
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatalf("%v in %q", err, out.String())
			}
			if got.Signature != tt.want || w.Code != 204 || got.Answered != 204 || got.Attempt != 3 ||
				got.Type != "invoice.paid" || got.DeliveryID != "dlv_1" || got.Body != `{"a":1}` || got.BodyBytes != 7 {
				t.Errorf("answered %d, printed %+v; want signature %q", w.Code, got, tt.want)
			}
		})
	}
}

// TestReceiverLines: one line an arrival, whatever it holds, and what is bad is loud.
func TestReceiverLines(t *testing.T) {
	var out bytes.Buffer
	secret := signature.NewSecret()
	r, err := newReceiver(receiverConfig{Secrets: []string{secret}, Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range [][]byte{[]byte("two\nlines\x1b[2J"), []byte(strings.Repeat("ä", 500)), nil, {0xff, 0xfe}} {
		r.ServeHTTP(httptest.NewRecorder(), signed(t, secret, body))
	}
	forged := signed(t, signature.NewSecret(), []byte("x"))
	forged.Header.Set("Posthaste-Event-Type", "a\x1b]0;owned\x07")
	r.ServeHTTP(httptest.NewRecorder(), forged)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 5 || strings.Contains(out.String(), "\x1b") {
		t.Fatalf("printed %q, want 5 lines without escapes", out.String())
	}
	for i, want := range []string{
		"invoice.paid  evt_1  dlv_1  attempt 3  signature ok  answered 200  two lines", "ä…", "(empty)", "(2 bytes, not text)",
		"signature BAD: " + signature.ErrMismatch.Error(),
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q, want %q in it", i, lines[i], want)
		}
	}
}

func TestKeepInFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	n := 0
	generate := func() string { n++; return strings.Repeat("k", n) }
	first, isNew, err := keepInFile(name, generate)
	if err != nil || !isNew || first != "k" {
		t.Fatalf("first: %q, %t, %v", first, isNew, err)
	}
	again, isNew, err := keepInFile(name, generate)
	if err != nil || isNew || again != first || n != 1 {
		t.Errorf("again: %q, %t, %v, generated %d times", again, isNew, err, n)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, _, err := keepInFile(filepath.Join(name, "below-a-file"), generate); err == nil {
		t.Error("a file below a file is made")
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(name), ".posthaste-key-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestServeHTTPLetsRequestsEnd: after the signal a request under way is answered,
// and one that hangs is cut off when the grace ends.
func TestServeHTTPLetsRequestsEnd(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		arrived, finish := make(chan struct{}), make(chan struct{})
		server := newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(arrived)
			select {
			case <-finish:
			case <-r.Context().Done():
			}
			w.WriteHeader(http.StatusAccepted)
		}), slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		grace := map[bool]time.Duration{false: time.Minute, true: 50 * time.Millisecond}[hangs]
		go func() { done <- serveHTTP(ctx, server, listener, grace) }()
		answered := make(chan error, 1)
		go func() {
			res, err := http.Post("http://"+listener.Addr().String()+"/", "text/plain", nil)
			if err == nil {
				err = res.Body.Close()
				if res.StatusCode != http.StatusAccepted {
					err = errors.New(res.Status)
				}
			}
			answered <- err
		}()
		<-arrived
		stop()
		if !hangs {
			close(finish)
		}
		if err := <-done; err != nil {
			t.Errorf("hangs %t: %v", hangs, err)
		}
		if err := <-answered; (err != nil) != hangs {
			t.Errorf("hangs %t: the request ended with %v", hangs, err)
		}
	}
}
