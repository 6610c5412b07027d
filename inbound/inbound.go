package inbound

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"time"
)

// Config says whose webhooks a [Verifier] takes and what they are verified with.
type Config struct {
	// Provider is the name of a provider of [Providers], for example "stripe".
	Provider string

	// Secrets are what the provider signs with; any of them may match, so that one
	// can be replaced, or two apps can send to one place. What a secret is, a text or
	// a public key, is the provider's matter: see [Provider.Secret].
	Secrets []string

	// Settings are the provider's own, by name: see [Provider.Settings].
	Settings map[string]string
}

// Options are what a verifier needs of its surroundings. The zero value works.
type Options struct {
	// HTTPClient fetches the keys of providers that publish them (aws-sns, paypal,
	// plaid) and confirms subscriptions (aws-sns). Redirects are refused whatever it
	// says. Default: a client that reaches only public addresses, without a proxy, 5 s.
	HTTPClient *http.Client

	// Roots are the authorities that a fetched certificate of paypal must lead to.
	// Default: those of the system.
	Roots *x509.CertPool
}

// Request is a request as it was received.
type Request struct {
	Method string
	URL    *url.URL // path and query; the host is never looked at
	Header http.Header
	Body   []byte    // as received: before content decoding; not changed
	At     time.Time // when it was received, not when it is looked at

	// MaxDecoded bounds what the body of a verified request may be decompressed to, in
	// bytes. One that becomes more is malformed. Default: 32 MiB.
	MaxDecoded int

	// MayDecode is asked before that takes so many more bytes of memory. Where it
	// refuses, Receive fails with [ErrNoRoom]. Default: it never refuses.
	MayDecode func(more int) bool

	// MayDiagnose is asked before more work is put into finding out why a request was
	// rejected. Default: it always may.
	MayDiagnose func() bool
}

// Kind says what a request turned out to be.
type Kind string

// The kinds.
const (
	KindEvent     Kind = "event"     // verified: store Outcome.Event, then answer
	KindHandshake Kind = "handshake" // a question of the provider, answered; nothing to store
	KindRejected  Kind = "rejected"  // not verified: see Outcome.Rejection
	KindIgnored   Kind = "ignored"   // no delivery and no attempt at one: a probe, a wrong method
)

// Outcome is what became of a request.
type Outcome struct {
	Kind      Kind
	Answer    Answer    // what to answer; for KindEvent, once the event is stored
	Event     Event     // for KindEvent
	Rejection Rejection // for KindRejected
}

// Answer is the answer to a request.
type Answer struct {
	Status int
	Header http.Header // Content-Type included where there is a body; may be nil
	Body   []byte
}

// Event is what a verified request brings. Its payload is the request's body.
type Event struct {
	// Type is the provider's name, a full stop and the provider's name of the event,
	// for example "stripe.invoice.paid". It is a valid type of an event: what a type
	// cannot have becomes "_". A body that could not be read has the type
	// "PROVIDER.malformed", one that does not say its type "PROVIDER.unknown", and one
	// with several events of different types "PROVIDER.batch".
	Type string

	// DeliveryID is what a repeated delivery has in common with the first: at most 255
	// bytes. It is empty where the provider sends nothing of the kind.
	DeliveryID string

	// Malformed says that the signature was right and the body could not be read.
	Malformed bool

	// Compressed says that the body is compressed, whatever its headers say.
	Compressed bool

	// Warnings are for people: what was odd about the request.
	Warnings []string
}

// Verifier verifies the requests of one provider. It is safe for concurrent use.
type Verifier struct {
	provider *provider
	secrets  []string
	settings settings // with the defaults
	schemes  []scheme
	rings    [][]key // for each of the schemes, the keys that fit it
	client   *http.Client
	options  Options
	keys     *keyCache // of fetched keys
}

// New makes a verifier. The error is a *[posthaste.Error] with every problem of
// the configuration, in the fields "provider", "secrets[0]", "settings.NAME" …;
// it never holds a secret.
func New(cfg Config, opts Options) (*Verifier, error) {
	p, err := check(cfg)
	if err != nil {
		return nil, err
	}
	v := &Verifier{provider: p, settings: p.complete(cfg.Settings), options: opts, client: guarded(opts.HTTPClient), keys: newKeyCache()}
	v.schemes = p.schemesFor(v.settings)
	v.useSecrets(cfg.Secrets)
	return v, nil
}

