package posthaste_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/posthaste-dev/posthaste"

// mayImport lists, for each package of this module, the packages of this module
// that its production code may import. A package that is not listed fails the
// test, so a new one needs a line here and a reason in review. One way only:
//
//	root ← store ← drivers
//	root, store, retry, gate, deliver … ← pipeline ← the HTTP packages ← engine ← cli ← cmd
var mayImport = map[string]string{
	".":             "",
	"signature":     "",
	"outbox":        ".",
	"inbound":       ". signature",
	"inbound/meta":  ".",
	"client":        ".",
	"posthastetest": ". signature",

	"inbound/meta/metatest": "",

	"internal/store":       ". internal/gate",
	"internal/migration":   ". internal/store",
	"internal/pgconnect":   ".",
	"sqlite":               ". internal/store internal/gate internal/migration",
	"postgres":             ". internal/store internal/gate internal/migration internal/pgconnect",
	"internal/retry":       ".",
	"internal/gate":        ".",
	"internal/concurrency": "",
	"internal/keyring":     ".",
	"internal/telemetry":   ".",
	"internal/config":      ". signature internal/auth internal/deliver internal/keyring internal/pgconnect", // parses what they define: keys, secrets, networks
	"internal/auth":        ". internal/store internal/keyring",
	"internal/deliver":     ". signature",

	"internal/pipeline": ". signature internal/store internal/retry internal/gate internal/concurrency internal/deliver internal/telemetry internal/keyring",

	"internal/httpapi":   ". signature inbound " + aboveStore + " internal/stream internal/deliver internal/retry internal/gate",
	"internal/inhttp":    ". inbound internal/deliver " + aboveStore,
	"internal/stream":    ". " + aboveStore,
	"internal/dashboard": ". " + aboveStore,
	"internal/relay":     ". outbox internal/deliver internal/pgconnect " + aboveStore,

	"engine": ". signature inbound inbound/meta sqlite postgres " + aboveStore + " internal/deliver internal/retry internal/gate " +
		"internal/httpapi internal/inhttp internal/stream internal/dashboard internal/relay internal/config",
	"internal/cli":  ". signature outbox client engine sqlite postgres internal/store internal/auth internal/keyring internal/config internal/relay internal/telemetry",
	"cmd/posthaste": "internal/cli",

	"internal/store/storetest": ". internal/store internal/gate",
	"internal/testdb":          "internal/testdb/cluster",
	"internal/testdb/cluster":  "",
	"internal/testdb/pgtest":   "internal/testdb/cluster",

	"bench":           ". client outbox bench/reference internal/testdb/cluster",
	"bench/reference": "internal/testdb/cluster",
	"examples/*":      ". signature outbox inbound inbound/meta inbound/meta/metatest client engine sqlite postgres posthastetest",

	"examples/dm-inbox/sim":      "inbound/meta/metatest",
	"examples/dm-inbox/simulate": "examples/dm-inbox/sim",
}

// aboveStore is what the packages that answer requests share.
const aboveStore = "internal/store internal/pipeline internal/auth internal/keyring internal/telemetry"

// mayUseSQL lists the packages whose production code may know that a database
// speaks SQL. Everything else goes through internal/store.
var mayUseSQL = []string{
	"sqlite", "postgres", "internal/pgconnect", "outbox", "internal/relay", "internal/testdb", "internal/testdb/cluster", "bench", "bench/reference", "examples/*", "examples/dm-inbox/sim",
}

var sqlPackages = []string{"database/sql", "github.com/jackc/pgx", "modernc.org/sqlite"}

// mayImportTesting lists the packages that exist for tests.
var mayImportTesting = []string{"internal/store/storetest", "internal/testdb", "posthastetest", "inbound/meta/metatest"}

// pure lists the packages that take the time as a parameter, so that each of
// their decisions can be tested as a table.
var pure = []string{"internal/retry", "internal/gate", "internal/concurrency", "inbound/meta"}

// vagueNames are package names that attract whatever has no home.
var vagueNames = strings.Fields("base common core helper helpers lib misc model models pkg service services shared type types util utils")

