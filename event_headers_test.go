package posthaste_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste"
)

func TestValidateEventHeader(t *testing.T) {
	for name, value := range map[string]string{
		"X-Trace": "abc", "x-A": "ü", "Idempotency-Key": "1", "tracestate": "a=b", "ce-subject": "s", "User-Agent": "mine", "X-Empty": "",
	} {
		if p := posthaste.ValidateEventHeader("f", name, value); len(p) != 0 {
			t.Errorf("%s: %q is refused: %+v", name, value, p)
		}
	}
	for name, value := range map[string]string{
		"": "x", "X A": "x", "X-\x00": "x", "X-A": "a\r\nX-Injected: 1", "X-B": "a\x00", "X-C": "\xff", strings.Repeat("a", 129): "x",
		"Authorization": "Bearer abc", "AUTHORIZATION": "abc", "cookie": "a=b", "Set-Cookie": "a=b", "Proxy-Authorization": "abc",
		"Transfer-Encoding": "chunked", "host": "evil", "Connection": "close", "TE": "trailers", "Upgrade": "x", "Expect": "100-continue",
		"Accept-Encoding": "gzip", "HTTP2-Settings": "x", "Content-Length": "1", "content-foo": "x", "Webhook-Id": "x", "posthaste-attempt": "9",
	} {
		p := posthaste.ValidateEventHeader("f", name, value)
		if len(p) != 1 || p[0].Field != "f" || p[0].Hint == "" {
			t.Errorf("%q: %q passes: %+v", name, value, p)
		}
		if value == "Bearer abc" && strings.Contains(fmt.Sprint(p), "Bearer") {
			t.Errorf("the problem repeats the value: %+v", p)
		}
	}
}

func TestValidateEventHeaders(t *testing.T) {
	some := func(n, size int, prefix string) (out []posthaste.Header) {
		for i := range n {
			name := fmt.Sprintf("%s%03d", prefix, i)
			out = append(out, posthaste.Header{Name: name, Value: strings.Repeat("a", size-len(name))})
		}
		return out
	}
	for _, c := range []struct {
		what    string
		headers []posthaste.Header
		ok      bool
	}{
		{"none", nil, true},
		{"as many as there may be", some(posthaste.MaxEventHeaders, 10, "X-"), true},
		{"one more", some(posthaste.MaxEventHeaders+1, 10, "X-"), false},
		{"as large as they may be", some(2, posthaste.MaxEventHeaderBytes/2, "X-"), true},
		{"larger", some(2, posthaste.MaxEventHeaderBytes/2+1, "X-"), false},
		{"attributes as large as they may be", some(32, posthaste.MaxAttributeBytes/32, "ce-"), true},
		{"larger attributes", some(32, posthaste.MaxAttributeBytes/32+1, "ce-"), false},
		{"both", append(some(posthaste.MaxEventHeaders, 10, "X-"), some(32, posthaste.MaxAttributeBytes/32, "CE-")...), true},
		{"a bad one", []posthaste.Header{{Name: "X-A", Value: "b"}, {Name: "Cookie", Value: "c"}}, false},
	} {
		if p := posthaste.ValidateEventHeaders("headers", c.headers); (len(p) == 0) != c.ok {
			t.Errorf("%s: %+v", c.what, p)
		}
	}
}
