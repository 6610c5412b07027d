package meta

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// flattener walks a body: requests, entries, and the lists of an entry.
type flattener struct{ webhook Webhook }

// origin is what the items of one entry share.
type origin struct {
	object   string
	platform Platform
	asset    string
	at       time.Time // of the entry
}

// draft is an item on its way. It begins as one of an unknown type, so that
// whatever is not recognised remains an item.
type draft struct {
	origin
	itemType string
	kind     string // what Meta calls it; see Envelope
	field    string // of a change
	at       time.Time
	standby  bool
	own      bool
	item     raw
	metadata raw // WhatsApp: the phone number
	contact  raw // WhatsApp: the other side
	key      string
	warnings []string
}

func (o origin) draft(item raw) draft {
	return draft{origin: o, itemType: TypeUnknown, at: o.at, item: item}
}

// maxWarnings bounds what a body can make a log and a payload grow to.
const maxWarnings = 8

func (d *draft) warn(format string, args ...any) {
	if len(d.warnings) < maxWarnings {
		d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
	}
}

func (f *flattener) warn(format string, args ...any) {
	if len(f.webhook.Warnings) < maxWarnings {
		f.webhook.Warnings = append(f.webhook.Warnings, fmt.Sprintf(format, args...))
	}
}

// emit ends the draft.
func (f *flattener) emit(d *draft) {
	if len(f.webhook.Items) == MaxItems {
		f.webhook.Left++
		return
	}
	if d.key == "" {
		d.key = hashKey(d.platform, d.asset, d.item)
		if d.itemType != TypeUnknown {
			d.warn("an id or time is missing: the key is a hash of the item's bytes")
		}
	}
	switch d.asset {
	case "":
		d.warn("the entry has no id, so the item belongs to no account")
	case "0":
		d.warn("asset 0: sent by the dashboard's test button")
	}
	f.webhook.Items = append(f.webhook.Items, Item{
		Type: d.itemType, Key: d.key, At: d.at, Asset: d.asset, Platform: d.platform,
		Payload: d.payload(), Warnings: d.warnings,
	})
}

// unknown emits what nothing else wants.
func (f *flattener) unknown(o origin, item raw, why string) {
	d := o.draft(item)
	d.warn("%s", why)
	f.emit(&d)
}

// request takes {"object":…,"entry":[…]}. A page of examples prints it inside a
// list, which Parse has opened.
func (f *flattener) request(top raw) {
	o := origin{object: short(top.get("object").text())}
	o.platform = platformOf(o.object)
	if f.webhook.Object == "" {
		f.webhook.Object = o.object
	}
	entries := top.get("entry")
	if entries == nil {
		f.unknown(o, top, "not a request of Meta's: no entry")
		return
	}
	for e := range entries.elements() {
		f.entry(o, e)
	}
}

// maxNameBytes is beyond any id or name of Meta's.
const maxNameBytes = 128

// short replaces a name of absurd length by its hash. Each item repeats the names
// of its entry, so a long one would make a body grow with the square of its size.
func short(name string) string {
	if len(name) <= maxNameBytes {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "~" + hex.EncodeToString(sum[:])
}

func platformOf(object string) Platform {
	switch object {
	case "instagram":
		return Instagram
	case "page":
		return Facebook
	case "whatsapp_business_account":
		return WhatsApp
	}
	return OtherPlatform
}

// entry takes the three lists of an entry, and the field and value that stand in
// the entry itself when Instagram sends a comment under Business Login.
func (f *flattener) entry(o origin, e raw) {
	if !e.isObject() {
		f.unknown(o, e, "the entry is not an object")
		return
	}
	o.asset = short(e.first("id", "uid").text())
	o.at = e.get("time").instant()
	isKnown, hasField := false, false
	for key, value := range e.fields() {
		switch name := key.name(); name {
		case "messaging", "standby":
			for item := range value.elements() {
				d := o.draft(item)
				d.standby = name == "standby"
				f.messaging(&d)
			}
		case "changes":
			for item := range value.elements() {
				f.change(o, item)
			}
		case "field", "value":
			hasField = true
			continue
		case "id", "uid", "time", "changed_fields", "hop_context":
			continue
		default:
			f.warn("an entry has a member of unknown name: %.64q", name)
			continue
		}
		isKnown = true
	}
	switch {
	case hasField:
		f.change(o, e)
	case !isKnown:
		f.unknown(o, e, "the entry has neither messaging, standby, changes nor a field")
	}
}
