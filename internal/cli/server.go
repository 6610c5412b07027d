package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"
)

// Limits of a connection to a server of ours. Headers come in one packet or
// two; who takes longer is either broken or holds connections on purpose.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	answerTimeout     = 5 * time.Minute // 64 MiB at 230 kB a second, the slowest that is worth waiting for
	maxHeaderBytes    = 64 << 10
)

// httpGrace is the part of the grace that is left to HTTP requests under way.
// They wait for a commit, not for receivers, so they are done in moments.
func httpGrace(grace time.Duration) time.Duration { return min(grace/10, 2*time.Second) }

func listen(ctx context.Context, address string) (net.Listener, error) {
	var c net.ListenConfig
	return c.Listen(ctx, "tcp", address)
}

// newHTTPServer returns a server with limits. There is no ReadTimeout: the API bounds
// the time that a body may take itself. Nothing but the WriteTimeout ends an answer
// that its client does not read; the live stream sets its own.
func newHTTPServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		WriteTimeout:      answerTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // scanners and broken clients
	}
}

// serveHTTP answers requests until ctx ends, then takes no new connections and
// gives those under way the grace. It returns when none is left.
func serveHTTP(ctx context.Context, server *http.Server, listener net.Listener, grace time.Duration) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		_ = server.Close() // requests that are still not done: their clients get no answer
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// tuneCollector trades memory for CPU. Payloads make much garbage and little of
// it lives: already at GOGC=400 the engine does about a fifth more than at 100, with
// twice the heap. The soft limit makes the collector work harder when the heap
// grows past it all the same. GOGC and GOMEMLIMIT in the environment win.
func tuneCollector() {
	const softLimitBytes = 256 << 20
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimitBytes)
	}
}
