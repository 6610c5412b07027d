//go:build linux

package main

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// column is one column of a table of results.
type column struct {
	title string
	cell  func(r result) string
}

// runColumns are those of the table with a row a run.
var runColumns = []column{
	{"time", func(r result) string { return r.at.UTC().Format("15:04:05") }},
	{"round", func(r result) string { return fmt.Sprint(r.round) }},
	{"engine", func(r result) string { return r.engine }},
	{"phase", func(r result) string { return r.phase }},
	{"delivered/s", func(r result) string { return fmt.Sprintf("%.0f", r.rate) }},
	{"accepted/s", func(r result) string { return fmt.Sprintf("%.0f", r.acceptRate) }},
	{"accepted", func(r result) string { return fmt.Sprint(r.accepted) }},
	{"lost", func(r result) string { return fmt.Sprint(r.lost) }},
	{"dup", func(r result) string { return fmt.Sprint(r.duplicates) }},
	{"503", func(r result) string { return fmt.Sprint(r.refused) }},
	{"to 202, ms p50/95/99", func(r result) string { return r.acceptTime.String() }},
	{"to arrival, ms p50/95/99", func(r result) string { return r.arriveIn.String() }},
	{"max", func(r result) string { return milliseconds(r.arriveIn.max) }},
	// The three that follow are per delivered event.
	{"CPU µs: engine", func(r result) string { return microseconds(r.perEvent.engine) }},
	{"database", func(r result) string { return microseconds(r.perEvent.database) }},
	{"load", func(r result) string { return microseconds(r.perEvent.load) }},
	{"other cores", func(r result) string { return fmt.Sprintf("%.2f", r.others) }},
	{"WAL B", func(r result) string {
		return number("%.0f", unlessZero(r.perEvent.walBytes))
	}},
	{"HOT", func(r result) string { return number("%.2f", r.hotShare) }},
	{"MB idle", func(r result) string { return megabytes(r.idleBytes) }},
	{"MB peak", func(r result) string { return megabytes(r.engineBytes) }},
	{"MB database", func(r result) string { return megabytes(r.dbBytes) }},
	{"ready ms", func(r result) string { return fmt.Sprint(r.ready.Milliseconds()) }},
	{"note", note},
}

// note is what the figures do not say by themselves.
func note(r result) string {
	var notes []string
	if r.err != "" {
		notes = append(notes, "**failed**: "+oneLine(r.err))
	} else if r.firstError != "" {
		notes = append(notes, "first error: "+oneLine(r.firstError))
	}
	if r.remark != "" {
		notes = append(notes, r.remark)
	}
	if r.unacknowledged > 0 {
		notes = append(notes, fmt.Sprintf("%d delivered without a 2xx", r.unacknowledged))
	}
	if r.settled > time.Second {
		notes = append(notes, fmt.Sprintf("records complete %.1f s late", r.settled.Seconds()))
	}
	return strings.Join(notes, "; ")
}

// oneLine makes an error fit a cell: joined errors have line breaks, and a bar
// would end the cell.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	s = strings.ReplaceAll(s, "|", "\\|")
	const most = 400
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "")
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1e6) }

func microseconds(d time.Duration) string { return number("%.0f", unlessZero(float64(d)/1e3)) }

func megabytes(n int64) string { return number("%.0f", unlessZero(float64(n)/(1<<20))) }

// number formats a figure, and one that was not measured, NaN, as a dash.
func number(format string, v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

// unlessZero is v, and NaN where 0 means that there was nothing to measure.
func unlessZero(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// String is "p50 / p95 / p99" in milliseconds.
func (l latency) String() string {
	return milliseconds(l.p50) + " / " + milliseconds(l.p95) + " / " + milliseconds(l.p99)
}

func titles(columns []column) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.title
	}
	return out
}

func cells(columns []column, r result) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.cell(r)
	}
	return out
}

// markdownHead is the first two lines of a table.
func markdownHead(titles []string) string {
	return markdownRow(titles) + "|" + strings.Repeat("---|", len(titles)) + "\n"
}

func markdownRow(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// markdownTable is a whole table, its columns aligned so that a terminal shows
// it as well as a browser.
func markdownTable(titles []string, rows [][]string) string {
	width := make([]int, len(titles))
	for _, row := range append([][]string{titles}, rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	pad := func(row []string) []string {
		out := make([]string, len(row))
		for i, cell := range row {
			out[i] = cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
		}
		return out
	}
	rule := make([]string, len(titles))
	for i := range rule {
		rule[i] = strings.Repeat("-", width[i])
	}
	var b strings.Builder
	b.WriteString(markdownRow(pad(titles)))
	b.WriteString(markdownRow(rule))
	for _, row := range rows {
		b.WriteString(markdownRow(pad(row)))
	}
	return b.String()
}
