package inbound

import (
	"net/http"
	"strings"
)

var slack = provider{
	Provider: Provider{
		Name: "slack", Title: "Slack", NeedSecret: true,
		Secret:     "the signing secret of the app",
		Settings:   []Setting{tolerance("5m")},
		Signature:  "X-Slack-Signature: HMAC-SHA256 of v0, X-Slack-Request-Timestamp and the body with colons between, in hexadecimal",
		Types:      "the type of the inner event, else the member type of the body; of a slash command its name: slack.message, slack.block_actions, slack./deploy",
		DeliveryID: "the member event_id of the body; commands and interactions have none",
		Success:    ok,
		Handshake:  "url_verification: the challenge, when it is signed",
		Retries:    "at once, after a minute and after 5 minutes. Slack waits 3 s.",
		Setup: []string{
			"Create the source first, with the signing secret that the app's Basic Information shows.",
			"In the app, open Event Subscriptions and enter the URL of the source as Request URL: Slack checks it at once.",
			"The same URL can serve interactivity and slash commands. They are answered with an empty 200; answer the user through response_url.",
		},
	},
	schemes: []scheme{{
		signature: grammar{header: "X-Slack-Signature", prefix: "v0=", encoding: hexDigits},
		algorithm: hmacSHA256, form: textKey, template: "v0:{timestamp}:{body}",
		timestamp: stamp{in: inHeader("X-Slack-Request-Timestamp"), unit: seconds},
	}},
	handshakes: []handshake{{signed: true, answer: answerSlack}},
	types:      first(parts(inBody("event", "type")), parts(inBody("type")), parts(inBody("command"))),
	ids:        only(inBody("event_id")),
}

var discord = provider{
	Provider: Provider{
		Name: "discord", Title: "Discord", NeedSecret: true,
		Secret:     "the public key of the application: 64 hexadecimal digits",
		Settings:   []Setting{tolerance("")},
		Signature:  "X-Signature-Ed25519: ed25519 over X-Signature-Timestamp and the body, in hexadecimal",
		Types:      "webhook events: the type of the event, discord.APPLICATION_AUTHORIZED; interactions: discord.interaction.2",
		DeliveryID: "the id of an interaction; webhook events have none",
		Success:    Answer{Status: http.StatusNoContent},
		Handshake:  "PING of interactions with {\"type\":1}, PING of webhook events with 204; both are signed, and a forged one gets 401, as Discord tests",
		Retries:    "interactions none; webhook events for up to 10 minutes. Discord waits 3 s.",
		Setup: []string{
			"Create the source first, with the public key that the application's General Information shows.",
			"Enter the URL of the source as Webhooks Endpoint URL or as Interactions Endpoint URL: Discord checks it at once, with a right and a wrong signature.",
		},
		Notes: []string{
			"Interactions are answered with a deferral ({\"type\":5}, of components {\"type\":6}); send the reply itself through Discord's API within 15 minutes.",
			"Discord states no tolerance for the timestamp; set one to refuse old requests.",
		},
	},
	schemes: []scheme{{
		signature: grammar{header: "X-Signature-Ed25519", encoding: hexDigits},
		algorithm: ed25519Signature, form: hexEd25519, template: "{timestamp}{body}",
		timestamp: stamp{in: inHeader("X-Signature-Timestamp"), unit: seconds},
	}},
	handshakes: []handshake{{signed: true, answer: answerDiscord}},
	reply:      replyDiscord,
	named:      nameDiscord,
	ids:        only(inBody("id")), // webhook events have none
}

func isInteraction(d *document) bool { return d.at(inBody("token")) != "" }

func nameDiscord(d *document) string {
	if name := d.at(inBody("event", "type")); name != "" || !isInteraction(d) {
		return name
	}
	return "interaction." + d.at(inBody("type"))
}

// replyDiscord answers an interaction with a deferral, as its sender waits for a
// reply that only the application knows.
// Source: discord.com/developers/docs/interactions/receiving-and-responding.
func replyDiscord(v *Verifier, d *document) Answer {
	if !isInteraction(d) {
		return v.provider.Success
	}
	switch d.at(inBody("type")) {
	case "3": // of a component
		return jsonAnswer(http.StatusOK, map[string]int{"type": 6})
	case "4": // autocompletion cannot be deferred
		return jsonAnswer(http.StatusOK, map[string]any{"type": 8, "data": map[string]any{"choices": []string{}}})
	}
	return jsonAnswer(http.StatusOK, map[string]int{"type": 5})
}

