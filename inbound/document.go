package inbound

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime/multipart"
	"net/url"
	"strings"
)

// bodyForm is what a provider's bodies are.
type bodyForm string

const (
	jsonBody bodyForm = ""    // JSON or a form; anything else is malformed
	anyBody  bodyForm = "any" // nothing is malformed but broken JSON
)

// Limits of what is looked at beyond the bytes that came.
const (
	maxFormFields     = 1000
	maxFormFieldBytes = 1 << 20 // of all fields of a form in parts, without its files
	maxDecodedBytes   = 32 << 20
	maxSignedForm     = 1 << 20 // of a form whose fields are signed one by one: far more than is sent
)

// ErrNoRoom says that [Request.MayDecode] refused the memory for a decoded body.
var ErrNoRoom = errors.New("no room to decode the body")

// incoming is a request while it is looked at.
type incoming struct {
	*Request
	plainBody *document // of the body as it came
	decoded   *document // of the body without its content encoding

	// What the signature that was found right covers beside the body.
	signedID, signedTime string
}

// document returns the body as it came. It may be read before the request is verified:
// nothing is decompressed for it.
func (r *incoming) document() *document {
	if r.plainBody == nil {
		r.plainBody = read(r, r.Body)
	}
	return r.plainBody
}

// readDecoded returns the body without its content encoding. Only the body of a
// verified request is worth decompressing.
func (r *incoming) readDecoded() (*document, error) {
	if r.decoded != nil {
		return r.decoded, nil
	}
	limit := r.MaxDecoded
	if limit <= 0 {
		limit = maxDecodedBytes
	}
	body, err := decompressed(r.Body, limit, r.MayDecode)
	switch {
	case errors.Is(err, ErrNoRoom):
		return nil, err
	case err != nil || body == nil:
		r.decoded = r.document()
	default:
		r.decoded = read(r, body)
	}
	return r.decoded, nil
}

// document is the body of a request, read as far as is needed to find things in it.
// What it is shows in its bytes: the header Content-Type is not signed.
type document struct {
	request *incoming
	json    raw        // nil: not JSON. Before the verification it may be broken
	form    url.Values // nil: not a form
}

// place is where something is in a request: one of the fields is set.
type place struct {
	header string
	path   []string                 // of members in the body, or of indexes; of a form the name of a field
	fixed  string                   // the same in every request
	made   func(d *document) string // computed
}

func inHeader(name string) place                { return place{header: name} }
func inBody(path ...string) place               { return place{path: path} }
func always(text string) place                  { return place{fixed: text} }
func computed(f func(d *document) string) place { return place{made: f} }
func only(p ...place) [][]place                 { return [][]place{p} }
func first(p ...[]place) [][]place              { return p }
func parts(p ...place) []place                  { return p }

// read tells by a body's bytes what it is.
func read(r *incoming, body []byte) *document {
	d := &document{request: r}
	text := bytes.TrimSpace(body)
	switch {
	case len(text) == 0:
	case looksJSON(text):
		d.json = text
	case bytes.HasPrefix(text, []byte("--")):
		d.form = readMultipart(text)
	case looksForm(text):
		if form, err := url.ParseQuery(string(text)); err == nil {
			d.form = form
		}
	default:
		if json.Valid(text) { // a single value
			d.json = text
		}
	}
	// Some send JSON in a field of a form (github, slack).
	if payload := strings.TrimSpace(d.form.Get("payload")); looksJSON([]byte(payload)) {
		d.json = raw(payload)
	}
	return d
}

// looksJSON reports whether a text can be nothing but JSON, be it broken.
func looksJSON(text []byte) bool { return len(text) > 0 && (text[0] == '{' || text[0] == '[') }

// looksForm reports whether a text is application/x-www-form-urlencoded with a number of
// fields that somebody would send.
func looksForm(text []byte) bool {
	if bytes.IndexByte(text, '=') <= 0 || bytes.Count(text, []byte("&")) >= maxFormFields {
		return false
	}
	for _, c := range text {
		if notInForm[c] {
			return false
		}
	}
	return true
}

