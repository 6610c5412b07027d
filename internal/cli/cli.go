// Package cli is the command line: a file for each command. Results go to
// stdout, messages to stderr; the exit status is 0, 1 for a failure, and 2 for a
// command or a configuration that could not be understood.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/client"
	"github.com/posthaste-dev/posthaste/internal/config"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Streams are what a command reads and writes.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// grammar is the command line as kong reads it.
type grammar struct {
	Serve      serveCommand      `cmd:"" help:"Run the server: accept events over HTTP and deliver them to endpoints."`
	Quickstart quickstartCommand `cmd:"" help:"Run a server and a receiver together, and print commands to try."`
	Receiver   receiverCommand   `cmd:"" help:"Run a receiver that prints requests and verifies their signatures."`
	Send       sendCommand       `cmd:"" help:"Send an event."`
	Events     eventsCommand     `cmd:"" help:"List, show and resend events."`
	Deliveries deliveriesCommand `cmd:"" help:"List, show, replay and skip deliveries."`
	Replay     deliveriesReplay  `cmd:"" help:"Replay dead deliveries; short for deliveries replay."`
	Endpoints  endpointsCommand  `cmd:"" help:"Manage endpoints, the URLs that events are delivered to."`
	Tail       tailCommand       `cmd:"" help:"Stream changes as they happen."`
	Sources    sourcesCommand    `cmd:"" help:"Manage sources, which receive webhooks of providers."`
	Tenants    tenantsCommand    `cmd:"" help:"Manage tenants."`
	Outbox     outboxCommand     `cmd:"" help:"Install, relay and maintain the outbox in an application's database."`
	Migrate    migrateCommand    `cmd:"" help:"Migrate the database schema, or print it."`
	Verify     verifyCommand     `cmd:"" help:"Check a database for lost events and missing records."`
	Config     configCommand     `cmd:"" help:"Print the effective configuration, or a commented default file."`
	Completion completionCommand `cmd:"" help:"Print a completion script for a shell."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
}

// Main runs the command that args name, without the program's name, until it is
// done or ctx ends. It returns the exit status.
func Main(ctx context.Context, args []string, s Streams) int {
	var g grammar
	exited := -1
	parser, err := kong.New(&g,
		kong.Name("posthaste"),
		kong.Description("A webhook engine that never loses an event."),
		kong.Writers(s.Stdout, s.Stderr),
		kong.ValueFormatter(config.Help),
		kong.Exit(func(status int) { exited = status }), // after --help
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
	if err != nil {
		_, _ = fmt.Fprintln(s.Stderr, "posthaste:", err)
		return exitFailure
	}
	addExamples(parser.Model.Node, "")
	command, err := parser.Parse(habits(args))
	if exited >= 0 {
		return exited
	}
	if err != nil {
		_, _ = fmt.Fprintf(s.Stderr, "posthaste: %v\n%s\n", err, whereHelpIs(err))
		return exitUsage
	}
	if err := refuseEmpty(command.Path); err != nil {
		return report(s.Stderr, err)
	}
	return report(s.Stderr, command.Run())
}

// habits reads what people type out of habit, from other programs, as it is said here.
func habits(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case args[0] == "--version":
		return append([]string{"version"}, args[1:]...)
	}
	return args
}

// whereHelpIs names the help of the command that a mistake was made in, as far as
// it was understood.
func whereHelpIs(err error) string {
	if name, isFlag := strings.CutPrefix(err.Error(), "unknown flag --"); isFlag {
		name, _, _ = strings.Cut(name, ",")
		if now := config.Renamed(name); now != "" {
			return fmt.Sprintf("hint: --%s is now --%s", name, now)
		}
	}
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok || parse.Context == nil || parse.Context.Selected() == nil {
		return `Run "posthaste --help" for the commands.`
	}
	node := parse.Context.Selected()
	if !node.Leaf() {
		return fmt.Sprintf("Run %q for the commands.", node.FullPath()+" --help")
	}
	return fmt.Sprintf("Run %q for its arguments and flags.", node.FullPath()+" --help")
}

// refuseEmpty refuses flags and arguments with an empty value. Most often a script's
// variable was not set, and the default would do something else than what was meant.
// A payload may be empty, and an empty --description or --patch clears it.
func refuseEmpty(path []*kong.Path) error {
	for _, p := range path {
		if p.Command != nil && p.Command.Hidden { // of shells: their last word may be empty
			return nil
		}
		switch {
		case p.Flag != nil && p.Flag.Name != "data" && isEmpty(p.Flag.Target):
			return usageError{fmt.Sprintf("--%s is empty; leave it out for its default", p.Flag.Name)}
		case p.Positional != nil && isEmpty(p.Positional.Target):
			return usageError{fmt.Sprintf("the argument <%s> is empty", p.Positional.Name)}
		}
	}
	return nil
}

// isEmpty reports whether a value is an empty string, or a list with one in it.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return v.Len() == 0
	case reflect.Slice:
		for i := range v.Len() {
			if isEmpty(v.Index(i)) {
				return true
			}
		}
	}
	return false
}

// usageError is a mistake of the one who typed the command.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

// report says what went wrong and what to do about it, and returns the exit status.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintln(w, "posthaste:", err)
	if hint := hintFor(err); hint != "" {
		_, _ = fmt.Fprintln(w, "hint:", hint)
	}
	_, isUsage := errors.AsType[usageError](err)
	_, isConfig := errors.AsType[config.Mistakes](err)
	if isUsage || isConfig {
		return exitUsage
	}
	return exitFailure
}

func hintFor(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		if e.Code == posthaste.CodeUnauthorized {
			return "set POSTHASTE_KEY to the key that the server printed on its first start; with SQLite it is in the file DB.admin-key"
		}
		return e.Hint
	}
	if e, ok := errors.AsType[*posthaste.Error](err); ok {
		return e.Hint
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && !errors.Is(err, store.ErrUnavailable) {
		switch op.Op {
		case "dial": // a client command's; the database's is told by its own words
			return `is the server running? Start one with "posthaste serve", or name another with --server`
		case "listen":
			return "choose another address with --listen, or stop what uses this one"
		}
	}
	return ""
}
