//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// commitToPostgres starts the committers: each sends a batch of prepared
// single-row INSERTs in one round trip and one transaction. Whether a commit is
// on disk when it returns is the server's synchronous_commit.
func commitToPostgres(ctx context.Context, c config, in <-chan *event, out chan<- *event) (func() error, error) {
	pool, err := pgxpool.New(ctx, c.dsn)
	if err != nil {
		return nil, fmt.Errorf("open PostgreSQL: %w", err)
	}
	const table = `CREATE TABLE IF NOT EXISTS event (id bigserial PRIMARY KEY, target text, body bytea)`
	if _, err := pool.Exec(ctx, table); err != nil {
		pool.Close()
		return nil, fmt.Errorf("create the table: %w", err)
	}
	ctx = context.WithoutCancel(ctx) // a commit under way ends as it ends
	for range c.committers {
		go func() {
			for e := range in {
				batch := gather(e, in, c.batch)
				var b pgx.Batch
				for _, e := range batch {
					b.Queue(`INSERT INTO event (target, body) VALUES ($1, $2)`, e.target, e.body)
				}
				release(batch, out, pool.SendBatch(ctx, &b).Close())
			}
		}()
	}
	return func() error { return nil }, nil // the connections end with the process
}
