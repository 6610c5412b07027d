package meta_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/posthaste-dev/posthaste/inbound/meta"
	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

// view reads the payload of an item with the function for its type. decoders
// that are not for it must refuse.
func view(payload []byte) (found any, errs map[string]error) {
	errs = map[string]error{}
	try := func(name string, v any, err error) {
		if errs[name] = err; err == nil {
			found = v
		}
	}
	message, err := meta.DecodeMessage(payload)
	try("message", message, err)
	edit, err := meta.DecodeEdit(payload)
	try("edit", edit, err)
	reaction, err := meta.DecodeReaction(payload)
	try("reaction", reaction, err)
	read, err := meta.DecodeRead(payload)
	try("read", read, err)
	delivery, err := meta.DecodeDelivery(payload)
	try("delivery", delivery, err)
	postback, err := meta.DecodePostback(payload)
	try("postback", postback, err)
	optin, err := meta.DecodeOptin(payload)
	try("optin", optin, err)
	referral, err := meta.DecodeReferral(payload)
	try("referral", referral, err)
	handover, err := meta.DecodeHandover(payload)
	try("handover", handover, err)
	comment, err := meta.DecodeComment(payload)
	try("comment", comment, err)
	mention, err := meta.DecodeMention(payload)
	try("mention", mention, err)
	whatsApp, err := meta.DecodeWhatsAppMessage(payload)
	try("whatsapp message", whatsApp, err)
	status, err := meta.DecodeWhatsAppStatus(payload)
	try("whatsapp status", status, err)
	return found, errs
}

