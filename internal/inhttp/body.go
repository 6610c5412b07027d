package inhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/inbound"
)

// maxReadingBytes bounds the bodies that are in memory at once, of all sources:
// whoever knows a URL can send, before anything is known of him.
const maxReadingBytes = 128 << 20

// budget counts what is taken of a bound.
type budget struct{ taken atomic.Int64 }

func (b *budget) take(n int64) bool {
	if b.taken.Add(n) > maxReadingBytes {
		b.taken.Add(-n)
		return false
	}
	return true
}

var errCrowded = &posthaste.Error{Code: posthaste.CodeOverloaded, Message: "more is being sent to sources than there is room for", Hint: "try again"}

// readBody reads the body as it came, compressed or not, or says how the request
// is answered without it. The caller calls release when the body is done with.
func (h *Handler) readBody(q *request) (release func(), refusal *inbound.Answer, err error) {
	limit, length := int64(q.known.Row.MaxBodyBytes), q.r.ContentLength
	release = func() {}
	if length > limit {
		return release, q.tooLarge(limit), nil
	}
	room := length
	if length < 0 { // it is not said how much is to come
		room = limit
	}
	if !h.reading.take(room) {
		return release, nil, errCrowded
	}
	release = func() { h.reading.taken.Add(-room) }
	body, err := readAll(http.MaxBytesReader(q.ResponseWriter, q.r.Body, limit), length)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return release, q.tooLarge(limit), nil
	}
	if err != nil {
		q.result, q.failure = resultUnreadable, err
		answer := plain(http.StatusBadRequest, "the body did not arrive whole")
		answer.Header.Set("Connection", "close")
		return release, &answer, nil //nolint:nilerr // what the sender did is answered, not a failure of ours
	}
	// Left in force it would end the request's context while the event is stored.
	_ = q.control().SetReadDeadline(time.Time{})
	q.body = body
	return release, nil, nil
}

// readAll reads a body exactly once into a buffer of its size, where that is known.
func readAll(r io.Reader, length int64) ([]byte, error) {
	if length < 0 {
		return io.ReadAll(r)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(r, body)
	return body, err
}

func (q *request) tooLarge(limit int64) *inbound.Answer {
	q.result = resultTooLarge
	answer := plain(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", limit))
	answer.Header.Set("Connection", "close")
	return &answer
}
