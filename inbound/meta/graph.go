package meta

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// GraphError is an error of the Graph API, or one that WhatsApp reports with a
// status. Hand it to [Classify].
type GraphError struct {
	Status      int  // of HTTP; 0 if it did not come as an answer
	HasCode     bool // tells code 0, which WhatsApp uses, from none
	Code        int
	Subcode     int
	Type        string // "OAuthException" …
	Message     string // for developers, in English
	UserTitle   string // for people, in their language; often ""
	UserMessage string
	Details     string // WhatsApp's error_data.details
	TraceID     string // fbtrace_id: what Meta's support asks for
	IsTransient bool   // Meta says that it may pass
	// Wait is how long Meta asks to wait: from X-Business-Use-Case-Usage, else from
	// Retry-After. Zero if neither says, and never above 24 h.
	Wait time.Duration
}

// Error implements error: the message, then all that support or a search needs.
func (e *GraphError) Error() string {
	var b strings.Builder
	b.WriteString("graph api: ")
	switch {
	case e.Message != "":
		b.WriteString(e.Message)
	case e.Status != 0:
		fmt.Fprintf(&b, "status %d without an error that could be read", e.Status)
	default:
		b.WriteString("an error without a message")
	}
	if e.Details != "" {
		b.WriteString(": " + e.Details)
	}
	for _, part := range []struct {
		name, value string
		isKnown     bool
	}{
		{"code", strconv.Itoa(e.Code), e.HasCode},
		{"subcode", strconv.Itoa(e.Subcode), e.Subcode != 0},
		{"type", e.Type, e.Type != ""},
		{"status", strconv.Itoa(e.Status), e.Status != 0 && e.Message != ""},
		{"fbtrace_id", e.TraceID, e.TraceID != ""},
	} {
		if part.isKnown {
			b.WriteString(", " + part.name + " " + part.value)
		}
	}
	return b.String()
}

// ParseError reads an answer that is not a success. It never fails: of a body
// that is not Meta's, such as a proxy's page, only the status remains. Cap what
// is read of the body; an error has less than 10 kB.
func ParseError(status int, header http.Header, body []byte) *GraphError {
	e := &GraphError{}
	if json.Valid(body) {
		start := space(body, 0)
		e = readGraphError(raw(body[start:skip(body, start)]).get("error"))
	}
	e.Status = status
	if e.Wait = usageWait(header); e.Wait == 0 {
		e.Wait = retryAfter(header)
	}
	return e
}

// readGraphError reads the object "error" of an answer, or one of WhatsApp's
// "errors".
func readGraphError(v raw) *GraphError {
	code, hasCode := v.get("code").integer()
	return &GraphError{
		HasCode: hasCode, Code: int(code), Subcode: v.get("error_subcode").number(),
		Type: v.get("type").text(), Message: v.first("message", "title").text(),
		UserTitle: v.get("error_user_title").text(), UserMessage: v.get("error_user_msg").text(),
		Details: v.get("error_data").get("details").text(), TraceID: v.get("fbtrace_id").text(),
		IsTransient: v.get("is_transient").truth(),
	}
}

// maxWait bounds what is believed: the windows of Meta's limits are an hour, a
// few of them a day.
const maxWait = 24 * time.Hour

// usageWait reads the longest wait of X-Business-Use-Case-Usage, in minutes:
//
//	{"<business>":[{"type":"messenger","call_count":100,…,"estimated_time_to_regain_access":19}]}
//
// X-App-Usage holds percentages only.
// https://developers.facebook.com/docs/graph-api/overview/rate-limiting
func usageWait(header http.Header) time.Duration {
	value := []byte(strings.TrimSpace(header.Get("X-Business-Use-Case-Usage")))
	if !json.Valid(value) {
		return 0
	}
	var longest int64
	for _, limits := range raw(value).fields() {
		for limit := range limits.elements() {
			minutes, _ := limit.get("estimated_time_to_regain_access").integer()
			longest = max(longest, minutes)
		}
	}
	return time.Duration(min(longest, int64(maxWait/time.Minute))) * time.Minute
}

// retryAfter reads seconds or a date (RFC 9110, section 10.2.3). A date counts
// from the answer's own Date: no clock of ours takes part.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(maxWait/time.Second))) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	sent, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(until.Sub(sent), 0), maxWait)
}