// What the generator says is what the views read: the whole way, over the form
// in which Meta writes.
func TestViews(t *testing.T) {
	const account, customer = "17841400000000001", "9001"
	at := time.UnixMilli(1700000000045).UTC()
	earlier := at.Add(-time.Minute)
	chat := metatest.Chat{Account: account, Customer: customer}
	in := meta.Direct{
		Envelope: meta.Envelope{Platform: meta.Instagram, Object: "instagram", Asset: account, At: at},
		Sender:   meta.Party{ID: customer}, Recipient: meta.Party{ID: account},
	}
	of := func(kind, itemType string) meta.Direct {
		d := in
		d.Kind, d.Type = kind, itemType
		return d
	}
	own := of("message", meta.TypeEcho)
	own.Own, own.Sender, own.Recipient = true, in.Recipient, in.Sender
	delivered := of("delivery", meta.TypeDelivered)
	delivered.At = earlier
	optin := of("optin", meta.TypeOptin)
	optin.Sender = meta.Party{UserRef: "ur"}
	url := func(kind, url string) []meta.Attachment { return []meta.Attachment{{Type: kind, URL: url}} }

	for name, c := range map[string]struct {
		item metatest.Item
		want any
	}{
		"text":          {chat.Text(at, "m", "hé 😀"), meta.Message{Direct: of("message", meta.TypeMessage), MID: "m", Text: "hé 😀"}},
		"media":         {chat.Media(at, "m", "image", "https://x/?a@b"), meta.Message{Direct: of("message", meta.TypeMessage), MID: "m", Attachments: url("image", "https://x/?a@b")}},
		"reply":         {chat.Reply(at, "m", "t", "o"), meta.Message{Direct: of("message", meta.TypeMessage), MID: "m", Text: "t", ReplyTo: &meta.ReplyTo{MID: "o"}}},
		"quick reply":   {chat.QuickReply(at, "m", "t", "P"), meta.Message{Direct: of("message", meta.TypeMessage), MID: "m", Text: "t", QuickReply: "P"}},
		"story mention": {chat.StoryMention(at, "m", "https://x"), meta.Message{Direct: of("message", meta.TypeStoryMention), MID: "m", Attachments: url("story_mention", "https://x")}},
		"story reply": {chat.StoryReply(at, "m", "t", "5"), meta.Message{
			Direct: of("message", meta.TypeStoryReply), MID: "m", Text: "t",
			ReplyTo: &meta.ReplyTo{Story: &meta.Story{ID: "5", URL: "https://cdn.example/stories/5"}},
		}},
		"unsupported": {chat.Unsupported(at, "m"), meta.Message{Direct: of("message", meta.TypeMessage), MID: "m", Unsupported: true}},
		"echo":        {chat.Echo(at, "m", "t"), meta.Message{Direct: own, MID: "m", Text: "t", AppID: "123"}},
		"unsent":      {chat.Unsent(at, "m"), meta.Message{Direct: of("message", meta.TypeUnsent), MID: "m", Deleted: true}},
		"edit":        {chat.Edited(at, "m", "t", 2), meta.Edit{Direct: of("message_edit", meta.TypeEdited), MID: "m", Text: "t", Number: 2}},
		"react":       {chat.React(at, "m", "love", "❤"), meta.Reaction{Direct: of("reaction", meta.TypeReaction), MID: "m", Name: "love", Emoji: "❤"}},
		"unreact":     {chat.Unreact(at, "m"), meta.Reaction{Direct: of("reaction", meta.TypeReaction), MID: "m", Removed: true}},
		"seen":        {chat.Seen(at, "m"), meta.Read{Direct: of("read", meta.TypeRead), MID: "m"}},
		"read":        {chat.Read(at, earlier), meta.Read{Direct: of("read", meta.TypeRead), Watermark: earlier}},
		"delivered":   {chat.Delivered(earlier, "a", "b"), meta.Delivery{Direct: delivered, MIDs: []string{"a", "b"}, Watermark: earlier}},
		"postback":    {chat.Postback(at, "m", "T", "P"), meta.Postback{Direct: of("postback", meta.TypePostback), MID: "m", Title: "T", Payload: "P"}},
		"optin":       {chat.Optin(at, "r", "ur"), meta.Optin{Direct: optin, Ref: "r", UserRef: "ur"}},
		"referral": {chat.Refer(at, "r", "6"), meta.ReferralEvent{
			Direct: of("referral", meta.TypeReferral), Referral: meta.Referral{Ref: "r", Source: "ADS", Type: "OPEN_THREAD", AdID: "6"},
		}},
		"pass": {chat.PassControl(at, "1", "2"), meta.Handover{Direct: of("pass_thread_control", meta.TypeHandover), PreviousOwner: "1", NewOwner: "2"}},
		"take": {chat.TakeControl(at, "1"), meta.Handover{Direct: of("take_thread_control", meta.TypeHandover), PreviousOwner: "1"}},
	} {
		item := only(t, metatest.Encode("instagram", metatest.Messaging(account, at, c.item)))
		got, errs := view(item.Payload)
		ignored := cmp.Options{cmpopts.IgnoreFields(meta.Envelope{}, "Item"), cmpopts.IgnoreFields(meta.Attachment{}, "Payload")}
		if diff := cmp.Diff(c.want, got, ignored); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		refused := 0
		for _, err := range errs {
			if err != nil {
				refused++
			}
		}
		if refused != len(errs)-1 || len(item.Warnings) > 0 {
			t.Errorf("%s: %d of %d decoders refuse, warnings %q", name, refused, len(errs), item.Warnings)
		}
	}
}

func TestCustomer(t *testing.T) {
	at := time.UnixMilli(1700000000045)
	chat := metatest.Chat{Account: "1", Customer: "2"}
	reaction := chat.React(at, "m", "love", "❤")
	reaction.Sender, reaction.Recipient = reaction.Recipient, reaction.Sender // the account reacts
	for name, item := range map[string]metatest.Item{
		"message": chat.Text(at, "m", "t"), "echo": chat.Echo(at, "m", "t"), "read": chat.Seen(at, "m"), "own reaction": reaction,
	} {
		got, _ := view(only(t, metatest.Encode("page", metatest.Messaging("1", at, item))).Payload)
		if c := got.(interface{ Customer() meta.Party }).Customer(); c.ID != "2" {
			t.Errorf("%s: customer %q, want 2", name, c.ID)
		}
	}
}

