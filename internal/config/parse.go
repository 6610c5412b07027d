package config

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
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
	lookup   func(string) (string, bool)
	mistakes Mistakes
}

func (r *reader) wrong(name, format string, args ...any) {
	r.mistakes = append(r.mistakes, Mistake{Setting: name, What: fmt.Sprintf(format, args...)})
}

func (r *reader) isWrong(name string) bool {
	return slices.ContainsFunc(r.mistakes, func(m Mistake) bool { return m.Setting == name })
}

// Parse reads the settings, with their fallbacks from the environment. Its error
// is of type [Mistakes] and holds all that is wrong.
func (f Flags) Parse() (Config, error) {
	r := &reader{lookup: os.LookupEnv}
	c := Config{
		Listen:          r.listen(f.Listen),
		AdminKey:        r.adminKey(f.AdminKey),
		MasterKey:       r.masterKey(f.MasterKey),
		AllowNetworks:   r.networks(f.AllowNetworks),
		MaxInFlight:     r.count("max-in-flight", f.MaxInFlight, 512),
		MaxPayloadBytes: r.size("max-payload", f.MaxPayload, 1<<20),
		Retention:       r.duration("retention", f.Retention, 720*time.Hour),
		DeadRetention:   r.duration("dead-retention", f.DeadRetention, 2160*time.Hour),
		Grace:           r.duration("grace", f.Grace, 30*time.Second),
		IdleSweep:       r.duration("idle-sweep", f.IdleSweep, 15*time.Minute),
		LogFormat:       r.word("log-format", f.LogFormat, "", "text", "json"),
		LogLevel:        r.level(f.LogLevel),
		MetricsOpen:     r.word("metrics-open", string(f.MetricsOpen), "false", "false", "true") == "true",
	}
	c.IdempotencyWindow = r.duration("idempotency-window", f.IdempotencyWindow, c.Retention)
	c.Database = r.database(f.DB, f.DBDirect)
	c.AllowHTTP = r.allowHTTP(string(f.AllowHTTP), c.AllowNetworks)
	c.Replica = r.replica(f.Replica, c.Listen)
	r.related(f, c)
	r.unsupported(f)
	if len(r.mistakes) > 0 {
		return Config{}, r.mistakes
	}
	return c, nil
}

// Parse reads which database to open. Its error is of type [Mistakes].
func (f DatabaseFlags) Parse() (Database, error) {
	r := &reader{lookup: os.LookupEnv}
	d := r.database(f.DB, f.DBDirect)
	if len(r.mistakes) > 0 {
		return Database{}, r.mistakes
	}
	return d, nil
}

