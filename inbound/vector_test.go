package inbound_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"crypto/x509"

	"github.com/posthaste-dev/posthaste/inbound"
)

// vector is one of testdata/vectors.json: a request and whether it is genuine.
type vector struct {
	ID          string            `json:"id"`
	Provider    string            `json:"provider"`
	Secret      string            `json:"secret"`
	Headers     map[string]string `json:"headers"`
	Body        string            `json:"body"`
	Valid       bool              `json:"valid"`
	Note        string            `json:"note"`
	Now         int64             `json:"now"`
	URL         string            `json:"url"`
	Method      string            `json:"method"`
	Hash        string            `json:"hash"`
	Encoding    string            `json:"encoding"`
	Certificate string            `json:"certificate"`
}

func readTestdata(t testing.TB, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func vectors(t testing.TB) (all []vector) {
	t.Helper()
	readTestdata(t, "vectors.json", &all)
	if len(all) < 100 {
		t.Fatalf("only %d vectors were read", len(all))
	}
	return all
}

// roundTrip answers in place of a provider's server.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answering(status int, body string) *http.Client {
	return &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader([]byte(body)))}, nil
	})}
}

// config is the configuration that a vector is meant for.
func (v vector) config() inbound.Config {
	c := inbound.Config{Provider: v.Provider, Settings: map[string]string{}}
	if v.Secret != "" {
		c.Secrets = []string{v.Secret}
	}
	switch v.Provider {
	case "meta":
		c.Settings["verify_token"] = "token"
	case "aws-sns":
		c.Settings["topic_arns"] = "arn:aws:sns:us-east-1:123456789012:MyTopic"
	case "hmac":
		c.Settings["header"], c.Settings["hash"], c.Settings["encoding"] = "X-Convoy-Signature", v.Hash, v.Encoding
	}
	if v.URL != "" {
		c.Settings["public_url"] = v.URL
	}
	return c
}

func (v vector) options() inbound.Options {
	if v.Certificate == "" {
		return inbound.Options{HTTPClient: answering(http.StatusTeapot, "no key is to be fetched")}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(v.Certificate))
	return inbound.Options{HTTPClient: answering(http.StatusOK, v.Certificate), Roots: roots}
}

func (v vector) request() *inbound.Request {
	r := &inbound.Request{Method: http.MethodPost, URL: &url.URL{Path: "/in/src_1"}, Header: http.Header{}, Body: []byte(v.Body), At: time.Now()}
	if v.Method != "" {
		r.Method = v.Method
	}
	if u, err := url.Parse(v.URL); err == nil && v.URL != "" {
		r.URL = &url.URL{Path: u.Path, RawQuery: u.RawQuery, Host: "attacker.example"}
	}
	if v.Now != 0 {
		r.At = time.Unix(v.Now, 0)
	}
	for name, value := range v.Headers {
		r.Header.Set(name, value)
	}
	return r
}

func newVerifier(t testing.TB, c inbound.Config, o inbound.Options) *inbound.Verifier {
	t.Helper()
	v, err := inbound.New(c, o)
	if err != nil {
		t.Fatalf("%s: %v", c.Provider, err)
	}
	return v
}

func receive(t testing.TB, v *inbound.Verifier, r *inbound.Request) inbound.Outcome {
	t.Helper()
	outcome, err := v.Receive(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// accepted reports whether a request was taken for genuine.
func accepted(o inbound.Outcome) bool {
	return o.Kind == inbound.KindEvent || o.Kind == inbound.KindHandshake
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Provider+"/"+v.ID, func(t *testing.T) {
			outcome := receive(t, newVerifier(t, v.config(), v.options()), v.request())
			if accepted(outcome) != v.Valid {
				t.Fatalf("%s: %s %+v, want valid %v (%s)", v.ID, outcome.Kind, outcome.Rejection, v.Valid, v.Note)
			}
			if !v.Valid {
				t.Logf("%s: %s", outcome.Rejection.Reason, outcome.Rejection.Text)
				if outcome.Kind != inbound.KindRejected || outcome.Answer.Status != http.StatusUnauthorized || outcome.Rejection.Text == "" {
					t.Errorf("not a rejection with its reason: %+v", outcome)
				}
				return
			}
			t.Logf("%s %s %q %v", outcome.Kind, outcome.Event.Type, outcome.Event.DeliveryID, outcome.Event.Warnings)
		})
	}
}
