//go:build unix

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// minVersion is the oldest PostgreSQL that Posthaste supports.
const minVersion = 15

// BinEnv names the environment variable with the folder of the server's
// binaries, to test on a version other than the newest one installed.
const BinEnv = "POSTHASTE_TEST_POSTGRES_BIN"

// Find returns the folder that holds initdb and postgres, version 15 or newer:
// that of [BinEnv] if set, else the newest of Debian's /usr/lib/postgresql, else
// the one in PATH.
func Find(ctx context.Context) (string, error) {
	candidates := []string{os.Getenv(BinEnv)}
	if candidates[0] == "" {
		candidates = debianFolders("/usr/lib/postgresql")
		if initdb, err := exec.LookPath("initdb"); err == nil {
			if initdb, err = filepath.EvalSymlinks(initdb); err == nil {
				candidates = append(candidates, filepath.Dir(initdb))
			}
		}
	}
	for _, dir := range candidates {
		version, err := versionOf(ctx, dir)
		if err == nil && version >= minVersion {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no PostgreSQL %d or newer found (looked at %q): run `make test`, which installs it on Debian as root, or set %s to the folder of initdb",
		minVersion, candidates, BinEnv)
}

// debianFolders lists root/<version>/bin, newest first.
func debianFolders(root string) []string {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil
	}
	var versions []int
	for _, e := range entries {
		if v, err := strconv.Atoi(e.Name()); err == nil {
			versions = append(versions, v)
		}
	}
	slices.Sort(versions)
	slices.Reverse(versions)
	dirs := make([]string, len(versions))
	for i, v := range versions {
		dirs[i] = filepath.Join(root, strconv.Itoa(v), "bin")
	}
	return dirs
}

// versionOf asks dir's postgres for its major version. A folder without initdb
// (Debian leaves one behind when only the client is installed) is an error.
func versionOf(ctx context.Context, dir string) (int, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, err
	}
	return parseVersion(string(out))
}

// parseVersion reads "postgres (PostgreSQL) 15.18 (Debian …)", also "17beta1".
func parseVersion(line string) (int, error) {
	_, rest, ok := strings.Cut(line, "(PostgreSQL) ")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if !ok || digits <= 0 {
		return 0, fmt.Errorf("no version in %q", line)
	}
	return strconv.Atoi(rest[:digits])
}

// unprivileged returns who the server runs as: nil for the user we are, or,
// since PostgreSQL refuses to run as root, another one.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil // SysProcAttr's word for "as we are"
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("read the ids of user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")
}

// privateFolder makes a temporary folder for whom the server runs as. Not testing's
// TempDir: its parents are closed to that user when we are root.
func privateFolder(prefix string, owner *syscall.Credential) (string, error) {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return "", fmt.Errorf("make a folder for a server: %w", err)
	}
	if owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			return "", errors.Join(fmt.Errorf("give the folder for a server away: %w", err), os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// settings merges cfg into the defaults, sorted. Speed matters here and a loss
// of power does not: what a killed server wrote is still with the operating system.
func settings(cfg Config) []string {
	all := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"max_connections":         "200",
		"fsync":                   "off",
		"full_page_writes":        "off",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
	}
	maps.Copy(all, cfg.Settings)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, name+"="+all[name])
	}
	return out
}

// freePort returns a loopback port that nothing listens on, below the range
// from which Linux numbers outgoing connections (32768 and up): while a test has
// the server stopped, no client's connection can take its port.
func freePort(ctx context.Context) (int, error) {
	const low, high = 20_000, 32_000
	var lc net.ListenConfig
	var err error
	for range 50 {
		port := low + rand.IntN(high-low)
		var l net.Listener
		if l, err = lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port for PostgreSQL: %w", err)
}

// children lists the processes whose parent is pid, from Linux's /proc. Where
// there is none it returns nothing, and sessions end by themselves when they
// notice that their parent is gone.
func children(pid int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var pids []int
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		// "pid (name) state ppid …"; the name may hold spaces and brackets.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

// environment is ours without what libpq and the server would read from it.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "PG") || strings.HasPrefix(kv, "LC_") || strings.HasPrefix(kv, "LANG")
	})
}

// pause waits one poll interval, or for the end of ctx.
func pause(ctx context.Context) error {
	t := time.NewTimer(pollInterval)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