var telegram = provider{
	Provider: Provider{
		Name: "telegram", Title: "Telegram", NeedSecret: true,
		Secret:     "the secret_token that setWebhook was called with: 1 to 256 of A-Z a-z 0-9 _ -",
		Signature:  "X-Telegram-Bot-Api-Secret-Token, compared with the secret. Nothing is signed",
		Types:      "the member that the update has beside update_id: telegram.message, telegram.callback_query",
		DeliveryID: "the member update_id of the body",
		Success:    ok,
		Retries:    "until the update expires; updates that follow are held back meanwhile.",
		Setup: []string{
			"Make up a secret token of letters and digits and enter it as a secret of the source.",
			"Call setWebhook of the Bot API with the URL of the source and that secret_token. The port has to be 443, 80, 88 or 8443.",
		},
	},
	schemes: []scheme{{
		signature: grammar{header: "X-Telegram-Bot-Api-Secret-Token", encoding: verbatim}, algorithm: equality, form: textKey,
	}},
	checkKey: telegramProblem,
	named:    nameTelegram,
	ids:      only(inBody("update_id")),
}

func telegramProblem(secret string) string {
	const maxBytes = 256
	for i := range len(secret) {
		if c := secret[i]; !isAlphanumeric(c) && c != '_' && c != '-' || len(secret) > maxBytes {
			return "is no secret_token that Telegram takes"
		}
	}
	return ""
}

func nameTelegram(d *document) string {
	return firstMember(d, func(name string) bool { return name != "update_id" })
}

var zoom = provider{
	Provider: Provider{
		Name: "zoom", Title: "Zoom", NeedSecret: true,
		Secret:     "the secret token of the app's event subscriptions",
		Settings:   []Setting{tolerance("5m")},
		Signature:  "x-zm-signature: HMAC-SHA256 of v0, x-zm-request-timestamp and the body with colons between, in hexadecimal",
		Types:      "the member event of the body: zoom.meeting.started",
		DeliveryID: "nothing: Zoom sends no id",
		Success:    ok,
		Handshake:  "endpoint.url_validation, signed, repeated every 72 hours: the HMAC of its plainToken",
		Retries:    "three: after 5, 20 and 60 minutes. Zoom waits 3 s for 200 or 204.",
		Setup: []string{
			"Create the source first, with the secret token of the app's feature page.",
			"Add an event subscription with the URL of the source and validate it there.",
		},
	},
	schemes: []scheme{{
		signature: grammar{header: "X-Zm-Signature", prefix: "v0=", encoding: hexDigits},
		algorithm: hmacSHA256, form: textKey, template: "v0:{timestamp}:{body}",
		timestamp: stamp{in: inHeader("X-Zm-Request-Timestamp"), unit: seconds},
	}},
	handshakes: []handshake{{signed: true, answer: answerZoom}},
	types:      only(inBody("event")),
}

