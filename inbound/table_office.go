package inbound

import "net/http"

var hubSpot = provider{
	Provider: Provider{
		Name: "hubspot", Title: "HubSpot", NeedSecret: true,
		Secret: "the client secret of the app",
		Settings: []Setting{
			publicURL(),
			{Name: "versions", Default: "any", Values: []string{"any", "v3"}, Meaning: "v3 refuses the older signatures, which have no timestamp"},
			tolerance("5m"),
		},
		Signature:  "X-HubSpot-Signature-v3: HMAC-SHA256 of method, URL, body and X-HubSpot-Request-Timestamp, in base64. Where it is missing, X-HubSpot-Signature in the version that X-HubSpot-Signature-Version names",
		Types:      "subscriptionType that all items of the body have: hubspot.contact.creation; hubspot.batch where they differ",
		DeliveryID: "eventId, subscriptionId and occurredAt of the item; of several items a hash of all of theirs",
		Success:    ok,
		Retries:    "up to 10, over 24 hours. HubSpot waits 5 s. Some answers of 4xx were final in its older contract.",
		Setup: []string{
			"In the app, open Webhooks and enter the URL of the source as target URL.",
			"Make the source with that address as the setting public_url: the whole URL, or its beginning such as https://hooks.example.com.",
			"Copy the client secret from the app's Auth page into a secret of the source.",
		},
		Notes: []string{
			"One request has up to 100 items.",
			"The signatures v1 and v2 are hashes without a timestamp; v1 covers neither URL nor method, and a text can be added to what it covers. Set versions to v3 where HubSpot sends that.",
		},
	},
	configured: hubSpotSchemes,
	mixedUp:    "it is the client secret of the app that the webhook belongs to, and public_url has to be its target URL to the letter",
	items:      []string{},
	types:      only(inBody("subscriptionType")),
	ids:        only(inBody("eventId"), inBody("subscriptionId"), inBody("occurredAt")),
}

// hubSpotSchemes leaves the older versions out where the settings say so.
func hubSpotSchemes(s settings) []scheme {
	all := []scheme{
		{
			signature: grammar{header: "X-HubSpot-Signature-v3", encoding: base64Std},
			algorithm: hmacSHA256, form: textKey, template: "{method}{url}{body}{timestamp}", urls: hubspotDecoded,
			timestamp: stamp{in: inHeader("X-HubSpot-Request-Timestamp"), unit: milliseconds},
		},
		{
			when:      [2]string{"X-HubSpot-Signature-Version", "v2"},
			signature: grammar{header: "X-HubSpot-Signature", encoding: hexDigits},
			algorithm: prefixedSHA256, form: textKey, template: "{method}{url}{body}",
		},
		{
			when:      [2]string{"X-HubSpot-Signature-Version", "v1"},
			signature: grammar{header: "X-HubSpot-Signature", encoding: hexDigits},
			algorithm: prefixedSHA256, form: textKey, template: "{body}",
		},
	}
	if s["versions"] == "v3" {
		return all[:1]
	}
	return all
}

var intercom = provider{
	Provider: Provider{
		Name: "intercom", Title: "Intercom", NeedSecret: true,
		Secret:     "the client secret of the app",
		Signature:  "X-Hub-Signature: HMAC-SHA1 of the body, in hexadecimal",
		Types:      "the member topic of the body: intercom.conversation.user.created",
		DeliveryID: "the member id of the body (notif_…)",
		Success:    ok,
		Retries:    "once, after a minute. Intercom waits 5 s.",
		Setup: []string{
			"In the developer hub, open the app's Webhooks and enter the URL of the source.",
			"Copy the client secret of Basic information into a secret of the source.",
			"Choose the topics. The test that Intercom sends is an event like others (ping).",
		},
	},
	schemes: []scheme{{
		signature: grammar{header: "X-Hub-Signature", prefix: "sha1=", encoding: hexDigits}, algorithm: hmacSHA1, form: textKey, template: "{body}",
	}},
	types: only(inBody("topic")),
	ids:   only(inBody("id")),
}

