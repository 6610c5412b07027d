package inbound_test

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/inbound"
)

func sum(secret string, parts ...string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(strings.Join(parts, "")))
	return h.Sum(nil)
}

// signedGitHub is a genuine request of GitHub.
func signedGitHub(body string) *inbound.Request {
	return &inbound.Request{Method: http.MethodPost, URL: &url.URL{Path: "/in/src_1"}, Body: []byte(body), At: time.Now(), Header: http.Header{
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(sum("secret", body))},
		"X-Github-Event":      {"issues"}, "X-Github-Delivery": {"guid-1"}, "Content-Type": {"application/json"},
	}}
}

// What a proxy does to a body is found out.
func TestDiagnosisOfChangedBodies(t *testing.T) {
	v := newVerifier(t, inbound.Config{Provider: "github", Secrets: []string{"secret"}}, inbound.Options{})
	for name, c := range map[string]struct{ signed, arrived, want string }{
		"minified":            {`{"a":1,"b":["ä"]}`, "{\"a\": 1, \"b\": [\"ä\"] }", "without white space"},
		"indented":            {"{\n  \"a\": [\n    1,\n    {}\n  ]\n}", `{"a":[1,{}]}`, "indented by two blanks"},
		"indented by four":    {"{\n    \"a\": 1\n}", `{"a":1}`, "indented by four blanks"},
		"spaced":              {`{"a": 1, "b": 2}`, `{"a":1,"b":2}`, "a blank after each colon"},
		"escapes decoded":     {`{"a":"\u00e4\ud83d\ude00"}`, `{"a":"ä😀"}`, "escapes for everything but ASCII"},
		"HTML escapes":        {`{"a":"\u003cb\u003e"}`, `{"a":"<b>"}`, "escapes for <, > and &"},
		"escapes made":        {`{"a":"ä"}`, `{"a":"\u00e4"}`, "without white space"},
		"trimmed":             {"{}\n", "{}", "line break at its end"},
		"line break added":    {"{}", "{}\n", "without the white space around it"},
		"line breaks changed": {"{\r\n}", "{\n}", "CR and LF"},
		"byte order mark":     {`{"a":1}`, "\ufeff" + `{"a":1}`, "byte order mark"},
	} {
		r := signedGitHub(c.signed)
		r.Body = []byte(c.arrived)
		outcome := receive(t, v, r)
		if outcome.Rejection.Reason != inbound.ReasonBodyChanged || !strings.Contains(outcome.Rejection.Text, c.want) {
			t.Errorf("%s: %+v, want %q", name, outcome.Rejection, c.want)
		}
		if !bytes.Equal(r.Body, []byte(c.arrived)) {
			t.Errorf("%s: the request's body was changed to %q", name, r.Body)
		}
	}
}

func gzipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text))
	w.Close()
	return b.Bytes()
}

// A compressed body is verified as it came, and read as what it stands for. One
// that was compressed on the way is found out.
func TestCompressedBodies(t *testing.T) {
	v := newVerifier(t, inbound.Config{Provider: "github", Secrets: []string{"secret"}}, inbound.Options{})
	packed := string(gzipped(`{"action":"opened"}`))
	r := signedGitHub(packed)
	r.Header.Set("Content-Encoding", "gzip")
	if outcome := receive(t, v, r); outcome.Event.Type != "github.issues.opened" || outcome.Event.Malformed {
		t.Errorf("signed compressed: %+v", outcome)
	}
	r = signedGitHub(`{"action":"opened"}`)
	r.Header.Set("Content-Encoding", "gzip")
	r.Body = []byte(packed)
	if outcome := receive(t, v, r); outcome.Rejection.Reason != inbound.ReasonBodyChanged || !strings.Contains(outcome.Rejection.Text, "before its content encoding") {
		t.Errorf("compressed after signing: %+v", outcome.Rejection)
	}
	r = signedGitHub("no gzip at all")
	r.Header.Set("Content-Encoding", "gzip")
	if outcome := receive(t, v, r); outcome.Event.Type != "github.malformed" || !outcome.Event.Malformed {
		t.Errorf("not compressed: %+v", outcome)
	}
}

