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
	"sync/atomic"
	"time"

	"github.com/posthaste-dev/posthaste/engine"
)

// Limits of a connection to a server of ours. Headers come in one packet or
// two; who takes longer is either broken or holds connections on purpose.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	answerTimeout     = 5 * time.Minute // 64 MiB at 230 kB a second, the slowest that is worth waiting for
	maxHeaderBytes    = 64 << 10
)

// httpTimeout is how long HTTP requests under way may take at shutdown. They wait for a
// commit and not for receivers, so they end within moments. Attempts go on meanwhile;
// their own time begins after it.
func httpTimeout(shutdown time.Duration) time.Duration { return min(shutdown/10, 2*time.Second) }

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

// entry is a server's handler: one that answers probes while the server starts, then the
// engine's.
type entry struct {
	handler atomic.Pointer[http.Handler]
	awaited atomic.Pointer[string]
}

func newEntry() *entry {
	e := &entry{}
	e.waitFor("opening the database")
	e.open(engine.StartingHandler(func() string { return *e.awaited.Load() }))
	return e
}

// waitFor says what the start waits for.
func (e *entry) waitFor(what string) { e.awaited.Store(&what) }

// open replaces the handler.
func (e *entry) open(h http.Handler) { e.handler.Store(&h) }

// ServeHTTP implements http.Handler.
func (e *entry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*e.handler.Load()).ServeHTTP(w, r)
}

// serveHTTP answers requests until ctx ends, then takes no new connections and
// gives those under way the timeout. It returns when none is left.
func serveHTTP(ctx context.Context, server *http.Server, listener net.Listener, timeout time.Duration) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
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
	const softLimitBytes = 180 << 20 // with the program itself about 200 MB resident
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimitBytes)
	}
}
