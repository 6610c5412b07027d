package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const headerIfMatch = "If-Match"

// precondition is what If-Match says (RFC 9110, section 13.1.1). The zero value
// is no condition.
type precondition struct {
	given bool
	any   bool     // "*": whatever the version, as long as the object is there
	tags  []string // of the versions, without quotes; weak ones are left out: they match nothing
}

// precondition reads If-Match. What cannot be read is refused rather than taken
// for a condition that fails: the client would try again for ever.
func (c *call) precondition() (p precondition, err error) {
	values := c.r.Header[headerIfMatch]
	if len(values) == 0 {
		return p, nil
	}
	p.given = true
	rest := strings.Trim(strings.Join(values, ","), " \t")
	if rest == "*" {
		p.any = true
		return p, nil
	}
	bad := oneProblem(headerIfMatch, "is not a list of entity tags", `the ETag of the object as it was answered, such as "3", or *`)
	for first := true; ; first = false {
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" {
			if len(p.tags) == 0 && first {
				return p, bad
			}
			return p, nil
		}
		if rest[0] == ',' { // an empty element of a list is nothing (section 5.6.1.2)
			rest = rest[1:]
			continue
		}
		var isWeak bool
		rest, isWeak = strings.CutPrefix(rest, "W/")
		tag, after, ok := cutTag(rest)
		if !ok {
			return p, bad
		}
		// If-Match compares strongly: a weak tag never matches (section 8.8.3.2).
		if !isWeak {
			p.tags = append(p.tags, tag)
		}
		if rest = strings.TrimLeft(after, " \t"); rest != "" && rest[0] != ',' {
			return p, bad
		}
	}
}

// cutTag takes an opaque tag off the beginning: visible characters in quotes.
func cutTag(s string) (tag, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", s, false
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return s[1:i], s[i+1:], true
		case c <= ' ' || c == 0x7f:
			return "", s, false
		}
	}
	return "", s, false
}

// check returns CodePreconditionFailed unless the version is one that the client
// has named.
func (p precondition) check(version int) error {
	if !p.given || p.any {
		return nil
	}
	for _, tag := range p.tags {
		if tag == strconv.Itoa(version) {
			return nil
		}
	}
	return preconditionFailed("it is at version " + strconv.Itoa(version))
}

// version is what a deletion is tied to: 0 for any.
func (p precondition) version(current int) int {
	if !p.given || p.any {
		return 0
	}
	return current
}

func preconditionFailed(why string) error {
	return &posthaste.Error{
		Code: posthaste.CodePreconditionFailed, Message: "the object is not at the version that If-Match names: " + why,
		Hint: "read it again, look at what has changed, and send the request with the new ETag",
	}
}

// etag is the entity tag of a version.
func etag(version int) string { return `"` + strconv.Itoa(version) + `"` }

// answerDeleted answers a request to delete what, an object of a version, by what
// came of it.
func (c *call) answerDeleted(what string, err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return notFound(what)
	case errors.Is(err, store.ErrConflict):
		return preconditionFailed("it is being changed")
	case err != nil:
		return err
	}
	c.WriteHeader(http.StatusNoContent)
	return nil
}
