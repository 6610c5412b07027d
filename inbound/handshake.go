package inbound

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// handshake is a question that is not a delivery. Unsigned ones are looked at
// before the verification and match nothing but their exact shape; signed ones
// after it.
type handshake struct {
	signed bool
	answer func(v *Verifier, r *incoming) (Outcome, bool)
}

// maxChallengeBytes caps what is sent back to somebody unknown.
const maxChallengeBytes = 2 << 10

func shaken(answer Answer) (Outcome, bool) {
	return Outcome{Kind: KindHandshake, Answer: answer}, true
}

func jsonAnswer(status int, body any) Answer {
	text, err := json.Marshal(body)
	if err != nil { // texts and maps of texts
		text = []byte("{}")
	}
	return Answer{Status: status, Body: text, Header: http.Header{"Content-Type": {"application/json"}, "X-Content-Type-Options": {"nosniff"}}}
}

func (r *incoming) query() url.Values {
	if r.URL == nil {
		return nil
	}
	return r.URL.Query()
}

func challengeOf(text string) (string, bool) {
	return text, text != "" && len(text) <= maxChallengeBytes
}

// answerMeta answers the GET by which Meta subscribes. Only who knows the token
// gets the challenge back; what asks for nothing is a crawler.
func answerMeta(v *Verifier, r *incoming) (Outcome, bool) {
	if r.Method != http.MethodGet {
		return Outcome{}, false
	}
	q := r.query()
	challenge, ok := challengeOf(q.Get("hub.challenge"))
	if !ok || q.Get("hub.mode") == "" || !q.Has("hub.verify_token") {
		return Outcome{Kind: KindIgnored, Answer: plain(http.StatusBadRequest, "hub.mode, hub.challenge and hub.verify_token are missing")}, true
	}
	token := v.settings["verify_token"]
	right := sameBytes([]byte(q.Get("hub.verify_token")), []byte(token)) == 1
	if q.Get("hub.mode") == "subscribe" && token != "" && right {
		return shaken(plain(http.StatusOK, challenge))
	}
	why := reject(ReasonWrongToken, "the verify token that Meta sent is not the setting verify_token", "enter the same text in both places")
	if right {
		why = reject(ReasonNotAllowed, "hub.mode is not subscribe", "")
	}
	return Outcome{Kind: KindRejected, Answer: plain(http.StatusForbidden, "not verified"), Rejection: *why}, true
}

// answerSlack answers the request by which Slack checks a new URL.
func answerSlack(_ *Verifier, r *incoming) (Outcome, bool) {
	d := r.document()
	challenge, ok := challengeOf(d.at(inBody("challenge")))
	if !ok || d.at(inBody("type")) != "url_verification" {
		return Outcome{}, false
	}
	return shaken(plain(http.StatusOK, challenge))
}

// answerZoom proves that the secret is known: with the very one that the question
// is signed with.
func answerZoom(v *Verifier, r *incoming) (Outcome, bool) {
	d := r.document()
	token, ok := challengeOf(d.at(inBody("payload", "plainToken")))
	if !ok || d.at(inBody("event")) != "endpoint.url_validation" {
		return Outcome{}, false
	}
	secret := v.secrets[0]
	for _, one := range v.secrets {
		if v.with(one).verifySchemes(r) == nil {
			secret = one
			break
		}
	}
	mac := digest(hmac.New(sha256.New, []byte(secret)), [][]byte{[]byte(token)})
	return shaken(jsonAnswer(http.StatusOK, map[string]string{"plainToken": token, "encryptedToken": hex.EncodeToString(mac)}))
}

// with returns a verifier with one secret only.
func (v *Verifier) with(secret string) *Verifier {
	alone := *v
	alone.useSecrets([]string{secret})
	return &alone
}

// answerTwitter answers the challenge that X sends every hour. It is not signed, and
// the answer is the HMAC of a text that anybody may choose, which is how events are
// signed as well. So a text that could be an event, JSON with an object in it, must
// never be answered.
func answerTwitter(v *Verifier, r *incoming) (Outcome, bool) {
	token, ok := challengeOf(r.query().Get("crc_token"))
	if r.Method != http.MethodGet || !ok || len(token) > maxTokenLength || strings.ContainsFunc(token, notInToken) {
		return Outcome{}, false
	}
	mac := digest(hmac.New(sha256.New, []byte(v.secrets[0])), [][]byte{[]byte(token)})
	return shaken(jsonAnswer(http.StatusOK, map[string]string{"response_token": "sha256=" + base64.StdEncoding.EncodeToString(mac)}))
}

const maxTokenLength = 256

func notInToken(r rune) bool {
	return r >= utf8.RuneSelf || !isAlphanumeric(byte(r)) && !strings.ContainsRune("-_=+/.", r)
}

// answerDropbox echoes the challenge.
func answerDropbox(_ *Verifier, r *incoming) (Outcome, bool) {
	challenge, ok := challengeOf(r.query().Get("challenge"))
	if r.Method != http.MethodGet || !ok {
		return Outcome{}, false
	}
	return shaken(plain(http.StatusOK, challenge))
}

// answerGraph echoes the decoded token of a POST without a body, also for the URL
// of lifecycle notifications.
func answerGraph(_ *Verifier, r *incoming) (Outcome, bool) {
	token, ok := challengeOf(r.query().Get("validationToken"))
	if r.Method != http.MethodPost || len(r.Body) > 0 || !ok {
		return Outcome{}, false
	}
	return shaken(plain(http.StatusOK, token))
}

// answerOkta answers the one-time verification of an event hook.
func answerOkta(_ *Verifier, r *incoming) (Outcome, bool) {
	challenge, ok := challengeOf(r.Header.Get("X-Okta-Verification-Challenge"))
	if r.Method != http.MethodGet || !ok {
		return Outcome{}, false
	}
	return shaken(jsonAnswer(http.StatusOK, map[string]string{"verification": challenge}))
}

// answerDiscord answers the two kinds of PING: type 1 of interactions, which have a
// token, and type 0 of webhook events. Both are signed.
func answerDiscord(_ *Verifier, r *incoming) (Outcome, bool) {
	d := r.document()
	if d.json == nil {
		return Outcome{}, false
	}
	isEvent := d.has("event")
	switch kind := d.at(inBody("type")); {
	case kind == "1" && !isEvent:
		return shaken(jsonAnswer(http.StatusOK, map[string]int{"type": 1}))
	case kind == "0":
		return shaken(Answer{Status: http.StatusNoContent})
	}
	return Outcome{}, false
}

// answerWooCommerce answers the unsigned form that is sent when a webhook is saved;
// without it the webhook is never activated.
func answerWooCommerce(_ *Verifier, r *incoming) (Outcome, bool) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/x-www-form-urlencoded" || r.Method != http.MethodPost || len(r.Body) > maxChallengeBytes {
		return Outcome{}, false
	}
	form, err := url.ParseQuery(string(r.Body))
	if err != nil || len(form) != 1 || form.Get("webhook_id") == "" || r.Header.Get("X-WC-Webhook-Signature") != "" {
		return Outcome{}, false
	}
	return shaken(plain(http.StatusOK, ""))
}

func xmlAnswer(text string) Answer {
	return Answer{Status: http.StatusOK, Body: []byte(text), Header: http.Header{"Content-Type": {"text/xml; charset=utf-8"}}}
}