var zendesk = provider{
	Provider: Provider{
		Name: "zendesk", Title: "Zendesk", NeedSecret: true,
		Secret:     "the signing secret of the webhook, as it is shown; it looks like base64 and is not decoded",
		Settings:   []Setting{tolerance("")},
		Signature:  "X-Zendesk-Webhook-Signature: HMAC-SHA256 of X-Zendesk-Webhook-Signature-Timestamp and the body, in base64",
		Types:      "the member type of the body, else its member event, as the trigger's template has it: zendesk.ticket.updated",
		DeliveryID: "the member id of an event's body; of what a trigger sends a hash of the signed timestamp and the body. X-Zendesk-Webhook-Invocation-Id is not signed",
		Success:    ok,
		Retries:    "not published in what this page was made from.",
		Setup: []string{
			"In the Admin Center, open Apps and integrations, Webhooks and create one with the URL of the source, the method POST and the format JSON.",
			"Reveal the signing secret and copy it into a secret of the source.",
			"Connect the webhook to events, or to a trigger or automation whose body has a member type.",
		},
		Notes: []string{"Zendesk states no tolerance for the timestamp; set one to refuse old requests, and watch for rejections of repeated deliveries."},
	},
	verbs: []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodGet, http.MethodDelete},
	schemes: []scheme{{
		signature: grammar{header: "X-Zendesk-Webhook-Signature", encoding: base64Std},
		algorithm: hmacSHA256, form: textKey, template: "{timestamp}{body}",
		timestamp: stamp{in: inHeader("X-Zendesk-Webhook-Signature-Timestamp"), unit: rfc3339},
	}},
	body:  anyBody,
	types: first(parts(inBody("type")), parts(inBody("event"))),
	ids:   only(computed(idOfZendesk)),
}

var typeform = provider{
	Provider: Provider{
		Name: "typeform", Title: "Typeform", NeedSecret: true,
		Secret:     "the secret of the webhook",
		Signature:  "Typeform-Signature: sha256= and the HMAC-SHA256 of the body, in base64",
		Types:      "the member event_type of the body: typeform.form_response",
		DeliveryID: "the member event_id of the body",
		Success:    ok,
		Retries:    "not published in what this page was made from.",
		Setup: []string{
			"In the form, open Connect, Webhooks and add the URL of the source.",
			"Edit the webhook, enter a long random secret there and as a secret of the source, and switch it on.",
		},
	},
	schemes: bodyHMAC("Typeform-Signature", "sha256=", base64Std),
	types:   only(inBody("event_type")),
	ids:     only(inBody("event_id")),
}

var docuSign = provider{
	Provider: Provider{
		Name: "docusign", Title: "DocuSign", NeedSecret: true,
		Secret:     "an HMAC key of DocuSign Connect; several keys can be active",
		Signature:  "X-DocuSign-Signature-1 to -100: HMAC-SHA256 of the body, in base64, one for each key that is active. Any may match",
		Types:      "the member event of the body: docusign.envelope-completed",
		DeliveryID: "event, generatedDateTime and data.envelopeId of the body; nothing where one of them is missing",
		Success:    ok,
		Retries:    "retryCount in the body counts them; how many is not published in what this page was made from.",
		Setup: []string{
			"In DocuSign's admin, open Connect and add a configuration with the URL of the source and the data format REST v2.1 (JSON).",
			"Open Connect Keys, add a key, copy it into a secret of the source, and include the HMAC signature in the configuration.",
		},
		Notes: []string{"The body of a configuration in XML is verified as well; its event has the type docusign.unknown."},
	},
	schemes: []scheme{{
		signature: grammar{header: "X-DocuSign-Signature-", numbered: 100, encoding: base64Std},
		algorithm: hmacSHA256, form: textKey, template: "{body}",
	}},
	body:  anyBody,
	types: only(inBody("event")),
	ids:   only(inBody("event"), inBody("generatedDateTime"), inBody("data", "envelopeId")),
}

var dropbox = provider{
	Provider: Provider{
		Name: "dropbox", Title: "Dropbox", NeedSecret: true,
		Secret:     "the app secret",
		Signature:  "X-Dropbox-Signature: HMAC-SHA256 of the body, in hexadecimal",
		Types:      "always dropbox.notification: it says only whose files changed",
		DeliveryID: "nothing: bodies of different notifications are equal",
		Success:    ok,
		Handshake:  "the GET with challenge: the challenge",
		Retries:    "not published in what this page was made from.",
		Setup: []string{
			"Create the source first, with the app secret.",
			"In the App Console, add the URL of the source as webhook URI: Dropbox checks it at once.",
		},
	},
	schemes:    bodyHMAC("X-Dropbox-Signature", "", hexDigits),
	handshakes: []handshake{{answer: answerDropbox}},
	types:      only(always("notification")),
}

