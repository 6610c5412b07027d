package metatest_test

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

// A body that was made by hand after Meta's description, with its signature.
const (
	secret = "meta_app_secret_synthetic"
	vector = `{"object":"instagram","entry":[{"id":"17841400000000001","time":1700000000123,"messaging":[{"sender":{"id":"900000000000001"},` +
		`"recipient":{"id":"17841400000000001"},"timestamp":1700000000045,"message":{"mid":"aWdfZAG1fSYNTHETIC1",` +
		`"text":"\u00e4\u00f6\u00e5 \ud83d\ude00 https:\/\/example.com\/?a=1&b=2 \u003c3 \u0040me"}}]}]}`
	vectorSignature = "sha256=8787941b5e87350ffb5c2b5fed700d80faeb9ec0118e39e2b4c868bbcefbf847"
)

func TestEncodeAndSign(t *testing.T) {
	chat := metatest.Chat{Account: "17841400000000001", Customer: "900000000000001"}
	body := metatest.Encode("instagram", metatest.Messaging(chat.Account, time.UnixMilli(1700000000123),
		chat.Text(time.UnixMilli(1700000000045), "aWdfZAG1fSYNTHETIC1", "äöå 😀 https://example.com/?a=1&b=2 <3 @me")))
	if string(body) != vector {
		t.Errorf("body\n%s\nwant\n%s", body, vector)
	}
	request, err := metatest.NewRequest(t.Context(), "http://example.com/in", secret, body)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := io.ReadAll(request.Body)
	if err != nil || string(sent) != vector || request.Header.Get(metatest.SignatureHeader) != vectorSignature {
		t.Errorf("sent %s, headers %v, error %v", sent, request.Header, err)
	}
	if got, want := request.Header.Get("X-Hub-Signature"), "sha1=655708de94aecb403c4fbff80a657e3c5c6c7921"; got != want {
		t.Errorf("legacy signature %s, want %s", got, want)
	}
}

func TestEscapeKeepsMeaning(t *testing.T) {
	for _, text := range []string{"", `a\b"c/d`, "\x01\u2028😀é<>@&", `\\/`} {
		plain, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, escaped := range [][]byte{metatest.Escape(plain), metatest.Escape(metatest.Escape(plain))} {
			var back string
			if err := json.Unmarshal(escaped, &back); err != nil || back != text {
				t.Errorf("%q became %s, %q, error %v", text, escaped, back, err)
			}
			for _, c := range escaped {
				if c > '~' {
					t.Errorf("%q became %s, which is not ASCII", text, escaped)
				}
			}
		}
	}
}
