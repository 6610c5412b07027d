package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"mime"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// CloudEvents 1.0 in its HTTP binding
// (github.com/cloudevents/spec, v1.0.2, cloudevents/bindings/http-protocol-binding.md).
// What is delivered is what came: in binary mode the body with its content type
// and the ce- headers, in structured mode the body. So a receiver's SDK reads
// the same event. The attributes that the specification knows have to be as it
// says, for else that SDK refuses what was accepted here; extensions are the
// sender's and the receiver's affair.

const (
	mediaStructured = "application/cloudevents+json"
	mediaBatched    = "application/cloudevents-batch+json"
)

// isCloudEventType tells the content types of CloudEvents by their first
// letters, with no regard to case; every event comes by here.
func isCloudEventType(contentType string) bool {
	const prefix = "application/cloudevents"
	return len(contentType) >= len(prefix) && strings.EqualFold(contentType[:len(prefix)], prefix)
}

// mediaTypeOf cuts the parameters off a content type.
func mediaTypeOf(contentType string) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(mediaType))
}

// setMode takes a content type of CloudEvents for what it says of the body.
func (s *submissionReader) setMode(field, contentType string) {
	switch mediaTypeOf(contentType) {
	case mediaStructured:
		s.structured = true
	case mediaBatched:
		s.report(field, "is that of several events", "send them to POST /v1/events/batch")
		s.typeHidden = true
	default:
		s.unsupported(field, "is a format of CloudEvents that is not understood", "send "+mediaStructured+", or any body in binary mode")
		s.typeHidden = true
	}
}

// attribute is an attribute's value. field is what the caller called it.
type attribute struct {
	field, value string
	given        bool
}

// cloudEvent holds the attributes that are looked at.
type cloudEvent struct {
	specVersion, id, source, eventType         attribute // required
	time, subject, dataSchema, dataContentType attribute // optional
	traceparent                                attribute // an extension
}

// named returns the place of an attribute, nil for one that is not looked at.
func (ce *cloudEvent) named(name string) *attribute {
	switch name {
	case "specversion":
		return &ce.specVersion
	case "id":
		return &ce.id
	case "source":
		return &ce.source
	case "type":
		return &ce.eventType
	case "time":
		return &ce.time
	case "subject":
		return &ce.subject
	case "dataschema":
		return &ce.dataSchema
	case "datacontenttype":
		return &ce.dataContentType
	case "traceparent":
		return &ce.traceparent
	}
	return nil
}

// attributeNames are those that named knows.
var attributeNames = [...]string{"specversion", "id", "source", "type", "time", "subject", "dataschema", "datacontenttype", "traceparent"}

// spell fills in what the attributes are called in a mode.
func (ce *cloudEvent) spell(prefix string) {
	for _, name := range attributeNames {
		a := ce.named(name)
		if a.field = name; prefix != "" {
			a.field = prefix + strings.ToUpper(name[:1]) + name[1:]
		}
	}
}

// ceHeader takes a header of a CloudEvent. It is sent on as it came; name is in
// the form that net/http keeps it.
func (s *submissionReader) ceHeader(name string, values []string) {
	if s.binary == nil {
		s.binary = &cloudEvent{}
		s.binary.spell(prefixCloudEvents)
	}
	value := s.one(name, values, posthaste.MaxAttributeBytes)
	decoded, ok := decodeAttribute(value)
	if !ok {
		s.report(name, "is not UTF-8 once its percent-encoding is undone", "write a percent sign that begins no code as %25")
	}
	lower := strings.ToLower(name)
	s.forwards.attributeBytes += len(name) + len(value)
	s.Event.Headers = append(s.Event.Headers, posthaste.Header{Name: lower, Value: value})
	if a := s.binary.named(lower[len(prefixCloudEvents):]); a != nil {
		a.value, a.given = decoded, true
	}
}

// decodeAttribute undoes the quoting of section 3.1.3.2 of the binding: a quoted
// string, then one round of percent-decoding. A percent sign that begins no code stays.
// It returns false where what comes out is not text.
func decodeAttribute(value string) (string, bool) {
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		plain := make([]byte, 0, n)
		for i := 1; i < n-1; i++ {
			if value[i] == '\\' && i+1 < n-1 {
				i++
			}
			plain = append(plain, value[i])
		}
		value = string(plain)
	}
	decoded, err := url.PathUnescape(value)
	if err != nil {
		return value, true
	}
	return decoded, isText(decoded)
}

