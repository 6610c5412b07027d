package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// Begin begins a transaction on the way of an event, for an outbox that is in the same
// database: its rows can be moved and their events be accepted in one commit. It has to
// end within seconds.
func (db *DB) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := db.relays.Begin(ctx)
	if err != nil {
		return nil, fail("begin a transaction", err)
	}
	return tx, nil
}

// AcceptWithin is Accept in a transaction that [DB.Begin] began. It does not commit: until
// the caller does, nothing is stored, and the replica cannot be reclaimed. After an error
// the transaction can only be rolled back, after store.ErrFenced and a stale routing it can
// go on.
func (db *DB) AcceptWithin(ctx context.Context, tx pgx.Tx, p store.AcceptParams) (store.Accepted, error) {
	within := &DB{pools: pools{hot: &pool{tx: tx}}}
	accepted, err := within.accept(ctx, p)
	if isMissingPartition(err) {
		// Made for the next transaction: this one has failed, and holds no lock any more.
		first, last := p.Events[0].ID, p.Events[0].ID
		for i := range p.Events {
			first, last = lower(first, p.Events[i].ID), higher(last, p.Events[i].ID)
		}
		if err := db.MakePartitions(ctx, first.Time(), last.Time()); err != nil {
			return store.Accepted{}, err
		}
		err = unfinished(err)
	}
	if err != nil {
		return store.Accepted{}, fail(fmt.Sprintf("accept %d events", len(p.Events)), err)
	}
	return accepted, nil
}
