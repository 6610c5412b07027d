package inbound_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/inbound"
)

func TestNewListsEveryProblem(t *testing.T) {
	url := map[string]string{"public_url": "https://hooks.example.com/in/src_1"}
	for name, c := range map[string]struct {
		config inbound.Config
		want   []string
	}{
		"no provider":      {inbound.Config{}, []string{"provider is missing"}},
		"unknown provider": {inbound.Config{Provider: "strip"}, []string{"provider is not a provider that is known"}},
		"no secret":        {inbound.Config{Provider: "stripe"}, []string{"secrets is empty"}},
		"all at once": {inbound.Config{Provider: "meta", Secrets: []string{"ok", "", " x"}, Settings: map[string]string{"tolerance": "5m"}},
			[]string{"secrets[1] is empty", "secrets[2] has white space", "settings.verify_token is missing", "settings.tolerance is not a setting of Meta"}},
		"too many secrets":      {inbound.Config{Provider: "stripe", Secrets: slices.Repeat([]string{"x"}, 17)}, []string{"secrets has more than 16"}},
		"a long secret":         {inbound.Config{Provider: "stripe", Secrets: []string{strings.Repeat("x", 9000)}}, []string{"secrets[0] is longer than"}},
		"a secret for none":     {inbound.Config{Provider: "none", Secrets: []string{"x"}}, []string{"secrets has a secret that"}},
		"whsec_ without base64": {inbound.Config{Provider: "svix", Secrets: []string{"whsec_%"}}, []string{`secrets[0] is not base64 after "whsec_"`}},
		"a path with brackets":  {inbound.Config{Provider: "none", Settings: map[string]string{"id_path": "events[0].id"}}, []string{"settings.id_path has brackets in it"}},
		"a JSONPath":            {inbound.Config{Provider: "none", Settings: map[string]string{"type_path": "$.type"}}, []string{"settings.type_path is a JSONPath"}},
		"an empty name":         {inbound.Config{Provider: "none", Settings: map[string]string{"type_path": "a..b"}}, []string{"settings.type_path has an empty name"}},
		"a short public key":    {inbound.Config{Provider: "discord", Secrets: []string{"abcd"}}, []string{"secrets[0] is not an ed25519 public key"}},
		"no SPKI":               {inbound.Config{Provider: "sendgrid", Secrets: []string{"abcd"}}, []string{"secrets[0] is not an ECDSA public key"}},
		"no PEM":                {inbound.Config{Provider: "paddle-classic", Secrets: []string{"abcd"}}, []string{"secrets[0] is not a public key in PEM"}},
		"no hex":                {inbound.Config{Provider: "adyen", Secrets: []string{"xyz"}}, []string{"secrets[0] is not hexadecimal"}},
		"no password":           {inbound.Config{Provider: "basic", Secrets: []string{"user"}}, []string{"secrets[0] is not USER:PASSWORD"}},
		"no token of Telegram":  {inbound.Config{Provider: "telegram", Secrets: []string{"a b"}}, []string{"secrets[0] is no secret_token"}},
		"a bad JWK":             {inbound.Config{Provider: "plaid", Secrets: []string{"{"}}, []string{"secrets[0] begins like a key"}},
		"plaid, no client":      {inbound.Config{Provider: "plaid", Secrets: []string{"x"}}, []string{"settings.client_id is missing"}},
		"tolerance":             {inbound.Config{Provider: "stripe", Secrets: []string{"x"}, Settings: map[string]string{"tolerance": "5"}}, []string{"settings.tolerance is not a duration"}},
		"a long tolerance":      {inbound.Config{Provider: "stripe", Secrets: []string{"x"}, Settings: map[string]string{"tolerance": "200h"}}, []string{"settings.tolerance is not between"}},
		"no URL":                {inbound.Config{Provider: "square", Secrets: []string{"x"}}, []string{"settings.public_url is missing"}},
		"a bad URL":             {inbound.Config{Provider: "twilio", Secrets: []string{"x"}, Settings: map[string]string{"public_url": "hooks.example.com"}}, []string{"settings.public_url is not a URL"}},
		"a URL with a user":     {inbound.Config{Provider: "twilio", Secrets: []string{"x"}, Settings: map[string]string{"public_url": "https://a:b@c.example"}}, []string{"settings.public_url has a user name"}},
		"a value of none":       {inbound.Config{Provider: "hubspot", Secrets: []string{"x"}, Settings: map[string]string{"public_url": url["public_url"], "versions": "v2"}}, []string{"settings.versions is none of the values"}},
		"a bad header":          {inbound.Config{Provider: "okta", Secrets: []string{"x"}, Settings: map[string]string{"header": "X Y"}}, []string{"settings.header is not the name of a header"}},
		"hmac, no header":       {inbound.Config{Provider: "hmac", Secrets: []string{"x"}}, []string{"settings.header is missing"}},
		"hmac, all at once": {inbound.Config{Provider: "hmac", Secrets: []string{"x"}, Settings: map[string]string{"header": "X", "key_encoding": "hex", "template": "{id}.{timestamp}.{url}.{what}"}},
			[]string{"settings.template has a placeholder", "settings.template leaves out {body}", "settings.template and timestamp_header", "settings.id_header is missing", "settings.public_url is missing", "secrets[0] is not hexadecimal"}},
		"hmac, unsigned time": {inbound.Config{Provider: "hmac", Secrets: []string{"x"}, Settings: map[string]string{"header": "X", "timestamp_header": "Y"}}, []string{"settings.template and timestamp_header"}},
	} {
		_, err := inbound.New(c.config, inbound.Options{})
		e, ok := errors.AsType[*posthaste.Error](err)
		if !ok || e.Code != posthaste.CodeInvalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, p := range e.Problems {
			got = append(got, p.Field+" "+p.Message)
		}
		matches := len(got) == len(c.want)
		for i := range min(len(got), len(c.want)) {
			matches = matches && strings.HasPrefix(got[i], c.want[i])
		}
		if !matches {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for _, secret := range c.config.Secrets {
			if len(secret) > 3 && strings.Contains(fmt.Sprintf("%+v", e), secret) {
				t.Errorf("%s: the error holds the secret", name)
			}
		}
	}
}

// Another credential of the provider, given as a secret, is recognised by how it begins.
func TestMixedUpSecrets(t *testing.T) {
	hexDigits, letters := strings.Repeat("0a", 16), strings.Repeat("Ab1", 30)
	for provider, secrets := range map[string][]string{
		"stripe": {"sk_live_" + letters, "pk_test_" + letters, "rk_live_" + letters, "we_1MxxxxxxxxxxxxA"}, "paddle-billing": {"pdl_live_apikey_" + letters, "ntfset_01"},
		"github": {"ghp_" + letters, "github_pat_" + letters}, "gitlab": {"glpat-" + letters}, "linear": {"lin_api_" + letters}, "slack": {"xoxb-1-2", "xapp-1"},
		"shopify": {"shpat_" + hexDigits}, "square": {"EAAA" + letters, "sq0csp-x"}, "sendgrid": {"SG.x.y"}, "mailgun": {"key-" + hexDigits}, "twilio": {"AC" + hexDigits, "SK" + hexDigits},
		"meta": {"EAA" + letters, "123456789012345"}, "twitter": {strings.Repeat("A", 24)}, "hubspot": {"pat-na1-x"}, "typeform": {"tfp_x"}, "dropbox": {"sl.B"},
		"openai": {"sk-proj-x"}, "resend": {"re_123"}, "clerk": {"sk_test_x"}, "svix": {"ep_1"}, "telegram": {"123456789:" + letters[:35]}, "paypal": {"A" + letters},
		"zoom": {"eyJhbGciOi"}, "adyen": {"AQE" + letters}, "woocommerce": {"ck_" + hexDigits + "00000000"}, "plaid": {"access-sandbox-x"},
	} {
		for _, secret := range secrets {
			settings := map[string]string{"meta": "verify_token", "square": "public_url", "twilio": "public_url", "hubspot": "public_url", "plaid": "client_id"}
			c := inbound.Config{Provider: provider, Secrets: []string{secret}, Settings: map[string]string{}}
			if name := settings[provider]; name != "" {
				c.Settings[name] = "https://hooks.example.com"
			}
			_, err := inbound.New(c, inbound.Options{})
			e, ok := errors.AsType[*posthaste.Error](err)
			if !ok || len(e.Problems) != 1 || e.Problems[0].Field != "secrets[0]" || !strings.Contains(e.Problems[0].Message, ";") || strings.Contains(fmt.Sprintf("%+v", e), secret) {
				t.Errorf("%s with %.12s…: %v", provider, secret, err)
			}
		}
	}
	// The version that some show before a secret is no part of it.
	for _, provider := range []string{"standard-webhooks", "svix", "clerk", "gitlab"} {
		newVerifier(t, inbound.Config{Provider: provider, Secrets: []string{"v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}, inbound.Options{})
	}
	v := vectorNamed(t, "stdwh-v1-official")
	c := v.config()
	c.Secrets[0] = "v1," + c.Secrets[0]
	if outcome := receive(t, newVerifier(t, c, v.options()), v.request()); !accepted(outcome) {
		t.Errorf("%+v", outcome)
	}
}

// Each provider says what a reader of the reference and a form needs.
func TestProvidersAreDescribed(t *testing.T) {
	list := inbound.Providers()
	if len(list) < 40 {
		t.Fatalf("only %d providers", len(list))
	}
	seen := map[string]bool{}
	for _, p := range list {
		texts := []string{p.Name, p.Title, p.Signature, p.Types, p.DeliveryID, p.Retries}
		if slices.Contains(texts, "") || len(p.Setup) == 0 || p.Success.Status/100 != 2 || seen[p.Name] {
			t.Errorf("%q is not described, or there twice", p.Name)
		}
		seen[p.Name] = true
		if p.NeedSecret && p.Secret == "" || posthaste.ValidateType("", p.Name+".x") != nil {
			t.Errorf("%s: no word of its secret, or a name that no type can begin with", p.Name)
		}
		if !strings.Contains(p.Types, p.Name+".") && !strings.Contains(p.Types, p.Name) {
			t.Errorf("%s: no example of a type", p.Name)
		}
		for _, s := range p.Settings {
			if s.Name == "" || s.Meaning == "" || s.Values != nil && !slices.Contains(s.Values, s.Default) {
				t.Errorf("%s: setting %q is not described", p.Name, s.Name)
			}
		}
		if one, ok := inbound.ProviderNamed(p.Name); !ok || one.Title != p.Title {
			t.Errorf("%s is not found by its name", p.Name)
		}
	}
	for _, v := range vectors(t) {
		if !seen[v.Provider] {
			t.Errorf("there are vectors of %s, which is no provider", v.Provider)
		}
	}
}

func TestSecretHeaders(t *testing.T) {
	for _, c := range []struct {
		config inbound.Config
		want   string
	}{
		{inbound.Config{Provider: "github", Secrets: []string{"x"}}, ""},
		{inbound.Config{Provider: "gitlab", Secrets: []string{"x"}}, "X-Gitlab-Token"},
		{inbound.Config{Provider: "telegram", Secrets: []string{"x"}}, "X-Telegram-Bot-Api-Secret-Token"},
		{inbound.Config{Provider: "api-key", Secrets: []string{"x"}}, "X-Api-Key"},
		{inbound.Config{Provider: "api-key", Secrets: []string{"x"}, Settings: map[string]string{"header": "x-my-key"}}, "X-My-Key"},
		{inbound.Config{Provider: "okta", Secrets: []string{"x"}, Settings: map[string]string{"header": "x-okta"}}, "X-Okta"},
		{inbound.Config{Provider: "basic", Secrets: []string{"a:b"}}, "Authorization"},
	} {
		got := newVerifier(t, c.config, inbound.Options{}).SecretHeaders()
		if !slices.Contains(got, "Authorization") || c.want != "" && !slices.Contains(got, c.want) || !slices.Contains(got, "X-Gitlab-Token") {
			t.Errorf("%s: %q", c.config.Provider, got)
		}
	}
}
