package meta

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Envelope is the payload of a child event: a JSON object with the members
//
//	type      one of the constants
//	platform  "instagram", "facebook", "whatsapp" or "other"
//	object    the request's object, as it came
//	asset     the account; for WhatsApp the phone number's id
//	kind      what Meta calls it: "message", "read", "pass_thread_control", "comments", "feed.reaction" …
//	field     of a change; left out elsewhere
//	at        milliseconds since 1970; left out if unknown
//	standby   true if another app holds the conversation; left out if false
//	own       true if the account itself did it; left out if false
//	warnings  what was odd; left out if nothing was
//	metadata  WhatsApp only: the phone number, as it came
//	contact   WhatsApp only: the other side, as it came
//	item      the item, byte for byte as it came
//
// The item is an element of messaging[] or standby[]; a change with its field
// and value; or an element of WhatsApp's messages[], statuses[] or errors[].
type Envelope struct {
	Type     string
	Platform Platform
	Object   string
	Asset    string
	Kind     string
	Field    string
	At       time.Time // UTC; zero if unknown
	Standby  bool
	Own      bool
	Warnings []string
	Metadata json.RawMessage
	Contact  json.RawMessage
	Item     json.RawMessage
}

// payload writes the envelope of a draft. The item comes last: whoever looks at
// the beginning of a stored event sees what it is.
func (d *draft) payload() []byte {
	const frameBytes = 192 // what the other members come to, mostly
	b := make([]byte, 0, frameBytes+len(d.item)+len(d.contact)+len(d.metadata))
	b = appendText(b, `{"type":`, d.itemType)
	b = appendText(b, `,"platform":`, string(d.platform))
	b = appendText(b, `,"object":`, d.object)
	b = appendText(b, `,"asset":`, d.asset)
	b = appendText(b, `,"kind":`, d.kind)
	if d.field != "" {
		b = appendText(b, `,"field":`, d.field)
	}
	if !d.at.IsZero() {
		b = strconv.AppendInt(append(b, `,"at":`...), d.at.UnixMilli(), 10)
	}
	if d.standby {
		b = append(b, `,"standby":true`...)
	}
	if d.own {
		b = append(b, `,"own":true`...)
	}
	for i, warning := range d.warnings {
		b = appendText(b, map[bool]string{true: `,"warnings":[`, false: `,`}[i == 0], warning)
	}
	if len(d.warnings) > 0 {
		b = append(b, ']')
	}
	if d.metadata != nil {
		b = append(append(b, `,"metadata":`...), d.metadata...)
	}
	if d.contact != nil {
		b = append(append(b, `,"contact":`...), d.contact...)
	}
	b = append(append(b, `,"item":`...), d.item...)
	return append(b, '}')
}

// appendText appends before and a JSON string.
func appendText(b []byte, before, s string) []byte {
	b = append(b, before...)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				quoted = []byte(`""`) // cannot be: any string can be written
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// DecodeEnvelope reads the payload of any child event. The error says that the
// payload is not one.
func DecodeEnvelope(payload []byte) (Envelope, error) {
	if !json.Valid(payload) {
		return Envelope{}, fmt.Errorf("read the payload of an item: %w", ErrNotJSON)
	}
	var e Envelope
	var at raw
	start := space(payload, 0)
	for key, value := range raw(payload[start:skip(payload, start)]).fields() {
		switch key.name() {
		case "type":
			e.Type = value.text()
		case "platform":
			e.Platform = Platform(value.text())
		case "object":
			e.Object = value.text()
		case "asset":
			e.Asset = value.text()
		case "kind":
			e.Kind = value.text()
		case "field":
			e.Field = value.text()
		case "at":
			at = value
		case "standby":
			e.Standby = value.truth()
		case "own":
			e.Own = value.truth()
		case "warnings":
			for warning := range value.elements() {
				e.Warnings = append(e.Warnings, warning.text())
			}
		case "metadata":
			e.Metadata = json.RawMessage(value)
		case "contact":
			e.Contact = json.RawMessage(value)
		case "item":
			e.Item = json.RawMessage(value)
		}
	}
	// Not instant: this one is ours, and always in milliseconds.
	if ms, ok := at.integer(); ok {
		e.At = time.UnixMilli(ms).UTC()
	}
	if e.Type == "" {
		return Envelope{}, fmt.Errorf("read the payload of an item: it has no type")
	}
	return e, nil
}

// decode reads an envelope of one of the given types.
func decode(payload []byte, types ...string) (Envelope, error) {
	e, err := DecodeEnvelope(payload)
	if err != nil {
		return Envelope{}, err
	}
	if !slices.Contains(types, e.Type) {
		return Envelope{}, fmt.Errorf("read the payload of an item: it is a %.64q, want one of %q", e.Type, types)
	}
	return e, nil
}
