package postgres

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/posthaste-dev/posthaste"
)

func TestDumpPlans(t *testing.T) {
	db, _ := open(t)
	if os.Getenv("FILL") != "" {
		fill(t, db, 100000)
	}
	if os.Getenv("ANALYZE") != "" {
		exec(t, db, "vacuum analyze")
	}
	conn := session(t, db)
	for _, s := range statements(dayOf(time.Now())) {
		fmt.Println("=====", s.name)
		for _, l := range planText(t, conn, s) {
			fmt.Println(l)
		}
	}
}

func planText(t *testing.T, conn *pgx.Conn, s statement) []string {
	d, err := conn.Prepare(t.Context(), s.name, s.sql)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), "explain execute "+pgx.Identifier{s.name}.Sanitize()+planArgs(d.ParamOIDs), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		fmt.Println(s.name, err)
	}
	return lines
}

func planArgs(oids []uint32) string {
	if len(oids) == 0 {
		return ""
	}
	args := make([]string, len(oids))
	for i, oid := range oids {
		switch oid {
		case pgtype.UUIDOID:
			args[i] = "'" + uuidText(posthaste.FloorID(time.Now())) + "'"
		default:
			args[i] = "null"
		}
	}
	return "(" + strings.Join(args, ",") + ")"
}

func fill(tb testing.TB, db *DB, n int) {
	tb.Helper()
	now := time.Time(dayOf(time.Now())).Add(12 * time.Hour)
	for _, sql := range []string{
		`insert into idempotency (namespace, tenant, key, sum, event) select 1, 1, md5(g::text)::uuid, md5(g::text)::uuid, ` + nthEvent + ` from generate_series(1, $2) g`,
		`insert into events (id, tenant, fan_out, type, source, payload) select ` + nthEvent + `, 1, 1, 'invoice.paid', 'api', '{}' from generate_series(1, $2) g`,
		`insert into deliveries (id, tenant, endpoint, state, attempts, due_at) select ` + nthDelivery + `, 1, 1 + g % 50, case when g % 10 = 0 then 0 when g % 10 = 1 then 2 else 1 end, 1, case when g % 10 = 0 then g else 0 end from generate_series(1, $2) g`,
		`insert into attempts (delivery, number, started_at, outcome) select ` + nthDelivery + `, 1, 1, 1 from generate_series(1, $2) g`,
		`insert into due (endpoint, due_at, delivery) select endpoint, due_at, id from deliveries where state = 0 and $1::text is not null and $2::int > 0`,
		`insert into dead (tenant, endpoint, delivery) select tenant, endpoint, id from deliveries where state = 2 and $1::text is not null and $2::int > 0`,
	} {
		exec(tb, db, sql, uuidText(posthaste.FloorID(now))[:8]+"", n)
	}
}

const (
	nthEvent    = `($1::text || lpad(to_hex(g / 4096), 4, '0') || '7' || lpad(to_hex(g % 4096), 3, '0') || '8000000000000000')::uuid`
	nthDelivery = `($1::text || lpad(to_hex(g / 4096), 4, '0') || '7' || lpad(to_hex(g % 4096), 3, '0') || '8000000000000001')::uuid`
)

var _ = json.Marshal
