package httpapi

import (
	"encoding/base64"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// deliveryBody is a delivery as the API shows it; lists leave out the attempts.
type deliveryBody struct {
	ID            string  `json:"id"`
	EventID       string  `json:"event_id" doc:"What a receiver sees as webhook-id"`
	EndpointID    string  `json:"endpoint_id"`
	Type          string  `json:"type" doc:"The event's"`
	Status        string  `json:"status" enum:"pending,delivering,delivered,dead"`
	AttemptCount  int     `json:"attempt_count"`
	CreatedAt     moment  `json:"created_at" doc:"When its event was accepted"`
	FinishedAt    moment  `json:"finished_at"`
	RunAt         moment  `json:"run_at" doc:"When the present run began: at acceptance or at the last replay"`
	ExpiresAt     moment  `json:"expires_at" doc:"When the present run ends"`
	NextAttemptAt moment  `json:"next_attempt_at" doc:"Null while its endpoint is paused or disabled"`
	HeldBy        *string `json:"held_by" enum:"paused,disabled,breaker,retry_after" doc:"What keeps a pending one from being attempted, of its endpoint; null: nothing, or its turn or its retry has not come"`
	Reason        *string `json:"reason" doc:"Why it is dead"`
	LastError     *string `json:"last_error"`
	Tenant        string  `json:"tenant,omitempty" doc:"Whose it is; only where all tenants are read"`

	Attempts []attemptBody `json:"attempts,omitzero" doc:"By number; only where one delivery is read"`
}

type attemptBody struct {
	Number               int                `json:"number" doc:"From 1, going on through replays; what a receiver sees as posthaste-attempt"`
	StartedAt            moment             `json:"started_at"`
	DurationMS           float64            `json:"duration_ms"`
	Outcome              *string            `json:"outcome" enum:"delivered,transient,permanent,lost"`
	Late                 bool               `json:"late" doc:"Its result came after it had been recorded as lost"`
	SentTwice            bool               `json:"sent_twice" doc:"The request was sent again, over a new connection: the first one, a reused one, broke before an answer. The receiver may have seen both"`
	Cause                *string            `json:"cause" doc:"The step at which it failed; local: this server lacked something, which counts neither against the endpoint nor against the retry schedule"`
	StatusCode           *int               `json:"status_code"`
	Error                *string            `json:"error"`
	URL                  *string            `json:"url"`
	Replica              string             `json:"replica"`
	TimingsMS            timingsBody        `json:"timings_ms" doc:"A part that did not happen is 0: a connection that was used again has no dns, connect and tls"`
	RequestHeaders       []posthaste.Header `json:"request_headers" doc:"As they were sent, signature and credentials masked"`
	ResponseHeaders      []posthaste.Header `json:"response_headers"`
	ResponseBody         *string            `json:"response_body" doc:"The first 16 KiB"`
	ResponseBodyEncoding *string            `json:"response_body_encoding" enum:"text,base64" doc:"base64 where the body is not UTF-8"`
}

type timingsBody struct {
	DNS       float64 `json:"dns"`
	Connect   float64 `json:"connect"`
	TLS       float64 `json:"tls"`
	FirstByte float64 `json:"first_byte"`
	Total     float64 `json:"total"`
}

// holds returns what holds the endpoints of those deliveries that wait.
func (a *api) holds(c *call, rows ...store.DeliveryRow) map[store.EndpointNo]pipeline.Held {
	var waiting []store.EndpointNo
	for _, row := range rows {
		if row.State == posthaste.StatePending && !row.Leased {
			waiting = append(waiting, row.Endpoint)
		}
	}
	return a.Pipeline.HeldBy(c.r.Context(), waiting)
}

// hold shows what holds a delivery that waits.
func (b *deliveryBody) hold(row store.DeliveryRow, held pipeline.Held) {
	if held.By == "" || row.State != posthaste.StatePending || row.Leased {
		return
	}
	b.HeldBy = &held.By
	switch next := time.Time(b.NextAttemptAt); {
	case held.Until.IsZero():
		b.NextAttemptAt = moment{}
	case held.Until.After(next):
		b.NextAttemptAt = moment(held.Until)
	}
}

func showDelivery(row store.DeliveryRow) deliveryBody {
	d := row.Delivery
	return deliveryBody{
		ID: d.ID.Print(posthaste.KindDelivery), EventID: d.EventID().Print(posthaste.KindEvent),
		EndpointID: d.EndpointID.Print(posthaste.KindEndpoint), Type: d.Type, Status: d.Status(), AttemptCount: d.Attempts,
		CreatedAt: moment(d.ID.Time()), FinishedAt: moment(d.FinishedAt), RunAt: moment(d.RunAt), ExpiresAt: moment(d.ExpiresAt),
		NextAttemptAt: moment(d.NextAttemptAt), Reason: orNull(d.Reason.String()), LastError: orNull(row.LastError),
	}
}

// showAttempt shows the body of a response as text where it is, since most are,
// and says so where it is not. Without a response there is no body, which is not
// the same as an empty one.
func showAttempt(at posthaste.Attempt) attemptBody {
	t := at.Timings
	body := attemptBody{
		Number: at.Number, StartedAt: moment(at.StartedAt), DurationMS: milliseconds(t.Total), Outcome: orNull(at.Outcome.String()),
		Late: at.Late, SentTwice: at.SentTwice, Cause: orNull(at.Cause.String()), Error: orNull(at.Error), Replica: at.Replica,
		TimingsMS: timingsBody{
			DNS: milliseconds(t.DNS), Connect: milliseconds(t.Connect), TLS: milliseconds(t.TLS),
			FirstByte: milliseconds(t.FirstByte), Total: milliseconds(t.Total),
		},
		RequestHeaders: []posthaste.Header{}, ResponseHeaders: at.ResponseHeaders,
	}
	if body.ResponseHeaders == nil {
		body.ResponseHeaders = []posthaste.Header{}
	}
	if at.StatusCode != 0 {
		body.StatusCode = &at.StatusCode
		text, encoding := string(at.ResponseBody), "text"
		if !utf8.Valid(at.ResponseBody) {
			text, encoding = base64.StdEncoding.EncodeToString(at.ResponseBody), "base64"
		}
		body.ResponseBody, body.ResponseBodyEncoding = &text, &encoding
	}
	return body
}

// listDeliveries answers an unknown endpoint with a problem rather than with an
// empty page: who asks for the deliveries of one has it from somewhere, and a
// wrong id or tenant should not look like a quiet endpoint.
func (a *api) listDeliveries(c *call) error {
	q := newQuery(c, "status", "endpoint_id", "event_id", "type", "since", "until", "limit", "cursor")
	p := store.ListDeliveriesParams{
		Tenant: c.tenant.No, Status: q.oneOf("status", "pending", "delivering", "delivered", "dead"),
		Event: q.id("event_id", posthaste.KindEvent), Type: q.eventType("type"),
		Since: q.time("since"), Until: q.time("until"), Before: q.cursor(deliveryList), Limit: q.limit(),
	}
	if name := q.values.Get("endpoint_id"); name != "" {
		row, err := a.endpointNamed(c, "endpoint_id", name) // a deleted one too: its history stays readable
		problems, err := problemsOf(err)
		if err != nil {
			return err
		}
		q.problems = append(q.problems, problems...)
		p.Endpoint = row.No
	}
	if err := q.err(); err != nil {
		return err
	}
	found, err := a.store.ListDeliveries(c.r.Context(), p)
	if err != nil {
		return err
	}
	names, err := tenantNames(a, c, found.Deliveries, func(row store.DeliveryRow) store.TenantNo { return row.Tenant })
	if err != nil {
		return err
	}
	holds := a.holds(c, found.Deliveries...)
	show := func(row store.DeliveryRow) deliveryBody {
		body := showDelivery(row)
		body.hold(row, holds[row.Endpoint])
		body.Tenant = names[row.Tenant]
		return body
	}
	c.write(http.StatusOK, newPage(found.Deliveries, show, printCursor(deliveryList, found.Next)))
	return nil
}

func (a *api) readDelivery(c *call) error {
	if err := newQuery(c).err(); err != nil {
		return err
	}
	id, err := pathID(c, posthaste.KindDelivery, "delivery")
	if err != nil {
		return err
	}
	row, err := a.store.Delivery(c.r.Context(), c.tenant.No, id)
	if errors.Is(err, store.ErrNotFound) {
		return notFound("delivery")
	}
	if err != nil {
		return err
	}
	attempts, err := a.store.Attempts(c.r.Context(), id)
	if err != nil {
		return err
	}
	names, err := tenantNames(a, c, []store.DeliveryRow{row}, func(row store.DeliveryRow) store.TenantNo { return row.Tenant })
	if err != nil {
		return err
	}
	body := showDelivery(row)
	body.hold(row, a.holds(c, row)[row.Endpoint])
	body.Tenant = names[row.Tenant]
	body.Attempts = make([]attemptBody, 0, len(attempts))
	for _, at := range attempts {
		body.Attempts = append(body.Attempts, showAttempt(at))
	}
	if err := a.addRequests(c, row, attempts, body.Attempts); err != nil {
		return err
	}
	c.write(http.StatusOK, body)
	return nil
}

// addRequests rebuilds what each attempt sent. An event that retention took
// meanwhile leaves it out.
func (a *api) addRequests(c *call, row store.DeliveryRow, attempts []posthaste.Attempt, bodies []attemptBody) error {
	if len(attempts) == 0 {
		return nil
	}
	event, err := a.store.Event(c.r.Context(), row.Tenant, row.EventID())
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for i, at := range attempts {
		headers, url, err := a.Pipeline.RequestHeaders(c.r.Context(), row, event, at)
		if err != nil {
			return err
		}
		if headers != nil {
			bodies[i].RequestHeaders = headers
		}
		bodies[i].URL = orNull(url)
	}
	return nil
}

type replayBody struct {
	Status string `json:"status" enum:"pending"`
}

// replayDelivery has nothing to decide: of concurrent requests the database lets
// one win, and the others hear that the delivery is not dead.
func (a *api) replayDelivery(c *call) error {
	err := a.withDelivery(c, func(id posthaste.ID) error {
		return a.Pipeline.Replay(c.r.Context(), c.tenant, id)
	})
	if err == nil {
		c.write(http.StatusOK, replayBody{Status: posthaste.StatePending.String()})
	}
	return err
}

type skipBody struct {
	Status string `json:"status" enum:"dead"`
	Reason string `json:"reason" enum:"skipped"`
}

// skipDelivery ends a delivery that its endpoint should not see, or that holds up
// those behind it.
func (a *api) skipDelivery(c *call) error {
	err := a.withDelivery(c, func(id posthaste.ID) error {
		_, err := a.Pipeline.Skip(c.r.Context(), c.tenant, id)
		return err
	})
	if err == nil {
		c.write(http.StatusOK, skipBody{Status: posthaste.StateDead.String(), Reason: posthaste.ReasonSkipped.String()})
	}
	return err
}

// withDelivery does something to the delivery that the path of a request without
// parameters and body names.
func (a *api) withDelivery(c *call, do func(id posthaste.ID) error) error {
	if err := newQuery(c).err(); err != nil {
		return err
	}
	id, err := pathID(c, posthaste.KindDelivery, "delivery")
	if err != nil {
		return err
	}
	if err := a.noBody(c); err != nil {
		return err
	}
	err = do(id)
	if errors.Is(err, store.ErrNotFound) {
		return notFound("delivery")
	}
	return err
}
