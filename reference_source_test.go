package posthaste_test

import (
	"fmt"
	"go/ast"
	goconstant "go/constant"
	"go/token"
	"go/types"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
)

// What the reference says of the code is read from its source, as far as a name, a
// word or a number stands there: log lines, labels, codes, headers, limits.

// production returns the files that are in the program or in a package for users.
func production(t *testing.T) []source {
	t.Helper()
	return slices.DeleteFunc(parseTree(t), func(f source) bool {
		return f.isTest || listed(mayImportTesting, f.dir) || strings.HasPrefix(f.dir, "bench") ||
			strings.HasPrefix(f.dir, "internal/testdb") || strings.HasPrefix(f.dir, "examples")
	})
}

func in(files []source, dirs ...string) []source {
	return slices.DeleteFunc(slices.Clone(files), func(f source) bool { return !slices.Contains(dirs, f.dir) })
}

// inFunctions calls look with each node of each function, and the function.
func inFunctions(files []source, look func(source, *ast.FuncDecl, ast.Node)) {
	for _, f := range files {
		for _, decl := range f.ast.Decls {
			fn, isFunc := decl.(*ast.FuncDecl)
			if !isFunc {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if n != nil {
					look(f, fn, n)
				}
				return true
			})
		}
	}
}

// literal returns the value of a string literal.
func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// callee returns what a call calls: for p.log.Info its receiver and "Info", for a
// function nil and its name.
func callee(c *ast.CallExpr) (receiver ast.Expr, name string) {
	switch fun := c.Fun.(type) {
	case *ast.SelectorExpr:
		return fun.X, fun.Sel.Name
	case *ast.Ident:
		return nil, fun.Name
	}
	return nil, ""
}

type logLine struct {
	message string
	levels  []string
	fields  []string
}

// logMethods are those of slog.Logger that write a line, with the place of the message.
var logMethods = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1,
	"Log": 2, "LogAttrs": 2,
}

var (
	loggerName = regexp.MustCompile(`(?i)^log(ger)?$`)
	levelOrder = []string{"debug", "info", "warn", "error"}
)

// logLinesOf returns the lines that files log, by message.
func logLinesOf(t *testing.T, files []source) []logLine {
	t.Helper()
	found := map[string]*logLine{}
	inFunctions(files, func(f source, fn *ast.FuncDecl, n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return
		}
		receiver, method := callee(call)
		at, isLog := logMethods[method]
		if !isLog || receiver == nil || !loggerName.MatchString(lastName(receiver)) {
			return
		}
		if len(call.Args) <= at {
			t.Error(f.at(call.Pos(), "a log line without a message"))
			return
		}
		message, isLiteral := literal(call.Args[at])
		if !isLiteral {
			t.Error(f.at(call.Pos(), "the message of a log line is not a literal: nobody can search for it"))
			return
		}
		l := found[message]
		if l == nil {
			l = &logLine{message: message}
			found[message] = l
		}
		for _, level := range levelsOf(call, method, fn) {
			if !slices.Contains(l.levels, level) {
				l.levels = append(l.levels, level)
			}
		}
		for _, field := range fieldsOf(call, at+1, fn) {
			if !slices.Contains(l.fields, field) {
				l.fields = append(l.fields, field)
			}
		}
	})
	var lines []logLine
	for _, l := range found {
		slices.SortFunc(l.levels, func(a, b string) int { return slices.Index(levelOrder, a) - slices.Index(levelOrder, b) })
		lines = append(lines, *l)
	}
	slices.SortFunc(lines, func(a, b logLine) int { return strings.Compare(a.message, b.message) })
	return lines
}

// lastName is log of p.log, Logger of k.db.cfg.Logger, and slog of slog.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// levelsOf returns the level that a method is named after, or those that its
// function gives to the variable that says it.
func levelsOf(call *ast.CallExpr, method string, fn *ast.FuncDecl) (levels []string) {
	if !strings.HasPrefix(method, "Log") {
		return []string{strings.ToLower(strings.TrimSuffix(method, "Context"))}
	}
	level := call.Args[1]
	ast.Inspect(fn, func(n ast.Node) bool {
		if name, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(name.Sel.Name, "Level") && lastName(name.X) == "slog" {
			_, isVariable := level.(*ast.Ident)
			if isVariable || n == ast.Node(level) {
				levels = append(levels, strings.ToLower(strings.TrimPrefix(name.Sel.Name, "Level")))
			}
		}
		return true
	})
	return levels
}

