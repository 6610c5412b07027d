//go:build unix

// Package cluster runs a private PostgreSQL server in a temporary folder, for
// tests and measurements: initdb, start, stop, kill and start again on the same
// port. It needs the server's binaries (version 15 or newer) and nothing else:
// no root, no system service, no configuration. Whatever ends the process that
// started it, SIGKILL included, ends the server and removes its folder too.
package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// How long a server may take. Starting includes crash recovery.
const (
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
	pollInterval = 20 * time.Millisecond
)

// superuser is whom [Cluster.URL] connects as.
const superuser = "postgres"

// Mode says how a server is stopped, as pg_ctl's option of the same name does.
type Mode string

// The ways to stop a server.
const (
	// Fast closes every session, writes a checkpoint and leaves.
	Fast Mode = "fast"
	// Immediate leaves at once without a checkpoint; the next start recovers
	// from the write-ahead log, as after a crash.
	Immediate Mode = "immediate"
)

// Config says what differs from a server for tests. The zero value works.
type Config struct {
	// Settings are server settings (postgresql.conf) that replace or join the
	// defaults here, which are made for tests: fsync off, 200 connections,
	// UTC. A measurement of durable commits sets "fsync" to "on".
	Settings map[string]string
}

// Cluster is a PostgreSQL server with its own data folder. Its methods are for
// one goroutine at a time.
type Cluster struct {
	bin      string // folder of initdb and postgres
	dir      string // holds data/, server.log, password
	port     int
	password string
	settings []string // "name=value"
	owner    *syscall.Credential

	server *exec.Cmd     // nil while stopped
	exited chan struct{} // closed when server has ended
	guard  *guard
}

// New makes a data folder and starts a server on it, listening on a free
// loopback port only. The caller must call [Cluster.Close].
func New(ctx context.Context, cfg Config) (*Cluster, error) {
	bin, err := Find(ctx)
	if err != nil {
		return nil, err
	}
	owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, owner: owner, password: rand.Text(), settings: settings(cfg)}
	if c.dir, err = privateFolder("posthaste-pg-", owner); err != nil {
		return nil, err
	}
	if c.guard, err = watch(c.dir, "data/postmaster.pid", owner); err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.dir))
	}
	if err := c.initialize(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.startOnFreePort(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// URL returns the server's address for the database "postgres", as superuser:
// postgres://postgres:…@127.0.0.1:port/postgres?sslmode=disable. It stays the
// same over stops and starts.
func (c *Cluster) URL() string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, c.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// PID returns the process id of the server's first process (its other
// processes are its children), or 0 while it is stopped.
func (c *Cluster) PID() int {
	if c.server == nil {
		return 0
	}
	return c.server.Process.Pid
}

// Start starts a stopped or killed server and returns when it answers queries.
// On a running one it does nothing.
func (c *Cluster) Start(ctx context.Context) error {
	if c.server != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := c.launch(ctx)
		// Processes of a killed server can outlive it by a moment and hold its
		// shared memory, which makes a new one refuse.
		if err == nil || !c.logged("shared memory block") {
			return err
		}
		if waitErr := pause(ctx); waitErr != nil {
			return errors.Join(err, waitErr)
		}
	}
}

// Stop stops the server and waits for its end. On a stopped one it does nothing.
func (c *Cluster) Stop(mode Mode) error {
	if c.server == nil {
		return nil
	}
	sig := map[Mode]syscall.Signal{Fast: syscall.SIGINT, Immediate: syscall.SIGQUIT}[mode]
	if sig == 0 {
		return fmt.Errorf("stop PostgreSQL: unknown mode %q", mode)
	}
	if err := c.server.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	select {
	case <-c.exited:
		c.server = nil
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("PostgreSQL did not stop within %v; killing it", stopTimeout), c.Kill())
	}
}

