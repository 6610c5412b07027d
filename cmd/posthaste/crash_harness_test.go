package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The crash tests run the real binary against real databases: they start it,
// kill it and count what arrives. Everything is on the loopback address.

const (
	crashAdminKey    = "phk_crash_tests_0123456789abcdef"
	crashMasterKey   = "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
	crashMaxInFlight = 64
	// crashUnrecorded is pipeline.MaxUnrecorded: outcomes that may wait for their commit.
	crashUnrecorded = 2048
)

var buildBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "posthaste-crash-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "posthaste")
	out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the binary: %w: %s", err, out)
	}
	return binary, nil
})

// replica is one posthaste serve process.
type replica struct {
	t      *testing.T
	binary string
	url    string
	env    map[string]string
	cmd    *exec.Cmd
	log    *os.File
}

// newReplica prepares a process on the database; extra settings win.
func newReplica(t *testing.T, db string, extra map[string]string) *replica {
	t.Helper()
	binary, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	listen := freeAddress(t)
	log, err := os.CreateTemp(t.TempDir(), "serve-*.log")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"POSTHASTE_LISTEN": listen, "POSTHASTE_DB": db,
		"POSTHASTE_ADMIN_KEY": crashAdminKey, "POSTHASTE_MASTER_KEY": crashMasterKey,
		"POSTHASTE_ALLOW_HTTP": "true", "POSTHASTE_ALLOW_NETWORKS": "127.0.0.0/8",
		"POSTHASTE_MAX_IN_FLIGHT": fmt.Sprint(crashMaxInFlight), "POSTHASTE_LOG_LEVEL": "warn", "POSTHASTE_SHUTDOWN_TIMEOUT": "10s",
	}
	maps.Copy(env, extra)
	r := &replica{t: t, binary: binary, url: "http://" + listen, env: env, log: log}
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("log of %s (last part):\n%s", r.url, text[max(0, len(text)-4000):])
		}
		_ = log.Close()
	})
	return r
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// start runs the process and waits until it is ready.
func (r *replica) start() {
	r.t.Helper()
	r.launch()
	eventually(r.t, 30*time.Second, "replica is ready", func() bool {
		res, err := http.Get(r.url + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

func (r *replica) launch() {
	r.t.Helper()
	r.cmd = exec.Command(r.binary, "serve")
	r.cmd.Env = os.Environ()
	for k, v := range r.env {
		r.cmd.Env = append(r.cmd.Env, k+"="+v)
	}
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replica) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatalf("signal %v: %v", s, err)
	}
}

// kill ends the process with SIGKILL and reaps it.
func (r *replica) kill() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	r.cmd = nil
}

// terminate sends SIGTERM and returns how long the process took to end well.
func (r *replica) terminate(limit time.Duration) time.Duration {
	r.t.Helper()
	began := time.Now()
	r.signal(syscall.SIGTERM)
	timer := time.AfterFunc(limit, func() { _ = r.cmd.Process.Kill() })
	err := r.cmd.Wait()
	timer.Stop()
	r.cmd = nil
	if err != nil {
		r.t.Errorf("after SIGTERM the process ended with %v (limit %v)", err, limit)
	}
	return time.Since(began)
}

// api calls the HTTP API, with headers as pairs of name and value, and returns
// status and body.
func (r *replica) api(method, path, body string, headers ...string) (int, []byte) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+crashAdminKey)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, raw
}

// endpoint creates an endpoint with a schedule of one short step, repeated, and without
// a breaker: what hangs or fails here is to be tried again at once.
func (r *replica) endpoint(url string) {
	r.t.Helper()
	body := fmt.Sprintf(`{"url":%q,"event_types":["*"],"max_in_flight":32,"breaker":null,"retry":{"schedule":[%s],"timeout":"5s"}}`,
		url, strings.TrimSuffix(strings.Repeat(`"1s",`, 40), ","))
	if status, raw := r.api(http.MethodPost, "/v1/endpoints", body); status != http.StatusCreated {
		r.t.Fatalf("create endpoint: %d %s", status, raw)
	}
}

