package inbound

import "slices"

// Standard Webhooks 1.0.0 (standardwebhooks.com): id, timestamp and body with full
// stops between, in a list of signatures with their version before them.

func standardScheme(headers, version string, form keyForm) scheme {
	s := scheme{
		signature: grammar{header: headers + "-signature", separator: " ", prefix: version, encoding: base64Std},
		algorithm: hmacSHA256, form: form, template: "{id}.{timestamp}.{body}",
		timestamp: stamp{in: inHeader(headers + "-timestamp"), unit: seconds},
		id:        headers + "-id",
	}
	if form == whpkKey {
		s.algorithm = ed25519Signature
	}
	return s
}

// standardSchemes takes both versions, under the specification's names and Svix's.
func standardSchemes(headers ...string) (all []scheme) {
	for _, h := range headers {
		all = append(all, standardScheme(h, "v1,", whsecKey), standardScheme(h, "v1a,", whpkKey))
	}
	return all
}

// standard is a provider that keeps to the specification.
func standard(p Provider, headers ...string) provider {
	p.NeedSecret = true
	p.Settings = []Setting{tolerance("5m")}
	p.Signature = headers[0] + "-signature: as Standard Webhooks say, HMAC-SHA256 (v1) or ed25519 (v1a) of id, timestamp and body. The headers of the names " +
		headers[1] + "-* are taken too"
	p.DeliveryID = headers[0] + "-id, which stays the same over retries and is signed"
	p.Success = ok
	return provider{
		Provider: p, schemes: standardSchemes(headers...), types: first(parts(inBody("type")), parts(inBody("event_type"))),
		ids: only(computed(signedID)),
	}
}

const standardSecret = "the signing secret: whsec_ and base64, or the public key: whpk_ and base64"

var standardWebhooks = standard(Provider{
	Name: "standard-webhooks", Title: "Standard Webhooks",
	Secret:  standardSecret,
	Types:   "the member type of the body, else event_type: standard-webhooks.user.created",
	Retries: "the sender's matter; each attempt is signed anew.",
	Setup: []string{
		"Register the URL of the source with any sender that follows the specification, Posthaste among them.",
		"Copy the secret that it shows into a secret of the source.",
	},
}, "webhook", "svix")

var svix = standard(Provider{
	Name: "svix", Title: "Svix",
	Secret:  standardSecret,
	Types:   "the member type of the body, else event_type: svix.invoice.paid",
	Retries: "after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h; an endpoint that fails for 5 days is disabled.",
	Setup: []string{
		"In the sender's webhook portal, add the URL of the source as endpoint.",
		"Copy the signing secret of the endpoint into a secret of the source.",
	},
}, "svix", "webhook")

var clerk = standard(Provider{
	Name: "clerk", Title: "Clerk",
	Secret:  "the signing secret of the endpoint: whsec_ and base64",
	Types:   "the member type of the body: clerk.user.created",
	Retries: "those of Svix, which delivers for Clerk.",
	Setup: []string{
		"In Clerk's dashboard, open Webhooks and add the URL of the source as endpoint.",
		"Choose the events and copy the signing secret into a secret of the source.",
	},
}, "svix", "webhook")

var resend = standard(Provider{
	Name: "resend", Title: "Resend",
	Secret:  "the signing secret of the webhook: whsec_ and base64",
	Types:   "the member type of the body: resend.email.delivered",
	Retries: "those of Svix, which delivers for Resend.",
	Setup: []string{
		"In Resend's dashboard, open Webhooks and add the URL of the source.",
		"Choose the events and copy the signing secret into a secret of the source.",
	},
}, "svix", "webhook")

var openAI = standard(Provider{
	Name: "openai", Title: "OpenAI",
	Secret:  "the signing secret of the webhook: whsec_ and base64",
	Types:   "the member type of the body: openai.response.completed",
	Retries: "not published in what this page was made from.",
	Setup: []string{
		"In the project's settings, open Webhooks and create an endpoint with the URL of the source.",
		"Choose the events and copy the signing secret, which is shown once, into a secret of the source.",
	},
}, "webhook", "svix")

const (
	genericTypes = "what type_header or type_path name, the member type of the body by default: "
	genericID    = "what id_header or id_path name; nothing where neither is set"
	genericRetry = "the sender's matter."
)

var genericHMAC = provider{
	Provider: Provider{
		Name: "hmac", Title: "Any sender with an HMAC", NeedSecret: true,
		Secret:     "the key of the HMAC, written as key_encoding says",
		Settings:   hmacSettings(),
		Signature:  "the header that is set: the HMAC of the signed content that the template describes",
		Types:      genericTypes + "hmac.order.paid",
		DeliveryID: genericID,
		Success:    ok,
		Retries:    genericRetry,
		Setup: []string{
			"Find out from the sender's documentation: the header, the hash, how the signature is written and what it covers.",
			"Create the source with them as settings. For a header such as t=1700000000,v1=ab12… set separator to a comma, timestamp_prefix to t=, prefix to v1= and template to {timestamp}.{body}.",
			"Name where the sender puts the id of a delivery, so that repeated ones are recognised.",
		},
	},
	verbs: writing(), configured: hmacScheme, together: checkHMAC, body: anyBody,
}

var genericBasic = provider{
	Provider: Provider{
		Name: "basic", Title: "Any sender with user name and password", NeedSecret: true,
		Secret:     "USER:PASSWORD",
		Settings:   placesOfGeneric(),
		Signature:  "Authorization: HTTP Basic, compared with the secrets. Nothing is signed",
		Types:      genericTypes + "basic.order.paid",
		DeliveryID: genericID,
		Success:    ok,
		Retries:    genericRetry,
		Setup: []string{
			"Make up a long random password, enter it at the sender and as a secret of the source.",
			"Name where the sender puts type and id, so that events can be filtered and repeated deliveries are recognised.",
		},
		Notes: []string{"Who sees one request can make up others."},
	},
	verbs: writing(), verify: verifyBasic, checkKey: basicProblem, body: anyBody,
}

var genericKey = provider{
	Provider: Provider{
		Name: "api-key", Title: "Any sender with a key in a header", NeedSecret: true,
		Secret: "the key that the sender sends along",
		Settings: slices.Concat([]Setting{
			{Name: "header", Default: "X-Api-Key", Meaning: "the header that has the key", problem: headerNameProblem},
			{Name: "prefix", Meaning: "what stands before the key in it, for example Bearer and a blank"},
		}, placesOfGeneric()),
		Signature:  "the header that is set, compared with the secrets. Nothing is signed",
		Types:      genericTypes + "api-key.order.paid",
		DeliveryID: genericID,
		Success:    ok,
		Retries:    genericRetry,
		Setup: []string{
			"Make up a long random key, enter it at the sender and as a secret of the source.",
			"Name where the sender puts type and id, so that events can be filtered and repeated deliveries are recognised.",
		},
		Notes: []string{"Who sees one request can make up others."},
	},
	verbs: writing(), configured: keyScheme, body: anyBody,
}

var genericNone = provider{
	Provider: Provider{
		Name: "none", Title: "Any sender, without verification",
		Settings:   placesOfGeneric(),
		Signature:  "nothing: whoever knows the URL can send events",
		Types:      genericTypes + "none.order.paid",
		DeliveryID: genericID,
		Success:    ok,
		Retries:    genericRetry,
		Setup: []string{
			"Use it only for senders that offer nothing else, and treat the URL of the source as a secret.",
			"What it brings is hearsay: look the facts up at the sender before you act on them.",
		},
	},
	verbs: writing(), verify: verifyNothing, body: anyBody,
}
