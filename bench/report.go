//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// report writes what happens to the terminal and, run by run, to the file that
// keeps all results. A run is in the file as soon as it has ended, whatever
// becomes of the next.
type report struct {
	terminal io.Writer
	file     *os.File // nil keeps nothing
}

// reportIntro begins a new file.
const reportIntro = `# Results

Every run of the benchmark, the failed ones too, appended by the benchmark itself (` + "`go run ./bench -h`" + `
says what it does). CPU times, WAL bytes and ratios within one command compare well; rates of
different commands do not, as generator, engine, database and receiver share the machine.
"Other cores" is how many cores something else kept busy meanwhile. The baseline is the bare minimum:
accept, one group-committed INSERT, forward; it records nothing and recovers nothing.
`

// openReport appends to a file, "" for none.
func openReport(terminal io.Writer, name string) (*report, error) {
	r := &report{terminal: terminal}
	if name == "" {
		return r, nil
	}
	var err error
	if r.file, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("open the results: %w", err)
	}
	// Two at once would measure each other, and mix their tables.
	if err := syscall.Flock(int(r.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another benchmark is writing to %s: %w", name, err), r.file.Close())
	}
	if info, err := r.file.Stat(); err == nil && info.Size() == 0 {
		return r, r.keep(reportIntro)
	}
	return r, nil
}

func (r *report) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

func (r *report) keep(text string) error {
	if r.file == nil {
		return nil
	}
	if _, err := r.file.WriteString(text); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// both writes text to the terminal and to the file.
func (r *report) both(text string) error {
	fmt.Fprint(r.terminal, text)
	return r.keep(text)
}

// begin writes the command, the machine and the head of the table of runs.
func (r *report) begin(at time.Time, command []string, m machine) error {
	title := fmt.Sprintf("\n## %s\n\n    go run ./bench %s\n\n%s\n\n",
		at.UTC().Format("2006-01-02 15:04 UTC"), shellWords(command), m)
	fmt.Fprint(r.terminal, strings.TrimPrefix(title, "\n"))
	return r.keep(title + markdownHead(titles(runColumns)))
}

// shellWords joins arguments as a shell would take them.
func shellWords(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if words[i] = a; a == "" || strings.ContainsAny(a, " '\"$\\*?;&|<>()") {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// run writes a row.
func (r *report) run(res result) error {
	line := fmt.Sprintf("%s  round %d  %-20s %-16s %6.0f/s  %s ms  %s + %s µs", res.at.UTC().Format("15:04:05"), res.round,
		res.engine, res.phase, res.rate, res.arriveIn, microseconds(res.perEvent.engine), microseconds(res.perEvent.database))
	if n := note(res); n != "" {
		line += "  " + n
	}
	fmt.Fprintln(r.terminal, line)
	return r.keep(markdownRow(cells(runColumns, res)))
}

// end writes the medians and the budgets, and returns how many were missed.
func (r *report) end(groups []*group, findings []finding) (missed int, err error) {
	text := "\nMedians of the clean runs; ratios are medians of the ratios within a round.\n\n" + summaryTable(groups)
	budgets, missed := budgetTable(findings)
	if budgets != "" {
		text += "\n" + budgets
	}
	return missed, r.both(text)
}
