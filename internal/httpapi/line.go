package httpapi

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
)

// maxChosenEndpoints bounds the endpoints that one line may name.
const maxChosenEndpoints = 1000

// batchLine is what lineReader reads by hand.
type batchLine struct {
	Type            string            `json:"type" doc:"1 to 128 of a-z A-Z 0-9 . _ - / :"`
	Payload         any               `json:"payload" doc:"Any JSON. The very bytes between its colon and its comma are delivered, without the space around them"`
	PayloadBase64   string            `json:"payload_base64" doc:"Any bytes, in base64 with padding. One of the two payloads is required"`
	ContentType     string            `json:"content_type" doc:"Sent on; empty for none. Left out: application/json for payload, application/octet-stream for payload_base64"`
	ContentEncoding string            `json:"content_encoding" doc:"Sent on"`
	IdempotencyKey  string            `json:"idempotency_key" doc:"1 to 255 bytes. A second event with it is not stored, be it in the same batch"`
	OrderKey        string            `json:"order_key" doc:"1 to 255 bytes, kept with the event"`
	Traceparent     string            `json:"traceparent" doc:"W3C Trace Context. Left out: that of the request"`
	Headers         map[string]string `json:"headers" doc:"Sent on with each delivery; as for Posthaste-Forward-*"`
	Endpoints       []string          `json:"endpoints" doc:"Only to these endpoints, by their ids or your own as uid:MINE, whatever they subscribe to"`
}

const lineFields = "content_encoding, content_type, endpoints, headers, idempotency_key, order_key, payload, payload_base64, traceparent, type"

// lineReader reads one line. Its bits say which members were there.
type lineReader struct {
	submissionReader
	seen lineMember
}

type lineMember uint16

const (
	lineType lineMember = 1 << iota
	linePayload
	linePayloadBase64
	lineContentType
	lineContentEncoding
	lineIdempotencyKey
	lineOrderKey
	lineTraceparent
	lineHeaders
	lineEndpoints
)

func lineMemberOf(name []byte) lineMember {
	switch string(name) {
	case "type":
		return lineType
	case "payload":
		return linePayload
	case "payload_base64":
		return linePayloadBase64
	case "content_type":
		return lineContentType
	case "content_encoding":
		return lineContentEncoding
	case "idempotency_key":
		return lineIdempotencyKey
	case "order_key":
		return lineOrderKey
	case "traceparent":
		return lineTraceparent
	case "headers":
		return lineHeaders
	case "endpoints":
		return lineEndpoints
	}
	return 0
}

// readLine reads a line without space around it.
func (b *batch) readLine(line []byte) (pipeline.Submission, error) {
	if err := checkJSON("the line", line); err != nil {
		return pipeline.Submission{}, err
	}
	if line[0] != '{' {
		return pipeline.Submission{}, oneProblem("", "is "+kindOf(line)+", want an object", `such as {"type":"invoice.paid","payload":{}}`)
	}
	var l lineReader
	b.begin(&l.submissionReader)
	eachMember(line, l.member)
	if l.seen&lineType == 0 {
		l.report("type", "is missing", `name the event's type, such as "invoice.paid"`)
	}
	switch l.seen & (linePayload | linePayloadBase64) {
	case 0:
		l.report("payload", "is missing", "give payload, or payload_base64, which may be empty")
	case linePayload | linePayloadBase64:
		l.report("payload_base64", "stands beside payload", "give one of the two")
	case linePayload:
		if l.seen&lineContentType == 0 {
			l.Event.ContentType = "application/json"
		}
	case linePayloadBase64:
		if l.seen&lineContentType == 0 {
			l.Event.ContentType = "application/octet-stream"
		}
	}
	return l.Submission, b.end(&l.submissionReader)
}