// Limits in lines.
const (
	maxProductionFile = 500
	maxTestFile       = 1000
	maxMainFile       = 60 // cmd/posthaste/main.go: everything of weight can be tested elsewhere
	maxFunction       = 80 // in tests, tables don't count
)

// source is one parsed file.
type source struct {
	path   string // with slashes, from the module's root
	dir    string
	isTest bool
	lines  int
	fset   *token.FileSet
	ast    *ast.File
}

// rule looks at one file and returns what is wrong with it.
type rule func(source) []string

var rules = map[string]rule{
	"imports":          importsOneWay,
	"sql":              sqlInDriversOnly,
	"testing":          noTestPackagesInProduction,
	"file size":        fileSize,
	"function size":    functionSize,
	"init":             noInit,
	"getters":          noGetters,
	"package name":     plainPackageName,
	"no sleep in test": noSleepInTests,
	"no skip":          noSkippedTests,
	"pure":             noClockInPurePackages,
}

func TestConventions(t *testing.T) {
	files := parseTree(t)
	if len(files) == 0 {
		t.Fatal("no Go files found")
	}
	for _, f := range files {
		for name, check := range rules {
			for _, problem := range check(f) {
				t.Errorf("%s: %s", name, problem)
			}
		}
	}
	for _, problem := range onePackageComment(files) {
		t.Error(problem)
	}
}

// parseTree parses every Go file of the module, without testdata, hidden
// folders and nested modules.
func parseTree(t *testing.T) []source {
	t.Helper()
	var files []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, modErr := os.Stat(filepath.Join(name, "go.mod"))
			skip := strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "node_modules"}, d.Name()) || modErr == nil
			if skip && name != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parse(filepath.ToSlash(name), string(text))
		files = append(files, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func parse(name, text string) (source, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	return source{
		path: name, dir: path.Dir(name), isTest: strings.HasSuffix(name, "_test.go"),
		lines: strings.Count(text, "\n"), fset: fset, ast: f,
	}, nil
}

// at says where in the file a problem is.
func (s source) at(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.path, s.fset.Position(pos).Line, fmt.Sprintf(format, args...))
}

// listed reports whether dir is in patterns, where "examples/*" stands for one
// folder under examples.
func listed(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, dir)
		return err == nil && ok
	})
}

// allowedImports finds dir's entry in mayImport.
func allowedImports(dir string) (allowed []string, known bool) {
	for pattern, list := range mayImport {
		if listed([]string{pattern}, dir) {
			return strings.Fields(list), true
		}
	}
	return nil, false
}

func importsOneWay(s source) []string {
	allowed, known := allowedImports(s.dir)
	if !known {
		return []string{s.at(s.ast.Package, "package %s is not listed in mayImport", s.dir)}
	}
	if s.isTest {
		return nil
	}
	var problems []string
	for _, imp := range s.ast.Imports {
		rel, ours := strings.CutPrefix(importPath(imp), module)
		if !ours {
			continue
		}
		if rel = strings.TrimPrefix(rel, "/"); rel == "" {
			rel = "."
		}
		if !slices.Contains(allowed, rel) {
			problems = append(problems, s.at(imp.Pos(), "%s imports %s; allowed: %q", s.dir, rel, allowed))
		}
	}
	return problems
}

func sqlInDriversOnly(s source) []string {
	if s.isTest || listed(mayUseSQL, s.dir) {
		return nil
	}
	var problems []string
	for _, imp := range s.ast.Imports {
		for _, p := range sqlPackages {
			if got := importPath(imp); got == p || strings.HasPrefix(got, p+"/") {
				problems = append(problems, s.at(imp.Pos(), "%s imports %s; SQL stays in the drivers, behind internal/store", s.dir, got))
			}
		}
	}
	return problems
}

// noTestPackagesInProduction does not rely on mayImport alone: a test package
// listed there by mistake would put it into the binary.
func noTestPackagesInProduction(s source) []string {
	forTests := func(dir string) bool {
		return listed(mayImportTesting, dir) || strings.HasPrefix(dir, "internal/testdb") ||
			strings.HasPrefix(dir, "bench") || strings.HasPrefix(dir, "examples/")
	}
	if s.isTest {
		return nil
	}
	var problems []string
	for _, imp := range s.ast.Imports {
		p := importPath(imp)
		rel, _ := strings.CutPrefix(p, module+"/")
		switch {
		case (p == "testing" || strings.HasPrefix(p, "testing/")) && !listed(mayImportTesting, s.dir),
			forTests(rel) && !forTests(s.dir):
			problems = append(problems, s.at(imp.Pos(), "production code imports %s, which is for tests", p))
		}
	}
	return problems
}

