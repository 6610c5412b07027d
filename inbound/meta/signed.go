package meta

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// ErrSignedRequest is what every refusal of [ParseSignedRequest] wraps.
var ErrSignedRequest = errors.New("signed_request refused")

// maxSignedRequestBytes caps what is hashed for a caller who proved nothing yet.
const maxSignedRequestBytes = 16 << 10

// SignedRequest is what Meta posts to the deauthorize and the data deletion
// callback of an app, in the form field "signed_request".
type SignedRequest struct {
	UserID   string // as the app knows the person
	IssuedAt time.Time
	Payload  json.RawMessage // all of it
}

// ParseSignedRequest verifies the value of the field, with any of the app's
// secrets, and reads it: BASE64URL(HMAC-SHA256(secret, payload)) "." payload,
// the payload in base64url, and the HMAC over that text rather than over what it
// encodes. An app with Instagram login has a secret for Facebook and another one
// for Instagram: pass both. Errors wrap [ErrSignedRequest] and hold no secret.
//
// A signed request has no nonce, and deleting twice does no harm; so its age is
// left to the caller, who may compare IssuedAt with the clock.
// https://developers.facebook.com/docs/facebook-login/guides/advanced/manual-flow#parsingsr
func ParseSignedRequest(secrets []string, value string) (SignedRequest, error) {
	refuse := func(why string) (SignedRequest, error) {
		return SignedRequest{}, fmt.Errorf("verify the request: %w: %s", ErrSignedRequest, why)
	}
	if len(value) > maxSignedRequestBytes {
		return refuse("it is too long")
	}
	encodedSum, encoded, hasDot := strings.Cut(value, ".")
	if !hasDot {
		return refuse("it has no dot")
	}
	sum, err := decodeBase64(encodedSum)
	if err != nil {
		return refuse("the signature is not base64url")
	}
	if !isSignedBy(secrets, encoded, sum) {
		return refuse("the signature does not match")
	}
	text, err := decodeBase64(encoded)
	if err != nil || !json.Valid(text) {
		return refuse("the payload is not JSON in base64url")
	}
	start := space(text, 0)
	payload := raw(text[start:skip(text, start)])
	if algorithm := payload.get("algorithm").text(); !strings.EqualFold(algorithm, "HMAC-SHA256") {
		return refuse(fmt.Sprintf("algorithm %.64q, want HMAC-SHA256", algorithm))
	}
	userID := payload.get("user_id").text()
	if userID == "" {
		return refuse("it names no user")
	}
	return SignedRequest{UserID: userID, IssuedAt: payload.get("issued_at").instant(), Payload: json.RawMessage(payload)}, nil
}

func isSignedBy(secrets []string, text string, sum []byte) bool {
	found := false
	for _, secret := range secrets {
		if secret == "" {
			continue // anyone can sign with that
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(text))
		found = hmac.Equal(mac.Sum(nil), sum) || found
	}
	return found
}

// decodeBase64 takes both forms, with and without padding.
func decodeBase64(s string) ([]byte, error) {
	return base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(s, "="))
}

// DeletionAnswer returns the JSON body that the data deletion callback must be
// answered with: where the person can follow the deletion, an absolute URL, and
// the code that names it there.
// https://developers.facebook.com/docs/development/create-an-app/app-dashboard/data-deletion-callback
func DeletionAnswer(statusURL, confirmationCode string) ([]byte, error) {
	u, err := url.Parse(statusURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("answer the data deletion request: %q is not an absolute URL", statusURL)
	}
	if confirmationCode == "" {
		return nil, errors.New("answer the data deletion request: the confirmation code is empty")
	}
	body, err := json.Marshal(struct {
		URL  string `json:"url"`
		Code string `json:"confirmation_code"`
	}{statusURL, confirmationCode})
	if err != nil {
		return nil, fmt.Errorf("answer the data deletion request: %w", err)
	}
	return body, nil
}
