package postgres

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/posthaste-dev/posthaste"
)

// hot are the statements whose plans are held to the rules of plan.go.
var hot = []string{
	"accept", "acceptCareful", "acceptOrdered", "existing", "eventOfKey", "mine", "claim", "claimEndpoint", "claimFresh", "claimRun", "gates", "changedGates", "load", "settle", "delivered", "lockDue", "lockDeliveries", "endLate", "revoke", "skip",
	"owned", "ownedDue", "born", "claimed", "freeDue", "dueEndpoints", "endDeleted", "endExpired",
	"stranded", "repairOwned", "repairUnowned", "verifyDeliveries", "replay", "resend", "event", "attempts", "delivery",
	"changes", "describe", "purgeChanges",
	"listEvents", "listAll", "listByTenant", "listByEvent", "listByEndpoint", "listDead", "listDeadByEndpoint",
}

// walks read due from its start to its end, by its key: what an epoch owns there
// has no index. Rows of due are few, and those that a walk locks are its own.
var walks = []string{"claimed", "freeDue", "dueEndpoints", "purgeChanges"}

// TestHotPlans looks at the generic plan of each hot statement as it is made in a
// database that is empty, that was analysed while it was empty, that grew without ever
// having been analysed, and that is large and analysed.
func TestHotPlans(t *testing.T) {
	for _, state := range []struct {
		name    string
		rows    int
		analyse bool
	}{
		{"empty", 0, false}, {"empty, analysed", 0, true}, {"large, never analysed", 50_000, false}, {"large, analysed", 50_000, true},
	} {
		t.Run(state.name, func(t *testing.T) {
			db, _ := open(t)
			// Else autovacuum would analyse in the middle of it.
			for _, table := range []string{"due", "dead", "idempotency"} {
				exec(t, db, "alter table "+table+" set (autovacuum_enabled = off)")
			}
			fill(t, db, state.rows)
			if state.analyse {
				exec(t, db, "vacuum analyze")
			}
			conn := session(t, db)
			for _, s := range statements(dayOf(time.Now())) {
				if slices.Contains(hot, s.name) {
					checkPlan(t, s.name, explain(t, conn, s))
				}
			}
		})
	}
}

// plan is a node of what explain (format json) prints.
type plan struct {
	Type      string `json:"Node Type"`
	Relation  string `json:"Relation Name"`
	Index     string `json:"Index Name"`
	IndexCond string `json:"Index Cond"`
	Parent    string `json:"Parent Relationship"`
	CTE       string `json:"CTE Name"`
	GroupKey  []any  `json:"Group Key"`
	Plans     []plan `json:"Plans"`
}

var bigTables = regexp.MustCompile(`^(events|deliveries|attempts)(_\d{8})?$|^(due|dead|idempotency|gates|changes)$`)

func checkPlan(t *testing.T, name string, p plan) {
	t.Helper()
	if bigTables.MatchString(p.Relation) {
		switch {
		case p.Type == "Seq Scan":
			t.Errorf("%s: sequential scan of %s", name, p.Relation)
		case p.Index != "" && !slices.Contains(walks, name) && !strings.Contains(p.IndexCond, leading(p.Index)):
			t.Errorf("%s: %s of %s by %s on %q, not by its first column", name, p.Type, p.Relation, p.Index, p.IndexCond)
		}
	}
	if p.Type == "Hash Join" || p.Type == "Merge Join" {
		t.Errorf("%s: a %s", name, p.Type)
	}
	if p.Type == "Nested Loop" {
		sides := slices.DeleteFunc(slices.Clone(p.Plans), func(c plan) bool { return c.Parent == "InitPlan" || c.Parent == "SubPlan" })
		outer, inner := sides[0], sides[1]
		oneRow := outer.Type == "Result" || outer.Type == "Aggregate" && len(outer.GroupKey) == 0
		if !oneRow && isList(inner) {
			t.Errorf("%s: a nested loop over the whole of a list (%s of %s) for each row of a %s of %s%s",
				name, inner.Type, inner.CTE, outer.Type, outer.CTE, outer.Relation)
		}
	}
	for _, child := range p.Plans {
		checkPlan(t, name, child)
	}
}

