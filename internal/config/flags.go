// Package config reads the configuration of a server: flags, environment
// variables and files of secrets. It reports all mistakes at once, since a
// server that is set up by a deployment shows each one only after a roll-out.
package config

// Flags are the settings as they were written, in the form that kong fills from
// flags and the environment. The zero value stands for the defaults.
//
// All are text, also numbers and durations: kong stops at the first value that it
// cannot read, while [Flags.Parse] reads all of them and reports all mistakes.
//
//nolint:lll // one setting a line: the table of the reference is read from it
type Flags struct {
	Listen   string `name:"listen" env:"POSTHASTE_LISTEN" placeholder:"HOST:PORT" help:"Address to listen on; the environment's PORT stands in for it. Default: 127.0.0.1:8700."`
	DB       string `name:"db" env:"POSTHASTE_DB" placeholder:"FILE|URL" help:"SQLite file or postgres:// URL; the environment's DATABASE_URL stands in for it. Default: posthaste.db."`
	DBDirect string `name:"db-direct" env:"POSTHASTE_DB_DIRECT" placeholder:"URL" help:"PostgreSQL without the transaction pooler that --db goes through, for LISTEN and locks. Default: same as --db."`

	AdminKey  string `name:"admin-key" env:"POSTHASTE_ADMIN_KEY" placeholder:"KEY" help:"Key of the operator, at least 16 bytes. Default: made on first start and printed once; with SQLite kept in a file beside it."`
	MasterKey string `name:"master-key" env:"POSTHASTE_MASTER_KEY" placeholder:"KEY" help:"Key that seals endpoint secrets: base64 of 32 bytes. Default: made on first start beside the SQLite file; required with PostgreSQL."`

	AllowNetworks []string `name:"allow-networks" env:"POSTHASTE_ALLOW_NETWORKS" placeholder:"CIDR" help:"Private networks that endpoints may be in, such as 127.0.0.0/8. Default: none."`
	AllowHTTP     Choice   `name:"allow-http" env:"POSTHASTE_ALLOW_HTTP" placeholder:"networks|all" help:"Allow http: besides https:, in the --allow-networks (networks, true) or everywhere (all). Default: false."`

	MaxInFlight string `name:"max-in-flight" env:"POSTHASTE_MAX_IN_FLIGHT" placeholder:"N" help:"Attempts under way at once in this replica. Default: 512."`
	MaxPayload  string `name:"max-payload" env:"POSTHASTE_MAX_PAYLOAD" placeholder:"SIZE" help:"Largest payload of an event. Default: 1MiB."`

	Retention         string `name:"retention" env:"POSTHASTE_RETENTION" placeholder:"DURATION" help:"How long history is kept, at least 192h. Default: 720h."`
	DeadRetention     string `name:"dead-retention" env:"POSTHASTE_DEAD_RETENTION" placeholder:"DURATION" help:"How long dead letters are kept. Default: 2160h."`
	IdempotencyWindow string `name:"idempotency-window" env:"POSTHASTE_IDEMPOTENCY_WINDOW" placeholder:"DURATION" help:"How long idempotency keys are kept. Default: same as --retention."`

	Replica   string `name:"replica" env:"POSTHASTE_REPLICA" placeholder:"NAME" help:"Name of this replica, kept over restarts. Default: host name and port."`
	Grace     string `name:"grace" env:"POSTHASTE_GRACE" placeholder:"DURATION" help:"Time for what is under way at SIGTERM. Default: 30s."`
	IdleSweep string `name:"idle-sweep" env:"POSTHASTE_IDLE_SWEEP" placeholder:"DURATION" help:"Time between looks at a database in which nothing is due. Default: 15m."`

	LogFormat   string `name:"log-format" env:"POSTHASTE_LOG_FORMAT" placeholder:"text|json" help:"Default: text on a terminal, JSON elsewhere."`
	LogLevel    string `name:"log-level" env:"POSTHASTE_LOG_LEVEL" placeholder:"LEVEL" help:"debug, info, warn or error. Default: info."`
	MetricsOpen Choice `name:"metrics-open" env:"POSTHASTE_METRICS_OPEN" placeholder:"true" help:"Serve /metrics without a key. Default: false."`

	// Settings of parts that are not built yet. They are read so that one who sets
	// them learns it, rather than that nothing happens.
	Roles          string   `name:"roles" env:"POSTHASTE_ROLES" hidden:""`
	EndpointURL    string   `name:"endpoint-url" env:"POSTHASTE_ENDPOINT_URL" hidden:""`
	EndpointSecret string   `name:"endpoint-secret" env:"POSTHASTE_ENDPOINT_SECRET" hidden:""`
	Outbox         []string `name:"outbox" env:"POSTHASTE_OUTBOX" hidden:""`
	OutboxPoll     string   `name:"outbox-poll" env:"POSTHASTE_OUTBOX_POLL" hidden:""`
	OutboxBatch    string   `name:"outbox-batch" env:"POSTHASTE_OUTBOX_BATCH" hidden:""`
	OTLPEndpoint   string   `name:"otlp-endpoint" env:"POSTHASTE_OTLP_ENDPOINT" hidden:""`
}

// DatabaseFlags are the settings of commands that open the database themselves.
//
//nolint:lll // as above
type DatabaseFlags struct {
	DB       string `name:"db" env:"POSTHASTE_DB" placeholder:"FILE|URL" help:"SQLite file or postgres:// URL; the environment's DATABASE_URL stands in for it. Default: posthaste.db."`
	DBDirect string `name:"db-direct" env:"POSTHASTE_DB_DIRECT" placeholder:"URL" help:"PostgreSQL without the transaction pooler that --db goes through. Default: same as --db."`
}
