package config

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste/internal/auth"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/keyring"
)

// MinRetention is the least that --retention may be: the longest deadline that
// an endpoint can have (a week) and a day.
const MinRetention = 192 * time.Hour

// reader reads settings and collects what is wrong with them.
type reader struct {
	flags    map[string]string // what the command line gives, by setting
	layers   []layer           // where the rest is looked up, the first wins
	values   map[string]Value
	mistakes Mistakes
}

// newReader resolves the settings. It asks the environment and the configuration
// file if lookup is not nil.
func newReader(flags map[string]string, lookup func(string) (string, bool), settings []Setting) *reader {
	r := &reader{flags: flags, values: map[string]Value{}}
	if lookup != nil {
		r.layers = []layer{{FromEnv, lookup}}
		r.useFile()
		for _, v := range UnknownVariables(os.Environ()) {
			r.mistakes = append(r.mistakes, Mistake{Variable: v.Name, What: "is not a setting" + DidYouMean(v.Nearest)})
		}
	}
	r.resolve(settings)
	r.quoted(settings)
	return r
}

// quoted refuses values in quotes: docker's --env-file and Kubernetes leave them on.
func (r *reader) quoted(settings []Setting) {
	for _, s := range settings {
		v := r.values[s.Name]
		if v.text != unquote(v.text) {
			r.wrong(s.Name, "is in quotes, which are part of the value; leave them out")
			v.text = unquote(v.text)
			r.values[s.Name] = v
		}
	}
}

func (r *reader) wrong(name, format string, args ...any) {
	m := Mistake{Setting: name, What: fmt.Sprintf(format, args...)}
	if v := r.values[name]; v.Source == FromEnv || v.Source == FromFile {
		m.Variable = v.From
	}
	r.mistakes = append(r.mistakes, m)
}

func (r *reader) isWrong(name string) bool {
	return slices.ContainsFunc(r.mistakes, func(m Mistake) bool { return m.Setting == name })
}

// text returns the value of a setting as it was written, or its default.
func (r *reader) text(name string) string { return r.values[name].text }

// Parse reads the settings: what no flag gives comes from the environment, else
// from the configuration file, else it is the default. Its error is of type
// [Mistakes] and holds all that is wrong.
func (f Flags) Parse() (Config, error) {
	c, r := f.read(os.LookupEnv)
	if len(r.mistakes) > 0 {
		return Config{}, r.mistakes
	}
	return c, nil
}

// ParseAlone reads the flags without environment and file, for a command that
// sets a server up itself.
func (f Flags) ParseAlone() (Config, error) {
	c, r := f.read(nil)
	if len(r.mistakes) > 0 {
		return Config{}, r.mistakes
	}
	return c, nil
}

func (f Flags) read(lookup func(string) (string, bool)) (Config, *reader) {
	r := newReader(given(f), lookup, Settings())
	c := Config{
		Listen:            r.listen(),
		Migrate:           Migrate(r.word("migrate", string(MigrateAuto), string(MigrateCheck), string(MigrateOff))),
		Roles:             r.roles(),
		AdminKey:          r.adminKey(),
		MasterKey:         r.masterKey(),
		AllowNetworks:     r.networks(),
		MaxInFlight:       r.count("max-in-flight"),
		MaxPayloadBytes:   r.size("max-payload"),
		DisableAfter:      r.duration("disable-after"),
		Retention:         r.duration("retention"),
		DeadRetention:     r.duration("dead-retention"),
		ShutdownTimeout:   r.duration("shutdown-timeout"),
		ReconcileInterval: r.duration("reconcile-interval"),
		OutboxPoll:        r.duration("outbox-poll"),
		OutboxBatch:       r.count("outbox-batch"),
		LogFormat:         r.word("log-format", "text", "json"),
		LogLevel:          r.level(),
		MetricsPublic:     r.word("metrics-public", "false", "true") == "true",
	}
	c.IdempotencyWindow = c.Retention
	if r.text("idempotency-window") != "" {
		c.IdempotencyWindow = r.duration("idempotency-window")
	}
	c.Database = r.database()
	c.AllowHTTP = r.allowHTTP(c.AllowNetworks)
	c.Replica = r.replica(c.Listen)
	c.Endpoint = r.endpoint(c)
	c.Outboxes = r.outboxes(c)
	r.related(c)
	r.unsupported()
	slices.SortStableFunc(r.mistakes, func(a, b Mistake) int { return strings.Compare(a.Setting, b.Setting) })
	return c, r
}

// Parse reads which database to open, from the same places. Its error is of type
// [Mistakes].
func (f DatabaseFlags) Parse() (Database, error) {
	settings := slices.DeleteFunc(Settings(), func(s Setting) bool { return s.Name != "db" && s.Name != "db-direct" })
	r := newReader(given(f), os.LookupEnv, settings)
	d := r.database()
	if len(r.mistakes) > 0 {
		return Database{}, r.mistakes
	}
	return d, nil
}

// related checks settings against each other.
func (r *reader) related(c Config) {
	if c.Retention != 0 && c.Retention < MinRetention {
		r.wrong("retention", "is %s, and must be at least %s, so that no delivery under way is past it", r.text("retention"), hours(MinRetention))
	}
	if c.DeadRetention != 0 && c.DeadRetention < c.Retention {
		r.wrong("dead-retention", "is shorter than --retention (%s): dead letters are kept at least as long as other history", hours(c.Retention))
	}
	if c.IdempotencyWindow > c.Retention && c.Retention != 0 {
		r.wrong("idempotency-window", "is longer than --retention (%s): a key cannot outlive its event", hours(c.Retention))
	}
	if c.Database.IsPostgres() && c.MasterKey == "" && !r.isWrong("master-key") {
		r.wrong("master-key", "is required with PostgreSQL, the same one for every replica; make one with: openssl rand -base64 32")
	}
}