func fileSize(s source) []string {
	limit := maxProductionFile
	switch {
	case s.path == "cmd/posthaste/main.go":
		limit = maxMainFile
	case s.isTest:
		limit = maxTestFile
	}
	if s.lines > limit {
		return []string{fmt.Sprintf("%s: %d lines, limit %d: split it by subject", s.path, s.lines, limit)}
	}
	return nil
}

func functionSize(s source) []string {
	var problems []string
	for _, decl := range s.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := s.span(fn)
		if s.isTest {
			ast.Inspect(fn, func(n ast.Node) bool {
				table, ok := n.(*ast.CompositeLit)
				if ok {
					lines -= s.span(table) - 1
				}
				return !ok // what is in a table was subtracted with it
			})
		}
		if lines > maxFunction {
			problems = append(problems, s.at(fn.Pos(), "function %s has %d lines, limit %d", fn.Name.Name, lines, maxFunction))
		}
	}
	return problems
}

// span returns the number of lines that n stands on.
func (s source) span(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

func noInit(s source) []string {
	return s.functions(func(name string) string {
		if name == "init" {
			return "init() runs in an order nobody reads; let main do it"
		}
		return ""
	})
}

func noGetters(s source) []string {
	return s.functions(func(name string) string {
		rest, ok := strings.CutPrefix(name, "Get")
		if ok && rest != "" && strings.ToUpper(rest[:1]) == rest[:1] {
			return name + ": name it " + rest
		}
		return ""
	})
}

// functions calls problem with the name of each function, method and method of
// an interface, and collects what it says.
func (s source) functions(problem func(name string) string) []string {
	var problems []string
	look := func(id *ast.Ident) {
		if p := problem(id.Name); p != "" {
			problems = append(problems, s.at(id.Pos(), "%s", p))
		}
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			look(n.Name)
		case *ast.InterfaceType:
			for _, m := range n.Methods.List {
				for _, id := range m.Names {
					look(id)
				}
			}
		}
		return true
	})
	return problems
}

func plainPackageName(s source) []string {
	name := strings.TrimSuffix(s.ast.Name.Name, "_test")
	for _, word := range []string{name, path.Base(s.dir)} {
		if slices.Contains(vagueNames, word) {
			return []string{s.at(s.ast.Package, "package %s: name it after what it holds", word)}
		}
	}
	if strings.ContainsAny(name, "_") || name != strings.ToLower(name) {
		return []string{s.at(s.ast.Package, "package %s: one short lower-case word", name)}
	}
	return nil
}

// noSleepInTests allows time.Sleep inside a function given to synctest.Test,
// where it moves a fake clock and takes no time.
func noSleepInTests(s source) []string {
	if !s.isTest {
		return nil
	}
	var problems []string
	ast.Inspect(s.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && selects(call.Fun, "synctest", "Test") {
			return false
		}
		if ok && selects(call.Fun, "time", "Sleep") {
			problems = append(problems, s.at(n.Pos(), "time.Sleep in a test: wait on an event, or use testing/synctest"))
		}
		return true
	})
	return problems
}

func noSkippedTests(s source) []string {
	var problems []string
	ast.Inspect(s.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		for _, receiver := range []string{"t", "b", "f", "tb"} {
			for _, method := range []string{"Skip", "Skipf", "SkipNow"} {
				if selects(call.Fun, receiver, method) {
					problems = append(problems, s.at(n.Pos(), "%s.%s: a skipped test looks like one that passed", receiver, method))
				}
			}
		}
		return true
	})
	return problems
}

func noClockInPurePackages(s source) []string {
	if s.isTest || !listed(pure, s.dir) {
		return nil
	}
	var problems []string
	ast.Inspect(s.ast, func(n ast.Node) bool {
		for _, name := range []string{"Now", "Since", "Until", "After", "NewTimer", "Sleep"} {
			if e, ok := n.(ast.Expr); ok && selects(e, "time", name) {
				problems = append(problems, s.at(n.Pos(), "time.%s in a pure package: take the time as a parameter", name))
			}
		}
		return true
	})
	return problems
}

