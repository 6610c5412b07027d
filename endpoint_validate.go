package posthaste

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

// Limits of an endpoint's definition.
const (
	MaxURLBytes         = 2048
	MaxDescriptionBytes = 1024
	MaxEventTypes       = 100
	MaxSubscribed       = 100 // sources
	MaxEndpointHeaders  = 20
	MaxHeaderNameBytes  = 128
	MaxHeaderValueBytes = 4096
	MaxScheduleSteps    = 50
	MaxScheduleStep     = 30 * 24 * time.Hour
	MinTimeout          = 100 * time.Millisecond
	MaxTimeout          = 5 * time.Minute
	MinDeadline         = time.Second
	MaxMaxInFlight      = 1000
)

// Validate returns everything that is wrong with a definition, each problem
// with the path of its field. It asks no network: whether a host's addresses
// may be reached is looked at again when it is dialled.
func (d Definition) Validate(rules DefinitionRules) []Problem {
	problems := rules.validateURL("url", d.URL)
	problems = append(problems, d.validateSubscription()...)
	problems = append(problems, d.validateHeaders()...)
	problems = append(problems, d.validateSignature()...)
	problems = append(problems, d.Retry.validate(rules)...)
	problems = append(problems, d.validateInFlight()...)
	return append(problems, d.validateGate()...)
}

func (d Definition) validateInFlight() []Problem {
	if d.MaxInFlight < 1 || d.MaxInFlight > MaxMaxInFlight {
		return []Problem{{
			Field: "max_in_flight", Message: fmt.Sprintf("is %d", d.MaxInFlight), Hint: fmt.Sprintf("1 to %d", MaxMaxInFlight),
		}}
	}
	return nil
}

func (d Definition) validateSubscription() (problems []Problem) {
	if len(d.Description) > MaxDescriptionBytes || !isText(d.Description) {
		problems = append(problems, Problem{
			Field: "description", Message: "is too long or has a NUL in it", Hint: fmt.Sprintf("%d bytes of text at most", MaxDescriptionBytes),
		})
	}
	switch n := len(d.EventTypes); {
	case n == 0:
		problems = append(problems, Problem{
			Field: "event_types", Message: "is empty", Hint: `name at least one pattern; "*" takes all events`,
		})
	case n > MaxEventTypes:
		return append(problems, Problem{
			Field: "event_types", Message: fmt.Sprintf("has %d patterns", n),
			Hint: fmt.Sprintf(`%d at most; a prefix such as "invoice.*" covers many types`, MaxEventTypes),
		})
	}
	for i, pattern := range d.EventTypes {
		problems = append(problems, ValidatePattern(fmt.Sprintf("event_types[%d]", i), pattern)...)
	}
	return append(problems, validateSources(d.Sources)...)
}

// validateSources cannot know whether a source exists; one that was deleted sends
// nothing more, and may stay named.
func validateSources(sources []string) (problems []Problem) {
	if n := len(sources); n > MaxSubscribed {
		return []Problem{{Field: "sources", Message: fmt.Sprintf("has %d entries", n), Hint: fmt.Sprintf("%d at most", MaxSubscribed)}}
	}
	for i, s := range sources {
		if _, err := ParseID(KindSource, s); err != nil && s != SourceAPI && s != SourceEngine {
			problems = append(problems, Problem{
				Field: fmt.Sprintf("sources[%d]", i), Message: "is not the id of a source", Hint: "src_ and 26 characters, as GET /v1/sources shows it, or " + SourceAPI,
			})
		}
	}
	return problems
}

