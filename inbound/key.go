package inbound

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // some providers sign with it
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// algorithm is how a signature is made of a key and the signed content.
type algorithm string

const (
	hmacSHA1         algorithm = "HMAC-SHA1"
	hmacSHA256       algorithm = "HMAC-SHA256"
	hmacSHA512       algorithm = "HMAC-SHA512"
	prefixedSHA256   algorithm = "SHA-256 of the secret and the content"
	ed25519Signature algorithm = "ed25519"
	ecdsaSHA256      algorithm = "ECDSA P-256 with SHA-256"
	equality         algorithm = "equality with the secret"
)

// key is one secret, ready for use; which of the fields is set is the form's matter.
type key struct {
	bytes []byte
	ed    ed25519.PublicKey
	ec    *ecdsa.PublicKey
	rsa   *rsa.PublicKey
}

// matches reports whether one of the signatures is that of the content. Every
// comparison of something secret takes the same time, whatever is compared.
func (a algorithm) matches(k key, content, signatures [][]byte) bool {
	switch a {
	case equality:
		return anyEqual(signatures, k.bytes)
	case ed25519Signature:
		message := bytes.Join(content, nil)
		for _, s := range signatures {
			count(content)
			if len(s) == ed25519.SignatureSize && ed25519.Verify(k.ed, message, s) {
				return true
			}
		}
		return false
	case ecdsaSHA256:
		sum := digest(sha256.New(), content)
		for _, s := range signatures {
			if ecdsa.VerifyASN1(k.ec, sum, s) {
				return true
			}
		}
		return false
	}
	return anyEqual(signatures, digest(a.hash(k.bytes), content))
}

func (a algorithm) hash(secret []byte) hash.Hash {
	switch a {
	case hmacSHA1:
		return hmac.New(sha1.New, secret)
	case hmacSHA512:
		return hmac.New(sha512.New, secret)
	case prefixedSHA256:
		h := sha256.New()
		h.Write(secret)
		return h
	}
	return hmac.New(sha256.New, secret)
}

// isHMAC reports whether a secret of the algorithm may be any bytes.
func (a algorithm) isHMAC() bool {
	return a == hmacSHA1 || a == hmacSHA256 || a == hmacSHA512 || a == prefixedSHA256
}

// size is the length of a signature in bytes; 0 where that varies.
func (a algorithm) size() int {
	switch a {
	case hmacSHA1:
		return sha1.Size
	case hmacSHA256, prefixedSHA256:
		return sha256.Size
	case hmacSHA512:
		return sha512.Size
	case ed25519Signature:
		return ed25519.SignatureSize
	}
	return 0
}

func digest(h hash.Hash, content [][]byte) []byte {
	count(content)
	for _, part := range content {
		h.Write(part)
	}
	return h.Sum(nil)
}

// onHash lets tests see each pass over signed content, with its bytes.
var onHash func(bytes int)

func count(content [][]byte) {
	if onHash == nil {
		return
	}
	n := 0
	for _, part := range content {
		n += len(part)
	}
	onHash(n)
}

func anyEqual(signatures [][]byte, want []byte) bool {
	found := 0
	for _, s := range signatures {
		found |= sameBytes(s, want)
	}
	return found == 1
}

// sameBytes hides the length of what is compared, too.
func sameBytes(a, b []byte) int {
	x, y := sha256.Sum256(a), sha256.Sum256(b)
	return subtle.ConstantTimeCompare(x[:], y[:])
}

// isSecret reports in constant time whether text is one of the verifier's secrets.
func (v *Verifier) isSecret(text string) bool {
	found := 0
	for _, secret := range v.secrets {
		found |= sameBytes([]byte(text), []byte(secret))
	}
	return found == 1
}

// encoding is how bytes are written in a header.
type encoding string

const (
	hexDigits encoding = "hex"
	base64Std encoding = "base64"
	verbatim  encoding = "text"
)

func (e encoding) decode(text string) ([]byte, error) {
	switch e {
	case hexDigits:
		return hex.DecodeString(text)
	case base64Std:
		return base64.StdEncoding.Strict().DecodeString(text)
	}
	return []byte(text), nil
}