// onePackageComment looks at the production files of each package together.
func onePackageComment(files []source) []string {
	comments := map[string][]string{}
	for _, f := range files {
		if f.isTest {
			continue
		}
		in := comments[f.dir]
		if f.ast.Doc != nil {
			in = append(in, f.path)
		}
		comments[f.dir] = in // a package without any is to be seen below
	}
	var problems []string
	for dir, in := range comments {
		if len(in) != 1 {
			problems = append(problems, fmt.Sprintf("%s: package comment in %d files %q, want exactly one", dir, len(in), in))
		}
	}
	return problems
}

// selects reports whether e reads name.sel, for example time.Sleep.
func selects(e ast.Expr, name, sel string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != sel {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == name
}

func importPath(imp *ast.ImportSpec) string {
	p, err := strconv.Unquote(imp.Path.Value)
	if err != nil {
		return imp.Path.Value // the parser accepts nothing that comes here
	}
	return p
}

// Each rule is shown to bite, and not to bite what it allows.
func TestConventionRulesCanFail(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("\n", n) }
	table := "var x = []int{" + lines(100) + "}"
	cases := []struct {
		rule, path, text string
		want             string // part of the one problem; empty: none
	}{
		{"imports", "internal/store/a.go", ours("."), ""},
		{"imports", "internal/store/a.go", ours("sqlite"), "internal/store imports sqlite"},
		{"imports", "internal/pipeline/a.go", ours("postgres"), "internal/pipeline imports postgres"},
		{"imports", "internal/pipeline/a_test.go", ours("sqlite"), ""},
		{"imports", "postgres/a.go", ours("internal/pipeline"), "postgres imports internal/pipeline"},
		{"imports", "a.go", ours("signature"), ". imports signature"},
		{"imports", "engine/a.go", ours("internal/cli"), "engine imports internal/cli"},
		{"imports", "examples/shop/a.go", ours("engine"), ""},
		{"imports", "examples/shop/a.go", ours("internal/store"), "examples/shop imports internal/store"},
		{"imports", "internal/newcomer/a.go", "package newcomer", "not listed in mayImport"},
		{"imports", "internal/newcomer/a_test.go", "package newcomer", "not listed in mayImport"},
		{"sql", "internal/httpapi/a.go", imports("database/sql"), "internal/httpapi imports database/sql"},
		{"sql", "internal/pipeline/a.go", imports("github.com/jackc/pgx/v5/pgxpool"), "imports github.com/jackc/pgx/v5/pgxpool"},
		{"sql", "internal/pipeline/a.go", imports("database/sqlite3"), ""},
		{"sql", "internal/pipeline/a_test.go", imports("database/sql"), ""},
		{"sql", "sqlite/a.go", imports("database/sql"), ""},
		{"testing", "engine/a.go", imports("testing"), "imports testing"},
		{"testing", "engine/a.go", imports("testing/fstest"), "imports testing/fstest"},
		{"testing", "engine/a.go", ours("internal/store/storetest"), "storetest, which is for tests"},
		{"testing", "engine/a.go", ours("internal/testdb/cluster"), "cluster, which is for tests"},
		{"testing", "internal/cli/a.go", ours("posthastetest"), "posthastetest, which is for tests"},
		{"testing", "bench/a.go", ours("internal/testdb/cluster"), ""},
		{"testing", "internal/store/storetest/a.go", imports("testing"), ""},
		{"testing", "engine/a_test.go", imports("testing"), ""},
		{"file size", "a.go", "package a" + lines(500), ""},
		{"file size", "a.go", "package a" + lines(501), "501 lines, limit 500"},
		{"file size", "a_test.go", "package a" + lines(1000), ""},
		{"file size", "a_test.go", "package a" + lines(1001), "1001 lines, limit 1000"},
		{"file size", "cmd/posthaste/main.go", "package main" + lines(61), "61 lines, limit 60"},
		{"function size", "a.go", "package a\nfunc long() {" + lines(79) + "}", ""},
		{"function size", "a.go", "package a\nfunc long() {" + lines(80) + "}", "function long has 81 lines"},
		{"function size", "a.go", "package a\nfunc long() {" + table + "}", "function long has 101 lines"},
		{"function size", "a_test.go", "package a\nfunc long() {" + table + "}", ""},
		{"function size", "a_test.go", "package a\nfunc long() {" + table + lines(80) + "}", "function long has 81 lines"},
		{"init", "a.go", "package a\nfunc init() {}", "a.go:2: init()"},
		{"init", "a.go", "package a\nfunc initialize() {}", ""},
		{"getters", "a.go", "package a\nfunc GetEvent() {}", "name it Event"},
		{"getters", "a.go", "package a\nfunc (e E) GetID() {}", "name it ID"},
		{"getters", "a.go", "package a\ntype I interface { GetName() string }", "name it Name"},
		{"getters", "a.go", "package a\nfunc (e E) Get() {}\nfunc Getter() {}", ""},
		{"package name", "internal/util/a.go", "package util", "package util"},
		{"package name", "internal/util/a.go", "package strs", "package util"},
		{"package name", "internal/x/a_test.go", "package common_test", "package common"},
		{"package name", "internal/x/a.go", "package http_api", "one short lower-case word"},
		{"package name", "internal/store/a.go", "package store", ""},
		{"no sleep in test", "a_test.go", calls("time.Sleep(1)"), "a_test.go:3: time.Sleep"},
		{"no sleep in test", "a_test.go", calls("synctest.Test(t, func(t *testing.T) { time.Sleep(1) })"), ""},
		{"no sleep in test", "a.go", calls("time.Sleep(1)"), ""},
		{"no skip", "a_test.go", calls("t.Skip()"), "t.Skip"},
		{"no skip", "internal/testdb/a.go", calls(`tb.Skipf("no server")`), "tb.Skipf"},
		{"no skip", "a_test.go", calls("rows.Skip()"), ""},
		{"pure", "internal/retry/a.go", calls("_ = time.Now()"), "time.Now in a pure package"},
		{"pure", "internal/gate/a.go", calls("clock := time.Now"), "time.Now in a pure package"},
		{"pure", "internal/retry/a.go", calls("_ = now.Add(time.Second)"), ""},
		{"pure", "internal/retry/a_test.go", calls("_ = time.Now()"), ""},
		{"pure", "internal/pipeline/a.go", calls("_ = time.Now()"), ""},
	}
	failing := map[string]bool{}
	for _, c := range cases {
		f, err := parse(c.path, c.text)
		if err != nil {
			t.Fatalf("%s on %s: %v", c.rule, c.path, err)
		}
		got := rules[c.rule](f)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s on %s: %q gives %q, want %q", c.rule, c.path, strings.TrimSpace(c.text), got, c.want)
		}
		failing[c.rule] = failing[c.rule] || c.want != ""
	}
	for name := range rules {
		if !failing[name] {
			t.Errorf("rule %q is not shown to fail", name)
		}
	}
}

func TestConventionOfOnePackageCommentCanFail(t *testing.T) {
	const bare, commented = "package a", "// Package a does.\npackage a"
	for _, c := range []struct {
		texts map[string]string
		want  string
	}{
		{map[string]string{"x/a.go": commented, "x/b.go": bare}, ""},
		{map[string]string{"x/a.go": bare, "x/b.go": bare}, "x: package comment in 0 files"},
		{map[string]string{"x/a.go": commented, "x/b.go": commented}, "x: package comment in 2 files"},
		{map[string]string{"x/a.go": bare, "x/a_test.go": commented}, "x: package comment in 0 files"},
		{map[string]string{"x/a_test.go": bare}, ""},
	} {
		var files []source
		for name, text := range c.texts {
			f, err := parse(name, text)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		got := strings.Join(onePackageComment(files), "; ")
		if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%v: %q, want %q", c.texts, got, c.want)
		}
	}
}

func ours(rel string) string { return imports(strings.TrimSuffix(module+"/"+rel, "/.")) }

func imports(p string) string { return "package a\nimport _ " + strconv.Quote(p) }

func calls(statement string) string { return "package a\nfunc f() {\n" + statement + "\n}" }
