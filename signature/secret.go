package signature

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of secrets, in bytes. Those of [Standard] are the specification's and
// count what the base64 stands for; those of [Hex] count the text.
const (
	MinStandardBytes = 24
	MaxStandardBytes = 64
	MinHexBytes      = 16
	MaxHexBytes      = 256
)

const secretPrefix = "whsec_"

// NewSecret returns a new random secret: "whsec_" and the base64 of 24 bytes.
// It serves both schemes; for [Hex] the key is its text.
func NewSecret() string {
	var raw [MinStandardBytes]byte
	rand.Read(raw[:]) // never fails since Go 1.24
	return secretPrefix + base64.StdEncoding.EncodeToString(raw[:])
}

// CheckStandard returns what is wrong with a secret for [Standard], or nil. The
// error never holds the secret or a part of it.
func CheckStandard(secret string) error {
	_, err := decodeStandard(secret)
	return err
}

// CheckHex returns what is wrong with a secret for [Hex], or nil. The error
// never holds the secret or a part of it.
func CheckHex(secret string) error {
	switch {
	case !utf8.ValidString(secret):
		return errors.New("the secret is not UTF-8")
	case len(secret) < MinHexBytes:
		return fmt.Errorf("the secret is shorter than %d bytes", MinHexBytes)
	case len(secret) > MaxHexBytes:
		return fmt.Errorf("the secret is longer than %d bytes", MaxHexBytes)
	}
	return nil
}

func decodeStandard(secret string) ([]byte, error) {
	encoded, found := strings.CutPrefix(secret, secretPrefix)
	if !found {
		return nil, fmt.Errorf("the secret does not begin with %q", secretPrefix)
	}
	// Go's decoder skips line breaks, other receivers' decoders may not.
	if strings.ContainsAny(encoded, "\r\n") {
		return nil, errors.New("the secret has a line break in it")
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("what follows %q is not base64 with padding", secretPrefix)
	}
	if len(raw) < MinStandardBytes || len(raw) > MaxStandardBytes {
		return nil, fmt.Errorf("the secret has %d bytes, want %d to %d", len(raw), MinStandardBytes, MaxStandardBytes)
	}
	return raw, nil
}
