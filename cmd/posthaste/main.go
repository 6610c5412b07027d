// Command posthaste is the webhook engine and its command line.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/posthaste-dev/posthaste/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks the command to end. From then on signals have their
	// plain effect again: a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Streams{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}))
}
