package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/inbound/meta"
)

// inboundTypes are what an inbox is about. Comments, deliveries, referrals and
// the like stay events in the engine, for whoever wants them later.
var inboundTypes = []string{
	meta.TypeMessage, meta.TypeEcho, meta.TypeStoryMention, meta.TypeStoryReply, meta.TypePostback,
	meta.TypeEdited, meta.TypeReaction, meta.TypeRead, meta.TypeUnsent,
}

// handlers registers all that the inbox does with events.
func (in *Inbox) handlers(e *engine.Engine) error {
	// Meta does not send again what the engine has taken, so nothing may end as a
	// dead letter because a database was away for a night.
	patient := []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 5 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour}
	return errors.Join(
		e.AddHandler(engine.Handler{
			Name: "inbox", Tenant: posthaste.TenantDefault, EventTypes: inboundTypes, Schedule: patient,
			Description: "stores what Meta sends", Func: in.handleInbound,
		}),
		e.AddHandler(engine.Handler{
			Name: "intent", EventTypes: []string{typeMessageCreated},
			Description: "classifies each stored message", Func: in.handleIntent,
		}),
		e.AddHandler(engine.Handler{
			Name: "reply", EventTypes: []string{typeReplyRequested}, Schedule: replySchedule,
			Description: "sends what agents write", Func: in.handleReply,
		}),
	)
}

// origin is the event that a change comes from.
type origin struct {
	EventID       string `json:"event_id"`
	CorrelationID string `json:"correlation_id"`
}

func originOf(d engine.Delivery) origin {
	return origin{EventID: d.ID.Print(posthaste.KindEvent), CorrelationID: d.CorrelationID.Print(posthaste.KindEvent)}
}

func (in *Inbox) logOf(d engine.Delivery) *slog.Logger {
	o := originOf(d)
	return in.log.With("correlation_id", o.CorrelationID, "event_id", o.EventID, "type", d.Type)
}

// change is one transaction on one conversation.
type change struct {
	tx *sql.Tx
	origin
	handledBy string // the event whose handler sends what is told
	account   Account
	lead      Lead
	log       *slog.Logger
}

func newChange(tx *sql.Tx, d engine.Delivery, log *slog.Logger) *change {
	return &change{tx: tx, origin: originOf(d), handledBy: originOf(d).EventID, log: log}
}

// handleInbound stores one thing that happened in a conversation, whichever of the
// types it is, and tells the browsers of the account's tenant. It can be called any
// number of times, by any number of replicas at once, in any order of events.
func (in *Inbox) handleInbound(ctx context.Context, d engine.Delivery) error {
	log := in.logOf(d)
	fact, err := decode(d)
	if err != nil {
		return engine.Permanent(err) // the bytes won't get better
	}
	account, err := in.store.account(ctx, fact.direct().Asset)
	if errors.Is(err, sql.ErrNoRows) {
		log.WarnContext(ctx, "skipped: nobody has connected this account", "account_id", fact.direct().Asset)
		return nil
	}
	if err != nil {
		return err
	}
	userID := customer(fact.direct())
	if userID == "" {
		log.WarnContext(ctx, "skipped: it names no customer", "account_id", account.ID)
		return nil
	}
	log = log.With("account_id", account.ID, "tenant", account.Tenant)
	err = in.store.inTx(ctx, func(tx *sql.Tx) error {
		c := newChange(tx, d, log)
		c.account = account
		if err := c.claimLead(ctx, userID); err != nil {
			return err
		}
		return fact.apply(ctx, c)
	})
	if err != nil {
		return fmt.Errorf("store a %s: %w", d.Type, err)
	}
	return in.tell(ctx, d)
}

// fact is something that happened, as it can be written into the tables.
type fact interface {
	direct() meta.Direct
	apply(ctx context.Context, c *change) error
}

func decode(d engine.Delivery) (fact, error) {
	switch d.Type {
	case meta.TypePostback:
		p, err := meta.DecodePostback(d.Payload)
		return postback(p), err
	case meta.TypeEdited:
		e, err := meta.DecodeEdit(d.Payload)
		return edit(e), err
	case meta.TypeReaction:
		r, err := meta.DecodeReaction(d.Payload)
		return reaction(r), err
	case meta.TypeRead:
		r, err := meta.DecodeRead(d.Payload)
		return read(r), err
	case meta.TypeUnsent:
		m, err := meta.DecodeMessage(d.Payload)
		return unsend(m), err
	}
	m, err := meta.DecodeMessage(d.Payload)
	return message(m), err
}

// customer is who the conversation is with. Someone who came through a plugin on
// a web page is known by a reference only.
func customer(d meta.Direct) string {
	party := d.Customer()
	if party.ID == "" && party.UserRef != "" {
		return "ref:" + party.UserRef
	}
	return party.ID
}
