package inbound

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // Paddle Classic signs with it
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Providers whose signature is in the body.

// verifyMailgun looks at the timestamp and token that Mailgun signs. The rest of
// the body is not signed; who has seen one request can send another body with its
// signature, so the token is what deliveries are told apart by.
// Source: documentation.mailgun.com, "Securing webhooks".
func verifyMailgun(_ context.Context, v *Verifier, r *incoming) (*Rejection, error) {
	found := false
	for _, p := range mailgunProofs(r.document()) {
		signature, err := hex.DecodeString(p.signature)
		// Timestamp and token are signed without anything between them. Only as the
		// first has a fixed length can the second not be varied.
		if _, stampErr := seconds.parse(p.timestamp); err != nil || len(signature) == 0 || p.token == "" || stampErr != nil {
			continue
		}
		found = true
		for _, secret := range v.secrets {
			if hmacSHA256.matches(key{bytes: []byte(secret)}, [][]byte{[]byte(p.timestamp), []byte(p.token)}, [][]byte{signature}) {
				r.signedID = p.token
				return v.checkFresh(seconds, p.timestamp, r.At), nil
			}
		}
	}
	if !found {
		return reject(ReasonMalformedBody, "the body has no signature with timestamp, token and signature in it", "is this request from Mailgun?"), nil
	}
	return reject(ReasonWrongSecret, "the signature in the body matches none of the secrets", "use the HTTP webhook signing key, which is not the API key"), nil
}

type mailgunProof struct{ timestamp, token, signature string }

// mailgunProofs are the places in a body where Mailgun puts what it signs.
func mailgunProofs(d *document) []mailgunProof {
	read := func(v raw) mailgunProof {
		found := v.pick("timestamp", "token", "signature")
		return mailgunProof{found[0].text(), found[1].text(), found[2].text()}
	}
	if d.json == nil {
		return []mailgunProof{{d.form.Get("timestamp"), d.form.Get("token"), d.form.Get("signature")}}
	}
	where := d.json.pick("signature", "parent-signature")
	return []mailgunProof{read(where[0]), read(where[1]), read(d.json)}
}

// verifyPaddleClassic checks the signature over the other fields of the form, by
// name, in the notation of PHP's serialize with all values as strings.
// Source: developer.paddle.com/classic, "Verifying webhooks".
func verifyPaddleClassic(_ context.Context, v *Verifier, r *incoming) (*Rejection, error) {
	if len(r.Body) > maxSignedForm {
		return tooLargeForm(), nil
	}
	form := r.document().form
	signature := fromBase64(form.Get("p_signature"))
	if signature == nil {
		return reject(ReasonMalformedBody, "the body is not a form with p_signature in it", "is this request from Paddle Classic?"), nil
	}
	sum := sha1.Sum([]byte(phpSerialized(form))) //nolint:gosec // as above
	for _, secret := range v.secrets {
		k, err := rsaKey(secret)
		if err == nil && rsa.VerifyPKCS1v15(k.rsa, crypto.SHA1, sum[:], signature) == nil {
			return nil, nil
		}
	}
	return v.noMatch(), nil
}

func tooLargeForm() *Rejection {
	return reject(ReasonMalformedBody, "the body is larger than any form that is signed field by field", "")
}

func phpSerialized(form url.Values) string {
	var names []string
	for name := range form {
		if name != "p_signature" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b strings.Builder
	text := func(s string) { b.WriteString("s:" + strconv.Itoa(len(s)) + `:"` + s + `";`) }
	b.WriteString("a:" + strconv.Itoa(len(names)) + ":{")
	for _, name := range names {
		values := form[name]
		text(name)
		text(values[len(values)-1]) // PHP keeps the last of several
	}
	b.WriteString("}")
	return b.String()
}

func rsaProblem(secret string) string {
	if _, err := rsaKey(secret); err != nil {
		return err.Error()
	}
	return ""
}

// verifyAdyen checks every item of a payment notification, or the header of the
// newer webhooks. One item that is not genuine condemns the request.
// Source: docs.adyen.com, "Verify HMAC signatures".
func verifyAdyen(_ context.Context, v *Verifier, r *incoming) (*Rejection, error) {
	d := r.document()
	if !d.has("notificationItems") {
		return v.verifySchemes(r), nil
	}
	n := 0
	for item := range d.itemsAt("notificationItems") {
		if n++; n > maxAdyenItems {
			return reject(ReasonMalformedBody, "the body has more than "+strconv.Itoa(maxAdyenItems)+" notificationItems", ""), nil
		}
		of := item.json.get("NotificationRequestItem").pick("additionalData", "pspReference", "originalReference", "merchantAccountCode", "merchantReference",
			"amount", "eventCode", "success")
		signature := fromBase64(of[0].get("hmacSignature").text())
		if signature == nil {
			return reject(ReasonMalformedBody, "item "+strconv.Itoa(n)+" has no additionalData.hmacSignature", "switch HMAC on for this webhook in the Customer Area"), nil
		}
		amount := of[5].pick("value", "currency")
		content := strings.Join([]string{of[1].text(), of[2].text(), of[3].text(), of[4].text(), amount[0].text(), amount[1].text(), of[6].text(), of[7].text()}, ":")
		if !slices.ContainsFunc(v.rings[0], func(k key) bool {
			return hmacSHA256.matches(k, [][]byte{[]byte(content)}, [][]byte{signature})
		}) {
			return v.noMatch(), nil
		}
	}
	if n == 0 {
		return reject(ReasonMalformedBody, "the body has an empty list of notificationItems", ""), nil
	}
	return nil, nil
}

// maxAdyenItems bounds the items of one request, each with a signature of its own:
// Adyen sends one in JSON.
const maxAdyenItems = 100

// verifyGraph compares the clientState of every item: Microsoft Graph signs nothing.
// Source: learn.microsoft.com/graph/change-notifications-delivery-webhooks.
func verifyGraph(_ context.Context, v *Verifier, r *incoming) (*Rejection, error) {
	n := 0
	for item := range r.document().itemsAt("value") {
		if n++; !v.isSecret(item.json.get("clientState").text()) {
			return reject(ReasonWrongToken, "the clientState of notification "+strconv.Itoa(n)+" is none of the secrets",
				"create the subscription with the secret as its clientState"), nil
		}
	}
	if n == 0 {
		return reject(ReasonMalformedBody, "the body has no list of notifications in value", "is this request from Microsoft Graph?"), nil
	}
	return nil, nil
}
