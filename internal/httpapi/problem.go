package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// answer says how a code is answered.
type answer struct {
	status     int
	title      string
	retryAfter int // seconds; 0: no Retry-After
}

// answers maps the closed list of codes. Nothing else in this package decides on
// the status of an error.
var answers = map[posthaste.Code]answer{
	posthaste.CodeUnreadable:          {http.StatusBadRequest, "The request could not be read", 0},
	posthaste.CodeUnauthorized:        {http.StatusUnauthorized, "A valid key is needed", 0},
	posthaste.CodeForbidden:           {http.StatusForbidden, "The key may not do this", 0},
	posthaste.CodeNotFound:            {http.StatusNotFound, "No such object", 0},
	posthaste.CodeMethodNotAllowed:    {http.StatusMethodNotAllowed, "No such method here", 0},
	posthaste.CodeIdempotencyMismatch: {http.StatusConflict, "The idempotency key was used for another event", 0},
	posthaste.CodeNotDead:             {http.StatusConflict, "The delivery is not dead", 0},
	posthaste.CodeNotPending:          {http.StatusConflict, "The delivery is not pending", 0},
	posthaste.CodeEndpointDeleted:     {http.StatusConflict, "The endpoint is deleted", 0},
	posthaste.CodeConflict:            {http.StatusConflict, "The object exists, or was changed meanwhile", 0},
	posthaste.CodeExpiredEvent:        {http.StatusGone, "The event is past its retention", 0},
	posthaste.CodePreconditionFailed:  {http.StatusPreconditionFailed, "The object is at another version", 0},
	posthaste.CodeTooLarge:            {http.StatusRequestEntityTooLarge, "The body is too large", 0},
	posthaste.CodeInvalid:             {http.StatusUnprocessableEntity, "The request is not valid", 0},
	posthaste.CodeUnsupported:         {http.StatusUnprocessableEntity, "Not built yet", 0},
	posthaste.CodeOverloaded:          {http.StatusServiceUnavailable, "Too much is waiting", 1},
	posthaste.CodeUnavailable:         {http.StatusServiceUnavailable, "Not available at the moment", 5},
	posthaste.CodeInternal:            {http.StatusInternalServerError, "Something went wrong here", 0},
}

// errorBody is an error as the API shows it (RFC 9457). Type is a name, not an address.
type errorBody struct {
	Type      string              `json:"type" doc:"urn:posthaste:error: and the code"`
	Title     string              `json:"title"`
	Status    int                 `json:"status"`
	Detail    string              `json:"detail" doc:"What was attempted and what is wrong"`
	Code      posthaste.Code      `json:"code" doc:"From a closed list"`
	Hint      string              `json:"hint,omitempty" doc:"The next step"`
	RequestID string              `json:"request_id" doc:"As in the header Posthaste-Request-Id and in the server's log"`
	Errors    []posthaste.Problem `json:"errors,omitempty" doc:"Every problem of the request"`
}

// explain turns any error into one that a caller can act on. What a caller must
// not see (the words of a driver, a path, an address) stays in Err, for the log.
func explain(err error) *posthaste.Error {
	if e, ok := errors.AsType[*posthaste.Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &posthaste.Error{Code: posthaste.CodeNotFound, Message: "there is no such object", Hint: "check the id and the tenant", Err: err}
	case errors.Is(err, store.ErrConflict):
		return &posthaste.Error{Code: posthaste.CodeConflict, Message: "the object exists, or was changed meanwhile", Hint: "read it, then try again", Err: err}
	case errors.Is(err, store.ErrTaken):
		return &posthaste.Error{Code: posthaste.CodeConflict, Message: "another object has that uid", Hint: "choose another uid, or change that object: PUT to uid: and the uid", Err: err}
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrFenced), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &posthaste.Error{Code: posthaste.CodeUnavailable, Message: "the database did not answer", Hint: "send the request again after Retry-After", Err: err}
	}
	return &posthaste.Error{Code: posthaste.CodeInternal, Message: "the request failed for a reason of ours", Hint: "the server's log has the reason, under request_id", Err: err}
}

// refuse answers with a problem. It is the only place that does.
func (c *call) refuse(err error) {
	c.failure = err
	body := c.problem(err)
	h := c.Header()
	if seconds := answers[body.Code].retryAfter; seconds > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
	if body.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="posthaste"`)
	}
	h.Del("ETag")
	h.Set("Content-Type", "application/problem+json")
	c.write(body.Status, body)
}

// problem is an error as the API shows it: as an answer, or as that to a line of a batch.
func (c *call) problem(err error) errorBody {
	e := explain(err)
	a, known := answers[e.Code]
	if !known {
		a = answers[posthaste.CodeInternal]
	}
	return errorBody{
		Type: "urn:posthaste:error:" + string(e.Code), Title: a.title, Status: a.status, Detail: e.Message,
		Code: e.Code, Hint: e.Hint, RequestID: c.id, Errors: e.Problems,
	}
}

func notFound(what string) error {
	return &posthaste.Error{Code: posthaste.CodeNotFound, Message: "there is no such " + what, Hint: "check the id and the tenant"}
}

// notAnID is notFound for what is no id of that kind. Most often it is the id of
// something else, an event's where a delivery's is wanted: the hint tells them apart.
func notAnID(what string, why error) error {
	return &posthaste.Error{Code: posthaste.CodeNotFound, Message: "there is no such " + what, Hint: "check the id: " + why.Error()}
}

// oneProblem makes the error for a request with a single thing wrong.
func oneProblem(field, message, hint string) error {
	return posthaste.Invalid([]posthaste.Problem{{Field: field, Message: message, Hint: hint}})
}
