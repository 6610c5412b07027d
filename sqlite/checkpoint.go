package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	zs "zombiezen.com/go/sqlite"
)

// checkpointer moves the write-ahead log into the database. SQLite's own way, a
// checkpoint inside the commit that reaches a page count, would hold that
// commit up by the time of thousands of page writes. Here most of it runs on
// another connection beside the writer; only the pages that were written
// meanwhile are moved while the writer stands still, since the log starts anew
// only from a moment at which it is wholly moved and nobody reads it.
//
// With readers that overlap without end, that moment never comes by itself, and
// the log would grow without bound; so beyond restartBytes new readers are held
// back for a moment.
type checkpointer struct {
	db     *DB
	conn   *conn
	cancel context.CancelFunc
	done   chan struct{}
	warned bool // that the log can't shrink, once until it does
}

// checkpointBytes is when a checkpoint begins: at less, pages that are written
// again and again are moved as often (16 MiB cost 6 % more CPU an event than
// 32, and 64 only 1 % less); at more, opening after a crash reads for longer.
const checkpointBytes = 64 << 20

// restartBytes is when readers are held back, and what the log file is cut to.
const restartBytes = 128 << 20

// warnBytes is the size of the log that the operator is told of.
const warnBytes = 256 << 20

// checkpointPause is the time between two looks at the log while something is
// written. Nothing looks while nothing is.
const checkpointPause = 100 * time.Millisecond

// holdReaders bounds how long reads wait for a checkpoint.
const holdReaders = 250 * time.Millisecond

func startCheckpointer(db *DB) (*checkpointer, error) {
	c, err := openConn(db.cfg.Path, zs.OpenReadWrite, "synchronous=FULL", "wal_autocheckpoint=0", "cache_size=-64")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	k := &checkpointer{db: db, conn: c, cancel: cancel, done: make(chan struct{})}
	c.SetInterrupt(ctx.Done())
	go k.loop(ctx)
	return k, nil
}

// close ends the goroutine. The log is moved when the last connection closes.
func (k *checkpointer) close() error {
	k.cancel()
	<-k.done
	return k.conn.Close()
}

func (k *checkpointer) loop(ctx context.Context) {
	defer close(k.done)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-k.db.writer.turned:
		case <-ctx.Done():
			return
		}
		pause.Reset(checkpointPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		if err := k.look(ctx); err != nil && ctx.Err() == nil {
			k.db.cfg.Logger.Warn("checkpoint of the write-ahead log failed", "error", err)
		}
	}
}

const (
	// NOOP moves nothing and says how long the log is (SQLite 3.51).
	sqlLogSize = `PRAGMA wal_checkpoint(NOOP)`
	sqlMoveLog = `PRAGMA wal_checkpoint(PASSIVE)`
)

// walFrameBytes is a page and its header in the log.
const walFrameBytes = 2048 + 24

// logBytes runs one of the statements above and returns how long the log is and
// how much of it is not moved yet.
func logBytes(c *conn, query string) (size, left int64, err error) {
	_, err = c.get(query, func(r row) {
		size, left = r.ColumnInt64(1)*walFrameBytes, (r.ColumnInt64(1)-r.ColumnInt64(2))*walFrameBytes
	})
	return size, left, err
}

// look moves the log if it is long enough.
func (k *checkpointer) look(ctx context.Context) error {
	size, _, err := logBytes(k.conn, sqlLogSize)
	if err != nil || size < checkpointBytes {
		k.warned = k.warned && size >= warnBytes
		return err
	}
	if _, _, err := logBytes(k.conn, sqlMoveLog); err != nil {
		return err
	}
	if size >= restartBytes {
		hold, cancel := context.WithTimeout(ctx, holdReaders)
		defer cancel()
		// Without them all, the rest may still find its moment.
		if release, err := k.db.pool.hold(hold); err == nil {
			defer release()
		}
	}
	bounded, cancel := context.WithTimeout(ctx, k.db.cfg.Timeout)
	defer cancel()
	err = k.db.writer.doBare(bounded, func(c *conn) error {
		size, _, err = logBytes(c, sqlMoveLog)
		return err
	})
	if err != nil {
		return fmt.Errorf("move the rest: %w", err)
	}
	if size >= warnBytes && !k.warned {
		k.warned = true
		return errors.New("the log can't start anew: another program reads the database without a pause")
	}
	return nil
}
