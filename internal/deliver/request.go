package deliver

import (
	"bytes"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
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
	canonicalTrace   = "Traceparent"
)

const crlf = "\r\n"

// appendLine is for names that were looked at and values that hold no control
// character. Space around a value is no part of it (RFC 9110, section 5.5).
func appendLine(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, textproto.TrimString(value)...), crlf...)
}

// appendOurs leaves out what there is not, and what cannot be a header: one bad
// value must not make a delivery impossible, and acceptance has refused it
// before it came here.
func appendOurs(b []byte, name, value string) []byte {
	if value == "" || !isValue(value) {
		return b
	}
	return appendLine(b, name, value)
}

// requestLine returns the first line of requests to u, and Host. net/http writes
// them, so that path, query, zone and names beyond ASCII come out as they do
// from its own client.
func requestLine(u *url.URL) ([]byte, error) {
	var buf bytes.Buffer
	if err := (&http.Request{Method: http.MethodPost, URL: u, Host: u.Host}).Write(&buf); err != nil {
		return nil, fmt.Errorf("write the request line: %w", err)
	}
	lines := bytes.SplitAfterN(buf.Bytes(), []byte(crlf), 3)
	return slices.Concat(lines[0], lines[1]), nil
}

// appendRequest appends all of a request that comes before its body. Headers lie
// over each other: forwarded ones below the endpoint's own, since those may be
// its credentials, and ours on top.
func (s *Sender) appendRequest(b []byte, t *Target, m *Message, startedAt time.Time) []byte {
	b = append(b, t.head...)
	b, hasAgent := t.appendForwarded(b, m)
	if !hasAgent {
		b = appendOurs(b, "User-Agent", s.userAgent)
	}
	b = append(b, "Content-Length: "...)
	b = append(strconv.AppendInt(b, int64(len(m.Body)), 10), crlf...)
	b = appendOurs(b, "Content-Type", m.ContentType)
	b = appendOurs(b, "Content-Encoding", m.ContentEncoding)
	switch {
	case m.Traceparent == "":
		b = append(b, t.trace...)
	case !t.named[canonicalTrace]:
		b = appendOurs(b, headerTrace, m.Traceparent)
	}
	b = appendOurs(b, headerEventType, m.Type)
	b = append(b, headerAttempt+": "...)
	b = append(strconv.AppendInt(b, int64(m.Number), 10), crlf...)
	b = appendID(b, headerDeliveryID, m.DeliveryID, posthaste.KindDelivery)
	if t.standard != nil {
		b = t.appendStandard(b, m, startedAt)
	} else {
		b = t.appendHex(b, m, startedAt)
	}
	return append(b, crlf...)
}

// appendForwarded also reports whether the User-Agent is settled, by the
// endpoint or an event. Of several that were forwarded, the first one counts,
// and an empty one sends none.
func (t *Target) appendForwarded(b []byte, m *Message) (_ []byte, hasAgent bool) {
	hasAgent = t.own["User-Agent"]
	for _, h := range m.Headers {
		if CheckHeader(h.Name, h.Value) != nil {
			continue
		}
		canonical := http.CanonicalHeaderKey(h.Name)
		switch {
		case t.own[canonical], t.named[canonical], canonical == canonicalTrace && m.Traceparent != "":
			continue
		case canonical == "User-Agent":
			if !hasAgent && h.Value != "" {
				b = appendLine(b, canonical, h.Value)
			}
			hasAgent = true
			continue
		}
		b = appendLine(b, canonical, h.Value)
	}
	return b, hasAgent
}

func (t *Target) appendStandard(b []byte, m *Message, startedAt time.Time) []byte {
	eventID := m.EventID.Print(posthaste.KindEvent)
	b = appendLine(b, signature.HeaderID, eventID)
	b = appendTimestamp(b, signature.HeaderTimestamp, startedAt)
	b = append(b, signature.HeaderSignature+": "...)
	return append(t.standard.Append(b, eventID, startedAt, m.Body), crlf...)
}

func (t *Target) appendHex(b []byte, m *Message, startedAt time.Time) []byte {
	if t.names.ID != "" {
		b = appendID(b, t.names.ID, m.EventID, posthaste.KindEvent)
	}
	if t.names.DeliveryID != "" {
		b = appendID(b, t.names.DeliveryID, m.DeliveryID, posthaste.KindDelivery)
	}
	b = appendTimestamp(b, t.names.Timestamp, startedAt)
	if t.names.Event != "" {
		b = appendOurs(b, t.names.Event, m.Type)
	}
	b = append(append(b, t.names.Signature...), ": "...)
	return append(t.hex.Append(b, startedAt, m.Body), crlf...)
}

func appendID(b []byte, name string, id posthaste.ID, kind posthaste.Kind) []byte {
	b = append(append(b, name...), ": "...)
	return append(id.Append(b, kind), crlf...)
}

// appendTimestamp: Unix seconds.
func appendTimestamp(b []byte, name string, at time.Time) []byte {
	b = append(append(b, name...), ": "...)
	return append(strconv.AppendInt(b, at.Unix(), 10), crlf...)
}

// RequestHeaders returns what an attempt that started at startedAt sends or has
// sent, sorted by name, to show it later: the signature and the endpoint's
// credentials are masked. Host and Content-Length, which follow from URL and
// body, are not among them; the body need not be set.
//
// It takes apart what would be sent, so the two cannot differ.
func (s *Sender) RequestHeaders(t *Target, m *Message, startedAt time.Time) []posthaste.Header {
	unsigned := *m
	unsigned.Body = nil // nobody sees the signature, so it need not be of 1 MiB
	request := string(s.appendRequest(nil, t, &unsigned, startedAt))
	lines := strings.Split(strings.TrimSuffix(request, crlf+crlf), crlf)
	var out []posthaste.Header
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case name == "Host", name == "Content-Length":
			continue
		case posthaste.HoldsCredentials(name), t.secret[http.CanonicalHeaderKey(name)]:
			value = posthaste.Masked
		case t.standard != nil && name == signature.HeaderSignature:
			value = "v1," + posthaste.Masked
		case t.hex != nil && name == t.names.Signature:
			value = "sha256=" + posthaste.Masked
		}
		out = append(out, posthaste.Header{Name: name, Value: value})
	}
	sortByName(out)
	return out
}
