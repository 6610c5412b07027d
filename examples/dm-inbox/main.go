// Command dm-inbox is a small inbox for the direct messages of Instagram and
// Facebook accounts of several companies, with the engine embedded: it takes Meta's
// webhooks, keeps conversations in tables of its own, shows them live in browsers,
// and sends what agents answer.
//
//	go run ./examples/dm-inbox
//
// Read it in this order: main.go, handle.go (what Meta sends), lead.go, message.go,
// fact.go and waiting.go (the tables), live.go (what browsers are told), intent.go,
// reply.go, web.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/client"
	"github.com/posthaste-dev/posthaste/engine"
)

// Config is what can be set.
type Config struct {
	Address     string // to listen at
	Data        string // folder for the keys, and the databases unless Database is set
	Database    string // postgres://…; "" for SQLite in Data
	Graph       string // base URL of the Graph API; "demo" for a stand-in within this program
	AppSecret   string // of the Meta app: signs webhooks and callbacks
	VerifyToken string // for Meta's handshake
	PublicURL   string // of this program, for people
	Password    string // of the demo's agents
	Replica     string // name of this process among those on one database
	MasterKey   string // of the engine
	AdminKey    string // of the engine's API
	Retention   time.Duration
	Classify    Classifier
	Now         func() time.Time
	Log         *slog.Logger
}

func main() {
	c := Config{Classify: classifyByWords, Now: time.Now, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	flag.StringVar(&c.Address, "addr", "127.0.0.1:8710", "where to listen")
	flag.StringVar(&c.Data, "data", "dm-inbox-data", "folder for keys and SQLite databases")
	flag.StringVar(&c.Database, "db", "", "postgres://… instead of SQLite")
	flag.StringVar(&c.Graph, "graph", "demo", "base URL of the Graph API, such as https://graph.facebook.com/v23.0; demo: a stand-in")
	flag.StringVar(&c.VerifyToken, "verify-token", "demo-verify-token", "for Meta's handshake")
	flag.StringVar(&c.PublicURL, "public-url", "", "of this program, for people (default: http:// and -addr)")
	flag.StringVar(&c.Replica, "replica", "", "name of this process among those on one database")
	flag.DurationVar(&c.Retention, "retention", 30*24*time.Hour, "how long the engine keeps events")
	flag.Parse()
	c.AppSecret = fromEnv("DM_INBOX_APP_SECRET", "demo-app-secret-of-dm-inbox")
	c.Password = fromEnv("DM_INBOX_PASSWORD", "demo")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, c)
	stop()
	if err != nil {
		c.Log.ErrorContext(ctx, "stopped", "err", err)
		os.Exit(1)
	}
}

// fromEnv is for what must not show in a list of processes.
func fromEnv(name, other string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return other
}

// Inbox is the whole program.
type Inbox struct {
	config Config
	log    *slog.Logger
	store  *Store
	engine *engine.Engine
	api    http.Handler // the engine's
	graph  Graph
	source string // path of Meta's source in the engine; see takeMeta
	ready  chan struct{}
}

// run serves until ctx ends.
func run(ctx context.Context, c Config) error {
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return fmt.Errorf("make the folder for data: %w", err)
	}
	if err := readKeys(&c); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Address)
	if err != nil {
		return err
	}
	c.Address = listener.Addr().String()
	if c.PublicURL == "" {
		c.PublicURL = "http://" + c.Address
	}
	db, err := openEngineStore(ctx, c)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer db.Close()
	in, err := newInbox(ctx, c, db)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer in.store.Close()
	return in.serve(ctx, listener)
}

// newInbox makes the parts.
func newInbox(ctx context.Context, c Config, db engineStore) (*Inbox, error) {
	in := &Inbox{config: c, log: c.Log, ready: make(chan struct{})}
	base := c.Graph
	if base == "demo" {
		base = "http://" + c.Address + "/demo-graph"
	}
	in.graph = Graph{base: strings.TrimRight(base, "/"), http: &http.Client{Timeout: 10 * time.Second}}
	var err error
	if in.store, err = openStore(ctx, c.appDatabase()); err != nil {
		return nil, err
	}
	if err := in.store.seedDemo(ctx); err != nil {
		return nil, errors.Join(err, in.store.Close())
	}
	in.engine, err = engine.New(ctx, engine.Config{
		Store: db, MasterKey: c.MasterKey, AdminKey: c.AdminKey, Replica: c.Replica, Retention: c.Retention, Log: c.Log, Version: "dm-inbox",
	})
	if err == nil {
		err = in.handlers(in.engine)
	}
	if err != nil {
		return nil, errors.Join(err, in.store.Close())
	}
	in.api = in.engine.HTTPHandler()
	return in, nil
}

// serve answers requests and runs the engine until ctx ends.
func (in *Inbox) serve(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// The engine ends after the server: a webhook that is being taken gets its answer.
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	server := &http.Server{Handler: in.routes(), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 5 * time.Minute}
	server.RegisterOnShutdown(in.engine.CloseStreams) // they would go on for as long as browsers stay
	served, ran := make(chan error, 1), make(chan error, 1)
	go func() { defer stop(); served <- server.Serve(listener) }()
	go func() { defer stop(); ran <- in.engine.Run(engineCtx) }()
	failed := in.start(ctx)
	if failed != nil && ctx.Err() == nil {
		stop()
	} else {
		failed = nil // it was told to end, and the rest says why
	}
	<-ctx.Done()
	grace, cancel := context.WithTimeout(engineCtx, 10*time.Second)
	defer cancel()
	err := errors.Join(failed, server.Shutdown(grace))
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	stopEngine()
	return errors.Join(err, <-ran)
}

// start makes, once the engine is ready, what it has to know: the tenants and the source that
// Meta's webhooks come in through. The same calls again, by any replica, change nothing.
func (in *Inbox) start(ctx context.Context) error {
	for tick := time.Tick(20 * time.Millisecond); in.engine.Ready() != nil; {
		select {
		case <-tick:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	api, err := client.New(client.Config{Server: "http://" + in.config.Address, Key: in.config.AdminKey, Tenant: posthaste.TenantDefault})
	if err != nil {
		return err
	}
	tenants, err := in.store.tenants(ctx)
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		if _, err := api.Tenants.Put(ctx, tenant, client.NewTenant{Name: tenant}); err != nil {
			return fmt.Errorf("make the tenant %s: %w", tenant, err)
		}
	}
	source, err := api.Sources.Put(ctx, "meta", client.NewSource{
		Name: "Meta", Provider: "meta", Secrets: []string{in.config.AppSecret},
		Settings: map[string]string{"verify_token": in.config.VerifyToken},
	})
	if err != nil {
		return fmt.Errorf("make the source: %w", err)
	}
	in.source = source.URL
	close(in.ready)
	in.log.InfoContext(ctx, "ready", "inbox", in.config.PublicURL, "webhook", in.config.PublicURL+webhookPath, "source", source.URL, "database", in.config.databaseName())
	if err := in.resumeReplies(ctx); err != nil {
		in.log.WarnContext(ctx, "replies that wait were not sent", "err", err)
	}
	return nil
}
