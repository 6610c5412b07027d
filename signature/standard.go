package signature

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// Standard signs and verifies version v1 of Standard Webhooks 1.0.0: the base64
// of HMAC-SHA256 over "id.timestamp.body", keyed with what the base64 after
// "whsec_" stands for. Signatures of other versions in a request are skipped.
//
// The zero value refuses everything and signs nothing. Safe for concurrent use.
type Standard struct {
	keys []*key

	// Tolerance is how far the timestamp may lie from now, in both directions.
	// Set it before the first use. Default: 5 minutes, also for anything below
	// zero; the check cannot be switched off.
	Tolerance time.Duration
}

const versionHMAC = "v1,"

// sumBytes is the length of a SHA-256 in padded base64.
var sumBytes = base64.StdEncoding.EncodedLen(sha256.Size)

// NewStandard takes the secrets as they were issued, "whsec_" and base64, the
// newest first. A request is signed with each of them, and accepted if it was
// signed with any of them. The error names the place of a bad secret, not the secret.
func NewStandard(secrets ...string) (*Standard, error) {
	if len(secrets) == 0 {
		return nil, fmt.Errorf("prepare the signature: %w", ErrNoSecret)
	}
	s := &Standard{}
	for i, secret := range secrets {
		raw, err := decodeStandard(secret)
		if err != nil {
			return nil, fmt.Errorf("prepare the signature with secret %d: %w", i+1, err)
		}
		s.keys = append(s.keys, newKey(raw))
	}
	return s, nil
}

// Append appends the value of the header webhook-signature to dst: "v1," and 44
// characters of base64 for each secret, separated by spaces. id is the value of
// webhook-id and must not hold a full stop; at is the time of the attempt, whose
// Unix seconds are the value of webhook-timestamp.
func (s *Standard) Append(dst []byte, id string, at time.Time, body []byte) []byte {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	var sum [sha256.Size]byte
	for i, k := range s.keys {
		if i > 0 {
			dst = append(dst, ' ')
		}
		k.mac(&sum, id, timestamp, body)
		dst = append(dst, versionHMAC...)
		dst = base64.StdEncoding.AppendEncode(dst, sum[:])
	}
	return dst
}

// Verify returns nil if the request with this header and body was signed with
// one of the secrets and its timestamp is within the tolerance of now. Else the
// error wraps [ErrNoSecret], [ErrHeader], [ErrTimestamp] or [ErrMismatch].
func (s *Standard) Verify(header http.Header, body []byte, now time.Time) error {
	if s == nil || len(s.keys) == 0 {
		return fmt.Errorf("verify the signature: %w", ErrNoSecret)
	}
	if err := s.verify(header, body, now); err != nil {
		return fmt.Errorf("verify the signature: %w", err)
	}
	return nil
}

func (s *Standard) verify(header http.Header, body []byte, now time.Time) error {
	id, err1 := single(header, HeaderID)
	timestamp, err2 := single(header, HeaderTimestamp)
	signatures, err3 := single(header, HeaderSignature)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	// The specification asks senders to keep full stops out of ids; to insist
	// means that what was signed can be cut in one way only.
	if strings.Contains(id, ".") {
		return fmt.Errorf("%w: %s holds a full stop", ErrHeader, HeaderID)
	}
	if err := checkTimestamp(timestamp, now, s.Tolerance); err != nil {
		return err
	}
	if len(signatures) > maxSignaturesBytes {
		return fmt.Errorf("%w: %s is longer than %d bytes", ErrHeader, HeaderSignature, maxSignaturesBytes)
	}
	for _, k := range s.keys {
		var sum [sha256.Size]byte
		k.mac(&sum, id, timestamp, body)
		if inList(signatures, sum[:]) {
			return nil
		}
	}
	return ErrMismatch
}

// inList compares as text: every other spelling of the same base64 is refused,
// so a signature has one form only.
func inList(signatures string, sum []byte) bool {
	want := base64.StdEncoding.AppendEncode(make([]byte, 0, 64), sum)
	found := 0
	for one := range strings.SplitSeq(signatures, " ") {
		if got, isV1 := strings.CutPrefix(one, versionHMAC); isV1 && len(got) == sumBytes {
			found |= subtle.ConstantTimeCompare([]byte(got), want)
		}
	}
	return found == 1
}

// single returns a header that must be there exactly once: with two of them, a
// proxy and the receiver might not read the same one.
func single(header http.Header, name string) (string, error) {
	values := header.Values(name)
	if len(values) != 1 || values[0] == "" {
		return "", fmt.Errorf("%w: want one %s, got %d", ErrHeader, name, len(values))
	}
	return values[0], nil
}
