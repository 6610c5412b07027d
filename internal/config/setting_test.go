package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste/internal/config"
)

func TestEffectiveMasksSecrets(t *testing.T) {
	const secret = "s3cret"
	for name, tt := range map[string]struct{ args, want string }{
		"db":              {"--db=postgres://u:" + secret + "@h:5/d?sslmode=require&sslpassword=" + secret, "postgres://u:********@h:5/d?sslmode=require&sslpassword=********"},
		"db-direct":       {"--db-direct=postgres://u@h/d?password=" + secret + "&p%61ssword=" + secret, "postgres://u@h/d?password=********&p%61ssword=********"},
		"admin-key":       {"--admin-key=" + secret, "********"},
		"master-key":      {"--master-key=" + secret, "********"},
		"endpoint-url":    {"--endpoint-url=https://h/in?a=1&token=" + secret, "https://h/in?a=1&token=********"},
		"endpoint-secret": {"--endpoint-secret=" + secret, "********"},
		"outbox":          {"--outbox=postgres://u:" + secret + "@a,b/x?x=1,2", "postgres://u:********@a,b/x?x=1,2"},
		"listen":          {"--listen=:1", ":1"},
		"replica":         {"--replica=a", "a"},
	} {
		setenv(t, nil)
		if v := effective(t, tt.args)[name]; v.Value != tt.want || v.Source != config.FromFlag || v.From != "--"+name {
			t.Errorf("%s: %+v, want %q", name, v, tt.want)
		}
		_, value, _ := strings.Cut(tt.args, "=")
		setenv(t, map[string]string{"POSTHASTE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")): value})
		if v := effective(t)[name]; v.Value != tt.want || v.Source != config.FromEnv {
			t.Errorf("%s from the environment: %+v, want %q", name, v, tt.want)
		}
	}
	// What looks like a database and cannot be taken apart is not shown at all.
	for _, value := range []string{"postgres://u:1," + secret + "@h/d", "host=h user=u password=" + secret, "u:" + secret + "@h/d", "postgres://u:" + secret + "%zz@h/d", "postgres://u:" + secret + "@h:port/d"} {
		if v := effective(t, "--db="+value)["db"]; strings.Contains(v.Value, secret) {
			t.Errorf("%q is shown as %q", value, v.Value)
		}
	}
}

func TestEffectiveDefaults(t *testing.T) {
	setenv(t, map[string]string{"PORT": "9000"})
	got := effective(t, "--retention=200h", "--db=postgres://u:p@h/d")
	for name, want := range map[string]string{
		"listen": "9000", "db-direct": "postgres://u:********@h/d", "idempotency-window": "200h", "shutdown-timeout": "30s", "admin-key": "",
		"roles": "accept,inbound,deliver,relay,dashboard",
	} {
		if got[name].Value != want {
			t.Errorf("%s is %q, want %q", name, got[name].Value, want)
		}
	}
	if !strings.HasSuffix(got["replica"].Value, ":9000") || got["replica"].Source != config.FromDefault {
		t.Errorf("replica: %+v", got["replica"])
	}
	if v := got["listen"]; v.Source != config.FromEnv || v.From != "PORT" {
		t.Errorf("listen: %+v", v)
	}
}