// fieldsOf returns the names of a line's fields: the literals before values, and those of
// slog.String and its like, here or, where they are gathered first, in the function.
func fieldsOf(call *ast.CallExpr, from int, fn *ast.FuncDecl) (fields []string) {
	attrs := func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && len(c.Args) == 2 {
			if receiver, _ := callee(c); receiver != nil && lastName(receiver) == "slog" {
				if name, isLiteral := literal(c.Args[0]); isLiteral {
					fields = append(fields, name)
				}
			}
		}
		return true
	}
	if call.Ellipsis != token.NoPos {
		ast.Inspect(fn, attrs)
		return fields
	}
	for i := from; i < len(call.Args); i++ {
		if name, isLiteral := literal(call.Args[i]); isLiteral {
			fields = append(fields, name)
			i++ // its value
			continue
		}
		ast.Inspect(call.Args[i], attrs)
	}
	return fields
}

type metric struct {
	name, kind, help string
	labels, values   []string // values are in words, one text a label
}

// desc is how the registry describes it, up to the constant labels.
func (m metric) desc() string { return fmt.Sprintf("Desc{fqName: %q, help: %q,", m.name, m.help) }

func describe(r *prometheus.Registry, out chan<- fmt.Stringer) {
	descs := make(chan *prometheus.Desc)
	go func() { defer close(descs); r.Describe(descs) }()
	for d := range descs {
		out <- d
	}
}

// databaseName is what an outbox goes by.
const databaseName = "host and name of its database, or the file's name"

// openValues are the labels whose values are not words of ours.
var openValues = map[string]map[string]string{
	"posthaste_http_request_seconds": {
		"method": "that of the route, empty where no route matched", "route": "the route's pattern, such as `/v1/events/{id}`, or `none`",
		"status": "`2xx` to `5xx`",
	},
	"posthaste_inbound_requests_total": {
		"provider": "that of the source, or `none` where no source has the path",
		"result": "`stored`, `duplicate`, `handshake`, `ignored` (a wrong method, a probe), `rejected` (not verified), `unreadable`, `too_large`, " +
			"`unknown_source`, `unavailable` (our own failure)",
	},
	"posthaste_local_failures_total": {
		"lacking": "`file descriptors`, `memory`, `local addresses or ports`, `permission to connect`, `a working DNS resolver`",
	},
	"posthaste_outbox_rows_relayed_total": {"outbox": databaseName},
	"posthaste_outbox_rows_parked_total":  {"outbox": databaseName},
	"posthaste_outbox_rows_waiting":       {"outbox": databaseName},
	"posthaste_outbox_rows_parked":        {"outbox": databaseName},
	"posthaste_outbox_oldest_row_seconds": {"outbox": databaseName},
}

// metricsOf finds the metrics: those that telemetry's factory makes, and those that
// other packages make with prometheus.New….
func metricsOf(t *testing.T, files []source) (found []metric) {
	t.Helper()
	add := func(f source, m metric, field string) {
		m.name = "posthaste_" + m.name
		for i, label := range m.labels {
			text := openValues[m.name][label]
			if text == "" {
				text = code(labelValues(t, files, labelUse{field, i, label})...)
			}
			m.values = append(m.values, text)
		}
		if m.help == "" {
			t.Errorf("%s: %s has no help", f.path, m.name)
		}
		found = append(found, m)
	}
	inFunctions(files, func(f source, _ *ast.FuncDecl, n ast.Node) {
		switch n := n.(type) {
		case *ast.KeyValueExpr: // Accepted: f.counters("name", "help", "label"),
			call, ok := n.Value.(*ast.CallExpr)
			if !ok || f.dir != "internal/telemetry" {
				return
			}
			receiver, kind := callee(call)
			if receiver == nil || lastName(receiver) != "f" {
				return
			}
			m := metric{kind: strings.TrimSuffix(kind, "s")}
			m.name, _ = literal(call.Args[0])
			m.help, _ = literal(call.Args[1])
			for _, a := range call.Args[2:] {
				if label, isLiteral := literal(a); isLiteral {
					m.labels = append(m.labels, label)
				}
			}
			add(f, m, lastName(n.Key))
		case *ast.CallExpr:
			receiver, name := callee(n)
			if receiver == nil || lastName(receiver) != "prometheus" || f.dir == "internal/telemetry" || !strings.HasPrefix(name, "New") {
				return
			}
			m := metric{kind: strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "New"), "Vec"))}
			for _, a := range n.Args {
				readOptions(a, &m)
			}
			add(f, m, "")
		}
	})
	if len(found) < 20 {
		t.Errorf("only %d metrics were found", len(found))
	}
	return found
}

