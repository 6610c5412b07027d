package pipeline

import (
	"slices"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

func TestAReplicaThatHasJustComeIsToldWhatWasSaidBefore(t *testing.T) {
	w := newWaker()
	w.company(0)
	w.wake(7)
	select {
	case <-w.arrived:
		t.Fatal("a lone replica speaks to nobody")
	default:
	}
	w.company(1)
	select {
	case <-w.arrived:
	default:
		t.Fatal("the newcomer is told nothing")
	}
	if got, _ := w.take(); !slices.Equal(got, []store.EndpointNo{7}) {
		t.Errorf("told %v", got)
	}
	w.company(1)
	w.wake(8)
	select {
	case <-w.arrived:
	default:
		t.Error("a hint waits although there is company")
	}
}

// What a replica saw before it fell asleep says nothing of those who came since.
func TestASleepingReplicaSpeaksThoughItWasAlone(t *testing.T) {
	for name, say := range map[string]func(*waker){
		"of due work":   func(w *waker) { w.wake(7) },
		"of a deletion": (*waker).wakeAll,
	} {
		w := newWaker()
		w.company(0)
		w.blind = func() bool { return true }
		say(w)
		select {
		case <-w.arrived:
		default:
			t.Errorf("%s: nobody is told", name)
		}
	}
}

func TestHintsWaitUntilTheyGetThrough(t *testing.T) {
	e := startEngine(t, nil)
	e.flaky.mute.Store(true)
	e.waker.company(1)
	e.waker.wake(7)
	e.waker.wakeAll()
	e.eventually(10*time.Second, "tried twice", func() bool { return e.flaky.hints.Load() >= 2 })
	e.flaky.mute.Store(false)
	e.eventually(10*time.Second, "told", func() bool {
		e.flaky.mu.Lock()
		defer e.flaky.mu.Unlock()
		return slices.Contains(e.flaky.told, 7) && e.flaky.lookedFor
	})
}
