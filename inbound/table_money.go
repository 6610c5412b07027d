package inbound

var stripe = provider{
	Provider: Provider{
		Name: "stripe", Title: "Stripe", NeedSecret: true,
		Secret:     "the signing secret of the endpoint, whole and with its whsec_",
		Settings:   []Setting{tolerance("5m")},
		Signature:  "Stripe-Signature: HMAC-SHA256 of timestamp, full stop and body, in hexadecimal. Entries of the kind v1 count",
		Types:      "the member type of the body: stripe.invoice.paid",
		DeliveryID: "the member id of the body, which stays the same over retries",
		Success:    ok,
		Retries:    "for 3 days with live keys, three times over some hours in a sandbox. Each attempt is signed anew. The order of events is not kept.",
		Setup: []string{
			"In the dashboard, open Developers, Webhooks and add an endpoint with the URL of the source.",
			"Choose the events.",
			"Reveal the signing secret (whsec_…) and enter it as a secret of the source.",
			"To roll the secret, add the new one to the source before you roll it at Stripe.",
		},
		Notes: []string{"The secret is used as it stands: what follows whsec_ is not base64 here, unlike with Standard Webhooks."},
	},
	schemes: []scheme{{
		signature: grammar{header: "Stripe-Signature", separator: ",", prefix: "v1=", stampPrefix: "t=", encoding: hexDigits},
		algorithm: hmacSHA256, form: textKey, template: "{timestamp}.{body}", timestamp: stamp{unit: seconds},
	}},
	mixedUp: "each endpoint has its own, so have the sandbox and the command line tool",
	types:   only(inBody("type")),
	ids:     only(inBody("id")),
}

var paddleBilling = provider{
	Provider: Provider{
		Name: "paddle-billing", Title: "Paddle Billing", NeedSecret: true,
		Secret:     "the secret key of the notification destination, whole (pdl_ntfset_…)",
		Settings:   []Setting{tolerance("5m")},
		Signature:  "Paddle-Signature: HMAC-SHA256 of timestamp, colon and body, in hexadecimal",
		Types:      "the member event_type of the body: paddle-billing.transaction.completed",
		DeliveryID: "the member event_id of the body",
		Success:    ok,
		Retries:    "60 over 3 days with live accounts. Paddle waits 5 s and takes nothing but 200 for success.",
		Setup: []string{
			"In Paddle, open Developer tools, Notifications and add a destination with the URL of the source.",
			"Choose the events, save, and copy the secret key into a secret of the source.",
		},
	},
	schemes: []scheme{{
		signature: grammar{header: "Paddle-Signature", separator: ";", prefix: "h1=", stampPrefix: "ts=", encoding: hexDigits},
		algorithm: hmacSHA256, form: textKey, template: "{timestamp}:{body}", timestamp: stamp{unit: seconds},
	}},
	types: only(inBody("event_type")),
	ids:   first(parts(inBody("event_id")), parts(inBody("notification_id"))),
}

var paddleClassic = provider{
	Provider: Provider{
		Name: "paddle-classic", Title: "Paddle Classic", NeedSecret: true,
		Secret:     "the public key of the account in PEM, with its lines -----BEGIN PUBLIC KEY----- and -----END PUBLIC KEY-----",
		Signature:  "the field p_signature of the form: RSA with SHA-1 over the other fields, as PHP serialises them",
		Types:      "the field alert_name: paddle-classic.payment_succeeded",
		DeliveryID: "the field alert_id",
		Success:    ok,
		Retries:    "not published in what this page was made from.",
		Setup: []string{
			"In Paddle, open Developer Tools, Alerts/Webhooks and enter the URL of the source.",
			"Copy the public key from Developer Tools, Public Key into a secret of the source.",
		},
		Notes: []string{"There is no timestamp: a request that is sent again is recognised by its alert_id only."},
	},
	verify: verifyPaddleClassic, checkKey: rsaProblem,
	types: only(inBody("alert_name")),
	ids:   only(inBody("alert_id")),
}

