//go:build unix

package cluster

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guardScript waits for the end of its input, which comes when the process at
// the other end has died in whatever way, and then clears up. By then a healthy
// Close has already removed the folder, and the script finds nothing to do.
const guardScript = `
cat >/dev/null
[ -d "$1" ] || exit 0
pid=$(head -n 1 "$1/$2" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
rm -rf "$1"
`

// guard is a small process that outlives this one. A deferred call or a test's
// Cleanup does not run after SIGKILL, nor when go test's own timeout ends a
// test binary; the end of a pipe is seen in every case and on every Unix.
type guard struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// watch starts the guard of a folder, in which a server keeps its process id in
// the first line of a file.
func watch(dir, pidFile string, owner *syscall.Credential) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "sh", dir, pidFile) //nolint:noctx // must not end before its input does
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: owner}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard PostgreSQL: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard PostgreSQL: %w", err)
	}
	return &guard{cmd: cmd, pipe: pipe}, nil
}

// release lets the guard go and waits for it.
func (g *guard) release() error {
	if err := errors.Join(g.pipe.Close(), g.cmd.Wait()); err != nil {
		return fmt.Errorf("release the guard of PostgreSQL: %w", err)
	}
	return nil
}
