package posthaste_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
)

func TestMatchType(t *testing.T) {
	for _, tc := range []struct {
		pattern, eventType string
		want               bool
	}{
		{"*", "a", true},
		{"*", "invoice.paid", true},
		{"invoice.paid", "invoice.paid", true},
		{"invoice.paid", "invoice.paid.late", false},
		{"invoice.paid", "Invoice.paid", false},
		{"invoice.*", "invoice.paid", true},
		{"invoice.*", "invoice.paid.late", true},
		{"invoice.*", "invoice.", false},
		{"invoice.*", "invoice", false},
		{"invoice.*", "invoices.paid", false},
		{"a.b.*", "a.b.c", true},
		{"a.b.*", "a.c.b", false},
	} {
		if got := posthaste.MatchType(tc.pattern, tc.eventType); got != tc.want {
			t.Errorf("MatchType(%q, %q) = %v", tc.pattern, tc.eventType, got)
		}
	}
}

func TestValidatePattern(t *testing.T) {
	for pattern, valid := range map[string]bool{
		"*": true, "invoice.paid": true, "invoice.*": true, "a/b:c-d_e.*": true,
		"": false, ".*": false, "invoice*": false, "*.paid": false, "invoice.*.paid": false, "**": false, "a b": false,
		strings.Repeat("a", 128): true, strings.Repeat("a", 129): false, strings.Repeat("a", 127) + ".*": false,
	} {
		problems := posthaste.ValidatePattern("event_types[0]", pattern)
		if (len(problems) == 0) != valid {
			t.Errorf("ValidatePattern(%q): %v, want valid %v", pattern, problems, valid)
		}
		for _, p := range problems {
			if p.Field != "event_types[0]" || p.Message == "" || p.Hint == "" {
				t.Errorf("ValidatePattern(%q) leaves the caller alone: %+v", pattern, p)
			}
		}
	}
}

func FuzzPattern(f *testing.F) {
	f.Add("invoice.*", "invoice.paid")
	f.Add("*", "x")
	f.Add("a.*.b", "a..b")
	f.Add("\x00", "ü")
	f.Fuzz(func(t *testing.T, pattern, eventType string) {
		if posthaste.ValidatePattern("p", pattern) != nil || posthaste.ValidateType("t", eventType) != nil {
			return
		}
		got := posthaste.MatchType(pattern, eventType)
		stem, isPrefix := strings.CutSuffix(pattern, "*")
		want := pattern == eventType || isPrefix && strings.HasPrefix(eventType, stem) && eventType != stem
		if got != want {
			t.Errorf("MatchType(%q, %q) = %v, want %v", pattern, eventType, got, want)
		}
	})
}

func TestDurationJSON(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5 * time.Second: `"5s"`, 5 * time.Minute: `"5m"`, 72 * time.Hour: `"72h"`, 90 * time.Minute: `"1h30m"`,
		0: `"0s"`, 1500 * time.Millisecond: `"1.5s"`, 10 * time.Second: `"10s"`, time.Hour + time.Second: `"1h0m1s"`, 100 * time.Hour: `"100h"`,
	} {
		raw, err := json.Marshal(posthaste.Duration(d))
		if err != nil || string(raw) != want {
			t.Errorf("%v is written as %s, %v; want %s", d, raw, err, want)
		}
		var back posthaste.Duration
		if err := json.Unmarshal(raw, &back); err != nil || time.Duration(back) != d {
			t.Errorf("%s is read as %v, %v", raw, back, err)
		}
	}
	for _, bad := range []string{`5`, `"5"`, `"5 days"`, `null `, `{}`, `""`} {
		var d posthaste.Duration
		if err := json.Unmarshal([]byte(bad), &d); err == nil && strings.TrimSpace(bad) != "null" {
			t.Errorf("%s is taken for %v", bad, d)
		}
	}
}

func TestInvalidIsUnsupportedOnlyWhereAllOfItIs(t *testing.T) {
	wrong := posthaste.Problem{Field: "url", Message: "is missing"}
	later := posthaste.Problem{Field: "filter", Message: "is not built yet", Code: posthaste.CodeUnsupported}
	for _, tc := range []struct {
		problems []posthaste.Problem
		want     posthaste.Code
	}{
		{nil, ""},
		{[]posthaste.Problem{later}, posthaste.CodeUnsupported},
		{[]posthaste.Problem{wrong}, posthaste.CodeInvalid},
		{[]posthaste.Problem{later, wrong}, posthaste.CodeInvalid},
	} {
		if got := posthaste.CodeOf(posthaste.Invalid(tc.problems)); got != tc.want {
			t.Errorf("Invalid(%v) has code %q, want %q", tc.problems, got, tc.want)
		}
	}
}
