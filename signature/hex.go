package signature

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Hex signs and verifies a timestamped HMAC in hexadecimal:
//
//	sha256=HEX(HMAC-SHA256(secret, timestamp + "." + body))
//
// The key is the secret's text, its UTF-8 bytes, whatever it looks like. The
// timestamp is Unix seconds. Names of the headers are for the two sides to agree.
//
// While a secret is being replaced, the header holds one signature for each
// secret, the newest first: "sha256=AAA,sha256=BBB". A receiver that compares
// the whole header with a single signature cannot follow that; give it the new
// secret without an overlap.
//
// The zero value refuses everything and signs nothing. Safe for concurrent use.
type Hex struct {
	keys []*key

	// Tolerance is how far the timestamp may lie from now, in both directions.
	// Set it before the first use. Default: 5 minutes, also for anything below
	// zero; the check cannot be switched off.
	Tolerance time.Duration
}

const hexPrefix = "sha256="

// NewHex takes the secrets, the newest first. A request is signed with each of
// them, and accepted if it was signed with any of them. The error names the
// place of a bad secret, not the secret.
func NewHex(secrets ...string) (*Hex, error) {
	if len(secrets) == 0 {
		return nil, fmt.Errorf("prepare the signature: %w", ErrNoSecret)
	}
	h := &Hex{}
	for i, secret := range secrets {
		if err := CheckHex(secret); err != nil {
			return nil, fmt.Errorf("prepare the signature with secret %d: %w", i+1, err)
		}
		h.keys = append(h.keys, newKey([]byte(secret)))
	}
	return h, nil
}

// Append appends the value of the signature header to dst: "sha256=" and 64
// lower-case digits for each secret, separated by commas. at is the time of the
// attempt, whose Unix seconds are the value of the timestamp header.
func (h *Hex) Append(dst []byte, at time.Time, body []byte) []byte {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	var sum [sha256.Size]byte
	for i, k := range h.keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		k.mac(&sum, "", timestamp, body)
		dst = append(dst, hexPrefix...)
		dst = hex.AppendEncode(dst, sum[:])
	}
	return dst
}

// HexRequest is what [Hex.Verify] looks at: the values of the two headers as
// they came, and the raw body.
type HexRequest struct {
	Timestamp string
	Signature string
	Body      []byte
}

// Verify returns nil if the request was signed with one of the secrets and its
// timestamp is within the tolerance of now. Else the error wraps [ErrNoSecret],
// [ErrHeader], [ErrTimestamp] or [ErrMismatch].
func (h *Hex) Verify(r HexRequest, now time.Time) error {
	if h == nil || len(h.keys) == 0 {
		return fmt.Errorf("verify the signature: %w", ErrNoSecret)
	}
	if err := h.verify(r, now); err != nil {
		return fmt.Errorf("verify the signature: %w", err)
	}
	return nil
}

func (h *Hex) verify(r HexRequest, now time.Time) error {
	if r.Signature == "" || len(r.Signature) > maxSignaturesBytes {
		return fmt.Errorf("%w: signature is empty or longer than %d bytes", ErrHeader, maxSignaturesBytes)
	}
	if err := checkTimestamp(r.Timestamp, now, h.Tolerance); err != nil {
		return err
	}
	for _, k := range h.keys {
		var sum [sha256.Size]byte
		k.mac(&sum, "", r.Timestamp, r.Body)
		if inHexList(r.Signature, sum[:]) {
			return nil
		}
	}
	return ErrMismatch
}

func inHexList(signatures string, sum []byte) bool {
	found := 0
	for one := range strings.SplitSeq(signatures, ",") {
		digits, isHex := strings.CutPrefix(strings.TrimSpace(one), hexPrefix)
		if !isHex || len(digits) != hex.EncodedLen(sha256.Size) {
			continue
		}
		var got [sha256.Size]byte
		if _, err := hex.Decode(got[:], []byte(digits)); err == nil {
			found |= subtle.ConstantTimeCompare(got[:], sum)
		}
	}
	return found == 1
}
