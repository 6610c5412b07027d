package cli

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Bash  completionBash  `cmd:"" help:"For bash: source <(posthaste completion bash)"`
	Zsh   completionZsh   `cmd:"" help:"For zsh: source <(posthaste completion zsh), after compinit"`
	Fish  completionFish  `cmd:"" help:"For fish: posthaste completion fish | source"`
	Words completionWords `cmd:"" hidden:"" help:"Print what may stand in place of the last word. The scripts ask this."`
}

// The scripts know nothing of the commands: they ask the program for the words
// that may come next, so that they never are of another version than it.
var (
	//go:embed completion/bash
	bashScript string
	//go:embed completion/zsh
	zshScript string
	//go:embed completion/fish
	fishScript string
)

type (
	completionBash struct{}
	completionZsh  struct{}
	completionFish struct{}
)

// Run prints the script for bash.
func (completionBash) Run(s Streams) error { return printText(s, bashScript) }

// Run prints the script for zsh.
func (completionZsh) Run(s Streams) error { return printText(s, zshScript) }

// Run prints the script for fish.
func (completionFish) Run(s Streams) error { return printText(s, fishScript) }

func printText(s Streams, text string) error {
	_, err := io.WriteString(s.Stdout, text)
	return err
}

type completionWords struct {
	Shell string   `arg:"" enum:"bash,zsh,fish"`
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints one candidate a line, in the form that the shell's script reads:
// bash shows words alone, the others explain them.
func (c *completionWords) Run(s Streams, k *kong.Context) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, found := range complete(k.Model.Node, words) {
		line := found.word
		switch c.Shell {
		case "zsh":
			line = strings.ReplaceAll(found.word, ":", `\:`) + ":" + found.help
		case "fish":
			line += "\t" + found.help
		}
		if _, err := fmt.Fprintln(s.Stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// candidate is a word that may come next.
type candidate struct{ word, help string }

// complete returns what the last of the words may become, given those before it.
func complete(root *kong.Node, words []string) []candidate {
	words = joinAssignments(words)
	node, flag, onlyArguments := root, (*kong.Flag)(nil), false
	for _, word := range words[:len(words)-1] {
		switch {
		case flag != nil:
			flag = nil // word is its value
		case onlyArguments:
		case word == "--":
			onlyArguments = true
		case strings.HasPrefix(word, "-"):
			flag = takesValue(node, word)
		default:
			if child := childOf(node, word); child != nil {
				node = child
			}
		}
	}
	last := words[len(words)-1]
	name, value, isAssigned := strings.Cut(last, "=")
	switch {
	case flag != nil:
		return matching(last, valuesOf(flag))
	case onlyArguments:
		return nil
	case isAssigned && strings.HasPrefix(last, "--"):
		if flag = flagOf(node, name); flag == nil {
			return nil
		}
		found := matching(value, valuesOf(flag))
		for i := range found {
			found[i].word = name + "=" + found[i].word
		}
		return found
	case strings.HasPrefix(last, "-"):
		return matching(last, flagsOf(node))
	}
	return matching(last, childrenOf(node))
}

// joinAssignments takes out the = that bash makes a word of its own in
// --flag=value; what is behind it is then read as in --flag value. There is
// always a last word.
func joinAssignments(words []string) []string {
	words = slices.Clone(words)
	if n := len(words); n == 0 || words[n-1] == "=" {
		words = append(words, "")
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "=" })
}

// usableFlags are the flags of a command, of those above it, and of the command
// that it stands for when nothing follows it.
func usableFlags(node *kong.Node) []*kong.Flag {
	groups := node.AllFlags(true)
	if node.DefaultCmd != nil {
		groups = append(groups, node.DefaultCmd.Flags)
	}
	return slices.Concat(groups...)
}

func flagOf(node *kong.Node, word string) *kong.Flag {
	name := strings.TrimLeft(word, "-")
	for _, f := range usableFlags(node) {
		if f.Name == name || f.Short != 0 && string(f.Short) == name {
			return f
		}
	}
	return nil
}

// takesValue returns the flag if the word after it is its value.
func takesValue(node *kong.Node, word string) *kong.Flag {
	f := flagOf(node, word)
	if f == nil || f.IsBool() || f.IsCounter() || strings.Contains(word, "=") {
		return nil
	}
	return f
}

// valuesOf are the words that a flag can have, known by its enum, or by a
// placeholder such as text|json. FILE|URL in capitals stands for anything.
func valuesOf(f *kong.Flag) (found []candidate) {
	var words []string
	switch {
	case f.Enum != "":
		words = f.EnumSlice()
	case f.PlaceHolder != "" && f.PlaceHolder == strings.ToLower(f.PlaceHolder):
		words = strings.Split(f.PlaceHolder, "|")
	}
	for _, w := range words {
		found = append(found, candidate{w, f.Name})
	}
	return found
}

func flagsOf(node *kong.Node) (found []candidate) {
	for _, f := range usableFlags(node) {
		found = append(found, candidate{"--" + f.Name, summary(f.Help)})
		if f.Tag.Negatable != "" {
			found = append(found, candidate{"--no-" + f.Name, "The opposite of --" + f.Name})
		}
	}
	return found
}

func childOf(node *kong.Node, word string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == word || slices.Contains(child.Aliases, word) {
			return child
		}
	}
	return nil
}

func childrenOf(node *kong.Node) (found []candidate) {
	for _, child := range node.Children {
		if !child.Hidden {
			found = append(found, candidate{child.Name, summary(child.Help)})
		}
	}
	return found
}

func matching(prefix string, all []candidate) []candidate {
	return slices.DeleteFunc(all, func(c candidate) bool { return !strings.HasPrefix(c.word, prefix) })
}

// summary is the first sentence of a help, for one line beside the word.
func summary(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(first, ".")
}
