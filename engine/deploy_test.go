package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/postgres"
)

// The settings of a worker: this test binary, run as a program of its own that
// embeds the engine with two handlers, so that it can be killed.
const (
	workerDatabase = "POSTHASTE_TEST_WORKER_DB"
	workerName     = "POSTHASTE_TEST_WORKER_NAME"
	workerKey      = "POSTHASTE_TEST_WORKER_KEY"
	workerOffice   = "POSTHASTE_TEST_WORKER_OFFICE" // where its handlers ask what to do
)

func TestMain(m *testing.M) {
	if os.Getenv(workerDatabase) == "" {
		os.Exit(m.Run())
	}
	if err := work(context.Background()); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// work is the worker's main.
func work(ctx context.Context) error {
	db, err := postgres.Open(ctx, postgres.Config{URL: os.Getenv(workerDatabase)})
	if err != nil {
		return err
	}
	name := os.Getenv(workerName)
	e, err := engine.New(ctx, engine.Config{
		Store: db, MasterKey: os.Getenv(workerKey), AdminKey: adminKey, Replica: name,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	ask := func(ctx context.Context, d engine.Delivery) error {
		url := fmt.Sprintf("%s/%s/%s/%s/%d", os.Getenv(workerOffice), d.Type, name, d.ID.Print(posthaste.KindEvent), d.Attempt)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return nil
	}
	for _, kind := range []string{"slow", "quick"} {
		if err := e.AddHandler(engine.Handler{EventTypes: []string{kind}, Func: ask, Timeout: time.Minute}); err != nil {
			return err
		}
	}
	return e.Run(ctx)
}

// office answers the workers' handlers: those of quick events at once, those of slow
// ones when the test lets them go.
type office struct {
	*httptest.Server
	mu    sync.Mutex
	begun map[string][]string      // by event: which worker began it, and with which number
	let   map[string]chan struct{} // by event: closed to let it end
}

func newOffice(t *testing.T) *office {
	o := &office{begun: map[string][]string{}, let: map[string]chan struct{}{}}
	o.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		part := strings.Split(r.URL.Path, "/") // "", type, worker, event, attempt
		o.mu.Lock()
		o.begun[part[3]] = append(o.begun[part[3]], part[2]+" "+part[4])
		o.mu.Unlock()
		if part[1] == "slow" {
			select {
			case <-o.gate(part[3]):
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *office) gate(event string) chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.let[event] == nil {
		o.let[event] = make(chan struct{})
	}
	return o.let[event]
}

// began returns who began an event, in order.
func (o *office) began(event posthaste.ID) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.begun[event.Print(posthaste.KindEvent)], ", ")
}

// startWorker runs a worker until the test ends, or until it is killed by the function
// that is returned.
func startWorker(t *testing.T, url, name string, o *office) (kill func()) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerDatabase+"="+url, workerName+"="+name, workerKey+"="+testMasterKey, workerOffice+"="+o.URL)
	cmd.Stdout, cmd.Stderr = io.Discard, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, &log)
		}
	})
	t.Cleanup(kill)
	return kill
}

// TestRollingDeploy: a worker that starts never takes what another one is working on,
// and takes it over within 25 s once that one is killed. The event's way begins at a
// replica of another program, which has no handlers.
func TestRollingDeploy(t *testing.T) {
	url := testdb.Postgres(t)
	db, o := connect(t, url), newOffice(t)
	front := newProgram(t, db, "front")
	stop := run(t, front.Engine)
	killFirst := startWorker(t, url, "first", o)
	eventually(t, "the first worker made its endpoints", func() bool {
		_, err := db.EndpointByUID(t.Context(), store.EveryTenant, "func:quick")
		return err == nil
	})
	var slow []posthaste.ID
	for range 10 {
		slow = append(slow, front.send("default", engine.Event{Type: "slow"}).ID)
	}
	all := func(what, want string, events []posthaste.ID) {
		t.Helper()
		eventually(t, what, func() bool {
			for _, id := range events {
				if got := o.began(id); got != want {
					if strings.Count(got, ",") > strings.Count(want, ",") {
						t.Fatalf("%s: an event was begun by %s", what, got)
					}
					return false
				}
			}
			return true
		})
	}
	all("the first worker works on everything", "first 1", slow)

	startWorker(t, url, "second", o)
	var quick []posthaste.ID
	eventually(t, "the second worker works", func() bool {
		quick = append(quick, front.send("default", engine.Event{Type: "quick"}).ID)
		return slices.ContainsFunc(quick, func(id posthaste.ID) bool { return strings.HasPrefix(o.began(id), "second") })
	})
	for _, id := range slow[:5] {
		close(o.gate(id.Print(posthaste.KindEvent)))
		if d, attempts := front.ended(id); d.State != posthaste.StateDelivered || len(attempts) != 1 {
			t.Errorf("what the first worker ended: %+v, %+v", d, attempts)
		}
	}
	all("the second worker has left the rest alone", "first 1", slow)

	killFirst()
	killed := time.Now()
	all("the second worker has taken it over", "first 1, second 2", slow[5:])
	took := time.Since(killed)
	t.Logf("taken over %s after the kill", took.Round(time.Millisecond))
	if took > 25*time.Second {
		t.Error("that is more than 25 s")
	}
	for _, id := range slow[5:] {
		close(o.gate(id.Print(posthaste.KindEvent)))
		d, attempts := front.ended(id)
		if d.State != posthaste.StateDelivered || len(attempts) != 2 || attempts[0].Outcome != posthaste.OutcomeLost || attempts[1].Replica != "second" {
			t.Errorf("what was taken over: %+v, %+v", d, attempts)
		}
	}
	all("nobody touched what had ended", "first 1", slow[:5])
	stop()
	verified(t, db)
}
