package meta

import "encoding/json"

// WhatsAppMessage is a customer's message to a WhatsApp number.
type WhatsAppMessage struct {
	Envelope
	ID          string // "wamid.…"
	From        string // the customer's number
	Name        string // as the customer chose it
	DisplayName string // the business's number, for people
	Kind        string // "text", "image", "reaction", "interactive", "unsupported" …
	Text        string // of a text, a button, a choice from a list; the caption of a medium
	ReplyTo     string // id of the message that it answers
	Media       *WhatsAppMedia
	Reaction    *WhatsAppReaction
	Content     json.RawMessage // the member that Kind names, as it came
	Errors      []*GraphError   // why there is no content
}

// WhatsAppMedia is to be fetched through the Graph API by its id.
type WhatsAppMedia struct{ ID, MIMEType, SHA256, Filename string }

// WhatsAppReaction is set, or taken back where Emoji is "".
type WhatsAppReaction struct{ MessageID, Emoji string }

// DecodeWhatsAppMessage reads the payload of a [TypeWhatsAppMessage].
func DecodeWhatsAppMessage(payload []byte) (WhatsAppMessage, error) {
	e, err := decode(payload, TypeWhatsAppMessage)
	if err != nil {
		return WhatsAppMessage{}, err
	}
	item := raw(e.Item)
	view := WhatsAppMessage{
		Envelope: e, ID: item.get("id").text(), From: item.get("from").text(), Kind: item.get("type").text(),
		Name:        raw(e.Contact).get("profile").get("name").text(),
		DisplayName: raw(e.Metadata).get("display_phone_number").text(),
		ReplyTo:     item.get("context").get("id").text(),
		Errors:      readErrors(item),
	}
	content := item.get(view.Kind)
	view.Content = json.RawMessage(content)
	view.Text = whatsAppText(content)
	switch view.Kind {
	case "image", "audio", "video", "document", "sticker":
		view.Media = &WhatsAppMedia{
			ID: content.get("id").text(), MIMEType: content.get("mime_type").text(),
			SHA256: content.get("sha256").text(), Filename: content.get("filename").text(),
		}
	case "reaction":
		view.Reaction = &WhatsAppReaction{MessageID: content.get("message_id").text(), Emoji: content.get("emoji").text()}
	}
	return view, nil
}

// whatsAppText finds what a person would read: the body of a text, the text of a
// button, the title of a choice, the caption of a medium.
func whatsAppText(content raw) string {
	choice := content.first("button_reply", "list_reply")
	for _, v := range []raw{content.first("body", "text", "caption"), choice.get("title")} {
		if v != nil {
			return v.text()
		}
	}
	return ""
}

// WhatsAppStatus says what became of a message to a customer. Statuses come in
// any order: keep the one of the highest rank.
type WhatsAppStatus struct {
	Envelope
	ID        string // of the message
	Status    string // "sent", "delivered", "read", "failed" …
	Recipient string // the customer's number
	// Errors say why it failed. Nothing else does: the call that sent the message
	// had been answered with success. [Classify] takes them.
	Errors []*GraphError
}

// DecodeWhatsAppStatus reads the payload of a [TypeWhatsAppStatus].
func DecodeWhatsAppStatus(payload []byte) (WhatsAppStatus, error) {
	e, err := decode(payload, TypeWhatsAppStatus)
	if err != nil {
		return WhatsAppStatus{}, err
	}
	item := raw(e.Item)
	return WhatsAppStatus{
		Envelope: e, ID: item.get("id").text(), Status: item.get("status").text(),
		Recipient: item.get("recipient_id").text(), Errors: readErrors(item),
	}, nil
}

// Rank orders the statuses of one message: sent 1, delivered 2, read 3, failed 4,
// and 0 for what is not known.
func (s WhatsAppStatus) Rank() int {
	switch s.Status {
	case "sent":
		return 1
	case "delivered":
		return 2
	case "read":
		return 3
	case "failed":
		return 4
	}
	return 0
}

func readErrors(item raw) []*GraphError {
	var errs []*GraphError
	for e := range item.get("errors").elements() {
		if e.isObject() {
			errs = append(errs, readGraphError(e))
		}
	}
	return errs
}
