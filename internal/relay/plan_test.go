package relay

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/outbox"
)

// Plans are made once, on a table that is empty more often than not, and stay: none may read
// rows that it does not want.
func TestPlansOnAnEmptyOutbox(t *testing.T) {
	b, err := newPostgresBox(testdb.Postgres(t), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), b.config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.PgConn().Exec(t.Context(), outbox.PostgresSQL()).ReadAll(); err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]struct {
		sql, index string
		args       []any
	}{
		"rows without a key": {claimFreeSQL, "Index Scan using outbox_pkey on outbox", []any{500, int64(1), []int64{}, int64(0)}},
		"keys":               {claimKeysSQL, "Index Scan using outbox_ordered on outbox", []any{250, lockKeys}},
		"rows of keys":       {claimOrderedSQL, "Index Scan using outbox_ordered on outbox", []any{250, int64(1), []int64{}, []int32{1}}},
		"delete":             {deleteSQL, "Index Scan using outbox_pkey on outbox", []any{[]int64{1}}},
	} {
		rows, err := conn.Query(t.Context(), "explain "+q.sql, q.args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		plan := strings.Join(lines, "\n")
		if !strings.Contains(plan, q.index) || strings.Contains(plan, "Seq Scan on outbox") {
			t.Errorf("%s: want %s in\n%s", name, q.index, plan)
		}
	}
}
