package inbound

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

// Twilio signs the URL that it was given and the fields of the form; of any other
// body the hash, which it adds to the URL.
// Source: twilio.com/docs/usage/webhooks/webhooks-security.

const (
	twilioSignature = "X-Twilio-Signature"
	twilioSettings  = "X-Twilio-Webhooks-Signature-Settings"
	twilioBodyHash  = "bodySHA256"
)

func verifyTwilio(_ context.Context, v *Verifier, r *incoming) (*Rejection, error) {
	s := v.schemes[0]
	if len(s.signature.values(r.Header)) == 0 {
		return v.verifySchemes(r), nil // says what is missing
	}
	// The rule of a webhook may choose a newer hash. Neither can be made without the key.
	if strings.Contains(r.Header.Get(twilioSettings), "algorithm=HMAC_SHA256") {
		s.algorithm = hmacSHA256
	}
	c := claim{}
	for _, value := range s.signature.values(r.Header) {
		if one, ok := s.signature.parse(value); ok {
			c.signatures = append(c.signatures, one.signatures...)
		}
	}
	if len(c.signatures) == 0 {
		return malformedSignature(s), nil
	}
	var fields []byte
	if !looksJSON(bytes.TrimSpace(r.Body)) {
		if len(r.Body) > maxSignedForm {
			return tooLargeForm(), nil
		}
		fields = twilioFields(r.document().form)
	}
	for _, address := range v.addresses(r, s) {
		for _, k := range v.rings[0] {
			if s.algorithm.matches(k, [][]byte{[]byte(address), fields}, c.signatures) {
				return checkTwilioBody(r, address), nil
			}
		}
	}
	return v.noMatch(), nil
}

// checkTwilioBody compares the hash in the URL that was found signed with that of
// a body that is not a form.
func checkTwilioBody(r *incoming, address string) *Rejection {
	u, err := url.Parse(address)
	if err != nil || r.document().form != nil || len(r.Body) == 0 {
		return nil
	}
	sum := sha256.Sum256(r.Body)
	want := strings.ToLower(u.Query().Get(twilioBodyHash))
	if sameBytes([]byte(want), []byte(hex.EncodeToString(sum[:]))) == 1 {
		return nil
	}
	if want == "" {
		return reject(ReasonMissingHeader, "the URL is signed, and has no "+twilioBodyHash+" that covers the body", "the body can be anybody's")
	}
	return reject(ReasonBodyChanged, "the URL is signed, and the body is not the one whose hash is in it", "something between Twilio and here rewrites bodies")
}

// twilioFields writes names and values one after the other, by name, each value of
// a name once, in order.
func twilioFields(form url.Values) []byte {
	var names []string
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	var b []byte
	for _, name := range names {
		values := slices.Clone(form[name])
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			b = append(append(b, name...), value...)
		}
	}
	return b
}

// replyTwilio answers with TwiML: calls and messages want some, all else ignores it.
func replyTwilio(v *Verifier, _ *document) Answer {
	return xmlAnswer(v.settings["twiml"])
}
