package pipeline

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Every way into the pipeline has the same rule for an event's headers, and nothing of
// a refused event is stored.
func TestHeadersOfEveryDoor(t *testing.T) {
	e := startEngine(t, nil)
	event := func(headers ...posthaste.Header) Submission {
		return Submission{Tenant: e.tenant, Event: posthaste.Event{Type: "a", Source: "api", Payload: []byte("{}"), Headers: headers}}
	}
	var many []posthaste.Header
	for i := range 2000 {
		many = append(many, posthaste.Header{Name: "X-" + strconv.Itoa(i), Value: strings.Repeat("a", 1000)})
	}
	good := event(posthaste.Header{Name: "X-A", Value: "b"})
	doors := map[string]func(Submission) error{
		"one event": func(s Submission) error { _, err := e.Accept(t.Context(), s); return err },
		"a batch": func(s Submission) error {
			got := e.AcceptAll(t.Context(), []Submission{good, s})
			if got[0].Err != nil {
				t.Errorf("the event beside it is refused: %v", got[0].Err)
			}
			return got[1].Err
		},
		"a group": func(s Submission) error {
			_, err := e.AcceptTogether(t.Context(), event(), []Submission{s})
			return err
		},
		"a handler": func(s Submission) error {
			_, err := e.acceptChild(t.Context(), Handling{Event: posthaste.Event{ID: posthaste.ID{1}}, Delivery: posthaste.ID{1}}, s, 1)
			return err
		},
		"an outbox": func(s Submission) error {
			commit := func(ctx context.Context, p store.AcceptParams, _ []int) (store.Accepted, error) {
				return e.store.Accept(ctx, p)
			}
			got := e.AcceptWith(t.Context(), []Submission{good, s}, commit)
			if got[0].Err != nil {
				t.Errorf("the event before it is refused: %v", got[0].Err)
			}
			return got[1].Err
		},
	}
	for door, accept := range doors {
		for what, headers := range map[string][]posthaste.Header{
			"credentials":      {{Name: "authorization", Value: "Bearer x"}},
			"a cookie":         {{Name: "Cookie", Value: "a=b"}},
			"a second header":  {{Name: "X-A", Value: "b\r\nX-Injected: 1"}},
			"of ours":          {{Name: "Webhook-Signature", Value: "v1,x"}},
			"of the transport": {{Name: "Transfer-Encoding", Value: "chunked"}},
			"too many":         many,
			"too large":        {{Name: "X-A", Value: strings.Repeat("a", posthaste.MaxEventHeaderBytes)}},
		} {
			before := e.events()
			if err := accept(event(headers...)); posthaste.CodeOf(err) != posthaste.CodeInvalid {
				t.Errorf("%s, %s: %v", door, what, err)
			}
			stored := e.events() - before
			if door == "a batch" || door == "an outbox" {
				stored-- // the good one
			}
			if stored != 0 {
				t.Errorf("%s, %s: %d events are stored", door, what, stored)
			}
		}
		if err := accept(good); err != nil {
			t.Errorf("%s: a good event is refused: %v", door, err)
		}
	}
}
