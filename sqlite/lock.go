package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/posthaste-dev/posthaste"
)

// lockFile is the lock that a writing process holds for life. The operating
// system frees it when the process ends, however it ends, so a file that is
// left behind means nothing. It is never deleted: another process might just
// have opened it, and would then hold a lock on a file that nobody finds.
type lockFile struct{ file *os.File }

// errLocked says that another process holds the lock.
var errLocked = errors.New("locked")

func acquireLock(path string) (*lockFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &posthaste.Error{
			Code: posthaste.CodeConflict, Message: "the folder " + filepath.Dir(path) + " does not exist",
			Hint: "make the folder first, or give another path: only the file is made",
		}
	}
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		holder := readHolder(f)
		err = errors.Join(err, f.Close())
		if errors.Is(err, errLocked) {
			return nil, &posthaste.Error{
				Code:    posthaste.CodeConflict,
				Message: "another process" + holder + " has the database open",
				Hint:    "stop that process first, or give this one a database of its own: an SQLite file serves one process, PostgreSQL any number",
			}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// Only for the message above: a failure to write it is no reason not to start.
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid()) // see above
	}
	return &lockFile{file: f}, nil
}

// readHolder names the process that holds the lock, if it wrote its number.
func readHolder(f *os.File) string {
	pid, err := io.ReadAll(io.LimitReader(f, 20))
	if s := strings.TrimSpace(string(pid)); err == nil && s != "" {
		return " (" + s + ")"
	}
	return ""
}

func (l *lockFile) release() error { return l.file.Close() }
