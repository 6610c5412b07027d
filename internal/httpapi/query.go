package httpapi

import (
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/auth"
)

// The page sizes of lists.
const (
	defaultLimit = 50
	maxLimit     = 250
)

// query reads the parameters of a request and collects what is wrong with them.
type query struct {
	values   url.Values
	problems []posthaste.Problem
}

// newQuery takes the names that the route knows. Any other parameter is a
// problem: ?statuz=dead must not list everything, nor ?status= of a script whose
// variable is not set; and so is any other header of ours: Posthaste-Tenat must not
// act for the default tenant.
func newQuery(c *call, known ...string) *query {
	q := &query{}
	for name := range c.r.Header {
		if strings.HasPrefix(name, prefixOurs) && name != auth.HeaderTenant && name != headerRequestID {
			q.report(name, "is not a header of this request", "the only one is "+auth.HeaderTenant)
		}
	}
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		q.report("", "has a query that cannot be read", "escape what is not a letter or a digit as %XX")
		return q
	}
	q.values = values
	for name, given := range values {
		switch {
		case !slices.Contains(known, name):
			hint := "this path takes none"
			if len(known) > 0 {
				hint = "this path takes " + strings.Join(known, ", ")
			}
			q.report(join("", name), "is not a parameter", hint)
		case len(given) > 1:
			q.report(name, "is given more than once", "give it once")
		case given[0] == "" && name != "cursor" && name != paramLastEventID: // those two begin empty
			q.report(name, "is empty", "give a value, or leave it out to choose all")
		}
	}
	slices.SortFunc(q.problems, func(a, b posthaste.Problem) int { return strings.Compare(a.Field, b.Field) })
	return q
}

func (q *query) report(name, message, hint string) {
	q.problems = append(q.problems, posthaste.Problem{Field: name, Message: message, Hint: hint})
}

func (q *query) err() error { return posthaste.Invalid(q.problems) }

// text returns a parameter as it is, "" if it is not there.
func (q *query) text(name string, maxBytes int) string {
	s := q.values.Get(name)
	if len(s) > maxBytes || !isText(s) {
		q.report(name, "is too long or not text", strconv.Itoa(maxBytes)+" bytes at most, in UTF-8")
		return ""
	}
	return s
}

func (q *query) eventType(name string) string {
	s := q.values.Get(name)
	if s != "" {
		q.problems = append(q.problems, posthaste.ValidateType(name, s)...)
	}
	return s
}

func (q *query) id(name string, kind posthaste.Kind) posthaste.ID {
	s := q.values.Get(name)
	if s == "" {
		return posthaste.ID{}
	}
	id, err := posthaste.ParseID(kind, s)
	switch {
	case err != nil:
		q.report(name, "is not an id", err.Error())
	case id.IsZero(): // would not filter at all
		q.report(name, "names nothing", "take it from an answer of the API")
	}
	return id
}

func (q *query) oneOf(name string, words ...string) string {
	s := q.values.Get(name)
	if s != "" && !slices.Contains(words, s) {
		q.report(name, "is not one of the words", strings.Join(words, ", "))
	}
	return s
}

func (q *query) time(name string) time.Time {
	s := q.values.Get(name)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		q.report(name, "is not a time", "RFC 3339, such as 2026-11-29T12:00:00Z; write the + of a zone as %2B")
		return time.Time{}
	}
	// Beyond these years an id has no room for it, and no event can be there.
	if t.Year() < 1970 || t.Year() > 9999 {
		q.report(name, "is out of range", "a year from 1970 to 9999")
		return time.Time{}
	}
	return t.UTC()
}

func (q *query) limit() int {
	s := q.values.Get("limit")
	if s == "" {
		return defaultLimit
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxLimit {
		q.report("limit", "is out of range", "1 to "+strconv.Itoa(maxLimit))
		return defaultLimit
	}
	return n
}

// list names what a cursor goes through; a cursor of one list is refused by another.
type list byte

const (
	eventList     list = 'e'
	deliveryList  list = 'd'
	endpointList  list = 'p'
	tenantList    list = 't'
	sourceList    list = 's'
	rejectionList list = 'r'
)

// cursor returns where the page begins, the zero id for the newest.
func (q *query) cursor(l list) posthaste.ID {
	s := q.values.Get("cursor")
	if s == "" {
		return posthaste.ID{}
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) != 1+len(posthaste.ID{}) || raw[0] != byte(l) {
		q.report("cursor", "is not a cursor of this list", `take it from "next" of the page before`)
		return posthaste.ID{}
	}
	return posthaste.ID(raw[1:])
}

// numberCursor reads the cursor of a list whose rows have a number in the place of
// an id that sorts by time; 0 is the beginning.
func (q *query) numberCursor(l list) int32 {
	cursor := q.cursor(l)
	n := int32(binary.BigEndian.Uint32(cursor[12:])) //nolint:gosec // checked below
	if n < 0 {
		q.report("cursor", "is not a cursor of this list", `take it from "next" of the page before`)
	}
	return n
}

// numberAsID is a number, above zero, in the place of an id, for a cursor.
func numberAsID(no int32) (id posthaste.ID) {
	binary.BigEndian.PutUint32(id[12:], uint32(no)) //nolint:gosec // numbers are above zero
	return id
}

// printCursor is what cursor reads; nil at the end of the list.
func printCursor(l list, next posthaste.ID) *string {
	if next.IsZero() {
		return nil
	}
	s := base64.RawURLEncoding.EncodeToString(append([]byte{byte(l)}, next[:]...))
	return &s
}
