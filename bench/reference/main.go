//go:build linux

// Command reference is the floor that an engine is measured against, not an
// engine: it accepts an event over HTTP, commits one row for it (many events a
// commit, synced to disk), answers 202 and forwards it once. It records no
// outcome, tries nothing again, keeps no subscriptions and recovers nothing.
//
// What it leaves out is what an engine exists for; what it does, an engine has
// to do as well. So an engine that reaches its rate pays for all the rest with
// better batches.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// event is a request that waits for its commit.
type event struct {
	target    string
	body      []byte
	committed chan error
}

// config is what the flags set.
type config struct {
	listen     string
	dsn        string
	sqliteFile string
	committers int
	batch      int
	workers    int
}

func main() {
	var c config
	flag.StringVar(&c.listen, "listen", "127.0.0.1:18090", "address to listen on")
	flag.StringVar(&c.dsn, "dsn", "", "PostgreSQL URL to store events in")
	flag.StringVar(&c.sqliteFile, "sqlite", "", "SQLite file to store events in")
	flag.IntVar(&c.committers, "committers", 4, "PostgreSQL commits at the same time (SQLite has one writer)")
	flag.IntVar(&c.batch, "batch", 256, "most events in one commit")
	flag.IntVar(&c.workers, "workers", 64, "forwards at the same time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) error {
	incoming := make(chan *event, 4096)
	// Roomy, so that a slow receiver never holds up a commit: a floor needs no
	// admission control, and a benchmark never has a million events under way.
	outgoing := make(chan *event, 1<<20)
	var closeStore func() error
	var err error
	switch {
	case c.dsn != "" && c.sqliteFile == "":
		closeStore, err = commitToPostgres(ctx, c, incoming, outgoing)
	case c.sqliteFile != "" && c.dsn == "":
		closeStore, err = commitToSQLite(c, incoming, outgoing)
	default:
		err = errors.New("give either -dsn or -sqlite")
	}
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: c.workers}}
	for range c.workers {
		go forward(client, outgoing)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /events", func(w http.ResponseWriter, r *http.Request) { accept(w, r, incoming) })
	server := &http.Server{Addr: c.listen, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err = <-failed:
		return fmt.Errorf("serve on %s: %w", c.listen, err)
	case <-ctx.Done():
	}
	// What is under way may end; connections without a request need not.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(grace) != nil {
		err = server.Close()
	}
	return errors.Join(err, closeStore())
}

// accept answers 202 once the event's commit is on disk.
func accept(w http.ResponseWriter, r *http.Request, incoming chan<- *event) {
	body := make([]byte, max(0, r.ContentLength))
	if _, err := io.ReadFull(r.Body, body); err != nil || r.ContentLength < 0 {
		http.Error(w, "want a body with its length", http.StatusBadRequest)
		return
	}
	e := &event{target: r.Header.Get("X-Target"), body: body, committed: make(chan error, 1)}
	incoming <- e
	if err := <-e.committed; err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// gather adds to the first event what else waits already, at most n in all. No
// timer: while one batch is committed the next one grows, as the load wants it.
func gather(first *event, in <-chan *event, n int) []*event {
	batch := []*event{first}
	for len(batch) < n {
		select {
		case e := <-in:
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

// release answers the requests of a batch and hands its events on.
func release(batch []*event, out chan<- *event, err error) {
	for _, e := range batch {
		e.committed <- err
		if err == nil {
			out <- e
		}
	}
}

func forward(client *http.Client, out <-chan *event) {
	for e := range out {
		res, err := client.Post(e.target, "application/json", bytes.NewReader(e.body))
		if err != nil {
			fmt.Fprintln(os.Stderr, "reference: forward:", err)
			continue
		}
		_, _ = io.Copy(io.Discard, res.Body) // only so that the connection is kept
		_ = res.Body.Close()
	}
}
