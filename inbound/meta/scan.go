package meta

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// raw is one value of a JSON text that [json.Valid] accepted, without space
// around it; nil where there is none. Reading it never fails: what is missing or
// of another shape reads as zero, because one odd field must not cost an item.
//
// It is not encoding/json that reads, for two reasons. The parts of a body must
// come out byte for byte, to be stored and hashed; and a batch of 1,000 items
// would be scanned once for each level of nesting.
type raw []byte

// fields yields the members of an object in their order, the name and the value,
// null ones left out; of anything else, none.
func (v raw) fields() iter.Seq2[raw, raw] {
	return func(yield func(raw, raw) bool) {
		if !v.isObject() {
			return
		}
		for i := space(v, 1); v[i] != '}'; {
			keyEnd := skip(v, i)
			key := v[i:keyEnd]
			i = space(v, space(v, keyEnd)+1) // the colon
			end := skip(v, i)
			if value := v[i:end]; value[0] != 'n' && !yield(key, value) {
				return
			}
			if i = space(v, end); v[i] == ',' {
				i = space(v, i+1)
			}
		}
	}
}

// elements yields what a list holds. Meta's own examples show an object where a
// list of one is meant, so anything but a list and null is a list of one.
func (v raw) elements() iter.Seq[raw] {
	return func(yield func(raw) bool) {
		switch {
		case len(v) == 0 || v[0] == 'n':
			return
		case v[0] != '[':
			yield(v)
			return
		}
		for i := space(v, 1); v[i] != ']'; {
			end := skip(v, i)
			if !yield(v[i:end]) {
				return
			}
			if i = space(v, end); v[i] == ',' {
				i = space(v, i+1)
			}
		}
	}
}

// get returns the member of an object, the last if there are several, or nil.
func (v raw) get(name string) raw {
	var found raw
	for key, value := range v.fields() {
		if key.names(name) {
			found = value
		}
	}
	return found
}

// first returns the first member that is there.
func (v raw) first(names ...string) raw {
	for _, name := range names {
		if found := v.get(name); found != nil {
			return found
		}
	}
	return nil
}

func (v raw) isObject() bool { return len(v) > 0 && v[0] == '{' }

// name reads v as the name of a member: with underscores, since Meta's pages
// spell some names with hyphens.
func (v raw) name() string {
	name := v.text()
	if strings.Contains(name, "-") {
		return strings.ReplaceAll(name, "-", "_")
	}
	return name
}

// names reports whether the name of a member is name, without an allocation for
// each member that is another one.
func (v raw) names(name string) bool {
	if inner := v[1 : len(v)-1]; bytes.IndexByte(inner, '-') < 0 && bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == name
	}
	return v.name() == name
}

// text reads a string. A number or a boolean reads as it is written: an id
// beyond 2^53 that comes as a number loses no digit. U+0000, which a text column
// of PostgreSQL refuses, and halves of surrogate pairs become U+FFFD.
func (v raw) text() string {
	if len(v) == 0 {
		return ""
	}
	switch v[0] {
	case '{', '[', 'n':
		return ""
	case '"':
	default:
		return string(v)
	}
	inner := v[1 : len(v)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "" // cannot be: v is valid
	}
	return strings.ReplaceAll(s, "\x00", "\ufffd")
}

// truth reads a boolean, also written as a string or a number.
func (v raw) truth() bool {
	s := v.text()
	return s == "true" || s == "1"
}

// integer reads a whole number, also one in a string. ok is false for anything
// else.
func (v raw) integer() (n int64, ok bool) {
	s := strings.TrimSpace(v.text())
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(s, 64) // 1.7e12, 131047.0
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// number is integer for a field in which zero says nothing.
func (v raw) number() int {
	n, _ := v.integer()
	return int(n)
}

// float reads a coordinate.
func (v raw) float() float64 {
	f, err := strconv.ParseFloat(v.text(), 64)
	if err != nil {
		return 0
	}
	return f
}

const (
	// Below it a time is in seconds, from it on in milliseconds: as seconds it is
	// the year 5138, as milliseconds March 1973.
	firstMillisecond = 100_000_000_000
	// 31 December 9999, the last day that RFC 3339 can write.
	lastMillisecond = 253_402_300_799_999
)

// instant reads a time: seconds or milliseconds since 1970, as a number or a
// string, or the form in which the Graph API writes dates. Zero if it is none.
func (v raw) instant() time.Time {
	n, ok := v.integer()
	switch {
	case !ok:
		for _, layout := range []string{"2006-01-02T15:04:05-0700", time.RFC3339} {
			if at, err := time.Parse(layout, v.text()); err == nil && at.Year() >= 1970 {
				return at.UTC()
			}
		}
		return time.Time{}
	case n <= 0 || n > lastMillisecond:
		return time.Time{}
	case n < firstMillisecond:
		return time.Unix(n, 0).UTC()
	}
	return time.UnixMilli(n).UTC()
}

// space returns the index of the first byte from i on that is not white space.
func space(v []byte, i int) int {
	for v[i] == ' ' || v[i] == '\n' || v[i] == '\t' || v[i] == '\r' {
		i++
	}
	return i
}

// skip returns the index after the value that begins at i.
func skip(v []byte, i int) int {
	switch v[i] {
	case '"':
		return skipString(v, i)
	case '{', '[':
	default:
		for i < len(v) && strings.IndexByte(",]} \n\t\r", v[i]) < 0 {
			i++
		}
		return i
	}
	for depth := 0; ; {
		switch v[i] {
		case '"':
			i = skipString(v, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// skipString jumps from quote to quote; one with an odd number of backslashes
// before it is part of the string.
func skipString(v []byte, i int) int {
	start := i + 1
	for i = start; ; i++ {
		i += bytes.IndexByte(v[i:], '"')
		slashes := 0
		for i-slashes > start && v[i-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}
