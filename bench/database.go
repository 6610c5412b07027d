//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// database is the empty one that a run's engine is given: a database of the
// private server, an SQLite file that the engine makes, or none.
type database struct {
	address string  // what the engine is told
	server  *server // nil unless it is on PostgreSQL
	file    string  // "" unless it is on SQLite
}

// runDatabase is the name of every run's database on the server.
const runDatabase = "bench"

func newDatabase(ctx context.Context, kind string, s *server, dir string) (database, error) {
	switch kind {
	case "postgres":
		address, err := s.databaseURL(runDatabase)
		return database{address: address, server: s}, errors.Join(err, s.recreate(ctx, runDatabase))
	case "sqlite":
		file := filepath.Join(dir, "bench.db")
		return database{address: file, file: file}, nil
	default:
		return database{}, nil
	}
}

// pids returns the server's process, if there is one.
func (d database) pids() []int {
	if d.server == nil {
		return nil
	}
	return []int{d.server.PID()}
}

// walBytes returns how much WAL the server has ever written; 0 without a server.
func (d database) walBytes(ctx context.Context) (int64, error) {
	if d.server == nil {
		return 0, nil
	}
	return d.server.walBytes(ctx)
}

// hotShare is [server.hotShare]; NaN without a server.
func (d database) hotShare(ctx context.Context) (float64, error) {
	if d.server == nil {
		return math.NaN(), nil
	}
	return d.server.hotShare(ctx, runDatabase)
}

// counts runs each query, which returns one number, beside the living engine.
func (d database) counts(ctx context.Context, queries map[string]string) (map[string]int64, error) {
	out := make(map[string]int64, len(queries))
	for name, sql := range queries {
		n, err := d.count(ctx, sql)
		if err != nil {
			return nil, fmt.Errorf("count %s: %w", name, err)
		}
		out[name] = n
	}
	return out, nil
}

func (d database) count(ctx context.Context, sql string) (n int64, err error) {
	if d.server != nil {
		err = d.server.query(ctx, runDatabase, sql, &n)
		return n, err
	}
	conn, err := sqlite.OpenConn(d.file, sqlite.OpenReadOnly)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", d.file, err)
	}
	conn.SetInterrupt(ctx.Done())
	conn.SetBusyTimeout(5 * time.Second)
	err = sqlitex.ExecuteTransient(conn, sql, &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error { n = row.ColumnInt64(0); return nil },
	})
	return n, errors.Join(err, conn.Close())
}

// settleLimit is how long an engine may take, after the last arrival, until its
// records say what happened.
const settleLimit = 15 * time.Second

// awaitCounts waits until every count has grown by exactly want since before.
// It returns how long that took, and an error that names the counts that differ.
func (d database) awaitCounts(ctx context.Context, queries map[string]string, before map[string]int64, want int64) (time.Duration, error) {
	if len(queries) == 0 {
		return 0, nil
	}
	began := time.Now()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		took := time.Since(began) // the query itself may take long, over many rows
		counted, err := d.counts(ctx, queries)
		if err != nil {
			return 0, err
		}
		wrong := differing(before, counted, want)
		if wrong == "" {
			return took, nil
		}
		if took > settleLimit {
			return took, fmt.Errorf("%d accepted, but %s", want, wrong)
		}
		select {
		case <-ctx.Done():
			return took, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// differing names the counts that did not grow by want.
func differing(before, after map[string]int64, want int64) string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if grown := after[name] - before[name]; grown != want {
			wrong = append(wrong, fmt.Sprintf("%d %s", grown, name))
		}
	}
	return strings.Join(wrong, ", ")
}
