package inbound_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste/inbound"
)

// unsignedBody are providers whose proof does not cover the body, with what it
// does not cover and why; all else has to be signed.
var unsignedBody = []string{"gitlab", "telegram", "okta", "microsoft-graph", "mailgun", "adyen", "aws-sns"}

// Every genuine vector becomes a forgery when a part of it changes.
func TestMutatedVectors(t *testing.T) {
	for _, v := range vectors(t) {
		if !v.Valid {
			continue
		}
		t.Run(v.Provider+"/"+v.ID, func(t *testing.T) {
			mustReject := func(what string, c inbound.Config, r *inbound.Request) {
				t.Helper()
				if outcome := receive(t, newVerifier(t, c, v.options()), r); accepted(outcome) {
					t.Errorf("%s: taken for genuine", what)
				}
			}
			if !slices.Contains(unsignedBody, v.Provider) && !isForm(v) {
				for what, change := range map[string]func([]byte) []byte{
					"a byte more": func(b []byte) []byte { return append(b, 'x') },
					"a byte less": func(b []byte) []byte { return b[:max(0, len(b)-1)] },
					"a bit flipped": func(b []byte) []byte {
						if len(b) > 0 {
							b[len(b)/2] ^= 1
						}
						return b
					},
				} {
					r := v.request()
					if r.Body = change(bytes.Clone(r.Body)); string(r.Body) != v.Body {
						mustReject(what, v.config(), r)
					}
				}
			}
			if other := otherSecret(v); other != "" {
				c := v.config()
				c.Secrets = []string{other}
				mustReject("another secret", c, v.request())
			}
			for name := range v.Headers {
				// In a list, an entry of another version may be anything.
				if !isProof(name) || v.ID == "stdwh-v1a-mixed" || v.ID == "stripe-official" {
					continue
				}
				for _, value := range []string{"", "x", v.Headers[name] + "0", "0" + v.Headers[name], strings.ToUpper(v.Headers[name][:len(v.Headers[name])/2])} {
					r := v.request()
					r.Header.Set(name, value)
					mustReject(name+" changed to "+value, v.config(), r)
				}
				r := v.request()
				r.Header.Del(name)
				mustReject(name+" removed", v.config(), r)
			}
		})
	}
}

func isForm(v vector) bool {
	return strings.Contains(v.Headers["Content-Type"], "form") && v.Provider != "slack"
}

// isProof tells headers that prove something from those that only inform.
func isProof(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, "x-amz") || name == "x-hub-signature" || name == "x-gitlab-event" || strings.HasSuffix(name, "version") || strings.HasSuffix(name, "settings") ||
		strings.HasPrefix(name, "x-docusign") || name == "linear-timestamp" {
		return false
	}
	for _, part := range []string{"signature", "hmac", "token", "timestamp", "authorization", "verification", "transmission"} {
		if strings.Contains(name, part) {
			return name != "x-authorization-digest"
		}
	}
	return false
}

// otherSecret returns another secret of the same kind among the vectors, or "".
func otherSecret(v vector) string {
	switch v.Provider {
	case "standard-webhooks", "svix", "clerk":
		if strings.HasPrefix(v.Secret, "whpk_") {
			return "whpk_" + strings.Repeat("A", 43) + "="
		}
		return "whsec_" + strings.Repeat("A", 32)
	case "adyen":
		return strings.Repeat("0a", 32)
	case "discord":
		return strings.Repeat("0a", 32)
	case "sendgrid", "paddle-classic", "plaid", "aws-sns":
		return ""
	case "telegram":
		return v.Secret + "x"
	}
	return v.Secret + "!"
}

// Any of several secrets may match, in any place.
func TestSeveralSecrets(t *testing.T) {
	for _, v := range vectors(t) {
		other := otherSecret(v)
		if !v.Valid || other == "" {
			continue
		}
		for _, secrets := range [][]string{{other, v.Secret}, {v.Secret, other}} {
			c := v.config()
			c.Secrets = secrets
			if outcome := receive(t, newVerifier(t, c, v.options()), v.request()); !accepted(outcome) {
				t.Errorf("%s: %+v", v.ID, outcome.Rejection)
			}
		}
	}
}

// A header that is there twice: of signatures any may match, of what is signed
// along there may be one only.
func TestRepeatedHeaders(t *testing.T) {
	for _, v := range vectors(t) {
		if !v.Valid {
			continue
		}
		for name, value := range v.Headers {
			lower := strings.ToLower(name)
			wrong := strings.Repeat("0", len(value))
			switch {
			case lower == "webhook-id" || strings.HasSuffix(lower, "-timestamp") && lower != "linear-timestamp" || lower == "paypal-transmission-id":
				for _, values := range [][]string{{value, wrong}, {wrong, value}} {
					r := v.request()
					r.Header[http.CanonicalHeaderKey(name)] = values
					if accepted(receive(t, newVerifier(t, v.config(), v.options()), r)) {
						t.Errorf("%s: two values of %s were taken", v.ID, name)
					}
				}
				fallthrough
			case isProof(name):
				r := v.request()
				r.Header.Add(name, value)
				if outcome := receive(t, newVerifier(t, v.config(), v.options()), r); !accepted(outcome) {
					t.Errorf("%s: the same value of %s twice: %+v", v.ID, name, outcome.Rejection)
				}
			}
			if strings.Contains(lower, "signature") && isProof(name) && v.Provider != "paypal" {
				r := v.request()
				r.Header[http.CanonicalHeaderKey(name)] = []string{wrong, value}
				if strings.HasSuffix(lower, "timestamp") {
					continue
				}
				if outcome := receive(t, newVerifier(t, v.config(), v.options()), r); !accepted(outcome) {
					t.Errorf("%s: a wrong %s before the right one: %+v", v.ID, name, outcome.Rejection)
				}
			}
		}
	}
}

// The Host of a request has no say, whatever it claims.
func TestHostIsNeverUsed(t *testing.T) {
	v := vectorNamed(t, "square-official")
	c := v.config()
	c.Settings["public_url"] = "https://elsewhere.example/in/src_1"
	r := v.request()
	r.URL.Scheme, r.URL.Host = "https", "webhook.site"
	r.Header.Set("X-Forwarded-Host", "webhook.site")
	r.Header.Set("Host", "webhook.site")
	outcome := receive(t, newVerifier(t, c, v.options()), r)
	if accepted(outcome) {
		t.Fatal("the signature for another URL than the configured one was taken")
	}
}
