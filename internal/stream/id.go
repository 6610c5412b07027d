package stream

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// An id of the stream is a cursor with the time up to which it is known to have
// seen everything: base64 of a version, the time in seconds, and the cursor's numbers.
const (
	idVersion = 1
	maxOpen   = 10_000 // more transactions than PostgreSQL has sessions
	maxPlace  = 1 << 30
)

var errNoID = errors.New("it is no id of this stream")

// printID prints a cursor that has seen all that happened before a time.
func printID(c store.Cursor, at time.Time) string {
	buf := make([]byte, 0, 32+4*len(c.Open))
	buf = binary.AppendUvarint(append(buf, idVersion), uint64(max(0, at.Unix())))
	buf = binary.AppendUvarint(buf, c.Next)
	buf = binary.AppendUvarint(buf, uint64(len(c.Open)))
	for i := len(c.Open) - 1; i >= 0; i-- { // by the distance from the number above: small numbers
		above := c.Next
		if i+1 < len(c.Open) {
			above = c.Open[i+1]
		}
		buf = binary.AppendUvarint(buf, above-c.Open[i])
	}
	if c.Tx != 0 {
		buf = binary.AppendUvarint(buf, c.Next-c.Tx)
		buf = binary.AppendUvarint(buf, uint64(c.Kind))
		buf = binary.AppendUvarint(buf, uint64(c.Place))
	}
	return base64.RawURLEncoding.EncodeToString(buf)
}

// parseID is printID's inverse. What it returns keeps the promises of a cursor,
// whoever made the id.
func parseID(id string) (c store.Cursor, at time.Time, err error) {
	buf, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(buf) == 0 || buf[0] != idVersion {
		return c, at, errNoID
	}
	buf = buf[1:]
	whole := true
	next := func(limit uint64) uint64 {
		v, n := binary.Uvarint(buf)
		if n <= 0 || v > limit {
			whole = false
			return 0
		}
		buf = buf[n:]
		return v
	}
	const most = 1 << 62
	at = time.Unix(int64(next(most>>16)), 0)
	c.Next = next(most)
	open := int(next(maxOpen))
	if !whole || open > len(buf) {
		return store.Cursor{}, at, errNoID
	}
	c.Open = make([]uint64, open)
	above := c.Next
	for i := open - 1; i >= 0 && whole; i-- {
		step := next(above)
		whole = whole && step > 0
		above -= step
		c.Open[i] = above
	}
	if whole && len(buf) > 0 {
		c.Tx = c.Next - next(c.Next)
		c.Kind, c.Place = store.ChangeKind(next(uint64(store.ChangeGate))), int(next(maxPlace))
		whole = whole && c.Tx != 0 && !c.Sees(c.Tx) && len(buf) == 0
	}
	if !whole {
		return store.Cursor{}, at, errNoID
	}
	return c, at, nil
}
