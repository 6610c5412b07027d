package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-dev/posthaste"
)

// operation is what the OpenAPI document says of a route. One without a summary
// is left out of it.
//
// huma makes the document, its schemas from the very types that are read and
// written; it does not serve the requests. Its decoding stops short of what the
// contract asks for (see decode), and costs the hot path more than it gives.
type operation struct {
	tag, summary, text string
	params             []param
	in                 any      // the JSON that is read, nil for none
	required           []string // of its fields
	inType             string   // its content type, where it is not application/json
	inAlso             string   // another content type that is read, of no schema of ours
	inText             string   // about the body
	rawBody            bool     // any bytes are read
	status             int      // of success
	out                any      // the JSON that is answered, nil for none
	outType            string   // its content type, where it is not JSON
	also               int      // another status of success with the same body
	codes              []posthaste.Code
}

// param is a parameter in the query, or in a header.
type param struct {
	name, text string
	in         string // "query" where empty
	repeats    bool
	schema     huma.Schema
}

// describe makes the OpenAPI document.
func (a *api) describe(routes []route) ([]byte, error) {
	d := describer{
		out: newRegistry(""), in: newRegistry("Request"), required: map[string][]string{},
		doc: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Posthaste", Version: a.Version, License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
				Description: "Accepts events, delivers them as signed webhooks, and records every attempt.",
			},
			Security: []map[string][]string{{"key": {}}},
			Tags: []*huma.Tag{
				{Name: "Events"}, {Name: "Endpoints"}, {Name: "Sources"}, {Name: "Deliveries"}, {Name: "Stream"}, {Name: "Tenants"}, {Name: "Operations"},
			},
		},
	}
	for _, r := range routes {
		if r.operation.summary != "" {
			d.doc.AddOperation(d.operation(r, a.MaxPayloadBytes))
		}
	}
	schemas := d.out.Map()
	for name, s := range schemas {
		firm(s, d.out.TypeFromRef(schemaPrefix+name))
	}
	for name, s := range d.in.Map() {
		relax(s, d.required[name])
		if _, taken := schemas[name]; taken {
			return nil, fmt.Errorf("describe the API: two schemas are named %s", name)
		}
		schemas[name] = s
	}
	d.doc.Components = &huma.Components{
		Schemas: d.out,
		SecuritySchemes: map[string]*huma.SecurityScheme{
			"key": {Type: "http", Scheme: "bearer", Description: "An admin key acts for the tenant named in Posthaste-Tenant, else for default."},
		},
	}
	raw, err := json.Marshal(d.doc)
	if err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	return raw, nil
}

const schemaPrefix = "#/components/schemas/"

// newRegistry keeps what is read and what is answered apart: the same type has
// all its fields in an answer and needs hardly one in a request.
func newRegistry(suffix string) huma.Registry {
	r := huma.NewMapRegistry(schemaPrefix, func(t reflect.Type, hint string) string {
		name := strings.ReplaceAll(huma.DefaultSchemaNamer(t, hint), "Body", "")
		return strings.TrimSuffix(name, "Request") + suffix
	})
	r.RegisterTypeAlias(reflect.TypeFor[posthaste.Duration](), reflect.TypeFor[durationText]())
	r.RegisterTypeAlias(reflect.TypeFor[posthaste.Ordering](), reflect.TypeFor[orderingWord]())
	r.RegisterTypeAlias(reflect.TypeFor[posthaste.Code](), reflect.TypeFor[codeText]())
	return r
}

// durationText and codeText give types of the root package their schemas; that
// package knows nothing of OpenAPI.
type (
	durationText struct{}
	orderingWord struct{}
	codeText     struct{}
)

// Schema implements huma.SchemaProvider.
func (orderingWord) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeBoolean, Enum: []any{false}},
		{Type: huma.TypeString, Enum: []any{string(posthaste.OrderedByEndpoint)}},
	}}
}

func (durationText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: "A Go duration", Examples: []any{"30s", "5m", "72h"}}
}

// Schema implements huma.SchemaProvider.
func (codeText) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, code := range slices.Sorted(maps.Keys(answers)) {
		s.Enum = append(s.Enum, string(code))
	}
	return s
}

// relax makes the fields of a request optional, but for those named, and lets
// null reset them, or turn off what can be off.
func relax(s *huma.Schema, required []string) {
	s.Required = required
	for name, p := range s.Properties {
		if slices.Contains(required, name) {
			p.Nullable = false
			continue
		}
		s.Properties[name] = orAbsent(p)
	}
}

// firm takes back huma's word that an array may be null: in an answer of ours
// none ever is. What its owner can turn off is null then.
func firm(s *huma.Schema, of reflect.Type) {
	if of == nil || of.Kind() != reflect.Struct {
		return
	}
	fields := jsonFields(of)
	for name, p := range s.Properties {
		if p.Type == huma.TypeArray {
			p.Nullable = false
		}
		index, known := fields[name]
		if p.Nullable || known && of.FieldByIndex(index).Tag.Get("null") == "off" {
			s.Properties[name] = orAbsent(p)
		}
	}
}

// orAbsent lets a property be null. huma has Nullable for simple types only.
func orAbsent(s *huma.Schema) *huma.Schema {
	null := &huma.Schema{Type: "null"}
	switch {
	case s.Ref != "":
		return &huma.Schema{OneOf: []*huma.Schema{{Ref: s.Ref}, null}, Description: s.Description}
	case len(s.OneOf) > 0:
		s.OneOf = append(s.OneOf, null)
	case s.Type != "":
		s.Nullable = true
		if len(s.Enum) > 0 {
			s.Enum = append(s.Enum, nil)
		}
	}
	return s
}

