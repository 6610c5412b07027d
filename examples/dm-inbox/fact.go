package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/posthaste-dev/posthaste/inbound/meta"
)

// What happens to a message that may not be there yet. Each fact is stored as a
// row of its own, once; if its message is there it is applied at once, else by
// [change.addMessage]. Facts that come in the wrong order end in the same state: of
// two edits, or two reactions of one person, the later one counts.

type (
	edit     meta.Edit
	reaction meta.Reaction
	read     meta.Read
	unsend   meta.Message
)

func (e edit) direct() meta.Direct     { return e.Direct }
func (r reaction) direct() meta.Direct { return r.Direct }
func (r read) direct() meta.Direct     { return r.Direct }
func (u unsend) direct() meta.Direct   { return u.Direct }

func (e edit) apply(ctx context.Context, c *change) error {
	row := editRow{e.MID, e.Text, int64(e.Number), millis(e.At), c.origin}
	isNew, err := changed(ctx, c.tx, `
		INSERT INTO edits (account_id, mid, number, at, lead_id, text, event_id, correlation_id)
		SELECT $1, $2, $3, $4, $5, CASE WHEN EXISTS (SELECT 1 FROM unsends WHERE account_id = $1 AND mid = $2) THEN '' ELSE $6 END, $7, $8
		ON CONFLICT (account_id, mid, number, at) DO NOTHING`,
		c.account.ID, row.mid, row.number, row.at, c.lead.ID, row.text, c.EventID, c.CorrelationID)
	if err != nil || !isNew {
		return err
	}
	c.log.InfoContext(ctx, "stored an edit", "mid", e.MID)
	return c.applyEdit(ctx, row)
}

type editRow struct {
	mid, text  string
	number, at int64
	origin     origin
}

// applyEdit gives a message its new text, unless that is older than the one it
// has or the message was taken back. In development mode Instagram counts every edit
// as 0, so the time decides between equals.
func (c *change) applyEdit(ctx context.Context, e editRow) error {
	var unsentAt int64
	err := c.tx.QueryRowContext(ctx, `
		UPDATE messages SET text = CASE WHEN unsent_at = 0 THEN $3 ELSE text END, edit_number = $4, edited_at = $5
		WHERE account_id = $1 AND mid = $2 AND (edit_number < $4 OR edit_number = $4 AND edited_at < $5) RETURNING unsent_at`,
		c.account.ID, e.mid, e.text, e.number, e.at).Scan(&unsentAt)
	if errors.Is(err, sql.ErrNoRows) || err == nil && unsentAt > 0 {
		return nil // not there yet, outdated, or nothing to see
	}
	if err != nil {
		return err
	}
	return c.because(e.origin).tell(ctx, typeMessageEdited, map[string]any{"mid": e.mid, "text": e.text, "at": e.at})
}

func (r reaction) apply(ctx context.Context, c *change) error {
	var removed int64
	if r.Removed {
		removed = 1
	}
	row := reactionRow{r.MID, r.Sender.ID, r.Emoji, r.Name, removed, millis(r.At), c.origin}
	hasChanged, err := changed(ctx, c.tx, `
		INSERT INTO reactions (account_id, mid, sender_id, lead_id, emoji, name, removed, at, event_id, correlation_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (account_id, mid, sender_id) DO UPDATE SET emoji = excluded.emoji, name = excluded.name, removed = excluded.removed,
			at = excluded.at, event_id = excluded.event_id, correlation_id = excluded.correlation_id
		WHERE reactions.at < excluded.at OR reactions.at = excluded.at AND reactions.removed < excluded.removed`,
		c.account.ID, row.mid, row.sender, c.lead.ID, row.emoji, row.name, row.removed, row.at, c.EventID, c.CorrelationID)
	if err != nil || !hasChanged {
		return err
	}
	c.log.InfoContext(ctx, "stored a reaction", "mid", r.MID, "removed", r.Removed)
	if has, err := c.hasMessage(ctx, r.MID); err != nil || !has {
		return err
	}
	return c.tellReaction(ctx, row)
}

