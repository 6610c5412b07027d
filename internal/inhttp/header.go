package inhttp

import (
	"net/http"
	"slices"
	"strings"

	"github.com/posthaste-dev/posthaste"
)

const (
	// maxKeptBytes bounds what is kept of the headers that a source received.
	maxKeptBytes = 16 << 10
)

// kept returns the headers as they came, by name, with what lets its reader in
// somewhere masked, until they are too many bytes.
func (q *request) kept(maxBytes int) (out []posthaste.Header) {
	for _, name := range sortedNames(q.r.Header) {
		for _, value := range q.r.Header[name] {
			if q.isSecret(name, value) {
				value = posthaste.Masked
			}
			if maxBytes -= len(name) + len(value); maxBytes < 0 {
				return out
			}
			out = append(out, posthaste.Header{Name: name, Value: value})
		}
	}
	return out
}

// isSecret reports whether a header is masked where it is kept, and not sent on: the
// source marks it secret, its name is that of credentials, or it holds one of the
// source's secrets under whatever name.
func (q *request) isSecret(name, value string) bool {
	return posthaste.HoldsCredentials(name) || slices.Contains(q.verifier.SecretHeaders(), name) ||
		slices.ContainsFunc(q.known.Secret.Secrets, func(secret string) bool { return secret != "" && strings.Contains(value, secret) })
}

func sortedNames(h http.Header) []string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// forwarded returns the headers that go on to endpoints: what the provider says
// about the event, and what it signed it with, so that a service behind an
// endpoint can be the one that it was before. Nothing that is masked goes on,
// nothing of the connection or of a proxy on the way, and nothing under a name
// that Posthaste gives its own meaning.
func (q *request) forwarded() (out []posthaste.Header) {
	bytes := 0
	for _, name := range sortedNames(q.r.Header) {
		if !isProviders(q.known.Row.Provider, name) {
			continue
		}
		for _, value := range q.r.Header[name] {
			if q.isSecret(name, value) {
				continue
			}
			bytes += len(name) + len(value)
			if posthaste.ValidateEventHeader("", name, value) != nil || len(out) == posthaste.MaxEventHeaders || bytes > posthaste.MaxEventHeaderBytes {
				bytes -= len(name) + len(value)
				continue
			}
			out = append(out, posthaste.Header{Name: name, Value: value})
		}
	}
	return out
}

// onTheWay begin the names of headers that proxies and load balancers add.
var onTheWay = []string{
	"x-forwarded-", "x-real-ip", "x-request-id", "x-request-start", "x-client-", "x-envoy-", "x-amzn-", "x-amz-cf-", "x-cloud-trace-",
	"x-appengine-", "x-azure-", "x-arr-", "x-original-", "x-b3-", "x-datadog-", "x-scheme", "x-proxy", "x-vercel-", "x-railway-", "x-render-",
}

// isProviders reports whether a header is the provider's own word on a delivery,
// by its name: X-GitHub-Event, Stripe-Signature, Svix-Id.
func isProviders(provider, name string) bool {
	lower := strings.ToLower(name)
	if slices.ContainsFunc(onTheWay, func(prefix string) bool { return strings.HasPrefix(lower, prefix) }) {
		return false
	}
	for _, ours := range []string{"webhook-", "posthaste-", "ce-", "content-"} {
		if strings.HasPrefix(lower, ours) {
			return false
		}
	}
	return strings.HasPrefix(lower, "x-") || strings.HasPrefix(lower, provider+"-") || strings.HasPrefix(lower, "svix-") ||
		strings.Contains(lower, "signature")
}