// readOptions reads a metric's options or its labels.
func readOptions(e ast.Expr, m *metric) {
	composite, ok := e.(*ast.CompositeLit)
	if !ok {
		return
	}
	for _, element := range composite.Elts {
		if label, isLiteral := literal(element); isLiteral {
			m.labels = append(m.labels, label)
		}
		if pair, isPair := element.(*ast.KeyValueExpr); isPair {
			switch value, _ := literal(pair.Value); lastName(pair.Key) {
			case "Name":
				m.name = value
			case "Help":
				m.help = value
			}
		}
	}
}

// labelUse is a label: of which field of telemetry.Metrics, and where among its labels.
type labelUse struct {
	field string
	place int
	label string
}

// labelValues returns the values that the code gives to a label, in the order in
// which they stand there.
func labelValues(t *testing.T, files []source, use labelUse) (values []string) {
	t.Helper()
	inFunctions(files, func(f source, fn *ast.FuncDecl, n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return
		}
		receiver, name := callee(call)
		if receiver == nil || name != "WithLabelValues" || lastName(receiver) != use.field {
			return
		}
		got := resolver{files, in(files, f.dir), use.label}.values(call.Args[use.place], fn)
		if len(got) == 0 {
			t.Error(f.at(call.Pos(), "the values of label %s could not be made out", use.label))
		}
		for _, v := range got {
			if !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
	})
	if len(values) == 0 {
		t.Errorf("label %s of %s has no values: is it never counted?", use.label, use.field)
	}
	return values
}

// resolver finds the words that an expression can be.
type resolver struct {
	all   []source
	files []source // of its package
	label string
}

func (r resolver) values(e ast.Expr, fn *ast.FuncDecl) []string {
	if s, isLiteral := literal(e); isLiteral {
		return []string{s}
	}
	switch e := e.(type) {
	case *ast.Ident:
		return append(r.assigned(e.Name, fn), r.passed(e.Name, fn)...)
	case *ast.SelectorExpr:
		return r.fields(e.Sel.Name)
	case *ast.CallExpr: // its String method
		return r.enumerated()
	}
	return nil
}

// enumerated returns the words of our own enumerations that can be values of a label:
// those whose constants the packages of an attempt name, and "" where there is none.
func (r resolver) enumerated() (words []string) {
	if r.label == "from_state" || r.label == "to_state" {
		for b := gate.Closed; b <= gate.HalfOpen; b++ {
			words = append(words, b.String())
		}
		return words
	}
	word := map[string]func(int64) string{
		"Outcome": func(i int64) string { return posthaste.Outcome(i).String() },
		"State":   func(i int64) string { return posthaste.State(i).String() },
		"Reason":  func(i int64) string { return posthaste.Reason(i).String() },
		"Cause":   func(i int64) string { return posthaste.Cause(i).String() },
	}
	prefix := strings.ToUpper(r.label[:1]) + r.label[1:]
	constants(in(r.all, "."), func(name string, value ast.Expr, _ string) {
		lit, isNumber := value.(*ast.BasicLit)
		if word[prefix] == nil || !strings.HasPrefix(name, prefix) || !isNumber {
			return
		}
		number, err := strconv.ParseInt(lit.Value, 10, 64)
		// A delivery that is pending has not finished, and an attempt that is lost has not ended.
		if err == nil && name != "StatePending" && !strings.HasSuffix(name, "Lost") && r.isNamed(name) {
			words = append(words, word[prefix](number))
		}
	})
	if len(words) > 0 && r.label != "outcome" && r.label != "state" && !slices.Contains(words, "") {
		words = append(words, "")
	}
	return words
}

