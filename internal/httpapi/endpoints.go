package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/signature"
)

// createEndpointRequest and patchEndpointRequest are laid over the defaults and
// over the endpoint as it stands.
type createEndpointRequest struct {
	posthaste.Definition
	Enabled bool    `json:"enabled" doc:"false: it gets no new deliveries"`
	Secret  *string `json:"secret" doc:"What deliveries are signed with; made where none is given. whsec_ and base64 for scheme standard, 16 bytes of text at least for hex"`
}

type patchEndpointRequest struct {
	posthaste.Definition
	Enabled bool `json:"enabled" doc:"true opens an endpoint again that was disabled"`
}

func newCreateEndpoint() createEndpointRequest {
	return createEndpointRequest{Definition: posthaste.DefaultDefinition(), Enabled: true}
}

func newPatchEndpoint() patchEndpointRequest {
	return patchEndpointRequest{Definition: posthaste.DefaultDefinition(), Enabled: true}
}

// laterOnCreate are the fields of the contract that are not built yet.
var laterOnCreate = map[string]laterField{
	"filter":     {[]string{`""`}, "leave it out, and choose events by event_types"},
	"rate_limit": {nil, "leave it out, and bound attempts by max_in_flight"},
	"ordered":    {[]string{"false"}, "leave it out: deliveries are not ordered"},
	"breaker":    {nil, "leave it out: there is none"},
	"retry.rps":  {nil, "leave it out: retries are not limited"},
	"uid":        {[]string{`""`}, "leave it out, and keep the endpoint's id"},
	"metadata":   {[]string{"{}"}, "leave it out"},
}

var laterOnPatch = func() map[string]laterField {
	fields := map[string]laterField{"secret": {nil, "delete the endpoint and make one with the new secret"}}
	for name, f := range laterOnCreate {
		fields[name] = f
	}
	return fields
}()

// endpointBody is an endpoint as the API shows it.
type endpointBody struct {
	ID string `json:"id"`
	posthaste.Definition
	Enabled   bool     `json:"enabled"`
	Gate      gateBody `json:"gate" doc:"Whether it may be attempted now"`
	Version   int      `json:"version" doc:"Rises with every change; also the ETag"`
	CreatedAt moment   `json:"created_at"`
	UpdatedAt moment   `json:"updated_at"`
	Secret    string   `json:"secret,omitempty" doc:"Shown once, in the answer to the request that made the endpoint"`
}

type gateBody struct {
	State               string  `json:"state" enum:"closed,paused,disabled" doc:"closed: deliveries flow; paused: they wait; disabled: no new ones are made"`
	Reason              *string `json:"reason"`
	Until               moment  `json:"until"`
	ConsecutiveFailures int     `json:"consecutive_failures"`
}

// showEndpoint writes empty lists where the stored definition has none at all,
// so that no client has to tell null from empty.
func showEndpoint(row store.EndpointRow) endpointBody {
	e := row.Endpoint
	gate := gateBody{State: "closed"}
	switch { // disabled before paused: it is what has to be undone first
	case e.Disabled:
		gate.State, gate.Reason = "disabled", orNull(e.DisabledReason)
	case e.Paused:
		gate.State = "paused"
	}
	d := e.Definition
	if d.Headers == nil {
		d.Headers = map[string]string{}
	}
	for _, list := range []*[]string{&d.EventTypes, &d.Retry.Transient} {
		if *list == nil {
			*list = []string{}
		}
	}
	if d.Retry.Schedule == nil {
		d.Retry.Schedule = []posthaste.Duration{}
	}
	return endpointBody{
		ID: e.ID.Print(posthaste.KindEndpoint), Definition: d, Enabled: !e.Disabled, Gate: gate,
		Version: e.Version, CreatedAt: moment(e.CreatedAt), UpdatedAt: moment(e.UpdatedAt),
	}
}

func (c *call) answerEndpoint(status int, body endpointBody) {
	c.Header().Set("ETag", `"`+strconv.Itoa(body.Version)+`"`)
	c.write(status, body)
}

// byRequest is the reason of an endpoint that its owner disabled.
const byRequest = "by request"

