package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/posthaste-dev/posthaste/internal/config"
	"github.com/posthaste-dev/posthaste/postgres"
	"github.com/posthaste-dev/posthaste/sqlite"
)

type migrateCommand struct {
	Apply migrateApply `cmd:"" default:"withargs" help:"Run the migrations that the database lacks. The server does it at start."`
	Print migratePrint `cmd:"" help:"Print the schema's SQL for the kind of database in --db. Does not connect."`
}

type migrateApply struct {
	config.DatabaseFlags
}

// Run migrates the database.
func (c *migrateApply) Run(ctx context.Context, s Streams) error {
	d, err := c.Parse()
	if err != nil {
		return err
	}
	if !d.IsNamed { // a new file is made only where one was asked for
		if err := requireFile(d); err != nil {
			return err
		}
	}
	db, err := openWithSchema(ctx, d, config.MigrateAuto, nil)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	_, err = fmt.Fprintln(s.Stdout, "the database has this version's schema")
	return err
}

type migratePrint struct {
	config.DatabaseFlags
}

// Run prints the schema.
func (c *migratePrint) Run(s Streams) error {
	d, err := c.Parse()
	if err != nil {
		return err
	}
	schema := new(sqlite.DB).SchemaSQL()
	if d.IsPostgres() {
		schema = new(postgres.DB).SchemaSQL()
	}
	_, err = io.WriteString(s.Stdout, schema)
	return err
}
