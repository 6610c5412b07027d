package posthaste_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// docs/life-of-an-event.md names files, functions, contract calls and log lines.
// Each of them has to exist.
func TestLifeOfAnEventNamesWhatExists(t *testing.T) {
	text, err := os.ReadFile("docs/life-of-an-event.md")
	if err != nil {
		t.Fatal(err)
	}
	contract := interfaceMethods(t, "internal/store")
	rows := 0
	for line := range strings.Lines(string(text)) {
		file, function, calls, logLines, ok := lifeRow(line)
		if !ok {
			continue
		}
		rows++
		source, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + regexp.QuoteMeta(function) + `\(`).Match(source) {
			t.Errorf("%s has no function %s", file, function)
		}
		for _, call := range calls {
			if !contract[call] {
				t.Errorf("the storage contract has no call %s", call)
			}
		}
		for _, words := range logLines {
			if !folderHas(t, filepath.Dir(file), `"`+words+`"`) {
				t.Errorf("no file beside %s logs %q", file, words)
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows were understood; has the table's form changed?", rows)
	}
}

// lifeRow reads a table row: … | `file` | `function` | … | `Call` | `log line` |.
func lifeRow(line string) (file, function string, calls, logLines []string, ok bool) {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	if len(cells) < 6 || !strings.HasSuffix(strings.TrimSpace(line), "|") {
		return "", "", nil, nil, false
	}
	words := func(cell string) (out []string) {
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			out = append(out, m[1])
		}
		return out
	}
	for i, cell := range cells[:len(cells)-1] {
		if w := words(cell); len(w) == 1 && strings.HasSuffix(w[0], ".go") {
			if f := words(cells[i+1]); len(f) == 1 {
				return w[0], f[0], words(cells[len(cells)-2]), words(cells[len(cells)-1]), true
			}
		}
	}
	return "", "", nil, nil, false
}

func interfaceMethods(t *testing.T, dir string) map[string]bool {
	t.Helper()
	methods := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if iface, ok := n.(*ast.InterfaceType); ok {
				for _, m := range iface.Methods.List {
					for _, name := range m.Names {
						methods[name.Name] = true
					}
				}
			}
			return true
		})
	}
	return methods
}

func folderHas(t *testing.T, dir, text string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), text) {
			return true
		}
	}
	return false
}