var microsoftGraph = provider{
	Provider: Provider{
		Name: "microsoft-graph", Title: "Microsoft Graph", NeedSecret: true,
		Secret:     "the clientState that subscriptions are created with: a long random text",
		Signature:  "clientState of every item of the body, compared with the secrets. Nothing is signed",
		Types:      "lifecycleEvent or changeType that all items of the body have: microsoft-graph.created; microsoft-graph.batch where they differ",
		DeliveryID: "id of the item; of several items a hash of all of theirs; nothing where one has none",
		Success:    Answer{Status: http.StatusAccepted},
		Handshake:  "the POST with validationToken and no body, also for lifecycle notifications: the token",
		Retries:    "for up to 4 hours. Graph waits 3 s; when many answers are slow it drops notifications.",
		Setup: []string{
			"Create the source first, with a long random text as its secret.",
			"Create the subscription through Graph with the URL of the source as notificationUrl and lifecycleNotificationUrl, and that text as clientState: Graph checks the URL at once.",
		},
		Notes: []string{
			"Who sees one request can make up others: the text is sent along.",
			"The tokens of notifications with encrypted content (validationTokens) are passed on and not looked at. Verify them before you trust such content.",
		},
	},
	verify:     verifyGraph,
	handshakes: []handshake{{answer: answerGraph}},
	items:      []string{"value"},
	types:      first(parts(inBody("lifecycleEvent")), parts(inBody("changeType"))),
	ids:        only(inBody("id")),
}

var okta = provider{
	Provider: Provider{
		Name: "okta", Title: "Okta", NeedSecret: true,
		Secret: "the authentication secret of the event hook: the whole value of its header",
		Settings: []Setting{{
			Name: "header", Default: "Authorization", Meaning: "the authentication field of the event hook", problem: headerNameProblem,
		}},
		Signature:  "the header Authorization, or the one that was set, compared with the secret. Nothing is signed",
		Types:      "eventType that all items of data.events have: okta.user.lifecycle.create; okta.batch where they differ",
		DeliveryID: "the member eventId of the body",
		Success:    ok,
		Handshake:  "the GET with X-Okta-Verification-Challenge, once",
		Retries:    "once. Okta waits 3 s.",
		Setup: []string{
			"In the admin console, open Workflow, Event Hooks and create one with the URL of the source.",
			"Enter a long random text as authentication secret there and as a secret of the source, and Authorization as authentication field.",
			"Save and verify the hook.",
		},
		Notes: []string{"Who sees one request can make up others: the text is sent along."},
	},
	configured: oktaScheme,
	handshakes: []handshake{{answer: answerOkta}},
	named:      nameOkta,
	ids:        only(inBody("eventId")),
}

func nameOkta(d *document) (common string) {
	isFirst := true
	for item := range d.itemsAt("data", "events") {
		name := item.at(inBody("eventType"))
		if !isFirst && name != common {
			return batchType
		}
		common, isFirst = name, false
	}
	if common == "" {
		return d.at(inBody("eventType"))
	}
	return common
}

var awsSNS = provider{
	Provider: Provider{
		Name: "aws-sns", Title: "Amazon SNS",
		Settings: []Setting{
			{Name: "topic_arns", Required: true, Meaning: "the ARNs of the topics that messages are taken from, with commas between; * for any topic of anybody"},
			{Name: "confirm", Default: "auto", Values: []string{"auto", "off"}, Meaning: "whether subscriptions to these topics are confirmed by themselves"},
			tolerance(""),
		},
		Signature:  "Signature in the body: RSA with SHA-1 (version 1) or SHA-256 (version 2) over its members. The certificate is fetched from sns.REGION.amazonaws.com and kept for an hour",
		Types:      "always aws-sns.Notification: what the message is about is in its member Message",
		DeliveryID: "the member MessageId of the body",
		Success:    ok,
		Handshake:  "SubscriptionConfirmation: verified, then confirmed by a GET of its SubscribeURL",
		Retries:    "as the delivery policy of the subscription says.",
		Setup: []string{
			"Create the source with the ARN of the topic as the setting topic_arns. There is no secret.",
			"Subscribe the URL of the source to the topic, with the protocol HTTPS and without raw message delivery. The subscription confirms itself.",
			"Let the server reach sns.REGION.amazonaws.com by HTTPS: certificate and confirmation need it.",
		},
		Notes: []string{
			"Amazon signs everybody's messages alike, so the topics that are yours have to be named.",
			"Raw message delivery has no signature, and is rejected.",
			"Where the certificate cannot be fetched or the subscription not be confirmed, the answer is 503 and SNS tries again.",
		},
	},
	fetches: true, verify: verifySNS, then: confirmSNS,
	types: first(parts(inBody("Type"))),
	ids:   only(inBody("MessageId")),
}
