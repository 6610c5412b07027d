package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/engine"
)

// The live events: events of the engine like any other, in the tenant that the
// account belongs to. Browsers get them from the engine's stream, and a customer's own
// endpoints could subscribe to them.
const (
	typeLeadCreated     = "lead.created"
	typeLeadUpdated     = "lead.updated" // unread, reopened, intent, a reply's state
	typeMessageCreated  = "message.created"
	typeMessageEdited   = "message.edited" // or taken back
	typeReactionChanged = "reaction.changed"
	typeMessageRead     = "message.read_by_customer"
)

// because is the same change, with what it tells being caused by another event.
func (c *change) because(from origin) *change {
	other := *c
	other.origin = from
	return &other
}

// tell writes down what browsers are to be told, in the transaction of the change:
// either both are there or none is. A handler that dies before it has sent them
// is called again, changes nothing, and sends what is written down.
func (c *change) tell(ctx context.Context, eventType string, data map[string]any) error {
	all := map[string]any{
		"event_id": c.EventID, "correlation_id": c.CorrelationID, "account_id": c.lead.AccountID,
		"lead_id": c.lead.ID, "user_id": c.lead.UserID, "status": c.lead.Status, "unread": c.lead.Unread,
	}
	maps.Copy(all, data)
	payload, err := json.Marshal(all)
	if err != nil {
		return err
	}
	_, err = c.tx.ExecContext(ctx, `
		INSERT INTO live_events (handled_by, number, tenant, lead_id, type, data, event_id, correlation_id)
		VALUES ($1, (SELECT coalesce(max(number), 0) + 1 FROM live_events WHERE handled_by = $1), $2, $3, $4, $5, $6, $7)`,
		c.handledBy, c.lead.Tenant, c.lead.ID, eventType, string(payload), c.EventID, c.CorrelationID)
	return err
}

// told is a live event that is to be sent.
type told struct {
	number                     int64
	tenant, leadID, kind, data string
	origin                     origin
}

// tell sends what was written down while this event was handled, and notes that.
// Dying in between does no harm: the engine knows the keys of what this delivery
// has sent, and what is noted is not sent by another delivery of the event either.
func (in *Inbox) tell(ctx context.Context, d engine.Delivery) error {
	handledBy := originOf(d).EventID
	rows, err := in.store.read.QueryContext(ctx, `
		SELECT number, tenant, lead_id, type, data, event_id, correlation_id FROM live_events
		WHERE handled_by = $1 AND live_event_id = '' ORDER BY number`, handledBy)
	if err != nil {
		return fmt.Errorf("read what is to be told: %w", err)
	}
	unsent, err := collect(rows, func(t *told) []any {
		return []any{&t.number, &t.tenant, &t.leadID, &t.kind, &t.data, &t.origin.EventID, &t.origin.CorrelationID}
	})
	if err != nil || len(unsent) == 0 {
		return err
	}
	return in.sendTold(ctx, d, unsent)
}

func (in *Inbox) sendTold(ctx context.Context, d engine.Delivery, unsent []told) error {
	ids := make([]string, len(unsent))
	for i, t := range unsent {
		receipt, err := d.SendTo(ctx, t.tenant, engine.Event{
			Type: t.kind, ContentType: "application/json", Payload: []byte(t.data),
			IdempotencyKey: fmt.Sprintf("%s/%d", t.leadID, t.number),
		})
		if err != nil {
			return fmt.Errorf("send a %s: %w", t.kind, err)
		}
		ids[i] = receipt.ID.Print(posthaste.KindEvent)
		in.log.InfoContext(ctx, "told", "correlation_id", t.origin.CorrelationID, "event_id", t.origin.EventID, "lead_id", t.leadID,
			"tenant", t.tenant, "type", t.kind, "live_event_id", ids[i])
	}
	return in.store.inTx(ctx, func(tx *sql.Tx) error {
		for i, t := range unsent {
			_, err := tx.ExecContext(ctx, `UPDATE live_events SET live_event_id = $3 WHERE handled_by = $1 AND number = $2`,
				originOf(d).EventID, t.number, ids[i])
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// serveLive relays the engine's stream to a browser: of the session's tenant alone, and
// of that what the page is interested in. The browser's Last-Event-ID goes along, so
// one that was away for an hour, or is sent to another replica, misses nothing.
func (in *Inbox) serveLive(w http.ResponseWriter, r *http.Request, s Session) {
	relayed := r.Clone(r.Context())
	relayed.URL.Path, relayed.URL.RawPath = "/v1/stream", ""
	relayed.URL.RawQuery = "types=event.accepted"
	relayed.Header = http.Header{
		"Accept":           {"text/event-stream"},
		"Authorization":    {"Bearer " + in.config.AdminKey},
		"Posthaste-Tenant": {s.Tenant},
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		relayed.Header.Set("Last-Event-ID", last)
	}
	in.api.ServeHTTP(w, relayed)
}
