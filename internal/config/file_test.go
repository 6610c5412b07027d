package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste/internal/config"
)

func write(t *testing.T, text string) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "posthaste.conf")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// documented are the settings of the contract: flag, variable, stand-in, default.
// "" is a default that is made, derived or none.
var documented = [][4]string{
	{"listen", "POSTHASTE_LISTEN", "PORT", "127.0.0.1:8700"},
	{"db", "POSTHASTE_DB", "DATABASE_URL", "posthaste.db"},
	{"db-direct", "POSTHASTE_DB_DIRECT", "", ""},
	{"migrate", "POSTHASTE_MIGRATE", "", "auto"},
	{"roles", "POSTHASTE_ROLES", "", "accept,inbound,deliver,relay,dashboard"},
	{"admin-key", "POSTHASTE_ADMIN_KEY", "", ""},
	{"master-key", "POSTHASTE_MASTER_KEY", "", ""},
	{"allow-networks", "POSTHASTE_ALLOW_NETWORKS", "", ""},
	{"allow-http", "POSTHASTE_ALLOW_HTTP", "", "false"},
	{"endpoint-url", "POSTHASTE_ENDPOINT_URL", "", ""},
	{"endpoint-secret", "POSTHASTE_ENDPOINT_SECRET", "", ""},
	{"max-in-flight", "POSTHASTE_MAX_IN_FLIGHT", "", "4096"},
	{"max-payload", "POSTHASTE_MAX_PAYLOAD", "", "1MiB"},
	{"disable-after", "POSTHASTE_DISABLE_AFTER", "", "120h"},
	{"retention", "POSTHASTE_RETENTION", "", "720h"},
	{"dead-retention", "POSTHASTE_DEAD_RETENTION", "", "2160h"},
	{"idempotency-window", "POSTHASTE_IDEMPOTENCY_WINDOW", "", ""},
	{"replica", "POSTHASTE_REPLICA", "", ""},
	{"shutdown-timeout", "POSTHASTE_SHUTDOWN_TIMEOUT", "", "30s"},
	{"reconcile-interval", "POSTHASTE_RECONCILE_INTERVAL", "", "15m"},
	{"outbox", "POSTHASTE_OUTBOX", "", ""},
	{"outbox-poll", "POSTHASTE_OUTBOX_POLL", "", "10s"},
	{"outbox-batch", "POSTHASTE_OUTBOX_BATCH", "", "500"},
	{"log-format", "POSTHASTE_LOG_FORMAT", "", ""},
	{"log-level", "POSTHASTE_LOG_LEVEL", "", "info"},
	{"metrics-public", "POSTHASTE_METRICS_PUBLIC", "", "false"},
	{"otlp-endpoint", "POSTHASTE_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", ""},
}

// paragraph is a setting as the default file documents it: comments, then the
// name with the default.
var paragraph = regexp.MustCompile(`(?m)^# --([a-z-]+): (?:.*\n# )*.*\n#(POSTHASTE_[A-Z_]+)=(.*)$`)

// TestDefaultFileDocumentsEverySetting: every setting once, in the order of the
// contract, with its variable, its default and what stands in for it; and nothing else.
func TestDefaultFileDocumentsEverySetting(t *testing.T) {
	found := paragraph.FindAllStringSubmatch(config.DefaultFile, -1)
	if len(found) != len(documented) {
		t.Errorf("%d settings are documented, want %d", len(found), len(documented))
	}
	settings := config.Settings()
	for i, want := range documented {
		if i >= len(found) || i >= len(settings) {
			t.Errorf("--%s is missing", want[0])
			continue
		}
		text, got := found[i][0], found[i][1:]
		if got[0] != want[0] || got[1] != want[1] || got[2] != want[3] {
			t.Errorf("documented: %q, want %q", got, want)
		}
		if want[2] != "" && !strings.Contains(text, want[2]) {
			t.Errorf("--%s: %s is not named", want[0], want[2])
		}
		s := settings[i]
		if s.Name != want[0] || s.Env != want[1] || s.Default != want[3] {
			t.Errorf("read: %+v, want %q", s, want)
		}
		if s.HasFile != strings.Contains(text, "…_FILE") {
			t.Errorf("--%s: read from a file %t, and the text says otherwise", s.Name, s.HasFile)
		}
	}
	if strings.Count(config.DefaultFile, "\n#POSTHASTE_") != len(documented) {
		t.Error("the default file names a setting in another form")
	}
}

