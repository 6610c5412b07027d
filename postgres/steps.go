package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// steps is a transaction in which the client decides something between two
// statements. It costs a round trip for each batch: it begins with the first one and
// ends with the last.
type steps struct {
	conn *pgxpool.Conn
}

// lockWaitSQL bounds each wait for a lock, until the transaction ends.
const lockWaitSQL = `select set_config('lock_timeout', $1, true)`

// begin begins a transaction with a batch. The caller ends it in any case.
func (p *pool) begin(ctx context.Context, lockWait time.Duration, batch *pgx.Batch) (*steps, error) {
	conn, err := p.conns.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	whole := &pgx.Batch{}
	whole.Queue(beginLocal)
	if p.local != "" {
		whole.Queue(p.local)
	}
	whole.Queue(lockWaitSQL, fmt.Sprintf("%dms", lockWait.Milliseconds()))
	whole.QueuedQueries = append(whole.QueuedQueries, batch.QueuedQueries...)
	s := &steps{conn: conn}
	if err := s.run(ctx, whole); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

func (s *steps) run(ctx context.Context, batch *pgx.Batch) error {
	return s.conn.SendBatch(ctx, batch).Close()
}

// commit runs a last batch, and commits.
func (s *steps) commit(ctx context.Context, batch *pgx.Batch) error {
	batch.Queue("commit")
	return s.run(ctx, batch)
}

// end undoes what was not committed, and gives the connection back.
func (s *steps) end() {
	defer s.conn.Release()
	rollBack(s.conn)
}

// rollBack leaves the transaction that a connection may be in: it would be closed
// otherwise, and by the pooler the session behind it.
func rollBack(conn *pgxpool.Conn) {
	if pg := conn.Conn().PgConn(); pg.IsClosed() || pg.TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // the call's may be over
	defer cancel()
	_, _ = conn.Exec(ctx, "rollback") // if not, Release closes the connection
}
