package inbound_test

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/inbound"
)

// unsignedHeaders are those that a stranger may change: all that vectors have, and what
// providers, proxies and curl send besides.
var unsignedHeaders = []string{
	"Content-Type", "Content-Encoding", "User-Agent", "Accept", "Idempotency-Key", "Webhook-Id", "Svix-Id", "X-Request-Id", "X-Request-UUID",
	"X-GitHub-Event", "X-GitHub-Delivery", "X-GitHub-Hook-Id", "X-Gitlab-Event", "X-Gitlab-Event-UUID", "X-Event-Key", "X-Attempt-Number",
	"X-Atlassian-Webhook-Identifier", "Linear-Delivery", "Linear-Event", "Linear-Timestamp", "X-Shopify-Webhook-Id", "X-Shopify-Event-Id",
	"X-Shopify-Topic", "Shopify-Topic", "Shopify-Webhook-Id", "X-WC-Webhook-Topic", "X-WC-Webhook-Delivery-ID", "X-WC-Webhook-ID",
	"I-Twilio-Idempotency-Token", "X-Zendesk-Webhook-Invocation-Id", "X-Zendesk-Webhook-Id", "X-Slack-Retry-Num", "X-Zm-Trackingid",
	"X-Amz-Sns-Message-Type", "X-Amz-Sns-Message-Id", "Paypal-Transmission-Id", "Traceparent", "X-HTTP-Method-Override",
}

// notSigned says which headers decide all the same, and why that is no fault of ours.
func notSigned(v vector, header string) bool {
	switch v.Provider {
	case "gitlab":
		return header == "Idempotency-Key" // the token stands for the whole request: nothing is signed
	case "shopify":
		return strings.HasSuffix(header, "Shopify-Topic") // in no body: see TestTopics
	case "woocommerce":
		return header == "X-Wc-Webhook-Topic" // the same
	case "github", "bitbucket": // a body that is no event at all is called what the header says
		return (header == "X-Github-Event" || header == "X-Event-Key") && !strings.HasPrefix(v.ID, "made-")
	}
	return false
}

// made are vectors of the providers whose published ones have a body that is no event,
// or that have none.
func made(t *testing.T) (all []vector) {
	add := func(id, provider, body string, headers map[string]string, sign func(*inbound.Request)) {
		v := vector{ID: "made-" + id, Provider: provider, Secret: "secret", Body: body, Headers: headers, Valid: true}
		r := v.request()
		sign(r)
		for name, values := range r.Header {
			v.Headers[name] = values[0]
		}
		all = append(all, v)
	}
	inHex := func(header, prefix string) func(*inbound.Request) {
		return func(r *inbound.Request) {
			r.Header.Set(header, prefix+hex.EncodeToString(sum("secret", string(r.Body))))
		}
	}
	for id, c := range map[string]struct{ event, body string }{
		"issues":       {"issues", `{"action":"opened","issue":{"id":1},"repository":{},"sender":{}}`},
		"comment":      {"issue_comment", `{"action":"created","issue":{"id":1},"comment":{},"repository":{},"sender":{}}`},
		"push":         {"push", `{"ref":"refs/heads/main","before":"a","after":"b","commits":[],"repository":{}}`},
		"pull_request": {"pull_request", `{"action":"opened","number":1,"pull_request":{}}`},
		"review":       {"pull_request_review", `{"action":"submitted","pull_request":{},"review":{}}`},
		"ping":         {"ping", `{"zen":"x","hook_id":1,"hook":{}}`},
		"alert":        {"dependabot_alert", `{"action":"created","alert":{"security_vulnerability":{}},"repository":{}}`},
		"form":         {"issues", "payload=" + url.QueryEscape(`{"action":"opened","issue":{"id":1}}`)},
	} {
		add("github-"+id, "github", c.body, map[string]string{"X-Github-Event": c.event, "X-Github-Delivery": "guid"}, inHex("X-Hub-Signature-256", "sha256="))
	}
	for id, c := range map[string]struct{ event, body string }{
		"push":    {"repo:push", `{"push":{"changes":[]},"repository":{},"actor":{}}`},
		"merged":  {"pullrequest:fulfilled", `{"pullrequest":{"state":"MERGED"},"repository":{},"actor":{}}`},
		"created": {"pullrequest:created", `{"pullrequest":{"state":"OPEN","created_on":"1","updated_on":"1"},"repository":{}}`},
		"center":  {"pr:opened", `{"eventKey":"pr:opened","date":"2017-09-19T09:58:11+1000"}`},
	} {
		add("bitbucket-"+id, "bitbucket", c.body, map[string]string{"X-Event-Key": c.event, "X-Request-Uuid": "uuid"}, inHex("X-Hub-Signature", "sha256="))
	}
	add("jira", "jira", `{"webhookEvent":"jira:issue_updated","timestamp":1700000000000}`, map[string]string{"X-Atlassian-Webhook-Identifier": "id"}, inHex("X-Hub-Signature", "sha256="))
	add("hmac", "hmac", `{"type":"order.paid"}`, map[string]string{}, inHex("X-Convoy-Signature", ""))
	return all
}

