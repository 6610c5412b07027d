package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/auth"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
)

// The headers that say what an event is, in the form that net/http keeps them.
const (
	headerEventType      = "Posthaste-Event-Type"
	headerEndpoint       = "Posthaste-Endpoint"
	headerOrderKey       = "Posthaste-Order-Key"
	headerDeliverAt      = "Posthaste-Deliver-At"
	prefixForward        = "Posthaste-Forward-"
	headerIdempotencyKey = "Idempotency-Key"
	prefixCloudEvents    = "Ce-"
	prefixOurs           = "Posthaste-"

	paramType = "type" // in the query
)

// acceptEvent is the hot path, some 12,000 times a second: everything but the
// body is in the headers, so that the body needs no reading, is kept byte for
// byte, and may be of any type.
func (a *api) acceptEvent(c *call) error {
	s, err := a.readSubmission(c)
	if err != nil {
		return err
	}
	receipt, err := a.Pipeline.Accept(c.r.Context(), s)
	if err != nil {
		return err
	}
	answerReceipt(c, receipt)
	return nil
}

// receiptBody is what answerReceipt writes by hand.
type receiptBody struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	Deliveries int    `json:"deliveries" doc:"How many endpoints it goes to; 0 where none subscribes: the event is kept all the same"`
	Duplicate  bool   `json:"duplicate" doc:"An earlier event with the same idempotency key, type and bytes stands for this one"`
}

// answerReceipt leaves Content-Length to net/http, which counts so short an answer itself.
func answerReceipt(c *call, r pipeline.Receipt) {
	b := appendReceipt(append(make([]byte, 0, 256), '{'), r)
	b = append(b, "}\n"...)
	c.Header()["Content-Type"] = []string{"application/json"}
	c.WriteHeader(statusOf(r))
	_, _ = c.Write(b)
}

