package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"
)

func TestJSONLinesAreThoseOfSlog(t *testing.T) {
	zones := []*time.Location{time.UTC, time.FixedZone("", 5400), time.FixedZone("", -3601)}
	at := time.Date(2026, 2, 3, 4, 5, 6, 7_080_000, zones[1])
	for _, attrs := range [][]slog.Attr{
		nil,
		{slog.String("id", "evt_01"), slog.Int("n", -7), slog.Bool("moved", true), slog.Duration("took", time.Second), slog.Uint64("u", 1<<63)},
		{slog.String("", "v"), slog.Attr{}, slog.String("k", "")},
		{slog.String("k", `a"b`), slog.String("k", `a\b`), slog.String("k", "\x00\x1f\x7f"), slog.String(`k"`, "<&>")},
		{slog.String("k", "é \u2028 \xff"), slog.String("k", "<&>'~ ")},
		{slog.Time("due_at", at), slog.Float64("f", 1.5), slog.Any("err", errors.New("no")), slog.Any("nil", nil)},
		{slog.Group("g", slog.Int("n", 1)), slog.Group("empty")},
	} {
		for _, when := range []time.Time{{}, at, at.In(zones[0]), at.In(zones[2]), at.AddDate(9000, 0, 0), at.AddDate(-2500, 0, 0), time.Now()} {
			for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn + 1} {
				record := slog.NewRecord(when, level, "event accepted", 0)
				record.AddAttrs(attrs...)
				compareLines(t, record, func(h slog.Handler) slog.Handler { return h })
				compareLines(t, record, func(h slog.Handler) slog.Handler { return h.WithAttrs([]slog.Attr{slog.Int("of", 1)}) })
				compareLines(t, record, func(h slog.Handler) slog.Handler { return h.WithGroup("inner") })
			}
		}
	}
}

// compareLines wants the same bytes of both handlers, each changed by with.
func compareLines(t *testing.T, record slog.Record, with func(slog.Handler) slog.Handler) {
	t.Helper()
	var want, got bytes.Buffer
	lines := NewLines(&got)
	ours, theirs := with(NewJSON(lines, slog.LevelInfo)), with(slog.NewJSONHandler(&want, nil))
	if ours.Enabled(t.Context(), record.Level) != theirs.Enabled(t.Context(), record.Level) {
		t.Errorf("level %s is not enabled alike", record.Level)
	}
	_ = theirs.Handle(t.Context(), record)
	_ = ours.Handle(t.Context(), record)
	lines.Flush()
	if got.String() != want.String() {
		t.Errorf("wrote %s want %s", got.String(), want.String())
	}
}

func BenchmarkJSON(b *testing.B) {
	for name, handler := range map[string]slog.Handler{
		"ours": NewJSON(NewLines(io.Discard), slog.LevelInfo),
		"slog": slog.NewJSONHandler(NewLines(io.Discard), nil),
	} {
		b.Run(name, func(b *testing.B) {
			log := slog.New(handler)
			b.ReportAllocs()
			for b.Loop() {
				log.LogAttrs(context.Background(), slog.LevelInfo, "attempt settled",
					slog.String("event_id", "evt_01kb8g3z4dft0bbk1k3q7kz8zz"), slog.String("delivery_id", "dlv_01kb8g3z4dft0bbk1k3q7kz8zz"),
					slog.String("endpoint_id", "ep_01kb8g3z4dft0bbk1k3q7kz8zz"), slog.String("correlation_id", "evt_01kb8g3z4dft0bbk1k3q7kz8zz"),
					slog.String("type", "bench.event"), slog.String("state", "delivered"), slog.Bool("moved", true),
					slog.Int("attempt", 1), slog.String("outcome", "delivered"), slog.Int("status", 200), slog.Duration("took", time.Millisecond))
			}
		})
	}
}