// validateHeaders validates headers and secret headers, which are one set to a receiver.
func (d Definition) validateHeaders() (problems []Problem) {
	if n := len(d.Headers) + len(d.SecretHeaders); n > MaxEndpointHeaders {
		return []Problem{{Field: "headers", Message: fmt.Sprintf("has %d headers", n), Hint: fmt.Sprintf("%d at most, with secret_headers", MaxEndpointHeaders)}}
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		if HoldsCredentials(name) {
			problems = append(problems, Problem{
				Field: "headers." + name, Message: "holds credentials", Hint: "put it into secret_headers, which are sealed and never shown again",
			})
		}
	}
	problems = append(problems, validateHeaders("headers.", d.Headers, seen)...)
	return append(problems, validateHeaders("secret_headers.", d.SecretHeaders, seen)...)
}

func validateHeaders(prefix string, headers, seen map[string]string) (problems []Problem) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		field := prefix + name
		lower := strings.ToLower(name)
		if other, twice := seen[lower]; twice {
			problems = append(problems, Problem{
				Field: field, Message: fmt.Sprintf("is the same header as %q", other), Hint: "names of headers are compared without regard to case",
			})
		}
		seen[lower] = name
		problems = append(problems, validateHeaderName(field, name)...)
		value := headers[name]
		if prefix == "secret_headers." && IsSealedHeader(value) {
			continue // it was looked at before it was sealed
		}
		if len(value) > MaxHeaderValueBytes || !httpguts.ValidHeaderFieldValue(value) || value != strings.Trim(value, " \t") {
			problems = append(problems, Problem{
				Field: field, Message: "has a value that cannot be sent",
				Hint: fmt.Sprintf("%d bytes at most, without control characters or line breaks, and without space at the ends", MaxHeaderValueBytes),
			})
		}
	}
	return problems
}

// reservedHeaders are set by the engine or belong to the connection, not to the
// message (RFC 9110, section 7.6.1, and what was hop-by-hop in RFC 2616).
var reservedHeaders = map[string]bool{
	"host": true, "connection": true, "keep-alive": true, "proxy-connection": true, "proxy-authenticate": true,
	"proxy-authorization": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
	"expect": true, "accept-encoding": true, "traceparent": true, "tracestate": true,
}

var reservedPrefixes = []string{"content-", "webhook-", "posthaste-"}

// ReservedHeader reports whether a header is the engine's own to set on a
// delivery: what frames or signs the message, or belongs to the connection.
func ReservedHeader(name string) bool {
	lower := strings.ToLower(name)
	return reservedHeaders[lower] ||
		slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(lower, p) })
}

func validateHeaderName(field, name string) []Problem {
	switch {
	case len(name) > MaxHeaderNameBytes || !httpguts.ValidHeaderFieldName(name):
		return []Problem{{
			Field: field, Message: "is not a header name", Hint: fmt.Sprintf("1 to %d letters, digits and -, such as X-Acme-Id", MaxHeaderNameBytes),
		}}
	case ReservedHeader(name):
		return []Problem{{
			Field: field, Message: "is a header that Posthaste sets itself",
			Hint: "choose another name: not Host, traceparent, those of the connection, or what begins with Content-, webhook- or posthaste-",
		}}
	}
	return nil
}