// isNamed reports whether the code of an attempt names one of posthaste's constants.
func (r resolver) isNamed(constant string) (named bool) {
	for _, f := range in(r.all, "internal/pipeline", "internal/deliver", "internal/retry") {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if e, ok := n.(*ast.SelectorExpr); ok && e.Sel.Name == constant && lastName(e.X) == "posthaste" {
				named = true
			}
			return !named
		})
	}
	return named
}

// assigned finds what a function gives to a variable, or what it ranges over.
func (r resolver) assigned(name string, fn *ast.FuncDecl) (values []string) {
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if lastName(left) == name && len(n.Lhs) == len(n.Rhs) {
					values = append(values, r.values(n.Rhs[i], fn)...)
				}
			}
		case *ast.RangeStmt:
			over, isLiteral := n.X.(*ast.CompositeLit)
			if n.Key == nil || !isLiteral || lastName(n.Key) != name {
				return true
			}
			for _, element := range over.Elts {
				if pair, isPair := element.(*ast.KeyValueExpr); isPair {
					values = append(values, r.values(pair.Key, fn)...)
				}
			}
		}
		return true
	})
	return values
}

// passed finds what the callers of a function give to its parameter.
func (r resolver) passed(name string, fn *ast.FuncDecl) (values []string) {
	place := 0
	for _, field := range fn.Type.Params.List {
		for _, param := range field.Names {
			if param.Name == name {
				inFunctions(r.files, func(_ source, caller *ast.FuncDecl, n ast.Node) {
					if call, ok := n.(*ast.CallExpr); ok {
						if _, called := callee(call); called == fn.Name.Name && len(call.Args) > place {
							values = append(values, r.values(call.Args[place], caller)...)
						}
					}
				})
				return values
			}
			place++
		}
	}
	return nil
}

// fields finds what the package gives to a field of that name.
func (r resolver) fields(name string) (values []string) {
	inFunctions(r.files, func(_ source, fn *ast.FuncDecl, n ast.Node) {
		if pair, ok := n.(*ast.KeyValueExpr); ok && lastName(pair.Key) == name {
			values = append(values, r.values(pair.Value, fn)...)
		}
	})
	return values
}

// codeTable reads errors.go for the codes, and problem.go for how they are answered.
func codeTable(t *testing.T) table {
	tb := table{made: []string{"code", "status", "title", "`Retry-After`"}, byHand: []string{"meaning", "next step"}}
	files := production(t)
	answered := map[string][]ast.Expr{} // by the constant's name: status, title, seconds
	for _, f := range in(files, "internal/httpapi") {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if pair, ok := n.(*ast.KeyValueExpr); ok && strings.HasPrefix(lastName(pair.Key), "Code") {
				if answer, isAnswer := pair.Value.(*ast.CompositeLit); isAnswer {
					answered[lastName(pair.Key)] = answer.Elts
				}
			}
			return true
		})
	}
	constants(in(files, "."), func(name string, value ast.Expr, comment string) {
		word, isLiteral := literal(value)
		if !isLiteral || !strings.HasPrefix(name, "Code") {
			return
		}
		answer := answered[name]
		if len(answer) != 3 {
			t.Errorf("%s is not answered", name)
			return
		}
		status := statusNamed(lastName(answer[0]))
		if said, _, _ := strings.Cut(strings.TrimSpace(comment), ":"); said != strconv.Itoa(status) {
			t.Errorf("%s is answered with %d, and its comment says %s", name, status, said)
		}
		title, _ := literal(answer[1])
		seconds := answer[2].(*ast.BasicLit).Value + " s"
		if seconds == "0 s" {
			seconds = "–"
		}
		tb.rows = append(tb.rows, []string{code(word), strconv.Itoa(status), title, seconds})
	})
	return tb
}

func statusNamed(constantName string) int {
	for status := 100; status < 600; status++ {
		if text := http.StatusText(status); text != "" && "Status"+strings.ReplaceAll(text, " ", "") == constantName {
			return status
		}
	}
	return 0
}

// constants calls look with each constant of files: its name, its value and what
// its comment says.
func constants(files []source, look func(name string, value ast.Expr, comment string)) {
	for _, f := range files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				if i < len(spec.Values) {
					look(name.Name, spec.Values[i], spec.Comment.Text())
				}
			}
			return true
		})
	}
}

