//go:build unix

package deliver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
)

// Out of file descriptors, an attempt says that this server lacks them, closes idle
// connections of others, and the next attempt gets through. In a process of its own.
func TestOutOfDescriptors(t *testing.T) {
	if os.Getenv("OUT_OF_DESCRIPTORS") == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOutOfDescriptors$", "-test.v")
		child.Env = append(os.Environ(), "OUT_OF_DESCRIPTORS=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	servers := make([]string, 4)
	for i := range servers {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		defer server.Close()
		servers[i] = server.URL
	}
	s := newSender(t, nil)
	for _, url := range servers[:3] {
		delivered(t, s.Send(t.Context(), newTarget(t, url, long, nil), newMessage(nil)))
	}
	var hoard []*os.File
	defer func() {
		for _, f := range hoard {
			f.Close()
		}
	}()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 128, Max: 128}); err != nil {
		t.Fatal(err)
	}
	for range 128 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		hoard = append(hoard, f)
	}
	target := newTarget(t, servers[3], long, nil)
	r := s.Send(t.Context(), target, newMessage(nil))
	if r.Cause != posthaste.CauseLocal || r.Shortage != deliver.ShortOfDescriptors || r.Cause.Fault() != posthaste.FaultLocal {
		t.Errorf("cause %q, shortage %q: %s", r.Cause, r.Shortage, r.Error)
	}
	fmt.Println(r.Error)
	for i := 0; r.Cause == posthaste.CauseLocal && i < 1000; i++ { // the receivers' ends of what was closed take a moment
		r = s.Send(t.Context(), target, newMessage(nil))
	}
	delivered(t, r)
}
