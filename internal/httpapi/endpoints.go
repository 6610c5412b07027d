package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/auth"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/signature"
)

// Label is what an owner writes on an object for himself. It is exported because
// the OpenAPI document leaves out what is embedded and is not.
type Label struct {
	UID      string            `json:"uid" doc:"Your own id for it, unique among the tenant's endpoints: 1 to 128 of a-z A-Z 0-9 . _ - :"`
	Metadata map[string]string `json:"metadata" doc:"Your own words on it: 50 entries, names of 64 bytes, values of 512"`
}

func (l Label) validate() (problems []posthaste.Problem) {
	if l.UID != "" {
		problems = posthaste.ValidateUID("uid", l.UID)
	}
	return append(problems, posthaste.ValidateMetadata("metadata", l.Metadata)...)
}

// The requests are laid over the defaults, a patch over the endpoint as it stands.
type createEndpointRequest struct {
	posthaste.Definition
	Label
	Enabled bool    `json:"enabled" doc:"false: it gets no new deliveries"`
	Secret  *string `json:"secret" doc:"What deliveries are signed with; made where none is given. whsec_ and base64 for scheme standard, 16 bytes of text at least for hex"`
}

type putEndpointRequest struct {
	posthaste.Definition
	Label
	Enabled *bool   `json:"enabled" doc:"Left out: true for a new endpoint; one that exists stays as it is, for 410 may have disabled it"`
	Secret  *string `json:"secret" doc:"Of a new endpoint, made where none is given. One that exists is not given another by this: the secret must be the present one"`
}

type patchEndpointRequest struct {
	posthaste.Definition
	Label
	Enabled bool    `json:"enabled" doc:"true opens an endpoint again that was disabled"`
	Secret  *string `json:"secret" doc:"Must be the present one; rotate-secret replaces it"`
}

func newCreateEndpoint() createEndpointRequest {
	return createEndpointRequest{Definition: posthaste.DefaultDefinition(), Label: newLabel(), Enabled: true}
}

func newPutEndpoint() putEndpointRequest {
	return putEndpointRequest{Definition: posthaste.DefaultDefinition(), Label: newLabel()}
}

func newPatchEndpoint() patchEndpointRequest {
	return patchEndpointRequest{Definition: posthaste.DefaultDefinition(), Label: newLabel(), Enabled: true}
}

func newLabel() Label { return Label{Metadata: map[string]string{}} }

// laterOnEndpoint are the fields of the contract that are not built yet.
var laterOnEndpoint = map[string]laterField{
	"filter": {[]string{`""`}, "leave it out, and choose events by event_types and sources"},
}

// endpointBody is an endpoint as the API shows it.
type endpointBody struct {
	ID string `json:"id"`
	posthaste.Definition
	SecretHeaders map[string]secretHeaderBody `json:"secret_headers" doc:"By name; their values are never shown"`

	UID       *string           `json:"uid" doc:"Your own id for it"`
	Metadata  map[string]string `json:"metadata" doc:"Your own words on it"`
	Enabled   bool              `json:"enabled"`
	Gate      gateBody          `json:"gate" doc:"Whether it may be attempted now"`
	Version   int               `json:"version" doc:"Rises with every change; also the ETag"`
	CreatedAt moment            `json:"created_at"`
	UpdatedAt moment            `json:"updated_at"`
	DeletedAt moment            `json:"deleted_at" doc:"Null while it lives. A deleted endpoint can be read by its id, and so can its deliveries"`
	Secrets   []secretBody      `json:"signing_secrets" doc:"What deliveries are signed with, the newest first; more than one while a rotation overlaps. An expired one is left out within the hour"`
	Secret    string            `json:"secret,omitempty" doc:"Shown once, in the answer to the request that made the endpoint or the secret"`
	Tenant    string            `json:"tenant,omitempty" doc:"Whose it is, where all tenants are read; * for a handler that gets the events of all tenants, which each of them sees"`
}

// secretHeaderBody stands for the value of a secret header.
type secretHeaderBody struct {
	Set         bool   `json:"set" enum:"true"`
	Fingerprint string `json:"fingerprint" doc:"The same for the same value: 8 characters of hex"`
}

func showSecretHeaders(headers map[string]string) map[string]secretHeaderBody {
	out := make(map[string]secretHeaderBody, len(headers))
	for name, value := range headers {
		sealed, _ := posthaste.ParseSealedHeader(value)
		out[name] = secretHeaderBody{Set: true, Fingerprint: sealed.Fingerprint}
	}
	return out
}

// checkSecretHeaders refuses values that only the server writes. before are those that
// the endpoint has.
func checkSecretHeaders(headers, before map[string]string) (problems []posthaste.Problem) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if value := headers[name]; posthaste.IsSealedHeader(value) && value != before[name] {
			problems = append(problems, posthaste.Problem{
				Field: "secret_headers." + name, Message: "has a value that cannot be sent", Hint: "without control characters",
			})
		}
	}
	return problems
}

