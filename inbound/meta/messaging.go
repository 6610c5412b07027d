package meta

import (
	"strconv"
	"time"
)

// messaging is an item of messaging[] or standby[] while it is looked at.
type messaging struct {
	sender    string // for a key; "ref:…" if it is a user_ref
	timestamp string // milliseconds, for a key; "" if the item has none
	body      raw    // the member that says what happened
}

// messaging finds out what happened by which member is there.
func (f *flattener) messaging(d *draft) {
	m := d.readMessaging()
	if m.body == nil {
		switch {
		case d.kind != "":
			d.warn("there is no type for %.64q", d.kind)
		case d.item.isObject():
			d.warn("no member says what happened")
		default:
			d.warn("the item is not an object")
		}
		f.emit(d)
		return
	}
	d.typeMessaging(m)
	f.emit(d)
}

// readMessaging reads what all kinds share, and finds the member that names the
// kind: the first that is known, or else the first that is not one of the frame.
func (d *draft) readMessaging() messaging {
	var m messaging
	var stranger string
	for key, value := range d.item.fields() {
		name := key.name()
		switch {
		case name == "sender":
			id := value.get("id").text()
			if m.sender = id; id == "" {
				if ref := value.get("user_ref").text(); ref != "" {
					m.sender = "ref:" + ref
				}
			}
			d.own = id != "" && id == d.asset
		case name == "timestamp":
			if at := value.instant(); !at.IsZero() {
				d.at, m.timestamp = at, millis(at)
			} else {
				d.warn("timestamp %.64q is not a time", value.text())
			}
		case name == "recipient":
		case !isMessagingKind(name):
			if stranger == "" {
				stranger = name
			}
		case d.kind == "" || d.kind == name: // of two of one name the last, as everywhere
			d.kind, m.body = name, value
		default:
			d.warn("the item is a %s and a %s: read as the first", d.kind, name)
		}
	}
	if d.kind == "" {
		d.kind = short(stranger)
	}
	return m
}

func millis(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

func isMessagingKind(name string) bool {
	switch name {
	case "message", "message_edit", "reaction", "read", "delivery", "postback", "optin", "referral",
		"pass_thread_control", "take_thread_control", "request_thread_control", "app_roles",
		"account_linking", "policy_enforcement":
		return true
	}
	return false
}

// typeMessaging gives the draft its type and key.
func (d *draft) typeMessaging(m messaging) {
	if !m.body.isObject() {
		d.warn("%s is not an object", d.kind)
		return
	}
	mid := m.body.get("mid").text()
	switch d.kind {
	case "message":
		d.typeMessage(m.body, mid)
	case "message_edit":
		d.itemType = TypeEdited
		// In development mode Instagram counts all edits as 0.
		edit := m.body.get("num_edit").text()
		if edit == "" || edit == "0" {
			edit = m.timestamp
		}
		d.key = d.origin.key("message", mid, "edit", edit)
	case "reaction":
		d.itemType = TypeReaction
		d.key = d.origin.key("reaction", mid, m.sender, m.body.get("action").text(), m.timestamp)
	case "read":
		d.itemType = TypeRead
		what := mid
		if what == "" {
			what = timeKey(m.body.get("watermark"))
		}
		d.key = d.origin.key("read", m.sender, what)
	case "delivery":
		d.itemType = TypeDelivered
		d.key = d.origin.key("delivered", m.sender, timeKey(m.body.get("watermark")))
		if m.timestamp == "" {
			d.watermarkAt(m.body)
		}
	case "postback":
		d.itemType = TypePostback
		if d.key = d.origin.key("postback", mid); d.key == "" {
			// "payload=" because a standby one has none.
			d.key = d.origin.key("postback", m.sender, m.timestamp, "payload="+m.body.get("payload").text())
		}
	case "optin":
		d.itemType = TypeOptin
		if m.sender == "" {
			if ref := m.body.get("user_ref").text(); ref != "" {
				m.sender = "ref:" + ref
			}
		}
		d.key = d.origin.key("optin", m.sender, m.timestamp)
	case "referral":
		d.itemType = TypeReferral
		d.key = d.origin.key("referral", m.sender, m.timestamp)
	case "account_linking", "policy_enforcement":
		d.warn("there is no type for %q", d.kind)
		d.key = d.origin.key(d.kind, m.sender, m.timestamp)
	default: // the four of the handover protocol
		d.itemType = TypeHandover
		d.key = d.origin.key("handover", m.sender, d.kind, m.timestamp)
	}
}

// typeMessage tells the kinds of messages apart. What was taken back comes
// first: such an item carries the id of the message and nothing else of it.
// Stories come after echoes, since an account can mention and answer others too.
func (d *draft) typeMessage(message raw, mid string) {
	d.key = d.origin.key("message", mid)
	isEcho := message.get("is_echo").truth()
	d.own = d.own || isEcho
	switch {
	case message.get("is_deleted").truth():
		d.itemType = TypeUnsent
		d.key = d.origin.key("message", mid, "deleted")
	case isEcho:
		d.itemType = TypeEcho
	case hasStoryMention(message.get("attachments")):
		d.itemType = TypeStoryMention
	case message.get("reply_to").get("story").isObject():
		d.itemType = TypeStoryReply
	default:
		d.itemType = TypeMessage
	}
}

func hasStoryMention(attachments raw) bool {
	for a := range attachments.elements() {
		if a.get("type").text() == storyMention {
			return true
		}
	}
	return false
}

// watermarkAt dates a delivery, which often comes without a timestamp, by the
// newest message that it confirms.
func (d *draft) watermarkAt(delivery raw) {
	if at := delivery.get("watermark").instant(); !at.IsZero() {
		d.at = at
	}
}

// timeKey writes a time for a key, the same for 1700000000045 and "1700000000045".
func timeKey(v raw) string {
	if at := v.instant(); !at.IsZero() {
		return millis(at)
	}
	return ""
}

func (o origin) key(parts ...string) string { return dedupKey(o.platform, o.asset, parts...) }
