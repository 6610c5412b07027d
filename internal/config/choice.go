package config

import (
	"slices"

	"github.com/alecthomas/kong"
)

// choices are the words that a Choice can have, of all its uses.
var choices = []string{"false", "true", "networks", "all"}

// Choice is a setting that may stand alone on the command line, as in
// --metrics-public, or with a word, as in --allow-http=all. Its environment
// variable takes the word. Whether the word is a known one is for [Flags.Parse]
// to say, with all other mistakes.
type Choice string

// IsBool tells kong that the flag needs no value.
func (*Choice) IsBool() bool { return true }

// Decode implements kong.MapperValue.
func (c *Choice) Decode(ctx *kong.DecodeContext) error {
	next := ctx.Scan.Peek()
	// "--allow-http all" is two arguments; the second one belongs to the flag if
	// it is a word that such a flag can have.
	if next.Type != kong.FlagValueToken && !(next.IsValue() && slices.Contains(choices, next.String())) {
		*c = "true"
		return nil
	}
	*c = Choice(ctx.Scan.Pop().String())
	return nil
}
