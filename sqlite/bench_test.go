//go:build unix

package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// BenchmarkAcceptSettle takes 1 KiB events with an idempotency key and one
// delivery each through Accept and Settle. An operation is an event. Of its
// figures cpu-µs/event depends least on what else the machine does.
//
// "turns" calls one after the other; in "pair" one goroutine accepts and another
// settles, as in the engine. Its batches with 64 senders, flat out, are those of
// accept=18/settle=90: a settlement lingers, so five commits of accepts go to one
// of outcomes.
func BenchmarkAcceptSettle(b *testing.B) {
	for _, endpoints := range []int{1, 1000} {
		for _, size := range []struct{ accept, settle int }{{18, 90}, {64, 64}, {256, 256}} {
			name := fmt.Sprintf("endpoints=%d/accept=%d/settle=%d", endpoints, size.accept, size.settle)
			l := &load{generator: generator{endpoints: endpoints}, accepting: size.accept, settling: size.settle}
			b.Run(name+"/turns", func(b *testing.B) { l.measure(b, l.turns) })
			b.Run(name+"/pair", func(b *testing.B) { l.measure(b, l.pair) })
		}
	}
}

// load is what the pipeline asks of the database when it is busy.
type load struct {
	generator
	db                  *DB
	accepting, settling int // events of a batch
}

// measure takes b.N events through a new database.
func (l *load) measure(b *testing.B, run func(int) error) {
	l.db = openTest(b, Config{})
	reg, err := l.db.Register(b.Context(), store.RegisterParams{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	l.generator = generator{epoch: reg.Epoch, endpoints: l.endpoints, payload: make([]byte, 1024)}
	rand.Read(l.payload) // never fails since Go 1.24
	b.ReportAllocs()
	b.ResetTimer()
	began, cpu := time.Now(), cpuTime(b)
	if err := run(b.N); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/event")
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "events/s")
}

// accept stores a batch.
func (l *load) accept() ([]store.NewEvent, error) {
	ctx := context.Background()
	if time.Since(l.beatAt) > time.Second {
		l.beatAt = time.Now()
		if _, err := l.db.Beat(ctx, store.BeatParams{Epoch: l.epoch}); err != nil {
			return nil, err
		}
	}
	events := l.events(l.accepting)
	_, err := l.db.Accept(ctx, store.AcceptParams{Epoch: l.epoch, Now: l.now, Routing: []store.TenantVersion{{Tenant: 1}}, Events: events})
	return events, err
}

func (l *load) settle(events []store.NewEvent) error {
	_, err := l.db.Settle(context.Background(), store.SettleParams{Now: time.Now(), Settlements: l.settlements(events)})
	return err
}

// turns takes n events through, one call after the other.
func (l *load) turns(n int) error { return l.run(n, l.settle) }

// pair does so in two goroutines. The accepting one is two batches of outcomes
// ahead at most.
func (l *load) pair(n int) error {
	accepted, settled := make(chan []store.NewEvent, 2), make(chan error, 1)
	go func() {
		var err error
		for events := range accepted {
			if err == nil {
				err = l.settle(events)
			}
		}
		settled <- err
	}()
	err := l.run(n, func(events []store.NewEvent) error {
		accepted <- events
		return nil
	})
	close(accepted)
	return errors.Join(err, <-settled)
}

// run accepts n events, and hands them over in batches to be settled.
func (l *load) run(n int, settle func([]store.NewEvent) error) error {
	batch := func() []store.NewEvent { return make([]store.NewEvent, 0, l.settling+l.accepting) }
	waiting := batch()
	for done := 0; done < n; done += l.accepting {
		events, err := l.accept()
		if err != nil {
			return err
		}
		if waiting = append(waiting, events...); len(waiting) < l.settling && done+l.accepting < n {
			continue
		}
		if err := settle(waiting); err != nil {
			return err
		}
		waiting = batch()
	}
	return nil
}

// cpuTime is what the process has used of the processor, in user and system mode.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
