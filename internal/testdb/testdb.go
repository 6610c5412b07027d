//go:build unix

// Package testdb gives each test databases of its own: a file for SQLite, a new
// database in the shared test server for PostgreSQL, or a whole PostgreSQL
// server for tests that stop and kill it. All of it is gone after the test.
package testdb

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/testdb/cluster"
)

// PostgresEnv names the environment variable with the URL of the PostgreSQL
// server that tests share. `make test` starts one and sets it.
const PostgresEnv = "POSTHASTE_TEST_POSTGRES"

// adminTimeout bounds the making and dropping of a database.
const adminTimeout = 30 * time.Second

// SQLite returns the path of a database file that does not exist yet, in a
// folder that goes away with the test.
func SQLite(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(tb.TempDir(), "posthaste.db")
}

// Postgres makes an empty database in the server of [PostgresEnv] and returns
// its URL, for a superuser. It is dropped after the test, with whatever sessions
// are still in it. Without a server the test fails; it never skips, since a
// suite that silently left PostgreSQL out would look the same as one that passed.
func Postgres(tb testing.TB) string {
	tb.Helper()
	server := os.Getenv(PostgresEnv)
	if server == "" {
		tb.Fatalf("%s is not set: run `make test`, or for one package `make test PKG=./postgres`", PostgresEnv)
	}
	return newDatabase(tb, server)
}

// newDatabase makes a database in the server and drops it after the test.
func newDatabase(tb testing.TB, server string) string {
	tb.Helper()
	name, database := createDatabase(tb, server)
	tb.Cleanup(func() {
		if err := administer(server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("drop a test database: %v", err)
		}
	})
	return database
}

// createDatabase makes a database and returns its name and its URL.
func createDatabase(tb testing.TB, server string) (name, database string) {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatalf("read the test server's URL: %v", err)
	}
	name = "test_" + strings.ToLower(rand.Text())
	// template0, which nobody can be connected to: a session in template1, even
	// one just ending, makes CREATE DATABASE fail.
	if err := administer(server, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		tb.Fatalf("make a test database: %v", err)
	}
	u.Path = "/" + name
	return name, u.String()
}

// administer runs one statement on a connection of its own. Not under the test's
// context, which has ended when cleanups run.
func administer(server, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	if closeErr := conn.Close(ctx); err == nil && closeErr != nil {
		return fmt.Errorf("close the connection: %w", closeErr)
	}
	return err
}

// Pooler starts a PgBouncer in transaction mode in front of the server of a
// database, and returns the database's URL through it. It ends after the test. Each
// database gets poolSize sessions of the server at most.
func Pooler(tb testing.TB, database string, poolSize int) string {
	tb.Helper()
	p, err := cluster.NewPooler(tb.Context(), database, poolSize)
	if err != nil {
		tb.Fatalf("start PgBouncer: %v", err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of PgBouncer's log:\n%s", p.Log(4096))
		}
		if err := p.Close(); err != nil {
			tb.Errorf("close PgBouncer: %v", err)
		}
	})
	through, err := p.URL(database)
	if err != nil {
		tb.Fatal(err)
	}
	return through
}

// Cluster is a PostgreSQL server of one test's own, which the test may stop and
// kill. Its methods end the test when they fail.
type Cluster struct {
	tb      testing.TB
	cluster *cluster.Cluster
}

// NewCluster starts a server and ends it after the test. It takes a second or
// two: tests that leave the server alone use [Postgres].
func NewCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c, err := cluster.New(tb.Context(), cluster.Config{})
	if err != nil {
		tb.Fatalf("start a PostgreSQL server: %v", err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of PostgreSQL's log:\n%s", c.Log(4096))
		}
		if err := c.Close(); err != nil {
			tb.Errorf("close the PostgreSQL server: %v", err)
		}
	})
	return &Cluster{tb: tb, cluster: c}
}

// URL returns the address of the server's database "postgres"; it stays the same
// while the server is stopped and started.
func (c *Cluster) URL() string { return c.cluster.URL() }

// Postgres makes an empty database in this server and returns its URL, as the
// function [Postgres] does in the shared one. The database stays while the server
// is stopped and goes away with it.
func (c *Cluster) Postgres() string {
	c.tb.Helper()
	_, database := createDatabase(c.tb, c.URL())
	return database
}

// Stop stops the server in the given way: [cluster.Fast], [cluster.Immediate].
func (c *Cluster) Stop(mode cluster.Mode) {
	c.tb.Helper()
	if err := c.cluster.Stop(mode); err != nil {
		c.tb.Fatal(err)
	}
}

// Start starts the server again, on the same port, and waits until it answers.
func (c *Cluster) Start() {
	c.tb.Helper()
	if err := c.cluster.Start(c.tb.Context()); err != nil {
		c.tb.Fatal(err)
	}
}

// Kill ends the server and all its sessions by SIGKILL.
func (c *Cluster) Kill() {
	c.tb.Helper()
	if err := c.cluster.Kill(); err != nil {
		c.tb.Fatal(err)
	}
}

// Standby starts a hot standby of the server, which reaches it by through, a URL of
// the server that may lead through a proxy. It ends after the test.
func (c *Cluster) Standby(through string) *Cluster {
	c.tb.Helper()
	s, err := c.cluster.Standby(c.tb.Context(), through)
	if err != nil {
		c.tb.Fatalf("start a standby: %v", err)
	}
	c.tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			c.tb.Errorf("close the standby: %v", err)
		}
	})
	return &Cluster{tb: c.tb, cluster: s}
}

// Promote makes a server of a standby.
func (c *Cluster) Promote() {
	c.tb.Helper()
	if err := c.cluster.Promote(c.tb.Context()); err != nil {
		c.tb.Fatal(err)
	}
}

// Dump writes a dump of a database of this server and returns its path.
func (c *Cluster) Dump(database string) string {
	c.tb.Helper()
	path, err := c.cluster.Dump(c.tb.Context(), database)
	if err != nil {
		c.tb.Fatal(err)
	}
	return path
}

// Restore replaces a database of this server, or makes it, from a dump.
func (c *Cluster) Restore(database, dump string) {
	c.tb.Helper()
	if err := c.cluster.Restore(c.tb.Context(), database, dump); err != nil {
		c.tb.Fatal(err)
	}
}
