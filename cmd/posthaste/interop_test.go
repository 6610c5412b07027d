package main_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/signature"
)

// arrival is what a receiver found of a request.
type arrival struct {
	Path    string   `json:"path"`
	Type    string   `json:"type"`
	Digest  string   `json:"digest"`  // SHA-256 of the body, in hexadecimal
	Problem string   `json:"problem"` // why the verifier refused it; empty: it did not
	ByHand  string   `json:"by_hand"` // in Node, the same of a check over the raw bytes
	Headers []string `json:"headers"` // names, in lower case
}

// arrivals collects what the receivers found, by receiver, path and event type.
type arrivals struct {
	mu    sync.Mutex
	found map[string]arrival
}

func (a *arrivals) add(receiver string, one arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.found[receiver+one.Path+" "+one.Type] = one
}

func (a *arrivals) of(receiver, eventType string) (arrival, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, ok := a.found[receiver+" "+eventType]
	return one, ok
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// interopSecrets are those of the endpoints, and one that the receivers at
// /wrong verify with.
type interopSecrets struct{ standard, wrong, hex string }

// goReceiver verifies with the official library for Go.
func goReceiver(t *testing.T, a *arrivals, s interopSecrets) string {
	t.Helper()
	mux := http.NewServeMux()
	for path, secret := range map[string]string{"/standard": s.standard, "/wrong": s.wrong} {
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Errorf("read the body: %v", err)
				return
			}
			one := arrival{Path: path, Type: r.Header.Get("posthaste-event-type"), Digest: digest(body)}
			if err := verifier.Verify(body, r.Header); err != nil {
				one.Problem = err.Error()
				w.WriteHeader(http.StatusUnauthorized)
			}
			a.add("go", one)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// nodeReceiver starts testdata/node/receiver.js, which verifies with the
// official library for JavaScript. scripts/setup-tests installs that.
func nodeReceiver(t *testing.T, a *arrivals, s interopSecrets) string {
	t.Helper()
	cmd := exec.Command("node", "testdata/node/receiver.js")
	cmd.Env = append(os.Environ(), "SECRET="+s.standard, "WRONG_SECRET="+s.wrong, "HEX_SECRET="+s.hex)
	stdin, err := cmd.StdinPipe() // its end tells the process that we are gone
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("start Node (make test installs it): %v", err)
	}
	lines := bufio.NewScanner(stdout)
	var reading sync.WaitGroup
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		reading.Wait()
		_ = cmd.Wait()
	})
	var first struct {
		Port int `json:"port"`
	}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &first) != nil {
		_ = cmd.Wait()
		t.Fatalf("the Node receiver does not start (make test installs its packages): %s", stderr.String())
	}
	reading.Go(func() {
		for lines.Scan() {
			var one arrival
			if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
				t.Errorf("a line of the Node receiver: %v: %s", err, lines.Text())
				continue
			}
			a.add("node", one)
		}
	})
	return fmt.Sprintf("http://127.0.0.1:%d", first.Port)
}

// payloads are bodies that something on the way could be tempted to tidy up.
func payloads() map[string][]byte {
	allBytes := make([]byte, 256)
	for i := range allBytes {
		allBytes[i] = byte(i)
	}
	return map[string][]byte{
		"interop.odd-json":  []byte("\r\n {\"a\" :\t1 ,\"\\u0061\":\"\\u00e9\\/\\ud83d\\ude00\", \"big\":9007199254740993.10e+2,\"a\":[ ]}\n\n"),
		"interop.empty":     {},
		"interop.all-bytes": allBytes,
		"interop.1-mib":     bytes.Repeat([]byte("0123456789abcdef"), 1<<16),
		"interop.non-ascii": []byte("\ufeff{\"name\":\"Žluťoučký 馬 \U0001F40E e\u0301 \u2028\"}"), // with a byte order mark
		"interop.not-json":  []byte("a=1&b=%20"),
	}
}

// subscribe creates an endpoint for all of the payloads.
func (r *replica) subscribe(url, secret, scheme string) {
	r.t.Helper()
	body := fmt.Sprintf(`{"url":%q,"event_types":["interop.*"],"secret":%q,"signature":%s}`, url, secret, scheme)
	if status, raw := r.api(http.MethodPost, "/v1/endpoints", body); status != http.StatusCreated {
		r.t.Fatalf("create endpoint %s: %d %s", url, status, raw)
	}
}

