package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/posthaste-dev/posthaste/engine"
)

// Classifier says in a word what a customer wants. It may take its time, for example
// to ask a model: it runs beside the storing of messages, with retries of its own.
type Classifier func(ctx context.Context, text string) (intent string, err error)

// classifyByWords is enough to see the step at work.
func classifyByWords(_ context.Context, text string) (string, error) {
	text = strings.ToLower(text)
	for _, rule := range []struct{ intent, words string }{
		{"order", "price cost buy order available deliver ship"},
		{"support", "help broken problem refund return late"},
		{"thanks", "thank thx great love"},
	} {
		for word := range strings.FieldsSeq(rule.words) {
			if strings.Contains(text, word) {
				return rule.intent, nil
			}
		}
	}
	return "other", nil
}

// handleIntent classifies a message of a customer. There is one message.created for
// each stored message, so this runs once for each; if it fails it is tried again, and
// what has an intent keeps it.
func (in *Inbox) handleIntent(ctx context.Context, d engine.Delivery) error {
	var created struct {
		AccountID string `json:"account_id"`
		MID       string `json:"mid"`
		LeadID    string `json:"lead_id"`
		Direction string `json:"direction"`
		Text      string `json:"text"`
	}
	if err := json.Unmarshal(d.Payload, &created); err != nil {
		return engine.Permanent(err)
	}
	if created.Direction != directionIn || created.Text == "" {
		return nil
	}
	log := in.logOf(d)
	if done, err := in.store.hasIntent(ctx, created.AccountID, created.MID); err != nil {
		return err
	} else if done {
		return in.tell(ctx, d)
	}
	intent, err := in.config.Classify(ctx, created.Text)
	if err != nil {
		return fmt.Errorf("classify: %w", err)
	}
	err = in.store.inTx(ctx, func(tx *sql.Tx) error {
		c := newChange(tx, d, log)
		if err := c.holdLead(ctx, created.LeadID); err != nil {
			return err
		}
		isFirst, err := changed(ctx, tx, `UPDATE messages SET intent = $3 WHERE account_id = $1 AND mid = $2 AND intent = ''`,
			created.AccountID, created.MID, intent)
		if err != nil || !isFirst {
			return err
		}
		c.log.InfoContext(ctx, "classified", "mid", created.MID, "intent", intent)
		if c.lead.Intent == intent {
			return nil
		}
		if _, err := tx.ExecContext(ctx, `UPDATE leads SET intent = $2 WHERE id = $1`, created.LeadID, intent); err != nil {
			return err
		}
		return c.tell(ctx, typeLeadUpdated, map[string]any{"intent": intent})
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil // the customer was erased meanwhile
	}
	if err != nil {
		return fmt.Errorf("store the intent: %w", err)
	}
	return in.tell(ctx, d)
}

// hasIntent is true also for a message that is gone.
func (s *Store) hasIntent(ctx context.Context, accountID, mid string) (has bool, err error) {
	err = s.read.QueryRowContext(ctx, `
		SELECT NOT EXISTS (SELECT 1 FROM messages WHERE account_id = $1 AND mid = $2 AND intent = '')`, accountID, mid).Scan(&has)
	return has, err
}