func statusOf(r pipeline.Receipt) int {
	if r.Duplicate {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// appendReceipt writes the members of a receiptBody. Types and ids have no
// character that JSON escapes.
func appendReceipt(b []byte, r pipeline.Receipt) []byte {
	b = r.ID.Append(append(b, `"id":"`...), posthaste.KindEvent)
	b = append(append(b, `","type":"`...), r.Type...)
	b = strconv.AppendInt(append(b, `","deliveries":`...), int64(r.Deliveries), 10)
	return strconv.AppendBool(append(b, `,"duplicate":`...), r.Duplicate)
}

// readSubmission reads an event. What is wrong in the headers is answered before
// the body is read, except where the body has more to say about the event.
func (a *api) readSubmission(c *call) (in pipeline.Submission, err error) {
	var s submissionReader
	s.Tenant, s.Event.Source = c.tenant, posthaste.SourceAPI
	s.readHeaders(c.r)
	if !s.structured {
		if s.binary != nil {
			s.takeCloudEvent(s.binary)
		}
		if err := s.end(); err != nil {
			return in, err
		}
	}
	if s.Event.Payload, err = a.readBody(c, a.MaxPayloadBytes); err != nil {
		return in, err
	}
	if s.structured {
		text := s.Event.Payload
		if err := checkJSON("the body", text); err != nil {
			return in, err
		}
		s.readStructured(text[skipSpace(text, 0):])
		if err := s.end(); err != nil {
			return in, err
		}
	} else if s.binary != nil {
		s.Content = contentOfBody(s.Event.Payload, s.Event.ContentType)
	}
	return s.Submission, nil
}

// submissionReader gathers an event from the parts of a request or of a line,
// and everything that is wrong with them.
type submissionReader struct {
	pipeline.Submission
	typeGiven  bool   // also a bad one
	typeFrom   string // what gave it, in words
	typeHidden bool   // in a body that is not understood
	structured bool   // a CloudEvent whose attributes are in the body
	binary     *cloudEvent
	forwards   forwards
	problems   []posthaste.Problem
}

// readHeaders reads everything about an event but its body. It looks at each header
// once, and refuses what it does not know of ours.
func (s *submissionReader) readHeaders(r *http.Request) {
	for name, values := range r.Header {
		s.header(name, values)
	}
	s.query(r.URL.RawQuery)
	if s.structured && s.Event.ContentEncoding != "" && s.Event.ContentEncoding != "identity" {
		s.unsupported("Content-Encoding", "hides the attributes of a structured CloudEvent", "send it as it is, or in binary mode")
	}
}

// end returns what was found to be wrong, in an order of its own: that of
// headers is lost.
func (s *submissionReader) end() error {
	if !s.typeGiven && !s.typeHidden {
		s.report(headerEventType, "is missing", "name the event's type in this header or as ?type=")
	}
	if len(s.Event.Headers) > 0 {
		s.endForward(prefixForward + "*")
	}
	if len(s.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(s.problems, func(a, b posthaste.Problem) int { return strings.Compare(a.Field, b.Field) })
	return posthaste.Invalid(s.problems)
}

func (s *submissionReader) report(field, message, hint string) {
	s.add(posthaste.Problem{Field: field, Message: message, Hint: hint})
}

func (s *submissionReader) unsupported(field, message, hint string) {
	s.add(posthaste.Problem{Field: field, Message: message, Hint: hint, Code: posthaste.CodeUnsupported})
}

func (s *submissionReader) add(p posthaste.Problem) {
	if len(s.problems) < maxDecodeProblems {
		s.problems = append(s.problems, p)
	}
}

func (s *submissionReader) header(name string, values []string) {
	e := &s.Event
	switch name {
	case headerEventType:
		if len(values) != 1 {
			s.typeGiven, s.typeFrom = true, "the first one"
			s.report(name, "is given more than once", "give it once")
			return
		}
		s.setType(name, values[0])
	case headerIdempotencyKey:
		e.IdempotencyKey = s.oneNotEmpty(name, values, posthaste.MaxIdempotencyKeyBytes)
	case headerOrderKey:
		e.OrderKey = s.oneNotEmpty(name, values, posthaste.MaxOrderKeyBytes)
	case "Content-Type":
		e.ContentType = s.one(name, values, posthaste.MaxContentTypeBytes)
		if isCloudEventType(e.ContentType) {
			s.setMode(name, e.ContentType)
		}
	case "Content-Encoding":
		e.ContentEncoding = s.one(name, values, posthaste.MaxContentTypeBytes)
	case "Traceparent":
		// W3C Trace Context, section 3.2: one that is not valid is ignored.
		if len(values) == 1 && posthaste.IsTraceparent(values[0]) {
			e.Traceparent = values[0]
		}
	case headerEndpoint:
		s.setEndpoints(values)
	case headerDeliverAt:
		s.unsupported(name, "is not built yet", "leave it out: the event is delivered at once")
	case auth.HeaderTenant, headerRequestID, "Posthaste-Attempt", "Posthaste-Delivery-Id":
		// The first is read with the key; the others are what a client repeats, or
		// another Posthaste sends that delivers here.
	default:
		switch {
		case strings.HasPrefix(name, prefixForward):
			for _, value := range values {
				s.forward(name, name[len(prefixForward):], value)
			}
		case strings.HasPrefix(name, prefixOurs):
			s.report(name, "is not a header of Posthaste", "see /docs for those of this request")
		case strings.HasPrefix(name, prefixCloudEvents):
			s.ceHeader(name, values)
		}
	}
}

// one returns the value of a header that may be given once.
func (s *submissionReader) one(name string, values []string, maxBytes int) string {
	switch {
	case len(values) != 1:
		s.report(name, "is given more than once", "give it once")
	case len(values[0]) > maxBytes:
		s.report(name, "is too long", fmt.Sprintf("%d bytes at most", maxBytes))
	case !isText(values[0]):
		s.report(name, "is not UTF-8", "send it in UTF-8")
	default:
		return values[0]
	}
	return ""
}

// oneNotEmpty refuses an empty value: a script whose variable is not set would
// lose what it asked for, deduplication or order, without a word.
func (s *submissionReader) oneNotEmpty(name string, values []string, maxBytes int) string {
	if len(values) == 1 && values[0] == "" {
		s.report(name, "is empty", fmt.Sprintf("1 to %d bytes, or leave the header out", maxBytes))
		return ""
	}
	return s.one(name, values, maxBytes)
}

// setType takes the type from one of the places where it may stand. Where it
// stands in several they have to agree.
func (s *submissionReader) setType(field, eventType string) {
	if s.typeGiven {
		if eventType != s.Event.Type {
			s.report(field, "says another type than "+s.typeFrom, "give the type in one place")
		}
		return
	}
	s.typeGiven, s.typeFrom = true, "the header "+headerEventType
	if field == paramType {
		s.typeFrom = "?type="
	}
	s.problems = append(s.problems, posthaste.ValidateType(field, eventType)...)
	s.Event.Type = eventType
}

func (s *submissionReader) setEndpoints(values []string) {
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") { // a proxy may join repeated headers into one (RFC 9110, section 5.3)
			s.addEndpoint(headerEndpoint, strings.Trim(one, " \t"))
		}
	}
}

// addEndpoint takes the id of an endpoint, or, after "uid:", its owner's own.
func (s *submissionReader) addEndpoint(field, text string) {
	if uid, isUID := strings.CutPrefix(text, posthaste.UIDPrefix); isUID {
		if problems := posthaste.ValidateUID(field, uid); len(problems) > 0 {
			s.add(problems[0])
		} else if !slices.Contains(s.UIDs, uid) {
			s.UIDs = append(s.UIDs, uid)
		}
		return
	}
	id, err := posthaste.ParseID(posthaste.KindEndpoint, text)
	switch {
	case err != nil:
		s.report(field, "is not the id of an endpoint", err.Error()+", or \"uid:\" and your own id for it")
	case !slices.Contains(s.Endpoints, id):
		s.Endpoints = append(s.Endpoints, id)
	}
}

func (s *submissionReader) query(raw string) {
	if raw == "" {
		return
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		s.report("", "has a query that cannot be read", "escape what is not a letter or a digit as %XX")
		return
	}
	for name, given := range values {
		switch {
		case name != paramType:
			s.report(join("", name), "is not a parameter", "this path takes type; all else is in headers")
		case len(given) > 1:
			s.typeGiven = true
			s.report(name, "is given more than once", "give it once")
		default:
			s.setType(name, given[0])
		}
	}
}