func TestViewsOfChanges(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	phone := metatest.Phone{ID: "1065", Number: "15550000001", Customer: "15550000002", Name: "Ä"}
	ofPage := meta.Envelope{Platform: meta.Facebook, Object: "page", Asset: "1000001", At: at}
	of := func(e meta.Envelope, kind, field, itemType string) meta.Envelope {
		e.Kind, e.Field, e.Type = kind, field, itemType
		return e
	}
	ofAccount := meta.Envelope{Platform: meta.Instagram, Object: "instagram", Asset: "1784", At: at}
	ofPhone := meta.Envelope{Platform: meta.WhatsApp, Object: "whatsapp_business_account", Asset: "1065", At: at}
	ours := of(ofAccount, "comments", "comments", meta.TypeComment)
	ours.Own = true
	for name, c := range map[string]struct {
		object, id string
		change     metatest.Change
		want       any
	}{
		"page comment": {"page", "1000001", metatest.PageComment(at, "2_3", "1000001_2", "7", "hi"), meta.Comment{
			Envelope: of(ofPage, "feed", "feed", meta.TypeComment), Verb: "add", ID: "2_3", ParentID: "1000001_2", PostID: "1000001_2",
			Text: "hi", From: meta.Author{ID: "7", Name: "Name 7"},
		}},
		"instagram comment": {"instagram", "1784", metatest.InstagramComment("c", "m", "9", "hi"), meta.Comment{
			Envelope: of(ofAccount, "comments", "comments", meta.TypeComment), ID: "c", MediaID: "m", Text: "hi", From: meta.Author{ID: "9", Name: "user9"},
		}},
		"own comment": {"instagram", "1784", metatest.InstagramComment("c", "m", "1784", "hi"), meta.Comment{
			Envelope: ours, ID: "c", MediaID: "m", Text: "hi", From: meta.Author{ID: "1784", Name: "user1784"},
		}},
		"mention": {"instagram", "1784", metatest.InstagramMention("m", "c"), meta.Mention{
			Envelope: of(ofAccount, "mentions", "mentions", meta.TypeMention), MediaID: "m", CommentID: "c",
		}},
		"whatsapp text": {"whatsapp_business_account", "1022", phone.Text(at, "w", "hi"), meta.WhatsAppMessage{
			Envelope: of(ofPhone, "messages", "messages", meta.TypeWhatsAppMessage), ID: "w", From: "15550000002", Name: "Ä", DisplayName: "15550000001",
			Kind: "text", Text: "hi",
		}},
		"whatsapp read": {"whatsapp_business_account", "1022", phone.Status(at, "w", "read"), meta.WhatsAppStatus{
			Envelope: of(ofPhone, "statuses", "messages", meta.TypeWhatsAppStatus), ID: "w", Status: "read", Recipient: "15550000002",
		}},
		"whatsapp failed": {"whatsapp_business_account", "1022", phone.Failed(at, "w", 131047), meta.WhatsAppStatus{
			Envelope: of(ofPhone, "statuses", "messages", meta.TypeWhatsAppStatus), ID: "w", Status: "failed", Recipient: "15550000002",
			Errors: []*meta.GraphError{{HasCode: true, Code: 131047, Message: "failed", Details: "a test"}},
		}},
	} {
		got, _ := view(only(t, metatest.Encode(c.object, metatest.Changes(c.id, at, c.change))).Payload)
		ignored := cmp.Options{
			cmpopts.IgnoreFields(meta.Envelope{}, "Item", "Metadata", "Contact"), cmpopts.IgnoreFields(meta.WhatsAppMessage{}, "Content"),
		}
		if diff := cmp.Diff(c.want, got, ignored); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Fields that the generator does not make, from the bodies of testdata.
func TestViewsOfBodies(t *testing.T) {
	messages := map[string]meta.Message{}
	pictures := map[string]meta.WhatsAppMessage{}
	for _, name := range []string{"messenger", "odd", "whatsapp", "instagram"} {
		body, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		webhook, err := meta.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range webhook.Items {
			switch v, _ := view(item.Payload); v := v.(type) {
			case meta.Message:
				messages[v.MID] = v
			case meta.WhatsAppMessage:
				pictures[v.ID] = v
			}
		}
	}
	attachments := messages["m_11"].Attachments
	if len(attachments) != 3 || attachments[0].Location == nil || *attachments[0].Location != (meta.Coordinates{Latitude: 52.5, Longitude: 13.4}) ||
		attachments[1].URL != "https://example.com" || attachments[1].Title != "A page" || attachments[2].StickerID != "369239263222822" {
		t.Errorf("attachments %+v", attachments)
	}
	if m := messages["12345678901234567890"]; m.Sender.ID != "90071992547409931" {
		t.Errorf("an id beyond 2^53 lost digits: %+v", m)
	}
	if m := messages["no-time"]; m.Text != "\ufffd\ufffd" {
		t.Errorf("text %q, want two U+FFFD for U+0000 and half a pair", m.Text)
	}
	if !messages["m_1"].Standby || messages["m_11"].Standby {
		t.Error("standby is not where it should be")
	}
	if story, ok := messages["aWd.2"].StoryMention(); !ok || story.URL != "https://cdn.example/x" {
		t.Errorf("story mention %+v, %t", story, ok)
	}
	if p := pictures["wamid.3"]; p.Media == nil || p.Media.ID != "77" || p.Text != "look" || p.ReplyTo != "wamid.2" || p.Name != "" {
		t.Errorf("picture %+v", p)
	}
}

// A payload holds the item's own bytes, and is JSON itself.
func TestPayloadKeepsBytes(t *testing.T) {
	for _, name := range []string{"instagram", "messenger", "changes", "whatsapp", "odd"} {
		body, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		webhook, err := meta.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range webhook.Items {
			e, err := meta.DecodeEnvelope(item.Payload)
			if err != nil || !json.Valid(item.Payload) || !bytes.Contains(body, e.Item) || len(e.Item) == 0 && !bytes.HasSuffix(item.Payload, []byte(`"item":null}`)) {
				t.Errorf("%s: %s: error %v", name, item.Payload, err)
			}
			if e.Type != item.Type || e.Asset != item.Asset || e.Platform != item.Platform || !e.At.Equal(item.At) || cmp.Diff(e.Warnings, item.Warnings) != "" {
				t.Errorf("%s: envelope %+v of %+v", name, e, item)
			}
		}
	}
}

// Of two members of one name the last counts, for the type, the key and the view.
func TestMemberTwice(t *testing.T) {
	item := only(t, []byte(`{"object":"page","entry":[{"id":"1","messaging":[{"message":{"mid":"a","is_echo":true},"message":{"mid":"b"}}]}]}`))
	message, err := meta.DecodeMessage(item.Payload)
	if err != nil || message.MID != "b" || item.Type != meta.TypeMessage || item.Key != "facebook/1/message/b" {
		t.Errorf("%+v, %+v, error %v", item, message, err)
	}
}

// Where neither the account nor the author is named, they are not the same.
func TestNobodyIsNotTheAccount(t *testing.T) {
	for _, entry := range []string{`{"field":"comments","value":{"id":"c"}}`, `{"messaging":[{"sender":{},"message":{"mid":"a"}}]}`} {
		item := only(t, []byte(`{"object":"page","entry":[`+entry+`]}`))
		if e, err := meta.DecodeEnvelope(item.Payload); err != nil || e.Own {
			t.Errorf("%s: own %t, error %v", entry, e.Own, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, payload := range []string{"", "{", "null", "[]", `"x"`, "{}", `{"type":"meta.unknown"}`, `{"type":7}`} {
		if found, errs := view([]byte(payload)); found != nil {
			t.Errorf("%q was read as %+v, errors %v", payload, found, errs)
		}
	}
	// An envelope without an item is read as one without content: no panic.
	if m, err := meta.DecodeMessage([]byte(`{"type":"meta.message"}`)); err != nil || m.MID != "" {
		t.Errorf("%+v, %v", m, err)
	}
}
