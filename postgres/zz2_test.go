package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestZZPlan(t *testing.T) {
	db, _ := open(t)
	fill(t, db, 300000)
	exec(t, db, "vacuum analyze")
	conn := session(t, db)
	for _, s := range statements(dayOf(time.Now())) {
		if s.name != "listDeadByEndpoint" && s.name != "listByEndpoint" {
			continue
		}
		conn.Prepare(t.Context(), s.name, s.sql)
		args := "(1, '00000000-0000-0000-0000-000000000000', 'ff000000-0000-0000-0000-000000000000','','dead',10000,51,2)"
		rows, _ := conn.Query(t.Context(), "explain (analyze) execute "+pgx.Identifier{s.name}.Sanitize()+args, pgx.QueryExecModeSimpleProtocol)
		l, err := pgx.CollectRows(rows, pgx.RowTo[string])
		fmt.Println(s.name, err)
		fmt.Println(strings.Join(l, "\n"))
	}
}
