package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql's "pgx"
	_ "modernc.org/sqlite"             // database/sql's "sqlite"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/outbox"
)

// row is what a test looks at of a row.
type row struct {
	ID                                                     string
	Tenant, Type, OrderKey, IdempotencyKey, Content, Extra string
	Payload                                                string
}

const rowsOnPostgres = `select row_id::text, tenant, type, coalesce(order_key, ''), coalesce(idempotency_key, ''), content_type, headers::text, payload
from posthaste.outbox order by id`

const rowsOnSQLite = `select lower(hex(row_id)), tenant, type, coalesce(order_key, ''), coalesce(idempotency_key, ''), content_type, headers, payload
from posthaste_outbox order by id`

// installed makes a PostgreSQL database with an outbox in it.
func installed(t *testing.T) string {
	t.Helper()
	db := testdb.Postgres(t)
	conn := connect(t, db)
	install(t, conn)
	return db
}

func install(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), "begin;"+outbox.PostgresSQL()+"commit").ReadAll(); err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func openSQL(t *testing.T, driver, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// doors are the ways in: each runs f in a transaction and commits it unless f fails.
func doors(t *testing.T) map[string]struct {
	within func(f func(tx any) error) error
	rows   func() []row
} {
	t.Helper()
	pgxURL, sqlURL, file := installed(t), installed(t), testdb.SQLite(t)
	conn, viaSQL, lite := connect(t, pgxURL), openSQL(t, "pgx", sqlURL), openSQL(t, "sqlite", file)
	if _, err := lite.ExecContext(t.Context(), outbox.SQLiteSQL()); err != nil {
		t.Fatal(err)
	}
	inSQL := func(db *sql.DB) func(func(any) error) error {
		return func(f func(any) error) error {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				return err
			}
			if err := f(tx); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		}
	}
	type door = struct {
		within func(f func(tx any) error) error
		rows   func() []row
	}
	return map[string]door{
		"pgx": {
			within: func(f func(any) error) error {
				return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return f(tx) })
			},
			rows: func() []row { return rowsOf(t, openSQL(t, "pgx", pgxURL), rowsOnPostgres) },
		},
		"database/sql on PostgreSQL": {within: inSQL(viaSQL), rows: func() []row { return rowsOf(t, viaSQL, rowsOnPostgres) }},
		"database/sql on SQLite":     {within: inSQL(lite), rows: func() []row { return rowsOf(t, lite, rowsOnSQLite) }},
	}
}

