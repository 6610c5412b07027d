package inbound_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste/inbound"
)

// changed returns a vector's request with a member of its JSON body replaced.
func changed(t *testing.T, v vector, member, value string) *inbound.Request {
	t.Helper()
	var body map[string]string
	if err := json.Unmarshal([]byte(v.Body), &body); err != nil {
		t.Fatal(err)
	}
	body[member] = value
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r := v.request()
	r.Body = text
	return r
}

// A URL that a request names is looked at before anything is asked for.
func TestKeysComeFromTheProviderOnly(t *testing.T) {
	sns, paypal := vectorNamed(t, "sns-v2-subject"), vectorNamed(t, "paypal")
	for _, address := range []string{
		"", "http://sns.us-east-1.amazonaws.com/a.pem", "https://sns.us-east-1.amazonaws.com.evil.example/a.pem", "https://evil.example/sns.us-east-1.amazonaws.com/a.pem",
		"https://sns.us-east-1.amazonaws.com@evil.example/a.pem", "https://a@sns.us-east-1.amazonaws.com/a.pem", "https://sns.us-east-1.amazonaws.com:8443/a.pem",
		"https://bucket.s3.amazonaws.com/a.pem", "https://sns.us-east-1.amazonaws.com/a.txt", "https://sns.us-east-1.amazonaws.com/a?b=.pem", "https://127.0.0.1/a.pem",
		"https://xsns.us-east-1.amazonaws.com/a.pem", "https://sns.us-east-1.amazonaws.com\n/a.pem", "file:///etc/a.pem", "https:sns.us-east-1.amazonaws.com/a.pem",
	} {
		var asked []string
		o := inbound.Options{HTTPClient: answeringEach(nil, &asked)}
		outcome := receive(t, newVerifier(t, sns.config(), o), changed(t, sns, "SigningCertURL", address))
		if outcome.Rejection.Reason != inbound.ReasonUntrustedKey || asked != nil {
			t.Errorf("sns, %q: %+v, asked for %q", address, outcome, asked)
		}
	}
	for _, address := range []string{
		"https://api.paypal.com.evil.example/v1/notifications/certs/C", "https://evilpaypal.com/v1/notifications/certs/C", "https://www.paypal.com/redirect?to=x",
		"http://api.paypal.com/v1/notifications/certs/C", "https://api.paypal.com:444/v1/notifications/certs/C",
	} {
		var asked []string
		r := paypal.request()
		r.Header.Set("Paypal-Cert-Url", address)
		outcome := receive(t, newVerifier(t, paypal.config(), inbound.Options{HTTPClient: answeringEach(nil, &asked)}), r)
		if outcome.Rejection.Reason != inbound.ReasonUntrustedKey || asked != nil {
			t.Errorf("paypal, %q: %+v, asked for %q", address, outcome, asked)
		}
	}
}

// A failed fetch is our failure: an error, never a rejection.
func TestFailedFetchIsAnError(t *testing.T) {
	plaid := vectorNamed(t, "plaid")
	plaidConfig := inbound.Config{Provider: "plaid", Secrets: []string{"api secret"}, Settings: map[string]string{"client_id": "c"}}
	redirect := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {"https://evil.example/"}}, Body: http.NoBody, Request: r}, nil
	})}
	broken := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") })}
	for name, client := range map[string]*http.Client{
		"away": broken, "not there": answering(http.StatusNotFound, ""), "no PEM": answering(http.StatusOK, "hello"), "a redirect": redirect,
		"too long": answering(http.StatusOK, strings.Repeat("x", 100<<10)), "a server's error": answering(http.StatusInternalServerError, "{}"),
	} {
		for _, id := range []string{"sns-v2-subject", "paypal", "plaid"} {
			v := vectorNamed(t, id)
			c := v.config()
			if id == plaid.ID {
				c = plaidConfig
			}
			outcome, err := newVerifier(t, c, inbound.Options{HTTPClient: client}).Receive(t.Context(), v.request())
			if err == nil {
				t.Errorf("%s, %s: %+v", id, name, outcome)
			} else if strings.Contains(err.Error(), "api secret") {
				t.Errorf("the error holds the secret: %v", err)
			}
		}
	}
	v := vectorNamed(t, "paypal")
	if _, err := newVerifier(t, v.config(), inbound.Options{HTTPClient: answering(http.StatusOK, v.Certificate), Roots: x509.NewCertPool()}).Receive(t.Context(), v.request()); err == nil {
		t.Error("a certificate of no known authority was taken")
	}
}