// TestDefaultFileSetsNothing: as it stands, and with every comment taken away,
// it changes nothing.
func TestDefaultFileSetsNothing(t *testing.T) {
	setenv(t, nil)
	want, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.ReplaceAll(config.DefaultFile, "\n#POSTHASTE_", "\nPOSTHASTE_")
	for name, text := range map[string]string{"unchanged": config.DefaultFile, "with all defaults set": all} {
		got, err := parse(t, "--config", write(t, text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !equal(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	var zero config.Flags
	if got, err := zero.ParseAlone(); err != nil || !equal(got, want) {
		t.Errorf("the zero value: %+v, %v", got, err)
	}
}

func TestFileIsRead(t *testing.T) {
	setenv(t, nil)
	name := write(t, "\ufeff# a comment\r\n\r\n  POSTHASTE_LISTEN = :9000\r\nPOSTHASTE_ALLOW_NETWORKS=127.0.0.0/8, fd00::/8\n"+
		"POSTHASTE_ADMIN_KEY=\"key-with-#-and-=-1\"\nPOSTHASTE_REPLICA='a b'\nPOSTHASTE_SHUTDOWN_TIMEOUT=\nPOSTHASTE_METRICS_PUBLIC=true")
	c, err := parse(t, "--config="+name)
	if err != nil || c.Listen != ":9000" || len(c.AllowNetworks) != 2 || c.AdminKey != "key-with-#-and-=-1" || c.Replica != "a b" ||
		c.ShutdownTimeout.String() != "30s" || !c.MetricsPublic {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv("POSTHASTE_CONFIG", name)
	if c, err := parse(t); err != nil || c.Listen != ":9000" {
		t.Errorf("named by the environment: %+v, %v", c, err)
	}
	var d config.DatabaseFlags
	t.Setenv("POSTHASTE_CONFIG", write(t, "POSTHASTE_DB=other.db\nPOSTHASTE_LISTEN=nonsense\n"))
	if got, err := d.Parse(); err != nil || got.Name != "other.db" {
		t.Errorf("of the database alone: %+v, %v", got, err)
	}
}

func TestFileMistakes(t *testing.T) {
	setenv(t, nil)
	const secret = "s3cret-s3cret-s3cret"
	for text, want := range map[string]string{
		secret:                               "line 1 that is not NAME=VALUE",
		"\nPOSTHASTE_LISTN=" + secret:        "line 2 that names no setting, in FILE; did you mean POSTHASTE_LISTEN?",
		"max-payload=" + secret:              "did you mean POSTHASTE_MAX_PAYLOAD?",
		"HOME=" + secret:                     "line 1 that names no setting, in FILE",
		"POSTHASTE_CONFIG=" + secret:         "names no setting", // a file does not name another one
		"POSTHASTE_LISTEN_FILE=" + secret:    "names no setting",
		"POSTHASTE_DB=a\nPOSTHASTE_DB=b":     "line 2 that sets POSTHASTE_DB a second time",
		strings.Repeat("x", 1000) + "=1":     "names no setting",
		strings.Repeat("# long\n", 1<<20/6):  "which is no configuration",
		"POSTHASTE_ADMIN_KEY_FILE=/nowhere/": "--admin-key (POSTHASTE_ADMIN_KEY) could not be read from POSTHASTE_ADMIN_KEY_FILE",
	} {
		name := write(t, text)
		_, err := parse(t, "--config", name)
		if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, "FILE;", name+";")) &&
			!strings.Contains(err.Error(), strings.ReplaceAll(want, "in FILE", "in "+name)) || strings.Contains(err.Error(), secret) {
			t.Errorf("%.60q: %v, want %q in it", text, err, want)
		}
	}
	_, err := parse(t, "--config", write(t, "nonsense\nPOSTHASTE_SHUTDOWN_TIMEOUT=soon\nPOSTHASTE_LISTN=1"), "--listen=1")
	if err == nil || !strings.Contains(err.Error(), "has 4 mistakes") {
		t.Errorf("all at once: %v", err)
	}
	if _, err := parse(t, "--config=/nowhere/at/all"); err == nil || !strings.Contains(err.Error(), "--config (POSTHASTE_CONFIG) could not be read") {
		t.Errorf("no file: %v", err)
	}
}

// TestPrecedence sets one more source each time, the weakest first: each wins
// over all that were there before.
func TestPrecedence(t *testing.T) {
	setenv(t, nil)
	fromFile := write(t, "postgres://in-a-file/x\n")
	fromEnvFile := write(t, "postgres://env-file/x\n")
	lines, env, args := "", map[string]string{}, []string{"--master-key=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}
	for _, step := range []struct {
		name, line, env, value, flag string
		want, from                   string
		source                       config.Source
	}{
		{name: "nothing", want: "posthaste.db", source: config.FromDefault},
		{name: "stand-in in the file", line: "DATABASE_URL=1.db", want: "1.db", source: config.FromFile, from: "DATABASE_URL"},
		{name: "own name in the file", line: "POSTHASTE_DB=2.db", want: "2.db", source: config.FromFile, from: "POSTHASTE_DB"},
		{name: "stand-in in the environment", env: "DATABASE_URL", value: "3.db", want: "3.db", source: config.FromEnv, from: "DATABASE_URL"},
		{name: "a file in the environment", env: "POSTHASTE_DB_FILE", value: fromEnvFile, want: "postgres://env-file/x", source: config.FromEnv, from: "POSTHASTE_DB_FILE"},
		{name: "a flag", flag: "--db=4.db", want: "4.db", source: config.FromFlag, from: "--db"},
	} {
		lines += step.line + "\n"
		if step.env != "" {
			env[step.env] = step.value
		}
		if step.flag != "" {
			args = append(args, step.flag)
		}
		setenv(t, env)
		all := append([]string{"--config", write(t, lines)}, args...)
		c, err := parse(t, all...)
		if err != nil || c.Database.Name != step.want {
			t.Errorf("%s: %q, %v; want %q", step.name, c.Database.Name, err, step.want)
		}
		v := effective(t, all...)["db"]
		if v.Value != step.want || v.Source != step.source || v.From != step.from {
			t.Errorf("%s: %+v", step.name, v)
		}
	}
	setenv(t, nil)
	if c, err := parse(t, "--config", write(t, "POSTHASTE_DB_FILE="+fromFile+"\n"), args[0]); err != nil || c.Database.Name != "postgres://in-a-file/x" {
		t.Errorf("a file that the file names: %q, %v", c.Database.Name, err)
	}
}

// TestSetTwice: a value and a file of the same layer contradict each other; of
// different layers the stronger one wins.
func TestSetTwice(t *testing.T) {
	key := write(t, "key-from-a-file-1")
	secretFile := write(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	for name, tt := range map[string]struct {
		env     map[string]string
		file    string
		args    []string
		mistake string
		want    string
	}{
		"environment": {
			env:     map[string]string{"POSTHASTE_ADMIN_KEY": "key-of-the-env-001", "POSTHASTE_ADMIN_KEY_FILE": key},
			mistake: "--admin-key (POSTHASTE_ADMIN_KEY) is set twice: by POSTHASTE_ADMIN_KEY and by POSTHASTE_ADMIN_KEY_FILE",
		},
		"file": {
			file:    "POSTHASTE_ADMIN_KEY=key-of-the-conf-01\nPOSTHASTE_ADMIN_KEY_FILE=" + key,
			mistake: "is set twice",
		},
		"another setting": {
			env:     map[string]string{"POSTHASTE_ENDPOINT_URL": "https://example.com/", "POSTHASTE_ENDPOINT_SECRET": "x", "POSTHASTE_ENDPOINT_SECRET_FILE": secretFile},
			mistake: "--endpoint-secret (POSTHASTE_ENDPOINT_SECRET) is set twice",
		},
		"environment over file": {
			env: map[string]string{"POSTHASTE_ADMIN_KEY_FILE": key}, file: "POSTHASTE_ADMIN_KEY=key-of-the-conf-01", want: "key-from-a-file-1",
		},
		"flag over environment": {
			env: map[string]string{"POSTHASTE_ADMIN_KEY_FILE": key}, args: []string{"--admin-key=key-of-a-flag-001"}, want: "key-of-a-flag-001",
		},
		"empty is not set": {
			env: map[string]string{"POSTHASTE_ADMIN_KEY": "", "POSTHASTE_ADMIN_KEY_FILE": key}, want: "key-from-a-file-1",
		},
	} {
		setenv(t, tt.env)
		c, err := parse(t, append(tt.args, "--config", write(t, tt.file))...)
		if tt.mistake != "" {
			if err == nil || !strings.Contains(err.Error(), tt.mistake) {
				t.Errorf("%s: %v, want %q", name, err, tt.mistake)
			}
			continue
		}
		if err != nil || c.AdminKey != tt.want {
			t.Errorf("%s: %q, %v; want %q", name, c.AdminKey, err, tt.want)
		}
	}
}

func equal(a, b config.Config) bool {
	same := len(a.AllowNetworks) == len(b.AllowNetworks)
	a.AllowNetworks, b.AllowNetworks = nil, nil
	return same && a.Listen == b.Listen && a.Database.Name == b.Database.Name && a.Database.Direct == b.Database.Direct && a.Roles == b.Roles && a.AdminKey == b.AdminKey &&
		a.MasterKey == b.MasterKey && a.AllowHTTP == b.AllowHTTP && a.Endpoint == b.Endpoint && a.MaxInFlight == b.MaxInFlight &&
		a.MaxPayloadBytes == b.MaxPayloadBytes && a.Retention == b.Retention && a.DeadRetention == b.DeadRetention &&
		a.IdempotencyWindow == b.IdempotencyWindow && a.Replica == b.Replica && a.ShutdownTimeout == b.ShutdownTimeout && a.ReconcileInterval == b.ReconcileInterval &&
		a.LogFormat == b.LogFormat && a.LogLevel == b.LogLevel && a.MetricsPublic == b.MetricsPublic
}

// effective returns the effective values, whatever mistakes there are.
func effective(t *testing.T, args ...string) map[string]config.Value {
	t.Helper()
	values, _ := flags(t, args...).Effective()
	byName := map[string]config.Value{}
	for _, v := range values {
		byName[v.Setting] = v
	}
	if len(byName) != len(documented) {
		t.Errorf("%d effective values, want %d", len(byName), len(documented))
	}
	return byName
}
