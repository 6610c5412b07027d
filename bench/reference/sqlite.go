//go:build linux

package main

import (
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// writer owns the one connection that writes.
//
// The driver was chosen because it makes the higher floor: at batches of 64 an
// insert of 1 KiB took 6 to 7 µs of CPU through zombiezen.com/go/sqlite, 10 µs
// through database/sql on modernc.org/sqlite, which is the same SQLite
// underneath.
type writer struct {
	conn             *sqlite.Conn
	begin, insert    *sqlite.Stmt
	commit, rollback *sqlite.Stmt
}

// commitToSQLite starts the writer: prepared INSERTs, one transaction a batch,
// in WAL mode with synchronous=FULL, so that a commit is on disk when it returns.
func commitToSQLite(c config, in <-chan *event, out chan<- *event) (func() error, error) {
	w, err := openWriter(c.sqliteFile)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", c.sqliteFile, err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case e := <-in:
				batch := gather(e, in, c.batch)
				release(batch, out, w.store(batch))
			case <-stop:
				return
			}
		}
	}()
	return func() error {
		close(stop)
		<-stopped
		return w.conn.Close()
	}, nil
}

func openWriter(file string) (*writer, error) {
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
	if err != nil {
		return nil, err
	}
	for _, sql := range []string{
		`PRAGMA synchronous = FULL`,
		`CREATE TABLE IF NOT EXISTS event (id INTEGER PRIMARY KEY, target TEXT, body BLOB)`,
	} {
		if err := sqlitex.ExecuteTransient(conn, sql, nil); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	w := &writer{conn: conn}
	for sql, stmt := range map[string]**sqlite.Stmt{
		`BEGIN IMMEDIATE`: &w.begin,
		`COMMIT`:          &w.commit,
		`ROLLBACK`:        &w.rollback,
		`INSERT INTO event (target, body) VALUES (?, ?)`: &w.insert,
	} {
		if *stmt, err = conn.Prepare(sql); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare %s: %w", sql, err), conn.Close())
		}
	}
	return w, nil
}

// store commits a batch, or nothing of it.
func (w *writer) store(batch []*event) error {
	if err := step(w.begin); err != nil {
		return err
	}
	for _, e := range batch {
		w.insert.BindText(1, e.target)
		w.insert.BindBytes(2, e.body)
		if err := step(w.insert); err != nil {
			return errors.Join(err, step(w.rollback))
		}
	}
	if err := step(w.commit); err != nil {
		return errors.Join(err, step(w.rollback))
	}
	return nil
}

func step(stmt *sqlite.Stmt) error {
	_, err := stmt.Step()
	return errors.Join(err, stmt.Reset())
}
