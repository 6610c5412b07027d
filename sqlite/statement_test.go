package sqlite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// statements finds the constants of this package that hold a statement, which
// are those with names that begin with sql, in its source: so none is forgotten.
func statements(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]ast.Expr{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, name := range spec.Names {
					constants[name.Name] = spec.Values[i]
				}
			}
			return true
		})
	}
	out := map[string]string{}
	for name, expr := range constants {
		if strings.HasPrefix(name, "sql") {
			out[name] = text(t, constants, expr)
		}
	}
	if len(out) < 80 {
		t.Fatalf("found %d statements; there are more", len(out))
	}
	return out
}

// text evaluates a constant string.
func text(t *testing.T, constants map[string]ast.Expr, e ast.Expr) string {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		return s
	case *ast.Ident:
		return text(t, constants, constants[e.Name])
	case *ast.BinaryExpr:
		return text(t, constants, e.X) + text(t, constants, e.Y)
	}
	t.Fatalf("a statement is made of a %T", e)
	return ""
}

func TestEveryStatementPrepares(t *testing.T) {
	db := openTest(t, Config{})
	for name, query := range statements(t) {
		err := db.writer.doBare(t.Context(), func(c *conn) error {
			_, err := c.Prepare(query)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// growing are the tables that a query must never read from end to end, nor sort
// what it finds in them.
var growing = regexp.MustCompile(`SCAN (e|d|u|x|f|a|events|deliveries|attempts|due|dead|idempotency)\b|TEMP B-TREE|AUTOMATIC`)

// TestPlans looks at the plan of every statement on a database that was never
// analysed, empty and with rows in it: the plans must not depend on luck.
func TestPlans(t *testing.T) {
	db := openTest(t, Config{})
	check := func(when string) {
		for name, query := range statements(t) {
			if !strings.HasPrefix(query, "SELECT") && !strings.HasPrefix(query, "UPDATE") && !strings.HasPrefix(query, "DELETE") && !strings.HasPrefix(query, "INSERT") {
				continue
			}
			for _, step := range plan(t, db, query) {
				if growing.MatchString(step) {
					t.Errorf("%s, %s: %s\n%s", name, when, step, query)
				}
			}
		}
	}
	check("empty")
	w := newWork(t, db)
	for range 20 {
		w.round(t, 100)
	}
	check("with rows")
}

// TestHotPlans names the index that each statement of the way of an event must use.
func TestHotPlans(t *testing.T) {
	db := openTest(t, Config{})
	for query, want := range map[string]string{
		sqlMove:         "SEARCH deliveries USING PRIMARY KEY (id=?)",
		sqlStanding:     "SEARCH deliveries USING PRIMARY KEY (id=?)",
		sqlReadDue:      "SEARCH u USING PRIMARY KEY (endpoint=? AND (due_at,delivery)>(?,?) AND due_at<?)",
		sqlDeleteDue:    "SEARCH due USING PRIMARY KEY (endpoint=? AND due_at=? AND delivery=?)",
		sqlOwnDue:       "SEARCH due USING PRIMARY KEY (endpoint=? AND due_at=? AND delivery=?)",
		sqlKeyHolder:    "SEARCH idempotency USING PRIMARY KEY (key=? AND namespace=? AND tenant=?)",
		sqlLoad:         "SEARCH events USING INDEX sqlite_autoindex_events_1 (tenant=? AND id=?)",
		sqlOwned:        "SEARCH deliveries USING PRIMARY KEY (id>? AND id<?)",
		sqlOwnedDue:     "SEARCH due USING PRIMARY KEY ((endpoint,due_at,delivery)>(?,?,?))",
		sqlNextEndpoint: "SEARCH due USING PRIMARY KEY (endpoint>?)",
		sqlWalkEndpoint: "SEARCH deliveries USING COVERING INDEX deliveries_endpoint (endpoint=? AND id>? AND id<?)",
		sqlOldEvents:    "SEARCH events USING COVERING INDEX sqlite_autoindex_events_1 (tenant=? AND id>? AND id<?)",
		sqlWalkKeys:     "SEARCH idempotency USING PRIMARY KEY ((key,namespace,tenant)>(?,?,?))",
	} {
		if got := plan(t, db, query); len(got) == 0 || got[0] != want {
			t.Errorf("plan %q, want first %q, of\n%s", got, want, query)
		}
	}
}

func plan(t *testing.T, db *DB, query string) (steps []string) {
	t.Helper()
	err := db.writer.doBare(t.Context(), func(c *conn) error {
		for r, err := range c.rows("EXPLAIN QUERY PLAN " + query) {
			if err != nil {
				return err
			}
			steps = append(steps, r.ColumnText(3))
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v: %s", err, query)
	}
	return steps
}
