package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
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

// printer writes the results of one command: for people, or as JSON.
type printer struct {
	Streams
	json bool
}

// object prints one thing: as JSON, or as people read it.
func (p printer) object(v any, forPeople func() error) error {
	if p.json {
		return printJSON(p.Stdout, v)
	}
	return forPeople()
}

// table prints a list for people: the head, and a row for each item.
type table[T any] struct {
	head []string
	row  func(T) []string
	none string // printed to the messages where there is nothing
}

// allTenants is what --tenant takes for the lists of all tenants.
const allTenants = "*"

// withTenant is the table of a list of all tenants: it says whose each item is.
func withTenant[T any](t table[T], of func(T) string) table[T] {
	row := t.row
	t.head = append([]string{"TENANT"}, t.head...)
	t.row = func(item T) []string { return append([]string{of(item)}, row(item)...) }
	return t
}

// print writes at most limit items of a list: as a table, or one JSON object a line.
func (t table[T]) print(p printer, items iter.Seq2[T, error], limit int) error {
	rows := [][]string{t.head}
	n := 0
	var failure error
	for item, err := range items {
		if err != nil {
			failure = err
			break // what came before the error is worth showing
		}
		if !p.json {
			rows = append(rows, t.row(item))
		} else if err := printJSON(p.Stdout, item); err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	switch {
	case p.json:
	case n > 0:
		return errors.Join(columns(p.Stdout, rows), failure)
	case failure == nil:
		_, _ = fmt.Fprintln(p.Stderr, t.none)
	}
	return failure
}

// columns prints rows in columns, without spaces at the ends of lines.
func columns(w io.Writer, rows [][]string) error {
	var aligned bytes.Buffer
	tw := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(tw, strings.Join(row, "\t")) // into memory: it cannot fail
	}
	_ = tw.Flush()
	for line := range strings.Lines(aligned.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// fields prints one object for people: a name and a value a line. Empty values
// are left out.
func fields(w io.Writer, pairs ...string) error {
	var rows [][]string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			rows = append(rows, []string{pairs[i], printable(pairs[i+1])})
		}
	}
	return columns(w, rows)
}

// orDash keeps the columns of a table apart where a value is empty.
func orDash(value string) string {
	if value == "" {
		return "-"
	}
	return printable(value)
}

func showMetadata(metadata map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		pairs = append(pairs, key+"="+metadata[key])
	}
	return strings.Join(pairs, ", ")
}

// showTime shows a time as the API does, in UTC, so that it can be given back to --since.
func showTime(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// clock is the form of a time of today, in UTC.
const clock = "15:04:05.000Z"

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
