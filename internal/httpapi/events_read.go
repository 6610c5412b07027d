package httpapi

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// eventBody is an event as the API shows it. Its payload is at …/payload.
type eventBody struct {
	ID              string             `json:"id"`
	Type            string             `json:"type"`
	Source          string             `json:"source" doc:"api for what came in through POST /v1/events, the id of the source for what a provider sent"`
	ContentType     *string            `json:"content_type"`
	ContentEncoding *string            `json:"content_encoding"`
	Headers         []posthaste.Header `json:"headers" doc:"Forwarded with each delivery"`
	SourceHeaders   []posthaste.Header `json:"source_headers,omitempty" doc:"As a source received them, credentials masked; of a single event only"`
	PayloadBytes    int                `json:"payload_bytes"`
	Deliveries      int                `json:"deliveries" doc:"Made at acceptance; resends are not counted"`
	IdempotencyKey  *string            `json:"idempotency_key"`
	Parent          *string            `json:"parent" doc:"The event that caused this one"`
	CorrelationID   *string            `json:"correlation_id" doc:"The first event of the chain"`
	OrderKey        *string            `json:"order_key"`
	Traceparent     *string            `json:"traceparent"`
	CreatedAt       moment             `json:"created_at"`
}

func showEvent(row store.EventRow) eventBody {
	e := row.Event
	headers := e.Headers
	if headers == nil {
		headers = []posthaste.Header{}
	}
	return eventBody{
		ID: e.ID.Print(posthaste.KindEvent), Type: e.Type, Source: e.Source,
		ContentType: orNull(e.ContentType), ContentEncoding: orNull(e.ContentEncoding), Headers: headers, SourceHeaders: e.SourceHeaders,
		PayloadBytes: row.PayloadBytes, Deliveries: e.FanOut, IdempotencyKey: orNull(e.IdempotencyKey),
		Parent: idOrNull(posthaste.KindEvent, e.Parent), CorrelationID: idOrNull(posthaste.KindEvent, e.CorrelationID),
		OrderKey: orNull(e.OrderKey), Traceparent: orNull(e.Traceparent), CreatedAt: moment(e.CreatedAt()),
	}
}

func (a *api) listEvents(c *call) error {
	q := newQuery(c, "type", "source", "idempotency_key", "parent", "since", "until", "limit", "cursor")
	p := store.ListEventsParams{
		Tenant: c.tenant.No, Type: q.eventType("type"), Source: q.text("source", 255),
		IdempotencyKey: q.text("idempotency_key", posthaste.MaxIdempotencyKeyBytes),
		Parent:         q.id("parent", posthaste.KindEvent),
		Since:          q.time("since"), Until: q.time("until"), Before: q.cursor(eventList), Limit: q.limit(),
	}
	if err := q.err(); err != nil {
		return err
	}
	found, err := a.store.ListEvents(c.r.Context(), p)
	if err != nil {
		return err
	}
	c.write(http.StatusOK, newPage(found.Events, showEvent, printCursor(eventList, found.Next)))
	return nil
}

// event reads the event that the path names.
func (a *api) event(c *call) (posthaste.Event, error) {
	if err := newQuery(c).err(); err != nil {
		return posthaste.Event{}, err
	}
	id, err := pathID(c, posthaste.KindEvent, "event")
	if err != nil {
		return posthaste.Event{}, err
	}
	e, err := a.store.Event(c.r.Context(), c.tenant.No, id)
	if errors.Is(err, store.ErrNotFound) {
		return e, notFound("event")
	}
	return e, err
}

func (a *api) readEvent(c *call) error {
	e, err := a.event(c)
	if err != nil {
		return err
	}
	c.write(http.StatusOK, showEvent(store.EventRow{Event: e, PayloadBytes: len(e.Payload)}))
	return nil
}

// readPayload gives the very bytes. They are somebody else's: whatever they are,
// a browser must neither guess their type nor run them on this origin. The
// content encoding is told in a header of ours, since under its own name clients
// would undo it and see other bytes.
func (a *api) readPayload(c *call) error {
	e, err := a.event(c)
	if err != nil {
		return err
	}
	contentType := e.ContentType
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	h := c.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(e.Payload)))
	h.Set("Content-Disposition", `attachment; filename="`+e.ID.Print(posthaste.KindEvent)+`"`)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	if e.ContentEncoding != "" {
		h.Set("Posthaste-Content-Encoding", e.ContentEncoding)
	}
	c.WriteHeader(http.StatusOK)
	_, _ = c.Write(e.Payload)
	return nil
}

type resendRequest struct {
	EndpointID string `json:"endpoint_id" doc:"Where the event is sent once more: the endpoint's id, or your own as uid:MINE"`
}

// resendEvent makes a delivery that is none of the fan-out's: the answer shows
// it, so that its way can be followed.
func (a *api) resendEvent(c *call) error {
	id, err := pathID(c, posthaste.KindEvent, "event")
	if err != nil {
		return err
	}
	var in resendRequest
	if err := a.readJSON(c, &in, &resendRequest{}, nil); err != nil {
		return err
	}
	endpoint, err := a.endpointNamed(c, "endpoint_id", in.EndpointID)
	if err == nil && !endpoint.DeletedAt.IsZero() {
		err = noSuchEndpoint("endpoint_id")
	}
	if err != nil {
		return err
	}
	delivery, err := a.Pipeline.Resend(c.r.Context(), c.tenant, id, endpoint)
	if errors.Is(err, store.ErrNotFound) {
		return notFound("event")
	}
	if err != nil {
		return err
	}
	row, err := a.store.Delivery(c.r.Context(), c.tenant.No, delivery)
	if err != nil {
		return err
	}
	body := showDelivery(row)
	c.Header().Set("Location", "/v1/deliveries/"+body.ID)
	c.write(http.StatusCreated, body)
	return nil
}
