package main

import (
	"context"
	"encoding/json"

	"github.com/posthaste-dev/posthaste/inbound/meta"
)

// Message is a row of messages.
type Message struct {
	AccountID, MID, LeadID, Direction, Kind, Text, Attachments, ReplyTo, Intent string
	At, EditNumber, EditedAt, UnsentAt, ReadAt                                  int64
}

// The directions.
const (
	directionIn  = "in"
	directionOut = "out"
)

type (
	message  meta.Message
	postback meta.Postback
)

func (m message) direct() meta.Direct  { return m.Direct }
func (p postback) direct() meta.Direct { return p.Direct }

// attachment is what is kept of one.
type attachment struct {
	Type string `json:"type"`
	URL  string `json:"url,omitempty"`
}

// kinds are how the types of events are called in the table.
var kinds = map[string]string{
	meta.TypeMessage: "message", meta.TypeEcho: "echo", meta.TypeStoryMention: "story_mention", meta.TypeStoryReply: "story_reply",
}

func (m message) apply(ctx context.Context, c *change) error {
	row := Message{MID: m.MID, Direction: directionIn, Kind: kinds[m.Type], Text: m.Text, At: millis(m.At)}
	if m.Own {
		row.Direction = directionOut
	}
	if m.Unsupported {
		row.Kind = "unsupported"
	}
	if m.ReplyTo != nil {
		row.ReplyTo = m.ReplyTo.MID
		if m.ReplyTo.Story != nil {
			row.ReplyTo = "story:" + m.ReplyTo.Story.ID
		}
	}
	attachments := []attachment{}
	for _, a := range m.Attachments {
		attachments = append(attachments, attachment{a.Type, a.URL})
	}
	text, err := json.Marshal(attachments)
	if err != nil {
		return err
	}
	row.Attachments = string(text)
	if err := c.addMessage(ctx, row); err != nil {
		return err
	}
	if story, ok := meta.Message(m).StoryMention(); ok {
		_, err = c.tx.ExecContext(ctx, `
			INSERT INTO story_mentions (account_id, mid, lead_id, url, at, event_id, correlation_id)
			SELECT $1, $2, $3, CASE WHEN EXISTS (SELECT 1 FROM unsends WHERE account_id = $1 AND mid = $2) THEN '' ELSE $4 END, $5, $6, $7
			ON CONFLICT (account_id, mid) DO NOTHING`,
			c.account.ID, c.midOf(m.MID), c.lead.ID, story.URL, row.At, c.EventID, c.CorrelationID)
		if err != nil {
			return err
		}
	}
	if m.Metadata != "" && m.Own {
		// The echo of our own reply. It may come before the answer of the Graph API, or
		// in its stead: then this keeps the reply from being sent twice.
		return c.replySent(ctx, m.Metadata, m.MID)
	}
	return nil
}

// apply stores a button that was pressed as what it is to an agent: a message.
func (p postback) apply(ctx context.Context, c *change) error {
	return c.addMessage(ctx, Message{MID: p.MID, Direction: directionIn, Kind: "postback", Text: p.Title, Attachments: "[]", At: millis(p.At)})
}

// midOf is the id to store a message under. Some postbacks have none; then the
// event's id, which is as unique.
func (c *change) midOf(mid string) string {
	if mid == "" {
		return c.EventID
	}
	return mid
}

// addMessage stores a message, once, and only then what follows from it: that it
// is unread, that the conversation is open again, that browsers hear of it. Then it
// applies what came before its message. The lead is held, so nothing that belongs to
// this message can arrive in between and be missed.
func (c *change) addMessage(ctx context.Context, m Message) (err error) {
	m.AccountID, m.LeadID, m.MID = c.account.ID, c.lead.ID, c.midOf(m.MID)
	if m.UnsentAt, err = c.unsentAt(ctx, m.MID); err != nil {
		return err
	}
	if m.UnsentAt > 0 {
		m.Text, m.Attachments = "", "[]"
	}
	isNew, err := changed(ctx, c.tx, `
		INSERT INTO messages (account_id, mid, lead_id, direction, kind, text, attachments, reply_to, at, unsent_at, event_id, correlation_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (account_id, mid) DO NOTHING`,
		m.AccountID, m.MID, m.LeadID, m.Direction, m.Kind, m.Text, m.Attachments, m.ReplyTo, m.At, m.UnsentAt, c.EventID, c.CorrelationID)
	if err != nil {
		return err
	}
	if !isNew {
		c.log.InfoContext(ctx, "the message is there already", "mid", m.MID)
		return nil
	}
	c.log.InfoContext(ctx, "stored a message", "mid", m.MID, "direction", m.Direction, "kind", m.Kind, "bytes", len(m.Text))
	if err := c.updateLead(ctx, m); err != nil {
		return err
	}
	if err := c.tell(ctx, typeMessageCreated, m.told()); err != nil {
		return err
	}
	return c.applyWaiting(ctx, m)
}

// told is a message as it is told.
func (m Message) told() map[string]any {
	return map[string]any{
		"mid": m.MID, "direction": m.Direction, "kind": m.Kind, "text": m.Text, "attachments": json.RawMessage(m.Attachments),
		"reply_to": m.ReplyTo, "at": m.At, "unsent": m.UnsentAt > 0,
	}
}

// updateLead counts a new message.
func (c *change) updateLead(ctx context.Context, m Message) error {
	before := c.lead
	c.lead.LastAt = max(c.lead.LastAt, m.At)
	if m.Direction == directionIn {
		c.lead.Unread++
		if c.lead.Status == leadClosed {
			c.lead.Status = leadOpen
			c.lead.Reopened++
		}
	}
	if c.lead == before {
		return nil
	}
	_, err := c.tx.ExecContext(ctx, `UPDATE leads SET last_at = $2, unread = $3, status = $4, reopened = $5 WHERE id = $1`,
		c.lead.ID, c.lead.LastAt, c.lead.Unread, c.lead.Status, c.lead.Reopened)
	if err != nil {
		return err
	}
	return c.tell(ctx, typeLeadUpdated, nil)
}
