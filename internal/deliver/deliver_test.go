package deliver_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/signature"
)

func TestMain(m *testing.M) {
	if response := os.Getenv(quickResponse); response != "" {
		serveQuickly(response)
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	secretA = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretB = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD6x2zqg/Lm1s="
	// long is a deadline that no test reaches; short one that it waits for.
	long, short = 20 * time.Second, 400 * time.Millisecond
)

var (
	loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	eventID  = new(posthaste.Minter).Mint(time.Unix(1764428000, 0))
	startAt  = time.Unix(1764428000, 987654321)
)

// newSender allows plain HTTP to 127.0.0.0/8 unless the test says otherwise.
func newSender(t testing.TB, change func(*deliver.Config)) *deliver.Sender {
	t.Helper()
	c := deliver.Config{AllowNetworks: loopback, AllowHTTP: deliver.HTTPNetworks, UserAgent: "Posthaste/test"}
	if change != nil {
		change(&c)
	}
	s := deliver.New(c)
	t.Cleanup(s.Close)
	return s
}

func newTarget(t testing.TB, url string, timeout time.Duration, change func(*posthaste.Definition)) *deliver.Target {
	t.Helper()
	d := posthaste.DefaultDefinition()
	d.URL, d.Retry.Timeout = url, posthaste.Duration(timeout)
	if change != nil {
		change(&d)
	}
	target, err := deliver.NewTarget(d, []string{secretA})
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func newMessage(body []byte) *deliver.Message {
	return &deliver.Message{
		EventID: eventID, DeliveryID: eventID.Delivery(1), Number: 3, Type: "invoice.paid",
		ContentType: "application/json", Body: body,
	}
}

// rawServer hands each connection to serve and counts them. It is for what
// net/http's server is too well-behaved to do.
func rawServer(t testing.TB, serve func(net.Conn)) (url string, accepted *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = new(atomic.Int64)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { defer c.Close(); serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return "http://" + l.Addr().String() + "/hook", accepted
}

// readRequest reads one request to its end.
func readRequest(r *bufio.Reader) ([]byte, error) {
	request, err := http.ReadRequest(r)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(request.Body)
}

// answering serves the same response to each request of a connection.
func answering(response string) func(net.Conn) {
	return func(c net.Conn) {
		for r := bufio.NewReader(c); ; {
			if _, err := readRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, response); err != nil {
				return
			}
		}
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func delivered(t *testing.T, r deliver.Result) {
	t.Helper()
	if r.Cause != posthaste.CauseNone || r.Error != "" || r.StatusCode/100 != 2 {
		t.Fatalf("status %d, cause %q: %s", r.StatusCode, r.Cause, r.Error)
	}
}

// The whole request, byte for byte, for both schemes.
func TestRequestOnTheWire(t *testing.T) {
	received := make(chan string, 1)
	url, _ := rawServer(t, func(c net.Conn) {
		var buf bytes.Buffer
		if _, err := readRequest(bufio.NewReader(io.TeeReader(c, &buf))); err == nil {
			received <- buf.String()
		}
		io.WriteString(c, ok)
	})
	s := newSender(t, func(c *deliver.Config) { c.Now = func() time.Time { return startAt } })
	m := newMessage([]byte(`{"n": 1.0}`))
	m.ContentEncoding, m.Traceparent = "identity", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, h := range [][2]string{
		{"X-Trace", "abc"}, {"x-trace", "def"}, {"authorization", "forwarded"}, {"X-ACME-ID", "forged"},
		{"Webhook-Id", "forged"}, {"POSTHASTE-attempt", "99"}, {"host", "forged"}, {"Content-Length", "0"},
		{"transfer-encoding", "chunked"}, {"Traceparent", "forged"}, {"X-Bad", "a\r\nEvil: 1"}, {"bad name", "x"}, {"Connection", "close"},
	} {
		m.Headers = append(m.Headers, posthaste.Header{Name: h[0], Value: h[1]})
	}
	hex := func(d *posthaste.Definition) {
		d.Headers = map[string]string{"x-acme-signature": "forged", "authorization": "Bearer own"}
		d.Signature = posthaste.Signature{Scheme: posthaste.SchemeHex, Headers: posthaste.SignatureHeaders{
			ID: "X-ACME-ID", DeliveryID: "X-ACME-Delivery", Timestamp: "X-ACME-Time", Event: "X-ACME-Event", Signature: "X-ACME-Signature",
		}}
	}
	event, delivery := eventID.Print("evt"), eventID.Delivery(1).Print("dlv")
	standard, _ := signature.NewStandard(secretA)
	hexSigner, _ := signature.NewHex(secretA)
	common := []string{
		"POST /hook HTTP/1.1", "Host: " + strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/hook"),
		"Content-Length: 10", "Content-Type: application/json", "Content-Encoding: identity", "User-Agent: Posthaste/test",
		"Authorization: Bearer own", "X-Trace: abc", "X-Trace: def", "traceparent: " + m.Traceparent,
		"posthaste-event-type: invoice.paid", "posthaste-attempt: 3", "posthaste-delivery-id: " + delivery,
	}
	for name, c := range map[string]struct {
		change func(*posthaste.Definition)
		want   []string
	}{
		"standard": {func(d *posthaste.Definition) { d.Headers = map[string]string{"authorization": "Bearer own"} }, []string{
			"X-Acme-Id: forged", // a name like any other for this scheme
			"webhook-id: " + event, "webhook-timestamp: 1764428000", "webhook-signature: " + string(standard.Append(nil, event, startAt, m.Body)),
		}},
		"hex": {hex, []string{
			"X-ACME-ID: " + event, "X-ACME-Delivery: " + delivery, "X-ACME-Time: 1764428000", "X-ACME-Event: invoice.paid",
			"X-ACME-Signature: " + string(hexSigner.Append(nil, startAt, m.Body)),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			target := newTarget(t, url, long, c.change)
			r := s.Send(t.Context(), target, m)
			delivered(t, r)
			if !r.StartedAt.Equal(startAt) {
				t.Errorf("started at %s", r.StartedAt)
			}
			head, body, _ := strings.Cut(<-received, "\r\n\r\n")
			if body != string(m.Body) {
				t.Errorf("body %q", body)
			}
			got, want := strings.Split(head, "\r\n"), slices.Concat(common, c.want)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			compareShown(t, s.RequestHeaders(target, m, startAt), got)
			s.Close() // the server answers one request a connection
		})
	}
}

// What is shown of a request is what was sent, but for masks.
func compareShown(t *testing.T, shown []posthaste.Header, sent []string) {
	t.Helper()
	var want []string
	for _, line := range sent {
		name, value, isHeader := strings.Cut(line, ": ")
		if !isHeader || name == "Host" || name == "Content-Length" {
			continue
		}
		switch strings.ToLower(name) {
		case "authorization":
			value = "***"
		case "webhook-signature":
			value = "v1,***"
		case "x-acme-signature":
			value = "sha256=***"
		}
		want = append(want, name+": "+value)
	}
	var got []string
	for _, h := range shown {
		got = append(got, h.Name+": "+h.Value)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("shown\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Nothing is invented for an event that came without content type or body.
func TestAbsentStaysAbsent(t *testing.T) {
	headers := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r.Header.Set("Length", strconv.FormatInt(r.ContentLength, 10))
		headers <- r.Header
	}))
	defer server.Close()
	s := newSender(t, nil)
	m := newMessage(nil)
	m.ContentType = ""
	delivered(t, s.Send(t.Context(), newTarget(t, server.URL, long, nil), m))
	got := slices.Sorted(maps.Keys(<-headers))
	want := []string{"Content-Length", "Length", "Posthaste-Attempt", "Posthaste-Delivery-Id", "Posthaste-Event-Type", "User-Agent",
		"Webhook-Id", "Webhook-Signature", "Webhook-Timestamp"}
	if !slices.Equal(got, want) {
		t.Errorf("headers %q, want %q", got, want)
	}
	s.Close()
}

func TestBodiesArriveByteForByte(t *testing.T) {
	bodies := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		now := time.Now()
		verifier, _ := signature.NewStandard(secretA)
		if err := verifier.Verify(r.Header, body, now); err != nil {
			t.Error(err)
		}
		bodies <- body
	}))
	defer server.Close()
	s := newSender(t, nil)
	target := newTarget(t, server.URL, long, nil)
	every := make([]byte, 1<<20)
	for i := range every {
		every[i] = byte(i)
	}
	for name, body := range map[string][]byte{
		"empty": {}, "one zero": {0}, "odd JSON": []byte("{ \"a\":\t\"\\u00e9\", \"n\": 12345678901234567890.10 }\r\n"), "1 MiB": every,
	} {
		delivered(t, s.Send(t.Context(), target, newMessage(body)))
		if got := <-bodies; !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes arrived, %d sent, or others", name, len(got), len(body))
		}
	}
	s.Close()
}

