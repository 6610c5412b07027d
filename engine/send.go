package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Event is an event to send.
type Event struct {
	// Type is required: 1 to 128 of a-z A-Z 0-9 . _ - / :
	Type string
	// Payload is delivered byte for byte. It must not be changed any more. It may
	// be empty.
	Payload []byte
	// ContentType and ContentEncoding are sent on to receivers. Default: none.
	ContentType, ContentEncoding string
	// IdempotencyKey makes sending safe to repeat: with the same key, type and
	// payload an event is stored once. At most 255 bytes. Default: none.
	IdempotencyKey string
	// Endpoints limits the event to these. Default: all of the tenant whose
	// subscription covers the type.
	Endpoints []posthaste.ID
	// Headers are sent on with each delivery. Default: none.
	Headers []posthaste.Header
	// OrderKey is kept with the event. Default: none.
	OrderKey string
	// Traceparent is kept and sent on (W3C Trace Context). Default: none.
	Traceparent string
}

// Receipt says that an event is on disk.
type Receipt struct {
	ID         posthaste.ID
	Deliveries int  // made at acceptance; 0 if no endpoint matched
	Duplicate  bool // stored earlier, under the same idempotency key
}

// Send has an event of a tenant accepted: when it returns without an error, the
// event is on disk. Errors are *[posthaste.Error]. After
// [posthaste.CodeUnavailable] the event may or may not be stored; to send it again
// with the same idempotency key finds out.
func (e *Engine) Send(ctx context.Context, tenant string, event Event) (Receipt, error) {
	if err := e.check(event); err != nil {
		return Receipt{}, err
	}
	owner, err := e.pipeline.Tenant(ctx, tenant)
	if err != nil {
		return Receipt{}, noTenant(tenant, err)
	}
	got, err := e.pipeline.Accept(ctx, pipeline.Submission{
		Tenant: owner, Event: event.accepted(), Endpoints: event.Endpoints,
	})
	if err != nil {
		return Receipt{}, err
	}
	return receiptOf(got), nil
}

// accepted is the event as the pipeline takes it.
func (event Event) accepted() posthaste.Event {
	return posthaste.Event{
		Type: event.Type, Source: "api", ContentType: event.ContentType, ContentEncoding: event.ContentEncoding,
		Headers: event.Headers, Payload: event.Payload, IdempotencyKey: event.IdempotencyKey,
		OrderKey: event.OrderKey, Traceparent: event.Traceparent,
	}
}

func receiptOf(r pipeline.Receipt) Receipt {
	return Receipt{ID: r.ID, Deliveries: r.Deliveries, Duplicate: r.Duplicate}
}

func noTenant(name string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return &posthaste.Error{
			Code: posthaste.CodeNotFound, Message: fmt.Sprintf("there is no tenant %q", name), Hint: "check the name, or create it first", Err: err,
		}
	}
	return &posthaste.Error{
		Code: posthaste.CodeUnavailable, Message: fmt.Sprintf("the tenant %q could not be looked up", name), Hint: "try again in a moment", Err: err,
	}
}

func (e *Engine) check(event Event) error {
	if len(event.Payload) > e.config.MaxPayloadBytes {
		return &posthaste.Error{
			Code: posthaste.CodeTooLarge, Message: fmt.Sprintf("the payload is larger than %d bytes", e.config.MaxPayloadBytes),
			Hint: "send less, or a reference to what is large",
		}
	}
	problems := posthaste.ValidateType("Type", event.Type)
	for _, limited := range []struct {
		field, value string
		maxBytes     int
	}{
		{"IdempotencyKey", event.IdempotencyKey, posthaste.MaxIdempotencyKeyBytes},
		{"OrderKey", event.OrderKey, posthaste.MaxOrderKeyBytes},
		{"ContentType", event.ContentType, posthaste.MaxContentTypeBytes},
		{"ContentEncoding", event.ContentEncoding, posthaste.MaxContentTypeBytes},
	} {
		switch {
		case len(limited.value) > limited.maxBytes:
			problems = append(problems, posthaste.Problem{
				Field: limited.field, Message: fmt.Sprintf("is longer than %d bytes", limited.maxBytes),
			})
		case !utf8.ValidString(limited.value) || strings.Contains(limited.value, "\x00"):
			problems = append(problems, posthaste.Problem{Field: limited.field, Message: "is not text", Hint: "UTF-8 without NUL"})
		}
	}
	if event.Traceparent != "" && !posthaste.IsTraceparent(event.Traceparent) {
		problems = append(problems, posthaste.Problem{Field: "Traceparent", Message: "is none", Hint: "see https://www.w3.org/TR/trace-context/#traceparent-header"})
	}
	problems = append(problems, posthaste.ValidateEventHeaders("Headers", event.Headers)...)
	return posthaste.Invalid(problems)
}
