package inbound_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/inbound"
)

// received returns what a genuine request of the provider none or of one that
// proves itself by a token brings, without a signature to compute.
func received(t *testing.T, provider, contentType, body string, header map[string]string) inbound.Event {
	t.Helper()
	c := inbound.Config{Provider: provider}
	r := &inbound.Request{Method: http.MethodPost, URL: &url.URL{Path: "/"}, Header: http.Header{}, Body: []byte(body), At: time.Now()}
	r.Header.Set("Content-Type", contentType)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	sign(&c, r)
	outcome := receive(t, newVerifier(t, c, inbound.Options{}), r)
	if outcome.Kind != inbound.KindEvent {
		t.Fatalf("%s: %s %+v", provider, outcome.Kind, outcome.Rejection)
	}
	if posthaste.ValidateType("type", outcome.Event.Type) != nil || len(outcome.Event.DeliveryID) > posthaste.MaxIdempotencyKeyBytes {
		t.Errorf("%s: type %q, delivery %q", provider, outcome.Event.Type, outcome.Event.DeliveryID)
	}
	return outcome.Event
}

// sign makes the request one of the configured provider.
func sign(c *inbound.Config, r *inbound.Request) {
	c.Secrets = []string{"secret"}
	body := string(r.Body)
	mac := sum("secret", body)
	switch c.Provider {
	case "none":
		c.Secrets = nil
	case "github":
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac))
	case "shopify":
		r.Header.Set("X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(mac))
	case "docusign":
		r.Header.Set("X-DocuSign-Signature-3", base64.StdEncoding.EncodeToString(mac))
	case "zendesk":
		r.Header.Set("X-Zendesk-Webhook-Signature-Timestamp", "2021-03-25T05:09:27Z")
		r.Header.Set("X-Zendesk-Webhook-Signature", base64.StdEncoding.EncodeToString(sum("secret", "2021-03-25T05:09:27Z", body)))
	case "slack":
		now := strconv.FormatInt(r.At.Unix(), 10)
		r.Header.Set("X-Slack-Request-Timestamp", now)
		r.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(sum("secret", "v0:", now, ":", body)))
	case "twitter":
		r.Header.Set("X-Twitter-Webhooks-Signature", "sha256="+base64.StdEncoding.EncodeToString(mac))
	case "twilio":
		c.Settings = map[string]string{"public_url": "https://hooks.example.com/in/src_1"}
		fields, err := url.ParseQuery(body)
		if err != nil {
			panic(err)
		}
		text := "https://hooks.example.com/in/src_1"
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			text += name + fields.Get(name)
		}
		h := hmac.New(sha1.New, []byte("secret"))
		h.Write([]byte(text))
		r.Header.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(h.Sum(nil)))
	case "gitlab":
		r.Header.Set("X-Gitlab-Token", "secret")
	case "telegram":
		r.Header.Set("X-Telegram-Bot-Api-Secret-Token", "secret")
	case "okta":
		r.Header.Set("Authorization", "secret")
	case "hubspot":
		c.Settings = map[string]string{"public_url": "https://hooks.example.com/in/src_1"}
		now := strconv.FormatInt(r.At.UnixMilli(), 10)
		r.Header.Set("X-HubSpot-Request-Timestamp", now)
		r.Header.Set("X-HubSpot-Signature-v3", base64.StdEncoding.EncodeToString(sum("secret", r.Method, "https://hooks.example.com/in/src_1", body, now)))
	}
}

