package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/posthaste-dev/posthaste"
)

// forwards gathers the headers that are sent on with each delivery.
type forwards struct {
	count, bytes   int
	attributeBytes int
}

// forward takes a header to be sent on, or says why not. field is what the
// caller called it.
func (s *submissionReader) forward(field, name, value string) {
	if strings.HasPrefix(http.CanonicalHeaderKey(name), prefixCloudEvents) {
		s.report(field, "cannot be forwarded", "it belongs to a CloudEvent: send all of that as one, under its own names")
		return
	}
	if problems := posthaste.ValidateEventHeader(field, name, value); len(problems) > 0 {
		for _, p := range problems {
			s.add(p)
		}
		return
	}
	s.forwards.count++
	s.forwards.bytes += len(name) + len(value)
	s.Event.Headers = append(s.Event.Headers, posthaste.Header{Name: name, Value: strings.Trim(value, " \t")})
}

// endForward judges what was gathered as a whole, and puts it in an order that
// does not depend on the order in which a map is walked.
func (s *submissionReader) endForward(field string) {
	if s.forwards.count > posthaste.MaxEventHeaders {
		s.report(field, fmt.Sprintf("asks for %d headers", s.forwards.count), fmt.Sprintf("%d at most", posthaste.MaxEventHeaders))
	}
	if s.forwards.bytes > posthaste.MaxEventHeaderBytes {
		s.report(field, fmt.Sprintf("asks for %d bytes of headers", s.forwards.bytes), fmt.Sprintf("%d at most, names and values together", posthaste.MaxEventHeaderBytes))
	}
	if s.forwards.attributeBytes > posthaste.MaxAttributeBytes {
		s.report(prefixCloudEvents+"*", fmt.Sprintf("are %d bytes of headers", s.forwards.attributeBytes), fmt.Sprintf("%d at most; send it in structured mode", posthaste.MaxAttributeBytes))
	}
	if len(s.Event.Headers) > 1 {
		// Stable: values of one name stay in the order in which they were given.
		slices.SortStableFunc(s.Event.Headers, func(a, b posthaste.Header) int {
			return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
		})
	}
}