// sendRaw sends a body as an event.
func (r *replica) sendRaw(eventType string, body []byte) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/v1/events", bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+crashAdminKey)
	req.Header.Set("Posthaste-Event-Type", eventType)
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if answer, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusAccepted {
		r.t.Fatalf("send %s: %d %s %v", eventType, res.StatusCode, answer, err)
	}
}

// statuses counts the deliveries of each status, up to 250 of each.
func (r *replica) statuses() map[string]int {
	r.t.Helper()
	n := map[string]int{}
	for _, status := range []string{"pending", "delivering", "delivered", "dead"} {
		code, raw := r.api(http.MethodGet, "/v1/deliveries?limit=250&status="+status, "")
		var page struct {
			Data []json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(raw, &page); err != nil || code != http.StatusOK {
			r.t.Fatalf("list %s deliveries: %d %s %v", status, code, raw, err)
		}
		if len(page.Data) > 0 {
			n[status] = len(page.Data)
		}
	}
	return n
}

func TestOfficialVerifiersAcceptOurSignatures(t *testing.T) {
	secrets := interopSecrets{standard: signature.NewSecret(), wrong: signature.NewSecret(), hex: "a plain secret, 馬, of text"}
	a := &arrivals{found: map[string]arrival{}}
	goURL, nodeURL := goReceiver(t, a, secrets), nodeReceiver(t, a, secrets)
	r := newReplica(t, testdb.SQLite(t), nil)
	r.start()
	const standard = `{"scheme":"standard"}`
	for _, receiver := range []string{goURL, nodeURL} {
		r.subscribe(receiver+"/standard", secrets.standard, standard)
		r.subscribe(receiver+"/wrong", secrets.standard, standard)
	}
	r.subscribe(nodeURL+"/hex", secrets.hex, `{"scheme":"hex","headers":{"id":"X-Acme-Id","timestamp":"X-Acme-Timestamp","signature":"X-Acme-Signature"}}`)
	bodies := payloads()
	for eventType, body := range bodies {
		r.sendRaw(eventType, body)
	}

	receivers := []string{"go/standard", "go/wrong", "node/standard", "node/wrong", "node/hex"}
	want := map[string]int{}
	for eventType, body := range bodies {
		for _, receiver := range receivers {
			var got arrival
			eventually(t, 30*time.Second, eventType+" arrives at "+receiver, func() (ok bool) {
				got, ok = a.of(receiver, eventType)
				return ok
			})
			if got.Digest != digest(body) {
				t.Errorf("%s at %s: other bytes than were sent", eventType, receiver)
			}
			want[expectVerdict(t, receiver, got, body)]++
		}
	}
	eventually(t, 30*time.Second, fmt.Sprintf("the deliveries are %v", want), func() bool {
		return fmt.Sprint(r.statuses()) == fmt.Sprint(want)
	})
	t.Logf("%d payloads at %d receivers: %v", len(bodies), len(receivers), want)
}

// expectVerdict checks what a receiver said of a body, and returns the status
// that the delivery has to end in.
func expectVerdict(t *testing.T, receiver string, got arrival, body []byte) string {
	t.Helper()
	const mismatch = "no matching signature found" // both libraries' words, but for the case
	refused := strings.Contains(strings.ToLower(got.Problem), mismatch)
	name := got.Type + " at " + receiver
	switch receiver {
	case "go/wrong", "node/wrong":
		if !refused || receiver == "node/wrong" && got.ByHand == "" {
			t.Errorf("%s: a wrong secret is not refused: %+v", name, got)
		}
		return "dead"
	case "node/standard":
		if got.ByHand != "" {
			t.Errorf("%s: the raw bytes don't verify: %s", name, got.ByHand)
		}
		// The library makes text of the body before it signs, which changes all that
		// is not UTF-8: it refuses such bodies whoever signed them.
		if !utf8.Valid(body) {
			if !refused {
				t.Errorf("%s: the library verifies binary bodies now (%q): expect it to", name, got.Problem)
			}
			return "dead"
		}
	case "node/hex":
		if !slices.Contains(got.Headers, "x-acme-signature") || !slices.Contains(got.Headers, "x-acme-id") {
			t.Errorf("%s: the named headers are missing in %q", name, got.Headers)
		}
		if slices.ContainsFunc(got.Headers, func(h string) bool { return strings.HasPrefix(h, "webhook-") }) {
			t.Errorf("%s: webhook-* headers beside the scheme hex: %q", name, got.Headers)
		}
	}
	if got.Problem != "" {
		t.Errorf("%s: refused: %s", name, got.Problem)
	}
	return "delivered"
}