const (
	asJSON = "application/json; charset=utf-8"
	asForm = "application/x-www-form-urlencoded"
)

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 400)
	for name, c := range map[string]struct {
		provider, contentType, body string
		header                      map[string]string
		wantType, wantID            string
		warned                      bool
	}{
		"an action":                  {"github", asJSON, `{"action":"opened"}`, map[string]string{"X-GitHub-Event": "issues", "X-GitHub-Delivery": "guid"}, "github.issues.opened", "sha256:*", false},
		"no action":                  {"github", asJSON, `{"action":null}`, map[string]string{"X-GitHub-Event": "push"}, "github.push", "sha256:*", false},
		"JSON in a form":             {"github", asForm, "payload=" + url.QueryEscape(`{"action":"opened"}`), map[string]string{"X-GitHub-Event": "issues"}, "github.issues.opened", "sha256:*", false},
		"cut short":                  {"github", asJSON, `{"action":"ope`, map[string]string{"X-GitHub-Event": "issues", "X-GitHub-Delivery": "guid"}, "github.malformed", "sha256:*", true},
		"empty":                      {"github", asJSON, ``, nil, "github.malformed", "sha256:*", true},
		"two values":                 {"github", asJSON, `{} {}`, nil, "github.malformed", "sha256:*", true},
		"no object":                  {"github", asJSON, `[1]`, map[string]string{"X-GitHub-Event": "push"}, "github.push", "sha256:*", false},
		"a slash":                    {"shopify", asJSON, `{}`, map[string]string{"X-Shopify-Topic": "orders/create"}, "shopify.orders/create", "sha256:*", false},
		"odd characters":             {"github", asJSON, `{"action":"öpened it\u0000"}`, map[string]string{"X-GitHub-Event": "issues"}, "github.issues._pened_it_", "sha256:*", true},
		"a very long type and id":    {"github", asJSON, `{}`, map[string]string{"X-GitHub-Event": long, "X-GitHub-Delivery": long}, "github." + long[:121], "sha256:a6ba3ca8eaf23ca21f4ee4e11fcac09c8b7d7d2bd0f2e6d6e1b5c3c26e0c8bd4", true},
		"slack, an event":            {"slack", asJSON, `{"type":"event_callback","event_id":"Ev1","event":{"type":"message"}}`, nil, "slack.message", "Ev1", false},
		"slack, an interaction":      {"slack", asForm, "payload=" + url.QueryEscape(`{"type":"block_actions"}`), nil, "slack.block_actions", "", false},
		"gitlab, no type":            {"gitlab", asJSON, `{}`, map[string]string{"X-Gitlab-Event": "Push Hook"}, "gitlab.unknown", "", true},
		"gitlab, system":             {"gitlab", asJSON, `{"event_name":"project_create"}`, map[string]string{"Idempotency-Key": "k"}, "gitlab.project_create", "k", false},
		"telegram":                   {"telegram", asJSON, `{"update_id":12345678901234567890,"callback_query":{}}`, nil, "telegram.callback_query", "12345678901234567890", false},
		"okta, several":              {"okta", asJSON, `{"eventId":"e","data":{"events":[{"eventType":"a"},{"eventType":"b"}]}}`, nil, "okta.batch", "e", false},
		"hubspot, one":               {"hubspot", asJSON, `[{"eventId":1,"subscriptionId":2,"occurredAt":3,"subscriptionType":"contact.creation"}]`, nil, "hubspot.contact.creation", "1:2:3", false},
		"hubspot, alike":             {"hubspot", asJSON, `[{"eventId":1,"subscriptionId":2,"occurredAt":3,"subscriptionType":"a"},{"eventId":2,"subscriptionId":2,"occurredAt":3,"subscriptionType":"a"}]`, nil, "hubspot.a", "sha256:*", false},
		"hubspot, different":         {"hubspot", asJSON, `[{"subscriptionType":"a"},{"subscriptionType":"b"}]`, nil, "hubspot.batch", "", false},
		"hubspot, none":              {"hubspot", asJSON, `[]`, nil, "hubspot.unknown", "", true},
		"docusign, JSON":             {"docusign", asJSON, `{"event":"envelope-sent","generatedDateTime":"t","data":{"envelopeId":"e"}}`, nil, "docusign.envelope-sent", "envelope-sent:t:e", false},
		"docusign, XML":              {"docusign", "text/xml", `<DocuSignEnvelopeInformation/>`, nil, "docusign.unknown", "", true},
		"zendesk, without a body":    {"zendesk", "", ``, map[string]string{"X-Zendesk-Webhook-Invocation-Id": "i"}, "zendesk.unknown", "sha256:*", true},
		"twitter":                    {"twitter", asJSON, `{"for_user_id":"1","tweet_create_events":[]}`, nil, "twitter.tweet_create_events", "", false},
		"telegram, nothing in it":    {"telegram", asJSON, `{"update_id":1}`, nil, "telegram.unknown", "1", true},
		"twilio, a status":           {"twilio", asForm, "MessageSid=SM1&MessageStatus=delivered", nil, "twilio.message.delivered", "SM1:delivered", false},
		"twilio, a message":          {"twilio", asForm, "MessageSid=SM1&SmsStatus=received&Body=hi", map[string]string{"I-Twilio-Idempotency-Token": "tok"}, "twilio.message.received", "SM1:received", false},
		"twilio, a call":             {"twilio", asForm, "CallSid=CA1&CallStatus=in-progress", nil, "twilio.call.in-progress", "", false},
		"twilio, a part of a call":   {"twilio", asForm, "CallSid=CA1&CallStatus=in-progress&SequenceNumber=2", nil, "twilio.call.in-progress", "CA1:in-progress:2", false},
		"none, what says JSON":       {"none", "application/vnd.api+json", `{`, nil, "none.malformed", "", true},
		"none, what does not":        {"none", "text/csv", `a,b`, nil, "none.unknown", "", true},
		"none, a form":               {"none", asForm, `type=order.paid`, nil, "none.order.paid", "", false},
		"none, a form with files":    {"none", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"type\"\r\n\r\nmail\r\n--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nxx\r\n--b--\r\n", nil, "none.mail", "", false},
		"none, a form cut short":     {"none", "multipart/form-data; boundary=b", "--b\r\nContent-Dis", nil, "none.unknown", "", true},
		"none, a content type of no": {"none", "////", `{"type":"x"}`, nil, "none.x", "", false},
		"none, a number":             {"none", asJSON, `{"type":7}`, nil, "none.7", "", false},
		"none, an object":            {"none", asJSON, `{"type":{"a":1}}`, nil, "none.unknown", "", true},
	} {
		e := received(t, c.provider, c.contentType, c.body, c.header)
		wantID, hashed := strings.CutPrefix(c.wantID, "sha256:")
		idIsRight := e.DeliveryID == c.wantID || hashed && len(e.DeliveryID) == len("sha256:")+64
		if e.Type != c.wantType || !idIsRight || e.Malformed != strings.HasSuffix(c.wantType, ".malformed") {
			t.Errorf("%s: %+v, want %s %q", name, e, c.wantType, wantID)
		}
		if (len(e.Warnings) > 0) != c.warned {
			t.Errorf("%s: warnings %q", name, e.Warnings)
		}
	}
}

