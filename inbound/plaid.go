package inbound

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste"
)

// Plaid sends a JWT with the hash of the body, signed with a key that its API
// gives out by id.
// Source: plaid.com/docs/api/webhooks/webhook-verification.

const (
	plaidHeader   = "Plaid-Verification"
	maxTokenBytes = 8 << 10
)

// errUnknownKey says that Plaid does not know a key, so that the token is forged.
var errUnknownKey = errors.New("plaid does not know the key")

// jwk is a public key as Plaid writes it (RFC 7517).
type jwk struct {
	KeyType   string `json:"kty"`
	Curve     string `json:"crv"`
	ID        string `json:"kid"`
	X         string `json:"x"`
	Y         string `json:"y"`
	ExpiredAt *int64 `json:"expired_at"`
}

func (k jwk) key() (key, error) {
	x, errX := base64.RawURLEncoding.DecodeString(k.X)
	y, errY := base64.RawURLEncoding.DecodeString(k.Y)
	const size = 32
	if k.KeyType != "EC" || k.Curve != "P-256" || k.ID == "" || errX != nil || errY != nil || len(x) != size || len(y) != size {
		return key{}, errors.New("is not a key of the kind EC on P-256 with kid, x and y")
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
	if err != nil {
		return key{}, errors.New("is not a point of P-256")
	}
	return key{ec: public}, nil
}

func isJWK(secret string) bool { return strings.HasPrefix(secret, "{") }

func plaidSecretProblem(secret string) string {
	if !isJWK(secret) {
		return ""
	}
	var k jwk
	if err := json.Unmarshal([]byte(secret), &k); err != nil {
		return "begins like a key in JSON and is none"
	}
	if _, err := k.key(); err != nil {
		return err.Error()
	}
	return ""
}

// checkPlaid wants what keys are asked for with, unless they are all there.
func checkPlaid(secrets []string, s settings) []posthaste.Problem {
	for _, secret := range secrets {
		if !isJWK(secret) && s["client_id"] == "" {
			return []posthaste.Problem{{Field: "settings.client_id", Message: "is missing", Hint: "keys are asked for at Plaid with it"}}
		}
	}
	return nil
}

// plaidToken is a JWT, taken apart.
type plaidToken struct {
	keyID     string
	signedSum [sha256.Size]byte
	signature []byte
	issuedAt  int64
	bodyHash  string
}

// readPlaidToken looks at the algorithm before anything else. It returns what is
// wrong with a token, to be read after its place.
func readPlaidToken(text string) (t plaidToken, problem string) {
	pieces := strings.Split(text, ".")
	if len(text) > maxTokenBytes || len(pieces) != 3 {
		return t, "is not a JWT"
	}
	var header struct{ Alg, Kid string }
	var claims struct {
		IssuedAt int64  `json:"iat"`
		BodyHash string `json:"request_body_sha256"`
	}
	if err := readPart(pieces[0], &header); err != nil || header.Alg != "ES256" || header.Kid == "" {
		return t, "is not a JWT of the algorithm ES256 with a kid"
	}
	if err := readPart(pieces[1], &claims); err != nil {
		return t, "is a JWT whose claims cannot be read"
	}
	const size = 64 // two numbers of 32 bytes, RFC 7518
	signature, err := base64.RawURLEncoding.DecodeString(pieces[2])
	if err != nil || len(signature) != size {
		return t, "is a JWT whose signature cannot be read"
	}
	t.signature = signature
	t.keyID, t.issuedAt, t.bodyHash = header.Kid, claims.IssuedAt, claims.BodyHash
	t.signedSum = sha256.Sum256([]byte(pieces[0] + "." + pieces[1]))
	return t, ""
}

func readPart(text string, into any) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

func verifyPlaid(ctx context.Context, v *Verifier, r *incoming) (*Rejection, error) {
	text := single(r.Header, plaidHeader)
	if text == "" {
		return reject(ReasonMissingHeader, "the header "+plaidHeader+" is missing, empty or repeated", ""), nil
	}
	token, problem := readPlaidToken(text)
	if problem != "" {
		return reject(ReasonMalformedHeader, "the header "+plaidHeader+" "+problem, ""), nil
	}
	k, err := v.plaidKey(ctx, token.keyID)
	switch {
	case errors.Is(err, errUnknownKey):
		return reject(ReasonUntrustedKey, "the token names a key that Plaid does not know, or that has expired",
			"check that the setting environment is the one that sends"), nil
	case err != nil:
		return nil, err
	}
	half := len(token.signature) / 2
	x, y := new(big.Int).SetBytes(token.signature[:half]), new(big.Int).SetBytes(token.signature[half:])
	if !ecdsa.Verify(k.ec, token.signedSum[:], x, y) {
		return v.noMatch(), nil
	}
	sum := sha256.Sum256(r.Body)
	if sameBytes([]byte(strings.ToLower(token.bodyHash)), []byte(hex.EncodeToString(sum[:]))) != 1 {
		return reject(ReasonBodyChanged, "the token is genuine, and the body is not the one that it was made for", "something between Plaid and here rewrites bodies"), nil
	}
	return v.checkFresh(seconds, strconv.FormatInt(token.issuedAt, 10), r.At), nil
}

// plaidKey returns a key that is among the secrets, or asks Plaid for it.
func (v *Verifier) plaidKey(ctx context.Context, id string) (key, error) {
	canAsk := false
	for _, secret := range v.secrets {
		if !isJWK(secret) {
			canAsk = true
			continue
		}
		var k jwk
		if err := json.Unmarshal([]byte(secret), &k); err == nil && k.ID == id {
			return k.key()
		}
	}
	if !canAsk {
		return key{}, errUnknownKey
	}
	return v.keys.get(ctx, id, func(ctx context.Context) (key, error) { return v.askPlaid(ctx, id) })
}

// askPlaid tries each secret, as only one may be of this environment.
func (v *Verifier) askPlaid(ctx context.Context, id string) (key, error) {
	address := "https://" + v.settings["environment"] + ".plaid.com/webhook_verification_key/get"
	var failure error
	for _, secret := range v.secrets {
		if isJWK(secret) {
			continue
		}
		question, err := json.Marshal(map[string]string{"client_id": v.settings["client_id"], "secret": secret, "key_id": id})
		if err != nil {
			return key{}, fmt.Errorf("ask plaid for a key: %w", err)
		}
		status, text, err := v.fetch(ctx, http.MethodPost, address, bytes.NewReader(question))
		if err != nil {
			return key{}, err
		}
		var answer struct {
			Key       jwk    `json:"key"`
			ErrorCode string `json:"error_code"`
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			failure = fmt.Errorf("ask plaid for a key: it answered %d with something that is not JSON", status)
			continue
		}
		switch {
		case status == http.StatusOK && (answer.Key.ID != id || answer.Key.ExpiredAt != nil):
			return key{}, errUnknownKey
		case status == http.StatusOK:
			return answer.Key.key()
		case answer.ErrorCode == "INVALID_WEBHOOK_VERIFICATION_KEY_ID":
			return key{}, errUnknownKey
		}
		failure = fmt.Errorf("ask plaid for a key: it answered %d %.100q", status, answer.ErrorCode)
	}
	return key{}, failure
}
