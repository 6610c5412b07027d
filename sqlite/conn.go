package sqlite

import (
	"errors"
	"fmt"
	"iter"
	"time"

	zs "zombiezen.com/go/sqlite"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// conn is a connection with its prepared statements, which it keeps for life.
// One goroutine at a time uses it.
type conn struct {
	*zs.Conn
	wrote bool // a statement changed a row since this was last cleared
}

func openConn(path string, flags zs.OpenFlags, pragmas ...string) (*conn, error) {
	raw, err := zs.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw}
	// Another program (the sqlite3 shell, a backup) may hold a lock for a moment.
	c.SetBusyTimeout(busyTimeout)
	for _, p := range pragmas {
		for _, err := range c.rows("PRAGMA " + p) {
			if err != nil {
				return nil, errors.Join(fmt.Errorf("PRAGMA %s: %w", p, err), c.Close())
			}
		}
	}
	return c, nil
}

// exec runs a statement that returns no rows and reports how many it changed.
func (c *conn) exec(query string, args ...any) (int, error) {
	s, err := c.Prepare(query)
	if err != nil {
		return 0, err
	}
	bind(s, args)
	if _, err := s.Step(); err != nil {
		return 0, err
	}
	n := c.Changes()
	c.wrote = c.wrote || n > 0
	return n, nil
}

// get runs a query that gives one row at most and reports whether it did. scan
// reads it.
func (c *conn) get(query string, scan func(row), args ...any) (bool, error) {
	s, err := c.Prepare(query)
	if err != nil {
		return false, err
	}
	bind(s, args)
	found, err := s.Step()
	if err != nil {
		return false, err
	}
	if found {
		scan(row{s})
	}
	return found, s.Reset()
}

// rows runs a query and yields its rows, each valid until the next. The
// statement is reset when the loop ends, however it ends: one that is left open
// would keep its snapshot and, with it, the write-ahead log from shrinking.
func (c *conn) rows(query string, args ...any) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		s, err := c.Prepare(query)
		if err != nil {
			yield(row{}, err)
			return
		}
		bind(s, args)
		defer s.Reset() //nolint:errcheck // it repeats the error of the last Step
		for {
			more, err := s.Step()
			if err != nil {
				yield(row{}, err)
				return
			}
			if !more || !yield(row{s}, nil) {
				return
			}
		}
	}
}

// snapshot runs f in a read transaction, so that all its queries see one state.
func (c *conn) snapshot(f func() error) error {
	if _, err := c.exec("BEGIN"); err != nil {
		return err
	}
	err := f()
	if err != nil {
		c.rollback()
		return err
	}
	_, err = c.exec("COMMIT")
	return err
}

// rollback leaves the transaction, if the connection is in one. SQLite has
// already left it itself after some errors, such as a full disk.
func (c *conn) rollback() {
	if c.AutocommitEnabled() {
		return
	}
	// A rollback can't be refused: it drops pages from memory. Should the file be
	// unreadable, the connection is in no transaction all the same.
	c.exec("ROLLBACK") //nolint:errcheck // see above
}

// bind gives the arguments to the parameters ?1, ?2 … . Empty byte slices and
// zero ids are bound as they are.
func bind(s *zs.Stmt, args []any) {
	for i, a := range args {
		switch v := a.(type) {
		case int64:
			s.BindInt64(i+1, v)
		case int:
			s.BindInt64(i+1, int64(v))
		case posthaste.ID:
			s.BindBytes(i+1, v[:])
		case []byte:
			s.BindBytes(i+1, v)
		case string:
			s.BindText(i+1, v)
		case time.Time:
			s.BindInt64(i+1, micros(v))
		case store.Hash:
			s.BindBytes(i+1, v[:])
		case store.EndpointNo:
			s.BindInt64(i+1, int64(v))
		case store.TenantNo:
			s.BindInt64(i+1, int64(v))
		case store.Epoch:
			s.BindInt64(i+1, int64(v))
		case bool:
			s.BindBool(i+1, v)
		case nil:
			s.BindNull(i + 1)
		default:
			panic("sqlite: an argument of a type that bind does not know")
		}
	}
}

// micros is the stored form of a time: microseconds since 1970, 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// row reads the columns of the present row, counted from 0.
type row struct{ *zs.Stmt }

func (r row) id(col int) (id posthaste.ID) {
	r.ColumnBytes(col, id[:])
	return id
}

func (r row) hash(col int) (h store.Hash) {
	r.ColumnBytes(col, h[:])
	return h
}

// bytes is a copy of a blob; nil for NULL.
func (r row) bytes(col int) []byte {
	if r.ColumnIsNull(col) {
		return nil
	}
	b := make([]byte, r.ColumnLen(col))
	r.ColumnBytes(col, b)
	return b
}

func (r row) at(col int) time.Time {
	us := r.ColumnInt64(col)
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func (r row) endpoint(col int) store.EndpointNo { return store.EndpointNo(r.ColumnInt64(col)) }
func (r row) tenant(col int) store.TenantNo     { return store.TenantNo(r.ColumnInt64(col)) }
func (r row) epoch(col int) store.Epoch         { return store.Epoch(r.ColumnInt64(col)) }

// following is the smallest id above id, where a walk that includes its
// beginning goes on; zero above the highest.
func following(id posthaste.ID) posthaste.ID {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]++
		if id[i] != 0 {
			break
		}
	}
	return id
}
