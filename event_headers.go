package posthaste

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

// Limits of the headers that an event has sent on to endpoints. Receivers commonly
// refuse requests with more than 8 KiB of headers; half of that leaves room for ours,
// the endpoint's own and what proxies add.
const (
	MaxEventHeaders     = 20
	MaxEventHeaderBytes = 4 << 10 // names and values
	// MaxAttributeBytes bounds the ce- headers of a CloudEvent in binary mode, whose
	// extensions may be many.
	MaxAttributeBytes = 16 << 10
)

// AttributePrefix begins the names of headers that are attributes of a CloudEvent.
const AttributePrefix = "ce-"

// ValidateEventHeaders returns everything that is wrong with the headers of an event.
// The pipeline asks it for every event, whatever door the event came through: the API,
// an outbox, a handler, a source. field is put before "[i]" and names the list.
func ValidateEventHeaders(field string, headers []Header) (problems []Problem) {
	count, size, attributes := 0, 0, 0
	for i, h := range headers {
		if isAttribute(h.Name) {
			attributes += len(h.Name) + len(h.Value)
		} else {
			count++
			size += len(h.Name) + len(h.Value)
		}
		problems = append(problems, ValidateEventHeader(fmt.Sprintf("%s[%d]", field, i), h.Name, h.Value)...)
	}
	if count > MaxEventHeaders {
		problems = append(problems, Problem{Field: field, Message: fmt.Sprintf("asks for %d headers", count), Hint: fmt.Sprintf("%d at most", MaxEventHeaders)})
	}
	if size > MaxEventHeaderBytes {
		problems = append(problems, Problem{
			Field: field, Message: fmt.Sprintf("asks for %d bytes of headers", size),
			Hint: fmt.Sprintf("%d at most, names and values together", MaxEventHeaderBytes),
		})
	}
	if attributes > MaxAttributeBytes {
		problems = append(problems, Problem{
			Field: AttributePrefix + "*", Message: fmt.Sprintf("are %d bytes of headers", attributes),
			Hint: fmt.Sprintf("%d at most; send the event in structured mode", MaxAttributeBytes),
		})
	}
	return problems
}

func isAttribute(name string) bool {
	return len(name) > len(AttributePrefix) && strings.EqualFold(name[:len(AttributePrefix)], AttributePrefix)
}

// ValidateEventHeader returns what is wrong with one header of an event. The problem
// does not repeat the value.
func ValidateEventHeader(field, name, value string) []Problem {
	refuse := func(message, hint string) []Problem {
		return []Problem{{Field: field, Message: message, Hint: hint}}
	}
	const refused = "cannot be forwarded"
	switch lower := strings.ToLower(name); {
	case name == "":
		return refuse("names no header", "such as X-Trace")
	case len(name) > MaxHeaderNameBytes || !httpguts.ValidHeaderFieldName(name):
		return refuse("is not a header's name", fmt.Sprintf("1 to %d letters, digits and - (RFC 9110, section 5.6.2)", MaxHeaderNameBytes))
	case strings.HasPrefix(lower, "webhook-"), strings.HasPrefix(lower, "posthaste-"):
		return refuse(refused, "Posthaste sets it on each delivery")
	case strings.HasPrefix(lower, "content-"):
		return refuse(refused, "the event's own Content-Type and Content-Encoding are sent on")
	case isCredential[lower]:
		return refuse(refused, "it would stand in the event for all to read; set credentials in the endpoint's secret_headers")
	case lower == "http2-settings", ReservedHeader(name) && lower != "traceparent" && lower != "tracestate":
		return refuse(refused, "it belongs to the connection, and each one has its own")
	case !utf8.ValidString(value) || !httpguts.ValidHeaderFieldValue(value):
		return refuse("has a value that a header cannot have", "UTF-8 without control characters")
	}
	return nil
}

// isCredential are headers that hold credentials and nothing else.
var isCredential = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "cookie2": true, "set-cookie": true, "set-cookie2": true,
}
