package httpapi

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Walking the top of a JSON text without taking apart what is below: a batch
// has up to 1,000 payloads, each to be kept as the very bytes that came, and
// encoding/json would look through each of them again, take the last of two
// members of a name, and not mind how a name is spelled.
//
// All here presumes that json.Valid has passed the text: it looks for ends, and
// leaves the grammar to the standard library.

// eachMember calls visit with the name of each member of an object, as it is
// written between its quotes and decoded, and with its value without the space
// around it. object begins with its brace. Names may repeat.
func eachMember(object []byte, visit func(name, value []byte)) {
	i := skipSpace(object, 1)
	for object[i] != '}' {
		end := valueEnd(object, i)
		name := object[i+1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			decoded, _ := unquote(object[i:end])
			name = []byte(decoded)
		}
		i = skipSpace(object, skipSpace(object, end)+1)
		end = valueEnd(object, i)
		visit(name, object[i:end])
		i = nextElement(object, end)
	}
}

// eachElement calls visit with each element of an array, without the space
// around it, until visit returns false. array begins with its bracket.
func eachElement(array []byte, visit func(index int, value []byte) bool) {
	i := skipSpace(array, 1)
	for n := 0; array[i] != ']'; n++ {
		end := valueEnd(array, i)
		if !visit(n, array[i:end]) {
			return
		}
		i = nextElement(array, end)
	}
}

// nextElement returns where the element after one that ends at end begins, or
// where the closing bracket stands.
func nextElement(text []byte, end int) int {
	i := skipSpace(text, end)
	if text[i] == ',' {
		i = skipSpace(text, i+1)
	}
	return i
}

func skipSpace(text []byte, i int) int {
	for text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r' {
		i++
	}
	return i
}

// valueEnd returns the index behind the value that begins at i. Something
// stands behind it: the object or array that it is in goes on.
func valueEnd(text []byte, i int) int {
	switch text[i] {
	case '"':
		return stringEnd(text, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch text[i] {
			case '"':
				i = stringEnd(text, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for { // a number or a word
		switch text[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
}

// stringEnd returns the index behind the string whose opening quote is at i.
func stringEnd(text []byte, i int) int {
	for i++; ; i++ {
		i += bytes.IndexByte(text[i:], '"')
		escapes := 0
		for text[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 { // else the last one is the quote's
			return i + 1
		}
	}
}

// unquote decodes a JSON string. It reports false for one that has half of a
// surrogate pair in it: encoding/json makes the same replacement character of
// each of them, so that two different keys would become one.
func unquote(quoted []byte) (string, bool) {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return "", false
	}
	written := bytes.Count(inner, []byte(string(utf8.RuneError))) + bytes.Count(bytes.ToLower(inner), []byte(`\ufffd`))
	return s, bytes.Count([]byte(s), []byte(string(utf8.RuneError))) <= written
}