func (l *lineReader) member(name, value []byte) {
	m := lineMemberOf(name)
	switch {
	case string(name) == "deliver_at":
		l.unsupported("deliver_at", "is not built yet", "leave it out: the event is delivered at once")
		return
	case m == 0:
		l.report(join("", string(name)), "is not a field", "the fields are "+lineFields)
		return
	case l.seen&m != 0:
		l.report(string(name), "is given twice", "give it once")
		return
	case value[0] == 'n' && m != linePayload: // null leaves a field out; a payload may be null
		return
	}
	l.seen |= m
	e := &l.Event
	switch m {
	case lineType:
		if text, ok := l.text("type", value); ok {
			l.setType("type", text)
		}
	case linePayload:
		e.Payload = bytes.Clone(value) // the others of the batch must not be held by it
	case linePayloadBase64:
		l.payloadBase64(value)
	case lineContentType:
		e.ContentType = l.atMost("content_type", value, posthaste.MaxContentTypeBytes)
	case lineContentEncoding:
		e.ContentEncoding = l.atMost("content_encoding", value, posthaste.MaxContentTypeBytes)
	case lineIdempotencyKey:
		e.IdempotencyKey = l.notEmpty("idempotency_key", value, posthaste.MaxIdempotencyKeyBytes)
	case lineOrderKey:
		e.OrderKey = l.notEmpty("order_key", value, posthaste.MaxOrderKeyBytes)
	case lineTraceparent:
		// As for the header, one that is not valid is ignored, and replaces the request's.
		if e.Traceparent, _ = l.text("traceparent", value); !posthaste.IsTraceparent(e.Traceparent) {
			e.Traceparent = ""
		}
	case lineHeaders:
		l.forwardAll(value)
	case lineEndpoints:
		l.chooseEndpoints(value)
	}
}

func (l *lineReader) payloadBase64(value []byte) {
	const hint = "standard base64 with padding (RFC 4648, section 4)"
	if value[0] != '"' {
		l.report("payload_base64", "is "+kindOf(value)+", want a string", hint)
		return
	}
	text := value[1 : len(value)-1]
	if bytes.IndexByte(text, '\\') >= 0 { // some writers escape the slash
		decoded, _ := unquote(value)
		text = []byte(decoded)
	}
	payload := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(payload, text)
	if err != nil {
		l.report("payload_base64", "is not base64", hint)
		return
	}
	l.Event.Payload = payload[:n]
}

// atMost reads a value that becomes a header's.
func (l *lineReader) atMost(field string, value []byte, maxBytes int) string {
	text, ok := l.text(field, value)
	switch {
	case !ok:
	case len(text) > maxBytes:
		l.report(field, "is too long", fmt.Sprintf("%d bytes at most", maxBytes))
	case strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
		l.report(field, "has a control character", "it is sent on as a header")
	}
	return text
}

func (l *lineReader) notEmpty(field string, value []byte, maxBytes int) string {
	text, ok := l.text(field, value)
	if ok && (text == "" || len(text) > maxBytes) {
		l.report(field, "is empty or too long", fmt.Sprintf("1 to %d bytes, or leave it out", maxBytes))
	}
	return text
}

func (l *lineReader) forwardAll(value []byte) {
	if value[0] != '{' {
		l.report("headers", "is "+kindOf(value)+", want an object of strings", `such as {"X-Trace":"abc"}`)
		return
	}
	given := map[string]bool{}
	eachMember(value, func(raw, value []byte) {
		name := string(raw)
		field := join("headers", name)
		if given[name] {
			l.report(field, "is given twice", "give it once")
			return
		}
		given[name] = true
		if text, ok := l.text(field, value); ok {
			l.forward(field, name, text)
		}
	})
}

func (l *lineReader) chooseEndpoints(value []byte) {
	if value[0] != '[' {
		l.report("endpoints", "is "+kindOf(value)+", want an array of ids", "leave it out to reach all that subscribe")
		return
	}
	count := 0
	eachElement(value, func(i int, element []byte) bool {
		if count++; count > maxChosenEndpoints {
			l.report("endpoints", "names too many", fmt.Sprintf("%d at most", maxChosenEndpoints))
			return false
		}
		field := "endpoints[" + strconv.Itoa(i) + "]"
		if text, ok := l.text(field, element); ok {
			l.addEndpoint(field, text)
		}
		return len(l.problems) < maxDecodeProblems
	})
	if count == 0 { // would reach all, which whoever computed the list did not mean
		l.report("endpoints", "is empty", "leave it out to reach all that subscribe")
	}
}
