// Package metatest makes the requests that Meta sends, for tests and
// simulations: bodies written as Meta writes them, and signed.
//
//	chat := metatest.Chat{Account: "17841400000000001", Customer: "9001"}
//	body := metatest.Encode("instagram", metatest.Messaging(chat.Account, now,
//		chat.Text(now, "aWd.1", "Is it still available? 😀"),
//		chat.Seen(now, "aWd.0"),
//	))
//	request, err := metatest.NewRequest(ctx, url, appSecret, body)
//
// The ids and texts are the caller's, so that a model can foretell what must be
// stored.
package metatest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the header that Meta still sends beside the real one
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// SignatureHeader carries what [Sign] returns.
const SignatureHeader = "X-Hub-Signature-256"

// Encode returns the body of a request. Meta's objects are "instagram", "page"
// and "whatsapp_business_account". It panics if an item that the caller made
// can't be written as JSON.
func Encode(object string, entries ...Entry) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // Escape does it Meta's way
	if err := e.Encode(struct {
		Object string  `json:"object"`
		Entry  []Entry `json:"entry"`
	}{object, entries}); err != nil {
		panic(fmt.Sprintf("metatest: encode a body: %v", err))
	}
	return Escape(bytes.TrimSpace(b.Bytes()))
}

// Escape rewrites a JSON text as Meta writes it: nothing but ASCII, lower-case
// \u escapes for all else and for "<" and "@", "\/" for a slash.
func Escape(text []byte) []byte {
	out := make([]byte, 0, len(text)+len(text)/8)
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text): // with what it escapes
			out = append(out, c, text[i+1])
			i += 2
		case c == '/':
			out = append(out, '\\', '/')
			i++
		case c == '<' || c == '@':
			out = fmt.Appendf(out, `\u%04x`, c)
			i++
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			r, size := utf8.DecodeRune(text[i:])
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
			i += size
		}
	}
	return out
}

// Sign returns the value of [SignatureHeader]: "sha256=" and 64 digits.
func Sign(appSecret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(appSecret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// NewRequest returns the request that Meta would send, with the legacy signature
// beside the one that counts.
func NewRequest(ctx context.Context, url, appSecret string, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make a request of Meta's: %w", err)
	}
	legacy := hmac.New(sha1.New, []byte(appSecret))
	legacy.Write(body)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "facebookexternalua")
	request.Header.Set(SignatureHeader, Sign(appSecret, body))
	request.Header.Set("X-Hub-Signature", "sha1="+hex.EncodeToString(legacy.Sum(nil)))
	return request, nil
}

// SignedRequest returns the value of the form field "signed_request" that the
// deauthorize and data deletion callbacks are sent.
func SignedRequest(appSecret, userID string, issuedAt time.Time) string {
	payload := fmt.Sprintf(`{"algorithm":"HMAC-SHA256","expires":0,"issued_at":%d,"user_id":%q}`, issuedAt.Unix(), userID)
	encoded := base64.RawURLEncoding.EncodeToString([]byte(payload))
	mac := hmac.New(sha256.New, []byte(appSecret))
	mac.Write([]byte(encoded))
	return strings.Join([]string{base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), encoded}, ".")
}