type reactionRow struct {
	mid, sender, emoji, name string
	removed, at              int64
	origin                   origin
}

func (c *change) tellReaction(ctx context.Context, r reactionRow) error {
	return c.because(r.origin).tell(ctx, typeReactionChanged, map[string]any{
		"mid": r.mid, "sender_id": r.sender, "emoji": r.emoji, "name": r.name, "removed": r.removed == 1, "at": r.at,
	})
}

// apply marks what the customer has read: the one message on Instagram, all of ours
// up to a time in Messenger.
func (r read) apply(ctx context.Context, c *change) error {
	row := readRow{r.MID, millis(r.Watermark), millis(r.At), c.origin}
	isNew, err := changed(ctx, c.tx, `
		INSERT INTO reads (account_id, user_id, mid, up_to, lead_id, at, event_id, correlation_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (account_id, user_id, mid, up_to) DO NOTHING`,
		c.account.ID, c.lead.UserID, row.mid, row.upTo, c.lead.ID, row.at, c.EventID, c.CorrelationID)
	if err != nil || !isNew {
		return err
	}
	c.log.InfoContext(ctx, "stored a read", "mid", r.MID, "up_to", row.upTo)
	return c.applyRead(ctx, row, "")
}

type readRow struct {
	mid      string
	upTo, at int64
	origin   origin
}

// applyRead marks the message that was read, or with a watermark all of ours until then; of
// these, where onlyMID is given, that one. The earliest time counts.
func (c *change) applyRead(ctx context.Context, r readRow, onlyMID string) error {
	rows, err := c.tx.QueryContext(ctx, `
		UPDATE messages SET read_at = $5
		WHERE lead_id = $1 AND (read_at = 0 OR read_at > $5) AND (mid = $2 OR $2 = '' AND direction = 'out' AND at <= $3 AND ($4 = '' OR mid = $4))
		RETURNING mid`, c.lead.ID, r.mid, r.upTo, onlyMID, max(r.at, 1))
	if err != nil {
		return err
	}
	mids, err := collect(rows, func(mid *string) []any { return []any{mid} })
	if err != nil || len(mids) == 0 {
		return err
	}
	return c.because(r.origin).tell(ctx, typeMessageRead, map[string]any{"mids": mids, "at": r.at})
}

func (u unsend) apply(ctx context.Context, c *change) error {
	isNew, err := changed(ctx, c.tx, `
		INSERT INTO unsends (account_id, mid, lead_id, at, event_id, correlation_id)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (account_id, mid) DO NOTHING`,
		c.account.ID, u.MID, c.lead.ID, millis(u.At), c.EventID, c.CorrelationID)
	if err != nil || !isNew {
		return err
	}
	c.log.InfoContext(ctx, "stored an unsend", "mid", u.MID)
	for _, statement := range []string{ // what the customer took back is gone
		`UPDATE story_mentions SET url = '' WHERE account_id = $1 AND mid = $2`,
		`UPDATE edits SET text = '' WHERE account_id = $1 AND mid = $2`,
	} {
		if _, err := c.tx.ExecContext(ctx, statement, c.account.ID, u.MID); err != nil {
			return err
		}
	}
	hasChanged, err := changed(ctx, c.tx, `
		UPDATE messages SET unsent_at = $3, text = '', attachments = '[]' WHERE account_id = $1 AND mid = $2`,
		c.account.ID, u.MID, max(millis(u.At), 1))
	if err != nil || !hasChanged {
		return err
	}
	return c.tell(ctx, typeMessageEdited, map[string]any{"mid": u.MID, "unsent": true, "at": millis(u.At)})
}

func (c *change) hasMessage(ctx context.Context, mid string) (has bool, err error) {
	err = c.tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM messages WHERE account_id = $1 AND mid = $2)`, c.account.ID, mid).Scan(&has)
	return has, err
}
