package inhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/inbound"
)

const (
	// firstRead is the buffer that every request has before a byte of its body came.
	firstRead = 4 << 10
	// minBytesPerSecond is how fast a body has to arrive, after its patience.
	minBytesPerSecond = 16 << 10
)

var errCrowded = &posthaste.Error{Code: posthaste.CodeOverloaded, Message: "more is being sent to this source than there is room for", Hint: "try again"}

// readBody reads the body as it came, compressed or not, or says how the request
// is answered without it. The memory is taken as the bytes come: what a sender
// declares takes none. The caller releases the share when the body is done with.
func (h *Handler) readBody(q *request, held *share) (refusal *inbound.Answer, err error) {
	limit := int64(q.known.Row.MaxBodyBytes)
	if q.r.ContentLength > limit {
		return q.tooLarge(limit), nil
	}
	in := &bodyReader{q: q, held: held, from: http.MaxBytesReader(q.ResponseWriter, q.r.Body, limit), patience: h.Patience, timeout: h.BodyTimeout}
	body, err := in.readAll(limit, q.r.ContentLength)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return q.tooLarge(limit), nil
	}
	if errors.Is(err, errCrowded) {
		return nil, err
	}
	if err != nil {
		q.result, q.failure = resultUnreadable, err
		answer := plain(http.StatusBadRequest, "the body did not arrive whole")
		answer.Header.Set("Connection", "close")
		return &answer, nil //nolint:nilerr // the sender's fault is answered, and is no failure of ours
	}
	// Left in force it would end the request's context while the event is stored.
	_ = q.control().SetReadDeadline(time.Time{})
	q.body = body
	return nil, nil
}

// bodyReader reads one body, and cuts its sender off if it is silent or slow.
type bodyReader struct {
	q        *request
	held     *share
	from     io.Reader
	patience time.Duration
	timeout  time.Duration
	waited   time.Duration // for room, which is not the sender's fault
}

// readAll reads a body of the declared length, or to its end if length is -1.
func (b *bodyReader) readAll(limit, length int64) ([]byte, error) {
	most := limit
	if length >= 0 {
		most = length
	}
	body := make([]byte, 0, min(firstRead, most))
	for int64(len(body)) < most || length < 0 {
		if len(body) == cap(body) && int64(cap(body)) < most {
			room := min(most, 2*int64(cap(body)))
			if !b.hold(room) {
				return nil, errCrowded
			}
			body = append(make([]byte, 0, room), body...)
		}
		b.setDeadline(len(body))
		into := body[len(body):cap(body)]
		if len(into) == 0 { // the limit is reached: is this the end?
			into = make([]byte, 1)
		}
		n, err := b.from.Read(into)
		if n > 0 && !b.hold(int64(cap(body))) {
			return nil, errCrowded
		}
		body = body[:min(len(body)+n, cap(body))]
		switch {
		case errors.Is(err, io.EOF) && (length < 0 || int64(len(body)) == length):
			return body, nil
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
	}
	return body, nil
}

// hold makes sure that the request holds the room of so many bytes.
func (b *bodyReader) hold(bytes int64) bool {
	if b.held.held >= bytes {
		return true
	}
	waited, ok := b.held.grow(b.q.r.Context(), bytes-b.held.held)
	b.waited += waited
	return ok
}

// setDeadline says until when the next bytes have to come, n being there.
func (b *bodyReader) setDeadline(n int) {
	allowed := min(b.timeout, b.patience+time.Duration(n)*time.Second/minBytesPerSecond)
	_ = b.q.control().SetReadDeadline(b.q.began.Add(allowed + b.waited))
}

func (q *request) tooLarge(limit int64) *inbound.Answer {
	q.result = resultTooLarge
	answer := plain(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", limit))
	answer.Header.Set("Connection", "close")
	return &answer
}
