package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// document is the OpenAPI document, as far as the tests hold answers to it.
type document struct {
	OpenAPI    string
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]*schema }
}

type operation struct {
	Summary     string
	RequestBody struct {
		Content map[string]struct{ Schema *schema }
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]struct{ Schema *schema }
	}
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Format               string
	Properties           map[string]*schema
	Required             []string
	Items                *schema
	Enum                 []any
	OneOf                []*schema `json:"oneOf"`
	AdditionalProperties any       `json:"additionalProperties"`
}

func loadDocument(s *server) *document {
	s.t.Helper()
	var d document
	must(s.t, json.Unmarshal(s.get("/openapi.json", "Authorization:").want(200).body, &d))
	return &d
}

// check fails the test where the document does not know the answer: its status,
// a field, a type.
func (d *document) check(t *testing.T, method, path string, r *reply) {
	t.Helper()
	op, known := d.find(strings.ToLower(method), path)
	if !known || r.status == http.StatusMethodNotAllowed || r.status == http.StatusNotFound && !strings.HasPrefix(path, "/v1/") {
		return
	}
	response, known := op.Responses[strconv.Itoa(r.status)]
	if !known {
		t.Errorf("%s answered %d, which the document does not know: %.200s", r.what, r.status, r.body)
		return
	}
	contentType, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	media, known := response.Content[contentType]
	if !known {
		if _, anything := response.Content["*/*"]; !anything && len(r.body) > 0 {
			t.Errorf("%s answered %d as %q, which the document does not know", r.what, r.status, contentType)
		}
		return
	}
	if media.Schema == nil {
		return
	}
	var value any
	if err := json.Unmarshal(r.body, &value); err != nil {
		t.Errorf("%s: %v: %.200s", r.what, err, r.body)
		return
	}
	for _, complaint := range d.validate(media.Schema, value, "answer") {
		t.Errorf("%s: %s", r.what, complaint)
	}
}

func (d *document) find(method, path string) (operation, bool) {
	paths := make([]string, 0, len(d.Paths))
	for template := range d.Paths {
		paths = append(paths, template)
	}
	sort.Strings(paths) // "{" sorts behind letters: an exact path is found first
	for _, template := range paths {
		want, got := strings.Split(template, "/"), strings.Split(path, "/")
		matches := len(want) == len(got) && slices.EqualFunc(want, got, func(w, g string) bool {
			return w == g || strings.HasPrefix(w, "{")
		})
		if op, known := d.Paths[template][method]; matches && known {
			return op, true
		}
	}
	return operation{}, false
}

func (d *document) validate(s *schema, value any, path string) (complaints []string) {
	if name, isRef := strings.CutPrefix(s.Ref, "#/components/schemas/"); isRef {
		if s = d.Components.Schemas[name]; s == nil {
			return []string{path + ": the document has no schema " + name}
		}
	}
	if len(s.OneOf) > 0 {
		var all []string
		matches := 0
		for _, one := range s.OneOf {
			found := d.validate(one, value, path)
			if all = append(all, found...); len(found) == 0 {
				matches++
			}
		}
		if matches != 1 {
			complaints = append(complaints, fmt.Sprintf("%s: matches %d of oneOf: %q", path, matches, all))
		}
		return complaints
	}
	is := map[bool]string{true: "null"}[value == nil]
	switch value := value.(type) {
	case string:
		is = "string"
		if s.Format == "date-time" {
			if _, err := time.Parse("2006-01-02T15:04:05.000Z", value); err != nil {
				complaints = append(complaints, path+": "+err.Error())
			}
		}
	case bool:
		is = "boolean"
	case float64:
		is = "number"
		if value == float64(int64(value)) && !typeHas(s.Type, "number") {
			is = "integer"
		}
	case []any:
		is = "array"
		for i, e := range value {
			if s.Items != nil {
				complaints = append(complaints, d.validate(s.Items, e, fmt.Sprintf("%s[%d]", path, i))...)
			}
		}
	case map[string]any:
		is = "object"
		for name, e := range value {
			switch property := s.Properties[name]; {
			case property != nil:
				complaints = append(complaints, d.validate(property, e, path+"."+name)...)
			case s.AdditionalProperties == false:
				complaints = append(complaints, path+": the document does not know "+name)
			}
		}
		for _, name := range s.Required {
			if _, there := value[name]; !there {
				complaints = append(complaints, path+": no "+name)
			}
		}
	}
	if s.Type != nil && !typeHas(s.Type, is) {
		complaints = append(complaints, fmt.Sprintf("%s: is %s, the document says %v", path, is, s.Type))
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
		complaints = append(complaints, fmt.Sprintf("%s: %v is not one of %v", path, value, s.Enum))
	}
	return complaints
}