// fromBase64 returns what the text stands for, or nil.
func fromBase64(text string) []byte {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 {
		return nil
	}
	return raw
}

// keyForm is what the text of a secret stands for.
type keyForm string

const (
	textKey    keyForm = "text"       // its UTF-8 bytes, whatever it looks like
	base64Key  keyForm = "base64"     // bytes in base64
	hexKey     keyForm = "hex"        // bytes in hexadecimal
	whsecKey   keyForm = "whsec"      // base64, after "whsec_" or not: Standard Webhooks
	signingKey keyForm = "signing"    // as whsecKey, and only after "whsec_"
	whpkKey    keyForm = "whpk"       // base64 of an ed25519 public key, after "whpk_"
	hexEd25519 keyForm = "hex-public" // an ed25519 public key in hexadecimal
	spkiECDSA  keyForm = "spki"       // base64 of an ECDSA public key in DER
)

const (
	whsecPrefix = "whsec_"
	whpkPrefix  = "whpk_"

	versionPrefix = "v1,"
)

// key reads a secret. The error says what is wrong, to be read after the secret's
// place, and holds nothing of it.
func (s scheme) key(secret string) (key, error) {
	switch s.form {
	case base64Key:
		return bytesKey(base64.StdEncoding, secret, "is not base64")
	case hexKey:
		raw, err := hex.DecodeString(secret)
		if err != nil || len(raw) == 0 {
			return key{}, errors.New("is not hexadecimal")
		}
		return key{bytes: raw}, nil
	case whsecKey:
		if strings.HasPrefix(secret, whpkPrefix) {
			return key{}, errors.New("is a public key")
		}
		// Some show the version of the signatures before it: v1,whsec_…
		return bytesKey(base64.StdEncoding, strings.TrimPrefix(strings.TrimPrefix(secret, versionPrefix), whsecPrefix), `is not base64 after "whsec_"`)
	case signingKey:
		text, found := strings.CutPrefix(strings.TrimPrefix(secret, versionPrefix), whsecPrefix)
		if !found {
			return key{}, errors.New(`does not begin with "whsec_"`)
		}
		return bytesKey(base64.StdEncoding, text, `is not base64 after "whsec_"`)
	case whpkKey:
		text, found := strings.CutPrefix(secret, whpkPrefix)
		raw, err := base64.StdEncoding.DecodeString(text)
		if !found || err != nil || len(raw) != ed25519.PublicKeySize {
			return key{}, fmt.Errorf(`is not "whpk_" and the base64 of %d bytes`, ed25519.PublicKeySize)
		}
		return key{ed: raw}, nil
	case hexEd25519:
		raw, err := hex.DecodeString(secret)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return key{}, fmt.Errorf("is not an ed25519 public key of %d hexadecimal digits", hex.EncodedLen(ed25519.PublicKeySize))
		}
		return key{ed: raw}, nil
	case spkiECDSA:
		return ecdsaKey(secret)
	}
	return key{bytes: []byte(secret)}, nil
}

func bytesKey(e *base64.Encoding, text, problem string) (key, error) {
	raw, err := e.DecodeString(text)
	if err != nil || len(raw) == 0 {
		return key{}, errors.New(problem)
	}
	return key{bytes: raw}, nil
}

func ecdsaKey(secret string) (key, error) {
	der, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		return key{}, errors.New("is not the base64 of a public key")
	}
	public, err := x509.ParsePKIXPublicKey(der)
	ec, ok := public.(*ecdsa.PublicKey)
	if err != nil || !ok || ec.Curve != elliptic.P256() {
		return key{}, errors.New("is not an ECDSA public key on P-256")
	}
	return key{ec: ec}, nil
}

// rsaKey reads an RSA public key in PEM.
func rsaKey(secret string) (key, error) {
	block, _ := pem.Decode([]byte(secret))
	if block == nil {
		return key{}, errors.New("is not a public key in PEM")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	k, ok := public.(*rsa.PublicKey)
	if err != nil || !ok {
		return key{}, errors.New("is not an RSA public key")
	}
	return key{rsa: k}, nil
}
