package meta_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/inbound/meta"
	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

// signedWith signs any payload, with or without the padding that some senders keep.
func signedWith(secret, payload string, encoding *base64.Encoding) string {
	encoded := encoding.EncodeToString([]byte(payload))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(encoded))
	return encoding.EncodeToString(mac.Sum(nil)) + "." + encoded
}

func TestParseSignedRequest(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	genuine := metatest.SignedRequest("s3cret", "218471", at)
	for name, value := range map[string]string{
		"genuine":      genuine,
		"with padding": signedWith("s3cret", `{"algorithm":"HMAC-SHA256","issued_at":1700000000,"user_id":"218471"}`, base64.URLEncoding),
		"as numbers":   signedWith("s3cret", ` {"user_id":218471,"issued_at":"1700000000","algorithm":"hmac-sha256"}`, base64.RawURLEncoding),
	} {
		for _, secrets := range [][]string{{"s3cret"}, {"other", "s3cret"}, {"s3cret", ""}} {
			got, err := meta.ParseSignedRequest(secrets, value)
			if err != nil || got.UserID != "218471" || !got.IssuedAt.Equal(at) || len(got.Payload) == 0 {
				t.Errorf("%s with %d secrets: %+v, %v", name, len(secrets), got, err)
			}
		}
	}

	sum, payload, _ := strings.Cut(genuine, ".")
	const valid = `{"algorithm":"HMAC-SHA256","user_id":"1"}`
	for name, value := range map[string]string{
		"empty":             "",
		"no dot":            sum + payload,
		"no signature":      "." + payload,
		"half a signature":  sum[:22] + "." + payload,
		"altered":           sum + "." + strings.Replace(payload, "M", "N", 1),
		"other secret":      metatest.SignedRequest("other", "1", at),
		"empty secret":      metatest.SignedRequest("", "1", at),
		"not base64":        "!" + sum + "." + payload,
		"other algorithm":   signedWith("s3cret", strings.Replace(valid, "HMAC-SHA256", "none", 1), base64.RawURLEncoding),
		"no user":           signedWith("s3cret", `{"algorithm":"HMAC-SHA256"}`, base64.RawURLEncoding),
		"not JSON":          signedWith("s3cret", "{", base64.RawURLEncoding),
		"a list":            signedWith("s3cret", "[]", base64.RawURLEncoding),
		"too long":          signedWith("s3cret", strings.Replace(valid, `"1"`, `"`+strings.Repeat("1", 16<<10)+`"`, 1), base64.RawURLEncoding),
		"signature twice":   sum + "." + genuine,
		"of the text, once": sum + ".." + payload,
	} {
		if got, err := meta.ParseSignedRequest([]string{"s3cret", ""}, value); !errors.Is(err, meta.ErrSignedRequest) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %+v, error %v", name, got, err)
		}
	}
	if _, err := meta.ParseSignedRequest(nil, genuine); !errors.Is(err, meta.ErrSignedRequest) {
		t.Errorf("without a secret: error %v", err)
	}
}

func TestDeletionAnswer(t *testing.T) {
	body, err := meta.DeletionAnswer("https://example.com/deletion?id=1", "abc123")
	if err != nil || string(body) != `{"url":"https://example.com/deletion?id=1","confirmation_code":"abc123"}` {
		t.Errorf("%s, %v", body, err)
	}
	for _, c := range [][2]string{{"", "a"}, {"/deletion", "a"}, {"javascript:x", "a"}, {"https://", "a"}, {"https://example.com", ""}, {"::", "a"}} {
		if body, err := meta.DeletionAnswer(c[0], c[1]); err == nil {
			t.Errorf("%q: %s", c, body)
		}
	}
}

func FuzzParseSignedRequest(f *testing.F) {
	f.Add(metatest.SignedRequest("other", "1", time.Unix(1700000000, 0)))
	f.Add("..")
	f.Fuzz(func(t *testing.T, value string) {
		if got, err := meta.ParseSignedRequest([]string{"s3cret"}, value); err == nil {
			t.Errorf("%q was taken for %+v", value, got)
		}
	})
}