// counter is a receiver that counts the arrivals of each event.
type counter struct {
	*httptest.Server
	begun  atomic.Int64 // requests that have arrived, answered or not
	delay  atomic.Int64 // nanoseconds before the answer
	status atomic.Int32

	mu   sync.Mutex
	hits map[string]int // webhook-id → arrivals answered 2xx
}

func newCounter(t *testing.T) *counter {
	c := &counter{hits: map[string]int{}}
	c.status.Store(http.StatusOK)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		d := time.Duration(c.delay.Load())
		c.begun.Add(1)
		if d > 0 {
			select {
			case <-time.After(d):
			case <-r.Context().Done():
				return
			}
		}
		status := int(c.status.Load())
		if status < 300 {
			c.mu.Lock()
			c.hits[r.Header.Get("webhook-id")]++
			c.mu.Unlock()
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(c.Close)
	return c
}

// missing returns how many of the accepted events have not arrived.
func (c *counter) missing(accepted []string) (missing, duplicates int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range accepted {
		if c.hits[id] == 0 {
			missing++
		}
	}
	for _, n := range c.hits {
		duplicates += n - 1
	}
	return missing, duplicates
}

// load sends events until it is stopped, and remembers the ids answered 2xx.
type load struct {
	mu       sync.Mutex
	accepted []string
	refused  map[int]int // answers that are not 2xx, by status; 0: no answer
	stopped  context.CancelFunc
	done     sync.WaitGroup
}

// startLoad posts from n senders to any of the urls, at most limit events.
func startLoad(t *testing.T, n, limit int, urls ...string) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{stopped: cancel, refused: map[int]int{}}
	client := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	var sent atomic.Int64
	keys := fmt.Sprintf("%08x", rand.Uint32()) // no key of another load
	for range n {
		l.done.Go(func() {
			for i := sent.Add(1); i <= int64(limit) && ctx.Err() == nil; i = sent.Add(1) {
				if id, status := post(ctx, client, urls[rand.IntN(len(urls))], keys, i); status/100 == 2 {
					l.mu.Lock()
					l.accepted = append(l.accepted, id)
					l.mu.Unlock()
				} else if ctx.Err() == nil {
					l.mu.Lock()
					l.refused[status]++
					l.mu.Unlock()
					wait(ctx, 5*time.Millisecond) // a dead replica refuses at once: don't spin
				}
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

func (l *load) stop() {
	l.stopped()
	l.done.Wait()
}

func (l *load) ids() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.accepted...)
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

func post(ctx context.Context, client *http.Client, url, keys string, i int64) (id string, status int) {
	body := fmt.Sprintf(`{"n":%d, "pad":%q}`, i, strings.Repeat("x", 200))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/events", strings.NewReader(body))
	if err != nil {
		return "", 0
	}
	req.Header.Set("Authorization", "Bearer "+crashAdminKey)
	req.Header.Set("Posthaste-Event-Type", "crash.test")
	req.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%d", keys, i))
	res, err := client.Do(req)
	if err != nil {
		return "", 0
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return "", 0
	}
	return answer.ID, res.StatusCode
}

// verify runs posthaste verify on the database and fails on any finding.
func verify(t *testing.T, db string) {
	t.Helper()
	verifyWith(t, map[string]string{"POSTHASTE_DB": db})
}

// verifyWith is verify with settings that say where the database is.
func verifyWith(t *testing.T, settings map[string]string) {
	t.Helper()
	binary, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "verify")
	// Without the variable of the tests: verify would tell of it before what it found.
	cmd.Env = append(os.Environ(), "POSTHASTE_TEST_POSTGRES=", "POSTHASTE_MASTER_KEY="+crashMasterKey)
	for name, value := range settings {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	t.Logf("posthaste verify: %s", bytes.TrimSpace(out))
	if err != nil {
		t.Errorf("posthaste verify: %v", err)
	}
}

// eventually waits until done, or fails after the limit.
func eventually(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !done(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-tick.C
	}
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