func TestRotationSignsWithBoth(t *testing.T) {
	var failures atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, secret := range []string{secretA, secretB} {
			verifier, _ := signature.NewStandard(secret)
			if verifier.Verify(r.Header, body, time.Now()) != nil {
				failures.Add(1)
			}
		}
	}))
	defer server.Close()
	s := newSender(t, nil)
	d := posthaste.DefaultDefinition()
	d.URL = server.URL
	target, err := deliver.NewTarget(d, []string{secretB, secretA})
	if err != nil {
		t.Fatal(err)
	}
	delivered(t, s.Send(t.Context(), target, newMessage([]byte("x"))))
	if failures.Load() != 0 {
		t.Error("a receiver with one of the two secrets refused")
	}
	s.Close()
}

func TestConnectionsAreReused(t *testing.T) {
	for name, c := range map[string]struct {
		response string
		want     int64
	}{
		"no body":         {"HTTP/1.1 204 No Content\r\n\r\n", 1},
		"small body":      {ok, 1},
		"chunked":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 1},
		"error with body": {"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno", 1},
		"60 KiB":          {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", 60<<10, strings.Repeat("x", 60<<10)), 1},
		"80 KiB":          {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", 80<<10, strings.Repeat("x", 80<<10)), 5},
		"close asked for": {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 5},
		"trailers":        {"HTTP/1.1 200 OK\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n", 1},
		"100 before":      {"HTTP/1.1 100 Continue\r\n\r\n" + ok, 1},
		"HTTP/1.0":        {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 5},
		"HTTP/1.0, kept":  {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 1},
		"one too many":    {ok + "HTTP/1.1 500 Other\r\nContent-Length: 0\r\n\r\n", 5},
		"one byte more":   {ok + "!", 5},
		"304":             {"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 1},
		"101":             {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 5},
	} {
		t.Run(name, func(t *testing.T) {
			url, accepted := rawServer(t, answering(c.response))
			s := newSender(t, nil)
			target := newTarget(t, url, long, nil)
			for range 5 {
				if r := s.Send(t.Context(), target, newMessage([]byte("x"))); r.StatusCode == 0 {
					t.Fatal(r.Error)
				}
			}
			if got := accepted.Load(); got != c.want {
				t.Errorf("%d connections for 5 attempts, want %d", got, c.want)
			}
		})
	}
}

// A receiver that closes a connection just as the next request is written must
// not cost an attempt; one that hangs up on a fresh connection must.
func TestStaleConnectionIsReplayed(t *testing.T) {
	bodies := make(chan string, 10)
	url, accepted := rawServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		if body, err := readRequest(r); err == nil {
			bodies <- string(body)
			io.WriteString(c, ok)
		}
		if body, err := readRequest(r); err == nil {
			bodies <- string(body) // and hangs up without a word
		}
	})
	s := newSender(t, nil)
	target := newTarget(t, url, long, nil)
	delivered(t, s.Send(t.Context(), target, newMessage([]byte("first"))))
	delivered(t, s.Send(t.Context(), target, newMessage([]byte("second"))))
	if got := accepted.Load(); got != 2 {
		t.Errorf("%d connections, want 2", got)
	}
	if got := []string{<-bodies, <-bodies, <-bodies}; !slices.Equal(got, []string{"first", "second", "second"}) {
		t.Errorf("arrived: %q", got)
	}
}

