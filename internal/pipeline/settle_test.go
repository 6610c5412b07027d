package pipeline

import (
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// fatOutcome is one whose receiver answered as much as is kept.
func fatOutcome() outcome {
	a := &posthaste.Attempt{ResponseBody: make([]byte, posthaste.MaxResponseBodyBytes)}
	for range posthaste.MaxResponseHeaders {
		a.ResponseHeaders = append(a.ResponseHeaders, posthaste.Header{Name: "x-fat", Value: strings.Repeat("x", 1000)})
	}
	return outcome{settlement: store.Settlement{Attempt: a}}
}

func TestResponsesThatWaitAreBounded(t *testing.T) {
	p := &Pipeline{basket: newOutbasket()}
	whole := fatOutcome()
	for range MaxUnrecorded {
		p.settle(fatOutcome())
	}
	const most = maxUnrecordedBytes + MaxUnrecorded*answerLeft
	if got := p.load.unrecordedBytes.Load(); got > most {
		t.Errorf("%d bytes wait, want %d at most", got, most)
	}
	first, last := p.basket.waiting[0], p.basket.waiting[MaxUnrecorded-1]
	if answerBytes(first) != answerBytes(whole) || answerBytes(last) > answerLeft || len(last.settlement.Attempt.ResponseBody) == 0 {
		t.Errorf("the first outcome has %d bytes, the last one %d", answerBytes(first), answerBytes(last))
	}
}