type describer struct {
	doc      *huma.OpenAPI
	in, out  huma.Registry
	required map[string][]string
}

func (d *describer) operation(r route, maxPayloadBytes int) *huma.Operation {
	o := r.operation
	// The mux writes the root as /{$}.
	op := &huma.Operation{
		OperationID: operationID(r), Method: r.method, Path: strings.ReplaceAll(r.path, "{$}", ""),
		Tags: []string{o.tag}, Summary: o.summary, Description: o.text, Responses: map[string]*huma.Response{},
	}
	codes := append([]posthaste.Code{}, o.codes...)
	if r.access == open {
		op.Security = []map[string][]string{{}}
	} else {
		codes = append(codes, posthaste.CodeUnauthorized, posthaste.CodeForbidden, posthaste.CodeUnavailable, posthaste.CodeInternal)
	}
	if r.access == anyKey || r.access == allTenants {
		codes = append(codes, posthaste.CodeInvalid, posthaste.CodeUnsupported, posthaste.CodeNotFound)
		text := "The tenant that an admin key acts for; default where it is left out"
		if r.access == allTenants {
			text += "; * reads those of all tenants"
		}
		op.Parameters = append(op.Parameters, headerParam("Posthaste-Tenant", text))
	}
	for part := range strings.SplitSeq(r.path, "/") {
		if name, isPart := strings.CutPrefix(part, "{"); isPart && name != "$}" {
			op.Parameters = append(op.Parameters, &huma.Param{
				Name: strings.TrimSuffix(name, "}"), In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
			})
		}
	}
	for _, p := range o.params {
		op.Parameters = append(op.Parameters, p.describe())
	}
	switch {
	case o.rawBody:
		op.RequestBody = &huma.RequestBody{
			Description: fmt.Sprintf("The payload: any bytes, %d at most, kept and delivered as they are", maxPayloadBytes),
			Content:     map[string]*huma.MediaType{"*/*": {}},
		}
		codes = append(codes, posthaste.CodeUnreadable, posthaste.CodeTooLarge)
	case o.in != nil:
		op.RequestBody = d.body(o)
		codes = append(codes, posthaste.CodeUnreadable, posthaste.CodeTooLarge, posthaste.CodeInvalid, posthaste.CodeUnsupported)
	}
	d.addSuccess(op, o)
	d.addProblems(op, codes)
	return op
}

func operationID(r route) string {
	words := []string{strings.ToLower(r.method)}
	for part := range strings.SplitSeq(r.path, "/") {
		if part = strings.Trim(part, "{}$"); part != "" && part != "v1" {
			words = append(words, strings.ReplaceAll(part, ".", "-"))
		}
	}
	return strings.Join(words, "-")
}

func (p param) describe() *huma.Param {
	s := p.schema
	if s.Type == "" {
		s.Type = huma.TypeString
	}
	if p.repeats {
		s = huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}
	}
	in := p.in
	if in == "" {
		in = "query"
	}
	return &huma.Param{Name: p.name, In: in, Description: p.text, Schema: &s}
}

func headerParam(name, text string) *huma.Param {
	return param{name: name, text: text, in: "header"}.describe()
}

func (d *describer) body(o operation) *huma.RequestBody {
	schema := d.in.Schema(reflect.TypeOf(o.in), true, "")
	d.required[strings.TrimPrefix(schema.Ref, schemaPrefix)] = o.required
	body := &huma.RequestBody{
		Description: o.inText, Required: len(o.required) > 0,
		Content: map[string]*huma.MediaType{cmp.Or(o.inType, "application/json"): {Schema: schema}},
	}
	if o.inAlso != "" {
		body.Content[o.inAlso] = &huma.MediaType{}
	}
	return body
}

func (d *describer) addSuccess(op *huma.Operation, o operation) {
	response := func(status int) *huma.Response {
		r := &huma.Response{Description: http.StatusText(status)}
		if o.out != nil || o.outType != "" {
			media := &huma.MediaType{}
			if o.out != nil {
				media.Schema = d.out.Schema(reflect.TypeOf(o.out), true, "")
			}
			contentType := o.outType
			if contentType == "" {
				contentType = "application/json"
			}
			r.Content = map[string]*huma.MediaType{contentType: media}
		}
		r.Headers = map[string]*huma.Header{headerRequestID: {Description: "Names the request in the server's log", Schema: &huma.Schema{Type: huma.TypeString}}}
		return r
	}
	op.Responses[strconv.Itoa(o.status)] = response(o.status)
	if o.also != 0 {
		op.Responses[strconv.Itoa(o.also)] = response(o.also)
	}
}

func (d *describer) addProblems(op *huma.Operation, codes []posthaste.Code) {
	byStatus := map[int][]string{}
	slices.Sort(codes)
	for _, code := range slices.Compact(codes) {
		status := answers[code].status
		byStatus[status] = append(byStatus[status], string(code))
	}
	for status, words := range byStatus {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status) + ": code " + strings.Join(words, ", "),
			Content: map[string]*huma.MediaType{
				"application/problem+json": {Schema: d.out.Schema(reflect.TypeFor[errorBody](), true, "")},
			},
		}
	}
}
