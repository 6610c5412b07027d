package meta

import (
	"encoding/json"
	"time"
)

// Direct is what the items of a conversation share, in Messenger and in
// Instagram's direct messages.
type Direct struct {
	Envelope
	Sender    Party
	Recipient Party
}

// Party is one side of a conversation.
type Party struct {
	ID      string // of a Page or Instagram account, or of a customer as seen by it
	UserRef string // stands in for the id of a customer who is not known yet
}

// Customer returns the other side of the account: the recipient of what the
// account itself did, else the sender.
func (d Direct) Customer() Party {
	if d.Own {
		return d.Recipient
	}
	return d.Sender
}

// decodeDirect reads the envelope, both parties, and the member that says what
// happened.
func decodeDirect(payload []byte, types ...string) (Direct, raw, error) {
	e, err := decode(payload, types...)
	if err != nil {
		return Direct{}, nil, err
	}
	item := raw(e.Item)
	party := func(name string) Party {
		side := item.get(name)
		return Party{ID: side.get("id").text(), UserRef: side.get("user_ref").text()}
	}
	return Direct{Envelope: e, Sender: party("sender"), Recipient: party("recipient")}, item.get(e.Kind), nil
}

// Edit is a new text of a message.
type Edit struct {
	Direct
	MID    string // of the message
	Text   string
	Number int // of the edit, from 1; 0 where Meta doesn't count
}

// DecodeEdit reads the payload of a [TypeEdited].
func DecodeEdit(payload []byte) (Edit, error) {
	d, edit, err := decodeDirect(payload, TypeEdited)
	if err != nil {
		return Edit{}, err
	}
	return Edit{Direct: d, MID: edit.get("mid").text(), Text: edit.get("text").text(), Number: edit.get("num_edit").number()}, nil
}

// Reaction is set or taken back.
type Reaction struct {
	Direct
	MID     string // of the message reacted to
	Removed bool   // the sender's reaction to that message is gone
	Name    string // "love", "smile", "other" …; "" when removed
	Emoji   string // "" when removed
}

// DecodeReaction reads the payload of a [TypeReaction].
func DecodeReaction(payload []byte) (Reaction, error) {
	d, reaction, err := decodeDirect(payload, TypeReaction)
	if err != nil {
		return Reaction{}, err
	}
	return Reaction{
		Direct: d, MID: reaction.get("mid").text(), Removed: reaction.get("action").text() == "unreact",
		Name: reaction.get("reaction").text(), Emoji: reaction.get("emoji").text(),
	}, nil
}

// Read says that the customer has seen one message (Instagram: MID is set) or
// all up to a time (Messenger: Watermark is set).
type Read struct {
	Direct
	MID       string
	Watermark time.Time
}

// DecodeRead reads the payload of a [TypeRead].
func DecodeRead(payload []byte) (Read, error) {
	d, read, err := decodeDirect(payload, TypeRead)
	if err != nil {
		return Read{}, err
	}
	return Read{Direct: d, MID: read.get("mid").text(), Watermark: read.get("watermark").instant()}, nil
}

// Delivery says that messages reached the customer's device: those named, if
// any are, and all up to the time.
type Delivery struct {
	Direct
	MIDs      []string
	Watermark time.Time
}

// DecodeDelivery reads the payload of a [TypeDelivered].
func DecodeDelivery(payload []byte) (Delivery, error) {
	d, delivery, err := decodeDirect(payload, TypeDelivered)
	if err != nil {
		return Delivery{}, err
	}
	view := Delivery{Direct: d, Watermark: delivery.get("watermark").instant()}
	for mid := range delivery.get("mids").elements() {
		view.MIDs = append(view.MIDs, mid.text())
	}
	return view, nil
}

// Postback is a button that was pressed.
type Postback struct {
	Direct
	MID      string
	Title    string // what stands on the button
	Payload  string // what the application put behind it; "" in standby
	Referral *Referral
}

// DecodePostback reads the payload of a [TypePostback].
func DecodePostback(payload []byte) (Postback, error) {
	d, postback, err := decodeDirect(payload, TypePostback)
	if err != nil {
		return Postback{}, err
	}
	return Postback{
		Direct: d, MID: postback.get("mid").text(), Title: postback.get("title").text(),
		Payload: postback.get("payload").text(), Referral: readReferral(postback.get("referral")),
	}, nil
}

// Optin is a customer's consent: through the checkbox plugin (Ref, UserRef), or
// to notifications (Kind, Payload, Token).
type Optin struct {
	Direct
	Ref     string
	UserRef string
	Kind    string // "one_time_notif_req" or "notification_messages"
	Payload string
	Token   string // to send the notification with
	Status  string // of notification_messages
}

// DecodeOptin reads the payload of a [TypeOptin].
func DecodeOptin(payload []byte) (Optin, error) {
	d, optin, err := decodeDirect(payload, TypeOptin)
	if err != nil {
		return Optin{}, err
	}
	return Optin{
		Direct: d, Ref: optin.get("ref").text(), UserRef: optin.get("user_ref").text(),
		Kind: optin.get("type").text(), Payload: optin.get("payload").text(),
		Token:  optin.first("notification_messages_token", "one_time_notif_token").text(),
		Status: optin.get("notification_messages_status").text(),
	}, nil
}

// Referral says what led a customer into the conversation.
type Referral struct {
	Ref    string // what the link or ad carries
	Source string // "SHORTLINK", "ADS" …
	Type   string // "OPEN_THREAD"
	AdID   string
	Ad     json.RawMessage // ads_context_data as it came; nil if there was none
}

func readReferral(v raw) *Referral {
	if !v.isObject() {
		return nil
	}
	return &Referral{
		Ref: v.get("ref").text(), Source: v.get("source").text(), Type: v.get("type").text(),
		AdID: v.get("ad_id").text(), Ad: json.RawMessage(v.get("ads_context_data")),
	}
}

// ReferralEvent is a referral that came alone, into a known conversation.
type ReferralEvent struct {
	Direct
	Referral
}

// DecodeReferral reads the payload of a [TypeReferral].
func DecodeReferral(payload []byte) (ReferralEvent, error) {
	d, referral, err := decodeDirect(payload, TypeReferral)
	if err != nil {
		return ReferralEvent{}, err
	}
	view := ReferralEvent{Direct: d}
	if r := readReferral(referral); r != nil {
		view.Referral = *r
	}
	return view, nil
}

// Handover says that control of a conversation passes, or should pass, from one
// app to another. Envelope.Kind tells which: "pass_thread_control",
// "take_thread_control", "request_thread_control" or "app_roles".
type Handover struct {
	Direct
	PreviousOwner  string // app ids, "" where the kind has none
	NewOwner       string
	RequestedOwner string
	Metadata       string
}

// DecodeHandover reads the payload of a [TypeHandover].
func DecodeHandover(payload []byte) (Handover, error) {
	d, handover, err := decodeDirect(payload, TypeHandover)
	if err != nil {
		return Handover{}, err
	}
	return Handover{
		Direct: d, PreviousOwner: handover.get("previous_owner_app_id").text(), NewOwner: handover.get("new_owner_app_id").text(),
		RequestedOwner: handover.get("requested_owner_app_id").text(), Metadata: handover.get("metadata").text(),
	}, nil
}