// The type of an event and the id that repeated deliveries are recognised by depend on
// signed bytes alone. Each header that is not signed is changed, removed and added, and
// the query changed: the request is the same event, or none at all.
func TestIdentityIsSigned(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range append(vectors(t), made(t)...) {
		if !v.Valid {
			continue
		}
		if v.Provider == "hmac" && v.Hash == "" {
			v.Hash, v.Encoding = "sha256", "hex"
		}
		seen[v.Provider] = true
		verifier := newVerifier(t, v.config(), v.options())
		want := receive(t, verifier, v.request())
		if want.Kind == inbound.KindHandshake {
			continue
		}
		if strings.HasPrefix(v.ID, "made-github") && want.Event.Type != "github.malformed" {
			if header := v.Headers["X-Github-Event"]; !strings.HasPrefix(want.Event.Type, "github."+header) {
				t.Errorf("%s: type %s, its header says %s", v.ID, want.Event.Type, header)
			}
		}
		check := func(what string, r *inbound.Request) {
			t.Helper()
			got, err := verifier.Receive(t.Context(), r)
			if err != nil {
				t.Errorf("%s, %s: %v", v.ID, what, err)
			}
			if got.Kind == inbound.KindEvent && (got.Event.Type != want.Event.Type || got.Event.DeliveryID != want.Event.DeliveryID || got.Event.Malformed != want.Event.Malformed) {
				t.Errorf("%s, %s: %s %q, want %s %q", v.ID, what, got.Event.Type, got.Event.DeliveryID, want.Event.Type, want.Event.DeliveryID)
			}
			if got.Kind == inbound.KindHandshake {
				t.Errorf("%s, %s: taken for a handshake", v.ID, what)
			}
		}
		names := slices.Clone(unsignedHeaders)
		for name := range v.request().Header {
			names = append(names, name)
		}
		for _, name := range names {
			name = http.CanonicalHeaderKey(name)
			if notSigned(v, name) {
				continue
			}
			for _, value := range []string{
				"", "x", "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "image/png", "gzip", "deflate",
				"issues", "push", "repo:push", "orders/paid", "1700000001",
			} {
				r := v.request()
				if r.Header.Set(name, value); value == "" {
					r.Header.Del(name)
				}
				check(name+": "+value, r)
				if r.Header = v.request().Header; value != "" {
					r.Header[name] = append([]string{value}, r.Header[name]...)
					check(name+" twice, first "+value, r)
				}
			}
		}
		for _, query := range []string{"", "a=1", "type=x&id=y", "%zz"} {
			r := v.request()
			r.URL.RawQuery = query
			check("query "+query, r)
		}
	}
	for _, p := range inbound.Providers() {
		signsNothing := slices.Contains([]string{"basic", "api-key", "none"}, p.Name)
		standard := slices.Contains([]string{"resend", "openai"}, p.Name) // like svix and clerk
		if !seen[p.Name] && !signsNothing && !standard {
			t.Errorf("no vector of %s", p.Name)
		}
	}
}

