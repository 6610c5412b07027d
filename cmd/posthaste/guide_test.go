package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

const guides = "../../docs/guides"

// fenced is a block of a guide: ```sh runs in the foreground, with the variables
// of those before it; ```sh background in a terminal of its own; ```sh retry again
// and again until it prints what is shown. A block ```text after one is what it
// prints, line by line, with … for what differs.
var fenced = regexp.MustCompile("(?s)\n```(sh|sh background|sh retry|text)\n(.*?\n)```\n")

// TestGuides runs the commands of each guide as they stand there, but for the
// addresses.
func TestGuides(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(guides, "receive-from-*.md"))
	if err != nil || len(pages) < 2 {
		t.Fatalf("guides: %v, %v", pages, err)
	}
	pages = append(pages, filepath.Join(guides, "when-deliveries-fail.md"))
	dir := t.TempDir()
	var files []string
	for _, page := range pages {
		name := filepath.Join(dir, strings.TrimSuffix(filepath.Base(page), ".md")+".txtar")
		if err := os.WriteFile(name, []byte(scriptOf(t, page)), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	testscript.Run(t, params(files, func(env *testscript.Env) error {
		env.Setenv("POSTHASTE_DB", filepath.Join(env.WorkDir, "posthaste.db"))
		return nil
	}))
}

// scriptOf makes a script of a guide.
func scriptOf(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := freeAddresses()
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("127.0.0.1:8700", addresses[0], "127.0.0.1:9000", addresses[1])
	var commands, blocks strings.Builder
	fmt.Fprintf(&commands, "env POSTHASTE_LISTEN=%s\nenv POSTHASTE_SERVER=http://%s\n", addresses[0], addresses[0])
	background := 0
	last := ""
	for i, m := range fenced.FindAllStringSubmatch(string(text), -1) {
		kind, body := m[1], here.Replace(m[2])
		if kind == "text" {
			expect(t, &commands, page, last, body)
			last = ""
			continue
		}
		name := fmt.Sprintf("block%d.sh", i)
		fmt.Fprintf(&blocks, "-- %s --\nset -eua\ntest ! -f env.sh || . ./env.sh\n%sexport -p > env.sh\n", name, body)
		switch last = "exec bash " + name; kind {
		case "sh background":
			background++
			fmt.Fprintf(&commands, "exec %s &terminal%d&\n", strings.TrimSpace(body), background)
			if strings.Contains(body, "serve") {
				fmt.Fprintf(&commands, "await http://%s/readyz\n", addresses[0])
			} else {
				fmt.Fprintf(&commands, "listening %s\n", addresses[1])
			}
		case "sh":
			fmt.Fprintln(&commands, last)
		case "sh retry":
			last = "eventually %s bash " + name
		}
	}
	for ; background > 0; background-- {
		fmt.Fprintf(&commands, "kill -INT terminal%d\nwait terminal%d\n", background, background)
	}
	return commands.String() + blocks.String()
}

// expect adds what the last block has to print.
func expect(t *testing.T, commands *strings.Builder, page, last, text string) {
	t.Helper()
	if last == "" {
		t.Fatalf("%s: a block of text follows none of commands", page)
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if strings.HasPrefix(last, "eventually") { // one word that tells it has come
			fmt.Fprintf(commands, last+"\n", words[1])
		}
		for i, w := range words {
			words[i] = strings.ReplaceAll(regexp.QuoteMeta(w), "…", `\S*`)
		}
		fmt.Fprintf(commands, "stdout '%s'\n", strings.ReplaceAll(strings.Join(words, `\s+`), "'", "''"))
	}
}
