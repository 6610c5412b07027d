package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"mime"
	"net/url"
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
	value := s.one(name, values, maxAttributeBytes)
	lower := strings.ToLower(name)
	s.forwards.attributeBytes += len(name) + len(value)
	s.Event.Headers = append(s.Event.Headers, posthaste.Header{Name: lower, Value: value})
	if a := s.binary.named(lower[len(prefixCloudEvents):]); a != nil {
		a.value, a.given = decodeAttribute(value), true
	}
}

// decodeAttribute undoes the quoting of section 3.1.3.2 of the binding: a quoted
// string, then one round of percent-decoding. What is no such code stays.
func decodeAttribute(value string) string {
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
	if decoded, err := url.PathUnescape(value); err == nil && isText(decoded) {
		return decoded
	}
	return value
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
	eachMember(text, func(name, value []byte) {
		switch string(name) {
		case "data":
			s.once(&data, "data")
			return
		case "data_base64":
			s.once(&data64, "data_base64")
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

// isRFC3339 takes the small letters too, which the RFC allows and package time does not.
func isRFC3339(text string) bool {
	_, err := time.Parse(time.RFC3339, strings.ToUpper(text))
	return err == nil
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
