//go:build unix

package sqlite

import (
	"crypto/rand"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// BenchmarkAcceptSettle takes batches of 1 KiB events with an idempotency key
// and one delivery each through Accept and Settle. An operation is an event.
// Of its figures cpu-µs/event depends least on what else the machine does.
//
// "turns" calls one after the other; in "pair" one goroutine accepts and another
// settles, as in the engine.
func BenchmarkAcceptSettle(b *testing.B) {
	for _, endpoints := range []int{1, 1000} {
		for _, size := range []int{32, 64, 256} {
			name := fmt.Sprintf("endpoints=%d/batch=%d", endpoints, size)
			b.Run(name+"/turns", func(b *testing.B) { benchAcceptSettle(b, endpoints, size, false) })
			b.Run(name+"/pair", func(b *testing.B) { benchAcceptSettle(b, endpoints, size, true) })
		}
	}
}

func benchAcceptSettle(b *testing.B, endpoints, size int, pair bool) {
	db := openTest(b, Config{})
	reg, err := db.Register(b.Context(), store.RegisterParams{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	g := generator{epoch: reg.Epoch, endpoints: endpoints, payload: make([]byte, 1024)}
	rand.Read(g.payload) // never fails since Go 1.24
	routing := []store.TenantVersion{{Tenant: 1}}
	accept := func(events []store.NewEvent) error {
		_, err := db.Accept(b.Context(), store.AcceptParams{Epoch: reg.Epoch, Now: g.now, Routing: routing, Events: events})
		return err
	}
	settle := func(events []store.NewEvent) error {
		_, err := db.Settle(b.Context(), store.SettleParams{Now: time.Now(), Settlements: g.settlements(events)})
		return err
	}
	// Accepted batches wait for the settling goroutine, two at most.
	accepted, settled := make(chan []store.NewEvent, 2), make(chan error, 1)
	go func() {
		var err error
		for events := range accepted {
			if err == nil {
				err = settle(events)
			}
		}
		settled <- err
	}()
	b.ReportAllocs()
	b.ResetTimer()
	began, cpu := time.Now(), cpuTime(b)
	for done := 0; done < b.N; done += size {
		if time.Since(g.beatAt) > time.Second {
			g.beatAt = time.Now()
			if _, err := db.Beat(b.Context(), store.BeatParams{Epoch: reg.Epoch}); err != nil {
				b.Fatal(err)
			}
		}
		events := g.events(size)
		if err := accept(events); err != nil {
			b.Fatal(err)
		}
		if pair {
			accepted <- events
		} else if err := settle(events); err != nil {
			b.Fatal(err)
		}
	}
	close(accepted)
	if err := <-settled; err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/event")
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "events/s")
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
