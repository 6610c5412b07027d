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
				compareLines(t, when, level, attrs)
			}
		}
	}
}

// compareLines wants of ours what slog writes, also through a handler with
// attributes of its own, which is slog's.
func compareLines(t *testing.T, when time.Time, level slog.Level, attrs []slog.Attr) {
	t.Helper()
	var want, got bytes.Buffer
	lines := NewLines(&got)
	ours, theirs := NewJSON(lines, slog.LevelInfo), slog.NewJSONHandler(&want, nil)
	if ours.Enabled(t.Context(), level) != theirs.Enabled(t.Context(), level) {
		t.Errorf("level %s is not enabled alike", level)
	}
	record := slog.NewRecord(when, level, "event accepted", 0)
	record.AddAttrs(attrs...)
	of := []slog.Attr{slog.Int("of", 1)}
	for range 2 { // the second time beside what waits
		_ = errors.Join(theirs.Handle(t.Context(), record), theirs.WithAttrs(of).Handle(t.Context(), record))
		if !ours.WriteUsual(when, level, "event accepted", attrs) {
			_ = ours.Handle(t.Context(), record)
		}
		_ = ours.WithAttrs(of).Handle(t.Context(), record)
	}
	lines.Flush()
	if got.String() != want.String() {
		t.Errorf("wrote %s want %s", got.String(), want.String())
	}
}

func TestUsualLines(t *testing.T) {
	for want, attrs := range map[bool][]slog.Attr{
		true:  {slog.String("id", "evt_01"), slog.Int("n", -7), slog.Bool("moved", true), slog.Duration("took", time.Second)},
		false: {slog.String("id", "evt_01"), slog.String("err", "a\nb")},
	} {
		var out bytes.Buffer
		lines := NewLines(&out)
		if got := NewJSON(lines, slog.LevelInfo).WriteUsual(time.Now(), slog.LevelInfo, "attempt settled", attrs); got != want {
			t.Errorf("%v: written %t, want %t", attrs, got, want)
		}
		if lines.Flush(); (out.Len() > 0) != want {
			t.Errorf("%v: %q", attrs, out.String())
		}
	}
}

// BenchmarkJSON writes the line of an attempt.
func BenchmarkJSON(b *testing.B) {
	id := "evt_01kb8g3z4dft0bbk1k3q7kz8zz"
	attrs := []slog.Attr{
		slog.String("event_id", id), slog.String("delivery_id", id), slog.String("endpoint_id", id), slog.String("correlation_id", id),
		slog.String("type", "bench.event"), slog.String("state", "delivered"), slog.Bool("moved", true),
		slog.Int("attempt", 1), slog.String("outcome", "delivered"), slog.Int("status", 200), slog.Duration("took", time.Millisecond),
	}
	handler := NewJSON(NewLines(io.Discard), slog.LevelInfo)
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			handler.WriteUsual(time.Now(), slog.LevelInfo, "attempt settled", attrs)
		}
	})
	b.Run("slog", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := slog.NewRecord(time.Now(), slog.LevelInfo, "attempt settled", 0)
			r.AddAttrs(attrs...)
			_ = handler.Handle(context.Background(), r)
		}
	})
}
