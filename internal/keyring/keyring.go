// Package keyring keeps secrets sealed at rest: what it seals can be opened only
// with the master key and only in the place it was sealed for.
//
// The cipher is XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03), whose random
// nonces of 24 bytes never repeat in practice, however many secrets one master
// key seals; AES-GCM with its 12 bytes would need a count of them.
package keyring

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead/subtle"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// MasterKeyBytes is the length of a master key before it is written in base64.
const MasterKeyBytes = 32

// ErrSealed says that a sealed secret could not be opened: it was sealed with
// another master key or for another place, or it was altered.
var ErrSealed = errors.New("sealed with another master key, for another place, or altered")

// Keyring seals and opens with one master key. Safe for concurrent use.
type Keyring struct {
	aead  tink.AEAD
	id    string
	label [sha256.Size]byte // the key of fingerprints
}

// New takes a master key: the base64 of 32 random bytes, with or without
// padding, in the standard or the URL alphabet; white space around it is
// dropped, since keys come from files. The error never holds the key.
func New(masterKey string) (*Keyring, error) {
	raw, err := decode(strings.TrimSpace(masterKey))
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	aead, err := subtle.NewXChaCha20Poly1305(raw)
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	// A hash under a label of its own, so that the id tells nothing of the key
	// and is no hash of it that anything else uses.
	sum := sha256.Sum256(append([]byte("posthaste master key id\x00"), raw...))
	label := sha256.Sum256(append([]byte("posthaste fingerprints\x00"), raw...))
	return &Keyring{aead: aead, id: hex.EncodeToString(sum[:8]), label: label}, nil
}

func decode(masterKey string) ([]byte, error) {
	if masterKey == "" {
		return nil, errors.New("it is empty, want the base64 of 32 bytes")
	}
	text := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(masterKey, "="))
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("it is not base64, want the base64 of 32 bytes")
	}
	if len(raw) != MasterKeyBytes {
		return nil, fmt.Errorf("it stands for %d bytes, want the base64 of %d", len(raw), MasterKeyBytes)
	}
	return raw, nil
}

// Generate returns a new random master key in the form that New takes.
func Generate() string {
	var raw [MasterKeyBytes]byte
	rand.Read(raw[:]) // never fails since Go 1.24
	return base64.StdEncoding.EncodeToString(raw[:])
}

// KeyID names the master key, 16 characters of hex: what is sealed is stored
// beside it, so that a wrong or replaced master key is told from damage.
func (k *Keyring) KeyID() string { return k.id }

// Fingerprint returns 8 characters of hex by which people tell one secret from another.
// Without the master key it does not help to guess the secret.
func (k *Keyring) Fingerprint(secret []byte) string {
	mac := hmac.New(sha256.New, k.label[:])
	mac.Write(secret)
	return hex.EncodeToString(mac.Sum(nil)[:4])
}

// Seal encrypts plaintext for a place: sealed bytes that are moved elsewhere,
// another endpoint's row say, do not open there. The result is 40 bytes longer.
func (k *Keyring) Seal(context string, plaintext []byte) ([]byte, error) {
	sealed, err := k.aead.Encrypt(plaintext, []byte(context))
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", context, err)
	}
	return sealed, nil
}

// Open decrypts what Seal made for the same place. Any failure is [ErrSealed].
func (k *Keyring) Open(context string, sealed []byte) ([]byte, error) {
	plaintext, err := k.aead.Decrypt(sealed, []byte(context))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", context, ErrSealed)
	}
	return plaintext, nil
}
