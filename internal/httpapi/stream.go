package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/stream"
)

const (
	headerLastEventID = "Last-Event-ID"
	paramLastEventID  = "last_event_id"
)

// streamChanges answers with the live stream until the client goes away.
func (a *api) streamChanges(c *call) error {
	const mostBytes = 16 << 10
	q := newQuery(c, "types", paramLastEventID)
	sub := stream.Subscription{Tenant: c.tenant.No, LastID: q.text(paramLastEventID, mostBytes)}
	if id := c.r.Header.Get(headerLastEventID); id != "" {
		sub.LastID = id
	}
	if types := q.text("types", mostBytes); types != "" {
		for name := range strings.SplitSeq(types, ",") {
			kind, ok := store.ParseChangeKind(strings.TrimSpace(name))
			if !ok {
				q.report("types", fmt.Sprintf("has %.40q, which is no type", name), "event.accepted, delivery.delivered, delivery.dead, endpoint.gate")
				continue
			}
			if !slices.Contains(sub.Kinds, kind) {
				sub.Kinds = append(sub.Kinds, kind)
			}
		}
	}
	if err := q.err(); err != nil {
		return err
	}
	if c.r.Method == http.MethodHead {
		c.Header().Set("Content-Type", "text/event-stream")
		c.WriteHeader(http.StatusOK)
		return nil
	}
	c.endless = true
	err := a.Stream.Serve(c.r.Context(), c, sub)
	if err != nil {
		c.endless = false
	}
	return err
}
