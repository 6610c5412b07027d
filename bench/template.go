//go:build linux

package main

import (
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// template is a request for one event, compiled so that filling it is a few
// copies into a buffer that is used again.
type template struct {
	addr  string // host:port to send it to
	head  []part // up to the value of Content-Length
	body  []part
	lines int // events in one request, the body repeated for each; 0 and 1: one

	outbox string // URL of the database whose outbox takes them instead, lines a transaction
}

// events returns how many events a request hands over.
func (t template) events() int { return max(1, t.lines) }

// part is literal text, or a slot that each event fills.
type part struct {
	text string
	slot slot
}

type slot int

const (
	slotNone slot = iota
	slotID
	slotBody
)

// compile turns a request, whose strings may hold ${id} and ${body}, into a
// template. The other variables must be filled in already.
func compile(r request) (template, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return template{}, fmt.Errorf("send URL: %w", err)
	}
	if u.Scheme != "http" || u.Port() == "" || u.Hostname() != "127.0.0.1" {
		return template{}, fmt.Errorf("send URL %q: want http://127.0.0.1:PORT/…", r.URL)
	}
	// Cut out by hand: url would escape the braces of a ${id} in the path.
	target := strings.TrimPrefix(r.URL, "http://"+u.Host)
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	var head strings.Builder
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, target, u.Host)
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		if strings.ContainsAny(r.Headers[name], "\r\n") {
			return template{}, fmt.Errorf("send header %s: a line break in its value", name)
		}
		fmt.Fprintf(&head, "%s: %s\r\n", textproto.CanonicalMIMEHeaderKey(name), r.Headers[name])
	}
	head.WriteString("Content-Length: ")
	return template{addr: u.Host, head: split(head.String()), body: split(r.Body)}, nil
}

// split cuts s at its slots.
func split(s string) []part {
	var parts []part
	for s != "" {
		at := placeholder.FindStringIndex(s)
		if at == nil {
			return append(parts, part{text: s})
		}
		if at[0] > 0 {
			parts = append(parts, part{text: s[:at[0]]})
		}
		switch s[at[0]:at[1]] {
		case "${id}":
			parts = append(parts, part{slot: slotID})
		case "${body}":
			parts = append(parts, part{slot: slotBody})
		default:
			parts = append(parts, part{text: s[at[0]:at[1]]})
		}
		s = s[at[1]:]
	}
	return parts
}

// appendBody appends the part of a request's body that is one event's.
func (t template) appendBody(dst, id, payload []byte) []byte {
	for _, p := range t.body {
		dst = p.appendTo(dst, id, payload)
	}
	return dst
}

// appendRequest appends the bytes of a request with the given body to dst. id
// fills the headers.
func (t template) appendRequest(dst, id, body []byte) []byte {
	for _, p := range t.head {
		dst = p.appendTo(dst, id, nil)
	}
	dst = strconv.AppendInt(dst, int64(len(body)), 10)
	dst = append(dst, "\r\n\r\n"...)
	return append(dst, body...)
}

func (p part) appendTo(dst, id, body []byte) []byte {
	switch p.slot {
	case slotID:
		return append(dst, id...)
	case slotBody:
		return append(dst, body...)
	default:
		return append(dst, p.text...)
	}
}
