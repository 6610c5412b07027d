package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pool is a pool of connections on which every statement runs with our settings.
//
// Straight to the server, they are the session's: they travel in the startup
// packet, and statements are prepared once. Through a transaction pooler there is no
// session to rely on: each transaction may meet another one, which others have
// used. Then no statement is prepared by name, and each is sent together with the
// transaction around it, in one round trip:
//
//	begin isolation level read committed
//	select set_config(…, true), …        the settings, until the transaction ends
//	the statement
//	commit
//
// The server parses and plans the statement anew each time, under these settings,
// so its plan is the one that TestHotPlans looks at.
type pool struct {
	conns *pgxpool.Pool
	local string // the statement that makes the settings; "" where the session has them
	tx    pgx.Tx // what the statements run in, instead of taking a connection; nil: none
}

// settings are server settings by name. Values hold no quotes.
type settings map[string]string

// All pools. Cached plans are made once, for any parameters: often on an empty
// table, whose sequential scan would then stay for ever, so there must be none.
// Its other alternatives, the planner may choose.
var hotSettings = settings{
	"synchronous_commit":                  "on", // 202 means on disk, whatever the server's default is
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"enable_bitmapscan":                   "off", // would sort what the index has in order
	"jit":                                 "off",
	"plan_cache_mode":                     "force_generic_plan",
	"statement_timeout":                   "15s",
	"idle_in_transaction_session_timeout": "5s", // a vanished machine holds no lock for long
}

// Chores may take longer, and give up a lock that they don't get soon: what
// queues behind their wait is the way of an event.
var sideSettings = hotSettings.with(settings{"statement_timeout": "60s", "lock_timeout": "2s"})

// Payloads come as fast as the link lets them, and hold no lock meanwhile.
var loadSettings = hotSettings.with(settings{"statement_timeout": "60s"})

// sessionSettings are for sessions that are ours alone. The isolation, each
// transaction states itself otherwise; the rest is about the way between the
// server and whoever is connected to it, which may be a pooler.
var sessionSettings = settings{
	"default_transaction_isolation": "read committed",
	"tcp_keepalives_idle":           "5",
	"tcp_keepalives_interval":       "2",
	"tcp_keepalives_count":          "3",
	"tcp_user_timeout":              "10000",
}

func (s settings) with(more settings) settings {
	all := maps.Clone(s)
	maps.Copy(all, more)
	return all
}

// local returns the statement that makes the settings until the transaction ends.
func (s settings) local() string {
	var calls []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		calls = append(calls, fmt.Sprintf("set_config('%s', '%s', true)", name, s[name]))
	}
	return "select " + strings.Join(calls, ", ")
}

const beginLocal = "begin isolation level read committed"

func newPool(ctx context.Context, c Config, maxConns int, s settings) (*pool, error) {
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err)
	}
	p := &pool{}
	if c.pooled() {
		p.local = s.local()
		// Described once for each of our connections, never prepared by name: PgBouncer
		// before 1.21 doesn't know what it prepared where.
		pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		configure(pc.ConnConfig, c, nil)
	} else {
		configure(pc.ConnConfig, c, s.with(sessionSettings))
	}
	pc.MaxConns = int32(maxConns)
	pc.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		registerColumns(conn)
		return nil
	}
	if p.conns, err = pgxpool.NewWithConfig(ctx, pc); err != nil {
		return nil, fail("open the database", err)
	}
	return p, nil
}

// Run sends a batch, which is one transaction, and reads what it answers.
func (p *pool) Run(ctx context.Context, batch *pgx.Batch) error {
	if p.tx != nil {
		return p.tx.SendBatch(ctx, batch).Close()
	}
	if p.local == "" {
		return p.conns.SendBatch(ctx, batch).Close()
	}
	t, err := p.send(ctx, batch)
	if err != nil {
		return err
	}
	return t.end()
}

// Exec runs a statement that returns no rows.
func (p *pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if p.local == "" {
		return p.conns.Exec(ctx, sql, args...)
	}
	var tag pgconn.CommandTag
	batch := &pgx.Batch{}
	batch.Queue(sql, args...).Exec(func(t pgconn.CommandTag) error {
		tag = t
		return nil
	})
	err := p.Run(ctx, batch)
	return tag, err
}

// Query runs a statement and returns its rows. Whether it was committed is known
// only from Err, after the last row.
func (p *pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if p.tx != nil {
		return p.tx.Query(ctx, sql, args...)
	}
	if p.local == "" {
		return p.conns.Query(ctx, sql, args...)
	}
	batch := &pgx.Batch{}
	batch.Queue(sql, args...)
	t, err := p.send(ctx, batch)
	if err != nil {
		return nil, err
	}
	rows, err := t.answer()
	if err != nil {
		_ = t.end() // says the same
		return nil, err
	}
	return &localRows{Rows: rows, transaction: t}, nil
}

// QueryRow is Query for one row.
func (p *pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if p.local == "" {
		return p.conns.QueryRow(ctx, sql, args...)
	}
	rows, err := p.Query(ctx, sql, args...)
	return localRow{rows: rows, err: err}
}

// Begin begins a transaction of several round trips. Over a pooler it has the
// same session until it ends.
func (p *pool) Begin(ctx context.Context) (pgx.Tx, error) {
	if p.local == "" {
		return p.conns.Begin(ctx)
	}
	return p.conns.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginLocal + "; " + p.local})
}

// Ping reports whether the database answers.
func (p *pool) Ping(ctx context.Context) error { return p.conns.Ping(ctx) }

// Close closes the connections. It waits for those in use.
func (p *pool) Close() { p.conns.Close() }

// transaction is a batch that was sent together with the transaction around it.
type transaction struct {
	conn    *pgxpool.Conn
	results pgx.BatchResults
}

func (p *pool) send(ctx context.Context, batch *pgx.Batch) (*transaction, error) {
	conn, err := p.conns.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	whole := &pgx.Batch{}
	whole.Queue(beginLocal)
	whole.Queue(p.local)
	whole.QueuedQueries = append(whole.QueuedQueries, batch.QueuedQueries...)
	whole.Queue("commit")
	return &transaction{conn: conn, results: conn.SendBatch(ctx, whole)}, nil
}

// answer reads past the beginning of the transaction to the rows of the first
// statement.
func (t *transaction) answer() (pgx.Rows, error) {
	for range 2 {
		if _, err := t.results.Exec(); err != nil {
			return nil, err
		}
	}
	return t.results.Query()
}

// end reads what is left of the answers, the commit's too, and gives the
// connection back. A transaction that failed is rolled back.
func (t *transaction) end() error {
	defer t.conn.Release()
	err := t.results.Close()
	rollBack(t.conn)
	return err
}

// localRows are rows whose transaction ends with them.
type localRows struct {
	pgx.Rows
	transaction *transaction // nil: it has ended
	err         error        // of its end
}

func (r *localRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *localRows) Close() {
	r.Rows.Close()
	if t := r.transaction; t != nil {
		r.transaction = nil
		r.err = t.end()
	}
}

func (r *localRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

type localRow struct {
	rows pgx.Rows
	err  error // of the query
}

func (r localRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close() // not before: the row is read from the connection's buffer
	return r.rows.Err()
}
