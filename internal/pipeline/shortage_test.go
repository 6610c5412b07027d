package pipeline

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/gate"
)

// shortOfDescriptors returns a resolver that has no file descriptor while short is set,
// and otherwise answers 127.0.0.1 for every name.
func shortOfDescriptors(short *atomic.Bool) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		if short.Load() {
			return nil, &net.OpError{Op: "dial", Net: "udp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}
		ours, theirs := net.Pipe()
		go answerDNS(theirs)
		return ours, nil
	}}
}

// answerDNS answers one question as over TCP, with the length before each message.
func answerDNS(c net.Conn) {
	defer c.Close()
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return
	}
	question := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, question); err != nil {
		return
	}
	end := 12 + strings.IndexByte(string(question[12:]), 0) + 5 // the name, type, class
	answer := append([]byte{}, question[:end]...)
	binary.BigEndian.PutUint16(answer[2:], 0x8180)
	copy(answer[6:12], make([]byte, 6))
	if binary.BigEndian.Uint16(answer[end-4:]) == 1 { // A
		answer[7] = 1
		answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
	}
	_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
}

// What this server lacks is never counted against an endpoint: more failures than the
// retry schedule has steps, and than the breaker lets pass, end in a delivery.
func TestShortageCountsAgainstNoEndpoint(t *testing.T) {
	r := newReceiver(t)
	var short atomic.Bool
	short.Store(true)
	e := startEngine(t, func(c *Config) {
		c.Sender = deliver.New(deliver.Config{
			AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHTTP: deliver.HTTPNetworks,
			Resolver: shortOfDescriptors(&short),
		})
	})
	url := strings.Replace(r.URL, "127.0.0.1", "receiver.test", 1)
	row := e.endpoint(url, func(d *posthaste.Definition) {
		d.Retry.Schedule = d.Retry.Schedule[:1]
		d.Breaker.Threshold = 2
	})
	event := e.send("a", "{}").ID
	e.eventually(15*time.Second, "two attempts have failed", func() bool { return e.delivery(event, 1).Attempts >= 2 })
	short.Store(false)
	d, attempts := e.ended(event, 1)
	if d.State != posthaste.StateDelivered || len(attempts) < 3 {
		t.Fatalf("%s after %d attempts, want it delivered after more than the schedule has: %+v", d.State, len(attempts), attempts)
	}
	for i, a := range attempts[:len(attempts)-1] {
		if a.Cause != posthaste.CauseLocal || a.Outcome != posthaste.OutcomeTransient || !strings.Contains(a.Error, "this server lacks file descriptors") {
			t.Errorf("attempt %d: %s, cause %s: %s", i+1, a.Outcome, a.Cause, a.Error)
		}
	}
	if d.Failures != 0 {
		t.Errorf("%d failures are counted", d.Failures)
	}
	if s := e.gate(row.No); s != (gate.State{}) {
		t.Errorf("the endpoint's gate moved: %+v", s)
	}
	if n := testutil.ToFloat64(e.metrics.LocalFailures.WithLabelValues(string(deliver.ShortOfDescriptors))); n != float64(len(attempts)-1) {
		t.Errorf("%v failures in the metric, want %d", n, len(attempts)-1)
	}
	if s := e.Shortage(); !strings.Contains(s, "file descriptors") {
		t.Errorf("shortage: %q", s)
	}
	e.verified()
}

// A shortage is over some time after the last attempt that it failed.
func TestShortageEnds(t *testing.T) {
	e := startEngine(t, nil)
	e.shortage.note(deliver.Result{Shortage: deliver.ShortOfMemory})
	if s := e.Shortage(); !strings.Contains(s, "lack of memory") {
		t.Errorf("shortage: %q", s)
	}
	e.shortage.mu.Lock()
	e.shortage.last -= shortageOver + time.Second
	e.shortage.mu.Unlock()
	if s := e.Shortage(); s != "" {
		t.Errorf("shortage: %q, want it over", s)
	}
}

// The attempt's record says that its request was sent twice.
func TestSentTwiceIsRecorded(t *testing.T) {
	var poisoned atomic.Bool
	var requests atomic.Int64
	r := newReceiver(t)
	good := r.Config.Handler
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if poisoned.Load() {
			requests.Add(1)
			panic(http.ErrAbortHandler)
		}
		good.ServeHTTP(w, req)
	})
	e := startEngine(t, nil)
	e.endpoint(r.URL, func(d *posthaste.Definition) { d.Retry.Schedule = nil })
	if _, attempts := e.ended(e.send("a", "{}").ID, 1); len(attempts) != 1 || attempts[0].SentTwice {
		t.Fatalf("%+v", attempts)
	}
	poisoned.Store(true)
	d, attempts := e.ended(e.send("a", "{}").ID, 1)
	if d.State != posthaste.StateDead || len(attempts) != 1 || !attempts[0].SentTwice || requests.Load() != 2 {
		t.Errorf("%s after %d requests: %+v", d.State, requests.Load(), attempts)
	}
}
