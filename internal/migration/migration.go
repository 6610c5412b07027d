// Package migration decides which numbered schema migrations a database lacks.
// The drivers embed the files and run them; this package reads the files and
// compares them with what a database has recorded.
//
// A migration is a file NNNN_name.sql. Numbers start at 0001 and have no gaps. A
// file that was ever part of main never changes: a database records the SHA-256 of
// each migration it has run, and a program that has other bytes under the same
// name refuses to start.
//
// By default a migration must leave replicas of the previous version working, so
// that a rolling deploy needs no stop. A file with a line "-- exclusive" breaks
// them; the driver refuses to run it while such a replica is alive.
package migration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Migration is one step of a schema.
type Migration struct {
	Name      string // of the file, without .sql: "0001_initial"
	SQL       string
	Exclusive bool // replicas of the previous version do not work with the result
}

// Sum returns the SHA-256 of the SQL, in hexadecimal.
func (m Migration) Sum() string {
	sum := sha256.Sum256([]byte(m.SQL))
	return hex.EncodeToString(sum[:])
}

// Applied is a migration that a database has recorded.
type Applied struct {
	Name string
	Sum  string // SHA-256 of its SQL, in hexadecimal
}

// exclusiveLine marks a migration that replicas of the previous version don't survive.
const exclusiveLine = "-- exclusive\n"

// Read returns the migrations in the folder migrations of files, by number. It
// panics if a file has no number, or if the numbers have a gap: the files are part
// of the program.
func Read(files fs.FS) []Migration {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		panic(fmt.Sprintf("read migrations: %d files, %v", len(names), err))
	}
	slices.Sort(names)
	all := make([]Migration, 0, len(names))
	for i, file := range names {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "migrations/"), ".sql")
		if !strings.HasPrefix(name, fmt.Sprintf("%04d_", i+1)) {
			panic(fmt.Sprintf("read migrations: %s stands where number %04d belongs", file, i+1))
		}
		sql, err := fs.ReadFile(files, file)
		if err != nil {
			panic(fmt.Sprintf("read migrations: %v", err))
		}
		all = append(all, Migration{Name: name, SQL: string(sql), Exclusive: strings.Contains("\n"+string(sql), "\n"+exclusiveLine)})
	}
	return all
}

// Pending returns the migrations of all that are not in applied, which is sorted
// by name. It fails with an error that wraps store.ErrForeignSchema, and a hint,
// where applied has a migration that all lacks (a newer program made it), or the
// same name with another sum.
func Pending(all []Migration, applied []Applied) ([]Migration, error) {
	for i, have := range applied {
		if i >= len(all) {
			return nil, foreign(
				fmt.Sprintf("the database is at migration %s, and this program knows migrations up to %s", applied[len(applied)-1].Name, all[len(all)-1].Name),
				"run a version of posthaste at least as new as the one that migrated the database")
		}
		want := all[i]
		switch {
		case have.Name != want.Name:
			return nil, foreign(
				fmt.Sprintf("the database has a migration %q where this program has %q", have.Name, want.Name),
				"run the version of posthaste that made the database")
		case have.Sum != want.Sum():
			return nil, foreign(
				fmt.Sprintf("the database was made by another %s: its SHA-256 begins with %.8s, this program's begins with %.8s", have.Name, have.Sum, want.Sum()),
				"run the version of posthaste that made the database")
		}
	}
	return all[len(applied):], nil
}

// NotRecorded returns the error for a database without a record of migrations that
// holds a table as a migration would make it. why names the table.
func NotRecorded(why string) error {
	return foreign(fmt.Sprintf("the database holds tables that no migration of this program made: %s", why),
		"give Posthaste a database of its own")
}

// Needed returns the error for a database that lacks migrations and may not be changed.
func Needed(pending []Migration) error {
	return foreign(
		fmt.Sprintf("the database lacks %d migrations of this program, the first is %s", len(pending), pending[0].Name),
		"run posthaste migrate, or start the server with --migrate=auto")
}

// ReplicasAlive returns the error for an exclusive migration while replicas run.
func ReplicasAlive(m Migration, replicas []string) error {
	return foreign(
		fmt.Sprintf("migration %s must not run while replicas of an older version are alive: %s", m.Name, strings.Join(replicas, ", ")),
		"stop all replicas, then start the new version")
}

func foreign(message, hint string) error {
	return &posthaste.Error{Code: posthaste.CodeConflict, Message: message, Hint: hint, Err: store.ErrForeignSchema}
}

// SQL returns what a person would run by hand on an empty database: the
// migrations in order, then the statements that record them. record makes the
// statements of one driver.
func SQL(all []Migration, record func(Migration) string) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "-- %s\n\n%s\n", m.Name, m.SQL)
	}
	for _, m := range all {
		b.WriteString(record(m))
	}
	return b.String()
}
