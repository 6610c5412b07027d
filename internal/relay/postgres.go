package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pgconnect"
	"github.com/posthaste-dev/posthaste/outbox"
)

// The advisory locks of the application's database that outboxes use; see outbox/schema.
const (
	lockSleep = 1886871401 // with 0: who changes what relays sleep
	lockRelay = 1886871402 // with a relay's number: it lives
	lockKeys  = 1886871404 // with a bucket of order keys: who claims them
)

// postgresBox is an outbox in PostgreSQL. One connection, which listens, does it all, but
// what happens at home.
type postgresBox struct {
	config *pgx.ConnConfig
	home   Home
	store  acceptFunc

	conn    *pgx.Conn // nil: not connected
	no      int32     // of this relay; the session holds the lock on it
	isHome  bool      // the outbox is in the engine's database
	from    int64     // no row without an order key was found below
	fromTop time.Time // when a claim began at the very first row
	sleptAt int64     // the transaction in which this relay was asleep
}

// settings of our session: those that the engine's own sessions have, for the same reasons
// (postgres/pool.go).
var settings = map[string]string{
	"application_name":                    "posthaste relay",
	"default_transaction_isolation":       "read committed",
	"enable_seqscan":                      "off",
	"enable_bitmapscan":                   "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"jit":                                 "off",
	"plan_cache_mode":                     "force_generic_plan",
	"lock_timeout":                        "2s",
	"statement_timeout":                   "15s",
	"idle_in_transaction_session_timeout": "20s", // an accept may take 5
	"tcp_keepalives_idle":                 "5",
	"tcp_keepalives_interval":             "2",
	"tcp_keepalives_count":                "3",
	"tcp_user_timeout":                    "10000",
}

func newPostgresBox(url string, home Home, accept acceptFunc) (*postgresBox, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the URL of an outbox: %w", err)
	}
	config.ConnectTimeout = 5 * time.Second
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}
	config.DialFunc = dialer.DialContext
	for name, value := range settings {
		config.RuntimeParams[name] = value
	}
	return &postgresBox{config: config, home: home, store: accept}, nil
}

const (
	versionSQL    = `select max(version) from posthaste.outbox_schema`
	takeNumberSQL = `select pg_try_advisory_lock($1, $2)`
	listenSQL     = `listen posthaste_outbox`
	pidSQL        = `select pg_backend_pid()`
	// Only in the same database of the same server does a session see this lock of ours.
	isHomeSQL = `select exists (select from pg_locks l where l.locktype = 'advisory' and l.granted and l.classid = $1 and l.objid = $2 and l.pid = $3
		and l.database = (select oid from pg_database where datname = current_database()))`
)

func (b *postgresBox) connect(ctx context.Context) (err error) {
	b.close(ctx)
	conn, err := pgx.ConnectConfig(ctx, b.config.Copy())
	if err != nil {
		return fmt.Errorf("connect to the outbox: %w", pgconnect.Explain(err))
	}
	defer func() {
		if err != nil {
			hangUp(ctx, conn)
		}
	}()
	var version int
	if err := conn.QueryRow(ctx, versionSQL).Scan(&version); err != nil {
		return notInstalled(err)
	}
	if version != outbox.SchemaVersion {
		return wrongVersion(version)
	}
	for free := false; !free; {
		b.no = rand.Int32()
		if err := conn.QueryRow(ctx, takeNumberSQL, lockRelay, b.no).Scan(&free); err != nil {
			return fmt.Errorf("take a number: %w", err)
		}
	}
	if _, err := conn.Exec(ctx, listenSQL); err != nil {
		return fmt.Errorf("listen for writers: %w", err)
	}
	if b.isHome, err = b.findHome(ctx, conn); err != nil {
		return err
	}
	b.conn, b.from = conn, 0
	return b.awake(ctx) // and clear away what dead relays left
}

func notInstalled(err error) error {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if ok && (answer.Code == "42P01" || answer.Code == "3F000" || answer.Code == "42501") { // no table, no schema, no right
		return &posthaste.Error{
			Code: posthaste.CodeUnavailable, Message: "the database has no outbox that this role may read",
			Hint: "run posthaste outbox install, and grant posthaste_outbox_relay to the role", Err: err,
		}
	}
	return fmt.Errorf("read the outbox's version: %w", err)
}

func wrongVersion(version int) error {
	return &posthaste.Error{
		Code:    posthaste.CodeUnavailable,
		Message: fmt.Sprintf("the outbox is of version %d, this program's is %d", version, outbox.SchemaVersion),
		Hint:    "run posthaste outbox install with the newer program",
	}
}

// findHome reports whether the outbox is in the engine's own database, and open to it.
func (b *postgresBox) findHome(ctx context.Context, conn *pgx.Conn) (bool, error) {
	if b.home == nil {
		return false, nil
	}
	var pid int32
	if err := conn.QueryRow(ctx, pidSQL).Scan(&pid); err != nil {
		return false, fmt.Errorf("ask for the session's number: %w", err)
	}
	tx, err := b.home.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var is bool
	if err := tx.QueryRow(ctx, isHomeSQL, lockRelay, b.no, pid).Scan(&is); err != nil {
		return false, fmt.Errorf("look whether the outbox is in the engine's database: %w", err)
	}
	if !is {
		return false, nil
	}
	var may bool
	err = tx.QueryRow(ctx, `select pg_has_role('posthaste_outbox_relay', 'usage') or has_table_privilege('posthaste.outbox', 'delete')`).Scan(&may)
	if err != nil || !may { // else the rows are moved as from another database, which needs no such right
		return false, nil
	}
	return true, nil
}

