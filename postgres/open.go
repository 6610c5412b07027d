// Package postgres keeps Posthaste's data in PostgreSQL 15 or newer. Any number
// of replicas may run on one database.
package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Config says which database to use. Only URL is needed.
type Config struct {
	// URL is the address of the database, such as
	// postgres://user:password@host:5432/posthaste, with the parameters of libpq.
	// Default: what the environment says (PGHOST and its like).
	URL string

	// DirectURL is the address for migrations and for LISTEN, which need a
	// session of their own where URL leads through a transaction pooler.
	// Default: URL.
	DirectURL string

	// MaxConns is how many connections are held at most, without the one that
	// listens. A third of them, and 6 at least, are for the way of an event, the rest for
	// looking, repairing and keeping up.
	// Default: 16. The smallest is 8.
	MaxConns int

	// ConnectTimeout bounds one attempt to connect.
	// Default: 5 s.
	ConnectTimeout time.Duration
}

const (
	minVersion = 150000 // server_version_num of PostgreSQL 15

	defaultMaxConns = 16
	minMaxConns     = 8
	minHotConns     = 6 // accept, settle, claim, beat and two more: none of them waits for another

	callTimeout    = 30 * time.Second // of a call whose context has no deadline
	defaultConnect = 5 * time.Second
)

// DB is a database that Posthaste runs on. It implements internal/store.Store,
// and is safe for concurrent use.
type DB struct {
	hot    *pgxpool.Pool // accept, claim, settle, beat
	side   *pgxpool.Pool // reads, repair, upkeep
	direct *pgx.ConnConfig
	tag    string // tells the hints of this process from those of others

	purge struct { // where the walk over idempotency goes on
		sync.Mutex
		page int64
	}
}

var _ store.Store = (*DB)(nil)

// Open connects to a database. It wraps store.ErrUnavailable if the server does
// not answer. Call [DB.Migrate] before anything else.
func Open(ctx context.Context, c Config) (*DB, error) {
	maxConns := cmp.Or(c.MaxConns, defaultMaxConns)
	if maxConns < minMaxConns {
		return nil, fmt.Errorf("open the database: MaxConns is %d, want %d or more", c.MaxConns, minMaxConns)
	}
	direct, err := pgx.ParseConfig(cmp.Or(c.DirectURL, c.URL))
	if err != nil {
		return nil, fmt.Errorf("read the database's direct URL: %w", err)
	}
	db := &DB{direct: direct, tag: rand.Text()[:8]}
	configure(direct, c, sideSettings)
	hotConns := max(minHotConns, maxConns/3)
	if db.hot, err = newPool(ctx, c, hotConns, hotSettings); err != nil {
		return nil, err
	}
	if db.side, err = newPool(ctx, c, maxConns-hotConns, sideSettings); err != nil {
		db.hot.Close()
		return nil, err
	}
	if err := db.checkVersion(ctx); err != nil {
		db.Close() //nolint:errcheck // it returns nil
		return nil, err
	}
	return db, nil
}

// settings are what a pool's sessions are started with. They travel in the
// startup packet: behind a transaction pooler that drops them everything still
// works, only with plans of the server's own choice.
type settings map[string]string

// Both pools. Cached plans are made once, for any parameters: often on an empty
// table, whose sequential scan would then stay for ever, so there must be none.
// Its other alternatives, the planner may choose.
var hotSettings = settings{
	"application_name":                    "posthaste",
	"synchronous_commit":                  "on", // 202 means on disk, whatever the server's default is
	"default_transaction_isolation":       "read committed",
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"enable_bitmapscan":                   "off", // would sort what the index has in order
	"jit":                                 "off",
	"plan_cache_mode":                     "force_generic_plan",
	"statement_timeout":                   "15s",
	"idle_in_transaction_session_timeout": "5s", // a vanished machine holds no lock for long
	"tcp_keepalives_idle":                 "5",
	"tcp_keepalives_interval":             "2",
	"tcp_keepalives_count":                "3",
	"tcp_user_timeout":                    "10000",
}

// Chores may take longer, and give up a lock that they don't get soon: what
// queues behind their wait is the way of an event.
var sideSettings = func() settings {
	s := settings{}
	for k, v := range hotSettings {
		s[k] = v
	}
	s["statement_timeout"] = "60s"
	s["lock_timeout"] = "2s"
	return s
}()

// configure adds to a connection's configuration what we need of each.
func configure(cc *pgx.ConnConfig, c Config, s settings) {
	cc.ConnectTimeout = cmp.Or(c.ConnectTimeout, defaultConnect)
	// The settings of the same name are the server's side of it.
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}
	cc.DialFunc = dialer.DialContext
	for name, value := range s {
		cc.RuntimeParams[name] = value
	}
}

func newPool(ctx context.Context, c Config, maxConns int, s settings) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err)
	}
	configure(pc.ConnConfig, c, s)
	pc.MaxConns = int32(maxConns)
	pc.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		registerColumns(conn)
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fail("open the database", err)
	}
	return pool, nil
}

const versionSQL = `select current_setting('server_version_num')::int4, current_setting('server_version')`

func (db *DB) checkVersion(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var number int
	var version string
	if err := db.side.QueryRow(ctx, versionSQL).Scan(&number, &version); err != nil {
		return fail("open the database", err)
	}
	if number < minVersion {
		return &posthaste.Error{
			Code:    posthaste.CodeInternal,
			Message: "open the database: the server is PostgreSQL " + version,
			Hint:    "use PostgreSQL " + strconv.Itoa(minVersion/10000) + " or newer",
		}
	}
	return nil
}

// hangUp closes a connection of its own, even when ctx has ended, and doesn't
// wait long for an answer.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	conn.Close(ctx) //nolint:errcheck // nothing is lost with the connection
}

// Ping reports whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := db.side.Ping(ctx); err != nil {
		return fail("ask the database for a sign of life", err)
	}
	return nil
}

// Close releases the connections. It waits for calls under way.
func (db *DB) Close() error {
	db.hot.Close()
	db.side.Close()
	return nil
}
