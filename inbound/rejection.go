package inbound

import (
	"net/http"
	"strings"
)

// Rejection says why a request was not taken for genuine. It is for the one who
// set the source up, never for the sender.
type Rejection struct {
	Reason Reason
	Text   string // what is wrong, lower case, without secrets
	Hint   string // the next step
}

// Reason names a kind of rejection.
type Reason string

// The reasons.
const (
	ReasonMissingHeader   Reason = "missing_header"   // no signature, or something that it covers is not there
	ReasonWrongHeader     Reason = "wrong_header"     // there is a signature, under the name of another provider or an old one
	ReasonMalformedHeader Reason = "malformed_header" // the signature or its timestamp is not written as it should be
	ReasonMalformedBody   Reason = "malformed_body"   // the signature is in the body, which cannot be read
	ReasonStaleTimestamp  Reason = "stale_timestamp"  // the signature is right, its timestamp too far from the time of receipt
	ReasonBodyChanged     Reason = "body_changed"     // the signature is right for the body as it was before something on the way rewrote it
	ReasonWrongURL        Reason = "wrong_url"        // the signature is right for another URL than public_url
	ReasonWrongSettings   Reason = "wrong_settings"   // the signature is right with other settings of the provider hmac
	ReasonWrongSecret     Reason = "wrong_secret"     // no secret matches: another secret, a changed body, or a forgery
	ReasonWrongToken      Reason = "wrong_token"      // a shared token, user name or password that is none of the secrets
	ReasonUntrustedKey    Reason = "untrusted_key"    // the request names a key that is not the provider's
	ReasonNotAllowed      Reason = "not_allowed"      // genuine, but not from where the settings allow
)

func reject(reason Reason, text, hint string) *Rejection {
	return &Rejection{Reason: reason, Text: text, Hint: hint}
}

// rejected answers without saying why: the sender may be guessing.
func rejected(why Rejection) Outcome {
	return Outcome{Kind: KindRejected, Answer: plain(http.StatusUnauthorized, "not verified"), Rejection: why}
}

func notAllowed(methods []string) Outcome {
	answer := plain(http.StatusMethodNotAllowed, "method not allowed")
	answer.Header.Set("Allow", strings.Join(methods, ", "))
	return Outcome{Kind: KindIgnored, Answer: answer}
}

// plain is an answer in text. What a sender wrote may be in it, so no browser is
// to take it for anything else.
func plain(status int, text string) Answer {
	return Answer{Status: status, Body: []byte(text), Header: http.Header{
		"Content-Type": {"text/plain; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"},
	}}
}
