package cli

import "testing"

func TestNotJSON(t *testing.T) {
	for _, tt := range []struct {
		payload, contentType string
		given, warns         bool
	}{
		{`{"a":1`, "application/json", true, true},
		{`{"a":1`, "text/plain; charset=utf-8", false, true},
		{" [1,", "text/plain; charset=utf-8", false, true},
		{"", "Application/JSON; charset=utf-8", true, true},
		{"x", "application/cloudevents+json", true, true},
		{`{"a":1}`, "application/json", true, false},
		{"", "", false, false},
		{"hello", "text/plain; charset=utf-8", false, false},
		{"{", "text/plain", true, false},
	} {
		if got := notJSON([]byte(tt.payload), tt.contentType, tt.given); (got != "") != tt.warns {
			t.Errorf("%q as %q (given %t): %q", tt.payload, tt.contentType, tt.given, got)
		}
	}
}
