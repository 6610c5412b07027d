package postgres

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/posthaste-dev/posthaste"
)

// A column is an array parameter in PostgreSQL's binary form, built element by
// element. A batch travels as some 30 of them; pgx would box every element in an
// interface and look its type up, which at 12,000 events/s is a tenth of a core.
type column struct {
	elem uint32 // OID of the element's type
	n    int32
	null int32 // 1 if an element is null
	buf  []byte

	ahead int // bytes that it and those after it take on their way; see together
}

// arrayHeaderBytes is the length of the header of a one-dimensional array.
const arrayHeaderBytes = 20

// newColumn makes a column with room for n elements of about size bytes.
func newColumn(elem uint32, n, size int) *column {
	return &column{elem: elem, buf: make([]byte, 0, n*(4+size))}
}

func int2Column(n int) *column { return newColumn(pgtype.Int2OID, n, 2) }
func int4Column(n int) *column { return newColumn(pgtype.Int4OID, n, 4) }
func int8Column(n int) *column { return newColumn(pgtype.Int8OID, n, 8) }
func uuidColumn(n int) *column { return newColumn(pgtype.UUIDOID, n, 16) }
func boolColumn(n int) *column { return newColumn(pgtype.BoolOID, n, 1) }
func textColumn(n int) *column { return newColumn(pgtype.TextOID, n, 16) }
func byteColumn(n, size int) *column {
	return newColumn(pgtype.ByteaOID, n, size)
}

func (c *column) length(n int) {
	c.n++
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(n))
}

func (c *column) int2(v int16) {
	c.length(2)
	c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(v))
}

func (c *column) int4(v int32) {
	c.length(4)
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(v))
}

func (c *column) int8(v int64) {
	c.length(8)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v))
}

func (c *column) time(t time.Time) { c.int8(micros(t)) }

func (c *column) uuid(v [16]byte) {
	c.length(16)
	c.buf = append(c.buf, v[:]...)
}

// flag adds a boolean as the byte that stands for it.
func (c *column) flag(v byte) {
	c.length(1)
	c.buf = append(c.buf, v)
}

func (c *column) durationOrNone(d time.Duration) {
	if d == 0 {
		c.none()
		return
	}
	c.int8(d.Microseconds())
}

func (c *column) text(s string) {
	c.length(len(s))
	c.buf = append(c.buf, s...)
}

func (c *column) bytes(b []byte) {
	c.length(len(b))
	c.buf = append(c.buf, b...)
}

func (c *column) none() {
	c.n++
	c.null = 1
	c.buf = append(c.buf, 0xff, 0xff, 0xff, 0xff) // length -1
}

// bytesOrNone and textOrNone store an empty value as null, which takes a bit
// instead of a byte and, in a table of history, adds up.
func (c *column) bytesOrNone(b []byte) {
	if len(b) == 0 {
		c.none()
		return
	}
	c.bytes(b)
}

func (c *column) textOrNone(s string) {
	if s == "" {
		c.none()
		return
	}
	c.text(s)
}

func (c *column) uuidOrNone(v [16]byte) {
	if v == [16]byte{} {
		c.none()
		return
	}
	c.uuid(v)
}

// appendTo writes the array in the form of array_send: dimensions, whether it
// has nulls, element type, length, lower bound, elements.
func (c *column) appendTo(buf []byte) []byte {
	if c.n == 0 {
		return binary.BigEndian.AppendUint32(append(buf, 0, 0, 0, 0, 0, 0, 0, 0), c.elem)
	}
	buf = append(buf, 0, 0, 0, 1)
	buf = binary.BigEndian.AppendUint32(buf, uint32(c.null))
	buf = binary.BigEndian.AppendUint32(buf, c.elem)
	buf = binary.BigEndian.AppendUint32(buf, uint32(c.n))
	buf = append(buf, 0, 0, 0, 1)
	return append(buf, c.buf...)
}

// together returns the parameters of a statement, the first column among them
// aware of the size of all. pgx lays them out one after the other in one buffer,
// which would grow, and be copied, some ten times on the way to a batch's 50 KB.
func together(args []any) []any {
	total := 64 // for the few that are no columns
	var first *column
	for _, arg := range args {
		if c, ok := arg.(*column); ok {
			total += arrayHeaderBytes + len(c.buf)
			if first == nil {
				first = c
			}
		}
	}
	if first != nil {
		first.ahead = total
	}
	return args
}

// idColumn makes a uuid[] of ids.
func idColumn(ids []posthaste.ID) *column {
	c := uuidColumn(len(ids))
	for _, id := range ids {
		c.uuid(id)
	}
	return c
}

// columnCodec lets a *column pass through pgx to the wire as it is.
type columnCodec struct{ pgtype.Codec }

// PlanEncode implements [pgtype.Codec].
func (c columnCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(*column); ok && format == pgtype.BinaryFormatCode {
		return columnPlan{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type columnPlan struct{}

// Encode implements [pgtype.EncodePlan].
func (columnPlan) Encode(value any, buf []byte) ([]byte, error) {
	c := value.(*column)
	return c.appendTo(slices.Grow(buf, c.ahead)), nil
}

// registerColumns teaches a connection to take columns.
func registerColumns(conn *pgx.Conn) {
	m := conn.TypeMap()
	for _, oid := range []uint32{
		pgtype.Int2ArrayOID, pgtype.Int4ArrayOID, pgtype.Int8ArrayOID,
		pgtype.BoolArrayOID, pgtype.UUIDArrayOID, pgtype.TextArrayOID, pgtype.ByteaArrayOID,
	} {
		if t, ok := m.TypeForOID(oid); ok {
			m.RegisterType(&pgtype.Type{Name: t.Name, OID: oid, Codec: columnCodec{t.Codec}})
		}
	}
}

// eachElement calls do for each element of an array as it came over the wire,
// which has no nulls. The element is only valid during the call.
func eachElement(array []byte, do func(elem []byte)) {
	if len(array) < arrayHeaderBytes { // null, or without elements
		return
	}
	n := binary.BigEndian.Uint32(array[12:])
	rest := array[arrayHeaderBytes:]
	for range n {
		size := binary.BigEndian.Uint32(rest)
		do(rest[4 : 4+size])
		rest = rest[4+size:]
	}
}

// micros is how a time is stored: whole microseconds, 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// timeAt is micros' inverse.
func timeAt(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// appendHeaders encodes headers byte for byte: each name and value led by its
// length. nil for none. Not JSON, which would replace what isn't UTF-8.
func appendHeaders(headers []posthaste.Header) []byte {
	var buf []byte
	for _, h := range headers {
		buf = append(binary.AppendUvarint(buf, uint64(len(h.Name))), h.Name...)
		buf = append(binary.AppendUvarint(buf, uint64(len(h.Value))), h.Value...)
	}
	return buf
}

// readHeaders is appendHeaders' inverse. It ends at what it can't read.
func readHeaders(buf []byte) []posthaste.Header {
	var headers []posthaste.Header
	next := func() (string, bool) {
		n, w := binary.Uvarint(buf)
		if w <= 0 || n > uint64(len(buf)-w) {
			return "", false
		}
		s := string(buf[w : w+int(n)])
		buf = buf[w+int(n):]
		return s, true
	}
	for {
		name, ok := next()
		if !ok {
			return headers
		}
		value, ok := next()
		if !ok {
			return headers
		}
		headers = append(headers, posthaste.Header{Name: name, Value: value})
	}
}
