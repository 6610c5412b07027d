package config_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/posthaste-dev/posthaste/internal/config"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/keyring"
)

// setenv gives the test this environment, and nothing else of what is read.
func setenv(t *testing.T, env map[string]string) {
	t.Helper()
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "POSTHASTE_") || name == "PORT" || name == "DATABASE_URL" {
			t.Setenv(name, "") // so that it comes back after the test
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
}

func flags(t *testing.T, args ...string) config.Flags {
	t.Helper()
	var f config.Flags
	parser, err := kong.New(&f, kong.Name("test"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Fatalf("kong: %v", err)
	}
	return f
}

func parse(t *testing.T, args ...string) (config.Config, error) {
	t.Helper()
	return flags(t, args...).Parse()
}

func TestDefaults(t *testing.T) {
	setenv(t, nil)
	c, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:8700" || c.Database.Name != "posthaste.db" || c.Database.IsPostgres() || c.MaxInFlight != 4096 ||
		c.MaxPayloadBytes != 1<<20 || c.DisableAfter != 120*time.Hour || c.Retention != 720*time.Hour || c.DeadRetention != 2160*time.Hour ||
		c.IdempotencyWindow != c.Retention || c.ShutdownTimeout != 30*time.Second || c.ReconcileInterval != 15*time.Minute ||
		c.AllowHTTP != deliver.HTTPNowhere || c.AllowNetworks != nil || c.MetricsPublic || c.LogFormat != "" ||
		c.Replica != host+":8700" || c.AdminKey != "" || c.MasterKey != "" {
		t.Errorf("defaults %+v", c)
	}
	var zero config.Flags
	if again, err := zero.Parse(); err != nil || again.Listen != c.Listen || again.ShutdownTimeout != c.ShutdownTimeout {
		t.Errorf("the zero value: %+v, %v", again, err)
	}
}

func TestFlagWinsOverEnvironmentOverFallback(t *testing.T) {
	setenv(t, map[string]string{"PORT": "9000", "DATABASE_URL": "postgres://a/b", "POSTHASTE_MASTER_KEY": keyring.Generate()})
	c, err := parse(t)
	if err != nil || c.Listen != ":9000" || c.Database.Name != "postgres://a/b" || !strings.HasSuffix(c.Replica, ":9000") {
		t.Errorf("fallbacks: %+v, %v", c, err)
	}
	t.Setenv("POSTHASTE_LISTEN", "127.0.0.1:9001")
	t.Setenv("POSTHASTE_DB", "file.db")
	t.Setenv("POSTHASTE_ALLOW_NETWORKS", "127.0.0.0/8,fd00::/8")
	t.Setenv("POSTHASTE_ALLOW_HTTP", "true")
	c, err = parse(t)
	if err != nil || c.Listen != "127.0.0.1:9001" || c.Database.Name != "file.db" || c.AllowHTTP != deliver.HTTPNetworks ||
		len(c.AllowNetworks) != 2 || c.AllowNetworks[1] != netip.MustParsePrefix("fd00::/8") {
		t.Errorf("environment: %+v, %v", c, err)
	}
	c, err = parse(t, "--listen=:9002", "--db", "other.db", "--allow-http=all", "--metrics-public", "--max-payload", "64KiB", "--retention", "192h", "--disable-after", "36h")
	if err != nil || c.Listen != ":9002" || c.Database.Name != "other.db" || c.AllowHTTP != deliver.HTTPEverywhere || !c.MetricsPublic ||
		c.MaxPayloadBytes != 64<<10 || c.Retention != 192*time.Hour || c.IdempotencyWindow != 192*time.Hour || c.DisableAfter != 36*time.Hour {
		t.Errorf("flags: %+v, %v", c, err)
	}
	for _, args := range [][]string{{"--allow-http", "--db=x.db"}, {"--allow-http", "networks"}, {"--allow-http=true"}} {
		if c, err = parse(t, args...); err != nil || c.AllowHTTP != deliver.HTTPNetworks {
			t.Errorf("%v: %v, %v", args, c.AllowHTTP, err)
		}
	}
}

func TestSecretsFromFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, []byte("  key-from-a-file-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	setenv(t, map[string]string{"POSTHASTE_ADMIN_KEY_FILE": name})
	if c, err := parse(t); err != nil || c.AdminKey != "key-from-a-file-1" {
		t.Errorf("from a file: %q, %v", c.AdminKey, err)
	}
	if c, err := parse(t, "--admin-key=key-from-a-flag-1"); err != nil || c.AdminKey != "key-from-a-flag-1" {
		t.Errorf("a flag beside it: %q, %v", c.AdminKey, err)
	}
	t.Setenv("POSTHASTE_ADMIN_KEY", "key-from-the-env-1")
	if _, err := parse(t); err == nil || !strings.Contains(err.Error(), "set twice") {
		t.Errorf("both: %v", err)
	}
}

// TestAllMistakesAtOnce sets everything wrong: each setting is named once, and
// no secret is.
func TestAllMistakesAtOnce(t *testing.T) {
	const secret = "s3cret"
	setenv(t, map[string]string{
		"POSTHASTE_MASTER_KEY": secret, "POSTHASTE_ENDPOINT_URL": "https://u:" + secret + "@x", "POSTHASTE_DB": "mysql://u:" + secret + "@h/d",
	})
	_, err := parse(t, "--listen=8700", "--admin-key="+secret, "--allow-networks=127.0.0.1,10.1.0.0/8", "--allow-http=yes",
		"--max-in-flight=0", "--max-payload=1GiB", "--retention=24h", "--dead-retention=1h", "--idempotency-window=-1s",
		"--shutdown-timeout=soon", "--disable-after=-1h", "--reconcile-interval=0s", "--log-format=xml", "--log-level=loud", "--metrics-public=maybe", "--roles=accept,delivery",
		"--replica=a\nb", "--db-direct=mysql://h/d", "--outbox=mysql://u:"+secret+"@h/d", "--outbox-poll=x", "--outbox-batch=2001", "--otlp-endpoint=x",
		"--endpoint-secret="+secret)
	mistakes, ok := errors.AsType[config.Mistakes](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	got := map[string]int{}
	for _, m := range mistakes {
		got[m.Setting]++
	}
	for name, n := range map[string]int{
		"listen": 1, "db": 1, "db-direct": 1, "admin-key": 1, "master-key": 1, "allow-networks": 2, "allow-http": 1, "max-in-flight": 1,
		"max-payload": 1, "disable-after": 1, "retention": 1, "dead-retention": 1, "idempotency-window": 1, "shutdown-timeout": 1, "reconcile-interval": 1, "replica": 1,
		"log-format": 1, "log-level": 1, "metrics-public": 1, "roles": 1, "endpoint-url": 1, "endpoint-secret": 1,
		"outbox": 1, "outbox-poll": 1, "outbox-batch": 1, "otlp-endpoint": 1,
	} {
		if got[name] != n {
			t.Errorf("%s: %d mistakes, want %d", name, got[name], n)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("mistakes that are none: %v", got)
	}
	if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "u:") {
		t.Errorf("a secret is shown: %v", err)
	}
}

func TestSizes(t *testing.T) {
	setenv(t, nil)
	for value, want := range map[string]int{"1": 1, "10B": 10, "1KiB": 1024, "1kB": 1000, "2 MiB": 2 << 20, "64MiB": 64 << 20} {
		if c, err := parse(t, "--max-payload="+value); err != nil || c.MaxPayloadBytes != want {
			t.Errorf("%s: %d, %v", value, c.MaxPayloadBytes, err)
		}
	}
	for _, value := range []string{"x", "0", "-1", "1.5MiB", "1iB", "1MM", "65MiB", "9223372036854775807GiB", "MiB"} {
		if _, err := parse(t, "--max-payload="+value); err == nil {
			t.Errorf("%s is taken", value)
		}
	}
}

func TestMasterKeyIsRequiredWithPostgres(t *testing.T) {
	setenv(t, nil)
	_, err := parse(t, "--db=postgres://h/d")
	if err == nil || !strings.Contains(err.Error(), "--master-key (POSTHASTE_MASTER_KEY) is required with PostgreSQL") {
		t.Errorf("got %v", err)
	}
	if _, err := parse(t, "--db=postgres://h/d", "--master-key="+keyring.Generate()); err != nil {
		t.Error(err)
	}
}

// What is wrong with a value that the environment gives under another name is told by
// that name; a value in quotes would be used with them.
func TestMistakesNameTheirVariable(t *testing.T) {
	setenv(t, map[string]string{"DATABASE_URL": "mysql://u:s3cret@h/d", "POSTHASTE_ADMIN_KEY": `"key-of-the-env-001"`, "POSTHASTE_IDLE_SWEEP": "1h"})
	_, err := parse(t)
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{
		"has 3 mistakes:", `--db (DATABASE_URL) has the scheme "mysql"`, "--admin-key (POSTHASTE_ADMIN_KEY) is in quotes, which are part of the value",
		"POSTHASTE_IDLE_SWEEP is not a setting; did you mean POSTHASTE_RECONCILE_INTERVAL?",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
