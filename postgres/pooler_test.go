package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/store/storetest"
	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// poolerSessions is how many sessions of the server a PgBouncer has for a
// database here: fewer than a DB has connections to it.
const poolerSessions = 4

// throughPooler makes a migrated database and returns a configuration for it
// through a PgBouncer.
func throughPooler(tb testing.TB) Config {
	tb.Helper()
	_, direct := open(tb)
	return Config{URL: testdb.Pooler(tb, direct, poolerSessions), DirectURL: direct}
}

// TestConformanceThroughPooler is the whole suite once more, through a PgBouncer.
// Meanwhile the server tells the plan of every statement that it runs, and those of the
// hot ones are held to the rules of TestHotPlans: here they are the plans of tables
// that are new and were never analysed.
func TestConformanceThroughPooler(t *testing.T) {
	pooler := parse(t, throughPooler(t).URL)
	plans := newPlanLog()
	storetest.Run(t, func(t *testing.T) storetest.Database {
		db, direct := open(t)
		explainAll(t, db)
		through := parse(t, direct)
		through.Host = pooler.Host
		return conformant(t, Config{URL: through.String(), DirectURL: direct}, plans.watch)
	})
	plans.check(t)
}

// explainAll makes the sessions of a database send the plan of each statement as
// a notice.
func explainAll(t *testing.T, db *DB) {
	t.Helper()
	for _, setting := range []string{
		"session_preload_libraries = 'auto_explain'", "auto_explain.log_min_duration = 0",
		"auto_explain.log_level = notice", "auto_explain.log_format = json",
	} {
		exec(t, db, fmt.Sprintf(`do $$ begin execute format('alter database %%I set %s', current_database()); end $$`, strings.ReplaceAll(setting, "'", "''")))
	}
}

// planLog collects the plans that statements were run with.
type planLog struct {
	mu    sync.Mutex
	names map[string]string          // of statements, by SQL
	seen  map[string]map[string]plan // by name, then by the plan as JSON
	runs  int
}

func newPlanLog() *planLog {
	l := &planLog{names: map[string]string{}, seen: map[string]map[string]plan{}}
	for _, s := range statements(dayOf(time.Now())) {
		l.names[strings.TrimSpace(s.sql)] = s.name
	}
	return l
}

// watch gives a handle pools that tell of plans.
func (l *planLog) watch(t *testing.T, db *DB) {
	for _, p := range db.all() {
		config := p.conns.Config()
		config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { l.note(n.Message) }
		conns, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
		if err != nil {
			t.Fatal(err)
		}
		p.conns.Close()
		p.conns = conns
	}
}

func (l *planLog) note(message string) {
	_, text, ok := strings.Cut(message, "plan:\n")
	if !ok {
		return
	}
	var explained struct {
		Query string `json:"Query Text"`
		Plan  plan
	}
	if err := json.Unmarshal([]byte(text), &explained); err != nil {
		return // check misses it
	}
	key, err := json.Marshal(explained.Plan)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	name := l.names[strings.TrimSpace(explained.Query)]
	if !slices.Contains(hot, name) {
		return
	}
	l.runs++
	if l.seen[name] == nil {
		l.seen[name] = map[string]plan{}
	}
	l.seen[name][string(key)] = explained.Plan
}

func (l *planLog) check(t *testing.T) {
	t.Helper()
	distinct := 0
	for _, name := range hot {
		if len(l.seen[name]) == 0 {
			t.Errorf("%s: no plan was seen", name)
		}
		for _, p := range l.seen[name] {
			checkPlan(t, name, p)
			distinct++
		}
	}
	t.Logf("%d plans of %d hot statements, %d of them different", l.runs, len(l.seen), distinct)
}

// TestSettingsThroughPooler: they hold within a transaction, and the sessions of
// the pooler keep nothing of them: no setting, no prepared statement.
func TestSettingsThroughPooler(t *testing.T) {
	c := throughPooler(t)
	db := connectWith(t, c)
	w := newWay(t, db, 3)
	for range 3 {
		w.batch(t)
	}
	tx, err := db.side.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	for name, want := range map[string]string{
		"synchronous_commit": "on", "transaction_isolation": "read committed", "plan_cache_mode": "force_generic_plan",
		"idle_in_transaction_session_timeout": "5s", "application_name": "posthaste", "enable_seqscan": "off",
	} {
		for _, q := range []querier{db.hot, db.side, tx} {
			var got string
			if err := q.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&got); err != nil || got != want {
				t.Errorf("%s = %q, want %q; %v", name, got, want, err)
			}
		}
	}
	bare, err := pgx.ParseConfig(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	bare.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), bare)
	if err != nil {
		t.Fatal(err)
	}
	defer hangUp(t.Context(), conn)
	var seqscan, commit string
	var prepared int
	const look = `select current_setting('enable_seqscan'), current_setting('synchronous_commit'), (select count(*) from pg_prepared_statements where name <> '')`
	if err := conn.QueryRow(t.Context(), look).Scan(&seqscan, &commit, &prepared); err != nil || seqscan != "on" || commit != "off" || prepared != 0 {
		t.Errorf("left in a session of the pooler: enable_seqscan %s, synchronous_commit %s, %d prepared statements; %v", seqscan, commit, prepared, err)
	}
}

// TestErrorsThroughPooler: a statement that fails fails as it does elsewhere, its
// transaction is undone, and its connection goes on.
func TestErrorsThroughPooler(t *testing.T) {
	db := connectWith(t, throughPooler(t))
	connections := func() int64 { return db.side.conns.Stat().NewConnsCount() }
	newEndpoint(t, db)
	before := connections()
	for range 5 {
		var n int
		if err := db.side.QueryRow(t.Context(), "select 1 / $1::int4", 0).Scan(&n); !hasState(err, "22012") {
			t.Errorf("query: %v, want a division by zero", err)
		}
		batch := &pgx.Batch{}
		batch.Queue("insert into settings (name, value) values ('half', '')")
		batch.Queue("select 1 / $1::int4", 0)
		if err := db.side.Run(t.Context(), batch); !hasState(err, "22012") || errors.Is(fail("try", err), store.ErrUnavailable) {
			t.Errorf("batch: %v, want a division by zero", err)
		}
		if _, err := db.side.Exec(t.Context(), "insert into settings (name, value) values ($1, null)", "x"); !hasState(err, "23502") {
			t.Errorf("exec: %v, want a violation of not null", err)
		}
		if err := db.side.QueryRow(t.Context(), "select 1 where $1", false).Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
			t.Errorf("no row: %v", err)
		}
		if _, err := db.Setting(t.Context(), "half"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("half of a batch is there: %v", err)
		}
	}
	if after := connections(); after > before+1 {
		t.Errorf("%d connections were made anew", after-before)
	}
}

func TestPoolerWithoutDirectURL(t *testing.T) {
	c := throughPooler(t)
	_, err := Open(t.Context(), Config{URL: c.URL})
	wantPoolerHint(t, err)
	db := connectWith(t, Config{URL: c.DirectURL, DirectURL: c.URL}) // the wrong way round
	wantPoolerHint(t, db.Migrate(t.Context()))
	_, err = db.Register(t.Context(), named)
	wantPoolerHint(t, err)
}

func wantPoolerHint(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*posthaste.Error](err)
	if errors.Is(err, store.ErrUnavailable) || !ok || !strings.Contains(e.Hint, "--db-direct") {
		t.Errorf("error %v, want one that no waiting cures, with a hint at --db-direct", err)
	}
}

func parse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