var paypal = provider{
	Provider: Provider{
		Name: "paypal", Title: "PayPal", NeedSecret: true,
		Secret:     "the webhook's id, as PayPal shows it beside the webhook; it is not confidential",
		Settings:   []Setting{tolerance("")},
		Signature:  "PAYPAL-TRANSMISSION-SIG: RSA with SHA-256 over the id and time of the transmission, the webhook's id and the body's CRC-32. The certificate is fetched from a host of paypal.com, has to be PayPal's by a known authority, and is kept for an hour",
		Types:      "the member event_type of the body: paypal.PAYMENT.CAPTURE.COMPLETED",
		DeliveryID: "the member id of the body (WH-…)",
		Success:    ok,
		Retries:    "25 over 3 days.",
		Setup: []string{
			"In the developer dashboard, open the app and add a webhook with the URL of the source.",
			"Copy the webhook ID into a secret of the source.",
			"Let the server reach api.paypal.com and api.sandbox.paypal.com by HTTPS: the certificate comes from there.",
		},
		Notes: []string{"Where the certificate cannot be fetched, the answer is 503 and PayPal tries again."},
	},
	fetches: true, verify: verifyPayPal,
	types: only(inBody("event_type")),
	ids:   only(inBody("id")),
}

var square = provider{
	Provider: Provider{
		Name: "square", Title: "Square", NeedSecret: true,
		Secret:     "the signature key of the webhook subscription",
		Settings:   []Setting{publicURL()},
		Signature:  "x-square-hmacsha256-signature: HMAC-SHA256 of the notification URL and the body, in base64",
		Types:      "the member type of the body: square.payment.updated",
		DeliveryID: "the member event_id of the body",
		Success:    ok,
		Retries:    "for up to 24 hours.",
		Setup: []string{
			"In the developer console, open the application's webhooks and add a subscription with the URL of the source.",
			"Make the source with that address as the setting public_url: the whole URL exactly as it stands there, or its beginning such as https://hooks.example.com.",
			"Copy the signature key into a secret of the source.",
		},
	},
	schemes: []scheme{{
		signature: grammar{header: "X-Square-Hmacsha256-Signature", encoding: base64Std},
		algorithm: hmacSHA256, form: textKey, template: "{url}{body}",
	}},
	mixedUp: "it is neither the access token nor the application's secret, and public_url has to be the URL at Square to the letter",
	types:   only(inBody("type")),
	ids:     only(inBody("event_id")),
}

var adyen = provider{
	Provider: Provider{
		Name: "adyen", Title: "Adyen", NeedSecret: true,
		Secret:     "the HMAC key of the webhook: hexadecimal digits",
		Signature:  "payments: additionalData.hmacSignature of every item, HMAC-SHA256 of eight of its fields in base64; platforms: HmacSignature, HMAC-SHA256 of the body in base64",
		Types:      "eventCode of the item, or the member type of the body: adyen.AUTHORISATION; adyen.batch where the items are of different types",
		DeliveryID: "pspReference, eventCode and success of the item; of several items a hash of all of theirs",
		Success:    Answer{Status: ok.Status, Header: plain(ok.Status, "").Header, Body: []byte("[accepted]")},
		Retries:    "not published in what this page was made from.",
		Setup: []string{
			"In the Customer Area, open Developers, Webhooks and add a standard webhook with the URL of the source and the method JSON.",
			"Generate an HMAC key there and copy it into a secret of the source.",
		},
		Notes: []string{
			"A request of which one item is not signed right is rejected whole.",
			"Of an item, Adyen signs references, amount, event code and success; the rest is not covered.",
			"A new key takes a while to be used: keep the old one beside it as a second secret.",
		},
	},
	verify: verifyAdyen,
	schemes: []scheme{{
		signature: grammar{header: "HmacSignature", encoding: base64Std}, algorithm: hmacSHA256, form: hexKey, template: "{body}",
	}},
	items: []string{"notificationItems"},
	types: first(parts(inBody("NotificationRequestItem", "eventCode")), parts(inBody("type"))),
	ids: first(parts(inBody("NotificationRequestItem", "pspReference"), inBody("NotificationRequestItem", "eventCode"), inBody("NotificationRequestItem", "success")),
		parts(inBody("id"))),
}

