package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
)

// Limits of what one event has forwarded. Receivers commonly refuse requests
// with more than 8 KiB of headers; half of that leaves room for ours, the
// endpoint's own and what proxies add.
const (
	maxForwarded      = 20
	maxForwardedBytes = 4 << 10 // names and values
	// maxAttributeBytes bounds the ce- headers of a CloudEvent in binary mode, which
	// its extensions may be many of.
	maxAttributeBytes = 16 << 10
)

// forwards gathers the headers that are sent on with each delivery.
type forwards struct {
	count, bytes   int
	attributeBytes int
}

// forward takes a header to be sent on, or says why not. field is what the
// caller called it.
func (s *submissionReader) forward(field, name, value string) {
	if message, hint := refuseForward(name, value); message != "" {
		s.report(field, message, hint)
		return
	}
	s.forwards.count++
	s.forwards.bytes += len(name) + len(value)
	s.Event.Headers = append(s.Event.Headers, posthaste.Header{Name: name, Value: strings.Trim(value, " \t")})
}

// endForward judges what was gathered as a whole, and puts it in an order that
// does not depend on the order in which a map is walked.
func (s *submissionReader) endForward(field string) {
	if s.forwards.count > maxForwarded {
		s.report(field, fmt.Sprintf("asks for %d headers", s.forwards.count), fmt.Sprintf("%d at most", maxForwarded))
	}
	if s.forwards.bytes > maxForwardedBytes {
		s.report(field, fmt.Sprintf("asks for %d bytes of headers", s.forwards.bytes), fmt.Sprintf("%d at most, names and values together", maxForwardedBytes))
	}
	if s.forwards.attributeBytes > maxAttributeBytes {
		s.report(prefixCloudEvents+"*", fmt.Sprintf("are %d bytes of headers", s.forwards.attributeBytes), fmt.Sprintf("%d at most; send it in structured mode", maxAttributeBytes))
	}
	if len(s.Event.Headers) > 1 {
		// Stable: values of one name stay in the order in which they were given.
		slices.SortStableFunc(s.Event.Headers, func(a, b posthaste.Header) int {
			return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
		})
	}
}

// refuseForward says why a header cannot be sent on, in the words of a problem;
// "" where it can.
func refuseForward(name, value string) (message, hint string) {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case name == "":
		return "names no header", "such as " + prefixForward + "X-Trace"
	case strings.HasPrefix(canonical, "Webhook-"), strings.HasPrefix(canonical, prefixOurs):
		return "cannot be forwarded", "Posthaste sets it on each delivery"
	case strings.HasPrefix(canonical, "Content-"):
		return "cannot be forwarded", "the event's own Content-Type and Content-Encoding are sent on"
	case strings.HasPrefix(canonical, prefixCloudEvents):
		return "cannot be forwarded", "it belongs to a CloudEvent: send all of that as one, under its own names"
	}
	switch canonical {
	case "Authorization", "Cookie", "Cookie2", "Set-Cookie":
		return "cannot be forwarded", "it would stand in the event for all to read; set credentials in the endpoint's headers"
	case "Http2-Settings":
		return "cannot be forwarded", "it belongs to the connection"
	}
	if deliver.CheckHeader(name, "") != nil {
		if deliver.CheckHeader("X-"+name, "") != nil {
			return "is not a header's name", "letters, digits and - (RFC 9110, section 5.6.2)"
		}
		return "cannot be forwarded", "it belongs to the connection, and each one has its own"
	}
	if deliver.CheckHeader(name, value) != nil || !isText(value) {
		return "has a value that a header cannot have", "UTF-8 without control characters"
	}
	return "", ""
}
