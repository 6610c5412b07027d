package inbound_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/inbound"
)

type handshakeCase struct {
	ID       string            `json:"id"`
	Provider string            `json:"provider"`
	Config   map[string]string `json:"config"`
	Now      int64             `json:"now"`
	Request  struct {
		Method, Query, Body string
		Headers             map[string]string
	} `json:"request"`
	Response struct {
		Status      int               `json:"status"`
		StatusClass string            `json:"status_class"`
		ContentType string            `json:"content_type"`
		Headers     map[string]string `json:"headers"`
		Body        *string           `json:"body"`
		BodyNot     string            `json:"body_not"`
		JSON        map[string]any    `json:"json"`
		Then        string            `json:"then"`
	} `json:"response"`
}

// config sorts what the case is configured with into secrets and settings.
func (c handshakeCase) config() inbound.Config {
	out := inbound.Config{Provider: c.Provider, Settings: map[string]string{}}
	for name, value := range c.Config {
		if name == "verify_token" {
			out.Settings[name] = value
		} else {
			out.Secrets = append(out.Secrets, value)
		}
	}
	if p, _ := inbound.ProviderNamed(c.Provider); p.NeedSecret && out.Secrets == nil {
		out.Secrets = []string{"a secret that is not asked for here"}
	}
	if c.Provider == "aws-sns" {
		out.Settings["topic_arns"] = "arn:aws:sns:us-east-1:123456789012:MyTopic"
	}
	return out
}

func (c handshakeCase) request() *inbound.Request {
	r := &inbound.Request{
		Method: c.Request.Method, URL: &url.URL{Path: "/in/src_1", RawQuery: c.Request.Query},
		Header: http.Header{}, Body: []byte(c.Request.Body), At: time.Unix(max(c.Now, 1700000000), 0),
	}
	if c.Now != 0 {
		r.At = time.Unix(c.Now, 0)
	}
	for name, value := range c.Request.Headers {
		r.Header.Set(name, value)
	}
	return r
}

func TestHandshakes(t *testing.T) {
	var cases []handshakeCase
	readTestdata(t, "handshakes.json", &cases)
	if len(cases) < 12 {
		t.Fatalf("only %d handshakes were read", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Provider+"/"+c.ID, func(t *testing.T) {
			options, asked := inbound.Options{}, []string(nil)
			if c.Response.Then != "" {
				v := vectorNamed(t, c.ID)
				c.Request.Body = v.Body
				options.HTTPClient = answeringEach(map[string]string{"/SimpleNotificationService-0000000000000000000000test.pem": v.Certificate, "/": "<ConfirmSubscriptionResponse/>"}, &asked)
			}
			outcome := receive(t, newVerifier(t, c.config(), options), c.request())
			checkAnswer(t, c, outcome)
			if c.Response.Then != "" && (len(asked) != 2 || !strings.Contains(asked[1], "Action=ConfirmSubscription")) {
				t.Errorf("asked for %q", asked)
			}
		})
	}
}

func vectorNamed(t testing.TB, id string) vector {
	t.Helper()
	all := vectors(t)
	i := slices.IndexFunc(all, func(v vector) bool { return v.ID == id })
	if i < 0 {
		t.Fatalf("there is no vector %s", id)
	}
	return all[i]
}

// answeringEach answers by path and notes what was asked for.
func answeringEach(bodies map[string]string, asked *[]string) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		*asked = append(*asked, r.Method+" "+r.URL.String())
		body, known := bodies[r.URL.Path]
		status := http.StatusOK
		if !known {
			status = http.StatusNotFound
		}
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
	})}
}

func checkAnswer(t *testing.T, c handshakeCase, outcome inbound.Outcome) {
	t.Helper()
	got, want := outcome.Answer, c.Response
	if want.Status != 0 && got.Status != want.Status || want.StatusClass == "2xx" && got.Status/100 != 2 {
		t.Errorf("answered %d (%s %+v), want %d%s", got.Status, outcome.Kind, outcome.Rejection, want.Status, want.StatusClass)
	}
	if (got.Status/100 == 2) != (outcome.Kind == inbound.KindHandshake) {
		t.Errorf("kind %s with status %d", outcome.Kind, got.Status)
	}
	if !strings.HasPrefix(got.Header.Get("Content-Type"), want.ContentType) {
		t.Errorf("content type %q, want %q", got.Header.Get("Content-Type"), want.ContentType)
	}
	for name, value := range want.Headers {
		if got.Header.Get(name) != value {
			t.Errorf("header %s: %q, want %q", name, got.Header.Get(name), value)
		}
	}
	if want.Body != nil && string(got.Body) != *want.Body || want.BodyNot != "" && strings.Contains(string(got.Body), want.BodyNot) {
		t.Errorf("answered %q", got.Body)
	}
	if want.JSON == nil {
		return
	}
	var body map[string]any
	if err := json.Unmarshal(got.Body, &body); err != nil || !reflect.DeepEqual(body, want.JSON) {
		t.Errorf("answered %s (%v), want %v", got.Body, err, want.JSON)
	}
}

