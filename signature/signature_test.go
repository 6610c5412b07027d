package signature_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	official "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/posthaste-dev/posthaste/signature"
)

const (
	secretA   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretB   = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD6x2zqg/Lm1s="
	hexSecret = "a secret of our own, ünïcode"
)

var at = time.Unix(1764428000, 0)

func newStandard(t testing.TB, secrets ...string) *signature.Standard {
	t.Helper()
	s, err := signature.NewStandard(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newHex(t testing.TB, secrets ...string) *signature.Hex {
	t.Helper()
	h, err := signature.NewHex(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func headers(id string, at time.Time, sig string) http.Header {
	h := http.Header{}
	h.Set(signature.HeaderID, id)
	h.Set(signature.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(signature.HeaderSignature, sig)
	return h
}

// The vector is from the tests of the official libraries.
func TestStandardPublishedVector(t *testing.T) {
	const id, body, want = "msg_p5jXN8AQM9LWM0D4loKWxJek", `{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	s, when := newStandard(t, secretA), time.Unix(1614265330, 0)
	if got := string(s.Append(nil, id, when, []byte(body))); got != want {
		t.Errorf("signed %s, want %s", got, want)
	}
	if err := s.Verify(headers(id, when, want), []byte(body), when); err != nil {
		t.Error(err)
	}
}

// RFC 4231 has no vectors for our layout, so the expected values are computed
// here from the definition, by another way than the package takes.
func TestHexDefinition(t *testing.T) {
	body := []byte("{\"a\": 1}\x00\xff")
	h := hmac.New(sha256.New, []byte(hexSecret))
	h.Write(append([]byte("1764428000."), body...))
	want := "sha256=" + hex.EncodeToString(h.Sum(nil))
	s := newHex(t, hexSecret)
	if got := string(s.Append(nil, at, body)); got != want {
		t.Fatalf("signed %s, want %s", got, want)
	}
	for _, sig := range []string{want, strings.ToUpper(want[7:]), "sha256=00, " + want, want + ",sha256=" + strings.Repeat("0", 64)} {
		if !strings.HasPrefix(sig, "sha256=") {
			sig = "sha256=" + sig
		}
		if err := s.Verify(signature.HexRequest{Timestamp: "1764428000", Signature: sig, Body: body}, at); err != nil {
			t.Errorf("%s: %v", sig, err)
		}
	}
}

func TestOfficialLibraryAgrees(t *testing.T) {
	now := time.Now()
	bodies := map[string][]byte{"empty": {}, "json": []byte(`{"n": 1.0}`), "binary": {0, 1, 2, 0xff, '.', '\n'}, "1 MiB": make([]byte, 1<<20)}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			ours := newStandard(t, secretA, secretB)
			sent := headers("evt_01kb", now, string(ours.Append(nil, "evt_01kb", now, body)))
			for _, secret := range []string{secretA, secretB} { // both sides of a rotation
				theirs, err := official.NewWebhook(secret)
				if err != nil {
					t.Fatal(err)
				}
				if err := theirs.Verify(body, sent); err != nil {
					t.Errorf("official library refuses ours: %v", err)
				}
				sig, err := theirs.Sign("evt_01kb", now, body)
				if err != nil {
					t.Fatal(err)
				}
				if err := ours.Verify(headers("evt_01kb", now, sig), body, now); err != nil {
					t.Errorf("ours refuses the official library: %v", err)
				}
			}
		})
	}
}

func TestStandardRefuses(t *testing.T) {
	s := newStandard(t, secretA)
	body := []byte("payload")
	good := string(s.Append(nil, "evt_1", at, body))
	noncanonical := good[:len(good)-2] + string(good[len(good)-2]+1) + "="
	v1a := "v1a" + good[2:]
	for name, c := range map[string]struct {
		change func(http.Header)
		body   string
		now    time.Time
		want   error
	}{
		"another body":        {body: "payload ", want: signature.ErrMismatch},
		"another id":          {change: func(h http.Header) { h.Set("webhook-id", "evt_2") }, want: signature.ErrMismatch},
		"another timestamp":   {change: func(h http.Header) { h.Set("webhook-timestamp", "1764428001") }, want: signature.ErrMismatch},
		"no id":               {change: func(h http.Header) { h.Del("webhook-id") }, want: signature.ErrHeader},
		"no timestamp":        {change: func(h http.Header) { h.Del("webhook-timestamp") }, want: signature.ErrHeader},
		"no signature":        {change: func(h http.Header) { h.Del("webhook-signature") }, want: signature.ErrHeader},
		"two ids":             {change: func(h http.Header) { h.Add("webhook-id", "evt_2") }, want: signature.ErrHeader},
		"id with a full stop": {change: func(h http.Header) { h.Set("webhook-id", "evt_1.1") }, want: signature.ErrHeader},
		"timestamp signed":    {change: func(h http.Header) { h.Set("webhook-timestamp", "+1764428000") }, want: signature.ErrHeader},
		"timestamp fraction":  {change: func(h http.Header) { h.Set("webhook-timestamp", "1764428000.0") }, want: signature.ErrHeader},
		"timestamp overflow":  {change: func(h http.Header) { h.Set("webhook-timestamp", "99999999999999999999") }, want: signature.ErrHeader},
		"empty signature":     {change: func(h http.Header) { h.Set("webhook-signature", "v1,") }, want: signature.ErrMismatch},
		"bare signature":      {change: func(h http.Header) { h.Set("webhook-signature", good[3:]) }, want: signature.ErrMismatch},
		"another version":     {change: func(h http.Header) { h.Set("webhook-signature", v1a) }, want: signature.ErrMismatch},
		"cut short":           {change: func(h http.Header) { h.Set("webhook-signature", good[:len(good)-1]) }, want: signature.ErrMismatch},
		"other base64":        {change: func(h http.Header) { h.Set("webhook-signature", noncanonical) }, want: signature.ErrMismatch},
		"endless list":        {change: func(h http.Header) { h.Set("webhook-signature", strings.Repeat("v1,x ", 2000)+good) }, want: signature.ErrHeader},
		"too old":             {now: at.Add(5*time.Minute + time.Second), want: signature.ErrTimestamp},
		"too new":             {now: at.Add(-5*time.Minute - time.Second), want: signature.ErrTimestamp},
		"oldest":              {now: at.Add(5 * time.Minute)},
		"newest":              {now: at.Add(-5 * time.Minute)},
		"in a list":           {change: func(h http.Header) { h.Set("webhook-signature", "v1,AAAA v2,x "+v1a+" "+good+" v1,") }},
	} {
		t.Run(name, func(t *testing.T) {
			h := headers("evt_1", at, good)
			if c.change != nil {
				c.change(h)
			}
			sent, now := body, at
			if c.body != "" {
				sent = []byte(c.body)
			}
			if !c.now.IsZero() {
				now = c.now
			}
			if err := s.Verify(h, sent, now); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestHexRefuses(t *testing.T) {
	s := newHex(t, hexSecret)
	body := []byte("payload")
	good := string(s.Append(nil, at, body))
	for name, c := range map[string]struct {
		r    signature.HexRequest
		now  time.Time
		want error
	}{
		"another body": {signature.HexRequest{"1764428000", good, []byte("x")}, at, signature.ErrMismatch},
		"another time": {signature.HexRequest{"1764428001", good, body}, at, signature.ErrMismatch},
		"no time":      {signature.HexRequest{"", good, body}, at, signature.ErrHeader},
		"no signature": {signature.HexRequest{"1764428000", "", body}, at, signature.ErrHeader},
		"no prefix":    {signature.HexRequest{"1764428000", good[7:], body}, at, signature.ErrMismatch},
		"not hex":      {signature.HexRequest{"1764428000", "sha256=" + strings.Repeat("x", 64), body}, at, signature.ErrMismatch},
		"too old":      {signature.HexRequest{"1764428000", good, body}, at.Add(6 * time.Minute), signature.ErrTimestamp},
		"too new":      {signature.HexRequest{"1764428000", good, body}, at.Add(-6 * time.Minute), signature.ErrTimestamp},
	} {
		if err := s.Verify(c.r, c.now); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestRotation(t *testing.T) {
	body := []byte("x")
	both, sOld, sNew := newStandard(t, secretB, secretA), newStandard(t, secretA), newStandard(t, secretB)
	sent := headers("evt_1", at, string(both.Append(nil, "evt_1", at, body)))
	hBoth, hOld, hNew := newHex(t, "the new secret 16", hexSecret), newHex(t, hexSecret), newHex(t, "the new secret 16")
	hexSent := signature.HexRequest{Timestamp: "1764428000", Signature: string(hBoth.Append(nil, at, body)), Body: body}
	if first, _, _ := strings.Cut(hexSent.Signature, ","); first != string(hNew.Append(nil, at, body)) {
		t.Error("the newest secret's signature does not come first")
	}
	for name, err := range map[string]error{
		"standard: old receiver":   sOld.Verify(sent, body, at),
		"standard: new receiver":   sNew.Verify(sent, body, at),
		"standard: rotating first": both.Verify(headers("evt_1", at, string(sOld.Append(nil, "evt_1", at, body))), body, at),
		"hex: old receiver":        hOld.Verify(hexSent, at),
		"hex: new receiver":        hNew.Verify(hexSent, at),
		"hex: rotating first":      hBoth.Verify(signature.HexRequest{Timestamp: "1764428000", Signature: string(hOld.Append(nil, at, body)), Body: body}, at),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestZeroValueRefusesEverything(t *testing.T) {
	// What a verifier with an empty key would compute must not get through either.
	empty := hmac.New(sha256.New, nil)
	empty.Write([]byte("evt_1.1764428000.x"))
	sent := headers("evt_1", at, "v1,"+base64.StdEncoding.EncodeToString(empty.Sum(nil)))
	var none *signature.Standard
	var noneHex *signature.Hex
	for name, err := range map[string]error{
		"standard":     new(signature.Standard).Verify(sent, []byte("x"), at),
		"standard nil": none.Verify(sent, []byte("x"), at),
		"hex":          new(signature.Hex).Verify(signature.HexRequest{Timestamp: "1764428000", Signature: "sha256=", Body: nil}, at),
		"hex nil":      noneHex.Verify(signature.HexRequest{}, at),
	} {
		if !errors.Is(err, signature.ErrNoSecret) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := signature.NewStandard(); !errors.Is(err, signature.ErrNoSecret) {
		t.Errorf("NewStandard without secrets: %v", err)
	}
	if _, err := signature.NewHex(); !errors.Is(err, signature.ErrNoSecret) {
		t.Errorf("NewHex without secrets: %v", err)
	}
	if got := new(signature.Standard).Append(nil, "evt_1", at, nil); len(got) != 0 {
		t.Errorf("zero value signed %q", got)
	}
}

func TestTolerance(t *testing.T) {
	s := newStandard(t, secretA)
	sent := headers("evt_1", at, string(s.Append(nil, "evt_1", at, nil)))
	s.Tolerance = time.Hour
	if err := s.Verify(sent, nil, at.Add(time.Hour)); err != nil {
		t.Errorf("within a wider tolerance: %v", err)
	}
	s.Tolerance = -1
	if err := s.Verify(sent, nil, at.Add(time.Hour)); !errors.Is(err, signature.ErrTimestamp) {
		t.Errorf("a tolerance below zero switched the check off: %v", err)
	}
}

func TestSecrets(t *testing.T) {
	raw := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for name, c := range map[string]struct {
		err error
		ok  bool
	}{
		"new":                {signature.CheckStandard(signature.NewSecret()), true},
		"new for hex":        {signature.CheckHex(signature.NewSecret()), true},
		"24 bytes":           {signature.CheckStandard(raw(24)), true},
		"64 bytes":           {signature.CheckStandard(raw(64)), true},
		"23 bytes":           {signature.CheckStandard(raw(23)), false},
		"65 bytes":           {signature.CheckStandard(raw(65)), false},
		"empty":              {signature.CheckStandard(""), false},
		"prefix only":        {signature.CheckStandard("whsec_"), false},
		"no prefix":          {signature.CheckStandard(raw(24)[6:]), false},
		"ed25519 key":        {signature.CheckStandard("whsk_" + raw(32)[6:]), false},
		"url alphabet":       {signature.CheckStandard("whsec_" + strings.Repeat("_-", 16)), false},
		"unpadded":           {signature.CheckStandard(strings.TrimRight(raw(32), "=")), false},
		"line break":         {signature.CheckStandard(raw(24) + "\n"), false},
		"hex 16 bytes":       {signature.CheckHex("0123456789abcdef"), true},
		"hex 15 bytes":       {signature.CheckHex("0123456789abcde"), false},
		"hex 16 in 8 runes":  {signature.CheckHex("üüüüüüüü"), true},
		"hex not UTF-8":      {signature.CheckHex("0123456789abcde\xff"), false},
		"hex 257 bytes":      {signature.CheckHex(strings.Repeat("x", 257)), false},
		"hex empty":          {signature.CheckHex(""), false},
		"standard in a list": {func() error { _, err := signature.NewStandard(secretA, "x"); return err }(), false},
	} {
		if (c.err == nil) != c.ok {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if a, b := signature.NewSecret(), signature.NewSecret(); a == b {
		t.Error("two new secrets are equal")
	}
	_, err := signature.NewHex("short&secret")
	if err == nil || strings.Contains(err.Error(), "short&secret") {
		t.Errorf("the error shows the secret: %v", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	s := newStandard(t, secretA, secretB)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			body := []byte(strings.Repeat("x", i*100))
			for range 200 {
				sent := headers("evt_1", at, string(s.Append(nil, "evt_1", at, body)))
				if err := s.Verify(sent, body, at); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// FuzzStandard: whatever the headers hold, Verify does not panic, and accepts
// only what the official library accepts too, under an id and a timestamp that
// can be cut from the signed bytes in one way.
func FuzzStandard(f *testing.F) {
	s := newStandard(f, secretA)
	f.Add("evt_1", "1764428000", string(s.Append(nil, "evt_1", at, []byte("x"))), []byte("x"))
	f.Add("a.1", "2", "v1,", []byte("1764428000.x"))
	f.Add("", "-1", "v1,v1 ,, v1a,=", []byte(nil))
	theirs, err := official.NewWebhook(secretA)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, timestamp, sig string, body []byte) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {sig}}
		if s.Verify(h, body, at) != nil {
			return
		}
		if err := theirs.VerifyIgnoringTimestamp(body, h); err != nil {
			t.Fatalf("accepted what the official library refuses (%v): %q %q %q %q", err, id, timestamp, sig, body)
		}
		if want := string(s.Append(nil, id, at, body)); strings.Contains(id, ".") || !strings.Contains(sig, want[3:]) && timestamp == "1764428000" {
			t.Fatalf("forged: %q %q %q %q", id, timestamp, sig, body)
		}
	})
}

func FuzzHex(f *testing.F) {
	s := newHex(f, hexSecret)
	f.Add("1764428000", string(s.Append(nil, at, []byte("x"))), []byte("x"))
	f.Add("1764428000", "sha256=,sha256", []byte("x"))
	f.Fuzz(func(t *testing.T, timestamp, sig string, body []byte) {
		if s.Verify(signature.HexRequest{Timestamp: timestamp, Signature: sig, Body: body}, at) != nil {
			return
		}
		h := hmac.New(sha256.New, []byte(hexSecret))
		h.Write(append([]byte(timestamp+"."), body...))
		if !strings.Contains(strings.ToLower(sig), hex.EncodeToString(h.Sum(nil))) {
			t.Fatalf("forged: %q %q %q", timestamp, sig, body)
		}
	})
}

func BenchmarkStandardAppend(b *testing.B) {
	s, body, dst := newStandard(b, secretA), make([]byte, 1<<10), make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		dst = s.Append(dst[:0], "evt_01kb7j2m3n4p5q6r7s8t9v0wxyz", at, body)
	}
}

func BenchmarkStandardVerify(b *testing.B) {
	s, body := newStandard(b, secretA), make([]byte, 1<<10)
	sent := headers("evt_1", at, string(s.Append(nil, "evt_1", at, body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Verify(sent, body, at); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHexAppend(b *testing.B) {
	s, body, dst := newHex(b, hexSecret), make([]byte, 1<<10), make([]byte, 0, 80)
	b.ReportAllocs()
	for b.Loop() {
		dst = s.Append(dst[:0], at, body)
	}
}
