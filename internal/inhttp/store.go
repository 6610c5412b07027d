package inhttp

import (
	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/inbound"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Expander takes a verified delivery that holds several events apart. The delivery
// is stored as it came, and each item as a child of it, all in one commit.
type Expander func(body []byte) (items []Item, warnings []string)

// Item is one of the events that a delivery holds.
type Item struct {
	Type     string // a valid type of an event
	Key      string // the same when the provider sends the item again; 255 bytes at most, never empty
	Payload  []byte // JSON
	Warnings []string
}

// store makes a delivery durable and returns the provider's success answer. A
// delivery that was stored before is answered the same: the first one is kept,
// whatever the bytes of the second.
func (h *Handler) store(q *request, outcome inbound.Outcome) (inbound.Answer, error) {
	event := outcome.Event
	delivery := q.submission(event)
	q.warn(event.Warnings...)
	receipts, err := h.Pipeline.AcceptTogether(q.r.Context(), delivery, h.expand(q, event))
	if posthaste.CodeOf(err) == posthaste.CodeNotFound { // the tenant is deleted, since the source was looked up
		return q.unknown(), nil
	}
	if err != nil {
		return inbound.Answer{}, err
	}
	q.result, q.receipts = resultStored, receipts
	if receipts[0].Duplicate {
		q.result = resultDuplicate
	}
	if receipts[0].Differs {
		q.warn("a delivery with this id came before, with another type or other bytes; that one is kept")
	}
	h.Pipeline.Verified(q.r.Context(), q.known)
	return outcome.Answer, nil
}

// submission is the event that a delivery becomes: its body as it came.
func (q *request) submission(event inbound.Event) pipeline.Submission {
	s := q.from()
	s.Event.Type, s.Event.IdempotencyKey, s.Event.Payload = event.Type, event.DeliveryID, q.body
	s.Event.ContentType = q.one("Content-Type")
	s.Event.ContentEncoding = q.one("Content-Encoding")
	s.Event.Headers = q.forwarded()
	s.Event.SourceHeaders = q.kept(maxKeptBytes)
	return s
}

// from is a submission of the request's source. Keys are the source's own: two
// sources of one provider may see the same delivery id.
func (q *request) from() pipeline.Submission {
	source := q.known.Row.ID.Print(posthaste.KindSource)
	return pipeline.Submission{
		Tenant: q.known.Tenant, Namespace: store.NamespaceSource, KeyScope: source, KeepFirst: true,
		Event: posthaste.Event{Source: source, Traceparent: q.traceparent()},
	}
}

// traceparent is the trace that the provider's request belongs to, which goes on with
// all that comes of it. Proxies on the way may have made it as well.
func (q *request) traceparent() string {
	if given := q.r.Header.Values("Traceparent"); len(given) == 1 && posthaste.IsTraceparent(given[0]) {
		return given[0]
	}
	return ""
}

// one returns a header that says what the body is. One that is too long to be
// kept is left to the kept headers.
func (q *request) one(name string) string {
	if v := q.r.Header.Get(name); len(v) <= posthaste.MaxContentTypeBytes {
		return v
	}
	return ""
}

// expand makes the children of a delivery. Keys of items have a scope beside that of
// deliveries, for the two are named by different hands.
func (h *Handler) expand(q *request, event inbound.Event) (children []pipeline.Submission) {
	expander := h.Expanders[q.known.Row.Provider]
	if expander == nil || event.Malformed {
		return nil
	}
	if event.Compressed {
		q.warn("the body is compressed, which this provider never does: it is kept as one event")
		return nil
	}
	items, warnings := expander(q.body)
	for _, item := range items {
		warnings = append(warnings, item.Warnings...)
		s := q.from()
		s.KeyScope += "/item"
		s.Event.Type, s.Event.IdempotencyKey, s.Event.Payload, s.Event.ContentType = item.Type, item.Key, item.Payload, "application/json"
		children = append(children, s)
	}
	q.warn(warnings...)
	return children
}
