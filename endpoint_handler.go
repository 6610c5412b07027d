package posthaste

import (
	"fmt"
	"strings"
	"time"
)

// HandlerPrefix begins the URL, and the uid, of an endpoint whose attempt is a
// function of the program that embeds the engine: func:NAME. Only such a program
// makes them; a request cannot.
const HandlerPrefix = "func:"

// MaxHandlerNameBytes bounds the name of a handler, so that it fits into a uid.
const MaxHandlerNameBytes = MaxUIDBytes - len(HandlerPrefix)

// Handler returns the name of the function that the endpoint stands for. False:
// its URL is one that events are POSTed to.
func (d Definition) Handler() (name string, ok bool) { return strings.CutPrefix(d.URL, HandlerPrefix) }

// DefaultHandlerDefinition returns the definition of a handler of the given name:
// as [DefaultDefinition], with five attempts within about six minutes. What a
// function needs to come right, a lock that is free or a service that is back, is
// near; a customer's outage is not. It has no breaker: what fails there is an event,
// seldom the program, and one bad event must not hold up the others.
func DefaultHandlerDefinition(name string) Definition {
	d := DefaultDefinition()
	d.URL, d.Breaker = HandlerPrefix+name, nil
	d.Retry.Schedule = durations(time.Second, 5*time.Second, 30*time.Second, 5*time.Minute)
	return d
}

// ValidateHandler returns everything that is wrong with the definition of a
// handler. It is the counterpart of [Definition.Validate], which takes no handler:
// what has a meaning only for HTTP has none here.
func (d Definition) ValidateHandler(rules DefinitionRules) []Problem {
	var problems []Problem
	if name, ok := d.Handler(); !ok {
		problems = append(problems, Problem{Field: "url", Message: "does not name a handler", Hint: HandlerPrefix + "NAME"})
	} else {
		problems = append(problems, ValidateHandlerName("name", name)...)
	}
	problems = append(problems, d.validateSubscription()...)
	problems = append(problems, d.Retry.validate(rules)...)
	if len(d.Headers) > 0 || len(d.SecretHeaders) > 0 {
		problems = append(problems, Problem{Field: "headers", Message: "are for endpoints with a URL", Hint: "leave them out"})
	}
	problems = append(problems, d.validateInFlight()...)
	return append(problems, d.validateGate()...)
}

// ValidateHandlerName returns what is wrong with the name of a handler, or nil.
func ValidateHandlerName(field, name string) []Problem {
	problem := func(message string) []Problem {
		return []Problem{{Field: field, Message: message, Hint: fmt.Sprintf("1 to %d of a-z A-Z 0-9 . _ -", MaxHandlerNameBytes)}}
	}
	switch {
	case name == "":
		return problem("is missing")
	case len(name) > MaxHandlerNameBytes:
		return problem("is too long")
	case strings.Contains(name, ":") || len(ValidateUID(field, name)) > 0:
		return problem("has a character that the name of a handler cannot have")
	}
	return nil
}
