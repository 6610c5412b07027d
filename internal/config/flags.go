// Package config reads the configuration of a server: flags, environment
// variables, a configuration file, and files of secrets. It reports all mistakes
// at once, since a server that is set up by a deployment shows each one only
// after a roll-out.
package config

import (
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// Flags are the settings as they were written on the command line, in the form
// that kong fills. The zero value stands for a command line without any.
//
// All are text, also numbers and durations: kong stops at the first value that it
// cannot read, while [Flags.Parse] reads all of them and reports all mistakes.
// For the same reason kong is not told of the environment: Parse asks it, and the
// configuration file, for what no flag gives, and knows where each value is from.
//
//nolint:lll // one setting a line
type Flags struct {
	Config string `name:"config" setting:"" placeholder:"FILE" help:"File with further settings, as \"posthaste config default\" prints one; flags and the environment win. Default: none."`

	Listen   string `name:"listen" setting:"" placeholder:"HOST:PORT" help:"Address to listen on; the environment's PORT stands in for it. Default: 127.0.0.1:8700."`
	DB       string `name:"db" setting:"" placeholder:"FILE|URL" help:"SQLite file or postgres:// URL; the environment's DATABASE_URL stands in for it. Default: posthaste.db."`
	DBDirect string `name:"db-direct" setting:"" placeholder:"URL" help:"PostgreSQL without the transaction pooler that --db goes through, for LISTEN and locks. Default: same as --db."`
	Migrate  string `name:"migrate" setting:"" placeholder:"auto|check|off" help:"What to do at start where the database lacks migrations: auto runs them, check refuses to start, off does not look. Default: auto."`
	Roles    string `name:"roles" setting:"" placeholder:"ROLE,…" help:"What this replica does: accept, inbound, deliver, relay, dashboard. Without deliver what is accepted waits for a replica that delivers. Default: all."`

	AdminKey  string `name:"admin-key" setting:"" placeholder:"KEY" help:"Key of the operator, at least 16 bytes. Default: made on first start and printed once; with SQLite kept in a file beside it."`
	MasterKey string `name:"master-key" setting:"" placeholder:"KEY" help:"Key that seals endpoint secrets: base64 of 32 bytes. Default: made on first start beside the SQLite file; required with PostgreSQL."`

	AllowNetworks []string `name:"allow-networks" setting:"" placeholder:"CIDR" help:"Private networks that endpoints may be in, such as 127.0.0.0/8. Default: none."`
	AllowHTTP     Choice   `name:"allow-http" setting:"" placeholder:"networks|all" help:"Allow http: besides https:, in the --allow-networks (networks, true) or everywhere (all). Default: false."`

	EndpointURL    string `name:"endpoint-url" setting:"" placeholder:"URL" help:"Keep an endpoint with the uid env in the tenant default, for a set-up without an API call. Default: none."`
	EndpointSecret string `name:"endpoint-secret" setting:"" placeholder:"whsec_…" help:"Signing secret of that endpoint. Default: made by the server."`

	MaxInFlight  string `name:"max-in-flight" setting:"" placeholder:"N" help:"Attempts under way at once in this replica. Less where the limits of open files or memory are low. Default: 4096."`
	DisableAfter string `name:"disable-after" setting:"" placeholder:"DURATION" help:"How long an endpoint may fail without one success before it is disabled. Default: 120h."`
	MaxPayload   string `name:"max-payload" setting:"" placeholder:"SIZE" help:"Largest payload of an event. Default: 1MiB."`

	Retention         string `name:"retention" setting:"" placeholder:"DURATION" help:"How long history is kept, at least 192h. Default: 720h."`
	DeadRetention     string `name:"dead-retention" setting:"" placeholder:"DURATION" help:"How long dead letters are kept. Default: 2160h."`
	IdempotencyWindow string `name:"idempotency-window" setting:"" placeholder:"DURATION" help:"How long idempotency keys are kept. Default: same as --retention."`

	Replica           string `name:"replica" setting:"" placeholder:"NAME" help:"Name of this replica, kept over restarts. Default: host name and port."`
	ShutdownTimeout   string `name:"shutdown-timeout" setting:"" placeholder:"DURATION" help:"How long attempts under way may take to end after SIGTERM. Default: 30s."`
	ReconcileInterval string `name:"reconcile-interval" setting:"" placeholder:"DURATION" help:"Time between looks at a database in which nothing is due. Default: 15m."`

	Outbox      []string `name:"outbox" setting:"" sep:"none" placeholder:"URL|FILE" help:"Database of an application whose outbox is relayed: postgres:// URL without a pooler, or SQLite file. May be repeated. Default: none."`
	OutboxPoll  string   `name:"outbox-poll" setting:"" placeholder:"DURATION" help:"Longest time between looks at an outbox that may not be empty. Default: 10s."`
	OutboxBatch string   `name:"outbox-batch" setting:"" placeholder:"N" help:"Rows of an outbox that are relayed at once. Default: 500."`

	LogFormat     string `name:"log-format" setting:"" placeholder:"text|json" help:"Default: text on a terminal, JSON elsewhere."`
	LogLevel      string `name:"log-level" setting:"" placeholder:"debug|info|warn|error" help:"Least level that is logged. Default: info."`
	MetricsPublic Choice `name:"metrics-public" setting:"" placeholder:"true" help:"Serve /metrics without a key. Default: false."`

	// Settings of parts that are not built yet. They are read so that one who sets
	// them learns it, rather than that nothing happens.
	OTLPEndpoint string `name:"otlp-endpoint" setting:"" hidden:""`
}

// DatabaseFlags are the settings of commands that open the database themselves.
//
//nolint:lll // as above
type DatabaseFlags struct {
	Config   string `name:"config" setting:"" placeholder:"FILE" help:"File with further settings, of which those of the database are used. Default: none."`
	DB       string `name:"db" setting:"" placeholder:"FILE|URL" help:"SQLite file or postgres:// URL; the environment's DATABASE_URL stands in for it. Default: posthaste.db."`
	DBDirect string `name:"db-direct" setting:"" placeholder:"URL" help:"PostgreSQL without the transaction pooler that --db goes through. Default: same as --db."`
}

// Help is a kong.HelpValueFormatter: it names the environment variable of each
// setting behind its help, as kong does for the variables that it reads itself.
func Help(value *kong.Value) string {
	if !value.Tag.Has("setting") {
		return kong.DefaultHelpValueFormatter(value)
	}
	help, hasStop := strings.CutSuffix(value.Help, ".")
	help += " ($" + envName(value.Name) + ")"
	if hasStop {
		help += "."
	}
	return help
}

// given returns the settings that flags, a [Flags] or [DatabaseFlags], hold, by name.
func given(flags any) map[string]string {
	texts := map[string]string{}
	v := reflect.ValueOf(flags)
	for i := range v.NumField() {
		var text string
		switch field := v.Field(i).Interface().(type) {
		case string:
			text = field
		case Choice:
			text = string(field)
		case []string:
			separator := ","
			if v.Type().Field(i).Tag.Get("sep") == "none" {
				separator = listSeparator
			}
			text = strings.Join(field, separator)
		}
		if text != "" {
			texts[v.Type().Field(i).Tag.Get("name")] = text
		}
	}
	return texts
}
