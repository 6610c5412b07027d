package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/posthaste-dev/posthaste"
)

// laterField is a field that the contract names and that is not built yet. Its
// values that mean "off" are taken, any other is answered with code unsupported:
// a caller never believes in a filter that nobody applies.
type laterField struct {
	off  []string // JSON values that ask for nothing; null always does
	hint string
}

// maxDecodeProblems bounds the answer to a body that is wrong from end to end.
const maxDecodeProblems = 100

// decode lays a JSON object over the struct that target points to. defaults
// points to a struct of the same type: null sets a field back to its value there,
// which is what null means in a JSON Merge Patch (RFC 7396) of something whose
// fields all have defaults. Objects are merged, arrays are replaced.
//
// encoding/json alone will not do: it stops at the first mistake, drops fields
// that it does not know, takes the last of two that are the same, and matches
// names without regard to case.
//
// The error is a *posthaste.Error: CodeUnreadable for what is not JSON, else
// CodeInvalid or CodeUnsupported with every problem and its path, such as
// retry.schedule[2].
func decode(body []byte, target, defaults any, later map[string]laterField) error {
	if err := checkJSON("the body", body); err != nil {
		return err
	}
	d := decoder{later: later}
	d.value(bytes.TrimSpace(body), reflect.ValueOf(target).Elem(), reflect.ValueOf(defaults).Elem(), "")
	return posthaste.Invalid(d.problems)
}

// checkJSON returns nil for a JSON text in UTF-8, whatever is in it. what names it.
func checkJSON(what string, text []byte) error {
	unreadable := func(message, hint string) error {
		return &posthaste.Error{Code: posthaste.CodeUnreadable, Message: what + " " + message, Hint: hint}
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return unreadable("is empty", "send a JSON object")
	}
	if !utf8.Valid(text) {
		return unreadable("is not UTF-8", "send JSON in UTF-8")
	}
	if !json.Valid(text) {
		var ignored json.RawMessage
		err := json.Unmarshal(text, &ignored)
		where := ""
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			where = fmt.Sprintf(" (byte %d: %s)", s.Offset, s.Error())
		}
		return unreadable("is not JSON"+where, "send a JSON object; check commas, quotes and brackets")
	}
	return nil
}

type decoder struct {
	later    map[string]laterField
	problems []posthaste.Problem
}

func (d *decoder) report(path, message, hint string) {
	d.add(posthaste.Problem{Field: path, Message: message, Hint: hint})
}

func (d *decoder) add(p posthaste.Problem) {
	if len(d.problems) < maxDecodeProblems {
		d.problems = append(d.problems, p)
	}
}

var (
	durationType   = reflect.TypeFor[posthaste.Duration]()
	orderingType   = reflect.TypeFor[posthaste.Ordering]()
	rawMessageType = reflect.TypeFor[json.RawMessage]()
)

// value reads one JSON value, known to be valid and without space around it,
// into a settable place. fallback is what null stands for; invalid where null
// stands for nothing, as in an array.
func (d *decoder) value(raw json.RawMessage, into, fallback reflect.Value, path string) {
	if raw[0] == 'n' {
		if !fallback.IsValid() {
			d.report(path, "is null", "leave it out")
			return
		}
		into.Set(fallback)
		return
	}
	switch into.Type() {
	case rawMessageType:
		into.SetBytes(bytes.Clone(raw))
		return
	case durationType:
		if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
			d.report(path, "is not a duration", `a string such as "30s", "5m" or "72h"`)
		}
		return
	case orderingType:
		if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
			d.report(path, "is no order", `false, or "endpoint"`)
		}
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		d.pointer(raw, into, fallback, path)
	case reflect.Struct:
		d.object(raw, into, fallback, path)
	case reflect.Map:
		d.strings(raw, into, path)
	case reflect.Slice:
		d.array(raw, into, path)
	default:
		d.scalar(raw, into, path)
	}
}

// pointer merges an object into a copy of the one that is there: the original may
// belong to a definition that others read. Where there is none, because it is off,
// the object is laid over the default.
func (d *decoder) pointer(raw json.RawMessage, into, fallback reflect.Value, path string) {
	fresh := reflect.New(into.Type().Elem())
	reset := reflect.Zero(into.Type().Elem())
	if fallback.IsValid() && !fallback.IsNil() {
		reset = fallback.Elem()
	}
	if into.IsNil() {
		fresh.Elem().Set(reset)
	} else {
		fresh.Elem().Set(into.Elem())
	}
	known := len(d.problems)
	d.value(raw, fresh.Elem(), reset, path)
	if len(d.problems) > known && d.problems[known].Field == path {
		return // nothing of it could be read
	}
	into.Set(fresh)
}