const (
	sleepLockSQL = `select pg_advisory_xact_lock($1, 0)`
	dropDeadSQL  = `delete from posthaste.outbox_relay r where not exists (select from pg_locks l where l.locktype = 'advisory' and l.granted
		and l.classid = $1 and l.objid = r.no::oid and l.database = (select oid from pg_database where datname = current_database()))`
	markAsleepSQL = `insert into posthaste.outbox_relay (no, asleep) values ($1, true) on conflict (no) do update set asleep = true`
	markAwakeSQL  = `update posthaste.outbox_relay set asleep = false where no = $1 and asleep`
	flagAsleepSQL = `select setval('posthaste.outbox_asleep', 2)`
	flagAwakeSQL  = `select setval('posthaste.outbox_asleep', 1) where not exists (select from posthaste.outbox_relay where asleep)`
	lazyCommitSQL = `set local synchronous_commit = off` // a crash ends our session too, and we mark ourselves anew
	ownXidSQL     = `select pg_current_xact_id()::text::int8`
	settledSQL    = `select pg_snapshot_xmin(pg_current_snapshot())::text::int8 >= $1`
)

// mark changes what this relay is, one relay at a time, and the flag with it.
func (b *postgresBox) mark(ctx context.Context, row, flag string) error {
	batch := &pgx.Batch{}
	batch.Queue("begin")
	batch.Queue(lazyCommitSQL)
	batch.Queue(sleepLockSQL, lockSleep)
	batch.Queue(dropDeadSQL, lockRelay)
	batch.Queue(row, b.no)
	batch.Queue(flag)
	batch.Queue("commit")
	return b.send(ctx, batch)
}

// markGrace is how long a mark may take that was begun when the relay was told to end. What
// does not come through, the next relay clears away.
const markGrace = time.Second

func (b *postgresBox) send(ctx context.Context, batch *pgx.Batch) error {
	ctx, cancel := outlast(ctx, stepTimeout, markGrace)
	defer cancel()
	return b.conn.SendBatch(ctx, batch).Close()
}

func (b *postgresBox) sleep(ctx context.Context) error {
	if err := b.mark(ctx, markAsleepSQL, flagAsleepSQL); err != nil {
		return fmt.Errorf("fall asleep: %w", err)
	}
	// Whoever did not see the flag had inserted before he looked, and so has a lower
	// number than a transaction that begins now.
	if err := b.conn.QueryRow(ctx, ownXidSQL).Scan(&b.sleptAt); err != nil {
		return fmt.Errorf("fall asleep: %w", err)
	}
	return nil
}

func (b *postgresBox) awake(ctx context.Context) error {
	over, stop := context.WithCancel(ctx)
	stop()
	for { // what was said while we woke
		if _, err := b.conn.WaitForNotification(over); err != nil {
			break
		}
	}
	if err := b.mark(ctx, markAwakeSQL, flagAwakeSQL); err != nil {
		return fmt.Errorf("wake up: %w", err)
	}
	return nil
}

func (b *postgresBox) isSettled(ctx context.Context) (settled bool, err error) {
	if err := b.conn.QueryRow(ctx, settledSQL, b.sleptAt).Scan(&settled); err != nil {
		return false, fmt.Errorf("ask for transactions under way: %w", err)
	}
	return settled, nil
}

func (b *postgresBox) wait(ctx context.Context, d time.Duration) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_, err := b.conn.WaitForNotification(waiting)
	if err != nil && waiting.Err() != nil && !b.conn.IsClosed() {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("wait for writers: %w", err)
	}
	return true, nil
}

const countSQL = `select (select count(*) from (select from posthaste.outbox limit $1) waiting),
	(select count(*) from (select from posthaste.outbox_parked limit $1) parked),
	(select enqueued_at from posthaste.outbox order by id limit 1)`

func (b *postgresBox) count(ctx context.Context) (c counts, err error) {
	var oldest *time.Time
	err = b.conn.QueryRow(ctx, countSQL, maxCount).Scan(&c.waiting, &c.parked, &oldest)
	if oldest != nil {
		c.oldestAt = *oldest
	}
	return c, err
}

func (b *postgresBox) close(ctx context.Context) {
	if b.conn == nil {
		return
	}
	if !b.conn.IsClosed() {
		batch := &pgx.Batch{}
		batch.Queue("begin")
		batch.Queue(sleepLockSQL, lockSleep)
		batch.Queue(`delete from posthaste.outbox_relay where no = $1`, b.no)
		batch.Queue(flagAwakeSQL)
		batch.Queue("commit")
		_ = b.send(ctx, batch) // what is left of us, the next relay clears away
	}
	hangUp(ctx, b.conn)
	b.conn = nil
}

func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// name is what the outbox goes by: its database, and no more of the URL.
func (b *postgresBox) name() string {
	host := b.config.Host
	if b.config.Port != defaultPort {
		host = net.JoinHostPort(host, strconv.Itoa(int(b.config.Port)))
	}
	return host + "/" + b.config.Database
}

const defaultPort = 5432
