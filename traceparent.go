package posthaste

import "strings"

// IsTraceparent reports whether a header of that name says something by the rules of
// https://www.w3.org/TR/trace-context/#traceparent-header: it knows version 00 and, as
// those ask, takes a higher version whose beginning reads like it.
func IsTraceparent(s string) bool {
	const v00Bytes = 55 // 2-32-16-2 hex digits
	if len(s) < v00Bytes || len(s) > 128 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, trace, parent, flags := s[:2], s[3:35], s[36:52], s[53:55]
	if !isLowerHex(version+trace+parent+flags) || version == "ff" || strings.Trim(trace, "0") == "" || strings.Trim(parent, "0") == "" {
		return false
	}
	return len(s) == v00Bytes || version != "00" && s[v00Bytes] == '-' && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
}

func isLowerHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