func (d *decoder) scalar(raw json.RawMessage, into reflect.Value, path string) {
	switch want, is := into.Kind(), raw[0]; {
	case want == reflect.String && is == '"':
		_ = json.Unmarshal(raw, into.Addr().Interface()) // a valid JSON string always fits
	case want == reflect.Bool && (is == 't' || is == 'f'):
		into.SetBool(is == 't')
	case want == reflect.Int && isNumber(is):
		n, err := strconv.ParseInt(string(raw), 10, 32)
		if err != nil {
			d.report(path, "is not a whole number in range", "write it without fraction and exponent")
			return
		}
		into.SetInt(n)
	case want == reflect.Float64 && isNumber(is):
		n, err := strconv.ParseFloat(string(raw), 64)
		if err != nil {
			d.report(path, "is a number out of range", "a number that fits in 64 bits")
			return
		}
		into.SetFloat(n)
	default:
		d.wrongType(raw, path, map[reflect.Kind]string{
			reflect.String: "a string", reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Float64: "a number",
		}[want])
	}
}

func isNumber(c byte) bool { return c == '-' || '0' <= c && c <= '9' }

func (d *decoder) wrongType(raw json.RawMessage, path, want string) {
	is := "is a number"
	switch raw[0] {
	case '{':
		is = "is an object"
	case '[':
		is = "is an array"
	case '"':
		is = "is a string"
	case 't', 'f':
		is = "is a boolean"
	case 'n':
		is = "is null"
	}
	if path == "" {
		is = "the body " + is
	}
	d.report(path, is, "want "+want)
}

func (d *decoder) object(raw json.RawMessage, into, fallback reflect.Value, path string) {
	if raw[0] != '{' {
		d.wrongType(raw, path, "an object")
		return
	}
	fields := jsonFields(into.Type())
	for m := range d.members(raw, path) {
		if later, ok := d.later[m.path]; ok {
			if m.value[0] != 'n' && !slices.Contains(later.off, string(m.value)) {
				d.add(posthaste.Problem{Field: m.path, Message: "is not built yet", Hint: later.hint, Code: posthaste.CodeUnsupported})
			}
			continue
		}
		index, ok := fields[m.name]
		if !ok {
			hint := "leave it out: there is nothing to say here"
			if len(fields) > 0 {
				hint = "the fields are " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
			}
			d.report(m.path, "is not a field", hint)
			continue
		}
		var reset reflect.Value
		if fallback.IsValid() {
			reset = fallback.FieldByIndex(index)
		}
		if into.Type().FieldByIndex(index).Tag.Get("null") == "off" && m.value[0] == 'n' {
			into.FieldByIndex(index).SetZero() // here null is a value: it turns the thing off
			continue
		}
		d.value(m.value, into.FieldByIndex(index), reset, m.path)
	}
}

// strings merges an object into a map of strings; null takes a name out. It
// works on a copy, since the map may belong to a definition that others read.
func (d *decoder) strings(raw json.RawMessage, into reflect.Value, path string) {
	if raw[0] != '{' {
		d.wrongType(raw, path, "an object of strings")
		return
	}
	merged := maps.Clone(into.Interface().(map[string]string))
	if merged == nil {
		merged = map[string]string{}
	}
	for m := range d.members(raw, path) {
		switch m.value[0] {
		case 'n':
			delete(merged, m.name)
		case '"':
			var s string
			_ = json.Unmarshal(m.value, &s) // a valid JSON string always fits
			merged[m.name] = s
		default:
			d.wrongType(m.value, m.path, "a string")
		}
	}
	into.Set(reflect.ValueOf(merged))
}

func (d *decoder) array(raw json.RawMessage, into reflect.Value, path string) {
	if raw[0] != '[' {
		d.wrongType(raw, path, "an array")
		return
	}
	var elements []json.RawMessage
	_ = json.Unmarshal(raw, &elements) // a valid JSON array always fits
	list := reflect.MakeSlice(into.Type(), len(elements), len(elements))
	for i, e := range elements {
		d.value(e, list.Index(i), reflect.Value{}, path+"["+strconv.Itoa(i)+"]")
	}
	into.Set(list)
}

type member struct {
	name, path string
	value      json.RawMessage
}

// members yields the members of an object in their order, each name once; a
// second one of the same name is a problem, since readers differ on which counts.
func (d *decoder) members(raw json.RawMessage, path string) func(yield func(member) bool) {
	return func(yield func(member) bool) {
		seen := map[string]bool{}
		tokens := json.NewDecoder(bytes.NewReader(raw))
		_, _ = tokens.Token() // the opening brace; raw is valid, so nothing here fails
		for tokens.More() {
			token, _ := tokens.Token()
			m := member{name: token.(string)}
			_ = tokens.Decode(&m.value)
			m.path = join(path, m.name)
			if seen[m.name] {
				d.report(m.path, "is given twice", "give it once")
				continue
			}
			seen[m.name] = true
			if !yield(m) {
				return
			}
		}
	}
}

func join(path, name string) string {
	const most = 100 // of a name that the answer repeats
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// jsonFields maps the JSON names of a struct to its fields, those of embedded
// structs included.
func jsonFields(t reflect.Type) map[string][]int {
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" && f.IsExported() {
			fields[name] = f.Index
		}
	}
	return fields
}
