package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// HandlerFunc works on one event. Nil ends the delivery well; an error is tried
// again, as the handler's schedule says, unless [Permanent] marks it. A panic is an
// error too.
//
// The context ends with the handler's timeout, or when the engine's grace is over
// at shutdown. A function that has not returned a second later is left behind: its
// attempt has failed, while it may still be running beside the next one.
//
// An event can arrive more than once (its worker may die between the work and its
// record), so the work must bear being repeated. [Delivery.Send] does.
type HandlerFunc func(ctx context.Context, d Delivery) error

// Handler is a function that gets events of some types, as an endpoint of its own:
// with leases, retries, dead letters, replay and pause like any other. Func and
// EventTypes are required.
type Handler struct {
	// Func is called for each event, from several goroutines at once.
	Func HandlerFunc

	// EventTypes are patterns: an exact type, a prefix such as meta.*, or *.
	EventTypes []string

	// Name makes the handler the same one after a restart, in every replica, and in
	// the next version of the program: deliveries wait for the name. 1 to 123 of
	// a-z A-Z 0-9 . _ -
	// Default: made of the first of EventTypes; meta.message for itself, meta.all
	// for meta.*, all for *.
	Name string

	// Tenant is whose events it gets. Default: those of all tenants, also of ones
	// that are made later, except of operator, whose events tell of the engine itself.
	Tenant string

	// Description is free text, shown in lists of endpoints. Default: none.
	Description string

	// Schedule has the waits after the first, second, … failure; after the last one
	// the delivery is dead. Empty and not nil: there is one attempt.
	// Default: 1s, 5s, 30s, 5m, so five attempts.
	Schedule []time.Duration

	// Timeout is for one attempt, 100ms to 5m. Default: 15s.
	Timeout time.Duration

	// Deadline is when a delivery that is still pending is given up, counted from
	// the event's acceptance or from a replay. It counts too while no program has
	// the handler. Shorter than the retention. Default: 96h.
	Deadline time.Duration

	// MaxInFlight is the number of calls under way at once in each replica, 1 to
	// 1000. Default: 16.
	MaxInFlight int
}

// Delivery is an event at a handler.
type Delivery struct {
	// Event is what was accepted: its ID, Type, Payload, Headers, Parent,
	// CorrelationID and the rest. Payload and Headers are the handler's own to
	// change.
	posthaste.Event
	// DeliveryID is the same in every attempt, and another one for another handler.
	DeliveryID posthaste.ID
	// Tenant is the name of the event's tenant.
	Tenant string
	// Attempt is 1, 2, 3 …, going on through replays.
	Attempt int

	send func(ctx context.Context, tenant string, event Event) (Receipt, error)
}

// Send has an event accepted that this one causes: of the same tenant, with this
// event as its parent and with its correlation id. When it returns without an error,
// the event is on disk, and goes to every endpoint that subscribes to it, handlers
// among them. Errors are those of [Engine.Send]. The handler returns them rather
// than to call Send again, which would be a further event: its next attempt finds out
// whether this one was stored. While the engine stops, there are no new events.
//
// It is safe to repeat: what an earlier attempt of this delivery has sent is not
// sent again. For that the events of an attempt are told apart by their order,
// the first, the second and so on. A handler that sends in an order of chance,
// from several goroutines, or not everything in every attempt, gives each its
// IdempotencyKey instead, which counts within this delivery and may have 224 bytes.
// The same event has to have the same type and payload in every attempt, else the
// error is [posthaste.CodeIdempotencyMismatch]: leave out what varies, such as the
// time.
func (d Delivery) Send(ctx context.Context, event Event) (Receipt, error) {
	return d.SendTo(ctx, d.Tenant, event)
}

// SendTo is Send for another tenant: for a program that receives for all of its
// tenants in one place, as with the one webhook URL of a Meta app, and finds out
// whose an event is. The new event belongs to that tenant alone; parent and
// correlation id go on, so an operator can follow the chain across. To repeat it
// is safe as long as it goes to the same tenant.
func (d Delivery) SendTo(ctx context.Context, tenant string, event Event) (Receipt, error) {
	if d.send == nil {
		return Receipt{}, errors.New("send an event from a handler: this delivery was not made by an engine")
	}
	return d.send(ctx, tenant, event)
}

// Permanent marks an error of a handler that no retry can help: the delivery is
// dead at once. Permanent(nil) is nil.
func Permanent(err error) error { return pipeline.Permanent(err) }

// RetryAfter marks an error of a handler that is not worth a try before the wait is
// over, such as a rate limit that says so. The delivery waits for whichever is longer,
// this or the schedule's step; of this, one hour counts at most. RetryAfter(nil, d) is nil.
func RetryAfter(err error, wait time.Duration) error { return pipeline.RetryAfter(err, wait) }

// Handle registers a function for the events of a type, of all tenants: an exact
// type, a prefix such as meta.*, or *. It is [Engine.AddHandler] with all defaults.
func (e *Engine) Handle(eventType string, fn HandlerFunc) error {
	return e.AddHandler(Handler{EventTypes: []string{eventType}, Func: fn})
}

