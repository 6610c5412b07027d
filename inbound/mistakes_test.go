package inbound_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/inbound"
)

// What typically goes wrong between a provider and a source, each with what is told of
// it. None of them is told as nothing but a wrong secret.
func TestTypicalMistakes(t *testing.T) {
	const now = 1700000000
	github := inbound.Config{Provider: "github", Secrets: []string{"secret"}}
	stripe := inbound.Config{Provider: "stripe", Secrets: []string{"whsec_secret"}}
	square := inbound.Config{Provider: "square", Secrets: []string{"secret"}, Settings: map[string]string{"public_url": "https://hooks.example.com/in/src_1"}}
	svix := inbound.Config{Provider: "svix", Secrets: []string{"whsec_c2VjcmV0c2VjcmV0c2VjcmV0"}}
	own := func(settings map[string]string, secret string) inbound.Config {
		settings["header"] = "X-Sig"
		return inbound.Config{Provider: "hmac", Secrets: []string{secret}, Settings: settings}
	}
	inHex := hex.EncodeToString
	in64 := base64.StdEncoding.EncodeToString
	bySecret := func(secret, signed string) http.Header {
		return http.Header{"X-Hub-Signature-256": {"sha256=" + inHex(sum(secret, signed))}}
	}
	byGitHub := func(signed string) http.Header { return bySecret("secret", signed) }
	byStripe := func(at, signed string) http.Header {
		return http.Header{"Stripe-Signature": {"t=" + at + ",v1=" + inHex(sum("whsec_secret", at, ".", signed))}}
	}
	bySquare := func(address string) http.Header {
		return http.Header{"X-Square-Hmacsha256-Signature": {in64(sum("secret", address, "{}"))}}
	}
	bySvix := func(key string) http.Header {
		return http.Header{"Svix-Id": {"m"}, "Svix-Timestamp": {"1700000000"}, "Svix-Signature": {"v1," + in64(sum(key, "m.1700000000.{}"))}}
	}
	inJSON := func(text string) string {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(quoted)
	}
	mistakes := []struct {
		name   string
		config inbound.Config
		header http.Header
		body   string
		reason inbound.Reason
		told   string
	}{
		{"no signature at all", github, http.Header{}, "{}", inbound.ReasonMissingHeader, "X-Hub-Signature-256 is missing"},
		{"another provider's URL", github, byStripe("1700000000", "{}"), "{}", inbound.ReasonWrongHeader, "as Stripe does"},
		{"the old signature alone", github, http.Header{"X-Hub-Signature": {"sha1=00"}}, "{}", inbound.ReasonWrongHeader, "old header"},
		{"no prefix", github, http.Header{"X-Hub-Signature-256": {inHex(sum("secret", "{}"))}}, "{}", inbound.ReasonMalformedHeader, "it should read sha256=HEX"},
		{"base64 for hexadecimal", github, http.Header{"X-Hub-Signature-256": {"sha256=" + in64(sum("secret", "{}"))}}, "{}", inbound.ReasonMalformedHeader, "sha256=HEX"},
		{"a signature cut short", github, http.Header{"X-Hub-Signature-256": {"sha256=abcd"}}, "{}", inbound.ReasonMalformedHeader, "not the length"},
		{"an old request", stripe, byStripe("1699990000", "{}"), "{}", inbound.ReasonStaleTimestamp, "before the request"},
		{"a clock that is behind", stripe, byStripe("1700009000", "{}"), "{}", inbound.ReasonStaleTimestamp, "in the future"},
		{"milliseconds for seconds", stripe, byStripe("1700000000000", "{}"), "{}", inbound.ReasonMalformedHeader, "not a number of seconds"},
		{"minified", github, byGitHub(`{"a": 1, "b": "x"}`), `{"a":1,"b":"x"}`, inbound.ReasonBodyChanged, "a blank after each colon"},
		{"white space added", github, byGitHub(`{"a":1}`), `{ "a" : 1 }`, inbound.ReasonBodyChanged, "without white space"},
		{"indentation removed", github, byGitHub("{\n  \"a\": 1\n}"), `{"a":1}`, inbound.ReasonBodyChanged, "two blanks"},
		{"indentation of PHP removed", github, byGitHub("{\n    \"a\": \"x\\/y\"\n}"), `{"a":"x/y"}`, inbound.ReasonBodyChanged, "four blanks"},
		{"tabs removed", github, byGitHub("{\n\t\"a\": 1\n}"), `{"a":1}`, inbound.ReasonBodyChanged, "tabs"},
		{`\/ undone`, github, byGitHub(`{"a":"x\/y"}`), `{"a":"x/y"}`, inbound.ReasonBodyChanged, "escapes for /"},
		{`\/ undone, beside an umlaut`, github, byGitHub(`{"a":"x\/ü"}`), `{"a":"x/ü"}`, inbound.ReasonBodyChanged, "escapes for /"},
		{`\u0040 undone`, github, byGitHub(`{"a":"x\u0040y"}`), `{"a":"x@y"}`, inbound.ReasonBodyChanged, "escapes for @"},
		{`\u0040 and \/ undone`, github, byGitHub(`{"a":"x\u0040y\/z"}`), `{"a":"x@y/z"}`, inbound.ReasonBodyChanged, "@"},
		{`\u0040 undone, beside an umlaut`, github, byGitHub(`{"a":"x\u0040\u00fc"}`), `{"a":"x@ü"}`, inbound.ReasonBodyChanged, "@"},
		{"umlauts written out", github, byGitHub(`{"a":"\u00fc"}`), `{"a":"ü"}`, inbound.ReasonBodyChanged, "everything but ASCII"},
		{"umlauts written out, of Python", github, byGitHub(`{"a": "\u00fc", "b": 1}`), `{"a":"ü","b":1}`, inbound.ReasonBodyChanged, "everything but ASCII"},
		{"umlauts escaped", github, byGitHub(`{"a":"ü"}`), `{"a":"\u00fc"}`, inbound.ReasonBodyChanged, "without white space"},
		{"escapes of HTML undone", github, byGitHub(`{"a":"\u003cb\u003e \u0026"}`), `{"a":"<b> &"}`, inbound.ReasonBodyChanged, "<, > and &"},
		{"escapes of Gson undone", github, byGitHub(`{"a":"x\u003dy\u0027"}`), `{"a":"x=y'"}`, inbound.ReasonBodyChanged, "Gson"},
		{"escapes of .NET undone", github, byGitHub(`{"a":"\u0022\u00FC\u002B"}`), `{"a":"\"ü+"}`, inbound.ReasonBodyChanged, ".NET"},
		{"decompressed", github, byGitHub(`{"a":1}`), string(gzipped(`{"a":1}`)), inbound.ReasonBodyChanged, "before its content encoding"},
		{"a line break removed", github, byGitHub("{}\n"), "{}", inbound.ReasonBodyChanged, "line break"},
		{"a line break added", github, byGitHub("{}"), "{}\r\n", inbound.ReasonBodyChanged, "white space around"},
		{"line breaks changed", github, byGitHub("{\r\n}"), "{\n}", inbound.ReasonBodyChanged, "CR and LF"},
		{"a byte order mark", github, byGitHub("{}"), "\ufeff{}", inbound.ReasonBodyChanged, "byte order mark"},
		{"another character encoding", github, byGitHub("{\"a\":\"\xfc\"}"), `{"a":"ü"}`, inbound.ReasonBodyChanged, "Latin-1"},
		{"base64 of a gateway", github, byGitHub(`{"a":1}`), in64([]byte(`{"a":1}`)), inbound.ReasonBodyChanged, "base64"},
		{"JSON in JSON", github, byGitHub(`{"a":1}`), inJSON(`{"a":1}`), inbound.ReasonBodyChanged, "JSON string"},
		{"JSON put into a form", github, byGitHub(`{"a":1}`), "payload=" + url.QueryEscape(`{"a":1}`), inbound.ReasonBodyChanged, "field payload"},
		{"blanks of a form", github, byGitHub("a=b+c"), "a=b%20c", inbound.ReasonBodyChanged, "+ for blanks"},
		{"escapes of a form", github, byGitHub("a=%c3%bc"), "a=%C3%BC", inbound.ReasonBodyChanged, "small letters"},
		{"a body where none was", github, byGitHub(""), "null", inbound.ReasonBodyChanged, "empty"},
		{"the body dropped", github, byGitHub("{}"), "", inbound.ReasonWrongSecret, "dropped it"},
		{"the body cut short", github, byGitHub(`{"a":[1,2]}`), `{"a":[1`, inbound.ReasonWrongSecret, "cut short"},
		{"characters replaced", github, byGitHub(`{"a":"ü"}`), "{\"a\":\"\ufffd\"}", inbound.ReasonWrongSecret, "character encoding"},
		{"http for https", square, bySquare("http://hooks.example.com/in/src_1"), "{}", inbound.ReasonWrongURL, "http://"},
		{"a slash at the end", square, bySquare("https://hooks.example.com/in/src_1/"), "{}", inbound.ReasonWrongURL, "src_1/"},
		{"a port in the URL", square, bySquare("https://hooks.example.com:443/in/src_1"), "{}", inbound.ReasonWrongURL, ":443"},
		{"the secret as text", svix, bySvix("whsec_c2VjcmV0c2VjcmV0c2VjcmV0"), "{}", inbound.ReasonWrongSecret, "as text, whole"},
		{"the secret without its prefix", svix, bySvix("c2VjcmV0c2VjcmV0c2VjcmV0"), "{}", inbound.ReasonWrongSecret, "without its prefix"},
		{"the secret decoded", inbound.Config{Provider: "github", Secrets: []string{"c2VjcmV0"}}, byGitHub("{}"), "{}", inbound.ReasonWrongSecret, "decoded from base64"},
		{"the secret in hexadecimal", inbound.Config{Provider: "github", Secrets: []string{inHex([]byte("secret"))}}, byGitHub("{}"), "{}", inbound.ReasonWrongSecret, "hexadecimal"},
		{"the secret with a line break", github, bySecret("secret\n", "{}"), "{}", inbound.ReasonWrongSecret, "line break"},
		{"hmac, base64 for hex", own(map[string]string{}, "secret"), http.Header{"X-Sig": {in64(sum("secret", "{}"))}}, "{}", inbound.ReasonWrongSettings, "encoding to base64"},
		{"hmac, the key in base64", own(map[string]string{}, in64([]byte("secret"))), http.Header{"X-Sig": {inHex(sum("secret", "{}"))}}, "{}", inbound.ReasonWrongSettings, "key_encoding to base64"},
		{"hmac, a prefix", own(map[string]string{}, "secret"), http.Header{"X-Sig": {"sha256=" + inHex(sum("secret", "{}"))}}, "{}", inbound.ReasonWrongSettings, `prefix to "sha256="`},
		{"hmac, another template", own(map[string]string{"timestamp_header": "X-Time", "template": "{timestamp}.{body}"}, "secret"),
			http.Header{"X-Time": {"1700000000"}, "X-Sig": {inHex(sum("secret", "v0:1700000000:{}"))}}, "{}", inbound.ReasonWrongSettings, "template to v0:{timestamp}:{body}"},
		{"hmac, a missing timestamp", own(map[string]string{"timestamp_header": "X-Time", "template": "{timestamp}.{body}"}, "secret"),
			http.Header{"X-Sig": {inHex(sum("secret", "{}"))}}, "{}", inbound.ReasonMissingHeader, "X-Time is missing"},
	}
	if len(mistakes) < 33 {
		t.Fatalf("only %d mistakes", len(mistakes))
	}
	for _, m := range mistakes {
		r := &inbound.Request{Method: http.MethodPost, URL: &url.URL{Path: "/in/src_1"}, Header: m.header, Body: []byte(m.body), At: time.Unix(now, 0)}
		outcome := receive(t, newVerifier(t, m.config, inbound.Options{}), r)
		got := outcome.Rejection
		if outcome.Kind != inbound.KindRejected || got.Reason != m.reason || !strings.Contains(got.Text+" "+got.Hint, m.told) {
			t.Errorf("%s: %s %+v, want %s with %q", m.name, outcome.Kind, got, m.reason, m.told)
		}
		if string(r.Body) != m.body || outcome.Answer.Status != http.StatusUnauthorized {
			t.Errorf("%s: the body was changed, or the answer is %d", m.name, outcome.Answer.Status)
		}
	}
}

// One diagnosis is bounded in how often it hashes and in what it takes, whatever a body
// of the largest size that is diagnosed holds.
func TestADiagnosisCosts(t *testing.T) {
	const largest = 64 << 10
	bodies := hostileBodies()
	strangers(t, func(name string, v vector, newRequest func([]byte) *inbound.Request) {
		if !slices.Contains([]string{"github", "hmac", "hubspot", "standard-webhooks"}, name) {
			return
		}
		verifier := newVerifier(t, v.config(), v.options())
		for what, body := range bodies {
			c, _ := costOf(t, verifier, newRequest(body[:largest]))
			if c.hashed > 400*largest || c.passes > 1000 {
				t.Errorf("%s, %s: %d MiB were hashed in %d passes", name, what, c.hashed>>20, c.passes)
			}
		}
	})
}
