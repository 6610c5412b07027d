package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

// writer writes the conversations and keeps the tables up to date.
type writer struct {
	rand  *rand.Rand
	plan  *Plan
	chats []*chat
	now   time.Time // a second later with each item, so that no two are of one time
	mids  int
}

// chat is one conversation.
type chat struct {
	metatest.Chat
	object   string
	received []*Message // the customer's, unsent ones included
	answers  []*Message // the account's
}

// act is something that can happen. Its weights are out of about a hundred; do
// returns false where it can't happen in that conversation yet.
type act struct {
	weight int
	do     func(*writer, *chat) bool
}

func acts() []act {
	return []act{
		{34, (*writer).text},
		{4, (*writer).media},
		{3, (*writer).reply},
		{2, (*writer).story},
		{20, (*writer).echo},
		{8, (*writer).edit},
		{3, (*writer).unsend},
		{8, (*writer).react},
		{4, (*writer).unreact},
		{10, (*writer).read},
		{2, (*writer).delivered},
		{2, (*writer).postback},
		{2, (*writer).aside},
		{2, (*writer).stranger},
		{1, (*writer).broken},
	}
}

// step lets one thing happen in one conversation.
func (w *writer) step() {
	c := w.chats[w.rand.IntN(len(w.chats))]
	if len(c.received) == 0 {
		w.text(c) // a conversation begins with the customer
		return
	}
	all := acts()
	total := 0
	for _, a := range all {
		total += a.weight
	}
	n := w.rand.IntN(total)
	for _, a := range all {
		if n -= a.weight; n < 0 {
			if !a.do(w, c) {
				w.text(c)
			}
			return
		}
	}
}

// newMID looks like one of Meta's.
func (w *writer) newMID(c *chat) string {
	w.mids++
	if c.object == page {
		return fmt.Sprintf("m_%08x%d", w.rand.Uint32(), w.mids)
	}
	return fmt.Sprintf("aWdfZAG1fS%08x_%d", w.rand.Uint32(), w.mids)
}

// receive records a message of the customer.
func (w *writer) receive(c *chat, message Message) {
	message.Account, message.Customer = c.Account, c.Customer
	message.FromCustomer, message.SentAt = true, w.now
	c.received = append(c.received, w.plan.Tables.addMessage(message))
}

func (w *writer) text(c *chat) bool {
	mid, text := w.newMID(c), w.words()
	w.receive(c, Message{MID: mid, Text: text})
	it := c.Text(w.now, mid, text)
	if w.rand.IntN(30) == 0 {
		it = c.QuickReply(w.now, mid, text, "CHOICE_"+fmt.Sprint(w.rand.IntN(9)))
	}
	w.add(c, "message", it)
	return true
}

func (w *writer) media(c *chat) bool {
	mid := w.newMID(c)
	w.receive(c, Message{MID: mid})
	if w.rand.IntN(8) == 0 {
		w.add(c, "message", c.Unsupported(w.now, mid))
		return true
	}
	kind := pick(w, []string{"image", "audio", "video", "file", "share"})
	w.add(c, "message", c.Media(w.now, mid, kind, "https://cdn.example/"+kind+"/"+mid))
	return true
}

func (w *writer) reply(c *chat) bool {
	mid, text := w.newMID(c), w.words()
	to := pick(w, slices.Concat(c.received, c.answers))
	w.receive(c, Message{MID: mid, Text: text})
	w.add(c, "message", c.Reply(w.now, mid, text, to.MID))
	return true
}

func (w *writer) story(c *chat) bool {
	if c.object != instagram {
		return false
	}
	mid := w.newMID(c)
	if w.rand.IntN(2) == 0 {
		w.receive(c, Message{MID: mid})
		w.add(c, "story mention", c.StoryMention(w.now, mid, "https://cdn.example/stories/"+mid))
		return true
	}
	text := w.words()
	w.receive(c, Message{MID: mid, Text: text})
	w.add(c, "story reply", c.StoryReply(w.now, mid, text, fmt.Sprint(w.rand.Int64N(1e17))))
	return true
}