// Kill ends the server and its sessions by SIGKILL, as the death of the machine
// would (less what the operating system had not yet written). The next
// [Cluster.Start] recovers.
func (c *Cluster) Kill() error {
	if c.server == nil {
		return nil
	}
	pid := c.server.Process.Pid
	// Each session leads a process group of its own, so killing the first
	// process's group would miss them. It must not fork between the listing
	// and its death, hence the SIGSTOP.
	err := c.server.Process.Signal(syscall.SIGSTOP)
	sessions := children(pid)
	err = errors.Join(err, c.server.Process.Kill())
	for _, child := range sessions {
		if killErr := syscall.Kill(child, syscall.SIGKILL); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
			err = errors.Join(err, killErr)
		}
	}
	<-c.exited
	c.server = nil
	if err != nil {
		return fmt.Errorf("kill PostgreSQL: %w", err)
	}
	return nil
}

// Close stops the server, whatever its state, and removes its folder.
func (c *Cluster) Close() error {
	// Nothing of it is kept, so a checkpoint would be wasted.
	err := c.Stop(Immediate)
	err = errors.Join(err, os.RemoveAll(c.dir))
	return errors.Join(err, c.guard.release())
}

// Log returns the last bytes of the server's log, at most maxBytes.
func (c *Cluster) Log(maxBytes int) string {
	text, err := os.ReadFile(c.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-maxBytes):])
}

func (c *Cluster) data() string    { return filepath.Join(c.dir, "data") }
func (c *Cluster) logFile() string { return filepath.Join(c.dir, "server.log") }

// initialize runs initdb. A password, since any user of the machine can reach a
// loopback port; in clear text, since a challenge costs more on every connection.
func (c *Cluster) initialize(ctx context.Context) error {
	// Readable, so that the user whom the server runs as can read it; the folder
	// around it is closed to everyone else.
	file := filepath.Join(c.dir, "password")
	if err := os.WriteFile(file, []byte(c.password), 0o644); err != nil {
		return fmt.Errorf("write PostgreSQL's password: %w", err)
	}
	cmd := c.command(ctx, "initdb", "--pgdata", c.data(), "--username", superuser, "--pwfile", file,
		"--auth", "password", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// startOnFreePort tries again on another port when somebody was faster.
func (c *Cluster) startOnFreePort(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		var err error
		if c.port, err = freePort(ctx); err != nil {
			return err
		}
		if err = c.Start(ctx); err == nil {
			return nil
		}
		if attempt == 5 || !c.logged("Address already in use") {
			return err
		}
	}
}

// launch starts the server once and waits until it answers or has ended.
func (c *Cluster) launch(ctx context.Context) error {
	out, err := os.Create(c.logFile())
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	defer func() { _ = out.Close() }() // the server has its own descriptor
	args := []string{"-D", c.data(), "-p", strconv.Itoa(c.port)}
	for _, s := range c.settings {
		args = append(args, "-c", s)
	}
	// The server outlives ctx, which only bounds the start.
	cmd := c.command(context.WithoutCancel(ctx), "postgres", args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(exited)
	}()
	c.server, c.exited = cmd, exited
	if err := c.awaitReady(ctx); err != nil {
		return errors.Join(fmt.Errorf("start PostgreSQL: %w\n%s", err, c.Log(4096)), c.Kill())
	}
	return nil
}

// awaitReady looks at the last line of postmaster.pid, where the server writes
// "ready" when it takes connections (pg_ctl does the same). Only the pid that we
// started counts: after a kill an old file lies there.
func (c *Cluster) awaitReady(ctx context.Context) error {
	for {
		text, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		lines := strings.Split(string(text), "\n")
		if lines[0] == strconv.Itoa(c.server.Process.Pid) && len(lines) > 7 && strings.TrimSpace(lines[7]) == "ready" {
			return nil
		}
		select {
		case <-c.exited:
			return errors.New("the server ended while starting")
		default:
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// command prepares a server program in a process group of its own: an interrupt
// from the terminal must reach the tests, not the database under them.
func (c *Cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = append(environment(), "LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.owner}
	return cmd
}

// logged reports whether the server's log holds text.
func (c *Cluster) logged(text string) bool {
	log, err := os.ReadFile(c.logFile())
	return err == nil && strings.Contains(string(log), text)
}
