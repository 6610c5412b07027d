package pipeline

import (
	"context"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Skip ends a pending delivery unsent: dead, reason skipped. If an attempt of it is
// under way, its result comes too late to count. Errors: [store.ErrNotFound],
// [store.ErrUnavailable], or *[posthaste.Error] with [posthaste.CodeNotPending].
func (p *Pipeline) Skip(ctx context.Context, tenant store.TenantRow, delivery posthaste.ID) (store.DeliveryRow, error) {
	row, err := p.store.Skip(ctx, store.SkipParams{Tenant: tenant.No, Delivery: delivery, Now: p.clock.Now()})
	if err != nil {
		return row, err
	}
	// Where it waits in a lane here, its lease is over, and it is not sent after this.
	p.giveBack(p.lanes.recall(func(it *item) bool { return it.lease.Delivery == delivery }), "skipped")
	p.metrics.Finished.WithLabelValues(posthaste.StateDead.String(), posthaste.ReasonSkipped.String()).Inc()
	p.log.WarnContext(ctx, "delivery skipped", "delivery_id", delivery.Print(posthaste.KindDelivery), "tenant", tenant.Name)
	now := p.clock.Now()
	p.agenda.note(row.Endpoint, now, now) // what is behind it in order may follow
	p.waker.wake(row.Endpoint)
	return row, nil
}
