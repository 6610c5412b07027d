package outbox

import (
	"context"
)

// dialectSQL is true as PostgreSQL has it, 1 as SQLite has it.
const dialectSQL = `select 1 = 1`

// enqueueSQL finds out by what the database answers whether it is PostgreSQL or
// SQLite: a transaction does not say. PostgreSQL comes first, since there a statement
// costs a round trip, and one that fails the transaction; SQLite refuses it while it
// reads it.
func enqueueSQL(ctx context.Context, tx sqlTx, events []Event) ([]ID, error) {
	ids, err := enqueuePostgres(ctx, tx, events)
	if err == nil {
		return ids, nil
	}
	var answer any
	if tx.QueryRowContext(ctx, dialectSQL).Scan(&answer) != nil {
		return nil, err
	}
	if _, isSQLite := answer.(int64); !isSQLite {
		return nil, err
	}
	return enqueueSQLite(ctx, tx, events)
}

const insertSQLite = `INSERT INTO posthaste_outbox (row_id, tenant, type, order_key, idempotency_key, content_type, headers, payload)
VALUES (?1, coalesce(?2, 'default'), ?3, ?4, ?5, coalesce(?6, 'application/json'), coalesce(?7, '{}'), ?8)`

func enqueueSQLite(ctx context.Context, tx sqlTx, events []Event) ([]ID, error) {
	ids := make([]ID, len(events))
	for i, e := range events {
		ids[i] = newID()
		_, err := tx.ExecContext(ctx, insertSQLite, ids[i][:], orDefault(e.Tenant), e.Type, orDefault(e.OrderKey), orDefault(e.IdempotencyKey),
			orDefault(e.ContentType), headersOf(e), notNil(e.Payload))
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}
