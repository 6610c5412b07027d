package inbound

import "net/http"

// The table of the providers. Facts are from the providers' documentation and their
// own libraries; the files are by what the providers are for.

func table() []*provider {
	return []*provider{
		// table_code.go
		&github, &gitlab, &bitbucket, &jira, &linear,
		// table_money.go
		&stripe, &paddleBilling, &paddleClassic, &paypal, &square, &adyen, &plaid, &shopify, &wooCommerce,
		// table_talk.go
		&slack, &discord, &telegram, &zoom, &twilio, &sendGrid, &mailgun, &meta, &twitter,
		// table_office.go
		&hubSpot, &intercom, &zendesk, &typeform, &docuSign, &dropbox, &microsoftGraph, &okta, &awsSNS,
		// table_standard.go
		&standardWebhooks, &svix, &clerk, &resend, &openAI, &genericHMAC, &genericBasic, &genericKey, &genericNone,
	}
}

var ok = Answer{Status: http.StatusOK}

// bodyHMAC is the most common scheme: the HMAC of the body in a header.
func bodyHMAC(header, prefix string, e encoding) []scheme {
	return []scheme{{
		signature: grammar{header: header, prefix: prefix, encoding: e},
		algorithm: hmacSHA256, form: textKey, template: "{body}",
	}}
}
