package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// row is a row of an outbox.
type row struct {
	id             int64 // its place in the outbox
	rowID          [16]byte
	enqueuedAt     time.Time
	tenant         string
	eventType      string
	orderKey       string
	idempotencyKey string
	contentType    string
	headers        []byte // a JSON object of strings
	payload        []byte
}

// reason is why a row cannot be accepted.
type reason struct {
	code posthaste.Code
	text string
}

// verdict is a row that has to be parked.
type verdict struct {
	id int64
	reason
}

const traceparent = "traceparent"

// submission makes of a row what the pipeline takes. A problem is the row's own: it can't be
// accepted. An error is not.
func (r *Relay) submission(ctx context.Context, row *row) (in pipeline.Submission, problem *reason, err error) {
	tenant, err := r.cfg.Pipeline.Tenant(ctx, row.tenant)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return in, &reason{posthaste.CodeNotFound, fmt.Sprintf("there is no tenant %q", row.tenant)}, nil
	case err != nil:
		return in, nil, err
	case !tenant.DeletedAt.IsZero():
		return in, &reason{posthaste.CodeNotFound, fmt.Sprintf("the tenant %q is deleted", row.tenant)}, nil
	}
	if problem := r.check(row); problem != nil {
		return in, problem, nil
	}
	headers, trace, problem := readHeaders(row.headers)
	if problem != nil {
		return in, problem, nil
	}
	return pipeline.Submission{
		Tenant: tenant,
		Event: posthaste.Event{
			Type: row.eventType, Source: r.source, ContentType: row.contentType, Headers: headers, Payload: row.payload,
			IdempotencyKey: row.idempotencyKey, OrderKey: row.orderKey, Traceparent: trace,
		},
		OutboxRow: row.rowID,
	}, nil, nil
}

// check finds what the database did not: its own limits are looser, and whoever owns it
// can change them.
func (r *Relay) check(row *row) *reason {
	for _, p := range posthaste.ValidateType("type", row.eventType) {
		return &reason{posthaste.CodeInvalid, "type " + p.Message}
	}
	if len(row.payload) > r.cfg.MaxPayloadBytes {
		return &reason{posthaste.CodeTooLarge, fmt.Sprintf("the payload has %d bytes; --max-payload is %d", len(row.payload), r.cfg.MaxPayloadBytes)}
	}
	for _, limited := range []struct {
		name, value string
		maxBytes    int
	}{
		{"order_key", row.orderKey, posthaste.MaxOrderKeyBytes},
		{"idempotency_key", row.idempotencyKey, posthaste.MaxIdempotencyKeyBytes},
		{"content_type", row.contentType, posthaste.MaxContentTypeBytes},
	} {
		if len(limited.value) > limited.maxBytes {
			return &reason{posthaste.CodeInvalid, fmt.Sprintf("%s is longer than %d bytes", limited.name, limited.maxBytes)}
		}
		if strings.ContainsFunc(limited.value, func(c rune) bool { return c == 0 }) {
			return &reason{posthaste.CodeInvalid, limited.name + " has a zero byte in it"}
		}
	}
	if strings.ContainsFunc(row.contentType, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return &reason{posthaste.CodeInvalid, "content_type has a control character in it"}
	}
	return nil
}

// readHeaders reads what is to be forwarded, by name, and the trace context among it.
func readHeaders(raw []byte) (headers []posthaste.Header, trace string, problem *reason) {
	if len(raw) == 0 || string(raw) == "{}" {
		return nil, "", nil
	}
	var byName map[string]string
	if err := json.Unmarshal(raw, &byName); err != nil {
		return nil, "", &reason{posthaste.CodeInvalid, "headers is not an object of strings"}
	}
	for _, name := range sortedNames(byName) {
		value := byName[name]
		if strings.EqualFold(name, traceparent) {
			if posthaste.IsTraceparent(value) { // one that is not valid is ignored, as the API does
				trace = value
			}
			continue
		}
		headers = append(headers, posthaste.Header{Name: name, Value: value})
	}
	if problems := posthaste.ValidateEventHeaders("headers", headers); len(problems) > 0 {
		p := problems[0]
		return nil, "", &reason{posthaste.CodeInvalid, fmt.Sprintf("%s %s: %s", headerField(p.Field, headers), p.Message, p.Hint)}
	}
	return headers, trace, nil
}

// headerField names the header of a problem, where it is of one, instead of its place.
func headerField(field string, headers []posthaste.Header) string {
	for i, h := range headers {
		if field == fmt.Sprintf("headers[%d]", i) {
			return fmt.Sprintf("header %q", deliver.Printable(h.Name))
		}
	}
	return field
}
