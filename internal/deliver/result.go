package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/posthaste-dev/posthaste"
)

// answered completes the result of an attempt whose response arrived whole.
func (p *progress) answered(r Result) Result {
	r.Timings = p.total()
	switch status := r.StatusCode; {
	case status < 200 || status > 599: // 101 among them: nobody asked for another protocol
		r.Cause, r.Error = posthaste.CauseBadResponse, fmt.Sprintf("status %d is no answer to a POST", status)
	case status > 299:
		r.Cause, r.Error = posthaste.CauseStatus, fmt.Sprintf("the receiver answered %d", status)
	}
	return r
}

// failed completes the result of an attempt that err ended. It tells failures of
// this server (cause local) from those of the receiver and of the way to it.
func (s *Sender) failed(ctx context.Context, p *progress, r Result, err error) Result {
	at := p.step
	r.Timings = p.total()
	blocked, isBlocked := errors.AsType[*blockedError](err)
	dns, isLookup := errors.AsType[*net.DNSError](err)
	switch {
	case isBlocked:
		r.Cause, r.Error = posthaste.CauseBlockedAddress, blocked.Error()
	case isLookup:
		r.Cause, r.Error = posthaste.CauseDNS, describeLookup(dns)
		r.Shortage = s.shortageOfLookup(ctx, dns)
	case ctx.Err() != nil || isTimeout(err):
		r.Cause, r.Error = timeoutCauses[at], p.describeTimeout(ctx, at)
	default:
		r.Cause, r.Error = causeOf(at, err), describe(at, err)
		r.Shortage = shortageOf(err)
	}
	if r.Shortage != "" {
		s.lacks(r.Shortage)
		r.Cause = posthaste.CauseLocal
		r.Error = fmt.Sprintf("this server lacks %s: %s", r.Shortage, r.Error)
	}
	r.Error = Printable(r.Error)
	return r
}

// describeLookup leaves out the address of the resolver, which the texts of package
// net hold: owners of endpoints read this.
func describeLookup(err *net.DNSError) string {
	why := "the lookup failed"
	switch {
	case err.IsNotFound:
		why = "no such host"
	case err.IsTimeout:
		why = "no name server answered in time"
	case strings.HasSuffix(err.Err, "server misbehaving"):
		why = "the name server reported a failure"
	}
	return fmt.Sprintf("%s: %s: %s", stepNames[stepResolve], err.Name, why)
}

var timeoutCauses = [...]posthaste.Cause{
	stepConnect: posthaste.CauseConnectTimeout,
	stepResolve: posthaste.CauseDNS,
	stepTLS:     posthaste.CauseTLS,
	stepWrite:   posthaste.CauseWrite,
	stepHeaders: posthaste.CauseHeaderTimeout,
	stepBody:    posthaste.CauseBodyTimeout,
}

var stepNames = [...]string{
	stepConnect: "connect",
	stepResolve: "look up the host",
	stepTLS:     "TLS handshake",
	stepWrite:   "write the request",
	stepHeaders: "wait for the response",
	stepBody:    "read the response body",
}

// causeOf names the cause of an error that is no timeout. A connection that
// breaks before the request was written out is a write error; after that, the
// receiver may have acted on it and owes a response: bad_response. What goes
// wrong before a connection is there and is neither DNS nor TLS (no route, no
// listener) is refused.
func causeOf(at step, err error) posthaste.Cause {
	switch at {
	case stepConnect, stepResolve:
		return posthaste.CauseRefused
	case stepTLS:
		return posthaste.CauseTLS
	case stepWrite:
		return posthaste.CauseWrite
	}
	if errors.Is(err, errHeadersTooLarge) {
		return posthaste.CauseTooLarge
	}
	return posthaste.CauseBadResponse
}

func isTimeout(err error) bool {
	netErr, ok := errors.AsType[net.Error](err)
	return ok && netErr.Timeout()
}

func (p *progress) describeTimeout(ctx context.Context, at step) string {
	if errors.Is(ctx.Err(), context.Canceled) {
		return stepNames[at] + ": cut off"
	}
	return fmt.Sprintf("%s: not done within %s", stepNames[at], p.deadline.Sub(p.began).Round(time.Millisecond))
}

// describe leaves out the addresses of an operation: of our own side they are
// none of the receiver's business, and the receiver's is in the URL.
func describe(at step, err error) string {
	text := err.Error()
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		text = op.Err.Error()
	}
	switch {
	case at >= stepWrite && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		text = "the receiver closed the connection"
	case at == stepConnect:
		text = strings.TrimPrefix(text, "connect: ") // the name of the system call, and of the step
	default:
		text = strings.TrimPrefix(strings.TrimPrefix(text, "net/http: "), "http: ")
	}
	return stepNames[at] + ": " + text
}

const maxErrorBytes = 300

// Printable makes text of 300 bytes at most that databases and logs take: an error
// may repeat what a receiver sent.
func Printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, strings.ToValidUTF8(s, "."))
	if len(s) > maxErrorBytes {
		s = strings.ToValidUTF8(s[:maxErrorBytes-len("…")], "") + "…"
	}
	return s
}
