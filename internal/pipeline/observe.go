package pipeline

import (
	"context"
	"log/slog"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/telemetry"
)

// logAccept writes the one wide line of an accepted event.
func (p *Pipeline) logAccept(ctx context.Context, s *submission, r Receipt) {
	log := wide{p.log.Handler()}
	if !log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	event := r.ID.Print(posthaste.KindEvent)
	log.LogAttrs(ctx, slog.LevelInfo, "event accepted",
		slog.String("event_id", event),
		slog.String("correlation_id", correlation(&s.event, r.ID, event)),
		slog.String("tenant", s.Tenant.Name),
		slog.String("type", r.Type),
		slog.Int("bytes", len(s.event.Payload)),
		slog.Int("deliveries", r.Deliveries),
		slog.Bool("duplicate", r.Duplicate))
}

// correlation prints the correlation id of an event. Mostly it is the event's own,
// which is printed already.
func correlation(e *posthaste.Event, own posthaste.ID, printed string) string {
	if e.CorrelationID == own {
		return printed
	}
	return e.CorrelationID.Print(posthaste.KindEvent)
}

// wide is a logger that spares itself the search for the place in the code: there
// is a line for each event and one for each attempt.
type wide struct{ slog.Handler }

// LogAttrs is that of [slog.Logger], for a level that is enabled. Our own handler
// takes such a line without a record.
func (w wide) LogAttrs(ctx context.Context, level slog.Level, msg string, attrs ...slog.Attr) {
	now := time.Now()
	if own, ok := w.Handler.(*telemetry.JSON); ok && own.WriteUsual(now, level, msg, attrs) {
		return
	}
	r := slog.NewRecord(now, level, msg, 0)
	r.AddAttrs(attrs...)
	_ = w.Handle(ctx, r) // slog.Logger throws it away, too
}

// tally counts a batch of outcomes by their labels: to find a counter costs more
// than to count, and the outcomes of a batch are mostly alike.
type tally struct {
	finished map[finish]int
	attempts map[result]int
}

type (
	finish struct {
		state  posthaste.State
		reason posthaste.Reason
	}
	result struct {
		outcome posthaste.Outcome
		cause   posthaste.Cause
	}
)

func newTally() tally { return tally{map[finish]int{}, map[result]int{}} }

func (t tally) add(o outcome) {
	s, a := &o.settlement, o.settlement.Attempt
	if o.moved && s.State != posthaste.StatePending {
		t.finished[finish{s.State, s.Reason}]++
	}
	if a != nil {
		t.attempts[result{a.Outcome, a.Cause}]++
	}
}

// count adds a tally to the metrics.
func (p *Pipeline) count(t tally) {
	for f, n := range t.finished {
		p.metrics.Finished.WithLabelValues(f.state.String(), f.reason.String()).Add(float64(n))
	}
	for r, n := range t.attempts {
		p.metrics.Attempts.WithLabelValues(r.outcome.String(), r.cause.String()).Add(float64(n))
	}
}

// observe writes the one wide line of an attempt.
func (p *Pipeline) observe(ctx context.Context, o outcome) {
	s, a := &o.settlement, o.settlement.Attempt
	if a != nil {
		p.metrics.AttemptSeconds.Observe(a.Timings.Total.Seconds())
	}
	level := slog.LevelInfo
	if s.State == posthaste.StateDead {
		level = slog.LevelWarn
	}
	log := wide{p.log.Handler()}
	if !log.Enabled(ctx, level) || a == nil && s.State == posthaste.StatePending {
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	id := s.Lease.Delivery.Event()
	event := id.Print(posthaste.KindEvent)
	attrs = append(attrs,
		slog.String("event_id", event),
		slog.String("delivery_id", s.Lease.Delivery.Print(posthaste.KindDelivery)))
	if o.endpoint != nil {
		attrs = append(attrs, slog.String("endpoint_id", o.endpoint.printed))
	}
	if e := o.item.event; e != nil {
		attrs = append(attrs, slog.String("correlation_id", correlation(e, id, event)), slog.String("type", e.Type))
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
	log.LogAttrs(ctx, level, "attempt settled", attrs...)
}
