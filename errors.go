package posthaste

import (
	"errors"
	"fmt"
	"strings"
)

// Code names a kind of error. The list is closed; the HTTP API shows it as "code".
type Code string

// The codes, each with the HTTP status that it is answered with.
const (
	CodeUnreadable          Code = "unreadable"           // 400: the request could not be read
	CodeUnauthorized        Code = "unauthorized"         // 401: no key, or not a valid one
	CodeForbidden           Code = "forbidden"            // 403: the key may not do this
	CodeNotFound            Code = "not_found"            // 404
	CodeMethodNotAllowed    Code = "method_not_allowed"   // 405
	CodeIdempotencyMismatch Code = "idempotency_mismatch" // 409: the key was used for another event
	CodeNotDead             Code = "not_dead"             // 409: only a dead delivery can be replayed
	CodeNotPending          Code = "not_pending"          // 409: only a pending delivery can be skipped
	CodeEndpointDeleted     Code = "endpoint_deleted"     // 409: the endpoint of the delivery is gone
	CodeConflict            Code = "conflict"             // 409: an object of that name exists
	CodeExpiredEvent        Code = "expired_event"        // 410: the event is past its retention
	CodePreconditionFailed  Code = "precondition_failed"  // 412: the object is not at the version that If-Match names
	CodeTooLarge            Code = "too_large"            // 413
	CodeInvalid             Code = "invalid"              // 422: understood, but wrong
	CodeUnsupported         Code = "unsupported"          // 422: a field that is not built yet
	CodeOverloaded          Code = "overloaded"           // 503: try again after Retry-After
	CodeUnavailable         Code = "unavailable"          // 503: the database is away
	CodeInternal            Code = "internal"             // 500
)

// Problem is one thing that is wrong with a request.
type Problem struct {
	Field   string `json:"field"`          // path of the field, "" for the request as a whole
	Message string `json:"message"`        // what is wrong, to be read after the field's name
	Hint    string `json:"hint,omitempty"` // the next step
	Code    Code   `json:"code,omitempty"` // set where it differs from the error's own
}

// Error is an error that a caller can act on.
type Error struct {
	Code     Code
	Message  string    // what was attempted and what is wrong, lower case
	Hint     string    // the next step
	Problems []Problem // each problem of the request, for CodeInvalid and CodeUnsupported
	Err      error     // the cause, for the log; never shown to a client
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	for i, p := range e.Problems {
		b.WriteString(map[bool]string{true: ": ", false: "; "}[i == 0])
		fmt.Fprintf(&b, "%s %s", p.Field, p.Message)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first *[Error] in err's chain, [CodeInternal]
// for any other error, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// Invalid makes the error for a request with the given problems, or nil if
// there are none. Its code is [CodeUnsupported] where every problem is of that
// code, else [CodeInvalid].
func Invalid(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	code := CodeUnsupported
	for _, p := range problems {
		if p.Code != CodeUnsupported {
			code = CodeInvalid
		}
	}
	return &Error{Code: code, Message: "the request is not valid", Problems: problems, Hint: "correct the fields named in errors"}
}