// What only looks like a handshake is not answered like one.
func TestHandshakesNeedTheirExactShape(t *testing.T) {
	secret := strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		provider, method, query, body string
		headers                       map[string]string
		want                          inbound.Kind
	}{
		"slack, unsigned":                        {provider: "slack", method: "POST", body: `{"type":"url_verification","challenge":"x"}`, want: inbound.KindRejected},
		"zoom, unsigned":                         {provider: "zoom", method: "POST", body: `{"event":"endpoint.url_validation","payload":{"plainToken":"x"}}`, want: inbound.KindRejected},
		"discord, unsigned":                      {provider: "discord", method: "POST", body: `{"type":1}`, want: inbound.KindRejected},
		"dropbox by POST":                        {provider: "dropbox", method: "POST", query: "challenge=x", want: inbound.KindRejected},
		"dropbox, a challenge of many bytes":     {provider: "dropbox", method: "GET", query: "challenge=" + strings.Repeat("x", 3000), want: inbound.KindIgnored},
		"graph with a body":                      {provider: "microsoft-graph", method: "POST", query: "validationToken=x", body: `{"value":[]}`, want: inbound.KindRejected},
		"graph by GET":                           {provider: "microsoft-graph", method: "GET", query: "validationToken=x", want: inbound.KindIgnored},
		"okta by POST":                           {provider: "okta", method: "POST", headers: map[string]string{"X-Okta-Verification-Challenge": "x"}, want: inbound.KindRejected},
		"twitter without a token":                {provider: "twitter", method: "GET", want: inbound.KindIgnored},
		"woocommerce with more in it":            {provider: "woocommerce", method: "POST", body: "webhook_id=7&a=b", headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, want: inbound.KindRejected},
		"woocommerce as JSON":                    {provider: "woocommerce", method: "POST", body: "webhook_id=7", headers: map[string]string{"Content-Type": "application/json"}, want: inbound.KindRejected},
		"meta, another mode":                     {provider: "meta", method: "GET", query: "hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=token", want: inbound.KindRejected},
		"meta, an empty token":                   {provider: "meta", method: "GET", query: "hub.mode=subscribe&hub.challenge=1&hub.verify_token=", want: inbound.KindRejected},
		"meta, what PHP makes of the parameters": {provider: "meta", method: "GET", query: "hub_mode=subscribe&hub_challenge=1&hub_verify_token=token", want: inbound.KindIgnored},
		"a wrong method":                         {provider: "stripe", method: "GET", want: inbound.KindIgnored},
		"another wrong method":                   {provider: "hmac", method: "TRACE", want: inbound.KindIgnored},
	} {
		t.Run(name, func(t *testing.T) {
			config := inbound.Config{Provider: c.provider, Secrets: []string{secret}}
			p, _ := inbound.ProviderNamed(c.provider)
			config.Settings = requiredSettings(p)
			r := &inbound.Request{Method: c.method, URL: &url.URL{RawQuery: c.query}, Header: http.Header{}, Body: []byte(c.body), At: time.Now()}
			for name, value := range c.headers {
				r.Header.Set(name, value)
			}
			outcome := receive(t, newVerifier(t, config, inbound.Options{}), r)
			if outcome.Kind != c.want || outcome.Answer.Status < 400 {
				t.Errorf("%s, answered %d %q; want %s", outcome.Kind, outcome.Answer.Status, outcome.Answer.Body, c.want)
			}
		})
	}
}

// requiredSettings returns settings that a provider cannot do without.
func requiredSettings(p inbound.Provider) map[string]string {
	values := map[string]string{
		"verify_token": "token", "topic_arns": "*", "public_url": "https://hooks.example.com/in/src_1", "header": "X-Signature", "client_id": "c",
	}
	known := map[string]string{}
	for _, s := range p.Settings {
		if value := values[s.Name]; value != "" && (s.Required || s.Name == "client_id") {
			known[s.Name] = value
		}
	}
	return maps.Clone(known)
}

// The challenge of zoom is answered with the secret that it is signed with.
func TestZoomAnswersWithTheSecretThatSigned(t *testing.T) {
	var cases []handshakeCase
	readTestdata(t, "handshakes.json", &cases)
	i := slices.IndexFunc(cases, func(c handshakeCase) bool { return c.ID == "zoom-crc" })
	config := cases[i].config()
	config.Secrets = append([]string{"of another app"}, config.Secrets...)
	checkAnswer(t, cases[i], receive(t, newVerifier(t, config, inbound.Options{}), cases[i].request()))
}
