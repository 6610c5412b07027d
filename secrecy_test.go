package posthaste_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste"
)

func TestHoldsCredentials(t *testing.T) {
	for _, name := range []string{
		"Authorization", "proxy-authorization", "Cookie", "Set-Cookie", "Authentication-Info", "X-Api-Key", "X_API_KEY", "apikey",
		"X-Shared-Key", "X-Auth", "X-Auth-Key", "Ocp-Apim-Subscription-Key", "X-Functions-Key", "X-Gitlab-Token", "X-Session", "X-Auth-Token",
		"X-Amz-Security-Token", "Client-Secret", "X-Password", "X-Credential-Id", "access_token", "X-JWT",
	} {
		if !posthaste.HoldsCredentials(name) {
			t.Errorf("%s is shown", name)
		}
	}
	for _, name := range []string{
		"", "Content-Type", "WWW-Authenticate", "Idempotency-Key", "X-Trace", "Retry-After", "X-Author", "X-Monkey", "Keyboard", "X-Key-Count",
		"X-GitHub-Event", "Stripe-Signature", "Date", "Server", "Surrogate-Key",
	} {
		if posthaste.HoldsCredentials(name) {
			t.Errorf("%s is masked", name)
		}
	}
}

func TestMaskURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://h/x":                                    "https://h/x",
		"https://h/x?a=b&c":                              "https://h/x?a=b&c",
		"https://h/x?token=abc&a=b":                      "https://h/x?token=***&a=b",
		"https://h/?code=abc":                            "https://h/?code=***",
		"https://h/?api%5Fkey=abc#access_token=d&e=f":    "https://h/?api%5Fkey=***#access_token=***&e=f",
		"https://user:pw@h:8/x@y?z=1":                    "https://***@h:8/x@y?z=1",
		"https://pw@h":                                   "https://***@h",
		"https://h/a:b@c":                                "https://h/a:b@c",
		"https://h/?%zz=abc&x=y":                         "https://h/?%zz=***&x=y",
		"https://h/?X-Amz-Signature=a&X-Amz-Date=b":      "https://h/?X-Amz-Signature=***&X-Amz-Date=b",
		"http://127.0.0.1:1/x?token=&page=2&key=k&sig=s": "http://127.0.0.1:1/x?token=&page=2&key=***&sig=***",
	} {
		got := posthaste.MaskURL(raw)
		if got != want || posthaste.MaskURL(got) != got {
			t.Errorf("%s is shown as %s, want %s", raw, got, want)
		}
		d := posthaste.DefaultDefinition()
		d.URL = got
		refused := slices.ContainsFunc(d.Validate(posthaste.DefinitionRules{}), func(p posthaste.Problem) bool {
			return p.Field == "url" && strings.Contains(p.Message, "masked")
		})
		if refused != strings.Contains(got, posthaste.Masked) {
			t.Errorf("%s as the URL of an endpoint: refused %t", got, refused)
		}
	}
}

func TestSealedHeader(t *testing.T) {
	s := posthaste.SealedHeader{KeyID: "0123456789abcdef", Fingerprint: "01234567", Sealed: []byte("\x00\x01.\xff")}
	if got, ok := posthaste.ParseSealedHeader(s.String()); !ok || got.KeyID != s.KeyID || got.Fingerprint != s.Fingerprint || string(got.Sealed) != string(s.Sealed) {
		t.Errorf("%+v, %t", got, ok)
	}
	for _, value := range []string{"", "Bearer x", "\x01", "\x01a.b", "\x01a.b.!", "a.b.YQ"} {
		if _, ok := posthaste.ParseSealedHeader(value); ok {
			t.Errorf("%q is taken for sealed", value)
		}
	}
}

// Credentials among the plain headers are refused with the place where they belong.
func TestCredentialsBelongIntoSecretHeaders(t *testing.T) {
	d := posthaste.DefaultDefinition()
	d.URL = "https://example.com/"
	d.Headers = map[string]string{"Authorization": "Bearer abc", "X-Tenant": "7"}
	problems := d.Validate(posthaste.DefinitionRules{})
	if len(problems) != 1 || problems[0].Field != "headers.Authorization" || !strings.Contains(problems[0].Hint, "secret_headers") {
		t.Errorf("%+v", problems)
	}
	d.Headers, d.SecretHeaders = map[string]string{"X-Tenant": "7"}, map[string]string{"Authorization": "Bearer abc", "x-tenant": "8"}
	problems = d.Validate(posthaste.DefinitionRules{})
	if len(problems) != 1 || problems[0].Field != "secret_headers.x-tenant" {
		t.Errorf("%+v", problems)
	}
	d.SecretHeaders = map[string]string{"Authorization": "a\r\nb", "Webhook-Id": "x"}
	if problems = d.Validate(posthaste.DefinitionRules{}); len(problems) != 2 {
		t.Errorf("%+v", problems)
	}
}
