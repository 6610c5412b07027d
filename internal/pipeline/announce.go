package pipeline

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/posthaste-dev/posthaste"
)

// maxAnnouncements bounds the operational events that wait to be accepted. They are
// a service, not a promise: beyond it they are counted and left out.
const maxAnnouncements = 256

// announcement is an operational event on its way to be accepted.
type announcement struct {
	eventType string
	payload   []byte
}

// Announce accepts an operational event for the tenant operator, soon: it never
// waits and never fails. data is its payload, as JSON.
func (p *Pipeline) Announce(eventType string, data any) {
	payload, err := json.Marshal(data)
	if err != nil {
		p.log.Error("an operational event was not announced", "type", eventType, "err", err)
		return
	}
	select {
	case p.announcements <- announcement{eventType, payload}:
	default:
		p.metrics.Unannounced.Inc()
	}
}

// announceAbout announces something of an endpoint. Of the operator's own endpoints
// nothing is said: what they are told of themselves would never end.
func (p *Pipeline) announceAbout(e *endpoint, eventType string, data map[string]any) {
	name, err := p.routing.tenantName(p.graceOver, e.row.Tenant)
	if err != nil || name == posthaste.TenantOperator {
		return
	}
	data["tenant"] = name
	data["endpoint_id"] = e.row.ID.Print(posthaste.KindEndpoint)
	data["url"] = posthaste.MaskURL(e.row.URL)
	data["at"] = p.clock.Now()
	p.Announce(eventType, data)
}

// runAnnounce accepts what is announced.
func (p *Pipeline) runAnnounce(ctx context.Context) {
	for {
		select {
		case a := <-p.announcements:
			if err := p.acceptAnnouncement(ctx, a); err != nil && ctx.Err() == nil {
				p.metrics.Unannounced.Inc()
				p.log.WarnContext(ctx, "an operational event was not announced", "type", a.eventType, "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (p *Pipeline) acceptAnnouncement(ctx context.Context, a announcement) error {
	tenant, err := p.routing.tenant(ctx, posthaste.TenantOperator)
	if err != nil {
		return fmt.Errorf("find tenant %s: %w", posthaste.TenantOperator, err)
	}
	s := newSubmission(Submission{
		Tenant: tenant,
		Event:  posthaste.Event{Type: a.eventType, Source: posthaste.SourceEngine, ContentType: "application/json", Payload: a.payload},
	})
	p.submitAnyway(ctx, []*submission{s})
	return s.result.Err
}
