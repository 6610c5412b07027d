// Package engine embeds the whole of Posthaste in a Go program: it accepts
// events, delivers them, and serves the HTTP API.
//
//	db, err := sqlite.Open(ctx, sqlite.Config{Path: "posthaste.db"})
//	…
//	if err := db.Migrate(ctx); err != nil {
//		return err
//	}
//	e, err := engine.New(ctx, engine.Config{Store: db, MasterKey: os.Getenv("POSTHASTE_MASTER_KEY")})
//	…
//	go http.ListenAndServe("127.0.0.1:8700", e.HTTPHandler())
//	return e.Run(ctx) // until ctx ends
//
// The database stays the caller's: close it after Run has returned.
package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste/internal/auth"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/httpapi"
	"github.com/posthaste-dev/posthaste/internal/inhttp"
	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/relay"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/stream"
	"github.com/posthaste-dev/posthaste/internal/telemetry"
)

// PlainHTTP says where endpoints may be http rather than https.
type PlainHTTP = deliver.PlainHTTP

// Where plain http is allowed.
const (
	HTTPNowhere    = deliver.HTTPNowhere
	HTTPNetworks   = deliver.HTTPNetworks   // to addresses in AllowNetworks only
	HTTPEverywhere = deliver.HTTPEverywhere // to every address that https may be used to
)

// Roles are the parts of the work that replicas on one PostgreSQL may share out. A
// replica that does not accept answers events with 503, one without Inbound what
// providers send; one that does not deliver leaves what it takes to those that do;
// one that does not relay leaves the Outboxes alone.
type Roles = pipeline.Roles

// Config is what an engine is made of. Store and MasterKey are required.
type Config struct {
	// Store is the database, opened by sqlite.Open or postgres.Open, and migrated.
	Store store.Store

	// MasterKey seals the secrets of endpoints: the base64 of 32 random bytes, the
	// same one for every replica, and for as long as the database lives.
	MasterKey string

	// AdminKey is the operator's key for the HTTP API, 16 bytes at least.
	// Default: one made on the first start on this database, of which the database
	// keeps the hash; see [Engine.MadeAdminKey].
	AdminKey string

	// Roles are what this replica does. Default: everything.
	Roles Roles

	// AllowNetworks are private networks that endpoints may be in. Default: none;
	// deliveries to addresses that are not public are refused.
	AllowNetworks []netip.Prefix

	// AllowHTTP says where endpoints may be http. Default: nowhere.
	AllowHTTP PlainHTTP

	// Endpoint is kept under the uid [EndpointUID]: made by New, and brought up to
	// date by a later one. Default: none.
	Endpoint Endpoint

	// Outboxes are databases of applications whose outboxes are relayed: postgres:// URLs,
	// or paths of SQLite files. Default: none.
	Outboxes []string

	// OutboxPoll is the longest time between looks at an outbox in which there may be
	// something that nobody tells of. Default: 10s.
	OutboxPoll time.Duration

	// OutboxBatch is how many rows of an outbox are relayed at once. Default: 500.
	OutboxBatch int

	// MaxInFlight is the number of attempts under way at once. Default: 4,096, less
	// where the limits of file descriptors or memory are low.
	MaxInFlight int

	// MaxPayloadBytes bounds the payload of an event. Default: 1 MiB.
	MaxPayloadBytes int

	// Retention is how long events, deliveries and attempts are kept. Default: 720h.
	Retention time.Duration

	// DeadRetention is how long dead letters are kept. Default: 2160h.
	DeadRetention time.Duration

	// IdempotencyWindow is how long idempotency keys are kept. Default: Retention.
	IdempotencyWindow time.Duration

	// DisableAfter is how long an endpoint may fail without one success before it is
	// disabled; where it was not attempted for half of that, the time begins anew.
	// Default: 120h.
	DisableAfter time.Duration

	// Replica names this process among those on the same database, and in the
	// records of attempts. Default: the host name and the process id.
	Replica string

	// ShutdownTimeout is how long attempts under way may take to end once Run's context
	// has ended. Run returns at most 6s later: outcomes are recorded in that time.
	// Default: 30s.
	ShutdownTimeout time.Duration

	// ReconcileInterval is the time between looks at a database in which nothing is due.
	// Default: 15m.
	ReconcileInterval time.Duration

	// MetricsPublic serves /metrics without a key. Default: false.
	MetricsPublic bool

	// Log takes a line for each event accepted and each attempt. Default: slog.Default().
	Log *slog.Logger

	// Version is the program's, shown to receivers as User-Agent Posthaste/Version
	// and by the API. Default: "dev".
	Version string
}

