package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	headerIfMatch     = "If-Match"
	headerIfNoneMatch = "If-None-Match"
)

// precondition is what If-Match and If-None-Match say (RFC 9110, sections 13.1.1
// and 13.1.2). The zero value is no condition.
type precondition struct{ match, none tags }

// tags are the entity tags of one of the headers.
type tags struct {
	given bool
	any   bool     // "*": whatever the version, as long as the object is there
	list  []string // of the versions, without quotes
}

func (t tags) has(version int) bool {
	return t.any || slices.Contains(t.list, strconv.Itoa(version))
}

// precondition reads the headers. What cannot be read is refused rather than taken
// for a condition that fails: the client would try again for ever. If-None-Match of a
// GET is left alone: it saves a transfer, and changes nothing.
func (c *call) precondition() (p precondition, err error) {
	// If-Match compares strongly: a weak tag never matches (section 8.8.3.2).
	if p.match, err = readTags(headerIfMatch, c.r.Header[headerIfMatch], strong); err != nil {
		return p, err
	}
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		p.none, err = readTags(headerIfNoneMatch, c.r.Header[headerIfNoneMatch], weak)
	}
	return p, err
}

// comparison says whether weak tags count.
type comparison int8

const (
	strong comparison = iota
	weak
)

func readTags(name string, values []string, how comparison) (p tags, err error) {
	if len(values) == 0 {
		return p, nil
	}
	p.given = true
	rest := strings.Trim(strings.Join(values, ","), " \t")
	if rest == "*" {
		p.any = true
		return p, nil
	}
	bad := oneProblem(name, "is not a list of entity tags", `the ETag of the object as it was answered, such as "3", or *`)
	for first := true; ; first = false {
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" {
			if len(p.list) == 0 && first {
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
		if !isWeak || how == weak {
			p.list = append(p.list, tag)
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
// wants.
func (p precondition) check(version int) error {
	is := "it is at version " + strconv.Itoa(version)
	switch {
	case p.match.given && !p.match.has(version):
		return preconditionFailed("the object is not at the version that If-Match names: " + is)
	case p.none.has(version):
		return preconditionFailed("the object is there, and If-None-Match says that it must not be: " + is)
	}
	return nil
}

// checkNone is check for an object that is not there.
func (p precondition) checkNone() error {
	if p.match.given {
		return preconditionFailed("the object is not at the version that If-Match names: there is none")
	}
	return nil
}

// version is what a deletion is tied to: 0 for any.
func (p precondition) version(current int) int {
	if p.none.given || p.match.given && !p.match.any {
		return current
	}
	return 0
}

func preconditionFailed(message string) error {
	return &posthaste.Error{
		Code: posthaste.CodePreconditionFailed, Message: message,
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
		return preconditionFailed("the object is being changed")
	case err != nil:
		return err
	}
	c.WriteHeader(http.StatusNoContent)
	return nil
}
