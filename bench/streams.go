//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	streamClients = 5000
	// idleTime holds a ping to each client: what it leaves behind counts.
	idleTime = 20 * time.Second
)

// idleStreams measures what clients of the live stream cost while nothing happens,
// and how long it takes until an event has reached the last of them.
func idleStreams(ctx context.Context, g *gated) error {
	clients := g.size(streamClients)
	if err := checkFiles(clients); err != nil {
		return err
	}
	pid := g.engine.pids()
	before, files := residentBytes(processes(), pid), g.openFiles()
	h, err := startHolder(g.vars, clients)
	if err != nil {
		return err
	}
	_, err = g.observed(ctx, fmt.Sprintf("%d clients, idle", clients), func(*result) (int, error) {
		if err := h.await(ctx, holderConnected, g.bench.limit); err != nil {
			return 0, err
		}
		return 0, sleep(ctx, idleTime)
	})
	if err != nil {
		return errors.Join(err, h.stop())
	}
	after, filesAfter := residentBytes(processes(), pid), g.openFiles()
	g.tell("MB resident before", float64(before)/(1<<20))
	g.tell(fmt.Sprintf("MB resident with %d clients", clients), float64(after)/(1<<20))
	g.tell("descriptors before", float64(files))
	g.tell(fmt.Sprintf("descriptors with %d clients", clients), float64(filesAfter))
	g.atMost("kB resident a client", float64(after-before)/1000/float64(clients), streamClientBudget)
	return errors.Join(g.tellAll(ctx, h), h.stop())
}

// tellAll accepts one event and waits until all clients have been told of it.
func (g *gated) tellAll(ctx context.Context, h *holder) error {
	rec := g.flow("told", 1)
	defer g.receiver.closeFlow(rec)
	began := g.watch.now()
	generator{g.templates, rec, began + int64(g.bench.limit)}.closedLoop(ctx, 1)
	if rec.failed.Load() > 0 {
		return fmt.Errorf("the event was not accepted: %s", *rec.firstErr.Load())
	}
	if err := h.await(ctx, holderTold, g.bench.limit); err != nil {
		return err
	}
	g.tell("s from an event to the last client", float64(g.watch.now()-began)/float64(time.Second))
	g.tell("MB resident after it", float64(residentBytes(processes(), g.engine.pids()))/(1<<20))
	return nil
}

// checkFiles reports whether the engine and the holder may open a descriptor for
// each client. Go's programs raise the soft limit to the hard one when they start.
func checkFiles(clients int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if need := uint64(clients) + 500; limit.Max < need {
		return fmt.Errorf("at most %d open files: raise the hard limit (ulimit -Hn) to %d", limit.Max, need)
	}
	return nil
}

// openFiles counts the engine's descriptors.
func (g *gated) openFiles() (n int) {
	for _, pid := range g.engine.pids() {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // fails for a bad pattern only
		n += len(files)
	}
	return n
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// holder is this program once more, as a process that holds clients: neither their
// memory nor their descriptors are then among those of the generator.
type holder struct {
	child *child
	lines chan string // what it says, closed when it has ended
}

// holdCommand is the argument that makes this program a holder; the address and the
// number of clients come after it, and the key is in the environment.
const (
	holdCommand = "hold-streams"
	holdKey     = "BENCH_HOLD_KEY"
	// The holder writes its lines to the first file after the standard ones.
	holdOutput = 3
)

// What a holder says, a line each. Any other line is why it ends.
const (
	holderConnected = "connected"
	holderTold      = "told"
)

func startHolder(vars variables, clients int) (*holder, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the clients: %w", err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the clients: %w", err)
	}
	defer out.Close() // the child has its own
	cmd := exec.Command(self, holdCommand, vars["listen"], strconv.Itoa(clients))
	cmd.Env = append(os.Environ(), holdKey+"="+vars["admin_key"])
	cmd.ExtraFiles = []*os.File{out}
	h := &holder{lines: make(chan string, 8)}
	if h.child, err = startChild("clients", cmd, vars["dir"]); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	go func() {
		defer in.Close()
		defer close(h.lines)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			h.lines <- lines.Text()
		}
	}()
	return h, nil
}

// await waits until the holder says that.
func (h *holder) await(ctx context.Context, line string, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the clients were not %s within %s", line, limit))
	defer cancel()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case got, ok := <-h.lines:
		if !ok {
			return fmt.Errorf("the clients ended: %s", h.child.tail())
		}
		if got != line {
			return fmt.Errorf("the clients: %s", strings.TrimSpace(got))
		}
		return nil
	}
}

func (h *holder) stop() error { return h.child.stop(syscall.SIGTERM, 10*time.Second) }
