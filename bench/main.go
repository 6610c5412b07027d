//go:build linux

// Command bench measures how fast an engine accepts and delivers, what that
// costs, and whether anything is lost or doubled on the way.
//
// It starts the engine on an empty database, registers a receiver of its own,
// sends events, waits for their arrival, compares the engine's records with what
// was accepted and what arrived, and stops the engine. Everything is on the
// loopback address: generator, engine, database and receiver share the machine,
// so a rate means little by itself. Engines therefore take turns with a bare
// minimum (see the reference folder), and the results are ratios against it in
// the same round, and CPU time and WAL an event.
//
// Without flags it makes the comparison that the project's budgets are checked
// with, in about ten minutes, and appends every run to bench/RESULTS.md. It ends
// with status 1 if a run failed or a budget was missed.
//
//	go run ./bench
//	go run ./bench -engines reference-sqlite,posthaste-sqlite -phases sat:20000:64 -rounds 5
//	go run ./bench -engines posthaste-postgres -phases rate:500:10 -out ""
//	go run ./bench -gates all
//	go run ./bench -gates acknowledge,idle-streams
//	go run ./bench -gates slow-neighbour,expiry -share 0.1 -rounds 1 -out ""
//
// It needs Linux (it reads /proc) and, for engines on PostgreSQL, the server's
// binaries, which it starts a private server with, in the temporary folder. That
// folder (TMPDIR) must be on the disk that is to be measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

func main() {
	// Generator and receiver keep little and drop much: fewer collections leave
	// more of the machine to the engine.
	debug.SetGCPercent(400)
	if args := os.Args[1:]; len(args) > 0 && args[0] == holdCommand {
		os.Exit(holdStreams(args[1:]))
	}
	os.Exit(run(os.Args[1:]))
}

// run returns the exit status: 0, 1 if a run failed or a budget was missed, 2
// if the flags are wrong.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	o, err := parseFlags(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 2
	}
	if err := execute(ctx, o, args); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// Bounds and defaults of the flags.
const (
	maxRounds = 20
	maxWarmup = 100_000
)

func parseFlags(args []string) (options, error) {
	o := options{binaries: map[string]string{}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	engines := flags.String("engines", "", "engines to measure, separated by commas: "+strings.Join(builtInNames(), ", ")+
		", or .json files (default: the comparison)")
	phases := flags.String("phases", "sat:50000:64", "with -engines: phases, separated by commas: sat:EVENTS:CONNECTIONS, rate:PER_SECOND:SECONDS")
	gates := flags.String("gates", "", "in place of the comparison: scenarios of endpoints that are slow, dead, limited or paused, of sources and of streams, separated by commas, or all: "+
		strings.Join(scenarioNames(), ", "))
	flags.Float64Var(&o.share, "share", 1, "with -gates: share of their events, 0.01 to 1")
	rounds := flags.Int("rounds", 3, "how often each phase runs")
	flags.StringVar(&o.out, "out", "bench/RESULTS.md", `file that the results are appended to; "" for none`)
	flags.IntVar(&o.warmup, "warmup", 500, "events before a phase that are not counted")
	flags.DurationVar(&o.limit, "limit", 5*time.Minute, "longest time for one phase")
	flags.DurationVar(&o.idle, "idle", 20*time.Second, "longest wait for one more arrival")
	flags.Func("bin", "PACKAGE=FILE: a binary to use instead of building the package, as in ./cmd/posthaste=bin/posthaste (repeatable)",
		o.useBinary)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *rounds < 1 || *rounds > maxRounds:
		return o, fmt.Errorf("-rounds %d: want 1 to %d", *rounds, maxRounds)
	case !(o.share >= 0.01 && o.share <= 1):
		return o, fmt.Errorf("-share %g: want 0.01 to 1", o.share)
	case *gates != "" && *engines != "":
		return o, errors.New("-gates and -engines: want one of them")
	case o.warmup < 1 || o.warmup > maxWarmup:
		return o, fmt.Errorf("-warmup %d: want 1 to %d", o.warmup, maxWarmup)
	}
	o.rounds = *rounds
	o.blocks = comparison(*rounds)
	if *gates != "" {
		o.gates = list(*gates)
	}
	if *engines != "" {
		o.blocks = []block{{list(*engines), list(*phases), *rounds}}
	}
	return o, nil
}

// useBinary notes PACKAGE=FILE.
func (o *options) useBinary(s string) error {
	pkg, file, ok := strings.Cut(s, "=")
	if !ok || pkg == "" || file == "" {
		return errors.New("want PACKAGE=FILE")
	}
	// Engines are started in a folder of their own.
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	o.binaries[pkg] = path
	return nil
}