// useSecrets sorts the secrets by the schemes that can use them.
func (v *Verifier) useSecrets(secrets []string) {
	v.secrets = slices.Clone(secrets)
	v.rings = nil
	for _, s := range v.schemes {
		var ring []key
		for _, secret := range secrets {
			if k, err := s.key(secret); err == nil {
				ring = append(ring, k)
			}
		}
		v.rings = append(v.rings, ring)
	}
}

// Receive says what a request is and how to answer it. The error is a failure of
// our own (a key that could not be fetched, ctx ended): answer it with 503, so
// that the provider tries again. Whatever a sender can do wrong is an outcome.
func (v *Verifier) Receive(ctx context.Context, request *Request) (Outcome, error) {
	r := &incoming{Request: request}
	for _, h := range v.provider.handshakes {
		if h.signed {
			continue
		}
		if outcome, ok := h.answer(v, r); ok {
			return outcome, nil
		}
	}
	if methods := v.provider.methods(); !slices.Contains(methods, r.Method) {
		return notAllowed(methods), nil
	}
	rejection, err := v.verifyInTurn(ctx, r)
	if err != nil {
		return Outcome{}, fmt.Errorf("verify a request of %s: %w", v.provider.Name, err)
	}
	if rejection != nil {
		return rejected(*rejection), nil
	}
	for _, h := range v.provider.handshakes {
		if !h.signed {
			continue
		}
		if outcome, ok := h.answer(v, r); ok {
			return outcome, nil
		}
	}
	return v.accept(ctx, r)
}

// verifyInTurn verifies a request and finds out why it is rejected. Large bodies are
// hashed a few at a time: whoever sends many of them must not get every processor.
func (v *Verifier) verifyInTurn(ctx context.Context, r *incoming) (*Rejection, error) {
	if len(r.Body) > largeBody && !v.provider.fetches {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			return nil, fmt.Errorf("wait to verify a large body: %w", ctx.Err())
		}
	}
	rejection, err := v.verify(ctx, r)
	if err == nil && rejection != nil && (r.MayDiagnose == nil || r.MayDiagnose()) {
		found := v.diagnose(ctx, r, *rejection)
		return &found, nil
	}
	return rejection, err
}

// largeBody is from how many bytes on a body waits for its turn.
const largeBody = 64 << 10

var turns = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// verify returns nil where one of the secrets vouches for the request.
func (v *Verifier) verify(ctx context.Context, r *incoming) (*Rejection, error) {
	if v.provider.verify != nil {
		return v.provider.verify(ctx, v, r)
	}
	return v.verifySchemes(r), nil
}

// accept makes the event of a verified request.
func (v *Verifier) accept(ctx context.Context, r *incoming) (Outcome, error) {
	d, err := r.readDecoded()
	if err != nil {
		return Outcome{}, err
	}
	if problem := v.checkTopic(d); problem != nil {
		return rejected(*problem), nil
	}
	outcome := Outcome{Kind: KindEvent, Answer: v.provider.success(v, d), Event: v.event(d)}
	outcome.Event.Compressed = d != r.document()
	if v.provider.then != nil {
		return v.provider.then(ctx, v, d, outcome)
	}
	return outcome, nil
}

// SecretHeaders names the headers whose values are secrets, in canonical form:
// mask them where a request is stored or shown. Other headers that the provider
// does not know of may hold secrets too, such as those of a proxy.
func (v *Verifier) SecretHeaders() []string {
	names := []string{"Authorization", "Cookie", "Proxy-Authorization"}
	add := func(schemes []scheme) {
		for _, s := range schemes {
			if s.algorithm == equality {
				names = append(names, http.CanonicalHeaderKey(s.signature.header))
			}
		}
	}
	add(v.schemes)
	for _, p := range table() { // a source of one provider may be sent another's by mistake
		add(p.schemesFor(p.complete(nil)))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