// What a body cannot say of itself is not made up: two bodies are one delivery only if
// they are equal, and not if GitHub or a shop may send the same one twice on purpose.
func TestEqualBodies(t *testing.T) {
	event := func(provider, body string, headers map[string]string) inbound.Event {
		return received(t, provider, asJSON, body, headers)
	}
	for name, c := range map[string]struct {
		one, other inbound.Event
		same       bool
	}{
		"a push twice": {event("github", `{"ref":"a","before":"1","after":"2","commits":[]}`, map[string]string{"X-GitHub-Delivery": "1"}),
			event("github", `{"ref":"a","before":"1","after":"2","commits":[]}`, map[string]string{"X-GitHub-Delivery": "2"}), true},
		"two pushes": {event("github", `{"ref":"a","before":"1","after":"2","commits":[]}`, nil),
			event("github", `{"ref":"a","before":"1","after":"3","commits":[]}`, nil), false},
		"started by hand twice": {event("github", `{"workflow":"w","ref":"a","inputs":null}`, map[string]string{"X-GitHub-Delivery": "1"}),
			event("github", `{"workflow":"w","ref":"a","inputs":null}`, map[string]string{"X-GitHub-Delivery": "2"}), false},
		"two topics": {event("shopify", `{"id":1}`, map[string]string{"X-Shopify-Topic": "orders/create"}),
			event("shopify", `{"id":1}`, map[string]string{"X-Shopify-Topic": "orders/paid"}), false},
		"one topic, tried again": {event("shopify", `{"id":1}`, map[string]string{"X-Shopify-Topic": "orders/create", "X-Shopify-Webhook-Id": "1"}),
			event("shopify", `{"id":1}`, map[string]string{"X-Shopify-Topic": "orders/create", "X-Shopify-Webhook-Id": "2"}), true},
	} {
		if (c.one.DeliveryID == c.other.DeliveryID) != c.same || c.one.DeliveryID == "" {
			t.Errorf("%s: %+v and %+v", name, c.one, c.other)
		}
	}
}

// The setting topics refuses what is not named, so that one source is one type.
func TestTopics(t *testing.T) {
	for _, id := range []string{"shopify-computed", "woocommerce"} {
		v := vectorNamed(t, id)
		header := map[string]string{"shopify": "X-Shopify-Topic", "woocommerce": "X-WC-Webhook-Topic"}[v.Provider]
		topic := v.Headers[header]
		c := v.config()
		for topics, want := range map[string]inbound.Kind{"": inbound.KindEvent, topic: inbound.KindEvent, "a, " + topic: inbound.KindEvent, "a": inbound.KindRejected} {
			c.Settings["topics"] = topics
			if outcome := receive(t, newVerifier(t, c, v.options()), v.request()); outcome.Kind != want || want == inbound.KindRejected && outcome.Rejection.Reason != inbound.ReasonNotAllowed {
				t.Errorf("%s with topics %q: %+v", id, topics, outcome)
			}
		}
		c.Settings["topics"] = topic
		for _, other := range []string{"", "x"} {
			r := v.request()
			r.Header.Set(header, other)
			if outcome := receive(t, newVerifier(t, c, v.options()), r); outcome.Kind != inbound.KindRejected {
				t.Errorf("%s under the topic %q: %+v", id, other, outcome)
			}
		}
	}
}

// A proof of Mailgun's stands for its own token, wherever else in the body another is.
func TestMailgunTokenIsTheSignedOne(t *testing.T) {
	proof := func(token string) string {
		return `{"timestamp":"1700000000","token":"` + token + `","signature":"` + hex.EncodeToString(sum("secret", "1700000000", "genuine")) + `"}`
	}
	v := newVerifier(t, inbound.Config{Provider: "mailgun", Secrets: []string{"secret"}}, inbound.Options{})
	for _, body := range []string{`{"signature":` + proof("genuine") + `}`, `{"signature":` + proof("other") + `,"parent-signature":` + proof("genuine") + `}`} {
		r := &inbound.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(body), At: time.Now()}
		if e := receive(t, v, r).Event; e.DeliveryID != "genuine" {
			t.Errorf("%s: %+v", body, e)
		}
	}
}
