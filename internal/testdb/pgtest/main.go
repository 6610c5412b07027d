//go:build unix

// Command pgtest runs another command with a PostgreSQL server of its own: it
// starts one, puts its URL into POSTHASTE_TEST_POSTGRES, runs the command, ends
// the server, and exits as the command did.
//
//	pgtest go test ./...     run the tests against a server that lives as long as they do
//	pgtest -find             print the folder of the server's binaries, or fail
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/posthaste-dev/posthaste/internal/testdb/cluster"
)

// urlEnv is testdb.PostgresEnv; that package imports testing, a command does not.
const urlEnv = "POSTHASTE_TEST_POSTGRES"

// grace is how long the command may take to end after a signal.
const grace = 30 * time.Second

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
	}
	os.Exit(code)
}

// run does everything and returns the exit code: the command's own, or 1 with
// an error where it could not be run.
func run(args []string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	switch {
	case len(args) == 0:
		return 2, errors.New("usage: pgtest command [arguments], or pgtest -find")
	case args[0] == "-find":
		dir, err := cluster.Find(ctx)
		if err != nil {
			return 1, err
		}
		fmt.Println(dir)
		return 0, nil
	}
	server, err := cluster.New(ctx, cluster.Config{})
	if err != nil {
		return 1, err
	}
	code, err := runCommand(ctx, args, server.URL())
	if closeErr := server.Close(); closeErr != nil {
		return max(code, 1), errors.Join(err, closeErr)
	}
	return code, err
}

// runCommand runs args with the URL in the environment and returns the exit code.
func runCommand(ctx context.Context, args []string, url string) (int, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), urlEnv+"="+url)
	// A process group of its own, which gets the signals that we get: go test
	// alone, when told to end, leaves the test binaries running.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 1, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode(), nil // it has said why itself
	case err != nil:
		return 1, fmt.Errorf("run %s: %w", args[0], err)
	}
	return 0, nil
}