// The settings that an engine keeps in its database.
const (
	SettingMasterKeyID = "master_key_id"        // names the key that the secrets are sealed with
	settingAdminKey    = "admin_key_sha256_hex" // of the key that was made on the first start
)

// maxPayloadDefault is 1 MiB, as the HTTP API has it.
const maxPayloadDefault = 1 << 20

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.Default() //nolint:forbidigo // the default, as documented, of a program that embeds the engine
	}
	if c.MaxPayloadBytes <= 0 {
		c.MaxPayloadBytes = maxPayloadDefault
	}
	if c.ShutdownTimeout <= 0 {
		c.ShutdownTimeout = 30 * time.Second
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Replica == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "localhost"
		}
		c.Replica = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	return c
}

// Engine is a whole Posthaste. Make it with [New], start it with [Engine.Run].
// Its methods are safe for concurrent use.
type Engine struct {
	config       Config
	pipeline     *pipeline.Pipeline
	sender       *deliver.Sender
	stream       *stream.Stream
	handler      http.Handler // the API
	sources      http.Handler // what providers send
	relays       []*relay.Relay
	madeAdminKey string

	mu       sync.Mutex
	handlers []Handler
	started  bool // no handler can be added any more
}

// New makes an engine. It reads and keeps settings in the database, so the
// database has to be there; it fails with a master key that is not the one which
// the secrets in the database are sealed with.
func New(ctx context.Context, config Config) (*Engine, error) {
	if config.Store == nil {
		return nil, errors.New("make an engine: Store is required")
	}
	config = config.withDefaults()
	ring, err := keyring.New(config.MasterKey)
	if err != nil {
		return nil, fmt.Errorf("make an engine: %w", err)
	}
	if err := checkMasterKey(ctx, config.Store, ring); err != nil {
		return nil, err
	}
	e := &Engine{config: config}
	e.sender = deliver.New(deliver.Config{
		AllowNetworks: config.AllowNetworks, AllowHTTP: config.AllowHTTP, UserAgent: "Posthaste/" + config.Version,
		MaxIdleConnsPerHost: config.MaxInFlight,
	})
	metrics := telemetry.NewMetrics()
	e.stream = stream.New(stream.Config{Store: config.Store, Log: config.Log})
	e.pipeline, err = pipeline.New(pipeline.Config{
		Store: e.stream.Watch(config.Store), Sender: e.sender, Keyring: ring, Replica: config.Replica, Roles: config.Roles,
		Log: config.Log, Metrics: metrics, MaxInFlight: config.MaxInFlight,
		Grace: config.ShutdownTimeout, IdleSweep: config.ReconcileInterval,
		Retention: config.Retention, DeadRetention: config.DeadRetention, DisableAfter: config.DisableAfter, IdempotencyWindow: config.IdempotencyWindow,
	})
	if err != nil {
		return nil, err
	}
	if e.relays, err = e.newRelays(metrics); err != nil {
		return nil, err
	}
	if err := e.keepEndpoint(ctx); err != nil {
		return nil, fmt.Errorf("keep the endpoint of the configuration: %w", err)
	}
	// Last of what may fail: a key that was made is shown once.
	admin, err := e.adminKey(ctx)
	if err != nil {
		return nil, err
	}
	e.handler, err = httpapi.New(httpapi.Config{
		Pipeline: e.pipeline, Stream: e.stream, Auth: auth.New(admin), Metrics: metrics, MetricsPublic: config.MetricsPublic,
		Log: config.Log, Version: config.Version, MaxPayloadBytes: config.MaxPayloadBytes,
		AllowNetworks: config.AllowNetworks, AllowHTTP: config.AllowHTTP, Retention: config.Retention, Ready: e.Ready,
	})
	if err != nil {
		return nil, err
	}
	e.sources, err = inhttp.New(inhttp.Config{Pipeline: e.pipeline, Metrics: metrics, Log: config.Log, Expanders: expanders()})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// checkMasterKey keeps the id of the first master key that a database is used
// with, and refuses any other: it could open no secret that is there, and
// deliveries would fail one by one instead.
func checkMasterKey(ctx context.Context, db store.Store, ring *keyring.Keyring) error {
	kept, err := db.KeepSetting(ctx, SettingMasterKeyID, []byte(ring.KeyID()))
	if err != nil && (!errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrSystemic)) { // the first statement of all: it finds no table where Migrate was forgotten
		return fmt.Errorf("check the master key: read the database, which has to be migrated first: %w", err)
	}
	if err != nil {
		return fmt.Errorf("check the master key: %w", err)
	}
	if string(kept) != ring.KeyID() {
		return fmt.Errorf("check the master key: the secrets in this database are sealed with the key %s, and the one given is %s",
			kept, ring.KeyID())
	}
	return nil
}

