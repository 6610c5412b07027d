package posthastetest

import (
	"io"
	"net/http"
	"time"
)

// Answer is what a request gets. The zero value is 200 at once.
type Answer struct {
	// Status is an HTTP status, 200 to 599. Default: 200.
	Status int
	// Header goes with it, such as Retry-After. Default: none.
	Header http.Header
	// Body goes with it. Default: empty.
	Body string
	// Delay is waited for first. Default: none.
	Delay time.Duration
	// Hang gives no answer and keeps the connection open, until the client leaves or
	// the receiver is closed. Default: false.
	Hang bool
	// Drop closes the connection without an answer. Default: false.
	Drop bool
}

// Next tells how the next requests are answered, one answer each, in the order in
// which they arrive; after them it is [Config.Answer]'s turn again. Called again,
// it adds to those that are left. A request with a bad signature gets 401 and
// takes none of them.
func (r *Receiver) Next(answers ...Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = append(r.next, answers...)
}

// Fail answers the next requests with these statuses: it is short for [Receiver.Next].
func (r *Receiver) Fail(statuses ...int) {
	for _, s := range statuses {
		r.Next(Answer{Status: s})
	}
}

func (r *Receiver) answer(w http.ResponseWriter, req *http.Request, a Answer) {
	var wait <-chan time.Time // of a hanging one: never
	if !a.Hang {
		timer := time.NewTimer(a.Delay)
		defer timer.Stop()
		wait = timer.C
	}
	select {
	case <-wait:
	case <-req.Context().Done():
		return
	case <-r.closed:
		panic(http.ErrAbortHandler) // as Drop does
	}
	if a.Drop {
		panic(http.ErrAbortHandler) // net/http closes the connection, and logs nothing
	}
	for name, values := range a.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Body) // a client that left: nothing can be done about it
}
