//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestHolder holds clients of a server that says what a stream says, and then goes away.
func TestHolder(t *testing.T) {
	const clients = 20
	var there sync.WaitGroup
	there.Add(clients)
	told, ended := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		say := func(text string) {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
		say(": connected\nid: a\n\n")
		there.Done()
		<-told
		say("id: b\nevent: event.accepted\ndata: {}\n\n")
		<-ended
	}))
	defer server.Close()
	in, out := io.Pipe()
	go func() {
		err := hold(strings.TrimPrefix(server.URL, "http://"), clients, out)
		fmt.Fprintln(out, err)
		_ = out.Close()
	}()
	lines := bufio.NewScanner(in)
	next := func() string {
		lines.Scan()
		return lines.Text()
	}
	if got := next(); got != holderConnected {
		t.Fatalf("first line %q, want %q", got, holderConnected)
	}
	there.Wait()
	close(told)
	if got := next(); got != holderTold {
		t.Fatalf("second line %q, want %q", got, holderTold)
	}
	close(ended)
	if got := next(); !strings.Contains(got, "has ended: HTTP/1.1 200 OK") {
		t.Errorf("last line %q, want that a client's stream has ended", got)
	}
}