func rowsOf(t *testing.T, db *sql.DB, query string) (out []row) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r row
		var payload []byte
		if err := rows.Scan(&r.ID, &r.Tenant, &r.Type, &r.OrderKey, &r.IdempotencyKey, &r.Content, &r.Extra, &payload); err != nil {
			t.Fatal(err)
		}
		r.ID, r.Payload = strings.ReplaceAll(r.ID, "-", ""), string(payload)
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEnqueueGoesWithItsTransaction(t *testing.T) {
	for name, door := range doors(t) {
		t.Run(name, func(t *testing.T) {
			odd := outbox.Event{
				Type: "a.b/c:d-e_f", Tenant: "acme", OrderKey: `key "1"\, ö`, IdempotencyKey: "k{},", ContentType: "text/plain",
				Headers: map[string]string{"X-Trace": `a"b\`}, Payload: []byte{0, 1, '\\', 0xff, '"'},
			}
			var ids []outbox.ID
			err := door.within(func(tx any) error {
				one, err := outbox.Enqueue(t.Context(), tx, outbox.Event{Type: "one"})
				if err != nil {
					return err
				}
				more, err := outbox.EnqueueAll(t.Context(), tx, []outbox.Event{odd, {Type: "three", Payload: []byte("{}")}})
				ids = append([]outbox.ID{one}, more...)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			undo := errors.New("undo")
			err = door.within(func(tx any) error {
				if _, err := outbox.Enqueue(t.Context(), tx, odd); err != nil {
					return err
				}
				return undo
			})
			if !errors.Is(err, undo) {
				t.Fatal(err)
			}
			plain := strings.NewReplacer("-", "")
			want := []row{
				{ID: plain.Replace(ids[0].String()), Tenant: "default", Type: "one", Content: "application/json", Extra: "{}"},
				{
					ID: plain.Replace(ids[1].String()), Tenant: "acme", Type: odd.Type, OrderKey: odd.OrderKey, IdempotencyKey: odd.IdempotencyKey,
					Content: "text/plain", Extra: `{"X-Trace":"a\"b\\"}`, Payload: string(odd.Payload),
				},
				{ID: plain.Replace(ids[2].String()), Tenant: "default", Type: "three", Content: "application/json", Extra: "{}", Payload: "{}"},
			}
			got := door.rows()
			for i := range got {
				got[i].Extra = strings.ReplaceAll(got[i].Extra, `": "`, `":"`) // as jsonb prints it
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEnqueueFindsMistakesBeforeTheTransactionIsTouched(t *testing.T) {
	for name, door := range doors(t) {
		t.Run(name, func(t *testing.T) {
			err := door.within(func(tx any) error {
				for _, e := range []outbox.Event{
					{Type: ""}, {Type: "a b"}, {Type: "a", Tenant: "-"}, {Type: "a", OrderKey: strings.Repeat("k", 256)},
					{Type: "a", IdempotencyKey: strings.Repeat("k", 256)}, {Type: "a", ContentType: strings.Repeat("k", 256)},
					{Type: "a", OrderKey: "a\x00"}, {Type: "a", IdempotencyKey: "\xff"}, {Type: "a", Headers: map[string]string{"X": "\x00"}},
				} {
					if _, err := outbox.Enqueue(t.Context(), tx, e); posthaste.CodeOf(err) != posthaste.CodeInvalid {
						t.Errorf("%+v: %v", e, err)
					}
				}
				_, err := outbox.Enqueue(t.Context(), tx, outbox.Event{Type: "good"})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := door.rows(); len(got) != 1 {
				t.Errorf("%d rows", len(got))
			}
		})
	}
}

func TestEnqueueRefusesWhatIsNoTransaction(t *testing.T) {
	if _, err := outbox.Enqueue(t.Context(), openSQL(t, "sqlite", testdb.SQLite(t)), outbox.Event{Type: "a"}); err == nil {
		t.Error("enqueued without a transaction")
	}
}

func TestEnqueueSaysWhatTheDatabaseSays(t *testing.T) {
	conn := connect(t, testdb.Postgres(t)) // nothing is installed
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = outbox.Enqueue(t.Context(), tx, outbox.Event{Type: "a"})
	if answer, ok := errors.AsType[*pgconn.PgError](err); !ok || answer.Code != "3F000" {
		t.Errorf("%v", err)
	}
	lite, err := openSQL(t, "sqlite", testdb.SQLite(t)).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = outbox.Enqueue(t.Context(), lite, outbox.Event{Type: "a"}); err == nil || !strings.Contains(err.Error(), "posthaste_outbox") {
		t.Errorf("%v", err)
	}
	_ = lite.Rollback()
}

func TestSavepointsAreHonoured(t *testing.T) {
	db := installed(t)
	conn := connect(t, db)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	enqueue := func(tx pgx.Tx, eventType string) {
		if _, err := outbox.Enqueue(t.Context(), tx, outbox.Event{Type: eventType, OrderKey: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	enqueue(tx, "kept.1")
	inner, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	enqueue(inner, "undone")
	if err := inner.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	enqueue(tx, "kept.2")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, r := range rowsOf(t, openSQL(t, "pgx", db), rowsOnPostgres) {
		types = append(types, r.Type)
	}
	if fmt.Sprint(types) != "[kept.1 kept.2]" {
		t.Errorf("%v", types)
	}
}

func TestDatabaseRefusesMistakes(t *testing.T) {
	conn := connect(t, installed(t))
	for _, c := range []struct{ call, message string }{
		{`select posthaste.enqueue('a b', '')`, "type: want "},
		{`select posthaste.enqueue(repeat('a', 129), '')`, "type: want "},
		{`select posthaste.enqueue('a', '', tenant => '-x')`, "tenant: want "},
		{`select posthaste.enqueue('a', '', order_key => '')`, "order_key: want "},
		{`select posthaste.enqueue('a', '', idempotency_key => repeat('a', 256))`, "idempotency_key: want "},
		{`select posthaste.enqueue('a', '', content_type => E'a\nb')`, "content_type: want "},
		{`select posthaste.enqueue(null, '')`, "type: want "},
		{`select posthaste.enqueue('a', null)`, "payload: is null"},
		{`select posthaste.enqueue_all('{a,b c}', '{x,y}')`, "enqueue_all: event 2, type: want "},
		{`select posthaste.enqueue_all('{a,b}', '{x}')`, "event 2, payload: is null"},
		{`select posthaste.enqueue('a', '', headers => '[]')`, "headers: want "},
		{`select posthaste.enqueue('a', '', headers => '{"a":1}')`, "headers: want "},
	} {
		_, err := conn.Exec(t.Context(), c.call)
		answer, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || answer.Code != "23514" || !strings.Contains(answer.Message, c.message) {
			t.Errorf("%s: %v", c.call, err)
		}
	}
	lite := openSQL(t, "sqlite", testdb.SQLite(t))
	if _, err := lite.ExecContext(t.Context(), outbox.SQLiteSQL()); err != nil {
		t.Fatal(err)
	}
	for _, values := range []string{`('a b', '', '{}')`, `('', '', '{}')`, `('a', '', '[]')`, `('a', '', 'x')`, `('a', NULL, '{}')`} {
		if _, err := lite.ExecContext(t.Context(), `insert into posthaste_outbox (type, payload, headers) values `+values); err == nil {
			t.Errorf("%s is taken", values)
		}
	}
}

func TestInstallIsIdempotentAndMinds(t *testing.T) {
	db := installed(t)
	conn := connect(t, db)
	if _, err := conn.Exec(t.Context(), `select posthaste.enqueue('kept', '')`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for range 3 { // together
		c := connect(t, db)
		go func() {
			_, err := c.PgConn().Exec(t.Context(), "begin;"+outbox.PostgresSQL()+"commit").ReadAll()
			done <- err
		}()
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := rowsOf(t, openSQL(t, "pgx", db), rowsOnPostgres); len(got) != 1 {
		t.Errorf("%d rows", len(got))
	}
	if _, err := conn.Exec(t.Context(), `insert into posthaste.outbox_schema values (2)`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PgConn().Exec(t.Context(), "begin;"+outbox.PostgresSQL()+"commit").ReadAll(); err == nil {
		t.Error("a newer version was installed over")
	}
}

// as makes a role that logs in and has been granted another, and connects as it.
func as(t *testing.T, db, granted string) *pgx.Conn {
	t.Helper()
	admin := connect(t, db)
	name := "test_" + strings.ToLower(granted) + fmt.Sprint(time.Now().UnixNano())
	if _, err := admin.Exec(t.Context(), fmt.Sprintf(`create role %s login password 'secret' in role %s`, name, granted)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if conn, err := pgx.Connect(ctx, db); err == nil {
			_, _ = conn.Exec(ctx, `drop owned by `+name+`; drop role `+name)
			_ = conn.Close(ctx)
		}
	})
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "secret")
	return connect(t, u.String())
}

func TestApplicationMayEnqueueAndNothingElse(t *testing.T) {
	db := installed(t)
	app := as(t, db, "posthaste_outbox_app")
	for _, allowed := range []string{
		`select posthaste.enqueue('a', '')`, `select posthaste.enqueue_all('{a,b}', '{x,y}', order_keys => '{k,null}')`,
	} {
		if _, err := app.Exec(t.Context(), allowed); err != nil {
			t.Errorf("%s: %v", allowed, err)
		}
	}
	for _, refused := range []string{
		`select from posthaste.outbox`, `insert into posthaste.outbox (type, payload) values ('a', '')`, `delete from posthaste.outbox`,
		`select from posthaste.outbox_parked`, `create table posthaste.mine ()`, `select setval('posthaste.outbox_asleep', 1)`,
	} {
		_, err := app.Exec(t.Context(), refused)
		if answer, ok := errors.AsType[*pgconn.PgError](err); !ok || answer.Code != "42501" {
			t.Errorf("%s: %v", refused, err)
		}
	}
	relay := as(t, db, "posthaste_outbox_relay")
	_, err := relay.Exec(t.Context(), `select posthaste.enqueue('a', '')`)
	if answer, ok := errors.AsType[*pgconn.PgError](err); !ok || answer.Code != "42501" {
		t.Errorf("a relay enqueues: %v", err)
	}
}

func TestWritersOfOneKeyWaitForEachOther(t *testing.T) {
	db := installed(t)
	first, second, third := connect(t, db), connect(t, db), connect(t, db)
	for _, c := range []*pgx.Conn{first, second, third} {
		if _, err := c.Exec(t.Context(), `set lock_timeout = '200ms'; begin`); err != nil {
			t.Fatal(err)
		}
	}
	const call = `select posthaste.enqueue('a', '', order_key => $1)`
	if _, err := first.Exec(t.Context(), call, "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := third.Exec(t.Context(), call, "other"); err != nil {
		t.Errorf("another key waits: %v", err)
	}
	_, err := second.Exec(t.Context(), call, "k")
	if answer, ok := errors.AsType[*pgconn.PgError](err); !ok || answer.Code != "55P03" {
		t.Errorf("a writer of the same key does not wait: %v", err)
	}
}

func TestNotifyOnlyWhileARelayIsAsleep(t *testing.T) {
	db := installed(t)
	listener, app := connect(t, db), connect(t, db)
	if _, err := listener.Exec(t.Context(), `listen posthaste_outbox`); err != nil {
		t.Fatal(err)
	}
	// A transaction whose snapshot is older than the relay's sleep notifies as well.
	if _, err := app.Exec(t.Context(), `begin isolation level repeatable read; select 1`); err != nil {
		t.Fatal(err)
	}
	if _, err := listener.Exec(t.Context(), `select posthaste.enqueue('a', '')`); err != nil {
		t.Fatal(err)
	}
	heard := func(limit time.Duration) bool {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := listener.WaitForNotification(ctx)
		return err == nil
	}
	if heard(200 * time.Millisecond) {
		t.Error("notified although nobody sleeps")
	}
	listener = connect(t, db)
	if _, err := listener.Exec(t.Context(), `listen posthaste_outbox`); err != nil {
		t.Fatal(err)
	}
	if _, err := listener.Exec(t.Context(), `select setval('posthaste.outbox_asleep', 2)`); err != nil {
		t.Fatal(err)
	}
	if _, err := app.Exec(t.Context(), `select posthaste.enqueue('a', ''); commit`); err != nil {
		t.Fatal(err)
	}
	if !heard(10 * time.Second) {
		t.Error("not notified although a relay sleeps")
	}
}
