// Package meta reads what Meta sends to a webhook: Instagram, Facebook Pages
// with Messenger, and WhatsApp.
//
// One request carries up to 1,000 items, nested in two ways and spelled in many.
// [Parse] flattens them into typed items, each with a key that tells a repeated
// one:
//
//	webhook, err := meta.Parse(body)
//	for _, item := range webhook.Items {
//		// item.Type "meta.message", item.Key "instagram/1784…/message/aWd…", item.Payload
//	}
//
// Posthaste stores a verified request whole, as an event of type [TypeWebhook],
// and each item as a child event whose payload is [Item.Payload]. Whoever
// handles such an event reads it with the function for its type:
//
//	message, err := meta.DecodeMessage(event.Payload)
//
// Parse and the Decode functions take everything that Meta's pages, its test
// button and its users' reports show: numbers as strings, seconds in place of
// milliseconds, ids beyond 2^53, an object where a list belongs, missing fields.
// What they don't know becomes [TypeUnknown] with a warning and keeps its bytes.
// No item is lost, and none takes another one down.
//
// For answers, [ParseError] and [Classify] say what a failed call of the Graph
// API means: whether to give up, to wait, or to ask for a new connection.
// [ParseSignedRequest] verifies the deauthorize and data deletion callbacks.
//
// Nothing here touches the network or the clock. The facts come from Meta's
// pages (https://developers.facebook.com/docs/messenger-platform/webhooks,
// /docs/instagram-platform/webhooks, /docs/whatsapp/cloud-api/webhooks and
// /docs/graph-api/webhooks) and, where those are silent, from public reports.
package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The types of events. The list is closed.
const (
	TypeWebhook = "meta.webhook" // a whole request, the parent of its items

	TypeMessage         = "meta.message"          // a customer's message
	TypeEcho            = "meta.message.echo"     // a message of the account itself
	TypeUnsent          = "meta.message.unsent"   // a message was taken back
	TypeEdited          = "meta.message.edited"   // a message has a new text
	TypeReaction        = "meta.reaction"         // a reaction was set or taken back
	TypeRead            = "meta.read"             // one message (Instagram) or all up to a time (Messenger)
	TypeDelivered       = "meta.delivered"        // Messenger only
	TypePostback        = "meta.postback"         // a button was pressed
	TypeOptin           = "meta.optin"            // a customer agreed to be written to
	TypeReferral        = "meta.referral"         // a known conversation was opened by a link or an ad
	TypeStoryMention    = "meta.story_mention"    // a message: a story mentions the account
	TypeStoryReply      = "meta.story_reply"      // a message: an answer to a story of the account
	TypeComment         = "meta.comment"          // of a post, a reel or a live video
	TypeMention         = "meta.mention"          // in a comment or a caption
	TypeHandover        = "meta.handover"         // control of a conversation passes between apps
	TypeWhatsAppMessage = "meta.whatsapp.message" // a customer's message
	TypeWhatsAppStatus  = "meta.whatsapp.status"  // sent, delivered, read or failed
	TypeUnknown         = "meta.unknown"          // anything else
)

// Platform is where an item comes from, by what the request calls its object.
// Meta's pages contradict each other on whether the messages of an Instagram
// account that is connected through Facebook come as instagram or facebook: find
// the account by its asset, not by this.
type Platform string

// The platforms.
const (
	Instagram     Platform = "instagram" // object "instagram"
	Facebook      Platform = "facebook"  // object "page": a Page and its Messenger
	WhatsApp      Platform = "whatsapp"  // object "whatsapp_business_account"
	OtherPlatform Platform = "other"     // "user", "permissions" and the like, or none
)

// Webhook is the body of one request, taken apart.
type Webhook struct {
	Object   string   // as it came: "instagram", "page", …; "" if there was none
	Items    []Item   // in the order of the body
	Left     int      // how many more the body holds beyond [MaxItems]
	Warnings []string // about the body as a whole, for a log
}

// Item is one thing that happened.
type Item struct {
	// Type is one of the constants, never [TypeWebhook].
	Type string
	// Key is the same when Meta sends the item again, and differs between items:
	// at most 255 bytes of printable ASCII, never empty.
	Key string
	// At is when it happened, UTC; the time of the entry where the item has none
	// of its own, and zero if that has none either.
	At time.Time
	// Asset is the account that the request was sent for: the entry's id (a Page
	// or an Instagram account), for WhatsApp the phone number's id. "0" when the
	// dashboard's test button was pressed, "" if the body names none.
	Asset    string
	Platform Platform
	// Payload is the JSON text for the child event; see [Envelope].
	Payload []byte
	// Warnings say what was odd, for a log. The payload holds them as well.
	Warnings []string
}

// MaxItems is how many items Parse returns, ten times what Meta puts into one
// request. A body of 8 MiB has room for millions of empty ones, each of which
// becomes a payload and a key of some hundred bytes, and whoever owns an app's
// secret can sign it.
const MaxItems = 10_000

// ErrNotJSON is what [Parse] and the Decode functions refuse.
var ErrNotJSON = errors.New("not JSON")

// Parse takes the body of a request apart. It fails only if the body is not
// JSON, with an error that wraps [ErrNotJSON]; a body that is JSON but nothing
// of Meta's is one item of [TypeUnknown]. The items don't share memory with body.
//
// Parse does not verify the signature. Cap what is read of a body: 8 MiB suffice
// for each product. Two items of one body can have the same key, since Meta does
// repeat itself.
func Parse(body []byte) (Webhook, error) {
	if !json.Valid(body) {
		// Unmarshal says where, before it decodes anything.
		return Webhook{}, fmt.Errorf("parse the webhook: %w: %w", ErrNotJSON, json.Unmarshal(body, new(json.RawMessage)))
	}
	start := space(body, 0)
	var f flattener
	for top := range raw(body[start:skip(body, start)]).elements() {
		f.request(top)
	}
	switch {
	case f.webhook.Left > 0:
		f.warn("%d items more than %d: only the request itself has them", f.webhook.Left, MaxItems)
	case len(f.webhook.Items) == 0:
		f.warn("the body holds no item")
	}
	return f.webhook, nil
}
