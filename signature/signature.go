// Package signature signs webhooks and verifies their signatures. It imports
// nothing but the standard library, so that a receiver can use it alone:
//
//	verifier, err := signature.NewStandard(os.Getenv("WEBHOOK_SECRET"))
//	…
//	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
//	if err := verifier.Verify(r.Header, body, time.Now()); err != nil {
//		http.Error(w, "bad signature", http.StatusUnauthorized)
//		return
//	}
//
// Two schemes: [Standard] is version v1 of the Standard Webhooks specification
// 1.0.0 (https://www.standardwebhooks.com); [Hex] is a timestamped HMAC in
// hexadecimal, in headers whose names the two sides agree on. Both take several
// secrets, so that a secret can be replaced without a moment in which one side
// does not know the other's.
//
// Verify the very bytes that arrived. A body that was parsed and written out
// again has other bytes, and its signature does not match.
//
// A signature proves who sent a request, and the timestamp that it is not old.
// It does not prove that the request is the first of its kind: deduplicate on
// the webhook's id.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"sync"
	"time"
)

// DefaultTolerance is how far a timestamp may lie from now, in both directions,
// where nothing else is set.
const DefaultTolerance = 5 * time.Minute

// The reasons for which Verify refuses a request; test for them with [errors.Is].
var (
	ErrNoSecret  = errors.New("no secret to verify with")                // the verifier is a zero value
	ErrHeader    = errors.New("signature headers missing or malformed")  // the request was not signed by this scheme
	ErrTimestamp = errors.New("timestamp too far from now")              // replayed, delayed, or a wrong clock
	ErrMismatch  = errors.New("no signature matches the body and a key") // forged, altered, or another secret
)

// maxSignaturesBytes caps a list of signatures. A sender in the middle of a
// rotation sends two; the room is for what else may stand in the list one day.
const maxSignaturesBytes = 4 << 10

// key is one secret with idle HMAC states of it. To prepare a state costs two
// blocks of SHA-256 and six allocations, a third of the time that it takes to
// sign 1 KiB, so states go back to the pool. It grows with the number of
// signatures made at once, and the garbage collector empties it.
type key struct {
	states sync.Pool // of *state
}

type state struct {
	hash.Hash
	prefix []byte // scratch for what is signed before the body
	sum    [sha256.Size]byte
}

func newKey(secret []byte) *key {
	k := &key{}
	k.states.New = func() any { return &state{Hash: hmac.New(sha256.New, secret)} }
	return k
}

// mac computes the HMAC-SHA256 of "id.timestamp.body", or of "timestamp.body"
// where id is empty, into sum.
func (k *key) mac(sum *[sha256.Size]byte, id, timestamp string, body []byte) {
	s := k.states.Get().(*state)
	p := s.prefix[:0]
	if id != "" {
		p = append(append(p, id...), '.')
	}
	p = append(append(p, timestamp...), '.')
	s.Reset()
	s.Write(p)
	s.Write(body)
	*sum = [sha256.Size]byte(s.Sum(s.sum[:0]))
	s.prefix = p
	k.states.Put(s)
}

// checkTimestamp refuses a timestamp that is not Unix seconds in plain decimal
// or lies further from now than the tolerance. Plain digits matter for more than
// order: with a full stop in it, the same signed bytes could be cut into
// timestamp and body in two ways.
func checkTimestamp(timestamp string, now time.Time, tolerance time.Duration) error {
	const maxDigits = 12 // some 30,000 years
	if timestamp == "" || len(timestamp) > maxDigits {
		return fmt.Errorf("%w: timestamp is not Unix seconds", ErrHeader)
	}
	for i := range len(timestamp) {
		if timestamp[i] < '0' || timestamp[i] > '9' {
			return fmt.Errorf("%w: timestamp is not Unix seconds", ErrHeader)
		}
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: timestamp is not Unix seconds", ErrHeader)
	}
	if tolerance <= 0 {
		tolerance = DefaultTolerance
	}
	if off := now.Sub(time.Unix(seconds, 0)); off.Abs() > tolerance {
		return fmt.Errorf("%w: it is %s, at most %s is tolerated", ErrTimestamp, describeOffset(off), tolerance)
	}
	return nil
}

func describeOffset(off time.Duration) string {
	if off < 0 {
		return (-off).Round(time.Second).String() + " in the future"
	}
	return off.Round(time.Second).String() + " old"
}