func (d Definition) validateSignature() (problems []Problem) {
	s := d.Signature
	names := []struct{ field, name string }{
		{"id", s.Headers.ID}, {"delivery_id", s.Headers.DeliveryID}, {"timestamp", s.Headers.Timestamp},
		{"event", s.Headers.Event}, {"signature", s.Headers.Signature},
	}
	switch s.Scheme {
	case SchemeHex:
	case SchemeStandard:
		for _, n := range names {
			if n.name != "" {
				problems = append(problems, Problem{
					Field: "signature.headers." + n.field, Message: "is for scheme hex only",
					Hint: "the headers of scheme standard have fixed names; set signature.headers to null, or scheme to hex",
				})
			}
		}
		return problems
	case "standard-ed25519":
		return []Problem{{Field: "signature.scheme", Message: "standard-ed25519 is not built yet", Hint: "standard or hex", Code: CodeUnsupported}}
	default:
		return []Problem{{Field: "signature.scheme", Message: "is not a signature scheme", Hint: "standard or hex"}}
	}

	taken := map[string]string{}
	for name := range d.Headers {
		taken[strings.ToLower(name)] = "headers." + name
	}
	for name := range d.SecretHeaders {
		taken[strings.ToLower(name)] = "secret_headers." + name
	}
	for _, n := range names {
		field := "signature.headers." + n.field
		if n.name == "" {
			if n.field == "timestamp" || n.field == "signature" {
				problems = append(problems, Problem{
					Field: field, Message: "is missing", Hint: "scheme hex needs a header for the timestamp and one for the signature, such as X-Acme-Signature",
				})
			}
			continue
		}
		problems = append(problems, validateHeaderName(field, n.name)...)
		lower := strings.ToLower(n.name)
		if other, twice := taken[lower]; twice {
			problems = append(problems, Problem{Field: field, Message: "is the same header as " + other, Hint: "give each a name of its own"})
		}
		switch lower {
		case "authorization", "cookie", "user-agent", "idempotency-key":
			problems = append(problems, Problem{Field: field, Message: "has another meaning", Hint: "choose a name of your own, such as X-Acme-Signature"})
		}
		taken[lower] = field
	}
	return problems
}

func (r RetryPolicy) validate(rules DefinitionRules) (problems []Problem) {
	if n := len(r.Schedule); n > MaxScheduleSteps {
		problems = append(problems, Problem{
			Field: "retry.schedule", Message: fmt.Sprintf("has %d steps", n), Hint: fmt.Sprintf("%d at most", MaxScheduleSteps),
		})
	} else {
		for i, step := range r.Schedule {
			problems = append(problems, within(fmt.Sprintf("retry.schedule[%d]", i), step, time.Nanosecond, MaxScheduleStep, "more than 0s, 720h at most")...)
		}
	}
	if !(r.Jitter >= 0 && r.Jitter <= 1) { // written so that NaN is wrong too
		problems = append(problems, Problem{Field: "retry.jitter", Message: fmt.Sprintf("is %v", r.Jitter), Hint: "0 to 1"})
	}
	problems = append(problems, within("retry.timeout", r.Timeout, MinTimeout, MaxTimeout, "100ms to 5m")...)

	maxDeadline, hint := time.Duration(1<<63-1), "1s at least"
	if rules.Retention > 0 {
		maxDeadline = rules.Retention - 1
		hint = fmt.Sprintf("1s at least, and shorter than the retention of %s", Duration(rules.Retention))
	}
	problems = append(problems, within("retry.deadline", r.Deadline, MinDeadline, maxDeadline, hint)...)
	const maxTransient = 100
	if n := len(r.Transient); n > maxTransient {
		return append(problems, Problem{Field: "retry.transient", Message: fmt.Sprintf("has %d entries", n), Hint: "name classes, such as 5xx"})
	}
	for i, entry := range r.Transient {
		if !isTransientEntry(entry) {
			problems = append(problems, Problem{
				Field: fmt.Sprintf("retry.transient[%d]", i), Message: fmt.Sprintf("%q is not a status that can be transient", truncate(entry)),
				Hint: `a number from 300 to 599 except 410, as a string, or "3xx", "4xx", "5xx"`,
			})
		}
	}
	return problems
}

func within(field string, d Duration, least, most time.Duration, hint string) []Problem {
	if time.Duration(d) < least || time.Duration(d) > most {
		return []Problem{{Field: field, Message: "is " + d.String(), Hint: hint}}
	}
	return nil
}

// isTransientEntry knows the grammar that package retry compiles. 410 is always
// permanent, and 2xx always a success, so naming them is a mistake.
func isTransientEntry(entry string) bool {
	switch entry {
	case "3xx", "4xx", "5xx":
		return true
	}
	status, err := strconv.Atoi(entry)
	return err == nil && len(entry) == 3 && status >= 300 && status <= 599 && status != 410
}

// isText reports whether both databases can hold s as text: PostgreSQL takes no NUL.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// truncate keeps a wrong value short where a message repeats it.
func truncate(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