// showHeaders masks what holds credentials all the same: an endpoint may be older than
// the rule that keeps them out of its headers.
func showHeaders(headers map[string]string) map[string]string {
	out := make(map[string]string, len(headers))
	for name, value := range headers {
		if posthaste.HoldsCredentials(name) {
			value = posthaste.Masked
		}
		out[name] = value
	}
	return out
}

// showEndpoint writes empty lists where the stored definition has none at all,
// so that no client has to tell null from empty, and the burst that applies.
func showEndpoint(row store.EndpointRow, g gateBody) endpointBody {
	e := row.Endpoint
	d := e.Definition
	d.URL, d.Headers = posthaste.MaskURL(d.URL), showHeaders(d.Headers)
	for _, list := range []*[]string{&d.EventTypes, &d.Sources, &d.Retry.Transient} {
		if *list == nil {
			*list = []string{}
		}
	}
	if d.Retry.Schedule == nil {
		d.Retry.Schedule = []posthaste.Duration{}
	}
	if d.RateLimit != nil {
		burst := d.RateLimit.Size()
		d.RateLimit = &posthaste.RateLimit{RPS: d.RateLimit.RPS, Burst: &burst}
	}
	metadata := e.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	owner := ""
	if row.Tenant == store.EveryTenant {
		owner = posthaste.TenantAll
	}
	return endpointBody{
		Tenant: owner,
		ID:     e.ID.Print(posthaste.KindEndpoint), Definition: d, SecretHeaders: showSecretHeaders(d.SecretHeaders), UID: orNull(e.UID), Metadata: metadata, Enabled: !e.Disabled, Gate: g,
		Version: e.Version, CreatedAt: moment(e.CreatedAt), UpdatedAt: moment(e.UpdatedAt), DeletedAt: moment(e.DeletedAt),
		Secrets: showSecrets(row.Secrets),
	}
}

func (c *call) answerEndpoint(status int, body endpointBody) {
	c.Header().Set("ETag", etag(body.Version))
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
	problems, err := problemsOf(decode(raw, &in, &defaults, laterOnEndpoint))
	if err != nil {
		return err
	}
	// What could not be decoded has its default, which is good; so both kinds of
	// problems can be told at once, without telling the same twice.
	problems = append(problems, without(append(in.Validate(a.rules), in.validateEndpoint()...), problems)...)
	problems = append(problems, checkSecretHeaders(in.SecretHeaders, nil)...)
	secret := signature.NewSecret()
	if in.Secret != nil {
		secret = *in.Secret
		problems = append(problems, checkSecret(in.Signature.Scheme, secret)...)
	}
	if err := posthaste.Invalid(problems); err != nil {
		return err
	}
	e := posthaste.Endpoint{Definition: in.Definition, UID: in.UID, Metadata: in.Metadata, Disabled: !in.Enabled}
	if e.Disabled {
		e.DisabledReason = byRequest
	}
	row, err := a.Pipeline.CreateEndpoint(c.r.Context(), c.tenant, e, secret)
	if err != nil {
		return err
	}
	c.answerCreated(row, secret)
	return nil
}

// answerCreated shows the secret, this once.
func (c *call) answerCreated(row store.EndpointRow, secret string) {
	body := showEndpoint(row, showGate(row, gate.State{}, time.Time{}))
	body.Secret = secret
	c.Header().Set("Location", "/v1/endpoints/"+body.ID)
	c.Header().Set("Cache-Control", "no-store")
	c.answerEndpoint(http.StatusCreated, body)
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
	q := newQuery(c, "limit", "cursor", "deleted")
	p := store.ListEndpointsParams{
		Tenant: c.tenant.No, Before: q.cursor(endpointList), Deleted: q.oneOf("deleted", "true", "false") == "true", Limit: q.limit(),
	}
	if err := q.err(); err != nil {
		return err
	}
	rows, err := a.Pipeline.ListEndpoints(c.r.Context(), p)
	if err != nil {
		return err
	}
	var next posthaste.ID
	if len(rows) == p.Limit {
		next = rows[len(rows)-1].ID
	}
	names, err := tenantNames(a, c, rows, func(row store.EndpointRow) store.TenantNo { return row.Tenant })
	if err != nil {
		return err
	}
	gates, err := a.gatesOf(c, rows...)
	if err != nil {
		return err
	}
	show := func(row store.EndpointRow) endpointBody {
		body := showEndpoint(row, gates[row.No])
		body.Tenant = cmp.Or(names[row.Tenant], body.Tenant)
		return body
	}
	c.write(http.StatusOK, newPage(rows, show, printCursor(endpointList, next)))
	return nil
}

// tenantNames returns the names of the tenants of rows where all tenants are
// read, else nil: a tenant's own lists don't repeat whose they are.
func tenantNames[Row any](a *api, c *call, rows []Row, of func(Row) store.TenantNo) (map[store.TenantNo]string, error) {
	if c.tenant.No != 0 {
		return nil, nil
	}
	names := map[store.TenantNo]string{}
	for _, row := range rows {
		no := of(row)
		if _, known := names[no]; known {
			continue
		}
		name, err := a.Pipeline.TenantName(c.r.Context(), no)
		if err != nil {
			return nil, err
		}
		names[no] = name
	}
	return names, nil
}