// isList reports whether a node gives the same rows each time it is begun anew.
func isList(p plan) bool {
	switch p.Type {
	case "CTE Scan", "Function Scan", "Materialize":
		return true
	case "Append", "Result", "Subquery Scan", "Limit":
		return slices.ContainsFunc(p.Plans, func(c plan) bool { return c.Parent != "InitPlan" && isList(c) })
	}
	return false
}

// leading returns the first column of an index by its name.
func leading(index string) string {
	for prefix, column := range map[string]string{
		"events": "tenant", "deliveries": "(id ", "attempts": "delivery", "due": "endpoint", "dead": "tenant", "idempotency": "namespace",
		"gates": "endpoint", "changed": "changed_at",
		"changes": "xid",
	} {
		if strings.HasPrefix(index, prefix) {
			if strings.Contains(index, "endpoint") {
				return "endpoint"
			}
			return column
		}
	}
	return "?"
}

// explain returns the generic plan of a statement. What it prints of partitions
// is what is left of them for ids of today.
func explain(t *testing.T, conn *pgx.Conn, s statement) plan {
	t.Helper()
	d, err := conn.Prepare(t.Context(), s.name, s.sql)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	args := make([]string, len(d.ParamOIDs))
	for i, oid := range d.ParamOIDs {
		args[i] = "null"
		if oid == pgtype.UUIDOID {
			args[i] = "'" + uuidText(dayOf(time.Now()).floor()) + "'"
		}
	}
	call := "explain (format json) execute " + pgx.Identifier{s.name}.Sanitize()
	if len(args) > 0 {
		call += "(" + strings.Join(args, ", ") + ")"
	}
	var raw []byte
	if err := conn.QueryRow(t.Context(), call, pgx.QueryExecModeSimpleProtocol).Scan(&raw); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(raw, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan
}

// fill stores n events of today with one delivery each: a tenth waits, a tenth
// is dead, the rest is delivered, at 50 endpoints.
func fill(tb testing.TB, db *DB, n int) {
	tb.Helper()
	noon := time.Time(dayOf(time.Now())).Add(12 * time.Hour)
	prefix := uuidText(posthaste.FloorID(noon))[:8] // a minute of the day
	id := func(number int) string {
		return fmt.Sprintf(`('%s' || lpad(to_hex(g / 4096), 4, '0') || '7' || lpad(to_hex(g %% 4096), 3, '0') || '80000000000%05x')::uuid`, prefix, number)
	}
	series := fmt.Sprintf(` from generate_series(1, %d) g`, n)
	for _, sql := range []string{
		`insert into idempotency (namespace, tenant, key, sum, event) select 1, 1, md5(g::text)::uuid, md5(g::text)::uuid, ` + id(0) + series,
		`insert into events (id, tenant, fan_out, type, source, payload) select ` + id(0) + `, 1, 1, 'invoice.paid', 'api', '{}'` + series,
		`insert into deliveries (id, tenant, endpoint, state, attempts, due_at, reason)
			select ` + id(1) + `, 1, 1 + g % 50, (array[0, 2, 1, 1, 1, 1, 1, 1, 1, 1])[1 + g % 10], sign(g % 10), case g % 10 when 0 then g else 0 end,
			case g % 10 when 1 then 1 else 0 end` + series,
		`insert into attempts (delivery, number, started_at, outcome) select ` + id(1) + `, 1, g, 1` + series + ` where g % 10 > 0`,
		`insert into due (endpoint, due_at, delivery) select endpoint, due_at, id from deliveries where state = 0`,
		`insert into dead (tenant, endpoint, delivery) select tenant, endpoint, id from deliveries where state = 2`,
		`insert into changes (xid, at, kind, tenants, ids) select g, 0, 2, array[1], array[` + id(1) + `]` + series,
	} {
		exec(tb, db, sql)
	}
}
