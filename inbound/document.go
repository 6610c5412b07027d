package inbound

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
)

// bodyForm is what a provider's bodies are.
type bodyForm string

const (
	jsonBody bodyForm = ""    // JSON, or a form where the request says so; anything else is malformed
	anyBody  bodyForm = "any" // nothing is malformed
)

// Limits of what is looked at beyond the bytes that came.
const (
	maxDecodedBytes = 32 << 20 // of a compressed body
	maxFormParts    = 1000
)

// incoming is a request while it is looked at.
type incoming struct {
	*Request
	read *document
}

// document returns the request's body, read once.
func (r *incoming) document() *document {
	if r.read == nil {
		r.read = read(r)
	}
	return r.read
}

// document is the body of a request, read as far as is needed to find things in it.
type document struct {
	request  *incoming
	json     json.RawMessage            // nil: not JSON
	members  map[string]json.RawMessage // of json, where it is an object
	form     url.Values                 // nil: not a form
	readable bool
}

// place is where something is in a request: one of the fields is set.
type place struct {
	header string
	path   []string // of members in the body; of a form the name of a field
	fixed  string   // the same in every request
}

func inHeader(name string) place   { return place{header: name} }
func inBody(path ...string) place  { return place{path: path} }
func always(text string) place     { return place{fixed: text} }
func only(p ...place) [][]place    { return [][]place{p} }
func first(p ...[]place) [][]place { return p }
func parts(p ...place) []place     { return p }

// read reads a request's body by its content type; what has none is read as JSON,
// and so is text/plain, which some providers send JSON as.
func read(r *incoming) *document {
	d := &document{request: r}
	body := decoded(r)
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		mediaType = ""
	}
	switch mediaType {
	case "application/x-www-form-urlencoded":
		if form, err := url.ParseQuery(string(body)); err == nil {
			d.form = form
		}
	case "multipart/form-data":
		d.form = readMultipart(body, params["boundary"])
	default:
		d.readJSON(body)
	}
	// Some send JSON in a field of a form (github, slack).
	if payload := d.form.Get("payload"); payload != "" {
		d.readJSON([]byte(payload))
	}
	d.readable = d.json != nil || d.form != nil
	return d
}

// saysJSON reports whether there is a body that is declared to be JSON.
func (d *document) saysJSON() bool {
	mediaType, _, err := mime.ParseMediaType(d.request.Header.Get("Content-Type"))
	return err == nil && len(d.request.Body) > 0 && (mediaType == "application/json" || strings.HasSuffix(mediaType, "+json"))
}

// readJSON leaves the document as it is if the text is not JSON.
func (d *document) readJSON(text []byte) {
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return
	}
	if text[0] == '{' {
		if d.members = members(text); d.members != nil {
			d.json = text
		}
	} else if json.Valid(text) {
		d.json = text
	}
}

// decoded undoes the content encoding; what cannot be undone comes back as it is.
func decoded(r *incoming) []byte {
	var in io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))) {
	case "gzip", "x-gzip":
		in, err = gzip.NewReader(bytes.NewReader(r.Body))
	case "deflate":
		in, err = zlib.NewReader(bytes.NewReader(r.Body))
	default:
		return r.Body
	}
	if err != nil {
		return r.Body
	}
	text, err := io.ReadAll(io.LimitReader(in, maxDecodedBytes+1))
	if err != nil || len(text) > maxDecodedBytes {
		return r.Body
	}
	return text
}

// readMultipart returns the fields of a form without its files, or nil.
func readMultipart(body []byte, boundary string) url.Values {
	if boundary == "" {
		return nil
	}
	form := url.Values{}
	in := multipart.NewReader(bytes.NewReader(body), boundary)
	for range maxFormParts {
		part, err := in.NextPart()
		if err == io.EOF { //nolint:errorlint // NextPart promises this very value
			return form
		}
		if err != nil {
			return nil
		}
		if part.FormName() == "" || part.FileName() != "" {
			continue
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return nil
		}
		form.Add(part.FormName(), string(value))
	}
	return nil
}

// at returns what is at a place as text, or "": a text without its quotes, a
// number as it is written.
func (d *document) at(p place) string {
	switch {
	case p.fixed != "":
		return p.fixed
	case p.header != "":
		return d.request.Header.Get(p.header)
	case d.json == nil && len(p.path) == 1:
		return d.form.Get(p.path[0])
	case len(p.path) == 0:
		return ""
	}
	return scalar(d.member(p.path...))
}

// all returns what is at each of the places, or nil where one of them is empty.
func (d *document) all(places []place) (texts []string) {
	for _, p := range places {
		text := d.at(p)
		if text == "" {
			return nil
		}
		texts = append(texts, text)
	}
	return texts
}

// itemsAt returns the documents of a list in the body; nil where there is none.
func (d *document) itemsAt(path ...string) (items []*document) {
	var list []json.RawMessage
	if json.Unmarshal(d.member(path...), &list) != nil {
		return nil
	}
	for _, one := range list {
		items = append(items, &document{request: d.request, json: one, members: members(one), readable: true})
	}
	return items
}

// member walks down the members of objects. Numbers stay as they are written.
func (d *document) member(path ...string) json.RawMessage {
	if len(path) == 0 {
		return d.json
	}
	value := d.members[path[0]]
	for _, name := range path[1:] {
		value = members(value)[name]
	}
	return value
}

// members returns an object's members, or nil for anything else.
func members(in json.RawMessage) map[string]json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(in, &object) != nil {
		return nil
	}
	return object
}

func scalar(value json.RawMessage) string {
	if len(value) == 0 || value[0] == '{' || value[0] == '[' || string(value) == "null" {
		return ""
	}
	if value[0] != '"' {
		return string(value)
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}