// readEndpoint shows a tombstone too, by its id: the history names it.
func (a *api) readEndpoint(c *call) error {
	row, pre, err := a.findEndpoint(c)
	if err == nil {
		err = pre.check(row.Version)
	}
	if err != nil {
		return err
	}
	names, err := tenantNames(a, c, []store.EndpointRow{row}, func(row store.EndpointRow) store.TenantNo { return row.Tenant })
	if err != nil {
		return err
	}
	gates, err := a.gatesOf(c, row)
	if err != nil {
		return err
	}
	body := showEndpoint(row, gates[row.No])
	body.Tenant = cmp.Or(names[row.Tenant], body.Tenant)
	c.answerEndpoint(http.StatusOK, body)
	return nil
}

// findEndpoint finds the endpoint that the path of a request without parameters
// names, by its id or, after "uid:", by its owner's own; a deleted one by its id.
func (a *api) findEndpoint(c *call) (row store.EndpointRow, pre precondition, err error) {
	if err = newQuery(c).err(); err == nil {
		pre, err = c.precondition()
	}
	if err != nil {
		return row, pre, err
	}
	row, err = a.lookUpEndpoint(c, c.r.PathValue("id"))
	if errors.Is(err, store.ErrNotFound) {
		err = notFound("endpoint")
		if bad := checkEndpointName(c.r.PathValue("id")); bad != nil {
			err = notAnID("endpoint", bad)
		}
	}
	return row, pre, err
}

// lookUpEndpoint returns the endpoint of an id or of "uid:" and an owner's own, or
// [store.ErrNotFound], also for what is neither.
func (a *api) lookUpEndpoint(c *call, name string) (store.EndpointRow, error) {
	if uid, isUID := strings.CutPrefix(name, posthaste.UIDPrefix); isUID {
		switch {
		case c.tenant.No == 0:
			return store.EndpointRow{}, oneProblem(auth.HeaderTenant, "is for all tenants, each of which may have an endpoint of that uid", "name the tenant, or the endpoint's id")
		case len(posthaste.ValidateUID("uid", uid)) > 0:
			return store.EndpointRow{}, store.ErrNotFound
		}
		return a.Pipeline.EndpointByUID(c.r.Context(), c.tenant.No, uid)
	}
	id, err := posthaste.ParseID(posthaste.KindEndpoint, name)
	if err != nil {
		return store.EndpointRow{}, store.ErrNotFound
	}
	return a.Pipeline.Endpoint(c.r.Context(), c.tenant.No, id)
}

// checkEndpointName says, in words for the caller, why a name is none that an endpoint can have.
func checkEndpointName(name string) error {
	if strings.HasPrefix(name, posthaste.UIDPrefix) {
		return nil
	}
	if _, err := posthaste.ParseID(posthaste.KindEndpoint, name); err != nil {
		return fmt.Errorf("%w, or %q and your own id for it", err, posthaste.UIDPrefix)
	}
	return nil
}

// endpointNamed is lookUpEndpoint for a field of a request, which it reports.
func (a *api) endpointNamed(c *call, field, name string) (store.EndpointRow, error) {
	if err := checkEndpointName(name); err != nil {
		return store.EndpointRow{}, oneProblem(field, "is not the id of an endpoint", err.Error())
	}
	row, err := a.lookUpEndpoint(c, name)
	if errors.Is(err, store.ErrNotFound) {
		err = noSuchEndpoint(field)
	}
	return row, err
}

func noSuchEndpoint(field string) error {
	return oneProblem(field, "names an endpoint that this tenant does not have", "list the endpoints with GET /v1/endpoints")
}

// pathUID returns the uid where a part of the path addresses an object by it.
func pathUID(c *call, part string) (uid string, isUID bool) {
	if uid, isUID = strings.CutPrefix(c.r.PathValue(part), posthaste.UIDPrefix); !isUID {
		uid = ""
	}
	return uid, isUID
}

// livingEndpoint is findEndpoint for requests that change something or use it.
func (a *api) livingEndpoint(c *call) (store.EndpointRow, precondition, error) {
	row, pre, err := a.findEndpoint(c)
	if err == nil && !row.DeletedAt.IsZero() {
		err = notFound("endpoint")
	}
	if err == nil {
		err = c.mayChange(row)
	}
	return row, pre, err
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
	row, pre, err := a.livingEndpoint(c)
	if err == nil {
		err = pre.check(row.Version)
	}
	if err != nil {
		return err
	}
	in, defaults := newTest(), newTest()
	problems, err := problemsOf(a.readOptionalJSON(c, &in, &defaults))
	if err == nil {
		err = posthaste.Invalid(append(problems, without(posthaste.ValidateType("type", in.Type), problems)...))
	}
	if err != nil {
		return err
	}
	receipt, err := a.Pipeline.Accept(c.r.Context(), pipeline.Submission{
		Tenant: c.tenant, Endpoints: []posthaste.ID{row.ID},
		Event: posthaste.Event{Type: in.Type, Source: posthaste.SourceAPI, ContentType: "application/json", Payload: in.Payload},
	})
	if err != nil {
		return err
	}
	answerReceipt(c, receipt)
	return nil
}