func typeHas(t any, want string) bool {
	if list, isList := t.([]any); isList {
		return slices.Contains(list, any(want))
	}
	return t == want
}

func TestDocumentListsEveryRoute(t *testing.T) {
	s := start(t)
	if s.spec.OpenAPI[:4] != "3.1." {
		t.Errorf("version %s", s.spec.OpenAPI)
	}
	want := []string{
		"get /", "get /docs", "get /livez", "get /metrics", "get /openapi.json", "get /readyz",
		"get /v1/deliveries", "get /v1/deliveries/{id}", "post /v1/deliveries/{id}/replay", "post /v1/deliveries/{id}/skip",
		"get /v1/endpoints", "post /v1/endpoints", "delete /v1/endpoints/{id}", "get /v1/endpoints/{id}", "patch /v1/endpoints/{id}", "put /v1/endpoints/{id}",
		"post /v1/endpoints/{id}/pause", "post /v1/endpoints/{id}/resume", "post /v1/endpoints/{id}/rotate-secret", "post /v1/endpoints/{id}/test",
		"get /v1/events", "post /v1/events", "post /v1/events/batch", "get /v1/events/{id}", "get /v1/events/{id}/payload", "post /v1/events/{id}/resend",
		"get /v1/stream", "get /v1/tenants", "post /v1/tenants", "get /v1/tenants/{name}",
		"delete /v1/tenants/{name}", "patch /v1/tenants/{name}", "put /v1/tenants/{name}",
		"get /v1/sources", "post /v1/sources", "get /v1/sources/{id}", "delete /v1/sources/{id}", "patch /v1/sources/{id}", "put /v1/sources/{id}",
		"get /v1/sources/{id}/rejections",
	}
	var got []string
	for path, methods := range s.spec.Paths {
		for method, op := range methods {
			got = append(got, method+" "+path)
			if op.Summary == "" || len(op.Responses) == 0 {
				t.Errorf("%s %s: no summary or no responses", method, path)
			}
			for name, media := range op.RequestBody.Content {
				if name == "application/json" && (media.Schema == nil || s.spec.Components.Schemas[strings.TrimPrefix(media.Schema.Ref, "#/components/schemas/")] == nil) {
					t.Errorf("%s %s: its body has no schema", method, path)
				}
			}
		}
	}
	sort.Strings(got)
	sort.Strings(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestDocsNameNoOtherHost(t *testing.T) {
	s := start(t)
	for path, contentType := range map[string]string{
		"/docs": "text/html; charset=utf-8", "/docs/reference.js": "text/javascript; charset=utf-8", "/docs/reference.css": "text/css; charset=utf-8",
	} {
		r := s.get(path, "Authorization:").want(200)
		if r.header.Get("Content-Type") != contentType || !strings.Contains(r.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: headers %v", path, r.header)
		}
		if strings.Contains(string(r.body), "//") && strings.Contains(string(r.body), "http") && strings.Contains(string(r.body), "://") {
			t.Errorf("%s names another host", path)
		}
	}
	s.get("/docs/index.htm").problem(404, "not_found")
	s.get("/docs/..%2fdocs.go").problem(404, "not_found")
}
