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
// the log would grow without bound; so a log of twice its size holds new
// readers back for a moment.
type checkpointer struct {
	db     *DB
	conn   *conn
	cancel context.CancelFunc
	done   chan struct{}
	last   int64 // how long the log was when it was last moved
	warned bool  // that the log does not start anew, once until it does
}

// defaultLogBytes is when a checkpoint begins. At less, pages that are written
// again and again are moved as often: 8 MiB cost 10 % more processor time an
// event than 64, 32 cost 6 %. At more, a start after a crash has more to read:
// with 128 MiB it takes 0.2 s, reclaiming included.
const defaultLogBytes = 64 << 20

// restartAt is how many times as long the log is when readers are held back.
const restartAt = 2

// warnAt is how many times as long the log is when the operator is told.
const warnAt = 4

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
			k.db.cfg.Logger.Warn("checkpoint of the write-ahead log failed", "err", err)
		}
	}
}

const (
	// NOOP moves nothing and says how long the log is (SQLite 3.51).
	sqlLogSize = `PRAGMA wal_checkpoint(NOOP)`
	sqlMoveLog = `PRAGMA wal_checkpoint(PASSIVE)`
)

// walFrameBytes is a page and its header in the log.
const walFrameBytes = 4096 + 24

// logBytes runs one of the statements above and returns how long the log is.
func logBytes(c *conn, query string) (size int64, err error) {
	_, err = c.get(query, func(r row) { size = r.ColumnInt64(1) * walFrameBytes })
	return size, err
}

// look moves the log if it is long enough.
func (k *checkpointer) look(ctx context.Context) error {
	limit := int64(k.db.cfg.LogBytes)
	size, err := logBytes(k.conn, sqlLogSize)
	if err != nil {
		return err
	}
	if size < k.last {
		k.last, k.warned = 0, false // it has started anew
	}
	if size < limit {
		return nil
	}
	if _, err := logBytes(k.conn, sqlMoveLog); err != nil {
		return err
	}
	if size >= restartAt*limit {
		hold, cancel := context.WithTimeout(ctx, holdReaders)
		defer cancel()
		// Without them all, the rest may still find its moment.
		if release, err := k.db.readers.hold(hold); err == nil {
			defer release()
		}
	}
	bounded, cancel := context.WithTimeout(ctx, k.db.cfg.Timeout)
	defer cancel()
	err = k.db.writer.doBare(bounded, func(c *conn) error {
		size, err = logBytes(c, sqlMoveLog)
		return err
	})
	if err != nil {
		return fmt.Errorf("move the rest: %w", err)
	}
	// Moved, it starts anew at the next commit; if it has not, a reader was in the way.
	stuck := k.last >= restartAt*limit && size >= warnAt*limit
	k.last = size
	if stuck && !k.warned {
		k.warned = true
		return errors.New("the log does not start anew: another program reads the database without a pause")
	}
	return nil
}