// adminKey returns the hash of the admin key. Of several replicas that start for
// the first time together, the database lets one make it.
func (e *Engine) adminKey(ctx context.Context) (auth.Hash, error) {
	if key := e.config.AdminKey; key != "" {
		if err := auth.CheckKey(key); err != nil {
			return auth.Hash{}, fmt.Errorf("make an engine: the admin key: %w", err)
		}
		return auth.HashKey(key), nil
	}
	made := auth.NewKey()
	mine := auth.HashKey(made)
	kept, err := e.config.Store.KeepSetting(ctx, settingAdminKey, []byte(hex.EncodeToString(mine[:])))
	if err != nil {
		return auth.Hash{}, fmt.Errorf("keep the admin key: %w", err)
	}
	raw, err := hex.DecodeString(string(kept))
	if err != nil || len(raw) != sha256.Size {
		return auth.Hash{}, fmt.Errorf("read the admin key's hash: the setting %s is not one", settingAdminKey)
	}
	if hash := auth.Hash(raw); hash != mine {
		return hash, nil
	}
	e.madeAdminKey = made
	return mine, nil
}

// MadeAdminKey returns the admin key that New made, because none was given and
// this was the first start on the database; else "". It can be had only now.
func (e *Engine) MadeAdminKey() string { return e.madeAdminKey }

// HTTPHandler returns the HTTP API, and beside it, at /in/ and the id of a source,
// what takes the webhooks of providers. Requests are answered 503 until Run is ready.
// It bounds the time that a body may take; the time of headers and of answers that
// nobody reads are the server's: give it a ReadHeaderTimeout and a WriteTimeout, which
// does not cut streams.
func (e *Engine) HTTPHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, inhttp.PathPrefix) {
			e.sources.ServeHTTP(w, r)
			return
		}
		e.handler.ServeHTTP(w, r)
	})
}

// CloseStreams ends the answers to GET /v1/stream, which go on for as long as
// their clients stay: a server that shuts down would wait for them. Give it to
// [http.Server.RegisterOnShutdown]. Run does it when its context ends.
func (e *Engine) CloseStreams() { e.stream.Close() }

// Ready returns nil when events can be accepted and delivered and no relay of an outbox is
// stuck, else why not.
func (e *Engine) Ready() error {
	if err := e.pipeline.Ready(); err != nil {
		return err
	}
	return e.relaysReady()
}

// Run accepts and delivers until ctx ends. Attempts under way then have ShutdownTimeout
// to end. Run returns an error if it could not begin. Call it once.
func (e *Engine) Run(ctx context.Context) error {
	defer e.sender.Close()
	defer e.stream.Close()
	defer context.AfterFunc(ctx, e.stream.Close)()
	err := e.keepHandlers(ctx)
	if err == nil {
		err = e.runAll(ctx)
	}
	if err != nil && ctx.Err() != nil {
		// These errors are of the beginning only: it was told to end before it had
		// begun, and a driver's word for that is not always ctx's.
		e.config.Log.InfoContext(ctx, "stopped before the start was complete", "err", err)
		return nil
	}
	return err
}
