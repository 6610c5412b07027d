package config

import (
	"net/url"
	"slices"
	"strings"
)

// Setting describes one setting, whatever its value.
type Setting struct {
	Name    string // of the flag, without dashes
	Env     string // the environment variable; in the configuration file too
	StandIn string // a variable that is read where Env is not set; "" if none
	HasFile bool   // Env with _FILE behind it may name a file that holds the value
	Default string // as it would be written; "" where there is none, or it depends on others

	kind   kind
	isList bool // several values, each with commas in it, perhaps: see listSeparator
}

// listSeparator stands between the values of a list while it is one text. The flag is
// given once for each; in a variable or a file there is space between them, which no
// URL has in it.
const listSeparator = "\n"

// kind says what may be shown of a value.
type kind int8

const (
	plain  kind = iota
	secret      // nothing
	urls        // no passwords and the like
)

// Settings returns all settings, in the order in which the default file has them.
func Settings() []Setting {
	list := []Setting{
		{Name: "listen", StandIn: "PORT", Default: "127.0.0.1:8700"},
		{Name: "db", StandIn: "DATABASE_URL", HasFile: true, Default: "posthaste.db", kind: urls},
		{Name: "db-direct", HasFile: true, kind: urls},
		{Name: "migrate", Default: "auto"},
		{Name: "roles", Default: strings.Join(roles, ",")},
		{Name: "admin-key", HasFile: true, kind: secret},
		{Name: "master-key", HasFile: true, kind: secret},
		{Name: "allow-networks"},
		{Name: "allow-http", Default: "false"},
		{Name: "endpoint-url", HasFile: true, kind: urls},
		{Name: "endpoint-secret", HasFile: true, kind: secret},
		{Name: "max-in-flight", Default: "4096"},
		{Name: "max-payload", Default: "1MiB"},
		{Name: "disable-after", Default: "120h"},
		{Name: "retention", Default: "720h"},
		{Name: "dead-retention", Default: "2160h"},
		{Name: "idempotency-window"},
		{Name: "replica"},
		{Name: "shutdown-timeout", Default: "30s"},
		{Name: "reconcile-interval", Default: "15m"},
		{Name: "outbox", HasFile: true, kind: urls, isList: true},
		{Name: "outbox-poll", Default: "10s"},
		{Name: "outbox-batch", Default: "500"},
		{Name: "log-format"},
		{Name: "log-level", Default: "info"},
		{Name: "metrics-public", Default: "false"},
		{Name: "otlp-endpoint"},
	}
	for i := range list {
		list[i].Env = envName(list[i].Name)
	}
	return list
}

func envName(setting string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// masked is shown in place of what must not be seen.
const masked = "********"

// show returns what may be shown of a value.
func (s Setting) show(value string) string {
	switch {
	case value == "" || s.kind == plain:
		return value
	case s.kind == secret:
		return masked
	}
	if !s.isList {
		return maskURL(value)
	}
	parts := strings.Split(value, listSeparator)
	for i, part := range parts {
		parts[i] = maskURL(part)
	}
	return strings.Join(parts, " ")
}

// revealing are parts of the names of URL parameters whose values are secrets:
// PostgreSQL's password and sslpassword, a receiver's ?token= or ?sig=.
var revealing = []string{"password", "passwd", "secret", "token", "key", "sig", "auth", "code"}

// maskURL hides passwords in a URL. What could hold one and cannot be taken apart
// is hidden as a whole; a path of a file is not a URL.
func maskURL(value string) string {
	if !strings.Contains(value, "://") {
		if strings.Contains(strings.ToLower(value), "password") || strings.Contains(value, "@") {
			return masked // a connection string of another form
		}
		return value
	}
	u, err := url.Parse(value)
	if err != nil || u.Opaque != "" {
		return masked
	}
	shown := u.Scheme + "://"
	switch password, has := u.User.Password(); {
	case has && password != "":
		shown += url.User(u.User.Username()).String() + ":" + masked + "@"
	case u.User != nil:
		shown += u.User.String() + "@"
	}
	shown += u.Host + u.EscapedPath()
	for i, pair := range strings.Split(u.RawQuery, "&") {
		if pair == "" {
			continue
		}
		name, _, _ := strings.Cut(pair, "=")
		lower := strings.ToLower(name)
		if strings.Contains(name, "%") || slices.ContainsFunc(revealing, func(r string) bool { return strings.Contains(lower, r) }) {
			pair = name + "=" + masked
		}
		shown += map[bool]string{true: "?", false: "&"}[i == 0] + pair
	}
	return shown
}