func (a *api) createEndpoint(c *call) error {
	if err := newQuery(c).err(); err != nil {
		return err
	}
	raw, err := a.readBody(c, maxJSONBytes)
	if err != nil {
		return err
	}
	in, defaults := newCreateEndpoint(), newCreateEndpoint()
	problems, err := problemsOf(decode(raw, &in, &defaults, laterOnCreate))
	if err != nil {
		return err
	}
	// What could not be decoded has its default, which is good; so both kinds of
	// problems can be told at once, without telling the same twice.
	problems = append(problems, without(in.Validate(a.rules), problems)...)
	secret := signature.NewSecret()
	if in.Secret != nil {
		secret = *in.Secret
		problems = append(problems, checkSecret(in.Signature.Scheme, secret)...)
	}
	if err := posthaste.Invalid(problems); err != nil {
		return err
	}
	e := posthaste.Endpoint{Definition: in.Definition, Disabled: !in.Enabled}
	if e.Disabled {
		e.DisabledReason = byRequest
	}
	row, err := a.Pipeline.CreateEndpoint(c.r.Context(), c.tenant, e, secret)
	if err != nil {
		return err
	}
	body := showEndpoint(row)
	body.Secret = secret
	c.Header().Set("Location", "/v1/endpoints/"+body.ID)
	c.Header().Set("Cache-Control", "no-store")
	c.answerEndpoint(http.StatusCreated, body)
	return nil
}

func checkSecret(scheme, secret string) []posthaste.Problem {
	check := signature.CheckStandard
	if scheme == posthaste.SchemeHex {
		check = signature.CheckHex
	}
	if err := check(secret); err != nil {
		return []posthaste.Problem{{Field: "secret", Message: "cannot be used", Hint: err.Error() + "; leave it out to have one made"}}
	}
	return nil
}

// problemsOf separates the problems that a request has from an error that ends it.
func problemsOf(err error) ([]posthaste.Problem, error) {
	if e, ok := errors.AsType[*posthaste.Error](err); ok && len(e.Problems) > 0 {
		return slices.Clone(e.Problems), nil
	}
	return nil, err
}

// without drops the problems with fields that have one already.
func without(problems, known []posthaste.Problem) []posthaste.Problem {
	return slices.DeleteFunc(problems, func(p posthaste.Problem) bool {
		return slices.ContainsFunc(known, func(k posthaste.Problem) bool { return k.Field == p.Field })
	})
}

func (a *api) listEndpoints(c *call) error {
	q := newQuery(c, "limit", "cursor")
	p := store.ListEndpointsParams{Tenant: c.tenant.No, Before: q.cursor(endpointList), Limit: q.limit()}
	if err := q.err(); err != nil {
		return err
	}
	rows, err := a.store.ListEndpoints(c.r.Context(), p)
	if err != nil {
		return err
	}
	var next posthaste.ID
	if len(rows) == p.Limit {
		next = rows[len(rows)-1].ID
	}
	c.write(http.StatusOK, newPage(rows, showEndpoint, printCursor(endpointList, next)))
	return nil
}

// readEndpoint does not show a tombstone: it stays for the history that names it,
// and for its owner the endpoint is gone.
func (a *api) readEndpoint(c *call) error {
	id, err := a.endpointID(c)
	if err != nil {
		return err
	}
	row, err := a.store.Endpoint(c.r.Context(), c.tenant.No, id)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !row.DeletedAt.IsZero():
		return notFound("endpoint")
	case err != nil:
		return err
	}
	c.answerEndpoint(http.StatusOK, showEndpoint(row))
	return nil
}

// endpointID reads the path of a request that takes no parameters. If-Match is
// refused rather than ignored: a client that sends it counts on it.
func (a *api) endpointID(c *call) (posthaste.ID, error) {
	if err := newQuery(c).err(); err != nil {
		return posthaste.ID{}, err
	}
	if c.r.Header.Get("If-Match") != "" {
		return posthaste.ID{}, notBuilt("If-Match", "is not built yet", "leave it out")
	}
	return pathID(c, posthaste.KindEndpoint, "endpoint")
}

func (a *api) patchEndpoint(c *call) error {
	id, err := a.endpointID(c)
	if err != nil {
		return err
	}
	body, err := a.readBody(c, maxJSONBytes)
	if err != nil {
		return err
	}
	return a.changeEndpoint(c, id, func(e *posthaste.Endpoint) error { return a.merge(body, e) })
}

