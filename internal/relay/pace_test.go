package relay

import (
	"errors"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
)

func TestPace(t *testing.T) {
	p := pace{most: 500, now: 500}
	for _, step := range []struct {
		rows, spilled int
		want          int
		rest          time.Duration
	}{
		{500, 0, 500, 0}, {500, 300, 250, spillRest}, {250, 200, 125, spillRest}, {125, 100, 64, spillRest}, {64, 64, 64, spillRest},
		{64, 10, 64, spillRest}, {64, 0, 128, 0}, {128, 0, 192, 0},
	} {
		if p.note(step.rows, step.spilled); p.rows() != step.want || p.rest() != step.rest {
			t.Fatalf("after %+v: %d rows, rest %v", step, p.rows(), p.rest())
		}
	}
	small := pace{most: 10, now: 10}
	if small.note(10, 10); small.rows() != 10 {
		t.Errorf("%d rows of 10 at most", small.rows())
	}
}

func TestReadinessTellsWhenTheRelayIsStuck(t *testing.T) {
	r := &Relay{name: "shop"}
	r.troubled(errors.New("away"))
	if err := r.Ready(); err != nil {
		t.Errorf("at once: %v", err)
	}
	r.since = time.Now().Add(-stuckAfter)
	r.troubled(errors.New("still away"))
	if err := r.Ready(); posthaste.CodeOf(err) != posthaste.CodeUnavailable {
		t.Errorf("after a while: %v", err)
	}
	if r.troubled(nil); r.Ready() != nil {
		t.Errorf("when it is over: %v", r.Ready())
	}
}
