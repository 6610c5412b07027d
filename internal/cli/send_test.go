package cli

import "testing"

func TestNotJSON(t *testing.T) {
	for _, tt := range []struct {
		payload, contentType string
		warns                bool
	}{
		{`{"a":1`, "application/json", true},
		{`{"a":1`, "", true},
		{" [1,", "", true},
		{"", "Application/JSON; charset=utf-8", true},
		{"x", "application/cloudevents+json", true},
		{`{"a":1}`, "application/json", false},
		{"", "", false},
		{"hello", "", false},
		{"{", "text/plain", false},
	} {
		if got := notJSON([]byte(tt.payload), tt.contentType); (got != "") != tt.warns {
			t.Errorf("%q as %q: %q", tt.payload, tt.contentType, got)
		}
	}
}
