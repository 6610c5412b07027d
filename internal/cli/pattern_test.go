package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-dev/posthaste/signature"
)

func TestPatternAnswers(t *testing.T) {
	ok := answer{reply: "answered", status: 200}
	for _, tt := range []struct {
		name    string
		pattern pattern
		attempt int
		draw    float64
		want    answer
	}{
		{"nothing set", pattern{}, 1, 0, ok},
		{"always", pattern{Status: 410}, 7, 0.9, answer{reply: "answered", status: 410}},
		{"retry-after", pattern{Status: 429, RetryAfter: "5"}, 1, 0, answer{reply: "answered", status: 429, retryAfter: "5"}},
		{"hang", pattern{Hang: true}, 1, 0, answer{reply: "hung"}},
		{"close", pattern{Close: true}, 1, 0, answer{reply: "closed"}},
		{"the first", pattern{FailFirst: 2}, 2, 0.5, answer{reply: "answered", status: 503}},
		{"after the first", pattern{FailFirst: 2}, 3, 0.5, ok},
		{"the first, otherwise", pattern{FailFirst: 2, Status: 500, RetryAfter: "1"}, 1, 0.5, answer{reply: "answered", status: 500, retryAfter: "1"}},
		{"after the first, no Retry-After", pattern{FailFirst: 2, RetryAfter: "1"}, 3, 0.5, ok},
		{"the first hang", pattern{FailFirst: 1, Hang: true}, 1, 0.5, answer{reply: "hung"}},
		{"after one that hung", pattern{FailFirst: 1, Hang: true}, 2, 0.5, ok},
		{"not from Posthaste", pattern{FailFirst: 1}, 0, 0.5, answer{reply: "answered", status: 503}},
		{"in the share", pattern{FailShare: 0.3}, 1, 0.29, answer{reply: "answered", status: 503}},
		{"beyond the share", pattern{FailShare: 0.3}, 1, 0.3, ok},
		{"all", pattern{FailShare: 1}, 1, 0.999, answer{reply: "answered", status: 503}},
		{"both, by the number", pattern{FailFirst: 1, FailShare: 0.3}, 1, 0.9, answer{reply: "answered", status: 503}},
		{"both, by chance", pattern{FailFirst: 1, FailShare: 0.3}, 2, 0.1, answer{reply: "answered", status: 503}},
		{"delay of failures", pattern{FailFirst: 1, Delay: time.Second}, 1, 0.5, answer{reply: "answered", status: 503, delay: time.Second}},
		{"delay of successes", pattern{FailFirst: 1, Delay: time.Second}, 2, 0.5, answer{reply: "answered", status: 200, delay: time.Second}},
	} {
		if err := tt.pattern.check(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := tt.pattern.answer(tt.attempt, tt.draw); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestPatternIsDescribed(t *testing.T) {
	for want, p := range map[string]pattern{
		"answering 200":           {},
		"answering 503, after 2s": {Status: 503, Delay: 2 * time.Second},
		"never answering":         {Hang: true},
		"closing the connection to attempts up to number 2, 200 to the others":       {Close: true, FailFirst: 2},
		"answering 503 to attempts up to number 1 and 30% of all, 200 to the others": {FailFirst: 1, FailShare: 0.3},
		"answering 429 to 50% of all, 200 to the others, after 1s":                   {FailShare: 0.5, Status: 429, Delay: time.Second},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestReceiverRefusesBadFlags(t *testing.T) {
	for want, config := range map[string]receiverConfig{
		"--status is 100":              {Pattern: pattern{Status: 100}},
		"--status is 600":              {Pattern: pattern{Status: 600}},
		"--status is 200, which is no": {Pattern: pattern{Status: 200, FailFirst: 1}},
		"exclude each other":           {Pattern: pattern{Hang: true, Close: true}},
		"are of an answer":             {Pattern: pattern{Hang: true, Status: 503}},
		"--retry-after is of failures": {Pattern: pattern{RetryAfter: "5"}},
		`--retry-after is "soon"`:      {Pattern: pattern{Status: 503, RetryAfter: "soon"}},
		"--fail-share is 1.5":          {Pattern: pattern{FailShare: 1.5}},
		"--fail-first is -1":           {Pattern: pattern{FailFirst: -1}},
		"--delay is -1s":               {Pattern: pattern{Delay: -time.Second}},
		"--secret: prepare":            {Secrets: []string{"whsec_short"}},
		"with secret 2":                {Secrets: []string{signature.NewSecret(), "x"}},
		"belong together":              {SignatureHeader: "X-Sig"},
		"the secret is shorter than":   {SignatureHeader: "X-Sig", TimestampHeader: "X-Time", Secrets: []string{"short"}},
	} {
		if _, err := newReceiver(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", config, err, want)
		}
	}
	if _, err := newReceiver(receiverConfig{Pattern: pattern{Status: 99, FailFirst: -1}}); err == nil || strings.Count(err.Error(), "--") < 2 {
		t.Errorf("two mistakes: %v", err)
	}
}

func TestReceiverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := newReceiver(receiverConfig{Pattern: pattern{Status: 503, Delay: 7 * time.Second, RetryAfter: "3"}, Out: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		began, w := time.Now(), httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		if took := time.Since(began); took != 7*time.Second || w.Code != 503 || w.Header().Get("Retry-After") != "3" {
			t.Errorf("answered %d after %s", w.Code, took)
		}
	})
}

// TestReceiverGivesNoAnswer: --close ends the connection at once, --hang keeps it
// open until the client leaves.
func TestReceiverGivesNoAnswer(t *testing.T) {
	for name, p := range map[string]pattern{"closed": {Close: true}, "hung": {Hang: true}} {
		lines, out := io.Pipe()
		r, err := newReceiver(receiverConfig{Pattern: p, JSON: true, Out: out})
		if err != nil {
			t.Fatal(err)
		}
		var lc net.ListenConfig
		listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- r.serve(ctx, listener) }()

		client := &http.Client{Transport: &http.Transport{}}
		asking, leave := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() {
			req, err := http.NewRequestWithContext(asking, http.MethodPost, "http://"+listener.Addr().String(), strings.NewReader("x"))
			if err == nil {
				var res *http.Response
				if res, err = client.Do(req); err == nil {
					_ = res.Body.Close()
				}
			}
			answered <- err
		}()
		line, err := bufio.NewReader(lines).ReadBytes('\n')
		var got arrival
		if err != nil || json.Unmarshal(line, &got) != nil || got.Reply != name || got.Answered != 0 {
			t.Errorf("%s: %v, %s", name, err, line)
		}
		if name == "hung" {
			select {
			case err := <-answered:
				t.Errorf("hung: an answer, %v", err)
			default:
			}
			leave()
		}
		if err := <-answered; err == nil {
			t.Errorf("%s: the request was answered", name)
		}
		leave()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

func TestReceiverVerifiesHex(t *testing.T) {
	const secret = "a-secret-of-the-shop"
	signer, err := signature.NewHex(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		secrets []string
		want    string
	}{
		{[]string{"another-secret-of-it", secret}, "ok"},
		{[]string{"another-secret-of-it"}, signature.ErrMismatch.Error()},
	} {
		var out bytes.Buffer
		r, err := newReceiver(receiverConfig{Secrets: tt.secrets, SignatureHeader: "X-Shop-Sig", TimestampHeader: "X-Shop-Time", JSON: true, Out: &out})
		if err != nil {
			t.Fatal(err)
		}
		now, body := time.Now(), []byte("x")
		req := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		req.Header.Set("X-Shop-Time", strconv.FormatInt(now.Unix(), 10))
		req.Header.Set("X-Shop-Sig", string(signer.Append(nil, now, body)))
		r.ServeHTTP(httptest.NewRecorder(), req)
		var got arrival
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Signature != tt.want {
			t.Errorf("%v: %q, %v; want %q", tt.secrets, got.Signature, err, tt.want)
		}
	}
}
