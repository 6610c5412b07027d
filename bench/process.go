//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// child is a process that this program started, in a process group of its own,
// so that an interrupt from the terminal reaches this program alone, which then
// stops its children in order. It dies with this program, whatever ends that.
type child struct {
	name   string
	cmd    *exec.Cmd
	log    string        // file with its output
	exited chan struct{} // closed once it has been waited for
}

// startChild runs a command. Its output goes to NAME.log in the folder logs.
func startChild(name string, cmd *exec.Cmd, logs string) (*child, error) {
	c := &child{name: name, cmd: cmd, log: filepath.Join(logs, name+".log"), exited: make(chan struct{})}
	out, err := os.Create(c.log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	// The signal comes when the thread that started the process ends. The runtime
	// ends only threads whose goroutine returns while locked to them: none does.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(c.exited)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop sends the signal and waits; after the grace it kills the process group.
func (c *child) stop(sig syscall.Signal, grace time.Duration) error {
	select {
	case <-c.exited:
		return fmt.Errorf("%s ended by itself: %s", c.name, c.tail())
	default:
	}
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.exited:
		return nil
	case <-timer.C:
	}
	_ = syscall.Kill(-c.pid(), syscall.SIGKILL) // it may end this very moment
	<-c.exited
	return fmt.Errorf("stop %s: killed, as it was not out %s after %s", c.name, grace, sig)
}

// tail returns the end of its output on one line.
func (c *child) tail() string {
	raw, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	const most = 400
	raw = raw[max(0, len(raw)-most):]
	return strings.Join(strings.Fields(string(raw)), " ")
}

// children are the processes of one engine.
type children []*child

// startEngine starts the processes of a description and waits until it is ready.
func startEngine(ctx context.Context, d description, vars variables) (children, error) {
	var all children
	// On failure what has started is stopped: the caller has nothing to stop.
	for i, c := range d.Start {
		started, err := startCommand(fmt.Sprintf("%s-%d", d.Name, i), c, vars)
		if err != nil {
			return nil, errors.Join(err, all.stop())
		}
		all = append(all, started)
	}
	if err := all.awaitReady(ctx, d, vars); err != nil {
		return nil, errors.Join(err, all.stop())
	}
	return all, nil
}

func startCommand(name string, c command, vars variables) (*child, error) {
	args := make([]string, len(c.Cmd))
	for i, a := range c.Cmd {
		var err error
		if args[i], err = vars.expand(a); err != nil {
			return nil, err
		}
	}
	env, err := vars.expandMap(c.Env)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = vars["dir"]
	// Nothing of the caller's environment that could configure the engine.
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		cmd.Env = append(cmd.Env, name+"="+os.Getenv(name))
	}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return startChild(name, cmd, vars["dir"])
}

// readyLimit is how long an engine may take from start to ready.
const readyLimit = 60 * time.Second

func (c children) awaitReady(ctx context.Context, d description, vars variables) error {
	if d.Ready == "" {
		return nil
	}
	url, err := vars.expand(d.Ready)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if answers(ctx, client, url) {
			return nil
		}
		if name, tail, ended := c.ended(); ended {
			return fmt.Errorf("%s ended before it was ready: %s", name, tail)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready after %s: %s", d.Name, readyLimit, c[0].tail())
		case <-tick.C:
		}
	}
}

func answers(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close() // only its status is of interest
	return res.StatusCode/100 == 2
}

// ended returns the first process that is not running any more.
func (c children) ended() (name, tail string, ended bool) {
	for _, p := range c {
		select {
		case <-p.exited:
			return p.name, p.tail(), true
		default:
		}
	}
	return "", "", false
}

func (c children) pids() []int {
	pids := make([]int, len(c))
	for i, p := range c {
		pids[i] = p.pid()
	}
	return pids
}

// stop asks each process to end and waits for it.
func (c children) stop() error {
	var err error
	for _, p := range c {
		err = errors.Join(err, p.stop(syscall.SIGTERM, 40*time.Second))
	}
	return err
}

// freeAddress returns a loopback address that nobody listens on right now.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return ln.Addr().String(), ln.Close()
}
