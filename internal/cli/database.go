package cli

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"github.com/posthaste-dev/posthaste"
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

// requireFile refuses an SQLite file that does not exist: a command that was not asked to
// make a database must not make an empty one where the path is wrong.
func requireFile(d config.Database) error {
	if d.IsPostgres() {
		return nil
	}
	_, err := os.Stat(d.Name)
	if !errors.Is(err, fs.ErrNotExist) {
		return nil // whatever else is wrong, opening it says so
	}
	if !d.IsNamed {
		return &posthaste.Error{
			Code: posthaste.CodeNotFound, Message: "no database is named, and there is no file " + d.Name + " in this folder",
			Hint: "name the database with --db or POSTHASTE_DB: a postgres:// URL, or the path of an SQLite file",
		}
	}
	return &posthaste.Error{
		Code: posthaste.CodeNotFound, Message: "there is no file " + d.Name,
		Hint: `give the path of an existing database; "posthaste serve" and "posthaste migrate" make a new one that --db names`,
	}
}

// openToLook opens the database without changing it: on SQLite beside the
// process that serves it. It fails unless the database has this program's schema.
func openToLook(ctx context.Context, d config.Database) (database, error) {
	if d.IsPostgres() {
		return openWithSchema(ctx, d, config.MigrateCheck, nil)
	}
	if err := requireFile(d); err != nil {
		return nil, err
	}
	db, err := sqlite.Open(ctx, sqlite.Config{Path: d.Name, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	return withSchema(ctx, db, config.MigrateCheck)
}

// openWithSchema opens the database and migrates or checks its schema.
func openWithSchema(ctx context.Context, d config.Database, m config.Migrate, log *slog.Logger) (database, error) {
	if m != config.MigrateAuto {
		if err := requireFile(d); err != nil {
			return nil, err
		}
	}
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
