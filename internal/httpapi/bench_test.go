package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/auth"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/httpapi"
	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/telemetry"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/sqlite"
)

// outside, in the environment, makes the test binary the world around an engine:
// the benchmark counts the CPU of its process, and senders and receiver are no part
// of it.
const outside = "HTTPAPI_TEST_OUTSIDE"

func TestMain(m *testing.M) {
	if os.Getenv(outside) != "" {
		liveOutside()
		return
	}
	os.Exit(m.Run())
}

// BenchmarkEvent takes an event with an idempotency key over a real connection, makes
// its one attempt and settles it. What a database would do is left out: a commit takes
// a millisecond, in which the next batch forms.
func BenchmarkEvent(b *testing.B) {
	const warmUp = 3000 // connections, routes, stacks
	world := startOutside(b)
	db := &noDatabase{}
	api, key := quickEngine(b, db)
	body := fmt.Sprintf(`{"url":%q,"max_in_flight":512}`, world.receiver)
	r, err := http.NewRequest(http.MethodPost, api+"/v1/endpoints", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	if answer, err := http.DefaultClient.Do(r); err != nil || answer.StatusCode != http.StatusCreated {
		b.Fatalf("make the endpoint: %+v, %v", answer, err)
	}
	world.send(b, api, key, warmUp)
	db.awaitSettled(warmUp)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	world.send(b, api, key, b.N)
	db.awaitSettled(warmUp + int64(b.N))
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1e3/float64(b.N), "µs-cpu/op")
}

// quickEngine starts an engine that keeps events and attempts nowhere.
func quickEngine(b *testing.B, db *noDatabase) (url, key string) {
	ctx, stop := context.WithCancel(context.Background())
	ring, err := keyring.New(keyring.Generate())
	if err != nil {
		b.Fatal(err)
	}
	kept, err := sqlite.Open(ctx, sqlite.Config{Path: testdb.SQLite(b), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	if err := kept.Migrate(ctx); err != nil {
		b.Fatal(err)
	}
	db.Store = kept
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	sender := deliver.New(deliver.Config{AllowNetworks: loopback, AllowHTTP: deliver.HTTPNetworks})
	log := slog.New(telemetry.NewJSON(telemetry.NewLines(io.Discard), slog.LevelInfo))
	p, err := pipeline.New(pipeline.Config{Store: db, Sender: sender, Keyring: ring, Replica: "bench", Log: log})
	if err != nil {
		b.Fatal(err)
	}
	key = auth.NewKey()
	api, err := httpapi.New(httpapi.Config{Pipeline: p, Auth: auth.New(auth.HashKey(key)), Log: log, AllowNetworks: loopback, AllowHTTP: deliver.HTTPNetworks})
	if err != nil {
		b.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	for p.Ready() != nil {
		<-time.After(time.Millisecond)
	}
	web := httptest.NewServer(api)
	b.Cleanup(func() {
		web.Close()
		stop()
		if err := <-ran; err != nil {
			b.Error(err)
		}
		sender.Close()
		kept.Close()
	})
	return web.URL, key
}

// noDatabase stands in for the two commits that are made for each event.
type noDatabase struct {
	store.Store
	settled atomic.Int64
}

const commitTime = time.Millisecond

func (s *noDatabase) Accept(_ context.Context, p store.AcceptParams) (store.Accepted, error) {
	<-time.After(commitTime)
	got := store.Accepted{Events: make([]store.AcceptedEvent, len(p.Events))}
	for i := range p.Events {
		e := &p.Events[i]
		got.Events[i] = store.AcceptedEvent{Stored: true, ID: e.ID, FanOut: e.FanOut, Sum: e.Sum}
	}
	return got, nil
}

func (s *noDatabase) Settle(_ context.Context, p store.SettleParams) (store.Settled, error) {
	<-time.After(commitTime)
	got := store.Settled{Moved: make([]bool, len(p.Settlements))}
	for i := range p.Settlements {
		if p.Settlements[i].State == posthaste.StateDelivered {
			s.settled.Add(1)
		}
		got.Moved[i] = true
	}
	return got, nil
}

func (s *noDatabase) awaitSettled(n int64) {
	for s.settled.Load() < n {
		<-time.After(commitTime)
	}
}

// cpuTime is what this process has used up, user and system.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// world is the process outside, as the benchmark speaks to it.
type world struct {
	receiver string
	in       io.WriteCloser
	out      *bufio.Reader
}

func startOutside(b *testing.B) *world {
	process := exec.Command(os.Args[0], "-test.run=^$")
	process.Env = append(os.Environ(), outside+"=1")
	process.Stderr = os.Stderr
	in, err := process.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := process.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); _ = process.Wait() })
	w := &world{in: in, out: bufio.NewReader(out)}
	if _, err := fmt.Fscan(w.out, &w.receiver); err != nil {
		b.Fatal(err)
	}
	return w
}

// send has n events sent, and returns when the last one is accepted.
func (w *world) send(b *testing.B, url, key string, n int) {
	b.Helper()
	fmt.Fprintln(w.in, strings.TrimPrefix(url, "http://"), key, n)
	var accepted int
	if _, err := fmt.Fscan(w.out, &accepted); err != nil || accepted != n {
		b.Fatalf("%d of %d events were accepted: %v", accepted, n, err)
	}
}

// liveOutside prints the address of a receiver, and sends events as it is told on its
// standard input, with which it ends.
func liveOutside() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("http://%s/hook\n", l.Addr())
	go receiveAll(l)
	for {
		var address, key string
		var n int
		if _, err := fmt.Scan(&address, &key, &n); err != nil {
			return
		}
		fmt.Println(sendAll(address, key, n))
	}
}

// receiveAll answers when the last byte of a payload came, a zero, which nothing else holds.
func receiveAll(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			for buf := make([]byte, 64<<10); ; {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				if bytes.IndexByte(buf[:n], 0) >= 0 {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nDate: Sun, 29 Nov 2026 15:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")
				}
			}
		}()
	}
}

// sendAll sends n events over many connections at once, and returns how many of them
// were answered with 202.
func sendAll(address, key string, n int) int {
	var left, accepted atomic.Int64
	left.Store(int64(n))
	payload := strings.Repeat("x", 1023) + "\x00"
	var senders sync.WaitGroup
	for range 96 {
		senders.Go(func() {
			c, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			defer c.Close()
			buf := make([]byte, 4<<10)
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				fmt.Fprintf(c, "POST /v1/events HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
					"Content-Length: %d\r\nIdempotency-Key: key-%d-%d\r\nPosthaste-Event-Type: bench.event\r\n\r\n%s", address, key, len(payload), n, i, payload)
				n, err := c.Read(buf) // an answer is one write
				if err != nil || !bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 202 ")) {
					return
				}
				accepted.Add(1)
			}
		})
	}
	senders.Wait()
	return int(accepted.Load())
}