func (w *writer) echo(c *chat) bool {
	mid, text := w.newMID(c), w.words()
	c.answers = append(c.answers, w.plan.Tables.addMessage(Message{
		Account: c.Account, Customer: c.Customer, MID: mid, Text: text, SentAt: w.now,
	}))
	w.add(c, "echo", c.Echo(w.now, mid, text))
	return true
}

func (w *writer) edit(c *chat) bool {
	m := pick(w, c.received)
	if m.Unsent || m.Edits == 5 || m.Text == "" { // Meta allows five
		return false
	}
	m.Edits++
	m.Text = w.words() + " (edited)"
	w.add(c, "edit", c.Edited(w.now, m.MID, m.Text, m.Edits))
	return true
}

func (w *writer) unsend(c *chat) bool {
	m := pick(w, c.received)
	if m.Unsent {
		return false
	}
	m.Unsent = true
	w.add(c, "unsend", c.Unsent(w.now, m.MID))
	return true
}

func (w *writer) react(c *chat) bool {
	m := pick(w, slices.Concat(c.received, c.answers))
	reaction := pick(w, [][2]string{{"love", "❤"}, {"smile", "😆"}, {"wow", "😮"}, {"other", "👍🏽"}})
	m.Reaction = reaction[1]
	w.add(c, "reaction", c.React(w.now, m.MID, reaction[0], reaction[1]))
	return true
}

func (w *writer) unreact(c *chat) bool {
	for _, m := range slices.Concat(c.answers, c.received) {
		if m.Reaction != "" {
			m.Reaction = ""
			w.add(c, "unreact", c.Unreact(w.now, m.MID))
			return true
		}
	}
	return false
}

// read is of one message on Instagram and of all up to a time in Messenger.
func (w *writer) read(c *chat) bool {
	if len(c.answers) == 0 {
		return false
	}
	m := pick(w, c.answers)
	if c.object == instagram {
		if m.Read {
			return false // Meta says it once, and its key is that of the first
		}
		m.Read = true
		w.add(c, "read of one", c.Seen(w.now, m.MID))
		return true
	}
	if m.Read {
		return false
	}
	for _, earlier := range c.answers {
		earlier.Read = earlier.Read || !earlier.SentAt.After(m.SentAt)
	}
	w.add(c, "read up to", c.Read(w.now, m.SentAt))
	return true
}

func (w *writer) delivered(c *chat) bool {
	if c.object != page || len(c.answers) == 0 {
		return false
	}
	last := c.answers[len(c.answers)-1]
	if last.delivered {
		return false
	}
	last.delivered = true
	w.add(c, "delivery", c.Delivered(last.SentAt, last.MID))
	return true
}

// postback is a button: a message to whoever reads it.
func (w *writer) postback(c *chat) bool {
	mid, title := w.newMID(c), pick(w, []string{"Start", "Opening hours", "Talk to a person"})
	w.receive(c, Message{MID: mid, Text: title})
	w.add(c, "postback", c.Postback(w.now, mid, title, "BUTTON"))
	return true
}

// aside is what an inbox need not show.
func (w *writer) aside(c *chat) bool {
	switch w.rand.IntN(4) {
	case 0:
		w.add(c, "referral", c.Refer(w.now, "summer", "6012345678901"))
	case 1:
		w.add(c, "optin", c.Optin(w.now, "newsletter", fmt.Sprintf("ref-%d", w.now.Unix())))
	case 2:
		w.add(c, "handover", c.PassControl(w.now, "123", "456"))
	default:
		change := metatest.InstagramComment(fmt.Sprint(w.now.Unix()), "17900000000000001", c.Customer, w.words())
		w.put("comment", item{object: c.object, account: c.Account, list: "changes", at: w.now, json: encode(change)})
	}
	return true
}

