//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Standby starts a hot standby of a running server: an asynchronous copy that
// follows it, with a folder and a port of its own. It reaches the server by through, a URL
// such as [Cluster.URL]: so a proxy can be put in between. The caller must call
// [Cluster.Close] on it too.
func (c *Cluster) Standby(ctx context.Context, through string) (*Cluster, error) {
	s := &Cluster{bin: c.bin, owner: c.owner, password: c.password, settings: c.settings}
	var err error
	if s.dir, err = privateFolder("posthaste-pg-", s.owner); err != nil {
		return nil, err
	}
	if s.guard, err = watch(s.dir, "data/postmaster.pid", s.owner); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	copied := s.command(ctx, "pg_basebackup", "--pgdata", s.data(), "--dbname", through,
		"--write-recovery-conf", "--wal-method", "stream", "--checkpoint", "fast", "--no-sync")
	if out, err := copied.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("pg_basebackup: %w\n%s", err, out), s.Close())
	}
	if err := s.startOnFreePort(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Promote makes a server of a standby, and returns when it takes writes.
func (c *Cluster) Promote(ctx context.Context) error {
	out, err := c.command(ctx, "pg_ctl", "--pgdata", c.data(), "--wait", "promote").CombinedOutput()
	if err != nil {
		return fmt.Errorf("promote a standby: %w\n%s", err, out)
	}
	return nil
}

// Dump writes a dump of one of the server's databases and returns its path, which is in
// the server's folder.
func (c *Cluster) Dump(ctx context.Context, database string) (string, error) {
	path := filepath.Join(c.dir, "dump")
	out, err := c.command(ctx, "pg_dump", "--format", "custom", "--file", path, "--dbname", database).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pg_dump: %w\n%s", err, out)
	}
	return path, nil
}

// Restore makes a database of the name that is in its URL from a dump. It ends the sessions in one
// that is there, and replaces it.
func (c *Cluster) Restore(ctx context.Context, database, dump string) error {
	u, err := url.Parse(database)
	if err != nil {
		return fmt.Errorf("read a database's URL: %w", err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	for _, args := range [][]string{
		{"dropdb", "--if-exists", "--force", "--maintenance-db", c.URL(), name},
		{"createdb", "--template", "template0", "--maintenance-db", c.URL(), name},
		{"pg_restore", "--exit-on-error", "--single-transaction", "--dbname", database, dump},
	} {
		if out, err := c.command(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}
