package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/posthaste-dev/posthaste"
)

func TestIfMatch(t *testing.T) {
	for _, c := range []struct {
		header []string
		want   posthaste.Code // for version 3
	}{
		{nil, ""},
		{[]string{`"3"`}, ""},
		{[]string{`"1", "3"`}, ""},
		{[]string{`"1","2" , "3"`}, ""},
		{[]string{`"1"`, `"3"`}, ""},
		{[]string{`, "3",`}, ""},
		{[]string{` * `}, ""},
		{[]string{`"with,comma", "3"`}, ""},
		{[]string{`"2"`}, posthaste.CodePreconditionFailed},
		{[]string{`W/"3"`}, posthaste.CodePreconditionFailed}, // weak tags never match
		{[]string{`W/"3", "2"`}, posthaste.CodePreconditionFailed},
		{[]string{`""`}, posthaste.CodePreconditionFailed},
		{[]string{`"3 "`}, posthaste.CodeInvalid},
		{[]string{``}, posthaste.CodeInvalid},
		{[]string{`3`}, posthaste.CodeInvalid},
		{[]string{`"3`}, posthaste.CodeInvalid},
		{[]string{`"3" "4"`}, posthaste.CodeInvalid},
		{[]string{`w/"3"`}, posthaste.CodeInvalid},
		{[]string{`"3", *`}, posthaste.CodeInvalid},
	} {
		r := httptest.NewRequest("PATCH", "/", nil)
		r.Header = http.Header{}
		for _, v := range c.header {
			r.Header.Add(headerIfMatch, v)
		}
		pre, err := (&call{r: r}).precondition()
		if err == nil {
			err = pre.check(3)
		}
		if posthaste.CodeOf(err) != c.want {
			t.Errorf("%q: %v, want code %q", c.header, err, c.want)
		}
	}
}

func TestIfNoneMatch(t *testing.T) {
	for _, c := range []struct {
		method, header string
		want           posthaste.Code // for version 3
	}{
		{"PUT", `*`, posthaste.CodePreconditionFailed},
		{"PUT", `"3"`, posthaste.CodePreconditionFailed},
		{"PATCH", `W/"3"`, posthaste.CodePreconditionFailed}, // weak tags match here
		{"PUT", `"2"`, ""},
		{"PUT", `3`, posthaste.CodeInvalid},
		{"GET", `"3"`, ""},
		{"HEAD", `*`, ""},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.Header.Set(headerIfNoneMatch, c.header)
		pre, err := (&call{r: r}).precondition()
		if err == nil && pre.checkNone() != nil {
			t.Errorf("%s %s: nothing must be there, and that is not enough", c.method, c.header)
		}
		if err == nil {
			err = pre.check(3)
		}
		if posthaste.CodeOf(err) != c.want {
			t.Errorf("%s %s: %v, want code %q", c.method, c.header, err, c.want)
		}
	}
}