// unsupported refuses the settings of what is not built yet.
func (r *reader) unsupported() {
	later := []string{"otlp-endpoint"}
	for _, s := range Settings() {
		if slices.Contains(later, s.Name) && r.text(s.Name) != s.Default {
			r.wrong(s.Name, "is not supported yet")
		}
	}
}

func (r *reader) adminKey() string {
	key := r.text("admin-key")
	if key == "" {
		return ""
	}
	if err := auth.CheckKey(key); err != nil {
		r.wrong("admin-key", "cannot be used: %v; make one with: openssl rand -hex 24", err)
	}
	return key
}

func (r *reader) masterKey() string {
	key := r.text("master-key")
	if key == "" {
		return ""
	}
	if _, err := keyring.New(key); err != nil {
		r.wrong("master-key", "cannot be used: %v; make one with: openssl rand -base64 32", err)
	}
	return key
}

func (r *reader) database() Database {
	d := Database{Name: r.text("db"), Direct: r.text("db-direct"), IsNamed: r.values["db"].Source != FromDefault}
	r.checkDatabase("db", d.Name)
	switch {
	case d.Direct == "":
	case !isPostgres(d.Direct):
		r.wrong("db-direct", "is not a postgres:// URL; want "+wantURL)
	case !d.IsPostgres() && !r.isWrong("db"):
		r.wrong("db-direct", "is for PostgreSQL only, and --db names an SQLite file")
	default:
		r.checkDatabase("db-direct", d.Direct)
	}
	return d
}

// checkDatabase reports a mistake in the name of a database, and whether there is none.
func (r *reader) checkDatabase(name, value string) bool {
	err := CheckDatabase(value)
	if err != nil {
		r.wrong(name, "%s", err)
	}
	return err == nil
}

func (r *reader) listen() string {
	value := r.text("listen")
	if r.values["listen"].From == "PORT" {
		value = ":" + value // platforms that set PORT connect from outside
	}
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		r.wrong("listen", "is %q; want host:port, such as 127.0.0.1:8700 or :8700", value)
		return ""
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		r.wrong("listen", "has the port %q; want a number up to 65535", port)
		return ""
	}
	return value
}

func (r *reader) networks() []netip.Prefix {
	var out []netip.Prefix
	for value := range strings.SplitSeq(r.text("allow-networks"), ",") {
		value = strings.TrimSpace(value)
		if value == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(value)
		switch {
		case err != nil:
			r.wrong("allow-networks", "holds %q; want networks such as 127.0.0.0/8 or fd00::/8", value)
		case prefix != prefix.Masked():
			r.wrong("allow-networks", "holds %q, which has bits beyond its mask; write %s", value, prefix.Masked())
		default:
			out = append(out, prefix)
		}
	}
	return out
}

func (r *reader) allowHTTP(networks []netip.Prefix) deliver.PlainHTTP {
	switch r.word("allow-http", "false", "true", "networks", "all") {
	case "true", "networks":
		if len(networks) == 0 {
			r.wrong("allow-http", "holds for the --allow-networks only, and there are none; name them, or set it to all")
		}
		return deliver.HTTPNetworks
	case "all":
		return deliver.HTTPEverywhere
	}
	return deliver.HTTPNowhere
}

func (r *reader) word(name string, words ...string) string {
	value := r.text(name)
	if value != "" && !slices.Contains(words, value) {
		r.wrong(name, "is %q; want one of %s", value, strings.Join(words, ", "))
	}
	return value
}

func (r *reader) level() slog.Level {
	switch r.word("log-level", "debug", "info", "warn", "error") {
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

func (r *reader) count(name string) int {
	const most = 1 << 16 // each is a goroutine, a connection and a payload in memory
	value := r.text(name)
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		r.wrong(name, "is %q; want a whole number from 1 to %d", value, most)
	}
	return n
}

// duration returns 0 for a value that cannot be read, so that checks against
// other settings can leave it out.
func (r *reader) duration(name string) time.Duration {
	value := r.text(name)
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		r.wrong(name, `is %q; want a duration above zero, such as "30s", "15m" or "720h"`, value)
		return 0
	}
	return d
}

// size reads a number of bytes, with KiB, MiB or GiB (or kB, MB, GB) behind it.
func (r *reader) size(name string) int {
	value := r.text(name)
	number := strings.TrimRight(value, "kKMGiB ")
	n, err := strconv.ParseInt(number, 10, 64)
	unit, known := map[string]int64{
		"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9,
	}[strings.TrimSpace(value[len(number):])]
	const most = 64 << 20 // a payload is held in memory, some times over
	if err != nil || !known || n < 1 || n > math.MaxInt64/unit || n*unit > most {
		r.wrong(name, "is %q; want a size such as 256KiB or 1MiB, 64MiB at most", value)
		return 0
	}
	return int(n * unit)
}

// replica names a process by where it listens, so that a restart comes back
// under its old name and takes its own work over.
func (r *reader) replica(listen string) string {
	const most = 128
	value := r.text("replica")
	if value != "" {
		if len(value) > most || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			r.wrong("replica", "is longer than %d bytes or has a control character", most)
		}
		return value
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	_, port, _ := net.SplitHostPort(listen) // reported by listen
	return host + ":" + port
}

func hours(d time.Duration) string { return strconv.FormatInt(int64(d/time.Hour), 10) + "h" }
