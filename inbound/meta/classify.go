package meta

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Class says what a failed call means, and for whom.
type Class string

// The classes. The empty one is that of a nil error.
const (
	// Terminal: this message will never be taken (outside the 24 h window, an
	// unknown customer, a bad attachment). Others to the same account may be.
	Terminal Class = "terminal"
	// Reconnect: the token is dead. Pause the whole connection, keep what waits
	// without spending attempts, and ask its owner to connect again.
	Reconnect Class = "reconnect"
	// Permission: the app or the account may not do this. Pause the connection until
	// a person changed something.
	Permission Class = "permission"
	// RateLimited: throttle the whole asset, and wait.
	RateLimited Class = "rate_limited"
	// Policy: Meta has blocked or locked the account for what it sends. Wait for
	// hours, and alert a person.
	Policy Class = "policy"
	// Transient: try again, with backoff. After a timeout or a 5xx the message may
	// have been sent all the same, and a second try send it twice: Messenger and
	// Instagram know no idempotency key.
	Transient Class = "transient"
)

const (
	// fewAttempts is for what may or may not pass: enough to outlive a hiccup, too
	// few to hold up a queue for an error that stays.
	fewAttempts = 3
	policyWait  = 4 * time.Hour
)

// Advice is what to do after a failed call.
type Advice struct {
	Class Class
	// Wait is the least time until the next attempt. Zero: Meta did not say, so the
	// caller's own schedule holds.
	Wait time.Duration
	// MaxAttempts is how many attempts, the first included, are worth making before
	// the message is given up as dead: 1 for [Terminal], 3 for an error that is not
	// known or may hide a bad request. Zero: the caller's own schedule holds.
	// Attempts for a connection that is paused don't count.
	MaxAttempts int
}

// Classify returns the class of [Advise].
func Classify(err error) Class { return Advise(err).Class }

// Advise says what to do about an error of a call of the Graph API: one that
// wraps a [*GraphError], or one of the network. Meta's codes decide, a subcode
// before its code; the status of HTTP only where there is no code, because Meta
// answers throttled calls with 400 and 403. An error that is not known is
// [Transient], few times.
// https://developers.facebook.com/docs/graph-api/guides/error-handling,
// /docs/messenger-platform/error-codes, /docs/whatsapp/cloud-api/support/error-codes
func Advise(err error) Advice {
	if err == nil {
		return Advice{}
	}
	var graph *GraphError
	if errors.As(err, &graph) && graph != nil {
		return graph.advise()
	}
	var network net.Error // every error of http.Client.Do is one
	for _, known := range []error{io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, known) {
			return Advice{Class: Transient}
		}
	}
	if errors.As(err, &network) {
		return Advice{Class: Transient}
	}
	return Advice{Class: Transient, MaxAttempts: fewAttempts}
}

func (e *GraphError) advise() Advice {
	class := e.class()
	switch {
	case class == Terminal && e.IsTransient && !isKnownPair(e.Code, e.Subcode):
		return Advice{Class: Transient, Wait: e.Wait, MaxAttempts: fewAttempts}
	case class == Terminal:
		return Advice{Class: Terminal, MaxAttempts: 1}
	case class == RateLimited:
		return Advice{Class: RateLimited, Wait: e.Wait}
	case class == Policy:
		return Advice{Class: Policy, Wait: max(e.Wait, policyWait)}
	case class == Transient && e.HasCode && e.Code == 1 || class == "" && !e.IsTransient:
		return Advice{Class: Transient, Wait: e.Wait, MaxAttempts: fewAttempts} // 1 hides bad requests as well
	case class == Transient || class == "":
		return Advice{Class: Transient, Wait: e.Wait}
	}
	return Advice{Class: class} // Reconnect, Permission
}

// class returns "" for what is not known.
func (e *GraphError) class() Class {
	if !e.HasCode {
		switch {
		case e.Type == "OAuthException":
			return Reconnect
		case e.Status == http.StatusTooManyRequests:
			return RateLimited
		case e.Status >= 500:
			return Transient
		}
		return ""
	}
	if class := classOfPair(e.Code, e.Subcode); class != "" {
		return class
	}
	if class := classOfCode(e.Code); class != "" {
		return class
	}
	if e.Status >= 500 {
		return Transient
	}
	return ""
}

func isKnownPair(code, subcode int) bool { return classOfPair(code, subcode) != "" }

// classOfPair knows the subcodes that mean something else than their code.
func classOfPair(code, subcode int) Class {
	switch [2]int{code, subcode} {
	case [2]int{10, 2018278}, [2]int{10, 2018065}, [2]int{10, 2534022}: // outside the 24 h window
		return Terminal
	case [2]int{10, 2018108}, [2]int{200, 1545041}, [2]int{551, 1545041}: // the person cannot be written to
		return Terminal
	case [2]int{100, 33}, [2]int{100, 2018001}, [2]int{100, 2018047}, [2]int{100, 2018164}: // no such object, no such user, upload
		return Terminal
	case [2]int{2, 2018344}: // terms not accepted: 2 alone would pass
		return Permission
	}
	return ""
}

func classOfCode(code int) Class {
	switch code {
	case 190, 102, 0: // token expired, revoked or invalid, whatever the subcode; 0 is WhatsApp's
		return Reconnect
	case 3, 10:
		return Permission
	case 100, 2500, 506, 1609005, // invalid request, duplicate post, bad link
		33, 131008, 131009, 131051, // WhatsApp: number deleted, parameters, type of message
		551, 10903, 131047, 131026: // recipient unavailable, replied already, window, undeliverable
		return Terminal
	case 368, 131031, 131048:
		return Policy
	case 4, 17, 32, 341, 613, // app, user, page, app, custom
		80000, 80001, 80002, 80003, 80004, 80005, 80006, 80007, 80008, 80009, 80014, // by business use case
		130429, 131056, 133016: // WhatsApp: throughput, pair of numbers, registering
		return RateLimited
	case 1, 2, 1200, 131000, 131016:
		return Transient
	}
	if 200 <= code && code <= 299 {
		return Permission
	}
	return ""
}
