package deliver

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/signature"
)

// The headers of ours, spelled as they go out: HTTP does not mind the case, but
// people who read a receiver's log look for what the documents say.
const (
	headerEventType  = "posthaste-event-type"
	headerAttempt    = "posthaste-attempt"
	headerDeliveryID = "posthaste-delivery-id"
	headerTrace      = "traceparent"
)

// isReserved reports whether a canonical header name is ours to set: the
// signature, what describes this attempt, and what describes the message or the
// connection to net/http.
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

// header lays the headers of an attempt over each other: forwarded ones below
// the endpoint's own, since those may be its credentials, and ours on top. What
// cannot be a header is left out: one bad value must not make a delivery
// impossible, and acceptance has refused it before it came here.
func (s *Sender) header(t *Target, m *Message, startedAt time.Time) http.Header {
	h := make(http.Header, len(t.header)+len(m.Headers)+10)
	for _, f := range m.Headers {
		if CheckHeader(f.Name, f.Value) == nil {
			canonical := http.CanonicalHeaderKey(f.Name)
			h[canonical] = append(h[canonical], f.Value)
		}
	}
	maps.Copy(h, t.header)
	values := make([]string, 0, 10) // one array for all values; the longest path below sets 10
	set := func(name, value string) {
		if value != "" && isValue(value) {
			values = append(values, value)
			h[name] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	if _, has := h["User-Agent"]; !has {
		set("User-Agent", s.userAgent)
	}
	set("Content-Type", m.ContentType)
	set("Content-Encoding", m.ContentEncoding)
	if m.Traceparent != "" {
		delete(h, "Traceparent")
		set(headerTrace, m.Traceparent)
	}
	set(headerEventType, m.Type)
	set(headerAttempt, strconv.Itoa(m.Number))
	eventID, deliveryID := m.EventID.Print(posthaste.KindEvent), m.DeliveryID.Print(posthaste.KindDelivery)
	set(headerDeliveryID, deliveryID)
	timestamp := strconv.FormatInt(startedAt.Unix(), 10)
	if t.standard != nil {
		var buf [128]byte
		set(signature.HeaderID, eventID)
		set(signature.HeaderTimestamp, timestamp)
		set(signature.HeaderSignature, string(t.standard.Append(buf[:0], eventID, startedAt, m.Body)))
		return h
	}
	for canonical := range t.named { // a forwarded header of that name, in another spelling
		delete(h, canonical)
	}
	var buf [160]byte
	for _, named := range [...]posthaste.Header{
		{Name: t.names.ID, Value: eventID},
		{Name: t.names.DeliveryID, Value: deliveryID},
		{Name: t.names.Timestamp, Value: timestamp},
		{Name: t.names.Event, Value: m.Type},
		{Name: t.names.Signature, Value: string(t.hex.Append(buf[:0], startedAt, m.Body))},
	} {
		if named.Name != "" {
			set(named.Name, named.Value)
		}
	}
	return h
}

// RequestHeaders returns what an attempt that started at startedAt sends or has
// sent, sorted by name, to show it later: the signature and the endpoint's
// credentials are masked. Host and Content-Length, which follow from URL and
// body, are not among them; the body need not be set.
func (s *Sender) RequestHeaders(t *Target, m *Message, startedAt time.Time) []posthaste.Header {
	unsigned := *m
	unsigned.Body = nil // nobody sees the signature, so it need not be of 1 MiB
	header := s.header(t, &unsigned, startedAt)
	if t.standard != nil {
		header[signature.HeaderSignature] = []string{"v1," + masked}
	} else {
		header[t.names.Signature] = []string{"sha256=" + masked}
	}
	return flatten(header)
}

// masked stands for a value that is never stored or shown.
const masked = "***"

// holdsCredentials reports whether a header, by its name, is likely to hold
// what lets its reader in somewhere. WWW-Authenticate is not among them: it is
// the question, and explains a 401.
func holdsCredentials(name string) bool {
	var buf [64]byte // every header of every response comes by here: no garbage for the usual name
	lower := append(buf[:0], name...)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + ('a' - 'A')
		}
	}
	switch string(lower) {
	case "authorization", "proxy-authorization", "cookie", "set-cookie", "set-cookie2",
		"authentication-info", "proxy-authentication-info":
		return true
	}
	for _, part := range [...]string{"token", "secret", "password", "api-key", "apikey", "credential", "access-key"} {
		if bytes.Contains(lower, []byte(part)) {
			return true
		}
	}
	return false
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
		hide := holdsCredentials(name)
		for _, value := range values {
			if hide {
				value = masked
			}
			out = append(out, posthaste.Header{Name: name, Value: value})
		}
	}
	slices.SortStableFunc(out, func(a, b posthaste.Header) int { return compareFold(a.Name, b.Name) })
	return out
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
