package pipeline

import (
	"slices"
	"testing"

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
	if got := w.take(); !slices.Equal(got, []store.EndpointNo{7}) {
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