func TestRoles(t *testing.T) {
	setenv(t, nil)
	for value, want := range map[string]config.Roles{
		"":                       {Accept: true, Inbound: true, Deliver: true, Relay: true},
		"accept":                 {Accept: true},
		"deliver":                {Deliver: true},
		"deliver, accept":        {Accept: true, Deliver: true},
		"inbound,accept":         {Accept: true, Inbound: true},
		"inbound":                {Inbound: true},
		"relay,dashboard,accept": {Accept: true, Relay: true},
	} {
		if c, err := parse(t, "--roles="+value); err != nil || c.Roles != want {
			t.Errorf("%q: %+v, %v", value, c.Roles, err)
		}
	}
	for value, want := range map[string]string{
		"relay,dashboard": "names relay alone, and there is no --outbox",
		",":               `holds ""; want some of accept, inbound, deliver, relay, dashboard`,
		"accept,delivery": `holds "delivery"; want some of accept, inbound, deliver, relay, dashboard`,
		"ACCEPT":          `holds "ACCEPT"`,
	} {
		if _, err := parse(t, "--roles="+value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
}

func TestEndpoint(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	setenv(t, map[string]string{"POSTHASTE_ENDPOINT_SECRET_FILE": write(t, secret+"\n")})
	c, err := parse(t, "--endpoint-url=http://127.0.0.1:9/hook", "--allow-networks=127.0.0.0/8", "--allow-http")
	if err != nil || c.Endpoint != (config.Endpoint{URL: "http://127.0.0.1:9/hook", Secret: secret}) {
		t.Errorf("%+v, %v", c.Endpoint, err)
	}
	setenv(t, nil)
	if c, err := parse(t, "--endpoint-url=https://example.com/"); err != nil || c.Endpoint.Secret != "" {
		t.Errorf("without a secret: %+v, %v", c.Endpoint, err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no URL":      {[]string{"--endpoint-secret=" + secret}, "is of the endpoint that --endpoint-url names, and there is none"},
		"bad secret":  {[]string{"--endpoint-url=https://example.com/", "--endpoint-secret=whsec_abc"}, "--endpoint-secret (POSTHASTE_ENDPOINT_SECRET) cannot be used"},
		"http":        {[]string{"--endpoint-url=http://example.com/"}, "--endpoint-url (POSTHASTE_ENDPOINT_URL) is http; use https"},
		"private":     {[]string{"--endpoint-url=https://10.0.0.1/"}, "has an address that is not public"},
		"credentials": {[]string{"--endpoint-url=https://u:p@example.com/"}, "--endpoint-url"},
		"no absolute": {[]string{"--endpoint-url=example"}, "is not absolute"},
	} {
		if _, err := parse(t, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	// What is allowed is not known while the setting that says so is wrong.
	if _, err := parse(t, "--endpoint-url=http://127.0.0.1/", "--allow-http=networks", "--allow-networks=127.0.0.1"); err == nil ||
		strings.Contains(err.Error(), "--endpoint-url") {
		t.Errorf("a mistake that follows from another: %v", err)
	}
}

// A URL of PostgreSQL may name several hosts, with commas between them.
func TestOutboxes(t *testing.T) {
	file := write(t, "postgres://a,b/x\n  postgres://c/y\n")
	for name, tt := range map[string]struct {
		env  map[string]string
		args []string
		want []string
	}{
		"flags":    {args: []string{"--outbox=postgres://a,b/x", "--outbox=my shop, the first.db"}, want: []string{"postgres://a,b/x", "my shop, the first.db"}},
		"variable": {env: map[string]string{"POSTHASTE_OUTBOX": " postgres://a,b/x  shop.db "}, want: []string{"postgres://a,b/x", "shop.db"}},
		"file":     {env: map[string]string{"POSTHASTE_OUTBOX_FILE": file}, want: []string{"postgres://a,b/x", "postgres://c/y"}},
	} {
		setenv(t, tt.env)
		if c, err := parse(t, tt.args...); err != nil || !slices.Equal(c.Outboxes, tt.want) {
			t.Errorf("%s: %q, %v; want %q", name, c.Outboxes, err, tt.want)
		}
	}
	for _, next := range []string{"postgres://b/y", "/var/shop.db", "./shop.db", "../shop.db"} {
		setenv(t, map[string]string{"POSTHASTE_OUTBOX": "postgres://u:s3cret@a/x," + next})
		if _, err := parse(t); err == nil || !strings.Contains(err.Error(), "a comma between two databases") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("a comma before %s: %v", next, err)
		}
	}
}

// A variable that is misspelled would be ignored without a word.
func TestUnknownVariables(t *testing.T) {
	got := config.UnknownVariables([]string{
		"POSTHASTE_MAX_INFLIGHT=9", "POSTHASTE_MASTERKEY=s3cret", "POSTHASTE_NONSENSE_OF_ALL_KINDS=1", "POSTHASTE_PORT=9000", "POSTHASTE_ADMIN_KEY_FIEL=x",
		"POSTHASTE_DB=x", "POSTHASTE_ADMIN_KEY_FILE=x", "POSTHASTE_KEY=x", "POSTHASTE_CONFIG=x", "POSTHASTE_TYPO=", "PATH=/", "posthaste_db=x", "POSTHASTE=x",
		// What Kubernetes gives to each pod beside a service called posthaste, or posthaste-db.
		"POSTHASTE_PORT=tcp://10.0.0.1:8700", "POSTHASTE_SERVICE_HOST=10.0.0.1", "POSTHASTE_SERVICE_PORT=8700", "POSTHASTE_SERVICE_PORT_HTTP=8700",
		"POSTHASTE_PORT_8700_TCP=tcp://10.0.0.1:8700", "POSTHASTE_PORT_8700_TCP_PROTO=tcp", "POSTHASTE_PORT_8700_TCP_PORT=8700", "POSTHASTE_PORT_8700_TCP_ADDR=10.0.0.1",
		"POSTHASTE_DB_SERVICE_HOST=10.0.0.2", "POSTHASTE_DB_PORT=tcp://10.0.0.2:5432",
	})
	want := []config.UnknownVariable{
		{Name: "POSTHASTE_ADMIN_KEY_FIEL", Nearest: "POSTHASTE_ADMIN_KEY_FILE"}, {Name: "POSTHASTE_MASTERKEY", Nearest: "POSTHASTE_MASTER_KEY"},
		{Name: "POSTHASTE_MAX_INFLIGHT", Nearest: "POSTHASTE_MAX_IN_FLIGHT"}, {Name: "POSTHASTE_NONSENSE_OF_ALL_KINDS"}, {Name: "POSTHASTE_PORT"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
