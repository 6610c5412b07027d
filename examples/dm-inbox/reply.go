package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/inbound/meta"
)

// typeReplyRequested asks for a reply to be sent. A reply is an event with a handler,
// and so survives restarts, is retried, and can be replayed once it is dead.
const typeReplyRequested = "reply.requested"

// replySchedule has the waits after a failure. Meta's own waits come on top of it.
var replySchedule = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 5 * time.Minute, 15 * time.Minute, time.Hour, time.Hour, time.Hour}

// Reply is what an agent wrote.
type Reply struct {
	ID, Tenant, AccountID, LeadID, Agent, Text, State, Reason, MID string
	Round, At                                                      int64
}

// The states of a reply.
const (
	replyQueued = "queued"
	replyHeld   = "held" // its account is paused
	replySent   = "sent"
	replyFailed = "failed"
)

const replyColumns = `id, tenant, account_id, lead_id, agent, text, state, reason, mid, round, at`

func (r *Reply) fields() []any {
	return []any{&r.ID, &r.Tenant, &r.AccountID, &r.LeadID, &r.Agent, &r.Text, &r.State, &r.Reason, &r.MID, &r.Round, &r.At}
}

// requestReply stores a reply and has it sent. Both can be repeated: the page gives
// the id, and the engine knows the key.
func (in *Inbox) requestReply(ctx context.Context, r Reply) error {
	err := in.store.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO replies (id, tenant, account_id, lead_id, agent, text, at) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (id) DO NOTHING`, r.ID, r.Tenant, r.AccountID, r.LeadID, r.Agent, r.Text, r.At)
		return err
	})
	if err != nil {
		return fmt.Errorf("store the reply: %w", err)
	}
	return in.sendReply(ctx, r)
}

func (in *Inbox) sendReply(ctx context.Context, r Reply) error {
	payload, err := json.Marshal(map[string]string{"reply_id": r.ID, "lead_id": r.LeadID})
	if err != nil {
		return err
	}
	receipt, err := in.engine.Send(ctx, r.Tenant, engine.Event{
		Type: typeReplyRequested, Payload: payload, IdempotencyKey: fmt.Sprintf("reply/%s/%d", r.ID, r.Round),
	})
	if err != nil {
		return fmt.Errorf("send the reply: %w", err)
	}
	in.log.InfoContext(ctx, "a reply is on its way", "correlation_id", receipt.ID.Print(posthaste.KindEvent), "reply_id", r.ID, "lead_id", r.LeadID, "tenant", r.Tenant)
	return nil
}

// resumeReplies sends the event of what was stored by a program that died before it
// had sent it. For all others the engine knows the key.
func (in *Inbox) resumeReplies(ctx context.Context) error {
	rows, err := in.store.read.QueryContext(ctx, `SELECT `+replyColumns+` FROM replies WHERE state = 'queued' ORDER BY at`)
	if err != nil {
		return err
	}
	queued, err := collect(rows, (*Reply).fields)
	for _, r := range queued {
		err = errors.Join(err, in.sendReply(ctx, r))
	}
	return err
}

// reconnect takes a new token of an account and sends what was held.
func (in *Inbox) reconnect(ctx context.Context, tenant, accountID, token string) error {
	var held []Reply
	err := in.store.inTx(ctx, func(tx *sql.Tx) error {
		isTheirs, err := changed(ctx, tx, `
			UPDATE accounts SET state = 'active', reason = '', wait_until = 0, token = $3 WHERE id = $1 AND tenant = $2`, accountID, tenant, token)
		if err != nil || !isTheirs {
			return err
		}
		rows, err := tx.QueryContext(ctx, `
			UPDATE replies SET state = 'queued', reason = '', round = round + 1
			WHERE account_id = $1 AND state = 'held' RETURNING `+replyColumns, accountID)
		if err != nil {
			return err
		}
		held, err = collect(rows, (*Reply).fields)
		return err
	})
	for _, r := range held {
		err = errors.Join(err, in.sendReply(ctx, r))
	}
	return err
}

// errWaiting is why a reply is not sent yet.
var errWaiting = errors.New("the account is at Meta's rate limit")

// handleReply sends one reply.
func (in *Inbox) handleReply(ctx context.Context, d engine.Delivery) error {
	var request struct {
		ReplyID string `json:"reply_id"`
	}
	if err := json.Unmarshal(d.Payload, &request); err != nil {
		return engine.Permanent(err)
	}
	var r Reply
	err := in.store.read.QueryRowContext(ctx, `SELECT `+replyColumns+` FROM replies WHERE id = $1`, request.ReplyID).Scan(r.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // erased meanwhile
	}
	if err != nil {
		return err
	}
	if r.State == replySent { // by an attempt that could not say so, or told by its echo
		return in.tell(ctx, d)
	}
	account, err := in.store.account(ctx, r.AccountID)
	if err != nil {
		return err
	}
	if account.State != accountActive {
		return in.settleReply(ctx, d, r, func(ctx context.Context, c *change) error {
			return c.setReply(ctx, r, replyHeld, account.Reason)
		})
	}
	if wait := time.Until(time.UnixMilli(account.WaitUntil)); wait > 0 {
		return engine.RetryAfter(errWaiting, wait)
	}
	var userID string
	if err := in.store.read.QueryRowContext(ctx, `SELECT user_id FROM leads WHERE id = $1`, r.LeadID).Scan(&userID); err != nil {
		return err
	}
	mid, err := in.graph.Send(ctx, account, userID, OutgoingMessage{Text: r.Text, Metadata: r.ID})
	if err != nil {
		return in.replyFailed(ctx, d, r, err)
	}
	return in.settleReply(ctx, d, r, func(ctx context.Context, c *change) error {
		if err := c.addMessage(ctx, Message{MID: mid, Direction: directionOut, Kind: "reply", Text: r.Text, Attachments: "[]", At: time.Now().UnixMilli()}); err != nil {
			return err
		}
		return c.replySent(ctx, r.ID, mid)
	})
}

// replyFailed does what Meta's error asks for. What concerns the account concerns
// all its replies: they see it before they call.
func (in *Inbox) replyFailed(ctx context.Context, d engine.Delivery, r Reply, failure error) error {
	advice := meta.Advise(failure)
	in.logOf(d).WarnContext(ctx, "a reply was not taken", "reply_id", r.ID, "class", string(advice.Class), "wait", advice.Wait, "err", failure)
	switch advice.Class {
	case meta.Reconnect, meta.Permission, meta.Policy:
		// No attempt of any reply can succeed before a person has done something.
		return in.settleReply(ctx, d, r, func(ctx context.Context, c *change) error {
			if err := pauseAccount(ctx, c.tx, r.AccountID, string(advice.Class)+": "+forPeople(failure)); err != nil {
				return err
			}
			return c.setReply(ctx, r, replyHeld, string(advice.Class))
		})
	case meta.RateLimited:
		until := time.Now().Add(max(advice.Wait, time.Second)).UnixMilli()
		err := in.store.inTx(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE accounts SET wait_until = $2 WHERE id = $1 AND wait_until < $2`, r.AccountID, until)
			return err
		})
		failure = engine.RetryAfter(errors.Join(failure, err), advice.Wait)
	case meta.Transient:
		failure = engine.RetryAfter(failure, advice.Wait)
	}
	isLast := d.Attempt > len(replySchedule) || advice.MaxAttempts > 0 && d.Attempt >= advice.MaxAttempts
	if !isLast {
		return failure
	}
	err := in.settleReply(ctx, d, r, func(ctx context.Context, c *change) error {
		return c.setReply(ctx, r, replyFailed, forPeople(failure))
	})
	if err != nil {
		return err
	}
	return engine.Permanent(failure) // a dead letter, to be looked at and replayed
}

