package pipeline

import (
	"context"
	"log/slog"

	"github.com/posthaste-dev/posthaste"
)

// logAccept writes the one wide line of an accepted event.
func (p *Pipeline) logAccept(ctx context.Context, s *submission, r Receipt) {
	if !p.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	p.log.LogAttrs(ctx, slog.LevelInfo, "event accepted",
		slog.String("event_id", r.ID.Print(posthaste.KindEvent)),
		slog.String("correlation_id", s.event.CorrelationID.Print(posthaste.KindEvent)),
		slog.String("tenant", s.Tenant.Name),
		slog.String("type", r.Type),
		slog.Int("bytes", len(s.event.Payload)),
		slog.Int("deliveries", r.Deliveries),
		slog.Bool("duplicate", r.Duplicate))
}

// observe counts an outcome and writes the one wide line of an attempt.
func (p *Pipeline) observe(ctx context.Context, o outcome) {
	s, a := o.settlement, o.settlement.Attempt
	if o.moved && s.State != posthaste.StatePending {
		p.metrics.Finished.WithLabelValues(s.State.String(), s.Reason.String()).Inc()
	}
	if a != nil {
		p.metrics.Attempts.WithLabelValues(a.Outcome.String(), a.Cause.String()).Inc()
		p.metrics.AttemptSeconds.Observe(a.Timings.Total.Seconds())
	}
	level := slog.LevelInfo
	if s.State == posthaste.StateDead {
		level = slog.LevelWarn
	}
	if !p.log.Enabled(ctx, level) || a == nil && s.State == posthaste.StatePending {
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs,
		slog.String("event_id", s.Lease.Delivery.Event().Print(posthaste.KindEvent)),
		slog.String("delivery_id", s.Lease.Delivery.Print(posthaste.KindDelivery)))
	if o.endpoint != nil {
		attrs = append(attrs, slog.String("endpoint_id", o.endpoint.row.ID.Print(posthaste.KindEndpoint)))
	}
	if e := o.item.event; e != nil {
		attrs = append(attrs, slog.String("correlation_id", e.CorrelationID.Print(posthaste.KindEvent)), slog.String("type", e.Type))
	}
	attrs = append(attrs, slog.String("state", s.State.String()), slog.Bool("moved", o.moved))
	if a != nil {
		attrs = append(attrs, slog.Int("attempt", a.Number), slog.String("outcome", a.Outcome.String()),
			slog.Int("status", a.StatusCode), slog.Duration("took", a.Timings.Total))
		if a.Error != "" {
			attrs = append(attrs, slog.String("cause", a.Cause.String()), slog.String("err", a.Error))
		}
	}
	if s.State == posthaste.StatePending {
		attrs = append(attrs, slog.Time("due_at", s.DueAt))
	} else if s.Reason != posthaste.ReasonNone {
		attrs = append(attrs, slog.String("reason", s.Reason.String()))
	}
	p.log.LogAttrs(ctx, level, "attempt settled", attrs...)
}