// merge lays a JSON Merge Patch over an endpoint.
func (a *api) merge(body []byte, e *posthaste.Endpoint) error {
	in, defaults := patchEndpointRequest{Definition: e.Definition, Enabled: !e.Disabled}, newPatchEndpoint()
	problems, err := problemsOf(decode(body, &in, &defaults, laterOnPatch))
	if err != nil {
		return err
	}
	// What was wrong before is not the fault of this change: an endpoint that
	// stricter rules have overtaken can still be paused, disabled or repaired.
	before := e.Validate(a.rules)
	after := slices.DeleteFunc(in.Validate(a.rules), func(p posthaste.Problem) bool { return slices.Contains(before, p) })
	problems = append(problems, without(after, problems)...)
	if e.Signature.Scheme == posthaste.SchemeHex && in.Signature.Scheme == posthaste.SchemeStandard {
		problems = append(problems, posthaste.Problem{
			Field: "signature.scheme", Message: "cannot be changed from hex to standard yet: the secret may not fit",
			Hint: "make a new endpoint", Code: posthaste.CodeUnsupported,
		})
	}
	if err := posthaste.Invalid(problems); err != nil {
		return err
	}
	e.Definition = in.Definition
	switch {
	case in.Enabled:
		e.Disabled, e.DisabledReason = false, ""
	case !e.Disabled:
		e.Disabled, e.DisabledReason = true, byRequest
	}
	return nil
}

func (a *api) pauseEndpoint(c *call) error {
	return a.order(c, func(e *posthaste.Endpoint) error {
		e.Paused = true
		return nil
	})
}

func (a *api) resumeEndpoint(c *call) error {
	return a.order(c, func(e *posthaste.Endpoint) error {
		e.Paused = false
		return nil
	})
}

// order changes an endpoint by a request that says all it has to say in its path.
func (a *api) order(c *call, change func(*posthaste.Endpoint) error) error {
	id, err := a.endpointID(c)
	if err != nil {
		return err
	}
	if err := a.noBody(c); err != nil {
		return err
	}
	return a.changeEndpoint(c, id, change)
}

func (a *api) changeEndpoint(c *call, id posthaste.ID, change func(*posthaste.Endpoint) error) error {
	row, err := a.Pipeline.ChangeEndpoint(c.r.Context(), c.tenant, id, change)
	if errors.Is(err, store.ErrNotFound) {
		return notFound("endpoint")
	}
	if err != nil {
		return err
	}
	c.answerEndpoint(http.StatusOK, showEndpoint(row))
	return nil
}

func (a *api) deleteEndpoint(c *call) error {
	id, err := a.endpointID(c)
	if err != nil {
		return err
	}
	err = a.Pipeline.DeleteEndpoint(c.r.Context(), c.tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return notFound("endpoint")
	}
	if err != nil {
		return err
	}
	c.WriteHeader(http.StatusNoContent)
	return nil
}

type testRequest struct {
	Type    string          `json:"type" doc:"Of the event that is sent; posthaste.test if none is given"`
	Payload json.RawMessage `json:"payload" doc:"Any JSON; its bytes are sent as they are"`
}

func newTest() testRequest {
	return testRequest{Type: "posthaste.test", Payload: json.RawMessage(`{"message":"A test event from Posthaste."}`)}
}

// testEndpoint sends an event to this endpoint alone, whatever it subscribes to.
func (a *api) testEndpoint(c *call) error {
	id, err := a.endpointID(c)
	if err != nil {
		return err
	}
	in, defaults := newTest(), newTest()
	if err := a.readOptionalJSON(c, &in, &defaults); err != nil {
		return err
	}
	if err := posthaste.Invalid(posthaste.ValidateType("type", in.Type)); err != nil {
		return err
	}
	row, err := a.store.Endpoint(c.r.Context(), c.tenant.No, id)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !row.DeletedAt.IsZero():
		return notFound("endpoint")
	case err != nil:
		return err
	}
	receipt, err := a.Pipeline.Accept(c.r.Context(), pipeline.Submission{
		Tenant: c.tenant, Endpoints: []posthaste.ID{id},
		Event: posthaste.Event{Type: in.Type, Source: "api", ContentType: "application/json", Payload: in.Payload},
	})
	if err != nil {
		return err
	}
	answerReceipt(c, receipt)
	return nil
}
