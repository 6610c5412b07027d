package inbound

import (
	"fmt"
	"regexp"
)

// A secret is often mixed up with another credential of the provider. What that looks
// like is known of many, by how it begins; a secret itself may be any text of most.

// lookalike is a credential that is not what a provider signs with.
type lookalike struct {
	begins *regexp.Regexp
	what   string // to be read after "is"
}

func begins(pattern, what string) lookalike {
	return lookalike{regexp.MustCompile(`^(?:` + pattern + `)`), what}
}

// lookalikes are by the provider's name. The patterns are from the providers' own
// documentation of their credentials.
var lookalikes = map[string][]lookalike{
	"stripe": {
		begins(`[spr]k_(live|test|org)_|ek_(live|test)_`, "an API key; the signing secret of an endpoint begins with whsec_"),
		begins(`(we|acct|evt)_[0-9A-Za-z]{14}`, "an id; the signing secret of an endpoint begins with whsec_"),
	},
	"paddle-billing": {
		begins(`pdl_(live|sdbx)_apikey_|(live|test)_[0-9a-f]{27}`, "an API key or a client-side token; the secret key of a destination begins with pdl_ntfset_"),
		begins(`ntfset_`, "the id of a destination; its secret key begins with pdl_ntfset_"),
	},
	"github": {begins(`gh[pousr]_[0-9A-Za-z]{20}|github_pat_`, "an access token; the secret is the text that was entered with the webhook")},
	"gitlab": {begins(`gl(pat|ptt|dt|rt|oas)-`, "an access token; the secret is the webhook's secret token or signing token")},
	"linear": {begins(`lin_(api|oauth)_`, "an API key; the signing secret begins with lin_wh_")},
	"slack": {
		begins(`xox[a-z]-|xapp-|xoxe\.`, "a token; the signing secret is in the app's Basic Information"),
		begins(`https://`, "a URL; the signing secret is in the app's Basic Information"),
	},
	"shopify": {
		begins(`shp(at|ca|pa)_`, "an access token; webhooks of an app are signed with its client secret"),
	},
	"square":   {begins(`EAAA[0-9A-Za-z_-]{20}|sq0(atp|csp|idp|idb)-|sandbox-sq0`, "an access token or a credential of the application; the signature key is shown with the webhook subscription")},
	"sendgrid": {begins(`SG\.`, "an API key; the verification key is shown with the signed event webhook")},
	"mailgun":  {begins(`key-[0-9a-f]{32}$|pubkey-|[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}$`, "an API key; the HTTP webhook signing key is another")},
	"twilio": {
		begins(`(AC|SK|MG|PN)[0-9a-f]{32}$`, "an id; the auth token is beside it in the console"),
	},
	"meta":           {begins(`EAA[0-9A-Za-z]{30}|IG(QV|AA)[0-9A-Za-z]{20}|[0-9]{15,17}(\||$)`, "an access token or the app's id; the app secret is in App settings, Basic")},
	"twitter":        {begins(`A{20}`, "a bearer token; webhooks are signed with the API secret key")},
	"hubspot":        {begins(`pat-[a-z]{2}[0-9]-|[0-9a-f]{8}-na`, "an access token; webhooks are signed with the client secret of the app")},
	"typeform":       {begins(`tfp_`, "an access token; the secret is the text that was entered with the webhook")},
	"dropbox":        {begins(`sl\.[0-9A-Za-z]`, "an access token; webhooks are signed with the app secret")},
	"openai":         {begins(`sk-`, "an API key; the signing secret of a webhook begins with whsec_")},
	"resend":         {begins(`re_[0-9A-Za-z]`, "an API key; the signing secret of a webhook begins with whsec_")},
	"clerk":          {begins(`[sp]k_(live|test)_`, "an API key; the signing secret of an endpoint begins with whsec_")},
	"svix":           {begins(`testsk_|sk_[0-9A-Za-z]|ep_|app_`, "an API key or an id; the signing secret of an endpoint begins with whsec_")},
	"telegram":       {begins(`[0-9]{6,12}:[0-9A-Za-z_-]{30}`, "the token of the bot; the secret is the secret_token that setWebhook is called with")},
	"paypal":         {begins(`https://|A[0-9A-Za-z_-]{60}|E[0-9A-Za-z_-]{60}`, "a client id, a client secret or a URL; the webhook's id has 17 letters and digits")},
	"discord":        {begins(`[0-9A-Za-z_-]{20,}\.[0-9A-Za-z_-]{6}\.|[0-9]{17,20}$`, "the token of the bot or the application's id; the public key is in General Information")},
	"zoom":           {begins(`eyJ`, "an access token; the secret token is on the app's feature page")},
	"intercom":       {begins(`dG9r`, "an access token; webhooks are signed with the client secret")},
	"docusign":       {begins(`eyJ|-----BEGIN`, "a token or a key of the API; an HMAC key is made in Connect Keys")},
	"adyen":          {begins(`AQ[A-Z][0-9A-Za-z]{20}`, "an API key; the HMAC key of a webhook has hexadecimal digits only")},
	"okta":           {begins(`SSWS `, "an API token; the secret is the text that was entered with the event hook")},
	"aws-sns":        nil, // has no secret
	"plaid":          {begins(`access-(sandbox|production)-|public-`, "an access token; keys are asked for with the secret of the API")},
	"zendesk":        {begins(`eyJ|[^ ]+/token:`, "a token of the API; the signing secret is shown with the webhook")},
	"woocommerce":    {begins(`c[ks]_[0-9a-f]{40}$`, "a key of the REST API; the secret is the text that was entered with the webhook")},
	"paddle-classic": {begins(`-----BEGIN (RSA )?PRIVATE`, "a private key; the public key of the account begins with -----BEGIN PUBLIC KEY-----")},
}

// mixedUpWith says what a secret is in fact, or "".
func (p *provider) mixedUpWith(secret string) string {
	for _, l := range lookalikes[p.Name] {
		if l.begins.MatchString(secret) {
			return fmt.Sprintf("is %s", l.what)
		}
	}
	return ""
}
