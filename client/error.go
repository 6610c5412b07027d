package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Error is an answer of the server that says no. Its wire form is
// application/problem+json (RFC 9457).
type Error struct {
	Status     int            // of HTTP
	Code       posthaste.Code // from a closed list; "" if the answer was not the server's own (a proxy's)
	Title      string
	Detail     string
	Hint       string              // the next step
	Problems   []posthaste.Problem // each thing that is wrong with the request
	RequestID  string              // names the request in the server's log
	RetryAfter time.Duration       // how long the server asks to wait; zero if it did not say
}

// Error implements error: what is wrong, with each problem and the hint.
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Detail != "":
		b.WriteString(e.Detail)
	case e.Title != "":
		b.WriteString(e.Title)
	default:
		b.WriteString(http.StatusText(e.Status))
	}
	for i, p := range e.Problems {
		b.WriteString(map[bool]string{true: ": ", false: "; "}[i == 0])
		b.WriteString(strings.TrimSpace(p.Field + " " + p.Message))
		if p.Hint != "" {
			fmt.Fprintf(&b, " (%s)", p.Hint)
		}
	}
	fmt.Fprintf(&b, " [%d", e.Status)
	if e.Code != "" {
		fmt.Fprintf(&b, " %s", e.Code)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, ", request %s", e.RequestID)
	}
	b.WriteByte(']')
	return b.String()
}

// problem is the wire form of an Error.
type problem struct {
	Title  string              `json:"title"`
	Detail string              `json:"detail"`
	Code   posthaste.Code      `json:"code"`
	Hint   string              `json:"hint"`
	Errors []posthaste.Problem `json:"errors"`
}

// readError makes the error of an answer. A body that is not a problem, such as
// a proxy's page, is quoted in part.
func readError(res *http.Response, body []byte) *Error {
	e := &Error{
		Status:     res.StatusCode,
		RequestID:  res.Header.Get("Posthaste-Request-Id"),
		RetryAfter: readRetryAfter(res.Header.Get("Retry-After"), time.Now()),
	}
	var p problem
	if err := json.Unmarshal(body, &p); err == nil {
		e.Title, e.Detail, e.Code, e.Hint, e.Problems = p.Title, p.Detail, p.Code, p.Hint, p.Errors
		return e
	}
	if location := res.Header.Get("Location"); location != "" && res.StatusCode < http.StatusBadRequest {
		e.Detail = "the server answered with a redirect to " + location
		e.Hint = "set the server's URL to where it really is"
		return e
	}
	const quoted = 200
	e.Detail = strings.TrimSpace(string(body[:min(len(body), quoted)]))
	return e
}

// readRetryAfter reads both forms of RFC 9110, section 10.2.3: seconds and a date.
func readRetryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(max(0, seconds)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
