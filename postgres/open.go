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
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pgconnect"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Config says which database to use. Only URL is needed.
type Config struct {
	// URL is the address of the database, such as
	// postgres://user:password@host:5432/posthaste, with the parameters of libpq.
	// Default: what the environment says (PGHOST and its like).
	URL string

	// DirectURL is the address of the same database without the transaction pooler
	// (PgBouncer and its like) that URL leads through. Migrations, LISTEN and the lock on
	// the replica's name need a session of their own and use it: it takes one connection
	// for the life of a replica, and one more while the schema is made or checked.
	//
	// If it differs from URL, a pooler is assumed to be in between, and nothing is expected
	// of the sessions behind URL: no statement is prepared by name, no startup parameter
	// is sent but application_name, and every statement goes with its settings in
	// a transaction of its own. PgBouncer needs pool_mode = transaction (or session) and
	// nothing else; versions before 1.21 will do. Without a pooler leave it empty: prepared
	// statements cost the server a good deal less.
	// Default: URL, and no pooler.
	DirectURL string

	// MaxConns is how many connections are held at most, without the one that
	// listens. Each kind of work has some of its own: a slow list, a chore or
	// a large payload never holds up a heartbeat or a commit. Connections are opened as
	// they are needed.
	// Default: 24. The smallest is 12.
	MaxConns int

	// ConnectTimeout bounds one attempt to connect.
	// Default: 5 s.
	ConnectTimeout time.Duration
}

const (
	minVersion = 150000 // server_version_num of PostgreSQL 15

	defaultMaxConns = 24 // the sums of poolShares
	minMaxConns     = 12

	callTimeout    = 30 * time.Second // of a call whose context has no deadline
	defaultConnect = 5 * time.Second
)

// DB is a database that Posthaste runs on. It implements internal/store.Store,
// and is safe for concurrent use.
type DB struct {
	pools
	direct *direct
	me     atomic.Pointer[registration] // nil: none yet
	tag    string                       // tells the hints of this process from those of others

	purge struct { // where the walk over idempotency goes on
		sync.Mutex
		page int64
	}
	tombstones struct { // where the walk over deleted endpoints goes on
		sync.Mutex
		at int64
		no int32
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
	config, err := pgx.ParseConfig(cmp.Or(c.DirectURL, c.URL))
	if err != nil {
		return nil, fmt.Errorf("read the database's direct URL: %w", err)
	}
	configure(config, c, sideSettings.with(sessionSettings).with(directSettings))
	db := &DB{direct: &direct{config: config}, tag: rand.Text()[:8]}
	if db.pools, err = openPools(ctx, c, maxConns); err != nil {
		return nil, err
	}
	if err := db.checkVersion(ctx); err != nil {
		db.Close() // it returns nil
		return nil, err
	}
	return db, nil
}

// pooled reports whether URL leads through a pooler.
func (c Config) pooled() bool { return c.DirectURL != "" && c.DirectURL != c.URL }

// configure adds to a connection's configuration what we need of each.
func configure(cc *pgx.ConnConfig, c Config, s settings) {
	cc.ConnectTimeout = cmp.Or(c.ConnectTimeout, defaultConnect)
	// The settings of the same name are the server's side of it.
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}
	cc.DialFunc = dialer.DialContext
	cc.RuntimeParams["application_name"] = "posthaste"
	for name, value := range s {
		cc.RuntimeParams[name] = value
	}
}

const versionSQL = `select current_setting('server_version_num')::int4, current_setting('server_version')`

func (db *DB) checkVersion(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var number int
	var version string
	if err := db.vital.QueryRow(ctx, versionSQL).Scan(&number, &version); err != nil {
		return fail("open the database", orPooler(pgconnect.Explain(err)))
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
	conn.Close(ctx) // nothing is lost with the connection
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
	db.direct.close()
	return db.pools.Close()
}