func TestDiagnosis(t *testing.T) {
	github := inbound.Config{Provider: "github", Secrets: []string{"secret"}}
	stripe := inbound.Config{Provider: "stripe", Secrets: []string{"secret"}}
	gitlab := inbound.Config{Provider: "gitlab", Secrets: []string{"token"}}
	square := inbound.Config{Provider: "square", Secrets: []string{"secret"}, Settings: map[string]string{"public_url": "https://hooks.example.com/in/src_1"}}
	squareSigned := func(address string) http.Header {
		return http.Header{"X-Square-Hmacsha256-Signature": {base64.StdEncoding.EncodeToString(sum("secret", address, "{}"))}}
	}
	for name, c := range map[string]struct {
		config inbound.Config
		header http.Header
		want   inbound.Reason
		text   string // part of text or hint
	}{
		"no signature":             {github, http.Header{}, inbound.ReasonMissingHeader, "X-Hub-Signature-256 is missing"},
		"another secret":           {github, http.Header{"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(sum("other", "{}"))}}, inbound.ReasonWrongSecret, "compare the secret"},
		"of another provider":      {github, http.Header{"Stripe-Signature": {"t=1,v1=00"}}, inbound.ReasonWrongHeader, "as Stripe does"},
		"the old one":              {github, http.Header{"X-Hub-Signature": {"sha1=00"}}, inbound.ReasonWrongHeader, "old header X-Hub-Signature"},
		"not hexadecimal":          {github, http.Header{"X-Hub-Signature-256": {"sha256=xyz"}}, inbound.ReasonMalformedHeader, "sha256=HEX"},
		"a very long one":          {github, http.Header{"X-Hub-Signature-256": {"sha256=" + strings.Repeat("0", 9000)}}, inbound.ReasonMalformedHeader, ""},
		"two timestamps":           {stripe, http.Header{"Stripe-Signature": {"t=1,t=2,v1=00"}}, inbound.ReasonMalformedHeader, "t=TIMESTAMP,v1=HEX"},
		"stale":                    {stripe, http.Header{"Stripe-Signature": {"t=1600000000,v1=" + hex.EncodeToString(sum("secret", "1600000000.{}"))}}, inbound.ReasonStaleTimestamp, "tolerance"},
		"in the future":            {stripe, http.Header{"Stripe-Signature": {"t=1800000000,v1=" + hex.EncodeToString(sum("secret", "1800000000.{}"))}}, inbound.ReasonStaleTimestamp, "clocks"},
		"a timestamp that is none": {stripe, http.Header{"Stripe-Signature": {"t=soon,v1=" + hex.EncodeToString(sum("secret", "soon.{}"))}}, inbound.ReasonMalformedHeader, "not a number of seconds"},
		"a wrong token":            {gitlab, http.Header{"X-Gitlab-Token": {"tokem"}}, inbound.ReasonWrongToken, "none of the secrets"},
		"signed, for a token":      {gitlab, http.Header{"Webhook-Signature": {"v1,AAAA"}}, inbound.ReasonWrongSecret, "none of the secrets is for that kind"},
		"http for https":           {square, squareSigned("http://hooks.example.com/in/src_1"), inbound.ReasonWrongURL, `"http://hooks.example.com/in/src_1"`},
		"a slash more":             {square, squareSigned("https://hooks.example.com/in/src_1/"), inbound.ReasonWrongURL, "src_1/"},
		"another host":             {square, squareSigned("https://other.example.com/in/src_1"), inbound.ReasonWrongSecret, ""},
	} {
		r := &inbound.Request{Method: http.MethodPost, URL: &url.URL{Path: "/in/src_1"}, Header: c.header, Body: []byte("{}"), At: time.Unix(1700000000, 0)}
		outcome := receive(t, newVerifier(t, c.config, inbound.Options{}), r)
		got := outcome.Rejection
		if outcome.Kind != inbound.KindRejected || got.Reason != c.want || !strings.Contains(got.Text+" "+got.Hint, c.text) {
			t.Errorf("%s: %s %+v, want %s with %q", name, outcome.Kind, got, c.want, c.text)
		}
		for _, secret := range c.config.Secrets {
			if strings.Contains(got.Text+got.Hint, `"`+secret+`"`) || strings.Contains(string(outcome.Answer.Body), got.Text) {
				t.Errorf("%s: the answer or the diagnosis says too much", name)
			}
		}
	}
}

// A sender of forgeries must not get work out of a diagnosis: deep nesting would
// grow without end where it is indented.
func TestDiagnosisIsBounded(t *testing.T) {
	v := newVerifier(t, inbound.Config{Provider: "github", Secrets: []string{"secret"}}, inbound.Options{})
	r := signedGitHub("{}")
	for _, body := range []string{
		strings.Repeat("[", 9_000) + strings.Repeat("1,", 20_000) + "1" + strings.Repeat("]", 9_000),
		strings.Repeat("[", 60_000), `"` + strings.Repeat("ä", 30_000) + `"`, strings.Repeat(" ", 8<<20),
	} {
		r.Body = []byte(body)
		began := time.Now()
		if outcome := receive(t, v, r); outcome.Rejection.Reason != inbound.ReasonWrongSecret {
			t.Errorf("%+v", outcome)
		}
		if took := time.Since(began); took > 20*time.Second { // without a bound it takes minutes
			t.Errorf("%d bytes took %s", len(body), took)
		}
	}
}

// The settings of the generic provider are often guessed; a right guess is named.
func TestDiagnosisOfSettings(t *testing.T) {
	mac := hmac.New(sha512.New, []byte("key!"))
	mac.Write([]byte("{}"))
	c := inbound.Config{Provider: "hmac", Secrets: []string{base64.StdEncoding.EncodeToString([]byte("key!"))}, Settings: map[string]string{"header": "X-Sig"}}
	r := &inbound.Request{Method: http.MethodPost, Body: []byte("{}"), At: time.Now(), Header: http.Header{"X-Sig": {base64.StdEncoding.EncodeToString(mac.Sum(nil))}}}
	got := receive(t, newVerifier(t, c, inbound.Options{}), r).Rejection
	if got.Reason != inbound.ReasonWrongSettings || got.Hint != "set hash to sha512, encoding to base64 and key_encoding to base64" {
		t.Errorf("%+v", got)
	}
}

// Where parts are signed without anything between them, the same bytes must not be
// taken when they are cut in another place.
func TestSignedPartsCannotBeCutElsewhere(t *testing.T) {
	zendesk := inbound.Config{Provider: "zendesk", Secrets: []string{"secret"}}
	const at = "2021-03-25T05:09:27Z"
	inZendesk := func(timestamp string) http.Header {
		return http.Header{"X-Zendesk-Webhook-Signature-Timestamp": {timestamp}, "X-Zendesk-Webhook-Signature": {base64.StdEncoding.EncodeToString(sum("secret", at, `{"a":[1]}`))}}
	}
	mailgun := inbound.Config{Provider: "mailgun", Secrets: []string{"secret"}}
	inMailgun := func(timestamp, token string) string {
		return `{"signature":{"timestamp":"` + timestamp + `","token":"` + token + `","signature":"` + hex.EncodeToString(sum("secret", "17000000001abc")) + `"},"event-data":{"event":"opened"}}`
	}
	svix := inbound.Config{Provider: "svix", Secrets: []string{"whsec_c2VjcmV0"}}
	inSvix := func(id string) http.Header {
		return http.Header{"Svix-Id": {id}, "Svix-Timestamp": {"1700000000"}, "Svix-Signature": {"v1," + base64.StdEncoding.EncodeToString(sum("secret", `m.1700000000.{"a":".1700000000.[1]`))}}
	}
	square := inbound.Config{Provider: "square", Secrets: []string{"secret"}, Settings: map[string]string{"public_url": "https://h.example/in"}}
	inSquare := http.Header{"X-Square-Hmacsha256-Signature": {base64.StdEncoding.EncodeToString(sum("secret", `https://h.example/in?a=1{"a":[1]}`))}}
	for name, c := range map[string]struct {
		config       inbound.Config
		header       http.Header
		query, body  string
		takenForGood bool
	}{
		"zendesk":                  {zendesk, inZendesk(at), "", `{"a":[1]}`, true},
		"zendesk, cut later":       {zendesk, inZendesk(at + `{"a":`), "", `[1]}`, false},
		"mailgun":                  {mailgun, http.Header{}, "", inMailgun("1700000000", "1abc"), true},
		"mailgun, cut later":       {mailgun, http.Header{}, "", inMailgun("17000000001", "abc"), false},
		"mailgun, cut earlier":     {mailgun, http.Header{}, "", inMailgun("170000000", "01abc"), false},
		"svix":                     {svix, inSvix("m"), "", `{"a":".1700000000.[1]`, true},
		"svix, cut later":          {svix, inSvix(`m.1700000000.{"a":"`), "", `[1]`, false},
		"square":                   {square, inSquare, "a=1", `{"a":[1]}`, true},
		"square, cut in its query": {square, inSquare, `a=1{"a":`, `[1]}`, false},
	} {
		r := &inbound.Request{Method: http.MethodPost, URL: &url.URL{Path: "/in", RawQuery: c.query}, Header: c.header, Body: []byte(c.body), At: time.Unix(1700000000, 0)}
		if outcome := receive(t, newVerifier(t, c.config, inbound.Options{}), r); accepted(outcome) != c.takenForGood {
			t.Errorf("%s: %+v", name, outcome)
		}
	}
}

// The path of the source need not be known when it is made.
func TestPublicURLWithoutPath(t *testing.T) {
	for configured, c := range map[string]struct {
		signed, query string
		want          bool
	}{
		"https://h.example":                {"https://h.example/in/src_1", "", true},
		"https://h.example/":               {"https://h.example/in/src_1", "", true},
		"https://h.example:8443":           {"https://h.example:8443/in/src_1?a=1", "a=1", true},
		"https://h.example/in/src_1#rc=5":  {"https://h.example/in/src_1", "", true},
		"https://h.example/in/src_1?a=1":   {"https://h.example/in/src_1?a=1", "", true},
		"https://h.example/in/src_1?b=2":   {"https://h.example/in/src_1?a=1", "a=1", true},
		"https://h.example/hooks":          {"https://h.example/in/src_1", "", false},
		"https://other.example/in/src_1":   {"https://h.example/in/src_1", "", false},
		"https://h.example/in/src_1?a=%7B": {"https://h.example/in/src_1?a=%7B", "a=%7B", true},
	} {
		config := inbound.Config{Provider: "square", Secrets: []string{"secret"}, Settings: map[string]string{"public_url": configured}}
		r := &inbound.Request{Method: http.MethodPost, URL: &url.URL{Path: "/in/src_1", RawQuery: c.query, Host: "h.example", Scheme: "https"}, Body: []byte("{}"), At: time.Now(),
			Header: http.Header{"X-Square-Hmacsha256-Signature": {base64.StdEncoding.EncodeToString(sum("secret", c.signed, "{}"))}}}
		if outcome := receive(t, newVerifier(t, config, inbound.Options{}), r); accepted(outcome) != c.want {
			t.Errorf("%s: %+v", configured, outcome)
		}
	}
}

// The answer to X's challenge is a signature; no text that could be an event gets one.
func TestTwitterSignsNoEvents(t *testing.T) {
	v := newVerifier(t, inbound.Config{Provider: "twitter", Secrets: []string{"secret"}}, inbound.Options{})
	for _, token := range []string{`{"tweet_create_events":[]}`, "[1]", `"a"`, "a b", strings.Repeat("a", 257), "é"} {
		r := &inbound.Request{Method: http.MethodGet, URL: &url.URL{RawQuery: "crc_token=" + url.QueryEscape(token)}, Header: http.Header{}, At: time.Now()}
		if outcome := receive(t, v, r); outcome.Kind != inbound.KindIgnored || strings.Contains(string(outcome.Answer.Body), "sha256=") {
			t.Errorf("%s: %+v", token, outcome)
		}
	}
}