// notInForm are the bytes that no form has in it, since they are escaped.
var notInForm = func() (is [256]bool) {
	for c := range ' ' + 1 {
		is[c] = true
	}
	for _, c := range []byte("<>\"{}\\\x7f") {
		is[c] = true
	}
	return is
}()

// isJSON reports whether the body is JSON and all of it is well formed.
func (d *document) isJSON() bool { return d.json != nil && json.Valid(d.json) }

// isReadable reports whether the body is well-formed JSON or a form.
func (d *document) isReadable() bool { return d.isJSON() || d.json == nil && d.form != nil }

// readMultipart returns the fields of a form without its files, or nil. The boundary
// is the first line.
func readMultipart(body []byte) url.Values {
	line, _, found := bytes.Cut(body, []byte("\n"))
	boundary := strings.TrimSpace(strings.TrimPrefix(string(line), "--"))
	const longest = 70 // RFC 2046
	if !found || boundary == "" || len(boundary) > longest {
		return nil
	}
	form, left := url.Values{}, int64(maxFormFieldBytes)
	in := multipart.NewReader(bytes.NewReader(body), boundary)
	for range maxFormFields {
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
		value, err := io.ReadAll(io.LimitReader(part, left+1))
		if left -= int64(len(value)); err != nil || left < 0 {
			return nil
		}
		form.Add(part.FormName(), string(value))
	}
	return nil
}

// decompressed undoes gzip and deflate, which show in the first bytes. It returns nil
// where the body is not compressed, and an error where it cannot be undone within the
// limit. mayDecode is asked before each piece of memory; nil means yes.
func decompressed(body []byte, limit int, mayDecode func(more int) bool) ([]byte, error) {
	var in io.Reader
	var err error
	switch {
	case len(body) > 2 && body[0] == 0x1f && body[1] == 0x8b:
		in, err = gzip.NewReader(bytes.NewReader(body))
	case len(body) > 2 && body[0] == 0x78 && (int(body[0])<<8|int(body[1]))%31 == 0:
		in, err = zlib.NewReader(bytes.NewReader(body))
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	const piece = 64 << 10
	var out []byte
	for {
		if len(out) == cap(out) {
			more := max(piece, cap(out))
			if mayDecode != nil && !mayDecode(more) {
				return nil, ErrNoRoom
			}
			out = append(make([]byte, 0, cap(out)+more), out...)
		}
		n, err := in.Read(out[len(out):min(cap(out), limit+1)])
		out = out[:len(out)+n]
		switch {
		case len(out) > limit:
			return nil, errors.New("the decoded body is larger than the limit")
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
	}
}

// at returns what is at a place as text, or "": a text without its quotes, a
// number as it is written.
func (d *document) at(p place) string {
	switch {
	case p.made != nil:
		return p.made(d)
	case p.fixed != "":
		return p.fixed
	case p.header != "":
		return d.request.Header.Get(p.header)
	case len(p.path) == 0:
		return ""
	case d.json == nil:
		return d.form.Get(strings.Join(p.path, "."))
	}
	return d.json.get(p.path...).text()
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

// itemsAt yields the documents of a list in the body, one after the other: a list may
// have very many.
func (d *document) itemsAt(path ...string) iter.Seq[*document] {
	return func(yield func(*document) bool) {
		for one := range d.json.get(path...).elements() {
			if !yield(&document{request: d.request, json: one}) {
				return
			}
		}
	}
}

// digest hashes the body as it came, for providers whose proof covers nothing that
// tells two deliveries apart but the body. More may be added.
func (d *document) digest(more ...string) string {
	h := sha256.New()
	for _, text := range more {
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	h.Write(d.request.Body)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// has reports whether an object in the body has a member that is not null.
func (d *document) has(path ...string) bool {
	value := d.json.get(path...)
	return value != nil && string(value) != "null"
}
