package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/posthaste-dev/posthaste/internal/config"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/postgres"
	"github.com/posthaste-dev/posthaste/sqlite"
)

// database is what both drivers are.
type database interface {
	store.Store
	// Migrate runs the migrations that the database lacks.
	Migrate(ctx context.Context) error
	// CheckSchema fails unless the database lacks no migration.
	CheckSchema(ctx context.Context) error
}

// openDatabase opens the database that the configuration names. log is told
// what no caller can be told.
func openDatabase(ctx context.Context, d config.Database, log *slog.Logger) (database, error) {
	if d.IsPostgres() {
		db, err := postgres.Open(ctx, postgres.Config{URL: d.Name, DirectURL: d.Direct})
		if err != nil {
			return nil, err
		}
		return db, nil
	}
	db, err := sqlite.Open(ctx, sqlite.Config{Path: d.Name, Logger: log})
	if err != nil {
		return nil, err
	}
	return db, nil
}

// openToLook opens the database without changing it: on SQLite beside the
// process that serves it. It fails unless the database has this program's schema.
func openToLook(ctx context.Context, d config.Database) (database, error) {
	if d.IsPostgres() {
		return openWithSchema(ctx, d, config.MigrateCheck, nil)
	}
	db, err := sqlite.Open(ctx, sqlite.Config{Path: d.Name, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	return withSchema(ctx, db, config.MigrateCheck)
}

// openWithSchema opens the database and migrates or checks its schema.
func openWithSchema(ctx context.Context, d config.Database, m config.Migrate, log *slog.Logger) (database, error) {
	db, err := openDatabase(ctx, d, log)
	if err != nil {
		return nil, err
	}
	return withSchema(ctx, db, m)
}

// withSchema migrates or checks the schema of an open database, and closes it if that fails.
func withSchema(ctx context.Context, db database, m config.Migrate) (database, error) {
	var err error
	switch m {
	case config.MigrateAuto:
		err = db.Migrate(ctx)
	case config.MigrateCheck:
		err = db.CheckSchema(ctx)
	case config.MigrateOff:
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// awaitDatabase does the same, and waits for a database that is away: after a
// power cut everything starts at once, and the database takes longest. What
// waiting cannot cure is an error at once.
func awaitDatabase(ctx context.Context, d config.Database, m config.Migrate, log *slog.Logger) (database, error) {
	const longest = 10 * time.Second
	for wait := 500 * time.Millisecond; ; wait = min(2*wait, longest) {
		db, err := openWithSchema(ctx, d, m, log)
		if err == nil || !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrForeignSchema) || ctx.Err() != nil {
			return db, err
		}
		log.WarnContext(ctx, "the database is away, trying again", "err", err, "wait", wait.String())
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}
