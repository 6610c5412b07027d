package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	official "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/posthaste-dev/posthaste/signature"
)

// accepts reports whether the official verifier accepts a delivery with a secret.
func accepts(t *testing.T, secret string, a arrival) bool {
	t.Helper()
	w, err := official.NewWebhook(secret)
	must(t, err)
	return w.Verify(a.body, a.header) == nil
}

func signaturesOf(a arrival) []string { return strings.Fields(a.header.Get(signature.HeaderSignature)) }

func TestRotateSecret(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	made := s.endpoint(url, "")
	path, first := "/v1/endpoints/"+made.text("id"), made.text("secret")
	rotated := s.post(path+"/rotate-secret", "").want(200)
	second := rotated.text("secret")
	if second == first || signature.CheckStandard(second) != nil || rotated.header.Get("ETag") != `"2"` || rotated.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s", rotated.body)
	}
	read := s.get(path).want(200)
	if read.at("secret") != nil || read.at("signing_secrets", 0, "number") != 2.0 || read.at("signing_secrets", 0, "expires_at") != nil || read.text("signing_secrets", 1, "expires_at") == "" {
		t.Errorf("%s", read.body)
	}
	for _, secret := range []string{first, second} {
		if strings.Contains(string(read.body), secret) {
			t.Error("a secret is shown again")
		}
	}
	s.send("a", "x").want(202)
	both := arrived(t, arrivals)
	if n := len(signaturesOf(both)); n != 2 || !accepts(t, first, both) || !accepts(t, second, both) {
		t.Errorf("%d signatures, %q", n, both.header.Get(signature.HeaderSignature))
	}
	newest := both
	newest.header = both.header.Clone()
	newest.header.Set(signature.HeaderSignature, signaturesOf(both)[0])
	if !accepts(t, second, newest) {
		t.Error("the newest secret's signature does not stand first")
	}

	third := signature.NewSecret()
	if r := s.post(path+"/rotate-secret", fmt.Sprintf(`{"overlap":"0s","secret":%q}`, third)).want(200); r.text("secret") != third {
		t.Errorf("%s", r.body)
	}
	s.send("a", "x").want(202)
	alone := arrived(t, arrivals)
	if len(signaturesOf(alone)) != 1 || accepts(t, first, alone) || accepts(t, second, alone) || !accepts(t, third, alone) {
		t.Errorf("after a rotation without overlap: %q", alone.header.Get(signature.HeaderSignature))
	}

	for body, field := range map[string]string{
		`{"overlap":"721h"}`: "overlap", `{"overlap":"-1s"}`: "overlap", `{"overlap":5}`: "overlap", `{"secret":"short"}`: "secret",
		`{"secret":"` + third + `"}`: "secret", `{"secrets":[]}`: "secrets",
	} {
		s.post(path+"/rotate-secret", body).problem(422, "invalid", field)
	}
	for range 4 {
		s.post(path+"/rotate-secret", `{"overlap":"720h"}`).want(200)
	}
	s.post(path+"/rotate-secret", "").problem(409, "conflict")
	s.send("a", "x").want(202)
	if many := arrived(t, arrivals); len(signaturesOf(many)) != 5 {
		t.Errorf("%q", many.header.Get(signature.HeaderSignature))
	}
	s.post(path+"/rotate-secret", `{"overlap":"0s"}`).want(200)
	s.post("/v1/endpoints/ep_"+none26+"/rotate-secret", "").problem(404, "not_found")
}

func TestRotateHexSecretAndChangeScheme(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	const first, second = "0123456789abcdef", "fedcba9876543210, ünïcode"
	path := "/v1/endpoints/" + s.endpoint(url, `,"secret":"`+first+`","signature":{"scheme":"hex","headers":{"timestamp":"X-T","signature":"X-S"}}`).text("id")
	s.post(path+"/rotate-secret", `{"secret":"`+second+`"}`).want(200)
	s.send("a", "x").want(202)
	got := arrived(t, arrivals)
	if len(strings.Split(got.header.Get("X-S"), ",")) != 2 {
		t.Errorf("%q", got.header.Get("X-S"))
	}
	for _, secret := range []string{first, second} {
		verifier, err := signature.NewHex(secret)
		must(t, err)
		if err := verifier.Verify(signature.HexRequest{Timestamp: got.header.Get("X-T"), Signature: got.header.Get("X-S"), Body: got.body}, now()); err != nil {
			t.Error(err)
		}
	}
	toStandard := `{"signature":{"scheme":"standard","headers":null}}`
	s.patch(path, toStandard).problem(422, "invalid", "signature.scheme")
	s.post(path+"/rotate-secret", "").want(200) // one that fits both, but the others sign still
	s.patch(path, toStandard).problem(422, "invalid", "signature.scheme")
	last := s.post(path+"/rotate-secret", `{"overlap":"0s"}`).want(200).text("secret")
	s.patch(path, toStandard).want(200)
	s.send("a", "x").want(202)
	if got := arrived(t, arrivals); !accepts(t, last, got) {
		t.Errorf("%v", got.header)
	}
	s.post(path+"/rotate-secret", `{"secret":"`+first+`"}`).problem(422, "invalid", "secret")
	s.post(path+"/rotate-secret", `{"secret":"x","overlap":"1000h","more":1}`).problem(422, "invalid", "more", "overlap", "secret")
	s.post(path+"/test", `{"type":"a b","more":1}`).problem(422, "invalid", "more", "type")
}
