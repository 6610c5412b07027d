package sqlite

import (
	"context"
	"errors"
)

// readers are the connections that read, a pool for each kind of work. A read waits
// only for reads of its own kind, so a long list or a chore holds up neither the
// heartbeat nor a delivery.
type readers struct {
	side    *pool // reads of the API, and the stream
	vital   *pool // the heartbeat's
	lookups *pool // routing, tenants, keys: an event waits for them
	loads   *pool // payloads, which may be large
	chores  *pool // looks, repairs, retention
}

// openReaders opens n connections for the API, and one for each other kind.
func (db *DB) openReaders(n int) (r readers, err error) {
	for _, p := range []struct {
		pool **pool
		size int
	}{{&r.side, n}, {&r.vital, 1}, {&r.lookups, 1}, {&r.loads, 1}, {&r.chores, 1}} {
		conns := make([]*conn, 0, p.size)
		for range p.size {
			c, err := db.openReader()
			if err != nil {
				return r, errors.Join(err, newPool(conns).close(), r.close())
			}
			conns = append(conns, c)
		}
		*p.pool = newPool(conns)
	}
	return r, nil
}

// all lists the pools that are open.
func (r *readers) all() (out []*pool) {
	for _, p := range []*pool{r.side, r.vital, r.lookups, r.loads, r.chores} {
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}

// hold takes every connection out of the pools, so that nobody reads, or gives up
// when ctx ends first. The caller calls release.
func (r *readers) hold(ctx context.Context) (release func(), err error) {
	var held []func()
	release = func() {
		for _, f := range held {
			f()
		}
	}
	for _, p := range r.all() {
		f, err := p.hold(ctx)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, f)
	}
	return release, nil
}

// close waits for the readers and closes their connections; none may come after.
func (r *readers) close() error {
	var errs []error
	for _, p := range r.all() {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}