// Where the generic providers find type and id is in their settings.
func TestGenericPlaces(t *testing.T) {
	c := inbound.Config{Provider: "none", Settings: map[string]string{"type_path": "meta.kind", "id_header": "X-Id", "id_path": "meta.id"}}
	v := newVerifier(t, c, inbound.Options{})
	r := &inbound.Request{Method: http.MethodPut, Body: []byte(`{"meta":{"kind":"paid","id":9}}`), Header: http.Header{}, At: time.Now()}
	if e := receive(t, v, r).Event; e.Type != "none.paid" || e.DeliveryID != "9" {
		t.Errorf("%+v", e)
	}
	for path, body := range map[string]string{
		"events.0.id": `{"events":[{"id":"e"},{"id":"f"}]}`, "events.1.id": `{"events":[{"id":"f"},{"id":"e"}]}`, "0.0": `[["e"]]`, `a\.b.c`: `{"a.b":{"c":"e"}}`,
		"0": `{"0":"e"}`, "größe": `{"gr\u00f6\u00dfe":"e"}`, "a.b.c": `{"a":{"b":{"c":"x"}},"a":{"b":{"c":"e"}}}`,
	} {
		v := newVerifier(t, inbound.Config{Provider: "none", Settings: map[string]string{"id_path": path}}, inbound.Options{})
		r := &inbound.Request{Method: http.MethodPost, Body: []byte(body), Header: http.Header{}, At: time.Now()}
		if e := receive(t, v, r).Event; e.DeliveryID != "e" {
			t.Errorf("%s in %s: %+v", path, body, e)
		}
	}
	for _, path := range []string{"events.2.id", "events.-1.id", "events.x", "events.0.id.x", "events"} {
		v := newVerifier(t, inbound.Config{Provider: "none", Settings: map[string]string{"id_path": path}}, inbound.Options{})
		r := &inbound.Request{Method: http.MethodPost, Body: []byte(`{"events":[{"id":"e"},{"id":"f"}]}`), Header: http.Header{}, At: time.Now()}
		if e := receive(t, v, r).Event; e.DeliveryID != "" {
			t.Errorf("%s: %+v", path, e)
		}
	}
	r.Header["X-Id"] = []string{"a", "b"}
	if e := receive(t, v, r).Event; e.DeliveryID != "a" || len(e.Warnings) != 1 {
		t.Errorf("%+v", e)
	}
}

