package deliver

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/posthaste-dev/posthaste"
)

// isReserved reports whether a canonical header name is ours to set: the
// signature, what describes this attempt, and what describes the message or the
// connection.
func isReserved(canonical string) bool {
	if strings.HasPrefix(canonical, "Webhook-") || strings.HasPrefix(canonical, "Posthaste-") {
		return true
	}
	switch canonical {
	case "Host", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Trailer", "Te",
		"Connection", "Keep-Alive", "Upgrade", "Expect", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate":
		return true
	}
	return false
}

// CheckHeader returns why a header cannot be set by an endpoint or forwarded
// with an event, or nil. The error does not repeat the value.
func CheckHeader(name, value string) error {
	switch {
	case !isToken(name):
		return fmt.Errorf("%q is not a header name", name)
	case isReserved(http.CanonicalHeaderKey(name)):
		return fmt.Errorf("header %q is set by Posthaste alone", name)
	case !isValue(value):
		return fmt.Errorf("the value of header %q has a control character in it", name)
	}
	return nil
}

// isToken: RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// isValue: RFC 9110, section 5.5. Bytes from 0x80 up are allowed.
func isValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// keepHeaders returns what is stored of a response's headers. net/http does not
// keep their order, so it is by name.
func keepHeaders(h http.Header) []posthaste.Header {
	out := flatten(h)
	return out[:min(len(out), posthaste.MaxResponseHeaders):min(len(out), posthaste.MaxResponseHeaders)]
}

// flatten returns the headers by name, whatever the case, with credentials masked.
func flatten(h http.Header) []posthaste.Header {
	if len(h) == 0 {
		return nil
	}
	out := make([]posthaste.Header, 0, len(h))
	for name, values := range h {
		hide := posthaste.HoldsCredentials(name)
		for _, value := range values {
			switch {
			case hide:
				value = posthaste.Masked
			case name == "Location", name == "Content-Location":
				value = posthaste.MaskURL(value)
			}
			out = append(out, posthaste.Header{Name: name, Value: value})
		}
	}
	sortByName(out)
	return out
}

func sortByName(headers []posthaste.Header) {
	slices.SortStableFunc(headers, func(a, b posthaste.Header) int { return compareFold(a.Name, b.Name) })
}

// compareFold orders names of headers, which are ASCII, without regard to case.
func compareFold(a, b string) int {
	for i := range min(len(a), len(b)) {
		if c := cmp.Compare(a[i]|0x20, b[i]|0x20); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}
