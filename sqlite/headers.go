package sqlite

import (
	"encoding/binary"
	"errors"

	"github.com/posthaste-dev/posthaste"
)

// encodeHeaders is the stored form of headers: of each name and each value its
// length as a varint, then its bytes. JSON would not do: it turns what is not
// UTF-8 into something else, and a receiver sends what it likes. No headers are nil.
func encodeHeaders(headers []posthaste.Header) []byte {
	size := 0
	for _, h := range headers {
		size += len(h.Name) + len(h.Value) + 2*binary.MaxVarintLen16
	}
	if size == 0 {
		return nil
	}
	out := make([]byte, 0, size)
	for _, h := range headers {
		for _, s := range [...]string{h.Name, h.Value} {
			out = binary.AppendUvarint(out, uint64(len(s)))
			out = append(out, s...)
		}
	}
	return out
}

var errHeaders = errors.New("the stored headers are damaged")

func decodeHeaders(stored []byte) (headers []posthaste.Header, err error) {
	next := func() (s string) {
		n, used := binary.Uvarint(stored)
		if used <= 0 || n > uint64(len(stored)-used) {
			err = errHeaders
			return ""
		}
		s, stored = string(stored[used:used+int(n)]), stored[used+int(n):]
		return s
	}
	for len(stored) > 0 {
		h := posthaste.Header{Name: next(), Value: next()}
		if err != nil {
			return nil, err
		}
		headers = append(headers, h)
	}
	return headers, nil
}
