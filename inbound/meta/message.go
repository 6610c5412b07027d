package meta

import "encoding/json"

// storyMention is the type of an attachment that is a story.
const storyMention = "story_mention"

// Message is a message of either side, or the news that one was taken back.
// Which of them, Envelope.Type says.
type Message struct {
	Direct
	MID         string // the same for the message, its echo and its end
	Text        string // up to 64 kB and more; U+0000 comes as U+FFFD
	Deleted     bool   // taken back: only the MID is of use
	Unsupported bool   // Meta does not show it to an app; there is no content
	SelfReply   bool
	AppID       string // of an echo: the app that sent it; "" if a person did
	Metadata    string // of an echo: what the sending app attached
	QuickReply  string // the payload behind the quick reply that was chosen
	ReplyTo     *ReplyTo
	Referral    *Referral
	Attachments []Attachment
}

// ReplyTo names what a message answers: a message (MID) or a story.
type ReplyTo struct {
	MID   string
	Story *Story
}

// Story is a story of an Instagram account. Its URL expires.
type Story struct {
	ID  string
	URL string
}

// Attachment is a part of a message that is not text. URLs expire: fetch what is
// to be kept.
type Attachment struct {
	// Type is "image", "audio", "video", "file", "share", "story_mention", "ig_reel",
	// "reel", "ig_post", "post", "ephemeral", "sticker", "template", "fallback",
	// "location", "appointment_booking", or a later invention.
	Type      string
	URL       string // "" where there is none
	Title     string
	StickerID string
	VideoID   string       // of a reel
	Location  *Coordinates // of a location
	Payload   json.RawMessage
}

// Coordinates are in degrees.
type Coordinates struct{ Latitude, Longitude float64 }

// DecodeMessage reads the payload of a [TypeMessage], [TypeEcho], [TypeUnsent],
// [TypeStoryMention] or [TypeStoryReply].
func DecodeMessage(payload []byte) (Message, error) {
	d, message, err := decodeDirect(payload, TypeMessage, TypeEcho, TypeUnsent, TypeStoryMention, TypeStoryReply)
	if err != nil {
		return Message{}, err
	}
	view := Message{
		Direct: d, MID: message.get("mid").text(), Text: message.get("text").text(),
		Deleted:     message.get("is_deleted").truth(),
		Unsupported: message.get("is_unsupported").truth(),
		SelfReply:   message.get("is_self_reply").truth(),
		AppID:       message.get("app_id").text(),
		Metadata:    message.get("metadata").text(),
		QuickReply:  message.get("quick_reply").get("payload").text(),
		Referral:    readReferral(message.get("referral")),
	}
	if reply := message.get("reply_to"); reply.isObject() {
		view.ReplyTo = &ReplyTo{MID: reply.get("mid").text()}
		if story := reply.get("story"); story.isObject() {
			view.ReplyTo.Story = &Story{ID: story.get("id").text(), URL: story.get("url").text()}
		}
	}
	for a := range message.get("attachments").elements() {
		if a.isObject() {
			view.Attachments = append(view.Attachments, readAttachment(a))
		}
	}
	return view, nil
}

// readAttachment looks for a title and a URL beside the payload too, where a
// fallback without a payload has them.
func readAttachment(a raw) Attachment {
	payload := a.get("payload")
	either := func(name string) string {
		if inside := payload.get(name); inside != nil {
			return inside.text()
		}
		return a.get(name).text()
	}
	view := Attachment{
		Type: a.get("type").text(), URL: either("url"), Title: either("title"),
		StickerID: payload.get("sticker_id").text(), VideoID: payload.get("reel_video_id").text(),
		Payload: json.RawMessage(payload),
	}
	if c := payload.get("coordinates"); c.isObject() {
		view.Location = &Coordinates{Latitude: c.get("lat").float(), Longitude: c.get("long").float()}
	}
	return view
}

// StoryMention returns the story that mentions the account. ok is false if the
// message is none such.
func (m Message) StoryMention() (story Attachment, ok bool) {
	for _, a := range m.Attachments {
		if a.Type == storyMention {
			return a, true
		}
	}
	return Attachment{}, false
}
