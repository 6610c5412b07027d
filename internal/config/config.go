package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste/internal/deliver"
)

// Config is a configuration that has been checked. API.md's defaults are filled in.
type Config struct {
	// Listen is host:port; port 0 takes a free one. Default: 127.0.0.1:8700.
	Listen string
	// Database is where everything is kept. Default: the SQLite file posthaste.db.
	Database Database
	// Migrate is what happens at start where the database lacks migrations. Default: MigrateAuto.
	Migrate Migrate
	// Roles are what this replica does. Default: all that is built.
	Roles Roles
	// AdminKey is the operator's key. Default: "", made on first start.
	AdminKey string
	// MasterKey seals endpoint secrets. Default: "", made beside the SQLite file;
	// never empty with PostgreSQL.
	MasterKey string
	// AllowNetworks are private networks that endpoints may be in. Default: none.
	AllowNetworks []netip.Prefix
	// AllowHTTP says where endpoints may be http. Default: nowhere.
	AllowHTTP deliver.PlainHTTP
	// Endpoint is kept in the tenant default under the uid env. Default: none.
	Endpoint Endpoint
	// MaxInFlight bounds the attempts under way at once. Default: 4,096, less
	// where the limits of file descriptors or memory are low.
	MaxInFlight int
	// MaxPayloadBytes is the largest payload of an event. Default: 1 MiB.
	MaxPayloadBytes int
	// DisableAfter is how long an endpoint may fail without one success before it
	// is disabled. Default: 120h.
	DisableAfter time.Duration
	// Retention is how long history is kept. Default: 720h.
	Retention time.Duration
	// DeadRetention is how long dead letters are kept. Default: 2160h.
	DeadRetention time.Duration
	// IdempotencyWindow is how long idempotency keys are kept. Default: Retention.
	IdempotencyWindow time.Duration
	// Replica names this process, over restarts. Default: host name and port.
	Replica string
	// ShutdownTimeout is how long attempts under way may take to end after the process
	// is told to stop. Default: 30s.
	ShutdownTimeout time.Duration
	// ReconcileInterval is the time between looks at a database in which nothing is due.
	// Default: 15m.
	ReconcileInterval time.Duration
	// Outboxes are databases whose outboxes are relayed: postgres:// URLs or paths of
	// SQLite files. Default: none.
	Outboxes []string
	// OutboxPoll is the longest time between looks at an outbox that may not be empty.
	// Default: 10s.
	OutboxPoll time.Duration
	// OutboxBatch is how many rows of an outbox are relayed at once. Default: 500.
	OutboxBatch int
	// LogFormat is "text", "json", or "" for text on a terminal and JSON elsewhere.
	LogFormat string
	// LogLevel is the least level that is logged. Default: info.
	LogLevel slog.Level
	// MetricsPublic serves /metrics without a key. Default: false.
	MetricsPublic bool
}

// Database names a database.
type Database struct {
	Name    string // path of an SQLite file, or a postgres:// URL
	Direct  string // the same PostgreSQL without a pooler; "" if there is none between
	IsNamed bool   // a flag, a variable or the configuration file names it; false: the default
}

// IsPostgres reports whether it is PostgreSQL rather than SQLite.
func (d Database) IsPostgres() bool { return isPostgres(d.Name) }

// Migrate says what a starting server does with the database's schema.
type Migrate string

// The values of --migrate.
const (
	MigrateAuto  Migrate = "auto"  // run the migrations that the database lacks
	MigrateCheck Migrate = "check" // refuse to start unless it lacks none
	MigrateOff   Migrate = "off"   // don't look
)

// Roles are the parts of the work that a replica takes on.
type Roles struct {
	Accept  bool // takes events in
	Inbound bool // takes what providers send to sources
	Deliver bool // makes attempts
	Relay   bool // relays the outboxes
}

// Endpoint is an endpoint that the configuration keeps.
type Endpoint struct {
	URL    string // "" if there is none
	Secret string // "" leaves it to the server to make one
}

// Mistake is one thing that is wrong with the configuration.
type Mistake struct {
	Setting  string // the flag's name without dashes; "" for a variable that is no setting
	Variable string // the variable that the value comes from; "" for the setting's own
	What     string // to be read after the name
}

// String says which setting is wrong, and how.
func (m Mistake) String() string {
	switch {
	case m.Setting == "":
		return m.Variable + " " + m.What
	case m.Variable != "":
		return fmt.Sprintf("--%s (%s) %s", m.Setting, m.Variable, m.What)
	}
	return fmt.Sprintf("--%s (%s) %s", m.Setting, envName(m.Setting), m.What)
}

// Mistakes are all things that are wrong with a configuration.
type Mistakes []Mistake

// Error lists the mistakes, one a line.
func (m Mistakes) Error() string {
	var b strings.Builder
	b.WriteString("the configuration has ")
	if len(m) == 1 {
		b.WriteString("a mistake:")
	} else {
		fmt.Fprintf(&b, "%d mistakes:", len(m))
	}
	for _, mistake := range m {
		b.WriteString("\n  " + mistake.String())
	}
	return b.String()
}
