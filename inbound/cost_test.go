package inbound_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/inbound"
)

// strangers are the requests that somebody without a secret can make: for each
// provider those of its vectors, with whatever body.
func strangers(t *testing.T, visit func(name string, v vector, newRequest func(body []byte) *inbound.Request)) {
	seen := map[string]bool{}
	for _, v := range vectors(t) {
		if !v.Valid || seen[v.Provider] {
			continue
		}
		seen[v.Provider] = true
		visit(v.Provider, v, func(body []byte) *inbound.Request {
			r := v.request()
			r.Body = body
			for _, token := range []string{"X-Gitlab-Token", "X-Telegram-Bot-Api-Secret-Token", "Authorization"} { // they need no body to be right
				if r.Header.Get(token) != "" {
					r.Header.Set(token, "wrong")
				}
			}
			return r
		})
	}
	if len(seen) < 34 {
		t.Fatalf("only %d providers have vectors", len(seen))
	}
}

const hostileBytes = 1 << 20

func repeated(begin, part, end string) []byte {
	n := (hostileBytes - len(begin) - len(end)) / len(part)
	return []byte(begin + strings.Repeat(part, n) + end)
}

func hostileBodies() map[string][]byte {
	return map[string][]byte{
		"an array of numbers":       repeated("[", "1,", "1]"),
		"an array of objects":       repeated("[", "{},", "{}]"),
		"members":                   repeated("{", `"a":1,`, `"b":1}`),
		"escaped members":           repeated("{", `"\u0061":1,`, `"b":1}`),
		"deep nesting":              repeated("", "[", ""),
		"deep objects":              repeated("", `{"a":`, ""),
		"one string":                repeated(`{"signature":{"token":"`, "x", `"}}`),
		"an escaped string":         repeated(`{"signature":{"token":"`, `\u0000`, `"}}`),
		"quotes":                    repeated("[", `"`, ""),
		"backslashes":               repeated(`{"`, `\`, ""),
		"items of Microsoft Graph":  repeated(`{"value":[`, `{"clientState":"x"},`, `{}]}`),
		"items of Adyen":            repeated(`{"notificationItems":[`, `{"NotificationRequestItem":{"additionalData":{"hmacSignature":"AAAA"}}},`, `{}]}`),
		"a list in Mailgun's place": repeated(`{"signature":{`, `"token":"x",`, `"timestamp":"1700000000"}}`),
		"fields of a form":          repeated("", "a&b=c&", "a=b"),
		"one field of a form":       repeated("a=", "%41", ""),
		"parts":                     repeated("--x\r\n", "\r\n--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb", "\r\n--x--\r\n"),
		"white space":               repeated("", " ", ""),
		"zeros":                     make([]byte, hostileBytes),
	}
}

// cost is what a request took.
type cost struct {
	allocated, hashed uint64
	passes            int
	took              time.Duration
}

func costOf(t *testing.T, verifier *inbound.Verifier, r *inbound.Request) (c cost, outcome inbound.Outcome) {
	t.Helper()
	inbound.CountHashes(t, func(n int) { c.hashed += uint64(n); c.passes++ })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	outcome, err := verifier.Receive(t.Context(), r)
	c.took = time.Since(began)
	runtime.ReadMemStats(&after)
	if err != nil && !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
	c.allocated = after.TotalAlloc - before.TotalAlloc
	return c, outcome
}

// Whatever a stranger sends, it takes no more memory than some copies of its body, is
// hashed a few times only, and takes no longer than reading it as JSON some times would.
func TestWhatAStrangerCosts(t *testing.T) {
	bodies := hostileBodies()
	unit := time.Hour // the time of one look at a body
	for range 3 {
		began := time.Now()
		json.Valid(bodies["an array of numbers"])
		unit = min(unit, time.Since(began))
	}
	strangers(t, func(name string, v vector, newRequest func([]byte) *inbound.Request) {
		verifier := newVerifier(t, v.config(), v.options())
		for what, body := range bodies {
			if len(body) > hostileBytes {
				t.Fatalf("%s has %d bytes", what, len(body))
			}
			c, _ := costOf(t, verifier, newRequest(body))
			const extra = 256 << 10 // for what does not depend on the body
			if c.allocated > 4*hostileBytes+extra {
				t.Errorf("%s, %s: %d MiB of memory", name, what, c.allocated>>20)
			}
			if c.hashed > 3*hostileBytes {
				t.Errorf("%s, %s: %d MiB were hashed in %d passes", name, what, c.hashed>>20, c.passes)
			}
			if c.took > 10*unit {
				if again, _ := costOf(t, verifier, newRequest(body)); again.took > 10*unit {
					t.Errorf("%s, %s: it took %s, reading it as JSON takes %s", name, what, again.took, unit)
				}
			}
		}
	})
}

// A stranger cannot have a body hashed again and again by many signatures.
func TestManySignatures(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 1<<20)
	strangers(t, func(name string, v vector, newRequest func([]byte) *inbound.Request) {
		verifier := newVerifier(t, v.config(), v.options())
		for header, value := range v.Headers {
			r := newRequest(body)
			for i := range 1900 {
				r.Header.Add(header, value)
				r.Header.Add(header, strings.Replace(value, "t=1", fmt.Sprintf("t=1%d", i), 1))
			}
			if c, outcome := costOf(t, verifier, r); c.hashed > 8*uint64(len(body)) || accepted(outcome) {
				t.Errorf("%s with many of %s: %d MiB were hashed in %d passes; %s", name, header, c.hashed>>20, c.passes, outcome.Kind)
			}
			r = newRequest(body)
			r.Header.Set(header, strings.Repeat(value+",", 1+2000/len(value)))
			if c, _ := costOf(t, verifier, r); c.hashed > 8*uint64(len(body)) {
				t.Errorf("%s with a list in %s: %d MiB were hashed in %d passes", name, header, c.hashed>>20, c.passes)
			}
		}
	})
	for _, secrets := range []int{1, 4, 16} {
		c := inbound.Config{Provider: "github"}
		for i := range secrets {
			c.Secrets = append(c.Secrets, fmt.Sprintf("0123456789abcdef%d", i))
		}
		r := signedGitHub("{}")
		r.Body, r.Header["X-Hub-Signature-256"] = body, nil
		for i := range 10 {
			r.Header.Add("X-Hub-Signature-256", fmt.Sprintf("sha256=%064d", i))
		}
		if cost, _ := costOf(t, newVerifier(t, c, inbound.Options{}), r); cost.passes != secrets {
			t.Errorf("%d secrets: the body was hashed %d times", secrets, cost.passes)
		}
	}
}

// Nothing is inflated before a signature was found right, and afterwards nothing
// beyond the limit and without room for it.
func TestInflationIsBounded(t *testing.T) {
	bomb := gzipped(string(repeated("[", "1,", "1]")))
	for range 5 { // 32 MiB
		bomb = append(bomb, bomb...)
	}
	strangers(t, func(name string, v vector, newRequest func([]byte) *inbound.Request) {
		r := newRequest(bomb)
		r.Header.Set("Content-Encoding", "gzip")
		r.MayDecode = func(int) bool { t.Errorf("%s asks for room to decode", name); return false }
		if c, _ := costOf(t, newVerifier(t, v.config(), v.options()), r); c.allocated > 2<<20 { // a diagnosis inflates 384 KiB
			t.Errorf("%s: %d KiB of memory for %d KiB", name, c.allocated>>10, len(bomb)>>10)
		}
	})
	verifier := newVerifier(t, inbound.Config{Provider: "github", Secrets: []string{"secret"}}, inbound.Options{})
	genuine := func(text string, limit int, mayDecode func(int) bool) *inbound.Request {
		r := signedGitHub(string(gzipped(text)))
		r.MaxDecoded, r.MayDecode = limit, mayDecode
		return r
	}
	if e := receive(t, verifier, genuine(`{"action":"opened","issue":{}}`, 1000, nil)).Event; e.Malformed || e.Type != "github.issues.opened" {
		t.Errorf("%+v", e)
	}
	long := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	if e := receive(t, verifier, genuine(long, 1<<20, nil)).Event; !e.Malformed {
		t.Errorf("beyond the limit: %+v", e)
	}
	asked := 0
	if e := receive(t, verifier, genuine(long, 2<<20, func(more int) bool { asked += more; return true })).Event; e.Malformed || asked < len(long) || asked > 4<<20 {
		t.Errorf("with room for %d bytes: %+v", asked, e)
	}
	if _, err := verifier.Receive(t.Context(), genuine(long, 2<<20, func(int) bool { return false })); err == nil {
		t.Error("without room it was decoded")
	}
}

// A diagnosis is made only where there is time for it.
func TestDiagnosisCanBeDropped(t *testing.T) {
	verifier := newVerifier(t, inbound.Config{Provider: "github", Secrets: []string{"secret"}}, inbound.Options{})
	r := signedGitHub("{}")
	r.Body, r.MayDiagnose = []byte("{ }"), func() bool { return false }
	c, outcome := costOf(t, verifier, r)
	if outcome.Kind != inbound.KindRejected || outcome.Rejection.Reason != inbound.ReasonWrongSecret || c.passes != 1 || outcome.Answer.Status != http.StatusUnauthorized {
		t.Errorf("%+v after %d passes", outcome, c.passes)
	}
	r.MayDiagnose = func() bool { return true }
	if _, outcome := costOf(t, verifier, r); outcome.Rejection.Reason != inbound.ReasonBodyChanged {
		t.Errorf("%+v", outcome)
	}
}