// AddHandler registers a handler. Call it before Run, which makes its endpoint, or
// brings the one of an earlier start up to date; who started last decides. What an
// operator changed of it (pause, enabled) stays. Errors have a *[posthaste.Error] in
// them, with the fields that are wrong.
//
// The endpoint stays when the program no longer registers the handler: events go on
// making deliveries, which wait for a program that does, until their deadline. To end
// that, disable or delete it through the API.
func (e *Engine) AddHandler(h Handler) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started {
		return &posthaste.Error{Code: posthaste.CodeConflict, Message: "the engine runs already", Hint: "register handlers before Run"}
	}
	if h.Name == "" && len(h.EventTypes) > 0 {
		h.Name = nameOf(h.EventTypes[0])
	}
	problems := h.definition().ValidateHandler(posthaste.DefinitionRules{Retention: e.config.Retention})
	if h.Func == nil {
		problems = append(problems, posthaste.Problem{Field: "Func", Message: "is missing"})
	}
	if slices.ContainsFunc(e.handlers, func(other Handler) bool { return other.Name == h.Name && other.Tenant == h.Tenant }) {
		problems = append(problems, posthaste.Problem{Field: "Name", Message: "is registered already: " + h.Name, Hint: "give each handler a name of its own"})
	}
	if err := posthaste.Invalid(problems); err != nil {
		return fmt.Errorf("register the handler %q: %w", h.Name, err)
	}
	e.handlers = append(e.handlers, h)
	return nil
}

// nameOf makes a handler's name of an event type's pattern.
func nameOf(pattern string) string {
	return strings.NewReplacer("*", "all", "/", "-", ":", "-").Replace(pattern)
}

func (h Handler) definition() posthaste.Definition {
	d := posthaste.DefaultHandlerDefinition(h.Name)
	d.EventTypes, d.Description = h.EventTypes, h.Description
	if h.Schedule != nil {
		d.Retry.Schedule = make([]posthaste.Duration, len(h.Schedule))
		for i, step := range h.Schedule {
			d.Retry.Schedule[i] = posthaste.Duration(step)
		}
	}
	if h.Timeout != 0 {
		d.Retry.Timeout = posthaste.Duration(h.Timeout)
	}
	if h.Deadline != 0 {
		d.Retry.Deadline = posthaste.Duration(h.Deadline)
	}
	if h.MaxInFlight != 0 {
		d.MaxInFlight = h.MaxInFlight
	}
	return d
}

// keepHandlers makes the functions known and then their endpoints, waiting for the
// database until ctx ends. From here on no handler can be added.
func (e *Engine) keepHandlers(ctx context.Context) error {
	e.mu.Lock()
	e.started = true
	list := e.handlers
	e.mu.Unlock()
	for _, h := range list {
		for {
			err := e.keepHandler(ctx, h)
			if err == nil {
				break
			}
			if ctx.Err() != nil || !errors.Is(err, store.ErrUnavailable) {
				return fmt.Errorf("keep the handler %q: %w", h.Name, err)
			}
			e.config.Log.WarnContext(ctx, "the handler's endpoint could not be kept; trying again", "handler", h.Name, "err", err)
			retry := time.NewTimer(time.Second)
			select {
			case <-retry.C:
			case <-ctx.Done():
				retry.Stop()
			}
		}
	}
	return nil
}

func (e *Engine) keepHandler(ctx context.Context, h Handler) error {
	owner := store.TenantRow{No: store.EveryTenant, Tenant: posthaste.Tenant{Name: posthaste.TenantAll}}
	if h.Tenant != "" {
		var err error
		if owner, err = e.pipeline.Tenant(ctx, h.Tenant); err != nil {
			return fmt.Errorf("look up the tenant %q: %w", h.Tenant, err)
		}
	}
	e.pipeline.AddHandler(pipeline.Handler{Tenant: owner.No, Name: h.Name, Run: func(ctx context.Context, d pipeline.Handling) error {
		return h.Func(ctx, e.deliveryOf(d))
	}})
	definition := h.definition()
	row, made, err := e.pipeline.PutEndpoint(ctx, owner, posthaste.HandlerPrefix+h.Name,
		func() (posthaste.Endpoint, string, error) { return posthaste.Endpoint{Definition: definition}, "", nil },
		func(row *store.EndpointRow) error {
			if _, isHandler := row.Handler(); !isHandler {
				return &posthaste.Error{Code: posthaste.CodeConflict, Message: "an endpoint with a URL has the uid " + row.UID, Hint: "give that endpoint another uid"}
			}
			row.Definition = definition
			return nil
		})
	if err != nil {
		return err
	}
	id := row.ID.Print(posthaste.KindEndpoint)
	switch {
	case made:
		e.config.Log.InfoContext(ctx, "made the endpoint of a handler", "handler", row.URL, "endpoint_id", id, "tenant", owner.Name)
	case row.Disabled || row.Paused:
		e.config.Log.WarnContext(ctx, "the endpoint of a handler is paused or disabled, and stays so", "handler", row.URL, "endpoint_id", id, "tenant", owner.Name)
	}
	return nil
}

func (e *Engine) deliveryOf(h pipeline.Handling) Delivery {
	return Delivery{
		Event: h.Event, DeliveryID: h.Delivery, Tenant: h.Tenant.Name, Attempt: h.Attempt,
		send: func(ctx context.Context, tenant string, child Event) (Receipt, error) {
			if err := e.check(child); err != nil {
				return Receipt{}, err
			}
			if len(child.IdempotencyKey) > pipeline.MaxChildKeyBytes {
				return Receipt{}, posthaste.Invalid([]posthaste.Problem{{
					Field: "IdempotencyKey", Message: fmt.Sprintf("is longer than %d bytes", pipeline.MaxChildKeyBytes),
				}})
			}
			in := pipeline.Submission{Event: child.accepted(), Endpoints: child.Endpoints}
			if tenant != h.Tenant.Name {
				var err error
				if in.Tenant, err = e.pipeline.Tenant(ctx, tenant); err != nil {
					return Receipt{}, noTenant(tenant, err)
				}
			}
			got, err := h.Send(ctx, in)
			return receiptOf(got), err
		},
	}
}
