package meta

import (
	"crypto/sha256"
	"encoding/hex"
)

// change takes an element of changes[], or an entry that is one itself:
// {"field":…,"value":…}.
func (f *flattener) change(o origin, change raw) {
	d := o.draft(change)
	value := change.get("value")
	d.field = short(change.get("field").name())
	d.kind = d.field
	switch {
	case !value.isObject():
		d.warn("the change has no value that is an object")
	case value.get("messaging_product").text() == "whatsapp" || o.platform == WhatsApp:
		f.whatsApp(o, d, value)
		return
	case isMessaging(value):
		// What the dashboard's test button sends for the fields of messaging.
		d.item, d.kind, d.standby = value, "", d.field == "standby"
		f.messaging(&d)
		return
	default:
		d.typeChange(value)
	}
	f.emit(&d)
}

// isMessaging reports whether the value of a change is an item that belongs into
// messaging[]. A feed's "message" is a text, so the shape tells them apart.
func isMessaging(value raw) bool {
	hasParty, hasKind := false, false
	for key, member := range value.fields() {
		name := key.name()
		switch {
		case name == "sender" || name == "recipient":
			hasParty = true
		case isMessagingKind(name) && member.isObject():
			hasKind = true
		}
	}
	return hasParty && hasKind
}

// typeChange gives a change its type and key.
func (d *draft) typeChange(value raw) {
	from := value.get("from").get("id").text()
	d.own = from != "" && from == d.asset
	created := value.first("created_time", "timestamp", "time").instant()
	when := ""
	if !created.IsZero() {
		d.at, when = created, millis(created)
	}
	verb := value.get("verb").text()
	switch item := value.get("item").text(); {
	case d.field == "comments" || d.field == "live_comments" || d.field == "feed" && item == "comment":
		d.itemType = TypeComment
		if verb == "edited" {
			// In case the time is the comment's and not the edit's.
			when = editKey(when, value.first("text", "message"))
		}
		d.commentKey(value.first("comment_id", "id").text(), verb, when)
	case d.field == "mentions" || d.field == "mention":
		d.itemType = TypeMention
		id := value.get("comment_id").text()
		if id == "" { // the account was mentioned in a caption
			id = value.first("media_id", "post_id").text()
		}
		d.commentKey(id, verb, when)
	case d.field == "feed":
		d.kind = short("feed." + item)
		d.warn("there is no type for %.64q in a feed", item)
		// Two people can react to a post within one second: their ids belong to it.
		id := value.first("comment_id", "post_id").text()
		d.key = d.origin.key(d.field, item, verb, id, "from="+from, when)
	default:
		d.warn("there is no type for changes of %.64q", d.field)
	}
}

// editKey tells an edit by its time and text; "" without a time, when all of the
// item's bytes tell.
func editKey(when string, text raw) string {
	if when == "" {
		return ""
	}
	sum := sha256.Sum256(text)
	return when + "-" + hex.EncodeToString(sum[:8])
}

// commentKey is field, verb, id and time. A comment is written and removed once;
// what may happen to it again and again (edited, hide, unhide) repeats the id,
// and without a time only the bytes can tell.
func (d *draft) commentKey(id, verb, when string) {
	if when == "" && (verb == "" || verb == "add" || verb == "remove") {
		when = "once"
	}
	d.key = d.origin.key(d.field, "verb="+verb, id, when)
}

// whatsApp takes the value of a change of a WhatsApp account. One field,
// "messages", carries messages, statuses and errors; other fields are about the
// account itself and stay whole.
func (f *flattener) whatsApp(o origin, whole draft, value raw) {
	o.platform = WhatsApp
	d := o.draft(nil)
	d.field = whole.field
	d.metadata = d.aside(value.get("metadata"))
	if id := d.metadata.get("phone_number_id").text(); id != "" {
		d.asset = short(id)
	}
	contacts := contactsOf(value)
	found := false
	for key, list := range value.fields() {
		name := key.name()
		if name != "messages" && name != "statuses" && name != "errors" {
			continue
		}
		for item := range list.elements() {
			found = true
			one := d
			one.item, one.kind = item, name
			one.typeWhatsApp(contacts)
			f.emit(&one)
		}
	}
	if !found {
		whole.platform, whole.asset = WhatsApp, d.asset
		whole.warn("there is no type for changes of %.64q", whole.field)
		f.emit(&whole)
	}
}

func (d *draft) typeWhatsApp(contacts map[string]raw) {
	id := d.item.get("id").text()
	if at := d.item.get("timestamp").instant(); !at.IsZero() {
		d.at = at
	}
	switch {
	case !d.item.isObject():
		d.warn("the item of %s is not an object", d.kind)
	case d.kind == "messages":
		d.itemType = TypeWhatsAppMessage
		d.key = d.origin.key("message", id)
		d.contact = d.aside(contacts[d.item.get("from").text()])
	case d.kind == "statuses":
		d.itemType = TypeWhatsAppStatus
		d.key = d.origin.key("status", id, d.item.get("status").text())
		d.contact = d.aside(contacts[d.item.get("recipient_id").text()])
	default:
		d.warn("WhatsApp reports error %.64q", d.item.get("code").text())
	}
}

// aside passes on what each item of a value repeats, unless its length is absurd;
// see short.
func (d *draft) aside(v raw) raw {
	const maxAsideBytes = 4 << 10
	if len(v) > maxAsideBytes {
		d.warn("metadata or a contact of %d bytes is left out", len(v))
		return nil
	}
	return v
}

// contactsOf returns the contacts of a value by their numbers.
func contactsOf(value raw) map[string]raw {
	contacts := map[string]raw{}
	for c := range value.get("contacts").elements() {
		if number := c.get("wa_id").text(); number != "" {
			contacts[number] = c
		}
	}
	return contacts
}