// constant returns the value of a constant, which has to be made of literals.
func constant(t *testing.T, files []source, dir, name string) (value int64) {
	t.Helper()
	found := 0
	constants(in(files, dir), func(n string, e ast.Expr, _ string) {
		if n != name {
			return
		}
		found++
		v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(e))
		if err != nil {
			t.Errorf("%s of %s: %v", name, dir, err)
			return
		}
		value, _ = goconstant.Int64Val(goconstant.ToInt(v.Value))
	})
	if found != 1 {
		t.Errorf("%s has %d constants %s", dir, found, name)
	}
	return value
}

func memberTable(t *testing.T) table {
	return structTable(t, "internal/httpapi", "errorBody")
}

func problemTable(t *testing.T) table { return structTable(t, ".", "Problem") }

// structTable lists the JSON members of a struct.
func structTable(t *testing.T, dir, name string) table {
	tb := table{made: []string{"member", "always there"}, byHand: []string{"meaning"}}
	for _, f := range in(production(t), dir) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != name {
				return true
			}
			for _, field := range spec.Type.(*ast.StructType).Fields.List {
				member, options, _ := strings.Cut(tagOf(field).Get("json"), ",")
				tb.rows = append(tb.rows, []string{code(member), map[bool]string{true: "no", false: "yes"}[options == "omitempty"]})
			}
			return false
		})
	}
	return tb
}

func tagOf(field *ast.Field) reflect.StructTag {
	if field.Tag == nil {
		return ""
	}
	text, _ := literal(field.Tag)
	return reflect.StructTag(text)
}

// variablesOf returns the environment variables that flags and code name.
func variablesOf(files []source) (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, f := range files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				for name := range strings.SplitSeq(tagOf(n).Get("env"), ",") {
					add(name)
				}
			case *ast.CallExpr:
				receiver, called := callee(n)
				if receiver != nil && lastName(receiver) == "os" && (called == "Getenv" || called == "LookupEnv") {
					name, _ := literal(n.Args[0])
					add(name)
				}
			}
			return true
		})
	}
	return names
}

// apiHeaders returns the headers that the API reads in requests, and those that it
// sets in answers. A name that ends in - is that of many, shown with a *.
func apiHeaders(t *testing.T, files []source) (read, set []string) {
	t.Helper()
	files = in(files, "internal/httpapi", "internal/auth")
	named := map[string]string{}
	constants(files, func(name string, value ast.Expr, _ string) {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "header") || strings.HasPrefix(lower, "prefix") {
			named[name], _ = literal(value)
		}
	})
	add := func(list *[]string, e ast.Expr) {
		name, isLiteral := literal(e)
		if !isLiteral {
			name = named[lastName(e)]
		}
		if strings.HasSuffix(name, "-") {
			name += "*"
		}
		if name != "" && headerName.MatchString(name) && !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	inFunctions(files, func(_ source, fn *ast.FuncDecl, n ast.Node) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if index, ok := left.(*ast.IndexExpr); ok {
					add(&set, index.Index)
				}
			}
		case *ast.CallExpr:
			receiver, method := callee(n)
			switch {
			case receiver == nil || len(n.Args) == 0:
			case method == "Set" && len(n.Args) == 2:
				add(&set, n.Args[0])
			case (method == "Get" || method == "Values") && strings.HasSuffix(types.ExprString(receiver), "r.Header"):
				add(&read, n.Args[0])
			case method == "HasPrefix" && len(n.Args) == 2 && lastName(n.Args[0]) == "name":
				add(&read, n.Args[1])
			}
		case *ast.CaseClause:
			if fn.Name.Name == "header" {
				for _, e := range n.List {
					add(&read, e)
				}
			}
		}
	})
	for _, f := range files { // an index that is not assigned to
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if assign, ok := n.(*ast.AssignStmt); ok && slices.ContainsFunc(assign.Lhs, func(e ast.Expr) bool { _, isIndex := e.(*ast.IndexExpr); return isIndex }) {
				return false
			}
			if index, ok := n.(*ast.IndexExpr); ok && (lastName(index.X) == "h" || lastName(index.X) == "Header") {
				add(&read, index.Index)
			}
			return true
		})
	}
	if len(read) < 10 || len(set) < 5 {
		t.Errorf("only %q and %q were found; has the code's form changed?", read, set)
	}
	return read, set
}

var headerName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(-[A-Z][A-Za-z0-9]*)*(-\*)?$`)
