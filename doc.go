// Package posthaste holds the nouns of the Posthaste webhook engine: [Event],
// [Endpoint], [Delivery], [Attempt] and [Tenant], their identifiers, their
// states and the rules that make one of them valid. It imports nothing else of
// this module, so that storage, pipeline, HTTP API and client all speak of the
// same things.
//
// The promise that everything else serves: once Posthaste has answered 202, the
// event reaches exactly one terminal state, delivered or dead, at every endpoint
// it was for, and every attempt in between is recorded.
package posthaste