func TestFreshConnectionIsNotReplayed(t *testing.T) {
	url, accepted := rawServer(t, afterRequest(func(net.Conn) {}))
	r := newSender(t, nil).Send(t.Context(), newTarget(t, url, long, nil), newMessage([]byte("x")))
	if r.Cause != posthaste.CauseBadResponse || accepted.Load() != 1 {
		t.Errorf("cause %q (%s) after %d connections", r.Cause, r.Error, accepted.Load())
	}
}

func TestTimings(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	s := newSender(t, trust(server))
	target := newTarget(t, server.URL, long, nil)
	first := s.Send(t.Context(), target, newMessage(nil))
	delivered(t, first)
	if tm := first.Timings; tm.Connect <= 0 || tm.TLS <= 0 || tm.FirstByte <= 0 || tm.DNS != 0 || tm.Total < tm.Connect+tm.TLS+tm.FirstByte {
		t.Errorf("first attempt: %+v", tm)
	}
	second := s.Send(t.Context(), target, newMessage(nil))
	delivered(t, second)
	if tm := second.Timings; tm.Connect != 0 || tm.TLS != 0 || tm.DNS != 0 || tm.FirstByte <= 0 || tm.Total < tm.FirstByte {
		t.Errorf("on a reused connection: %+v", tm)
	}
	s.Close()
}

