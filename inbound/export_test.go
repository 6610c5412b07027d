package inbound

import (
	"net/http"
	"testing"
)

// What the tests look at from outside.

// PublicOnly lets the tests try addresses that no test may connect to.
var PublicOnly = publicOnly

// GuardedClient is the client of a verifier that was given none.
func GuardedClient() *http.Client { return guarded(nil) }

// ParseHeader lets a fuzz test reach the grammars of all providers, and returns
// how many signatures they found.
func ParseHeader(value string) (signatures int) {
	for _, p := range table() {
		schemes := p.schemesFor(p.complete(nil))
		for _, s := range schemes {
			c, ok := s.signature.parse(value)
			if ok != (len(c.signatures) > 0) && s.signature.stampPrefix == "" {
				panic("a header without signatures was taken for one")
			}
			signatures += len(c.signatures)
		}
	}
	return signatures
}

// RewriteJSON writes JSON in each style of the diagnosis.
func RewriteJSON(in []byte) (all [][]byte) {
	for _, s := range jsonStyles {
		all = append(all, s.rewrite(in))
	}
	return all
}

// CountHashes calls see for each pass over signed content, until the test ends. Tests
// that use it cannot run beside others.
func CountHashes(t testing.TB, see func(bytes int)) {
	onHash = see
	t.Cleanup(func() { onHash = nil })
}