// forPeople is what of an error an agent can make use of; the log has all of it.
func forPeople(err error) string {
	if graph, ok := errors.AsType[*meta.GraphError](err); ok {
		return cmp.Or(graph.UserMessage, graph.Message, graph.Error())
	}
	return err.Error()
}

// settleReply commits what became of a reply, and tells.
func (in *Inbox) settleReply(ctx context.Context, d engine.Delivery, r Reply, settle func(context.Context, *change) error) error {
	err := in.store.inTx(ctx, func(tx *sql.Tx) error {
		c := newChange(tx, d, in.logOf(d).With("reply_id", r.ID))
		if err := c.holdLead(ctx, r.LeadID); err != nil {
			return err
		}
		c.account.ID = r.AccountID
		return settle(ctx, c)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil // the customer was erased meanwhile, and the reply with them
	}
	if err != nil {
		return fmt.Errorf("store what became of the reply: %w", err)
	}
	return in.tell(ctx, d)
}

// setReply gives a reply that is not sent a state.
func (c *change) setReply(ctx context.Context, r Reply, state, reason string) error {
	hasChanged, err := changed(ctx, c.tx, `
		UPDATE replies SET state = $2, reason = $3, correlation_id = $4 WHERE id = $1 AND state <> 'sent' AND state <> $2`,
		r.ID, state, reason, c.CorrelationID)
	if err != nil || !hasChanged {
		return err
	}
	c.log.InfoContext(ctx, "a reply has another state", "state", state, "reason", reason)
	return c.tell(ctx, typeLeadUpdated, map[string]any{"reply_id": r.ID, "reply_state": state})
}

// replySent notes that a reply of this conversation is out, under the id of its message.
func (c *change) replySent(ctx context.Context, id, mid string) error {
	hasChanged, err := changed(ctx, c.tx, `
		UPDATE replies SET state = 'sent', reason = '', mid = $3, correlation_id = CASE WHEN correlation_id = '' THEN $4 ELSE correlation_id END
		WHERE id = $1 AND lead_id = $2 AND state <> 'sent'`, id, c.lead.ID, mid, c.CorrelationID)
	if err != nil || !hasChanged {
		return err
	}
	c.log.InfoContext(ctx, "a reply is sent", "reply_id", id, "mid", mid)
	return c.tell(ctx, typeLeadUpdated, map[string]any{"reply_id": id, "reply_state": replySent})
}

func pauseAccount(ctx context.Context, tx *sql.Tx, id, reason string) error {
	_, err := tx.ExecContext(ctx, `UPDATE accounts SET state = 'paused', reason = $2 WHERE id = $1 AND state <> 'paused'`, id, reason)
	return err
}
