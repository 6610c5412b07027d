//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/testdb/cluster"
)

// server is a PostgreSQL of this program alone, in a temporary folder.
type server struct {
	*cluster.Cluster
	version  string
	settings []string // those that differ from PostgreSQL's defaults, "name=value"
}

// startServer starts one with durability as in production. A checkpoint falls
// into a run only if the run is long; autovacuum is as it comes. The caller
// closes it.
func startServer(ctx context.Context) (*server, error) {
	settings := map[string]string{
		"synchronous_commit": "on",
		"fsync":              "on",
		"full_page_writes":   "on",
		"shared_buffers":     "1GB",
		"max_wal_size":       "8GB",
		"checkpoint_timeout": "15min",
	}
	c, err := cluster.New(ctx, cluster.Config{Settings: settings})
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	s := &server{Cluster: c}
	// Not every build has lz4: without it pages go into the WAL as they are.
	if s.exec(ctx, "ALTER SYSTEM SET wal_compression = lz4", "SELECT pg_reload_conf()") == nil {
		settings["wal_compression"] = "lz4"
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		s.settings = append(s.settings, name+"="+settings[name])
	}
	if err := s.query(ctx, "postgres", "SHOW server_version", &s.version); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s.version, _, _ = strings.Cut(s.version, " ")
	return s, nil
}

// databaseURL is the address of one of its databases.
func (s *server) databaseURL(database string) (string, error) {
	u, err := url.Parse(s.URL())
	if err != nil {
		return "", fmt.Errorf("PostgreSQL's address: %w", err)
	}
	u.Path = "/" + database
	return u.String(), nil
}

// query runs a statement that returns one row, on a connection of its own: an
// idle one would hold a database that is to be dropped.
func (s *server) query(ctx context.Context, database, sql string, into ...any) error {
	address, err := s.databaseURL(database)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it only read
	if err := conn.QueryRow(ctx, sql).Scan(into...); err != nil {
		return fmt.Errorf("query %q: %w", sql, err)
	}
	return nil
}

// exec runs statements, each in a transaction of its own.
func (s *server) exec(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // all has been answered
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// recreate gives a run an empty database, on a server that has no dirty pages
// of the run before.
func (s *server) recreate(ctx context.Context, database string) error {
	name := pgx.Identifier{database}.Sanitize()
	return s.exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)", "CREATE DATABASE "+name, "CHECKPOINT")
}

// walBytes returns how much WAL the server has ever written.
func (s *server) walBytes(ctx context.Context) (n int64, err error) {
	err = s.query(ctx, "postgres", "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint", &n)
	return n, err
}

// hotShare returns how many of the updates of deliveries, in all partitions,
// touched no index; NaN if there were none. Sessions report their counts when
// they end, so it is complete once the engine has stopped.
func (s *server) hotShare(ctx context.Context, database string) (float64, error) {
	const sql = `SELECT coalesce(sum(n_tup_upd), 0)::bigint, coalesce(sum(n_tup_hot_upd), 0)::bigint
		FROM pg_stat_user_tables WHERE relname LIKE 'deliveries%'`
	var updates, hot int64
	if err := s.query(ctx, database, sql, &updates, &hot); err != nil {
		return 0, err
	}
	if updates == 0 {
		return math.NaN(), nil
	}
	return float64(hot) / float64(updates), nil
}