var plaid = provider{
	Provider: Provider{
		Name: "plaid", Title: "Plaid", NeedSecret: true,
		Secret: "the secret of Plaid's API for the environment, which keys are asked for with; or a verification key as JSON (a JWK) to trust without asking",
		Settings: []Setting{
			{Name: "client_id", Meaning: "the client id of Plaid's API; needed unless every secret is a JWK"},
			{Name: "environment", Default: "production", Values: []string{"production", "sandbox"}, Meaning: "the environment that sends"},
			tolerance("5m"),
		},
		Signature:  "Plaid-Verification: a JWT of ES256 with the SHA-256 of the body. Its key is asked for at Plaid by its id and kept for an hour",
		Types:      "the members webhook_type and webhook_code of the body: plaid.TRANSACTIONS.SYNC_UPDATES_AVAILABLE",
		DeliveryID: "nothing: Plaid sends no id, and genuine events can have equal bodies",
		Success:    ok,
		Retries:    "not published in what this page was made from.",
		Setup: []string{
			"Give Plaid the URL of the source as the webhook of the items or link tokens that you create.",
			"Enter the secret of Plaid's API as a secret of the source, and client_id and environment as settings.",
			"Let the server reach ENVIRONMENT.plaid.com by HTTPS.",
		},
		Notes: []string{"Plaid signs the body as it sends it, indented by two blanks."},
	},
	fetches: true, verify: verifyPlaid, checkKey: plaidSecretProblem, together: checkPlaid,
	types: only(inBody("webhook_type"), inBody("webhook_code")),
}

var shopify = provider{
	Provider: Provider{
		Name: "shopify", Title: "Shopify", NeedSecret: true,
		Secret:     "the client secret of the app; of webhooks made in the admin, the key that is shown below them",
		Signature:  "X-Shopify-Hmac-SHA256: HMAC-SHA256 of the body, in base64",
		Settings:   []Setting{topics()},
		Types:      "X-Shopify-Topic: shopify.orders/create",
		DeliveryID: "a hash of the topic and the body",
		Success:    ok,
		Retries:    "8 over 4 hours; then a subscription that was made through the API is deleted. Shopify waits a second for the connection and 5 s in all.",
		Setup: []string{
			"Enter the URL of the source in the app's configuration, in the admin's notification settings, or through the API.",
			"Give the source the client secret. While it is rotated give both: Shopify may use the old one for up to an hour.",
			"An app of the store also needs the three mandatory privacy topics; they can come to the same source.",
		},
		Notes: []string{
			"Shopify signs the body and no header, and the topic is in no body. Whoever has seen a request can send it again under another topic: where that matters, make a source for each topic and name it in the setting topics.",
		},
	},
	schemes: []scheme{{
		signature: grammar{header: "X-Shopify-Hmac-Sha256", aliases: []string{"Shopify-Hmac-Sha256"}, encoding: base64Std},
		algorithm: hmacSHA256, form: textKey, template: "{body}",
	}},
	mixedUp: "webhooks of an app are signed with its client secret, those made in the admin with the key shown there",
	topic:   shopifyTopic,
	types:   only(computed(shopifyTopic)),
	ids:     only(idOfTopic(shopifyTopic)),
}

var shopifyTopic = topicOf("X-Shopify-Topic", "Shopify-Topic")

var wooCommerce = provider{
	Provider: Provider{
		Name: "woocommerce", Title: "WooCommerce", NeedSecret: true,
		Secret:     "the secret of the webhook; with characters such as & as they are, not as &amp;",
		Signature:  "X-WC-Webhook-Signature: HMAC-SHA256 of the body, in base64",
		Settings:   []Setting{topics()},
		Types:      "X-WC-Webhook-Topic: woocommerce.order.updated",
		DeliveryID: "a hash of the topic and the body",
		Success:    ok,
		Handshake:  "the unsigned form webhook_id=N that is sent when the webhook is saved; without an answer it is not activated",
		Retries:    "none; after 5 failures the webhook is disabled. Redirects are not followed.",
		Setup: []string{
			"In WordPress, open WooCommerce, Settings, Advanced, Webhooks and add one with the URL of the source as delivery URL.",
			"Enter a long random secret there and as a secret of the source, set the status to active and save.",
		},
		Notes: []string{
			"WooCommerce signs the body and no header, and the topic is in no body. Whoever has seen a request can send it again under another topic: where that matters, make a source for each topic and name it in the setting topics.",
		},
	},
	schemes:    bodyHMAC("X-WC-Webhook-Signature", "", base64Std),
	handshakes: []handshake{{answer: answerWooCommerce}},
	topic:      wooTopic,
	types:      only(computed(wooTopic)),
	ids:        only(idOfTopic(wooTopic)),
}

var wooTopic = topicOf("X-WC-Webhook-Topic")