func TestSendFromManyGoroutines(t *testing.T) {
	url, accepted := rawServer(t, answering(ok))
	s := newSender(t, nil)
	target := newTarget(t, url, long, nil)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 50 {
				if r := s.Send(context.Background(), target, newMessage([]byte(strconv.Itoa(i)))); r.Cause != posthaste.CauseNone {
					t.Error(r.Error)
				}
			}
		})
	}
	wg.Wait()
	if got := accepted.Load(); got > 64 {
		t.Errorf("%d connections for 16 senders", got)
	}
}

func TestNewTargetRefuses(t *testing.T) {
	hexNames := func(n posthaste.SignatureHeaders) func(*posthaste.Definition) {
		return func(d *posthaste.Definition) {
			d.Signature = posthaste.Signature{Scheme: posthaste.SchemeHex, Headers: n}
		}
	}
	header := func(name, value string) func(*posthaste.Definition) {
		return func(d *posthaste.Definition) { d.Headers = map[string]string{name: value} }
	}
	to := func(url string) func(*posthaste.Definition) {
		return func(d *posthaste.Definition) { d.URL = url }
	}
	for name, change := range map[string]func(*posthaste.Definition){
		"no URL": to(""), "file": to("file:///etc/passwd"), "no host": to("https:///x"), "credentials": to("https://u:hunter2@example.com"),
		"port 0": to("https://example.com:0"), "bad URL": to("https://exa mple.com/hunter2"), "only a port": to("https://:443/"),
		"own webhook-id": header("Webhook-ID", "x"), "own posthaste-attempt": header("posthaste-Attempt", "x"), "own host": header("host", "x"),
		"own content-length": header("Content-Length", "1"), "line break": header("X-A", "hunter2\r\nX-B: 1"), "bad name": header("X A", "x"),
		"scheme":         func(d *posthaste.Definition) { d.Signature.Scheme = "rot13" },
		"no timeout":     func(d *posthaste.Definition) { d.Retry.Timeout = 0 },
		"no names":       hexNames(posthaste.SignatureHeaders{}),
		"no timestamp":   hexNames(posthaste.SignatureHeaders{Signature: "X-S"}),
		"same name":      hexNames(posthaste.SignatureHeaders{Signature: "X-S", Timestamp: "x-s"}),
		"reserved name":  hexNames(posthaste.SignatureHeaders{Signature: "webhook-signature", Timestamp: "X-T"}),
		"bad name (hex)": hexNames(posthaste.SignatureHeaders{Signature: "X S", Timestamp: "X-T"}),
	} {
		d := posthaste.DefaultDefinition()
		d.URL = "https://example.com/hook"
		change(&d)
		if _, err := deliver.NewTarget(d, []string{secretA}); err == nil {
			t.Errorf("%s was accepted", name)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error tells too much: %v", name, err)
		}
	}
	d := posthaste.DefaultDefinition()
	d.URL = "https://example.com/hook"
	for _, secrets := range [][]string{nil, {""}, {secretA, "short"}} {
		if _, err := deliver.NewTarget(d, secrets); err == nil {
			t.Errorf("secrets %q were accepted", secrets)
		}
	}
}