// A key is fetched once, whatever the number of requests, and a failure is not
// repeated at once.
func TestKeysAreKept(t *testing.T) {
	v := vectorNamed(t, "sns-v2-subject")
	var asked []string
	verifier := newVerifier(t, v.config(), inbound.Options{HTTPClient: answeringEach(map[string]string{"/SimpleNotificationService-0000000000000000000000test.pem": v.Certificate}, &asked)})
	for range 3 {
		if outcome := receive(t, verifier, v.request()); !accepted(outcome) {
			t.Fatal(outcome.Rejection)
		}
	}
	if len(asked) != 1 {
		t.Errorf("asked for %q", asked)
	}
	asked = nil
	for range 3 {
		if _, err := verifier.Receive(t.Context(), changed(t, v, "SigningCertURL", "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-gone.pem")); err == nil {
			t.Error("a certificate that is not there was found")
		}
	}
	if len(asked) != 1 {
		t.Errorf("after a failure asked for %q", asked)
	}
	// A sender cannot make us ask for more and more.
	for i := range 100 {
		address := fmt.Sprintf("https://sns.us-east-1.amazonaws.com/SimpleNotificationService-%d.pem", i)
		if _, err := verifier.Receive(t.Context(), changed(t, v, "SigningCertURL", address)); err == nil {
			t.Error("a certificate that is not there was found")
		}
	}
	for _, address := range []string{"https://sns.us-east-1.amazonaws.com/other.pem", "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-1.pem?x=1"} {
		if outcome := receive(t, verifier, changed(t, v, "SigningCertURL", address)); outcome.Rejection.Reason != inbound.ReasonUntrustedKey {
			t.Errorf("%s: %+v", address, outcome)
		}
	}
	if len(asked) > 40 {
		t.Errorf("asked %d times", len(asked))
	}
	if outcome := receive(t, verifier, v.request()); !accepted(outcome) {
		t.Error("the known key was lost")
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	v := vectorNamed(t, "sns-v2-subject")
	hanging := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newVerifier(t, v.config(), inbound.Options{HTTPClient: hanging}).Receive(ctx, v.request()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The client that is made where none is given reaches no private address.
func TestDefaultClientIsGuarded(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") }))
	defer server.Close()
	_, err := inbound.GuardedClient().Get(server.URL)
	if err == nil || !strings.Contains(err.Error(), "not a public address") {
		t.Errorf("%v", err)
	}
	for _, address := range []string{"127.0.0.1:443", "10.0.0.1:443", "[::1]:443", "[::ffff:192.168.0.1]:443", "169.254.169.254:443", "100.64.0.1:443", "0.0.0.0:443", "[64:ff9b::7f00:1]:443", "[fe80::1%25eth0]:443", "nonsense"} {
		if inbound.PublicOnly("tcp", address, nil) == nil {
			t.Errorf("%s is let through", address)
		}
	}
	for _, address := range []string{"52.94.224.1:443", "[2600:1f00::1]:443"} {
		if err := inbound.PublicOnly("tcp", address, nil); err != nil {
			t.Error(err)
		}
	}
}

// Plaid is asked for the key that a token names.
func TestPlaidAsksForItsKey(t *testing.T) {
	v := vectorNamed(t, "plaid")
	c := inbound.Config{Provider: "plaid", Secrets: []string{"of sandbox", "of production"}, Settings: map[string]string{"client_id": "client"}}
	var asked []string
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		asked = append(asked, r.Method+" "+r.URL.String()+" "+string(text))
		if !strings.Contains(string(text), "of production") {
			return &http.Response{StatusCode: http.StatusBadRequest, Body: io.NopCloser(strings.NewReader(`{"error_code":"INVALID_API_KEYS"}`))}, nil
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"key":` + v.Secret + `}`))}, nil
	})}
	verifier := newVerifier(t, c, inbound.Options{HTTPClient: client})
	if outcome := receive(t, verifier, v.request()); outcome.Event.Type != "plaid.TRANSACTIONS.DEFAULT_UPDATE" {
		t.Errorf("%+v", outcome)
	}
	if len(asked) != 2 || !strings.HasPrefix(asked[1], "POST https://production.plaid.com/webhook_verification_key/get") || !strings.Contains(asked[1], "6c5516e1-92dc-479e-a8ff-5a51992e0001") {
		t.Errorf("asked %q", asked)
	}
	unknown := newVerifier(t, c, inbound.Options{HTTPClient: answering(http.StatusBadRequest, `{"error_code":"INVALID_WEBHOOK_VERIFICATION_KEY_ID"}`)})
	if outcome := receive(t, unknown, v.request()); outcome.Rejection.Reason != inbound.ReasonUntrustedKey {
		t.Errorf("%+v", outcome)
	}
	expired := newVerifier(t, c, inbound.Options{HTTPClient: answering(http.StatusOK, `{"key":`+strings.Replace(v.Secret, `"expired_at":null`, `"expired_at":1700000001`, 1)+`}`)})
	if outcome := receive(t, expired, v.request()); outcome.Rejection.Reason != inbound.ReasonUntrustedKey {
		t.Errorf("%+v", outcome)
	}
	for _, alg := range []string{"eyJhbGciOiJub25lIiwia2lkIjoiYSJ9", "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEifQ"} { // none, HS256
		r := v.request()
		_, rest, _ := strings.Cut(v.Headers["Plaid-Verification"], ".")
		r.Header.Set("Plaid-Verification", alg+"."+rest)
		if outcome := receive(t, verifier, r); outcome.Rejection.Reason != inbound.ReasonMalformedHeader {
			t.Errorf("%+v", outcome)
		}
	}
}

// Amazon signs everybody's topics alike, so only those that are named count.
func TestSNSTopics(t *testing.T) {
	v := vectorNamed(t, "sns-v2-subject")
	for topics, want := range map[string]inbound.Reason{"*": "", "arn:a, " + "arn:aws:sns:us-east-1:123456789012:MyTopic": "", "arn:aws:sns:us-east-1:123456789012:Other": inbound.ReasonNotAllowed} {
		c := v.config()
		c.Settings["topic_arns"] = topics
		if outcome := receive(t, newVerifier(t, c, v.options()), v.request()); outcome.Rejection.Reason != want {
			t.Errorf("%s: %+v", topics, outcome)
		}
	}
	// A confirmation of somebody else's topic is not confirmed, and one that fails is tried again.
	v = vectorNamed(t, "sns-subscription-confirmation")
	var asked []string
	paths := map[string]string{"/SimpleNotificationService-0000000000000000000000test.pem": v.Certificate}
	c := v.config()
	if outcome, err := newVerifier(t, c, inbound.Options{HTTPClient: answeringEach(paths, &asked)}).Receive(t.Context(), v.request()); err == nil {
		t.Errorf("a confirmation that failed: %+v", outcome)
	}
	asked = nil
	c.Settings["topic_arns"] = "arn:aws:sns:us-east-1:123456789012:Other"
	if outcome := receive(t, newVerifier(t, c, inbound.Options{HTTPClient: answeringEach(paths, &asked)}), v.request()); outcome.Kind != inbound.KindRejected || len(asked) != 1 {
		t.Errorf("%+v, asked %q", outcome, asked)
	}
	asked = nil
	c.Settings["topic_arns"], c.Settings["confirm"] = "*", "off"
	if outcome := receive(t, newVerifier(t, c, inbound.Options{HTTPClient: answeringEach(paths, &asked)}), v.request()); outcome.Kind != inbound.KindHandshake || len(asked) != 1 {
		t.Errorf("%+v, asked %q", outcome, asked)
	}
}
