package posthaste_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Go programs in the guides are built against this module and run as they stand
// there; each prints what the guide says that it prints.
func TestGuidePrograms(t *testing.T) {
	pages, err := filepath.Glob("docs/guides/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("guides: %v, %v", pages, err)
	}
	program := regexp.MustCompile("(?s)\n```go\n(package main\n.*?)```\n.*?\n```text\n(.*?)```\n")
	programs := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range program.FindAllSubmatch(text, -1) {
			programs++
			if got := runProgram(t, m[1]); got != string(m[2]) {
				t.Errorf("the program of %s prints\n%s\nand the guide says\n%s", page, got, m[2])
			}
		}
	}
	if programs == 0 {
		t.Error("no program was found; has the form of the guides changed?")
	}
}

// runProgram builds a main file in a module of its own, which takes this module
// from here and every other one at the same version, and returns what it prints.
func runProgram(t *testing.T, text []byte) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	ours := strings.Replace(string(mod), "module "+module, "module example.com/guide", 1) +
		"\nrequire " + module + " v0.0.0\nreplace " + module + " => " + here + "\n"
	for name, content := range map[string][]byte{"main.go": text, "go.mod": []byte(ours), "go.sum": sum} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-o", "program", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "program")).CombinedOutput()
	if err != nil {
		t.Fatalf("run: %v\n%s", err, out)
	}
	return string(out)
}