// stranger is for accounts that nobody connected, WhatsApp among them.
func (w *writer) stranger(c *chat) bool {
	if w.rand.IntN(2) == 0 {
		phone := metatest.Phone{ID: "106540352242922", Number: "15550000001", Customer: "15550000002", Name: "Zoë"}
		wamid := fmt.Sprintf("wamid.%d", w.now.Unix())
		change := phone.Text(w.now, wamid, w.words())
		if w.rand.IntN(2) == 0 {
			change = phone.Status(w.now, wamid, pick(w, []string{"sent", "delivered", "read"}))
		}
		w.put("whatsapp", item{object: whatsApp, account: "102290129340398", list: "changes", at: w.now, json: encode(change)})
		return true
	}
	unknown := metatest.Chat{Account: fmt.Sprintf("9%d", w.now.Unix()), Customer: c.Customer}
	it := unknown.Text(w.now, fmt.Sprintf("m_stranger_%d", w.now.Unix()), "for nobody")
	w.put("unknown account", item{object: c.object, account: unknown.Account, list: "messaging", at: w.now, json: encode(it)})
	return true
}

// broken is an item of which nothing can come but a warning, and at times a message that lacks
// nothing but its id: it was written, so it must not be lost.
func (w *writer) broken(c *chat) bool {
	from := fmt.Sprintf(`"sender":{"id":%q},"recipient":{"id":%q},"timestamp":%d`, c.Customer, c.Account, w.now.UnixMilli())
	items := []string{
		fmt.Sprintf(`"not an object %d"`, w.now.Unix()),
		fmt.Sprintf(`[[%d]]`, w.now.Unix()),
		fmt.Sprintf(`{%s}`, from),
		fmt.Sprintf(`{%s,"message":"not an object"}`, from),
		fmt.Sprintf(`{%s,"message_edit":{"text":"of which?"}}`, from),
		fmt.Sprintf(`{%s,"reaction":{"action":"react","emoji":"❤"}}`, from),
		fmt.Sprintf(`{%s,"read":{"watermark":"not a time"}}`, from),
		fmt.Sprintf(`{%s,"hologram":{"mid":"m_later_invention"}}`, from),
		fmt.Sprintf(`{"timestamp":"never","message":{"mid":"m_from_nobody_%d","text":"who?"}}`, w.now.Unix()),
	}
	words := fmt.Sprintf("a message without an id, %d", w.now.Unix())
	text := fmt.Sprintf(`{%s,"message":{"mid":null,"text":%q}}`, from, words)
	if n := w.rand.IntN(len(items) + 1); n < len(items) {
		text = items[n]
	} else {
		w.plan.Tables.addMessage(Message{Account: c.Account, Customer: c.Customer, FromCustomer: true, SentAt: w.now, MID: withoutID(words), Text: words})
	}
	w.put("broken", item{object: c.object, account: c.Account, list: "messaging", at: w.now, json: json.RawMessage(text)})
	return true
}

// withoutID names a message that has no id of Meta's, in both kinds of tables.
func withoutID(text string) string { return "without an id: " + text }

// words makes a text: a plain one mostly, but also emoji, right to left, what
// must be escaped in JSON or HTML, and one in five hundred of 64 kB.
func (w *writer) words() string {
	text := pick(w, texts())
	if w.rand.IntN(500) == 0 {
		return strings.Repeat("all of it 😀 ", 4500)
	}
	return fmt.Sprintf("%s #%d", text, w.now.Unix()%100_000)
}

func texts() []string {
	return []string{
		"Is it still available?", "How much is shipping to Graz?", "Danke, schönes Wochenende!", "Do you have it in blue?",
		"My order has not arrived", "Can I pay by invoice?", "Perfect, thank you 🙏", "👩🏽‍💻🇦🇹 see you there",
		"مرحبا، هل هذا متوفر؟", "שלום, מה המחיר?", "<script>alert('no')</script> & \"quotes\" \\ back", "https://example.com/a?b=1&c=2 @shop",
		"两件,谢谢", "line one\nline two\ttabbed", "?",
	}
}

func pick[T any](w *writer, from []T) T { return from[w.rand.IntN(len(from))] }
