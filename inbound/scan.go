package inbound

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// raw is one value of a JSON text, without space around it; nil where there is none.
//
// It is read without encoding/json, since some providers put their proof into the
// body: that is read before anybody vouches for it, and encoding/json would make many
// times its size of memory out of it. A raw may be no JSON at all: what is read of it
// then is meaningless, within its bounds, and in a time linear in its length.
type raw []byte

// fields yields the members of an object in their order: the name in quotes, the value.
func (v raw) fields() iter.Seq2[raw, raw] {
	return func(yield func(raw, raw) bool) {
		if len(v) == 0 || v[0] != '{' {
			return
		}
		for i := space(v, 1); i < len(v) && v[i] == '"'; {
			nameEnd := skip(v, i)
			name := v[i:nameEnd]
			i = space(v, nameEnd)
			if i >= len(v) || v[i] != ':' {
				return
			}
			i = space(v, i+1)
			end := skip(v, i)
			if end == i || !yield(name, v[i:end]) {
				return
			}
			if i = space(v, end); i >= len(v) || v[i] != ',' {
				return
			}
			i = space(v, i+1)
		}
	}
}

// elements yields what a list holds; of anything else, nothing.
func (v raw) elements() iter.Seq[raw] {
	return func(yield func(raw) bool) {
		if len(v) == 0 || v[0] != '[' {
			return
		}
		for i := space(v, 1); i < len(v) && v[i] != ']'; {
			end := skip(v, i)
			if end == i || !yield(v[i:end]) {
				return
			}
			if i = space(v, end); i >= len(v) || v[i] != ',' {
				return
			}
			i = space(v, i+1)
		}
	}
}

// pick returns members of an object in one pass, by the order of the names: of several
// of one name the last, and nil for those that are not there.
func (v raw) pick(names ...string) []raw {
	found, escaped := make([]raw, len(names)), make([]string, len(names))
	for i, name := range names {
		escaped[i] = asciiEscaped(name)
	}
	for key, value := range v.fields() {
		if len(key) < 2 {
			continue
		}
		inner := key[1 : len(key)-1]
		hasEscapes := bytes.IndexByte(inner, '\\') >= 0
		for i, name := range names {
			if !hasEscapes && string(inner) == name || hasEscapes && strings.EqualFold(string(inner), escaped[i]) {
				found[i] = value
			}
		}
	}
	return found
}

// asciiEscaped writes a name as programs do that send nothing but ASCII.
func asciiEscaped(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch high, low := utf16.EncodeRune(r); {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case high != utf8.RuneError:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// get follows a path: the name of a member of an object, or the index of an element of
// a list, from 0.
func (v raw) get(path ...string) raw {
	for _, step := range path {
		switch {
		case len(v) == 0:
			return nil
		case v[0] == '{':
			v = v.pick(step)[0]
		case v[0] == '[':
			v = v.element(step)
		default:
			return nil
		}
	}
	return v
}

// element returns an element by its index in decimal digits, or nil.
func (v raw) element(index string) raw {
	n, err := strconv.ParseUint(index, 10, 31)
	if err != nil {
		return nil
	}
	for one := range v.elements() {
		if n == 0 {
			return one
		}
		n--
	}
	return nil
}

// text reads a string, and a number or boolean as it is written; "" for anything else.
func (v raw) text() string {
	switch {
	case len(v) == 0 || v[0] == '{' || v[0] == '[' || string(v) == "null":
		return ""
	case v[0] != '"':
		return string(v)
	}
	if inner := v[1:max(1, len(v)-1)]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var text string
	if json.Unmarshal(v, &text) != nil {
		return ""
	}
	return text
}

// space returns the index of the first byte from i on that is not white space.
func space(v []byte, i int) int {
	for i < len(v) && (v[i] == ' ' || v[i] == '\n' || v[i] == '\t' || v[i] == '\r') {
		i++
	}
	return i
}

// skip returns the index after the value that begins at i.
func skip(v []byte, i int) int {
	if i >= len(v) {
		return i
	}
	switch v[i] {
	case '"':
		return skipString(v, i)
	case '{', '[':
	default:
		for i < len(v) && strings.IndexByte(",:]} \n\t\r\"", v[i]) < 0 {
			i++
		}
		return i
	}
	for depth := 0; i < len(v); {
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
	return i
}

// skipString returns the index after the quote that ends the string at i.
func skipString(v []byte, i int) int {
	for i++; i < len(v); i++ {
		switch v[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(v)
}
