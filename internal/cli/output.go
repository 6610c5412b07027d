package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"text/tabwriter"
	"time"
)

// printJSON writes v as one line, so that a list is a stream of objects.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // for people who read it, and for grep
	return enc.Encode(v)
}

// table prints a list for people: the head, and a row for each item.
type table[T any] struct {
	head []string
	row  func(T) []string
	none string // printed to the messages where there is nothing
}

// print writes at most limit items of a list: as a table, or one JSON object a line.
func (t table[T]) print(s Streams, asJSON bool, items iter.Seq2[T, error], limit int) error {
	tw := tabwriter.NewWriter(s.Stdout, 0, 0, 2, ' ', 0)
	n := 0
	for item, err := range items {
		if err != nil {
			_ = tw.Flush() // what came before the error is worth showing
			return err
		}
		if n == 0 && !asJSON {
			_, _ = fmt.Fprintln(tw, strings.Join(t.head, "\t"))
		}
		if asJSON {
			if err := printJSON(s.Stdout, item); err != nil {
				return err
			}
		} else {
			_, _ = fmt.Fprintln(tw, strings.TrimRight(strings.Join(t.row(item), "\t"), "\t"))
		}
		if n++; n == limit {
			break
		}
	}
	if n == 0 && !asJSON {
		_, _ = fmt.Fprintln(s.Stderr, t.none)
	}
	return tw.Flush()
}

// fields prints one object for people: a name and a value a line. Empty values
// are left out.
func fields(w io.Writer, pairs ...string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			_, _ = fmt.Fprintf(tw, "%s\t%s\n", pairs[i], printable(pairs[i+1]))
		}
	}
	return tw.Flush()
}

func showTime(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

// printable makes text from outside safe for a terminal: control characters,
// which could move the cursor or forge a line, become spaces.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			return ' '
		}
		return c
	}, s)
}

// shorten cuts text to n characters.
func shorten(s string, n int) string {
	runes := []rune(printable(s))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}
