//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Pooler is a PgBouncer in transaction mode, in front of every database of a
// server. It ends with the process that started it, as a [Cluster] does.
type Pooler struct {
	dir    string
	port   int
	cmd    *exec.Cmd
	exited chan struct{}
	guard  *guard
}

// poolerConfig is pgbouncer.ini (https://www.pgbouncer.org/config.html). The
// passwords in users.txt serve for the server's side too. Sessions are short-lived, so
// that whatever a client leaves in one is soon missing or found by another.
const poolerConfig = `[databases]
* = host=%[1]s port=%[2]s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[3]d
unix_socket_dir =
auth_type = md5
auth_file = %[4]s/users.txt
pidfile = %[4]s/pgbouncer.pid
pool_mode = transaction
default_pool_size = %[5]d
max_client_conn = 1000
server_lifetime = 5
`

// NewPooler starts a PgBouncer in front of the server of a URL, with at most
// poolSize sessions for each of its databases. The caller must call [Pooler.Close].
func NewPooler(ctx context.Context, server string, poolSize int) (*Pooler, error) {
	binary, err := findPooler()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("read the server's URL: %w", err)
	}
	owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	p := &Pooler{exited: make(chan struct{})}
	if p.dir, err = privateFolder("posthaste-pgbouncer-", owner); err != nil {
		return nil, err
	}
	if p.port, err = freePort(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	// Readable, as the password of a cluster: the folder is closed to others.
	password, _ := u.User.Password()
	for name, text := range map[string]string{
		"pgbouncer.ini": fmt.Sprintf(poolerConfig, u.Hostname(), u.Port(), p.port, p.dir, poolSize),
		"users.txt":     fmt.Sprintf("%q %q\n", u.User.Username(), password),
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
			return nil, errors.Join(fmt.Errorf("configure PgBouncer: %w", err), os.RemoveAll(p.dir))
		}
	}
	if p.guard, err = watch(p.dir, "pgbouncer.pid", owner); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	if err := p.launch(ctx, binary, owner); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// findPooler looks where Debian puts it, too: outside most users' PATH.
func findPooler() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no pgbouncer found: run `make test`, which installs it on Debian as root")
}

func (p *Pooler) launch(ctx context.Context, binary string, owner *syscall.Credential) error {
	out, err := os.Create(p.logFile())
	if err != nil {
		return fmt.Errorf("start PgBouncer: %w", err)
	}
	defer func() { _ = out.Close() }() // the process has its own descriptor
	// It outlives ctx, which only bounds the start.
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), binary, filepath.Join(p.dir, "pgbouncer.ini"))
	p.cmd.Dir, p.cmd.Env = p.dir, environment()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: owner}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return fmt.Errorf("start PgBouncer: %w", err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", p.address())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.exited:
			return fmt.Errorf("PgBouncer ended while starting:\n%s", p.Log(4096))
		default:
		}
		if pauseErr := pause(ctx); pauseErr != nil {
			return fmt.Errorf("start PgBouncer: %w\n%s", err, p.Log(4096))
		}
	}
}

func (p *Pooler) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }
func (p *Pooler) logFile() string { return filepath.Join(p.dir, "pgbouncer.log") }

// URL returns the address of a database of the server through the pooler.
func (p *Pooler) URL(database string) (string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return "", fmt.Errorf("read the database's URL: %w", err)
	}
	u.Host = p.address()
	return u.String(), nil
}

// Log returns the last bytes of the pooler's log, at most maxBytes.
func (p *Pooler) Log(maxBytes int) string {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-maxBytes):])
}

// Close ends the pooler at once and removes its folder.
func (p *Pooler) Close() error {
	var err error
	if p.cmd != nil {
		if err = p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		select {
		case <-p.exited:
		case <-time.After(stopTimeout):
			err = errors.Join(errors.New("PgBouncer did not end"), p.cmd.Process.Kill())
			<-p.exited
		}
	}
	err = errors.Join(err, os.RemoveAll(p.dir))
	return errors.Join(err, p.guard.release())
}
