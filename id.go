package posthaste

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"
)

// ID identifies an event, a delivery, an endpoint or another object. It is a
// UUIDv7 (RFC 9562) whose free bits are used as follows, from the left:
//
//	48 bits  Unix milliseconds
//	 4 bits  version, 7
//	12 bits  counter within the millisecond
//	 2 bits  variant, 2
//	42 bits  random
//	20 bits  number: zero in an event's id; a delivery's place in the fan-out of its event, from 1
//
// So the ids of an event's deliveries are one range that begins at the event's
// id, and ids sort by time as bytes, as text and in both databases.
type ID [16]byte

// Kind is the prefix that says what a printed id names.
type Kind string

// The kinds of ids.
const (
	KindEvent    Kind = "evt"
	KindDelivery Kind = "dlv"
	KindEndpoint Kind = "ep"
	KindSource   Kind = "src"
	KindKey      Kind = "key"
	KindReplay   Kind = "rpl"
)

// MaxID is above every id that can be minted: the end of a range without end.
var MaxID = ID{0: 0xff, 1: 0xff, 2: 0xff, 3: 0xff, 4: 0xff, 5: 0xff, 6: 0xff, 7: 0xff, 8: 0xff, 9: 0xff, 10: 0xff, 11: 0xff, 12: 0xff, 13: 0xff, 14: 0xff, 15: 0xff}

// MaxNumber is the highest number a delivery can have within its event.
const MaxNumber = 1<<20 - 1

// IsZero reports whether id is the zero value, which names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders ids by time: -1, 0 or +1.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// Time returns when the id was minted, in whole milliseconds, UTC.
func (id ID) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

// Number returns the 20-bit number: 0 for an event, from 1 for a delivery.
func (id ID) Number() uint32 { return binary.BigEndian.Uint32(id[12:]) & MaxNumber }

// Event returns the id of the event that a delivery belongs to.
func (id ID) Event() ID { return id.Delivery(0) }

// Delivery returns the id of the n-th delivery of the event id, 1 ≤ n ≤ [MaxNumber].
func (id ID) Delivery(n uint32) ID {
	word := binary.BigEndian.Uint32(id[12:])
	binary.BigEndian.PutUint32(id[12:], word&^uint32(MaxNumber)|n&MaxNumber)
	return id
}

// FloorID returns the smallest id that can be minted at t: a bound for ranges.
func FloorID(t time.Time) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], uint64(max(0, t.UnixMilli()))<<16)
	return id
}

// Crockford's base32 in lower case, as TypeID 0.3 prescribes.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var digits = func() (d [256]byte) {
	for i := range d {
		d[i] = 0xff
	}
	for i := range len(alphabet) {
		d[alphabet[i]] = byte(i)
	}
	return d
}()

// Print returns the public form of the id: the kind, "_", and 26 characters of
// base32 (TypeID: two leading zero bits, then the 128 bits).
func (id ID) Print(kind Kind) string {
	var buf [40]byte // on the stack for every kind there is
	return string(id.Append(buf[:0], kind))
}

// Append appends what [ID.Print] returns to b.
func (id ID) Append(b []byte, kind Kind) []byte {
	b = append(append(append(b, kind...), '_'), alphabet[:26]...) // written over from here on
	digits := b[len(b)-26:]
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	// From the right: 60 bits of the low word, then four of it with one of the
	// high word, then the other 63.
	for i := 25; i > 13; i-- {
		digits[i] = alphabet[lo&31]
		lo >>= 5
	}
	digits[13] = alphabet[lo|(hi&1)<<4]
	hi >>= 1
	for i := 12; i >= 0; i-- {
		digits[i] = alphabet[hi&31]
		hi >>= 5
	}
	return b
}

// ParseID reads the public form of an id of the given kind. The error says what
// is wrong with s in words for the caller of an API.
func ParseID(kind Kind, s string) (ID, error) {
	var id ID
	prefix := string(kind) + "_"
	if len(s) != len(prefix)+26 || s[:len(prefix)] != prefix {
		return id, fmt.Errorf("want %q and 26 characters of base32", prefix)
	}
	body := s[len(prefix):]
	if body[0] > '7' { // 26 digits hold 130 bits: the first may only use three of its five
		return id, fmt.Errorf("the first character after %q is above 7", prefix)
	}
	var hi, lo uint64
	for i := range len(body) {
		v := digits[body[i]]
		if v == 0xff {
			return ID{}, fmt.Errorf("character %q is not base32", body[i])
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, nil
}

// Minter makes ids that rise strictly within the process, even when the clock
// stands still or steps back. The zero value is ready. Safe for concurrent use.
type Minter struct {
	mu      sync.Mutex
	ms      int64
	counter uint16
	pool    [512]byte // random bytes, refilled when used up
	left    int
}

// Mint returns a new event id (number 0) for the time now. When more than 4,096
// ids fall into one millisecond, the next ones borrow from the following one.
func (m *Minter) Mint(now time.Time) ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ms := now.UnixMilli(); ms > m.ms {
		m.ms, m.counter = ms, 0
	} else if m.counter++; m.counter > 0xfff {
		m.ms, m.counter = m.ms+1, 0
	}
	if m.left < 8 {
		_, _ = rand.Read(m.pool[:]) // never fails since Go 1.24
		m.left = len(m.pool)
	}
	random := binary.BigEndian.Uint64(m.pool[len(m.pool)-m.left:])
	m.left -= 8
	var id ID
	binary.BigEndian.PutUint64(id[:8], uint64(m.ms)<<16|0x7000|uint64(m.counter))
	binary.BigEndian.PutUint64(id[8:], 1<<63|random&(1<<62-1)&^uint64(MaxNumber))
	return id
}