var twilio = provider{
	Provider: Provider{
		Name: "twilio", Title: "Twilio", NeedSecret: true,
		Secret: "the auth token of the account, or the secret of the key that a webhook rule names",
		Settings: []Setting{
			publicURL(),
			{Name: "twiml", Default: "<Response/>", Meaning: "the TwiML that is answered"},
		},
		Signature:  "X-Twilio-Signature: HMAC-SHA1 (HMAC-SHA256 where a webhook rule says so) of the URL and the fields of the form, in base64; of other bodies, bodySHA256 in the URL. The URL is tried with and without its port",
		Types:      "the status that the request reports, by what it is about: twilio.message.delivered, twilio.call.completed; else twilio.message.received, twilio.call",
		DeliveryID: "MessageSid and its status; of the events of a call CallSid, CallStatus and SequenceNumber; nothing else has one. I-Twilio-Idempotency-Token is not signed",
		Success:    xmlAnswer("<Response/>"),
		Retries:    "on a failed connection only, once, unless the URL asks for more by its fragment (#rc=5). Twilio waits 15 s.",
		Setup: []string{
			"Enter the URL of the source at the number, messaging service or request that is to call it.",
			"Make the source with that address as the setting public_url: the whole URL, or its beginning such as https://hooks.example.com. A query may be left out of it; a fragment is not signed.",
			"Give the source the auth token of the account.",
		},
		Notes: []string{
			"Let Twilio use POST, which is its default: with GET there would be no body to store, so GET is answered with 405.",
			"The answer is always the same TwiML. What has to be answered case by case needs an application in place of a source.",
		},
	},
	mixedUp: "a subaccount has its own auth token, and public_url has to be the URL at Twilio to the letter",
	verify:  verifyTwilio, reply: replyTwilio,
	schemes: []scheme{{
		signature: grammar{header: twilioSignature, encoding: base64Std}, algorithm: hmacSHA1, form: textKey,
		template: "{url}", urls: otherPorts, // and the fields: twilio.go
	}},
	body:  anyBody,
	named: nameTwilio,
	ids: first(parts(inBody("MessageSid"), inBody("MessageStatus")), parts(inBody("MessageSid"), inBody("SmsStatus")),
		parts(inBody("CallSid"), inBody("CallStatus"), inBody("SequenceNumber"))),
}

func nameTwilio(d *document) string {
	is := func(name string) string { return strings.ToLower(d.at(inBody(name))) }
	switch {
	case is("MessageStatus") != "":
		return "message." + is("MessageStatus")
	case is("MessageSid") != "":
		return "message.received"
	case is("CallStatus") != "":
		return "call." + is("CallStatus")
	case is("CallSid") != "":
		return "call"
	}
	return d.at(inBody("EventType"))
}

var sendGrid = provider{
	Provider: Provider{
		Name: "sendgrid", Title: "SendGrid", NeedSecret: true,
		Secret:     "the verification key of the event webhook: a public key in base64",
		Settings:   []Setting{tolerance("")},
		Signature:  "X-Twilio-Email-Event-Webhook-Signature: ECDSA on P-256 with SHA-256 over the header …-Timestamp and the body, in base64",
		Types:      "the member event that all items of the body have: sendgrid.delivered; sendgrid.batch where they differ",
		DeliveryID: "sg_event_id of the item; of several items a hash of all of theirs",
		Success:    ok,
		Retries:    "not published in what this page was made from.",
		Setup: []string{
			"Open Mail Settings, Event Webhook and enter the URL of the source.",
			"Enable Signed Event Webhook and copy the verification key into a secret of the source.",
		},
		Notes: []string{
			"One request has many items. Recognise each by its sg_event_id, as another attempt may pack them differently.",
			"The line break at the end of the body is signed too.",
		},
	},
	schemes: []scheme{{
		signature: grammar{header: "X-Twilio-Email-Event-Webhook-Signature", encoding: base64Std},
		algorithm: ecdsaSHA256, form: spkiECDSA, template: "{timestamp}{body}",
		timestamp: stamp{in: inHeader("X-Twilio-Email-Event-Webhook-Timestamp"), unit: seconds},
	}},
	items: []string{},
	types: only(inBody("event")),
	ids:   only(inBody("sg_event_id")),
}

var mailgun = provider{
	Provider: Provider{
		Name: "mailgun", Title: "Mailgun", NeedSecret: true,
		Secret:     "the HTTP webhook signing key, which is not an API key",
		Settings:   []Setting{tolerance("")},
		Signature:  "signature in the body: HMAC-SHA256 of its timestamp and token, in hexadecimal. The event itself is not signed",
		Types:      "event-data.event of the body: mailgun.delivered; of routes mailgun.unknown",
		DeliveryID: "the token of the signature: it is what is signed",
		Success:    ok,
		Retries:    "over 8 hours, after 5, 10 and 15 minutes and 1, 2 and 4 hours, until 200; 406 would drop the event.",
		Setup: []string{
			"Open Sending, Webhooks and add the URL of the source for each type of event.",
			"Copy the HTTP webhook signing key into a secret of the source.",
		},
		Notes: []string{
			"As the event is not signed, somebody who has seen a request can send another event with its signature. The token is what deliveries are recognised by, so that only the first one counts.",
			"Mailgun states no tolerance for the timestamp; set one of more than 8 hours to refuse old requests.",
		},
	},
	verify: verifyMailgun,
	types:  first(parts(inBody("event-data", "event")), parts(inBody("event"))),
	ids:    only(computed(signedID)),
}

