package posthaste

import (
	"strings"
	"time"
)

// Event is one accepted fact. It never changes.
type Event struct {
	ID              ID
	Type            string
	Source          string // [SourceAPI], a source's id or an outbox's name
	ContentType     string // as it came; "" if the request had none
	ContentEncoding string
	Headers         []Header // forwarded with each delivery
	SourceHeaders   []Header // as a source received them, credentials masked; never forwarded. Read with a single event only
	Payload         []byte   // byte for byte what was accepted
	FanOut          int      // deliveries made at acceptance, numbered 1 … FanOut
	IdempotencyKey  string   // "" if none was given
	Parent          ID       // the event that caused it; zero if none
	CorrelationID   ID       // the first event of the chain: its own id if it has no parent
	OrderKey        string
	Traceparent     string
}

// The sources that are no [Source].
const (
	SourceAPI    = "api"    // what came in through the API
	SourceEngine = "engine" // operational events
)

// CreatedAt returns when it was accepted, in whole milliseconds.
func (e Event) CreatedAt() time.Time { return e.ID.Time() }

// Limits of an event's parts, in bytes.
const (
	MaxTypeBytes           = 128
	MaxIdempotencyKeyBytes = 255
	MaxOrderKeyBytes       = 255
	MaxContentTypeBytes    = 255
)

const typeHint = "1 to 128 of a-z A-Z 0-9 . _ - / :"

// ValidateType returns what is wrong with an event type, or nil. field names it
// in the problem.
func ValidateType(field, eventType string) []Problem {
	switch {
	case eventType == "":
		return []Problem{{Field: field, Message: "is missing", Hint: "name the event's type: " + typeHint}}
	case len(eventType) > MaxTypeBytes:
		return []Problem{{Field: field, Message: "is too long", Hint: typeHint}}
	case !typeChars(eventType):
		return []Problem{{Field: field, Message: "has a character that a type cannot have", Hint: typeHint}}
	}
	return nil
}

// ValidatePattern returns what is wrong with a subscription pattern, or nil.
// A pattern is an exact type, a prefix that ends in ".*", or "*".
func ValidatePattern(field, pattern string) []Problem {
	if pattern == "*" {
		return nil
	}
	stem, isPrefix := strings.CutSuffix(pattern, ".*")
	if problems := ValidateType(field, stem); problems != nil || len(pattern) > MaxTypeBytes {
		hint := `an exact type, a prefix such as "invoice.*", or "*"; ` + typeHint
		if !isPrefix && strings.Contains(pattern, "*") {
			hint = `"*" stands alone or at the end after a dot, as in "invoice.*"`
		}
		return []Problem{{Field: field, Message: "is not a pattern of event types", Hint: hint}}
	}
	return nil
}

// MatchType reports whether a valid pattern covers an event type: "*" covers
// all, "invoice.*" all that begin with "invoice." and go on, anything else itself.
func MatchType(pattern, eventType string) bool {
	if pattern == "*" || pattern == eventType {
		return true
	}
	stem, isPrefix := strings.CutSuffix(pattern, "*")
	return isPrefix && len(eventType) > len(stem) && strings.HasPrefix(eventType, stem)
}

func typeChars(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("._-/:", c) >= 0:
		default:
			return false
		}
	}
	return true
}
