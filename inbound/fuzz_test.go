package inbound_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/inbound"
)

// FuzzHeaders: no header makes a grammar panic or find more signatures than its cap.
func FuzzHeaders(f *testing.F) {
	for _, v := range vectors(f) {
		for _, value := range v.Headers {
			f.Add(value)
		}
	}
	f.Fuzz(func(t *testing.T, value string) {
		if n := inbound.ParseHeader(value); n > 100*100 {
			t.Errorf("%d signatures", n)
		}
	})
}

// FuzzReceive: no request makes a verifier panic, and what has not the secret is
// not taken for genuine.
func FuzzReceive(f *testing.F) {
	all := vectors(f)
	for i, v := range all {
		var header strings.Builder
		for name, value := range v.Headers {
			header.WriteString(name + ": " + value + "\n")
		}
		f.Add(i, v.Method, v.URL, header.String(), []byte(v.Body))
	}
	type made struct {
		verifier *inbound.Verifier
		vector   vector
	}
	var verifiers []made
	for _, v := range all {
		v.Certificate = ""
		verifiers = append(verifiers, made{newVerifier(f, v.config(), inbound.Options{HTTPClient: answering(http.StatusNotFound, "")}), v})
	}
	f.Fuzz(func(t *testing.T, i int, method, address, header string, body []byte) {
		m := verifiers[uint(i)%uint(len(verifiers))]
		r := &inbound.Request{Method: method, Header: http.Header{}, Body: body, At: time.Unix(max(m.vector.Now, 1), 0)}
		if u, err := url.Parse(address); err == nil {
			r.URL = u
		}
		for line := range strings.Lines(header) {
			if name, value, found := strings.Cut(strings.TrimSpace(line), ": "); found {
				r.Header.Add(name, value)
			}
		}
		outcome, err := m.verifier.Receive(t.Context(), r)
		if err != nil {
			return // no key could be fetched
		}
		if outcome.Kind == inbound.KindEvent && (posthaste.ValidateType("type", outcome.Event.Type) != nil || len(outcome.Event.DeliveryID) > posthaste.MaxIdempotencyKeyBytes) {
			t.Errorf("type %q, delivery %q", outcome.Event.Type, outcome.Event.DeliveryID)
		}
		if outcome.Answer.Status < 200 || outcome.Answer.Status > 499 || (outcome.Kind == inbound.KindRejected) != (outcome.Rejection.Reason != "") {
			t.Errorf("%+v", outcome)
		}
	})
}

// FuzzRewriteJSON: JSON in another style is the same JSON.
func FuzzRewriteJSON(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.Body))
	}
	f.Add([]byte(`{"a":[],"b":{},"c":[{"d":"\ud83d\ude00\\\"\/"},1.50,null]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var want any
		if json.Unmarshal(in, &want) != nil {
			return
		}
		for _, out := range inbound.RewriteJSON(in) {
			var got any
			if err := json.Unmarshal(out, &got); out != nil && (err != nil || !reflect.DeepEqual(got, want)) {
				t.Errorf("%q became %q: %v", in, out, err)
			}
		}
	})
}
