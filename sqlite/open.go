// Package sqlite keeps everything that Posthaste knows in one SQLite file. It is
// a complete implementation of the storage contract, for one process; package
// postgres is the other, for any number.
//
// # Files
//
// Beside PATH lie PATH-wal, the write-ahead log, PATH-shm, its index, and
// PATH.lock, which a writing process holds locked for life. Back the database
// up with the sqlite3 shell's .backup or VACUUM INTO, never by copying PATH
// alone: what was committed last is in PATH-wal. The file must lie on a local
// disk; network file systems don't lock reliably.
//
// # Durability
//
// A commit is on disk when it returns: write-ahead logging with
// synchronous=FULL, one fsync a commit. One goroutine writes and takes all that
// waits into one transaction. Reads run beside it on connections of their own.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	engine "modernc.org/sqlite"
	zs "zombiezen.com/go/sqlite"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Config says how to open a database. The zero value works.
type Config struct {
	// Path is the database file. It is made, readable for its owner only, if it
	// does not exist; its folder must. Default: posthaste.db.
	Path string

	// ReadOnly opens an existing database beside the process that serves it:
	// without the lock file, and every method that writes fails. Default: false.
	ReadOnly bool

	// Readers is how many reads of the API go on at once. Four more connections read
	// for the engine. Default: 3.
	Readers int

	// CacheBytes bounds the page cache of the writing connection; each reading
	// one may take half of it. It is taken as it is used. More is not faster. The
	// system caches the file too. And SQLite, when it splits a page, numbers pages
	// anew by way of page 262,145, which it never stores; in a file of less than
	// 1 GiB the commit then looks through all cached pages for those beyond the
	// file's end. The keys of events split pages at random, so nearly every commit
	// does: at batches of 18, 16 MiB cost 17 % more processor time than 4, and 2
	// are as good as 4. Default: 4 MiB.
	CacheBytes int

	// LogBytes is how long the write-ahead log grows before it is moved into the
	// database. At twice that, reads are held back for a moment so that it can
	// start anew. Default: 64 MiB.
	LogBytes int

	// Timeout bounds a call whose context has no deadline. Default: 10s.
	Timeout time.Duration

	// Now is the clock that beats are stamped and judged by: the database's
	// clock, as the contract has it. Default: time.Now.
	Now func() time.Time

	// Logger is told what no caller can be told: checkpoints that fail, a log
	// that can't shrink. Default: it is thrown away.
	Logger *slog.Logger
}

// busyTimeout is how long a statement waits for a lock that another program
// holds on the file.
const busyTimeout = 5 * time.Second

// DB is an open database. Its methods are safe for concurrent use.
type DB struct {
	cfg    Config
	lock   *lockFile // nil if read-only
	writer *writer   // nil if read-only
	readers
	ckpt *checkpointer // nil if read-only

	// calls is held for reading by every call under way, and for writing by Close.
	calls  sync.RWMutex
	closed bool

	rounds retainRounds
}

var _ store.Store = (*DB)(nil)

// Open opens a database, which may be new: call [DB.Migrate] next. It fails at
// once, with a hint, if another process has it open for writing.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg = cfg.withDefaults()
	db := &DB{cfg: cfg}
	if err := db.open(ctx); err != nil {
		return nil, failed("open database "+cfg.Path, errors.Join(err, db.release()))
	}
	return db, nil
}

func (cfg Config) withDefaults() Config {
	if cfg.Path == "" {
		cfg.Path = "posthaste.db"
	}
	if cfg.Readers <= 0 {
		cfg.Readers = 3
	}
	if cfg.CacheBytes <= 0 {
		cfg.CacheBytes = 4 << 20
	}
	if cfg.LogBytes <= 0 {
		cfg.LogBytes = defaultLogBytes
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}

func (db *DB) open(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkFile(db.cfg.Path); err != nil {
		return err
	}
	if !db.cfg.ReadOnly {
		if db.lock, err = acquireLock(db.cfg.Path + ".lock"); err != nil {
			return err
		}
		if err := makePrivate(db.cfg.Path); err != nil {
			return err
		}
		if err := db.openWriter(); err != nil {
			return err
		}
	} else if _, err := os.Stat(db.cfg.Path); errors.Is(err, fs.ErrNotExist) {
		return &posthaste.Error{Code: posthaste.CodeNotFound, Message: "there is no such file", Hint: "give the path of an existing database, or start the server to make it", Err: err}
	}
	if db.readers, err = db.openReaders(db.cfg.Readers); err != nil {
		return err
	}
	if db.writer != nil {
		db.ckpt, err = startCheckpointer(db)
	}
	return err
}

// fileHeader begins every SQLite file (https://www.sqlite.org/fileformat.html, section 1.3).
const fileHeader = "SQLite format 3\x00"

// checkFile refuses what is there and is not an SQLite file, before anything is made
// beside it. An empty file is a new database.
func checkFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return nil // new, or not readable: opening it says so
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return &posthaste.Error{Code: posthaste.CodeInvalid, Message: "it is a folder", Hint: "give the path of a file in it"}
	}
	header := make([]byte, len(fileHeader))
	n, err := io.ReadFull(f, header)
	if n > 0 && (err != nil || string(header) != fileHeader) {
		return &posthaste.Error{Code: posthaste.CodeInvalid, Message: "it is not an SQLite database", Hint: "give the path of an SQLite file, or of a file that does not exist yet"}
	}
	return nil
}