// readStructured takes an event whose attributes are in its body. The headers
// of binary mode may stand beside it (section 3.2.3 of the binding), but must
// not say anything else.
func (s *submissionReader) readStructured(text []byte) {
	if text[0] != '{' {
		s.typeHidden = true
		s.report("", "is "+kindOf(text)+", want an object", "a CloudEvent is a JSON object with its attributes as members")
		return
	}
	ce := cloudEvent{}
	ce.spell("")
	var data, data64 bool
	var content []byte // the value of data or of data_base64, as it stands in the body
	eachMember(text, func(name, value []byte) {
		switch string(name) {
		case "data":
			s.once(&data, "data")
			content = value
			return
		case "data_base64":
			s.once(&data64, "data_base64")
			content = value
			return
		}
		// Null stands for an attribute that is not there (JSON format, section 2.2).
		if a := ce.named(string(name)); a != nil && value[0] != 'n' {
			s.once(&a.given, a.field)
			a.value, _ = s.text(a.field, value)
		}
	})
	if data && data64 {
		s.report("data_base64", "stands beside data", "give the data once")
	}
	if s.binary != nil {
		for _, name := range [...]string{"specversion", "id", "source", "type"} {
			if header, body := s.binary.named(name), ce.named(name); header.given && header.value != body.value {
				s.report(header.field, "says something else than "+name+" in the body", "leave the header out: the body has all attributes")
			}
		}
	}
	s.takeCloudEvent(&ce)
	s.Content = contentOfData(content, data64, ce.dataContentType.value)
}

// contentOfData returns the data of a structured CloudEvent as contentOfBody returns that
// of a binary one: the two forms of one event have the same content. value is the JSON
// value of data, or of data_base64.
func contentOfData(value []byte, isBase64 bool, contentType string) []byte {
	if len(value) == 0 {
		return []byte{}
	}
	plain, isString := "", value[0] == '"'
	if isString {
		plain, isString = unquote(value)
	}
	switch {
	case isBase64:
		raw, err := base64.StdEncoding.DecodeString(plain)
		if err != nil || !isString {
			return value // it is not ours to judge: the event is delivered as it came
		}
		return contentOfBody(raw, contentType)
	case isString && contentType != "" && !isJSONType(contentType):
		return []byte(plain) // JSON format, section 3.1.1
	}
	return compacted(value)
}

// contentOfBody returns the data of a binary CloudEvent, by which a repeated event is told
// from another one: JSON without insignificant space, anything else as it is.
func contentOfBody(body []byte, contentType string) []byte {
	if contentType == "" || isJSONType(contentType) {
		return compacted(body)
	}
	return body
}

// isJSONType reports whether a media type is JSON (JSON format, section 3.1).
func isJSONType(contentType string) bool {
	mediaType := mediaTypeOf(contentType)
	_, subtype, _ := strings.Cut(mediaType, "/")
	return subtype == "json" || strings.HasSuffix(subtype, "+json")
}

// compacted returns JSON without insignificant space, and anything else as it is.
func compacted(text []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

// once notes that a member is there, and reports one that is there twice:
// readers differ on which counts.
func (s *submissionReader) once(given *bool, field string) {
	if *given {
		s.report(field, "is given twice", "give it once")
	}
	*given = true
}

// text reads a JSON value that has to be a string of characters that both
// databases can hold. It reports what is not, and returns false.
func (s *submissionReader) text(field string, value []byte) (string, bool) {
	if value[0] != '"' {
		s.report(field, "is "+kindOf(value)+", want a string", "put it in quotes")
		return "", false
	}
	plain, ok := unquote(value)
	if !ok || !isText(plain) {
		s.report(field, "is not text", `a string without \u0000 and without half a surrogate pair`)
		return "", false
	}
	return plain, true
}

// takeCloudEvent checks the required attributes and makes the event of them.
func (s *submissionReader) takeCloudEvent(ce *cloudEvent) {
	if v := ce.specVersion; s.required(v, `"1.0"`) && v.value != "1.0" {
		s.report(v.field, "is not 1.0", "CloudEvents 1.0 is what is understood")
	}
	if s.required(ce.eventType, "as in Posthaste-Event-Type") {
		s.setType(ce.eventType.field, ce.eventType.value)
	}
	s.typeGiven = true
	hasID := s.required(ce.id, "the event's id, unique in its source")
	if s.required(ce.source, "a URI that names where the event comes from") && s.isURI(ce.source) && hasID {
		s.setCloudEventKey(ce)
	}
	s.checkOptional(ce)
	if posthaste.IsTraceparent(ce.traceparent.value) { // the event's own says more than that of the request that carries it
		s.Event.Traceparent = ce.traceparent.value
	}
}

func (s *submissionReader) required(a attribute, hint string) bool {
	if a.value != "" {
		return true
	}
	message := "is missing"
	if a.given {
		message = "is empty"
	}
	if !s.hasProblem(a.field) { // one that is not a string has been reported
		s.report(a.field, message, hint)
	}
	return false
}

func (s *submissionReader) hasProblem(field string) bool {
	for _, p := range s.problems {
		if p.Field == field {
			return true
		}
	}
	return false
}

func (s *submissionReader) isURI(source attribute) bool {
	if parseURI(source.value) == nil {
		s.report(source.field, "is not a URI reference", "such as https://example.com/orders or /orders/7, without spaces (RFC 3986)")
		return false
	}
	return true
}

// parseURI returns nil for what is no URI reference.
func parseURI(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return nil
	}
	return u
}

