package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/postgres"
	"github.com/posthaste-dev/posthaste/sqlite"
)

// keys are the engine's. They are made on the first start and kept beside the data.
type keys struct {
	MasterKey string `json:"master_key"` // the base64 of 32 bytes
	AdminKey  string `json:"admin_key"`
}

// readKeys takes the keys from the environment, as replicas on several machines
// need it, else from the folder for data.
func readKeys(c *Config) error {
	if c.MasterKey == "" {
		c.MasterKey, c.AdminKey = os.Getenv("DM_INBOX_MASTER_KEY"), os.Getenv("DM_INBOX_ADMIN_KEY")
	}
	if c.MasterKey != "" && c.AdminKey != "" {
		return nil
	}
	file := filepath.Join(c.Data, "keys.json")
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	made, err := json.Marshal(keys{MasterKey: base64.StdEncoding.EncodeToString(secret), AdminKey: "adm_" + rand.Text()})
	if err != nil {
		return err
	}
	if err := writeOnce(file, made); err != nil {
		return fmt.Errorf("keep the keys: %w", err)
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the keys: %w", err)
	}
	var k keys
	if err := json.Unmarshal(kept, &k); err != nil {
		return fmt.Errorf("read the keys in %s: %w", file, err)
	}
	c.MasterKey, c.AdminKey = k.MasterKey, k.AdminKey
	return nil
}

// writeOnce makes a file whole, unless there is one: two replicas may start at once.
func writeOnce(file string, text []byte) error {
	draft, err := os.CreateTemp(filepath.Dir(file), "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	_, err = draft.Write(text)
	err = errors.Join(err, draft.Close())
	if err != nil {
		return err
	}
	if err := os.Link(draft.Name(), file); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// engineStore is the engine's database, whichever it is.
type engineStore interface {
	engine.Store
	Close() error
}

func openEngineStore(ctx context.Context, c Config) (engineStore, error) {
	if isPostgres(c.Database) {
		db, err := postgres.Open(ctx, postgres.Config{URL: c.Database})
		if err != nil {
			return nil, err
		}
		if err := db.Migrate(ctx); err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return db, nil
	}
	db, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(c.Data, "engine.db")})
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// appDatabase is the inbox's own: a file beside the engine's, or a schema beside its tables.
func (c Config) appDatabase() string {
	if c.Database != "" {
		return c.Database
	}
	return filepath.Join(c.Data, "inbox.db")
}

// databaseName is for a log, so without a password.
func (c Config) databaseName() string {
	if c.Database != "" {
		return "postgres"
	}
	return filepath.Join(c.Data, "inbox.db")
}

// seedDemo connects accounts of two companies. In a real program they come with the
// login at Meta, which also gives the token and the person.
func (s *Store) seedDemo(ctx context.Context) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		for _, a := range []Account{
			{ID: "17841400000000001", Tenant: "acme", Platform: "instagram", Name: "Acme Shoes", OwnerID: "500001"},
			{ID: "1000001", Tenant: "acme", Platform: "facebook", Name: "Acme Shoes Page", OwnerID: "500001"},
			{ID: "17841400000000002", Tenant: "globex", Platform: "instagram", Name: "Globex Travel", OwnerID: "500002"},
			{ID: "1000002", Tenant: "globex", Platform: "facebook", Name: "Globex Travel Page", OwnerID: "500002"},
		} {
			_, err := tx.ExecContext(ctx, `
				INSERT INTO accounts (id, tenant, platform, name, token, owner_id) VALUES ($1, $2, $3, $4, 'demo-token', $5)
				ON CONFLICT (id) DO NOTHING`, a.ID, a.Tenant, a.Platform, a.Name, a.OwnerID)
			if err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO agents (name, tenant) VALUES ('amir', 'acme'), ('anna', 'acme'), ('gina', 'globex') ON CONFLICT (name) DO NOTHING`)
		return err
	})
}

func (s *Store) tenants(ctx context.Context) ([]string, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT DISTINCT tenant FROM accounts ORDER BY tenant`)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(tenant *string) []any { return []any{tenant} })
}
