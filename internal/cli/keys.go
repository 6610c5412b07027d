package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/auth"
	"github.com/posthaste-dev/posthaste/internal/config"
	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// keys are the two keys of a server, and where they came from.
type keys struct {
	admin, master string
	adminFile     string // the file that holds the admin key; "" if it was given
	adminIsNew    bool
}

// serverKeys returns the keys that the configuration gives, and on SQLite those
// in the files beside the database, made on the first start. With PostgreSQL the
// admin key may stay empty: the engine then makes one.
func serverKeys(ctx context.Context, c config.Config, db database) (keys, error) {
	k := keys{admin: c.AdminKey, master: c.MasterKey}
	if c.Database.IsPostgres() {
		return k, nil
	}
	if k.admin == "" {
		k.adminFile = c.Database.Name + ".admin-key"
		value, isNew, err := keepInFile(k.adminFile, auth.NewKey)
		if err != nil {
			return keys{}, fmt.Errorf("keep the admin key: %w", err)
		}
		if err := auth.CheckKey(value); err != nil {
			return keys{}, fmt.Errorf("read the admin key from %s: %w", k.adminFile, err)
		}
		k.admin, k.adminIsNew = value, isNew
	}
	if k.master == "" {
		value, err := masterKeyFile(ctx, c.Database.Name+".master-key", db)
		if err != nil {
			return keys{}, err
		}
		k.master = value
	}
	return k, nil
}

// masterKeyFile reads the master key from its file, or makes one. It makes none
// for a database that was sealed with another: a lost file must be told from a
// first start, and must not be replaced by one that opens nothing.
func masterKeyFile(ctx context.Context, name string, db database) (string, error) {
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		_, err := db.Setting(ctx, engine.SettingMasterKeyID)
		if err == nil {
			return "", fmt.Errorf("read the master key: %s is missing, and the secrets in the database are sealed with it; "+
				"bring it back, or give the key with POSTHASTE_MASTER_KEY", name)
		}
		if !errors.Is(err, store.ErrNotFound) {
			return "", fmt.Errorf("look for an earlier master key: %w", err)
		}
	}
	value, _, err := keepInFile(name, keyring.Generate)
	if err != nil {
		return "", fmt.Errorf("keep the master key: %w", err)
	}
	return value, nil
}

// keepInFile returns what the file holds. If there is no file, it is made, for
// its owner only, with what generate returns.
func keepInFile(name string, generate func() string) (value string, isNew bool, err error) {
	raw, err := os.ReadFile(name)
	if err == nil {
		return strings.TrimSpace(string(raw)), false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	value = generate()
	// Written beside it and renamed: a crash leaves no empty file behind, which
	// would be taken for a key at the next start.
	file, err := os.CreateTemp(filepath.Dir(name), ".posthaste-key-*") // mode 0600
	if err != nil {
		return "", false, err
	}
	_, err = file.WriteString(value + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return "", false, errors.Join(err, os.Remove(file.Name()))
	}
	return value, true, nil
}
