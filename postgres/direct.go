package postgres

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// direct is the one connection that a replica keeps for life, past any pooler. Its
// session holds the lock on the replica's name and hears the hints of the others;
// idle, it issues no statement.
//
// What the lock guards, registering under the name, is done by the very session
// that holds it. A replica whose session is gone without its knowledge, and whose
// name another process may have by now, can't believe otherwise: its statement fails.
type direct struct {
	config *pgx.ConnConfig

	// Whoever wants the connection passes the gate, ends the wait of the one who
	// listens, and takes a turn. The listener waits in a turn of its own, and can't
	// begin another one while the gate is closed.
	gate      sync.Mutex
	turn      sync.Mutex
	stopWait  context.CancelFunc // written with gate and turn held, read with gate
	listening atomic.Bool

	// Guarded by turn.
	conn   *pgx.Conn   // nil: none
	name   string      // what conn's session holds the lock of, and a new one will; "": nothing
	self   sessionID   // conn's
	epoch  store.Epoch // that was registered last
	closed bool
}

// sessionID identifies a session of the server for all times.
type sessionID struct {
	pid   int32
	begin int64 // its backend_start
}

// directSettings keep the server from closing the connection because it is idle.
var directSettings = settings{"idle_session_timeout": "0"}

const (
	selfSQL = `select pid, (extract(epoch from backend_start) * 1000000)::int8 from pg_stat_activity where pid = pg_backend_pid()`

	// It ends the session that we had and lost sight of, which would still hold the
	// lock until the server notices: after ten seconds, or, with a proxy in between, never.
	endSessionSQL = `select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and (extract(epoch from backend_start) * 1000000)::int8 = $2`

	// A lock of 64 bits that no other program takes by chance. Names are the schema's,
	// since several installations may share a database. The session's lock_timeout
	// bounds the wait: one who was killed a moment ago may still be seen to live.
	lockNameSQL = `select pg_advisory_lock(hashtextextended(format('posthaste replica %s %s', current_schema(), $1::text), 0))`
)

// use runs f in a turn.
func (d *direct) use(f func() error) error {
	d.gate.Lock()
	defer d.gate.Unlock()
	if d.stopWait != nil {
		d.stopWait()
	}
	d.turn.Lock()
	defer d.turn.Unlock()
	return f()
}

// hold returns the connection, whose session holds the lock on the name. It
// connects anew if the old connection is broken or stands for another name. The
// error wraps store.ErrConflict if another session holds the lock. Needs a turn.
func (d *direct) hold(ctx context.Context, name string) (*pgx.Conn, error) {
	if d.closed {
		return nil, errors.New("the database is closed")
	}
	if d.conn != nil && !d.conn.IsClosed() && d.name == name {
		return d.conn, nil
	}
	d.drop(ctx)
	conn, err := pgx.ConnectConfig(ctx, d.config)
	if err != nil {
		return nil, orPooler(err)
	}
	registerColumns(conn)
	d.name = name
	if err := d.lockName(ctx, conn); err != nil {
		hangUp(ctx, conn)
		return nil, err
	}
	d.conn = conn
	return conn, nil
}

func (d *direct) lockName(ctx context.Context, conn *pgx.Conn) error {
	if d.self.pid != 0 {
		if _, err := conn.Exec(ctx, endSessionSQL, d.self.pid, d.self.begin); err != nil {
			return err
		}
	}
	if err := conn.QueryRow(ctx, selfSQL).Scan(&d.self.pid, &d.self.begin); err != nil {
		return err
	}
	if d.name == "" {
		return nil
	}
	_, err := conn.Exec(ctx, lockNameSQL, d.name)
	if hasState(err, stateLockTimeout) {
		return &posthaste.Error{
			Code:    posthaste.CodeUnavailable, // a client may try again, elsewhere
			Message: "another living replica is named " + strconv.Quote(d.name),
			Hint:    "set --replica: each replica on a database needs a name of its own",
			Err:     store.ErrConflict,
		}
	}
	return err
}

// drop closes the connection, and with it the session's lock goes. Needs a turn.
func (d *direct) drop(ctx context.Context) {
	if d.conn != nil {
		hangUp(ctx, d.conn)
		d.conn = nil
	}
}

func (d *direct) close() {
	_ = d.use(func() error {
		d.closed = true
		d.drop(context.Background())
		return nil
	})
}

// release gives the name back if the epoch is the one that was registered under it.
func (d *direct) release(ctx context.Context, epoch store.Epoch) {
	_ = d.use(func() error {
		if d.epoch == epoch {
			d.drop(ctx)
			d.name = ""
		}
		return nil
	})
}

var (
	errListening = errors.New("another call listens already")
	errReplaced  = errors.New("the connection was lost")
)

// listen calls begun when the session listens, and heard for each notification,
// until ctx ends or the connection is lost.
func (d *direct) listen(ctx context.Context, begun func(), heard func(payload string)) error {
	if !d.listening.CompareAndSwap(false, true) {
		return errListening
	}
	defer d.listening.Store(false)
	var conn *pgx.Conn
	err := d.use(func() (err error) {
		if conn, err = d.hold(ctx, d.name); err == nil {
			_, err = conn.Exec(ctx, listenSQL)
		}
		return err
	})
	if err != nil {
		return err
	}
	begun()
	for {
		notice, err := d.wait(ctx, conn)
		switch {
		case err != nil:
			return err
		case notice != nil:
			heard(notice.Payload)
		}
	}
}

// wait returns the next notification, or none if somebody else wants the connection.
func (d *direct) wait(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	d.gate.Lock()
	d.turn.Lock()
	defer d.turn.Unlock()
	d.stopWait = stop
	d.gate.Unlock()
	if d.conn != conn {
		return nil, errReplaced
	}
	notice, err := conn.WaitForNotification(waiting)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil && !conn.IsClosed() {
		return nil, nil //nolint:nilnil // as said
	}
	return notice, err
}