// The provider hmac takes the signatures of senders that have no row of their own.
func TestGenericHMAC(t *testing.T) {
	now := time.Unix(1700000000, 0)
	hexSum, base64Sum := hex.EncodeToString(sum("secret", "1700000000.{}")), base64.StdEncoding.EncodeToString(sum("secret", "id1.1700000000.POST.https://h.example/x?a=1.{}"))
	for name, c := range map[string]struct {
		settings map[string]string
		header   http.Header
		want     inbound.Reason // "": genuine
	}{
		"plain":              {map[string]string{"header": "X-Sig"}, http.Header{"X-Sig": {hex.EncodeToString(sum("secret", "{}"))}}, ""},
		"a list with a time": {map[string]string{"header": "X-Sig", "separator": ",", "timestamp_prefix": "t=", "prefix": "v1=", "template": "{timestamp}.{body}"}, http.Header{"X-Sig": {"t=1700000000, v1=" + hexSum}}, ""},
		"a stale one": {map[string]string{"header": "X-Sig", "timestamp_header": "X-Time", "template": "{timestamp}.{body}", "tolerance": "1s"},
			http.Header{"X-Sig": {hex.EncodeToString(sum("secret", "1699999000.{}"))}, "X-Time": {"1699999000"}}, inbound.ReasonStaleTimestamp},
		"all of it": {map[string]string{"header": "X-Sig", "encoding": "base64", "timestamp_header": "X-Time", "id_header": "X-Id", "public_url": "https://h.example/x", "template": "{id}.{timestamp}.{method}.{url}.{body}"},
			http.Header{"X-Sig": {base64Sum}, "X-Time": {"1700000000"}, "X-Id": {"id1"}}, ""},
		"without the id": {map[string]string{"header": "X-Sig", "id_header": "X-Id", "template": "{id}.{body}"}, http.Header{"X-Sig": {hexSum}}, inbound.ReasonMissingHeader},
		"in milliseconds": {map[string]string{"header": "X-Sig", "timestamp_header": "X-Time", "template": "{timestamp}.{body}"},
			http.Header{"X-Sig": {hex.EncodeToString(sum("secret", "1700000000123.{}"))}, "X-Time": {"1700000000123"}}, ""},
	} {
		c.settings["type_path"] = "type"
		v := newVerifier(t, inbound.Config{Provider: "hmac", Secrets: []string{"secret"}, Settings: c.settings}, inbound.Options{})
		r := &inbound.Request{Method: http.MethodPost, URL: &url.URL{Path: "/x", RawQuery: "a=1"}, Header: c.header, Body: []byte("{}"), At: now}
		if outcome := receive(t, v, r); outcome.Rejection.Reason != c.want {
			t.Errorf("%s: %+v", name, outcome)
		}
	}
}

func TestBasicAndKey(t *testing.T) {
	for name, c := range map[string]struct {
		config inbound.Config
		header http.Header
		want   inbound.Reason
	}{
		"right":        {inbound.Config{Provider: "basic", Secrets: []string{"a:b", "user:pass:word"}}, http.Header{"Authorization": {"basic dXNlcjpwYXNzOndvcmQ="}}, ""},
		"wrong":        {inbound.Config{Provider: "basic", Secrets: []string{"a:b"}}, http.Header{"Authorization": {"Basic dXNlcjpwYXNzOndvcmQ="}}, inbound.ReasonWrongToken},
		"not base64":   {inbound.Config{Provider: "basic", Secrets: []string{"a:b"}}, http.Header{"Authorization": {"Basic a:b"}}, inbound.ReasonMalformedHeader},
		"missing":      {inbound.Config{Provider: "basic", Secrets: []string{"a:b"}}, http.Header{}, inbound.ReasonMissingHeader},
		"a right key":  {inbound.Config{Provider: "api-key", Secrets: []string{"k", "l"}}, http.Header{"X-Api-Key": {"l"}}, ""},
		"a wrong key":  {inbound.Config{Provider: "api-key", Secrets: []string{"k"}}, http.Header{"X-Api-Key": {"l"}}, inbound.ReasonWrongToken},
		"a bearer":     {inbound.Config{Provider: "api-key", Secrets: []string{"k"}, Settings: map[string]string{"header": "Authorization", "prefix": "Bearer "}}, http.Header{"Authorization": {"Bearer k"}}, ""},
		"no bearer":    {inbound.Config{Provider: "api-key", Secrets: []string{"k"}, Settings: map[string]string{"header": "Authorization", "prefix": "Bearer "}}, http.Header{"Authorization": {"k"}}, inbound.ReasonMalformedHeader},
		"an empty key": {inbound.Config{Provider: "api-key", Secrets: []string{"k"}}, http.Header{"X-Api-Key": {""}}, inbound.ReasonMalformedHeader},
	} {
		r := &inbound.Request{Method: http.MethodPost, Header: c.header, Body: []byte("{}"), At: time.Now()}
		if outcome := receive(t, newVerifier(t, c.config, inbound.Options{}), r); outcome.Rejection.Reason != c.want {
			t.Errorf("%s: %+v", name, outcome)
		}
	}
}

