package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

type gateBody struct {
	State               string  `json:"state" enum:"closed,open,half_open,paused,disabled" doc:"closed: deliveries flow; open: the breaker lets none pass; half_open: one is being tried; paused: they wait; disabled: no new ones are made"`
	Reason              *string `json:"reason"`
	Until               moment  `json:"until" doc:"When the next attempt may be made, where one has to wait"`
	ConsecutiveFailures int     `json:"consecutive_failures" doc:"Transient failures in a row, as far as the breaker counts them"`
}

// gatesOf reads the gates of endpoints as the API shows them.
func (a *api) gatesOf(c *call, rows ...store.EndpointRow) (map[store.EndpointNo]gateBody, error) {
	numbers := make([]store.EndpointNo, len(rows))
	for i, row := range rows {
		numbers[i] = row.No
	}
	states, err := a.Pipeline.GatesOf(c.r.Context(), numbers)
	if err != nil {
		return nil, err
	}
	out := make(map[store.EndpointNo]gateBody, len(rows))
	for _, row := range rows {
		out[row.No] = showGate(row, states[row.No], a.Pipeline.Now())
	}
	return out, nil
}

// showGate puts what the owner said before what the gate says, and of that the breaker
// before Retry-After: in the order in which it has to be undone.
func showGate(row store.EndpointRow, s gate.State, now time.Time) gateBody {
	g := gateBody{State: "closed", ConsecutiveFailures: s.Failures}
	policy := gate.PolicyOf(row.Definition)
	switch {
	case !row.DeletedAt.IsZero():
		g.State, g.Reason = "disabled", orNull("deleted")
	case row.Disabled:
		g.State, g.Reason = "disabled", orNull(row.DisabledReason)
	case row.Paused:
		g.State = "paused"
	case s.Probing(policy):
		g.State, g.Until = s.Breaker.String(), moment(s.Hold(policy, now))
		g.Reason = orNull(fmt.Sprintf("%d transient failures in a row", s.Failures))
	case s.RetryAfterUntil.After(now):
		g.Until, g.Reason = moment(s.RetryAfterUntil), orNull("the endpoint asked for it by Retry-After")
	}
	return g
}

// answerChanged shows an endpoint after a change, with its gate.
func (a *api) answerChanged(c *call, row store.EndpointRow) error {
	gates, err := a.gatesOf(c, row)
	if err != nil {
		return err
	}
	c.answerEndpoint(http.StatusOK, showEndpoint(row, gates[row.No]))
	return nil
}