// checkOptional checks the optional attributes that are there (CloudEvents 1.0,
// section "Optional Attributes").
func (s *submissionReader) checkOptional(ce *cloudEvent) {
	const orLeave = "; or leave it out"
	for _, o := range []struct {
		attribute
		isRight       func(string) bool
		message, hint string
	}{
		{ce.time, isRFC3339, "is not a time", "RFC 3339, such as 2026-11-29T12:00:00Z"},
		{ce.subject, func(text string) bool { return text != "" }, "is empty", "what in the source the event is about"},
		{ce.dataSchema, isAbsoluteURI, "is not an absolute URI", "such as https://example.com/schemas/order, without spaces (RFC 3986)"},
		{ce.dataContentType, isMediaType, "is not a media type", "such as application/json (RFC 2046)"},
	} {
		if o.given && !o.isRight(o.value) && !s.hasProblem(o.field) { // one that is not a string has been reported
			s.report(o.field, o.message, o.hint+orLeave)
		}
	}
}

// rfc3339 is the grammar of RFC 3339, section 5.6, which is stricter than package time in
// the fraction and looser in small letters and leap seconds.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:(\d{2})(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$`)

// isRFC3339 reports whether a text is a time of RFC 3339. A leap second is one at the end
// of a month in UTC (section 5.7).
func isRFC3339(text string) bool {
	found := rfc3339.FindStringSubmatchIndex(text)
	if found == nil {
		return false
	}
	isLeap := text[found[2]:found[3]] == "60"
	if isLeap {
		text = text[:found[2]] + "59" + text[found[3]:]
	}
	at, err := time.Parse(time.RFC3339, strings.ToUpper(text))
	if err != nil || !isLeap {
		return err == nil
	}
	next := at.UTC().Truncate(time.Second).Add(time.Second)
	return next.Day() == 1 && next.Hour() == 0 && next.Minute() == 0 && next.Second() == 0
}

func isAbsoluteURI(text string) bool {
	u := parseURI(text)
	return u != nil && u.IsAbs()
}

func isMediaType(text string) bool {
	mediaType, _, err := mime.ParseMediaType(text)
	isRight := err == nil || errors.Is(err, mime.ErrInvalidMediaParameter) // of parameters every reader has its own idea
	return isRight && strings.Contains(mediaType, "/")
}

// setCloudEventKey makes the idempotency key: source and id name an event
// (CloudEvents 1.0, section "id").
func (s *submissionReader) setCloudEventKey(ce *cloudEvent) {
	key := joinKey(ce.source.value, ce.id.value)
	if given := s.Event.IdempotencyKey; given != "" && given != key {
		s.report(headerIdempotencyKey, "says something else than source and id of the CloudEvent", "leave it out: these two are its key")
		return
	}
	s.Event.IdempotencyKey = key
}

// joinKey joins source and id with a space. A source has none in it, so the
// first space tells them apart, and no two pairs make the same key. What is
// longer than a key may be becomes its SHA-256, without a space, which no short
// one is.
func joinKey(source, id string) string {
	key := source + " " + id
	if len(key) <= posthaste.MaxIdempotencyKeyBytes {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// kindOf names what a JSON value is.
func kindOf(value []byte) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
