// Package inbound verifies the webhooks of other providers on the raw bytes of
// their requests. It knows nothing of storage and runs no server: a request goes
// in, and what comes out says what it is and how to answer it.
//
//	verifier, err := inbound.New(inbound.Config{Provider: "stripe", Secrets: []string{secret}}, inbound.Options{})
//	…
//	outcome, err := verifier.Receive(ctx, &inbound.Request{
//		Method: r.Method, URL: r.URL, Header: r.Header, Body: body, At: time.Now(),
//	})
//	switch {
//	case err != nil: // our own failure: answer 503, so that the provider tries again
//	case outcome.Kind == inbound.KindEvent: // store outcome.Event, then answer outcome.Answer
//	case outcome.Kind == inbound.KindRejected: // record outcome.Rejection, answer outcome.Answer
//	default: // a handshake, or nothing of interest: answer outcome.Answer
//	}
//
// How a provider signs is data where it can be: a row of the table says in which
// header the signature is, how it is written, what it covers, what the key is and
// where the delivery's id and the event's type are. What does not fit into a row
// (certificates to fetch, signatures inside of the body) has a file of its own.
//
// The answer of [KindEvent] is only true once the event is stored. A delivery that
// was stored before is answered in the same way.
//
// Requests are verified as they were received, before any content decoding. Give
// [Request.Body] the bytes as they came, compressed ones compressed.
package inbound
