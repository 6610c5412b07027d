package pipeline

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// Outcomes pile up until nothing starts any more. Once they are recorded the rest
// starts at once: no heartbeat comes here that could wake anybody.
func TestNothingButTheirRecordWakesWhatOutcomesHoldUp(t *testing.T) {
	e, r := startEngine(t, nil), newReceiver(t)
	const endpoints, events = 30, 100
	for range endpoints {
		e.endpoint(r.URL, nil)
	}
	recording := make(chan struct{})
	record := sync.OnceFunc(func() { close(recording) })
	t.Cleanup(record) // before the engine stops
	hold := func(store.SettleParams) error { <-recording; return nil }
	e.flaky.settle.Store(&hold)
	for i := range events {
		e.send("a", fmt.Sprint(i))
	}
	e.eventually(20*time.Second, "outcomes pile up", e.load.overburdened)
	e.beating.Lock() // until this has ended
	e.life.mu.Lock()
	e.life.beatAt = sinceBoot() + time.Hour // fresh for as long as the test takes
	e.life.mu.Unlock()
	record()
	beat := sync.OnceFunc(e.beating.Unlock)
	t.Cleanup(beat)
	e.eventually(20*time.Second, "all have arrived", func() bool { return len(r.seen()) == endpoints*events })
}