// makePrivate makes the database file before SQLite would, since it holds what
// only its owner may read; the log and its index take over its mode.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func (db *DB) openWriter() error {
	// fdatasync leaves out the timestamps, which on ext4 cost a journal commit of
	// their own. Where the system has none, SQLite goes on with fsync.
	if _, err := engine.Fdatasync(true); err != nil && !errors.Is(err, engine.ErrFdatasyncUnavailable) {
		return err
	}
	if err := registerLogVFS(); err != nil {
		return err
	}
	c, err := openConn(logURI(db.cfg.Path), zs.OpenReadWrite|zs.OpenCreate|zs.OpenURI,
		"journal_mode=WAL",
		"synchronous=FULL",
		"wal_autocheckpoint=0", // the checkpointer's work
		fmt.Sprintf("journal_size_limit=%d", restartAt*db.cfg.LogBytes),
		fmt.Sprintf("cache_size=-%d", db.cfg.CacheBytes>>10),
		"temp_store=MEMORY",
	)
	if err != nil {
		return err
	}
	db.writer = newWriter(c)
	return nil
}

// logURI names the file for the VFS that gathers writes to the log.
func logURI(path string) string {
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?vfs=" + logVFS
}

func (db *DB) openReader() (*conn, error) {
	flags := zs.OpenReadWrite // may create the log's index, may not change a row: query_only
	if db.cfg.ReadOnly {
		flags = zs.OpenReadOnly
	}
	return openConn(db.cfg.Path, flags,
		"query_only=ON",
		fmt.Sprintf("cache_size=-%d", db.cfg.CacheBytes>>11),
		"temp_store=MEMORY",
	)
}

// Close ends what runs in the background, closes all connections, which moves
// the write-ahead log into the database, and gives the lock file back. It waits
// for calls under way. A second Close does nothing.
func (db *DB) Close() error {
	db.calls.Lock()
	defer db.calls.Unlock()
	if db.closed {
		return nil
	}
	db.closed = true
	return failed("close database "+db.cfg.Path, db.release())
}

// release gives back what open has taken, in the opposite order.
func (db *DB) release() error {
	var errs []error
	if db.ckpt != nil {
		errs = append(errs, db.ckpt.close())
	}
	errs = append(errs, db.readers.close())
	if db.writer != nil {
		errs = append(errs, db.writer.close())
	}
	if db.lock != nil {
		errs = append(errs, db.lock.release())
	}
	return errors.Join(errs...)
}

const sqlPing = `SELECT no FROM tenants LIMIT 1`

// Ping reports whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	return db.read(ctx, "ping", func(c *conn) error {
		_, err := c.get(sqlPing, func(row) {})
		return err
	})
}

// now is the database's clock.
func (db *DB) now() time.Time { return db.cfg.Now().UTC().Truncate(time.Microsecond) }

// write runs f in a transaction of the writer. doing names the call in errors.
// f may run twice and sets its results anew each time.
func (db *DB) write(ctx context.Context, doing string, f func(*conn) error) error {
	return db.call(ctx, doing, func(ctx context.Context) error {
		if db.writer == nil {
			return errReadOnly
		}
		return db.writer.do(ctx, f)
	})
}

// read runs f on a reading connection of the API.
func (db *DB) read(ctx context.Context, doing string, f func(*conn) error) error {
	return db.readOn(ctx, db.side, doing, f)
}

// readOn runs f on a reading connection of a pool.
func (db *DB) readOn(ctx context.Context, on *pool, doing string, f func(*conn) error) error {
	return db.call(ctx, doing, func(ctx context.Context) error { return on.do(ctx, f) })
}

// call runs f with a deadline, unless the database is closed.
func (db *DB) call(ctx context.Context, doing string, f func(context.Context) error) error {
	db.calls.RLock()
	defer db.calls.RUnlock()
	if db.closed {
		return failed(doing, errClosed)
	}
	if err := ctx.Err(); err != nil {
		return failed(doing, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, db.cfg.Timeout)
		defer cancel()
	}
	return failed(doing, f(ctx))
}