var meta = provider{
	Provider: Provider{
		Name: "meta", Title: "Meta (Messenger, Instagram, WhatsApp)", NeedSecret: true,
		Secret: "the app secret; with Instagram Login the Instagram app secret, which is another",
		Settings: []Setting{{
			Name: "verify_token", Required: true, IsSecret: true,
			Meaning: "the verify token that was entered beside the callback URL: a random text of your own",
		}},
		Signature:  "X-Hub-Signature-256: HMAC-SHA256 of the body, in hexadecimal. The older X-Hub-Signature with SHA-1 is not accepted",
		Types:      "each update is an event of its own, such as meta.message, meta.message.edited or meta.read; the request that brought up to 1000 of them is an event meta.webhook",
		DeliveryID: "each update by its own id, so that it is one event however often it comes. Requests are not: Meta packs updates differently when it tries again",
		Success:    ok,
		Handshake:  "the GET with hub.mode, hub.challenge and hub.verify_token: the challenge, where the token is the right one, else 403",
		Retries:    "Pages and Instagram comments for 36 hours, WhatsApp for up to 7 days. Messenger and Instagram messaging unsubscribe the app from the account after an hour of failures. Meta waits 5 s.",
		Setup: []string{
			"Create the source first, with the app secret of App settings, Basic and a verify token of your own.",
			"In the app's Webhooks product, enter the URL of the source as callback URL and the same verify token: Meta checks them at once.",
			"Subscribe to the fields that you need, and subscribe the app to each Page or account.",
			"Where two apps send to the source, give it both secrets.",
		},
		Notes: []string{
			"There is no timestamp, so nothing can be refused for its age.",
			"Meta escapes everything but ASCII in its JSON and signs those bytes. A proxy that writes the JSON anew breaks the signature as soon as there is an accent or an emoji.",
			"Let body sizes up to 8 MiB through.",
			"An endpoint that subscribes to * or meta.* gets each update twice: as an event of its own, and inside of meta.webhook. Name the types that you need, such as meta.message and meta.message.*.",
		},
	},
	schemes:    bodyHMAC("X-Hub-Signature-256", "sha256=", hexDigits),
	handshakes: []handshake{{answer: answerMeta}},
	mixedUp:    "with Instagram Login it is the Instagram app secret, not the Facebook app secret",
	types:      only(always("webhook")),
}

var twitter = provider{
	Provider: Provider{
		Name: "twitter", Title: "X (Twitter)", NeedSecret: true,
		Secret:     "the consumer secret (API secret key) of the app",
		Signature:  "X-Twitter-Webhooks-Signature: HMAC-SHA256 of the body, in base64",
		Types:      "the member of the body that holds the events: twitter.tweet_create_events",
		DeliveryID: "nothing: each event in the body has its own id",
		Success:    ok,
		Handshake:  "the GET with crc_token that X sends every hour: its HMAC, made with the first secret, of a token of letters, digits and + / = - _ . only",
		Retries:    "not published in what this page was made from.",
		Setup: []string{
			"Create the source first, with the consumer secret.",
			"Register the URL of the source as a webhook through X's API: X checks it at once.",
		},
		Notes: []string{"X lets anybody ask for the HMAC of a token. A token that could be the body of an event is not answered, as its HMAC would be the event's signature."},
	},
	schemes:    bodyHMAC("X-Twitter-Webhooks-Signature", "sha256=", base64Std),
	handshakes: []handshake{{answer: answerTwitter}},
	named:      nameTwitter,
}

func nameTwitter(d *document) string {
	return firstMember(d, func(name string) bool { return strings.HasSuffix(name, "_events") || strings.HasSuffix(name, "_event") })
}

// firstMember returns the first name, in alphabetical order, of a member that is asked for.
func firstMember(d *document, isWanted func(name string) bool) (first string) {
	for key := range d.json.fields() {
		if name := key.text(); isWanted(name) && (first == "" || name < first) {
			first = name
		}
	}
	return first
}
