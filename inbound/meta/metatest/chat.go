package metatest

import "time"

// Entry is one account's part of a body. Its times are in milliseconds for
// messaging and in seconds for changes, as Meta has it.
type Entry struct {
	ID        string `json:"id"`
	Time      int64  `json:"time"`
	Messaging []any  `json:"messaging,omitempty"`
	Standby   []any  `json:"standby,omitempty"`
	Changes   []any  `json:"changes,omitempty"`
}

// Messaging returns an entry with items of conversations: an [Item], or a
// [json.RawMessage] for what Meta should not send.
func Messaging(account string, at time.Time, items ...any) Entry {
	return Entry{ID: account, Time: at.UnixMilli(), Messaging: items}
}

// Standby returns an entry with items of conversations that another app holds.
func Standby(account string, at time.Time, items ...any) Entry {
	return Entry{ID: account, Time: at.UnixMilli(), Standby: items}
}

// Changes returns an entry with changes, each a [Change] or anything else.
func Changes(account string, at time.Time, changes ...any) Entry {
	return Entry{ID: account, Time: at.Unix(), Changes: changes}
}

// Item is an element of messaging[] or standby[]. A test may change what a
// method of [Chat] returned.
type Item struct {
	Sender    Party  `json:"sender"`
	Recipient Party  `json:"recipient"`
	Timestamp int64  `json:"timestamp,omitempty"`
	Message   object `json:"message,omitempty"`
	Edit      object `json:"message_edit,omitempty"`
	Reaction  object `json:"reaction,omitempty"`
	Read      object `json:"read,omitempty"`
	Delivery  object `json:"delivery,omitempty"`
	Postback  object `json:"postback,omitempty"`
	Optin     object `json:"optin,omitempty"`
	Referral  object `json:"referral,omitempty"`
	Pass      object `json:"pass_thread_control,omitempty"`
	Take      object `json:"take_thread_control,omitempty"`
}

// Party is the sender or the recipient.
type Party struct {
	ID      string `json:"id,omitempty"`
	UserRef string `json:"user_ref,omitempty"`
}

type object = map[string]any

// Chat is a conversation of an account (a Page or an Instagram account) with a
// customer. Each method returns one thing that happens in it.
type Chat struct{ Account, Customer string }

func (c Chat) in(at time.Time) Item {
	return Item{Sender: Party{ID: c.Customer}, Recipient: Party{ID: c.Account}, Timestamp: at.UnixMilli()}
}

func (c Chat) out(at time.Time) Item {
	return Item{Sender: Party{ID: c.Account}, Recipient: Party{ID: c.Customer}, Timestamp: at.UnixMilli()}
}

func (c Chat) message(at time.Time, message object) Item {
	item := c.in(at)
	item.Message = message
	return item
}

// Text is a message of the customer.
func (c Chat) Text(at time.Time, mid, text string) Item {
	return c.message(at, object{"mid": mid, "text": text})
}

// Media is a message of the customer that is an attachment: "image", "audio",
// "video", "file", "share" and so on.
func (c Chat) Media(at time.Time, mid, kind, url string) Item {
	return c.message(at, object{"mid": mid, "attachments": []object{{"type": kind, "payload": object{"url": url}}}})
}

// Reply is an answer to another message.
func (c Chat) Reply(at time.Time, mid, text, toMID string) Item {
	return c.message(at, object{"mid": mid, "text": text, "reply_to": object{"mid": toMID}})
}

// QuickReply is a quick reply that was chosen.
func (c Chat) QuickReply(at time.Time, mid, text, payload string) Item {
	return c.message(at, object{"mid": mid, "text": text, "quick_reply": object{"payload": payload}})
}

// StoryMention is a story of the customer that mentions the account.
func (c Chat) StoryMention(at time.Time, mid, url string) Item {
	return c.Media(at, mid, "story_mention", url)
}

// StoryReply is an answer to a story of the account.
func (c Chat) StoryReply(at time.Time, mid, text, storyID string) Item {
	story := object{"id": storyID, "url": "https://cdn.example/stories/" + storyID}
	return c.message(at, object{"mid": mid, "text": text, "reply_to": object{"story": story}})
}

// Unsupported is a message that Meta does not show.
func (c Chat) Unsupported(at time.Time, mid string) Item {
	return c.message(at, object{"mid": mid, "is_unsupported": true})
}

// Echo is a message of the account, sent by an app.
func (c Chat) Echo(at time.Time, mid, text string) Item {
	item := c.out(at)
	item.Message = object{"mid": mid, "text": text, "is_echo": true, "app_id": 123}
	return item
}

// Unsent takes a message of the customer back.
func (c Chat) Unsent(at time.Time, mid string) Item {
	return c.message(at, object{"mid": mid, "is_deleted": true})
}

// Edited is the n-th new text of a message.
func (c Chat) Edited(at time.Time, mid, text string, n int) Item {
	item := c.in(at)
	item.Edit = object{"mid": mid, "text": text, "num_edit": n}
	return item
}

// React sets the customer's reaction to a message.
func (c Chat) React(at time.Time, mid, name, emoji string) Item {
	item := c.in(at)
	item.Reaction = object{"mid": mid, "action": "react", "reaction": name, "emoji": emoji}
	return item
}

// Unreact takes it back.
func (c Chat) Unreact(at time.Time, mid string) Item {
	item := c.in(at)
	item.Reaction = object{"mid": mid, "action": "unreact"}
	return item
}

// Seen says that the customer has read a message on Instagram.
func (c Chat) Seen(at time.Time, mid string) Item {
	item := c.in(at)
	item.Read = object{"mid": mid}
	return item
}

// Read says that the customer has read all up to a time in Messenger.
func (c Chat) Read(at, upTo time.Time) Item {
	item := c.in(at)
	item.Read = object{"watermark": upTo.UnixMilli()}
	return item
}

// Delivered says that messages reached the customer in Messenger. It comes
// without a timestamp.
func (c Chat) Delivered(upTo time.Time, mids ...string) Item {
	item := c.in(upTo)
	item.Timestamp = 0
	item.Delivery = object{"watermark": upTo.UnixMilli(), "mids": mids}
	return item
}

// Postback is a button that the customer pressed.
func (c Chat) Postback(at time.Time, mid, title, payload string) Item {
	item := c.in(at)
	item.Postback = object{"mid": mid, "title": title, "payload": payload}
	return item
}

// Optin is the consent of someone who is not known yet.
func (c Chat) Optin(at time.Time, ref, userRef string) Item {
	item := c.in(at)
	item.Sender = Party{UserRef: userRef}
	item.Optin = object{"ref": ref, "user_ref": userRef}
	return item
}

// Refer says that an ad led the customer here.
func (c Chat) Refer(at time.Time, ref, adID string) Item {
	item := c.in(at)
	item.Referral = object{"ref": ref, "source": "ADS", "type": "OPEN_THREAD", "ad_id": adID}
	return item
}

// PassControl gives the conversation to another app.
func (c Chat) PassControl(at time.Time, fromApp, toApp string) Item {
	item := c.in(at)
	item.Pass = object{"previous_owner_app_id": fromApp, "new_owner_app_id": toApp}
	return item
}

// TakeControl takes the conversation from another app.
func (c Chat) TakeControl(at time.Time, fromApp string) Item {
	item := c.in(at)
	item.Take = object{"previous_owner_app_id": fromApp}
	return item
}
