package cli

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/posthaste-dev/posthaste/internal/config"
)

// A client that never reads must not hold an answer, and its memory, for ever.
func TestAnswerThatNobodyReads(t *testing.T) {
	ended := make(chan struct{})
	server := newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 1<<20)
		for {
			if _, err := w.Write(part); err != nil {
				close(ended)
				return
			}
		}
	}), slog.New(slog.DiscardHandler))
	if server.WriteTimeout <= 0 {
		t.Fatal("the server has no WriteTimeout")
	}
	server.WriteTimeout = 50 * time.Millisecond
	listener, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener) //nolint:errcheck // always http.ErrServerClosed
	defer server.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the answer is still being written")
	}
}

// Every variable that a flag is read from is one that serve does not warn of.
func TestVariablesOfFlagsAreKnown(t *testing.T) {
	parser, err := kong.New(&grammar{}, kong.Name("posthaste"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	err = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, is := node.(*kong.Flag); is {
			for _, name := range flag.Envs {
				found += strings.Count(name, "POSTHASTE_")
				if unknown := config.UnknownVariables([]string{name + "=x"}); len(unknown) > 0 {
					t.Errorf("--%s is read from %s, of which serve warns", flag.Name, name)
				}
			}
		}
		return next(nil)
	})
	if err != nil || found == 0 {
		t.Errorf("%d variables of flags, %v", found, err)
	}
}
