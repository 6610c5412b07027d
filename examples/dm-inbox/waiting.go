package main

import (
	"context"
	"database/sql"
	"errors"
)

// applyWaiting applies what came before its message. What browsers are told of it
// carries the ids of the event that it came with.
func (c *change) applyWaiting(ctx context.Context, m Message) error {
	if err := c.applyWaitingEdits(ctx, m.MID); err != nil {
		return err
	}
	if err := c.applyWaitingReactions(ctx, m.MID); err != nil {
		return err
	}
	return c.applyWaitingReads(ctx, m)
}

func (c *change) applyWaitingEdits(ctx context.Context, mid string) error {
	rows, err := c.tx.QueryContext(ctx, `
		SELECT mid, text, number, at, event_id, correlation_id FROM edits
		WHERE account_id = $1 AND mid = $2 ORDER BY number DESC, at DESC LIMIT 1`, c.account.ID, mid)
	if err != nil {
		return err
	}
	waiting, err := collect(rows, func(e *editRow) []any {
		return []any{&e.mid, &e.text, &e.number, &e.at, &e.origin.EventID, &e.origin.CorrelationID}
	})
	if err != nil {
		return err
	}
	for _, e := range waiting {
		if err := c.applyEdit(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// unsentAt is when a message was taken back that is not there yet; 0 if it was not.
func (c *change) unsentAt(ctx context.Context, mid string) (at int64, err error) {
	err = c.tx.QueryRowContext(ctx, `SELECT at FROM unsends WHERE account_id = $1 AND mid = $2`, c.account.ID, mid).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return max(at, 1), err
}

func (c *change) applyWaitingReactions(ctx context.Context, mid string) error {
	rows, err := c.tx.QueryContext(ctx, `
		SELECT mid, sender_id, emoji, name, removed, at, event_id, correlation_id FROM reactions
		WHERE account_id = $1 AND mid = $2 ORDER BY sender_id`, c.account.ID, mid)
	if err != nil {
		return err
	}
	waiting, err := collect(rows, func(r *reactionRow) []any {
		return []any{&r.mid, &r.sender, &r.emoji, &r.name, &r.removed, &r.at, &r.origin.EventID, &r.origin.CorrelationID}
	})
	if err != nil {
		return err
	}
	for _, r := range waiting {
		if err := c.tellReaction(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// applyWaitingReads takes the earliest read that covers the message.
func (c *change) applyWaitingReads(ctx context.Context, m Message) error {
	rows, err := c.tx.QueryContext(ctx, `
		SELECT mid, up_to, at, event_id, correlation_id FROM reads
		WHERE account_id = $1 AND user_id = $2 AND (mid = $3 OR $5 = 'out' AND mid = '' AND up_to >= $4) ORDER BY at LIMIT 1`,
		c.account.ID, c.lead.UserID, m.MID, m.At, m.Direction)
	if err != nil {
		return err
	}
	waiting, err := collect(rows, func(r *readRow) []any {
		return []any{&r.mid, &r.upTo, &r.at, &r.origin.EventID, &r.origin.CorrelationID}
	})
	if err != nil {
		return err
	}
	for _, r := range waiting {
		if err := c.applyRead(ctx, r, m.MID); err != nil {
			return err
		}
	}
	return nil
}

// collect reads all rows, each into what fields says of a T. A transaction has one
// connection, which is free for the next statement only after the last row.
func collect[T any](rows *sql.Rows, fields func(*T) []any) ([]T, error) {
	defer rows.Close()
	var all []T
	for rows.Next() {
		var row T
		if err := rows.Scan(fields(&row)...); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}
