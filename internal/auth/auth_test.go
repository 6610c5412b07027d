package auth_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/auth"
)

func TestIdentify(t *testing.T) {
	key := auth.NewKey()
	a := auth.New(auth.HashKey(key))
	for _, c := range []struct {
		name   string
		header []string
		want   posthaste.Code
	}{
		{"the key", []string{"Bearer " + key}, ""},
		{"scheme in lower case", []string{"bearer " + key}, ""},
		{"two spaces", []string{"Bearer  " + key}, ""},
		{"none", nil, posthaste.CodeUnauthorized},
		{"empty", []string{""}, posthaste.CodeUnauthorized},
		{"bare key", []string{key}, posthaste.CodeUnauthorized},
		{"basic", []string{"Basic " + key}, posthaste.CodeUnauthorized},
		{"another key", []string{"Bearer " + auth.NewKey()}, posthaste.CodeUnauthorized},
		{"prefix of the key", []string{"Bearer " + key[:len(key)-1]}, posthaste.CodeUnauthorized},
		{"key and more", []string{"Bearer " + key + "x"}, posthaste.CodeUnauthorized},
		{"no key after the scheme", []string{"Bearer "}, posthaste.CodeUnauthorized},
		{"two headers", []string{"Bearer " + key, "Bearer " + key}, posthaste.CodeUnauthorized},
	} {
		h := http.Header{}
		for _, v := range c.header {
			h.Add("Authorization", v)
		}
		p, err := a.Identify(h)
		if posthaste.CodeOf(err) != c.want || (err == nil) != p.Admin {
			t.Errorf("%s: %+v, %v; want code %q", c.name, p, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), key[:12]) {
			t.Errorf("%s: the error tells the key: %v", c.name, err)
		}
	}
}

func TestNoKeyKnownRefusesEverything(t *testing.T) {
	h := http.Header{"Authorization": {"Bearer "}}
	if _, err := auth.New(auth.Hash{}).Identify(h); posthaste.CodeOf(err) != posthaste.CodeUnauthorized {
		t.Fatal(err)
	}
}

func TestTenantOfAnAdmin(t *testing.T) {
	admin := auth.Principal{Admin: true}
	for _, c := range []struct {
		header []string
		want   string
		code   posthaste.Code
	}{
		{nil, "default", ""},
		{[]string{"acme"}, "acme", ""},
		{[]string{"operator"}, "operator", ""},
		{[]string{""}, "", posthaste.CodeInvalid},
		{[]string{"acme", "acme"}, "", posthaste.CodeInvalid},
		{[]string{"*"}, auth.AllTenants, ""},
		{[]string{"*", "acme"}, "", posthaste.CodeInvalid},
	} {
		h := http.Header{}
		for _, v := range c.header {
			h.Add(auth.HeaderTenant, v)
		}
		got, err := admin.Tenant(h)
		if got != c.want || posthaste.CodeOf(err) != c.code {
			t.Errorf("%q: %q, %v; want %q, code %q", c.header, got, err, c.want, c.code)
		}
	}
}

func TestOnlyAnAdminNamesATenant(t *testing.T) {
	for _, name := range []string{"acme", auth.AllTenants} {
		_, err := auth.Principal{}.Tenant(http.Header{auth.HeaderTenant: {name}})
		if posthaste.CodeOf(err) != posthaste.CodeForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeys(t *testing.T) {
	key := auth.NewKey()
	if !strings.HasPrefix(key, auth.KeyPrefix) || len(key) != 44 || key == auth.NewKey() || auth.CheckKey(key) != nil {
		t.Errorf("made the key %q", key)
	}
	for _, bad := range []string{"", "short", "has a space in the middle", "line\nbreak-0123456789", "schlüssel-0123456789"} {
		if err := auth.CheckKey(bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("CheckKey(%q): %v, want an error without the key", bad, err)
		}
	}
}