// Discord signs with ed25519, and its interactions want an answer of their own.
func TestDiscord(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := newVerifier(t, inbound.Config{Provider: "discord", Secrets: []string{hex.EncodeToString(public)}}, inbound.Options{})
	for body, want := range map[string]struct {
		kind     inbound.Kind
		name, id string
		status   int
		answer   string
	}{
		`{"type":1,"id":"1","token":"t"}`:                      {inbound.KindHandshake, "", "", 200, `{"type":1}`},
		`{"type":0}`:                                           {inbound.KindHandshake, "", "", 204, ``},
		`{"type":2,"id":"1","token":"t"}`:                      {inbound.KindEvent, "discord.interaction.2", "1", 200, `{"type":5}`},
		`{"type":3,"id":"1","token":"t"}`:                      {inbound.KindEvent, "discord.interaction.3", "1", 200, `{"type":6}`},
		`{"type":4,"id":"1","token":"t"}`:                      {inbound.KindEvent, "discord.interaction.4", "1", 200, `{"data":{"choices":[]},"type":8}`},
		`{"type":1,"event":{"type":"APPLICATION_AUTHORIZED"}}`: {inbound.KindEvent, "discord.APPLICATION_AUTHORIZED", "", 204, ``},
		`not JSON`: {inbound.KindEvent, "discord.malformed", "", 204, ``},
	} {
		signature := ed25519.Sign(private, []byte("1700000000"+body))
		r := &inbound.Request{Method: http.MethodPost, Body: []byte(body), At: time.Now(), Header: http.Header{
			"X-Signature-Ed25519": {hex.EncodeToString(signature)}, "X-Signature-Timestamp": {"1700000000"},
		}}
		got := receive(t, v, r)
		if got.Kind != want.kind || got.Event.Type != want.name || got.Event.DeliveryID != want.id || got.Answer.Status != want.status || string(got.Answer.Body) != want.answer {
			t.Errorf("%s: %+v, answered %s", body, got, got.Answer.Body)
		}
	}
}

// What the provider counts as success is answered.
func TestAnswers(t *testing.T) {
	for id, want := range map[string]struct {
		status            int
		contentType, body string
	}{
		"stripe-official": {200, "", ""}, "msgraph": {202, "", ""}, "adyen-item-official": {200, "text/plain", "[accepted]"},
		"twilio-official": {200, "text/xml", "<Response/>"}, "mailgun-json": {200, "", ""}, "paddle-official": {200, "", ""},
	} {
		v := vectorNamed(t, id)
		got := receive(t, newVerifier(t, v.config(), v.options()), v.request()).Answer
		if got.Status != want.status || !strings.HasPrefix(got.Header.Get("Content-Type"), want.contentType) || string(got.Body) != want.body {
			t.Errorf("%s: %+v", id, got)
		}
	}
	v := vectorNamed(t, "twilio-official")
	c := v.config()
	c.Settings["twiml"] = "<Response><Hangup/></Response>"
	if got := receive(t, newVerifier(t, c, v.options()), v.request()).Answer; string(got.Body) != c.Settings["twiml"] {
		t.Errorf("answered %s", got.Body)
	}
	if names := inbound.Providers(); !slices.IsSortedFunc(names, func(a, b inbound.Provider) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the providers are not in order")
	}
}
