package sqlite

import (
	"context"
	"errors"
)

// pool is the connections that read. Each reads the last committed state.
type pool struct {
	free chan *conn
	size int
}

func newPool(conns []*conn) *pool {
	p := &pool{free: make(chan *conn, len(conns)), size: len(conns)}
	for _, c := range conns {
		p.free <- c
	}
	return p
}

// do runs f on a connection of its own, under the deadline of ctx.
func (p *pool) do(ctx context.Context, f func(*conn) error) error {
	select {
	case c := <-p.free:
		defer func() { p.free <- c }()
		c.SetInterrupt(ctx.Done())
		err := f(c)
		c.SetInterrupt(nil)
		c.rollback()
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hold takes every connection out of the pool, so that nobody reads, or gives
// up when ctx ends first. The caller calls release.
func (p *pool) hold(ctx context.Context) (release func(), err error) {
	held := make([]*conn, 0, p.size)
	release = func() {
		for _, c := range held {
			p.free <- c
		}
	}
	for len(held) < p.size {
		select {
		case c := <-p.free:
			held = append(held, c)
		case <-ctx.Done():
			release()
			return nil, ctx.Err()
		}
	}
	return release, nil
}

// close waits for the readers and closes their connections; none may come after.
func (p *pool) close() error {
	var errs []error
	for range p.size {
		errs = append(errs, (<-p.free).Close())
	}
	return errors.Join(errs...)
}
