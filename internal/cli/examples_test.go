package cli

import (
	"testing"

	"github.com/alecthomas/kong"
)

// Every command has two examples, and every example is of a command.
func TestEveryCommandHasExamples(t *testing.T) {
	var g grammar
	parser, err := kong.New(&g, kong.Name("posthaste"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, leaf := range parser.Model.Leaves(true) {
		name := leaf.Name
		for up := leaf.Parent; up != nil && up.Type == kong.CommandNode; up = up.Parent {
			name = up.Name + " " + name
		}
		known[name] = true
		if len(examples[name]) != 2 {
			t.Errorf("%q has %d examples, want 2", name, len(examples[name]))
		}
	}
	for name := range examples {
		if !known[name] {
			t.Errorf("%q has examples and is no command", name)
		}
	}
}
