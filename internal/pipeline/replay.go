package pipeline

import (
	"context"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var errEndpointDeleted = &posthaste.Error{
	Code: posthaste.CodeEndpointDeleted, Message: "the endpoint of this delivery was deleted",
	Hint: "resend the event to another endpoint",
}

// Replay starts a new run of a dead delivery: a fresh schedule and deadline,
// attempt numbers going on. Of concurrent calls exactly one succeeds. Errors:
// [store.ErrNotFound], [store.ErrUnavailable], or *[posthaste.Error] with
// [posthaste.CodeNotDead], [posthaste.CodeEndpointDeleted] or [posthaste.CodeExpiredEvent].
func (p *Pipeline) Replay(ctx context.Context, tenant store.TenantRow, delivery posthaste.ID) error {
	d, err := p.store.Delivery(ctx, tenant.No, delivery)
	if err != nil {
		return err
	}
	e, err := p.routing.endpoint(ctx, d.Endpoint)
	if err != nil {
		return err
	}
	if e == nil || e.deleted() {
		return errEndpointDeleted
	}
	now := p.clock.Now()
	err = p.store.Replay(ctx, store.ReplayParams{Tenant: tenant.No, Delivery: delivery, Now: now, ExpiresAt: e.deadlineOf(now), Ordered: e.ordered()})
	if err != nil {
		return err
	}
	p.noteDue(e)
	p.log.InfoContext(ctx, "delivery replayed", "delivery_id", delivery.Print(posthaste.KindDelivery), "tenant", tenant.Name)
	return nil
}

// Resend makes a new delivery of an event at an endpoint, and returns its id.
// Errors as for Replay.
func (p *Pipeline) Resend(ctx context.Context, tenant store.TenantRow, event posthaste.ID, row store.EndpointRow) (posthaste.ID, error) {
	e, err := p.routing.endpoint(ctx, row.No)
	if err != nil {
		return posthaste.ID{}, err
	}
	if e == nil || e.deleted() {
		return posthaste.ID{}, errEndpointDeleted
	}
	now := p.clock.Now()
	id, err := p.store.Resend(ctx, store.ResendParams{Tenant: tenant.No, Event: event, Endpoint: row.No, Now: now, ExpiresAt: e.deadlineOf(now), Ordered: e.ordered()})
	if err != nil {
		return id, err
	}
	p.noteDue(e)
	p.log.InfoContext(ctx, "event resent", "event_id", event.Print(posthaste.KindEvent), "delivery_id", id.Print(posthaste.KindDelivery), "tenant", tenant.Name)
	return id, nil
}

// noteDue says that an endpoint has work now, for when its gate lets it pass.
func (p *Pipeline) noteDue(e *endpoint) {
	now := p.clock.Now()
	at := now
	if until := p.heldUntil(e, now); !until.IsZero() {
		at = until
	}
	p.agenda.note(e.row.No, at, now)
	p.waker.wake(e.row.No)
}