// related checks settings against each other.
func (r *reader) related(f Flags, c Config) {
	if c.Retention != 0 && c.Retention < MinRetention {
		r.wrong("retention", "is %s, and must be at least %s, so that no delivery under way is past it", f.Retention, hours(MinRetention))
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
func (r *reader) unsupported(f Flags) {
	const all = "accept,inbound,deliver,relay,dashboard"
	for name, isSet := range map[string]bool{
		"roles":           f.Roles != "" && f.Roles != all,
		"endpoint-url":    f.EndpointURL != "",
		"endpoint-secret": f.EndpointSecret != "",
		"outbox":          len(f.Outbox) > 0,
		"outbox-poll":     f.OutboxPoll != "",
		"outbox-batch":    f.OutboxBatch != "",
		"otlp-endpoint":   f.OTLPEndpoint != "",
	} {
		if isSet {
			r.wrong(name, "is not supported yet")
		}
	}
	slices.SortStableFunc(r.mistakes, func(a, b Mistake) int { return strings.Compare(a.Setting, b.Setting) })
}

// secret returns the value of a setting that may also be in a file, named by the
// environment variable with _FILE at its end.
func (r *reader) secret(name, value string) string {
	env := envName(name)
	file, isFile := r.lookup(env + "_FILE")
	if !isFile || file == "" {
		return value
	}
	if inEnv, _ := r.lookup(env); inEnv != "" {
		r.wrong(name, "is set twice: by %s and by %s_FILE", env, env)
		return value
	}
	if value != "" {
		return value // the flag wins over the environment
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		r.wrong(name, "could not be read from %s_FILE: %v", env, err)
		return ""
	}
	value = strings.TrimSpace(string(raw))
	if value == "" {
		r.wrong(name, "is empty in the file that %s_FILE names", env)
	}
	return value
}

func (r *reader) adminKey(value string) string {
	key := r.secret("admin-key", value)
	if key == "" {
		return ""
	}
	if err := auth.CheckKey(key); err != nil {
		r.wrong("admin-key", "cannot be used: %v; make one with: openssl rand -hex 24", err)
	}
	return key
}

func (r *reader) masterKey(value string) string {
	key := r.secret("master-key", value)
	if key == "" {
		return ""
	}
	if _, err := keyring.New(key); err != nil {
		r.wrong("master-key", "cannot be used: %v; make one with: openssl rand -base64 32", err)
	}
	return key
}

func (r *reader) database(value, direct string) Database {
	d := Database{Direct: r.secret("db-direct", direct)}
	switch d.Name = r.secret("db", value); {
	case d.Name != "":
	default:
		if d.Name, _ = r.lookup("DATABASE_URL"); d.Name == "" {
			d.Name = "posthaste.db"
		}
	}
	if strings.Contains(d.Name, "://") || strings.HasPrefix(d.Name, "file:") {
		r.postgresURL("db", d.Name)
	}
	if d.Direct != "" {
		if !d.IsPostgres() {
			r.wrong("db-direct", "is for PostgreSQL only, and --db names an SQLite file")
		}
		r.postgresURL("db-direct", d.Direct)
	}
	return d
}

// postgresURL never quotes the URL: it may hold a password.
func (r *reader) postgresURL(name, value string) {
	u, err := url.Parse(value)
	switch {
	case err != nil:
		r.wrong(name, "is not a URL that can be read; escape special characters of the password as %%XX")
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		r.wrong(name, "has the scheme %q; want postgres://…, or the path of an SQLite file", u.Scheme)
	}
}

func (r *reader) listen(value string) string {
	if value == "" {
		if port, _ := r.lookup("PORT"); port != "" {
			value = ":" + port // platforms that set PORT connect from outside
		} else {
			value = "127.0.0.1:8700"
		}
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

func (r *reader) networks(values []string) []netip.Prefix {
	var out []netip.Prefix
	for _, value := range values {
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

func (r *reader) allowHTTP(value string, networks []netip.Prefix) deliver.PlainHTTP {
	switch r.word("allow-http", value, "false", "false", "true", "networks", "all") {
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

func (r *reader) word(name, value, unset string, words ...string) string {
	if value == "" {
		return unset
	}
	if !slices.Contains(words, value) {
		r.wrong(name, "is %q; want one of %s", value, strings.Join(words, ", "))
	}
	return value
}

func (r *reader) level(value string) slog.Level {
	switch r.word("log-level", value, "info", "debug", "info", "warn", "error") {
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

func (r *reader) count(name, value string, unset int) int {
	if value == "" {
		return unset
	}
	const most = 1 << 16 // each is a goroutine, a connection and a payload in memory
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		r.wrong(name, "is %q; want a whole number from 1 to %d", value, most)
	}
	return n
}

// duration returns 0 for a value that cannot be read, so that checks against
// other settings can leave it out.
func (r *reader) duration(name, value string, unset time.Duration) time.Duration {
	if value == "" {
		return unset
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		r.wrong(name, `is %q; want a duration above zero, such as "30s", "15m" or "720h"`, value)
		return 0
	}
	return d
}

// size reads a number of bytes, with KiB, MiB or GiB (or kB, MB, GB) behind it.
func (r *reader) size(name, value string, unset int) int {
	if value == "" {
		return unset
	}
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
func (r *reader) replica(value, listen string) string {
	const most = 128
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

func envName(setting string) string {
	return "POSTHASTE_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

func hours(d time.Duration) string { return strconv.FormatInt(int64(d/time.Hour), 10) + "h" }
